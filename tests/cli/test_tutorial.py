"""The commands of the tutorial, run in order."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from fewbits import SearchEngine
from fewbits.cli import app

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
NOT_RUN = ("pip ", "docker ")  # tests/test_dockerfile.py installs
TOPICS = {
    "economy": "bank rates interest inflation market bonds shares price budget tax trade growth credit loan",
    "sport": "match goal team coach league player stadium season trophy referee striker fans score training",
    "science": "telescope galaxy planet orbit laboratory physics particle experiment gene cell species climate data",
}


def blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)


def is_about_the_service(block: str) -> bool:
    return "fewbits serve" in block or "curl" in block


def commands(block: str) -> str:
    return "\n".join(line for line in block.splitlines() if not line.startswith(NOT_RUN))


def write_news(path: Path, numbers: range) -> None:
    chance = random.Random(numbers.start)

    def record(number: int) -> dict[str, Any]:
        topic = chance.choice(list(TOPICS))
        words = chance.choices(TOPICS[topic].split(), k=20)
        return {
            "url": f"https://example.org/{number}",
            "title": " ".join(words[:4]),
            "body": " ".join(words[4:]),
            "topic": topic,
            "year": 2020 + number % 6,
        }

    path.write_text("".join(json.dumps(record(number)) + "\n" for number in numbers))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with the files of the tutorial."""
    folder = tmp_path_factory.mktemp("tutorial")
    write_news(folder / "news.jsonl", range(1, 301))
    write_news(folder / "today.jsonl", range(301, 401))
    return folder


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment whose fewbits command runs the tested sources."""
    bin = tmp_path_factory.mktemp("bin")
    (bin / "fewbits").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fewbits "$@"\n')
    (bin / "fewbits").chmod(0o755)
    return {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def outputs(folder: Path, shell: dict[str, str]) -> dict[str, str]:
    """Run all blocks except those about the service, and return their output."""
    printed = {}
    for block in blocks():
        if not is_about_the_service(block) and commands(block):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands(block)],
                cwd=folder,
                env=shell,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            printed[block] = done.stdout
    return printed


def printed_by(outputs: dict[str, str], beginning: str) -> str:
    return next(text for block, text in outputs.items() if block.startswith(beginning))


@pytest.mark.slow
@pytest.mark.xdist_group("tutorial")
def test_the_commands_of_the_tutorial_succeed_in_order(outputs: dict[str, str], folder: Path) -> None:
    assert len(outputs) >= 12
    assert "Encoded 300 documents with" in printed_by(outputs, "fewbits fit")
    assert printed_by(outputs, "fewbits search").count("economy") >= 4  # of 5 hits
    assert printed_by(outputs, "fewbits similar").count("/64  ") == 5
    assert "Added 100 documents; the engine now has 400" in printed_by(outputs, "fewbits add")
    assert "Removed 2 documents; the engine now has 398" in printed_by(outputs, "fewbits add")
    assert "retraining is not needed" in printed_by(outputs, "fewbits info")
    assert "Use " in printed_by(outputs, "fewbits bench own")
    assert len((folder / "answers.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.xdist_group("tutorial")
def test_the_files_of_the_tutorial_have_the_described_content(outputs: dict[str, str], folder: Path) -> None:
    engine = SearchEngine.load(folder / "news-engine")
    ids = [json.loads(line) for line in (folder / "codes.npy.ids.jsonl").read_text().splitlines()]
    assert np.array_equal(np.load(folder / "codes.npy"), engine.codes(ids))
    assert faiss.read_index_binary(str(folder / "codes.faiss")).ntotal == 398
    assert "Precision at 10 by codes alone" in (folder / "CARD.md").read_text()  # measured on the 100 added documents


@pytest.fixture
def served(outputs: dict[str, str], folder: Path, shell: dict[str, str]) -> Iterator[str]:
    """Start the service as the tutorial does, on a free port, and return its address."""
    if "serve" not in [command.name or command.callback.__name__ for command in app.registered_commands]:  # type: ignore[union-attr]
        pytest.skip("the serve command is missing")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    [start] = [commands(block) for block in blocks() if "fewbits serve" in block]
    process = subprocess.Popen(["bash", "-c", f"exec {start.replace('8000', port)}"], cwd=folder, env=shell)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/readyz", process)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(600):
        assert process.poll() is None, "the service has exited"
        try:
            opener.open(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the service is not ready after a minute")


@pytest.mark.slow
@pytest.mark.xdist_group("tutorial")
def test_the_service_of_the_tutorial_answers(served: str, folder: Path, shell: dict[str, str]) -> None:
    [ask] = [block for block in blocks() if "curl" in block]
    request = ask.replace("127.0.0.1:8000", served.removeprefix("http://"))
    done = subprocess.run(
        ["bash", "-c", request], cwd=folder, env={**shell, "no_proxy": "*"}, capture_output=True, check=True
    )
    assert len(json.loads(done.stdout)["hits"]) == 3
