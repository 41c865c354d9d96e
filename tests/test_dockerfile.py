"""The steps of the Dockerfile, run in a virtual environment without torch; no Docker daemon is needed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest

from fewbits import Document, SearchEngine

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
ENVIRONMENT = dict(os.environ)  # of the session: tests block the network, which pip may need

Step = tuple[str, str]  # instruction and its arguments


def read_steps() -> list[Step]:
    joined = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def last(instruction: str) -> str:
    return [rest for name, rest in read_steps() if name == instruction][-1]


def named_extras() -> set[str]:
    [names] = re.findall(r"\*\.whl\)\[([^\]]+)\]", (ROOT / "Dockerfile").read_text())
    return set(names.split(","))


def read_project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def known_extras() -> set[str]:
    return set(read_project()["optional-dependencies"])


needs_service = pytest.mark.skipif(
    not named_extras() <= known_extras(), reason="pyproject.toml lacks an extra of the Dockerfile"
)


class Image:
    """Folder that replaces the root of a container, with a virtual environment as its Python."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root
        venv.create(root / "python", with_pip=True)
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PIP_CONSTRAINT")
        self.environment = {name: value for name, value in ENVIRONMENT.items() if name not in hidden}
        self.environment["PATH"] = f"{root / 'python' / 'bin'}{os.pathsep}{ENVIRONMENT['PATH']}"

    def inside(self, text: str) -> str:
        """Replace the paths of the container by those of the folder."""
        return re.sub(r"(?<![\w.:/])/(?=(?:source|wheels|engine)\b)", f"{self.root}/", text)

    def do(self, instruction: str, rest: str) -> None:
        if instruction == "WORKDIR":
            self.folder = Path(self.inside(rest))
            self.folder.mkdir(parents=True)
        elif instruction == "COPY":
            self.copy(rest)
        elif instruction == "RUN" and not rest.startswith("useradd"):
            extras = ",".join(sorted(named_extras() & known_extras()))
            command = re.sub(r"\.whl\)\[[^\]]+\]", f".whl)[{extras}]" if extras else ".whl)", self.inside(rest))
            subprocess.run(["sh", "-ec", command], cwd=self.folder, env=self.environment, check=True)

    def copy(self, rest: str) -> None:
        words = shlex.split(rest)
        is_from_stage = words[0].startswith("--from=")
        *sources, target = words[1:] if is_from_stage else words
        place = Path(self.inside(target)) if target.startswith("/") else self.folder / target
        for source in sources:
            path = Path(self.inside(source)) if is_from_stage else ROOT / source
            if path == place:
                continue  # both stages share the folder
            if path.is_dir():
                shutil.copytree(path, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)

    def run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    image = Image(tmp_path_factory.mktemp("image"))
    for instruction, rest in read_steps():
        image.do(instruction, rest)
    return image


@pytest.fixture(scope="module")
def engine_folder(image: Image, documents: list[Document]) -> Path:
    """Save an engine trained with torch where the container expects it."""
    SearchEngine.from_documents(documents, n_bits=20).save(image.root / "engine")
    return image.root / "engine"


@pytest.mark.slow
@pytest.mark.xdist_group("dockerfile")
def test_the_image_has_the_wheel_at_the_pinned_versions_and_no_torch(image: Image) -> None:
    installed = {
        package["name"].lower().replace("_", "-"): package["version"]
        for package in json.loads(image.run("pip", "list", "--format=json", "--disable-pip-version-check"))
    }
    pinned = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text().split())
    assert "torch" not in installed
    assert "fewbits" in installed
    ours = set(installed) - {"fewbits", "pip", "setuptools"}
    assert {name: installed[name] for name in ours} == {name: pinned.get(name) for name in ours}
    place = image.run("python", "-c", "import fewbits; print(fewbits.__file__)")
    assert Path(place.strip()).is_relative_to(image.root)


@pytest.mark.slow
@pytest.mark.xdist_group("dockerfile")
def test_the_image_searches_an_engine_trained_with_torch(image: Image, engine_folder: Path) -> None:
    answer = json.loads(image.run("fewbits", "search", str(engine_folder), "boat and harbour", "-k", "3", "--json"))
    expected = SearchEngine.load(engine_folder).search("boat and harbour", 3)
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in expected]


@pytest.mark.slow
@pytest.mark.xdist_group("dockerfile")
@needs_service
def test_the_image_serves_reports_health_and_stops_on_sigterm(image: Image, engine_folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]
    start = [image.inside(word).replace("8000", port) for word in words]
    check = json.loads(last("HEALTHCHECK").split("CMD ", 1)[1].replace("8000", port))
    environment = {**image.environment, "no_proxy": "*"}
    process = subprocess.Popen(start, cwd=image.root, env=environment, stdout=subprocess.DEVNULL)
    try:
        for _ in range(60):
            assert process.poll() is None, "the service has exited"
            if subprocess.run(check, env=environment, capture_output=True, check=False).returncode == 0:
                break
            time.sleep(1)
        else:
            pytest.fail("the service is not healthy after a minute")
    finally:
        process.terminate()
        code = process.wait(60)
    assert code == 0


def test_the_container_runs_as_an_unprivileged_user() -> None:
    steps = read_steps()
    assert last("USER") == "fewbits"
    assert steps.index(("USER", "fewbits")) > max(number for number, (name, _) in enumerate(steps) if name == "RUN")


def test_the_image_has_a_supported_python() -> None:
    [base] = {rest.split()[0] for name, rest in read_steps() if name == "FROM"}
    assert read_version(base.removeprefix("python:")) >= read_version(read_project()["requires-python"])


def read_version(text: str) -> tuple[int, ...]:
    [found] = re.findall(r"\d+\.\d+", text)
    return tuple(map(int, found.split(".")))
