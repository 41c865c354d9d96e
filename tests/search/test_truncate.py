"""Engines with nested codes: the length is chosen after training."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbits import Document, SearchEngine, cli
from fewbits.errors import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")


@pytest.fixture(scope="module")
def nested(documents: list[Document]) -> SearchEngine:
    labelled = [replace(one, metadata={"number": number}) for number, one in enumerate(documents)]
    engine = SearchEngine.from_documents(labelled[:-5], n_bits=32, nested=True, method="bernoulli-vae")
    engine.add([*labelled[-5:], Document("empty", "")])
    engine.remove([labelled[3].id])
    return engine


def truncated(engine: SearchEngine, n_bits: int, folder: Path) -> SearchEngine:
    engine.save(folder, n_bits=n_bits)
    return SearchEngine.load(folder)


def by_id(engine: SearchEngine) -> dict[Any, Any]:
    with engine.snapshot() as snapshot:
        encoded = snapshot.encoded_documents()
    return dict(zip(encoded.ids, encoded.codes.tolist(), strict=True))


@pytest.mark.parametrize("n_bits", [8, 16, 32])
def test_the_truncated_engine_has_the_same_documents_with_the_first_bits_of_their_codes(
    nested: SearchEngine, n_bits: int, tmp_path: Path
) -> None:
    short = truncated(nested, n_bits, tmp_path / "short")
    assert short.n_bits == n_bits
    assert list(short.documents()) == list(nested.documents())
    assert by_id(short) == {id: code[: n_bits // 8] for id, code in by_id(nested).items()}
    drift, expected = ({k: v for k, v in one.info()["drift"].items() if "bit" not in k} for one in (short, nested))
    assert drift == expected
    assert drift["new_documents"] == 6
    assert nested.n_bits == 32


def test_a_truncated_engine_searches_and_can_be_changed(nested: SearchEngine, tmp_path: Path) -> None:
    short = truncated(nested, 16, tmp_path / "short")
    hits = short.search("simmer onions and garlic soup", k=3)
    assert [hit.labels for hit in hits] == [("cooking",)] * 3
    assert short.search("soup", where=["number>=1"])
    short.add([Document("new", "simmer onions and garlic soup")])
    assert "new" in short
    assert "new" not in nested
    assert np.array_equal(short.codes(["new"]), nested.encode(["simmer onions and garlic soup"])[:, :2])


def test_a_loaded_engine_can_be_truncated_in_its_own_folder(nested: SearchEngine, tmp_path: Path) -> None:
    codes = by_id(nested)
    nested.save(tmp_path / "engine")
    SearchEngine.load(tmp_path / "engine").save(tmp_path / "engine", n_bits=8)
    assert by_id(SearchEngine.load(tmp_path / "engine")) == {id: code[:1] for id, code in codes.items()}


def test_a_failed_truncation_leaves_the_folder_as_it_was(nested: SearchEngine, tmp_path: Path) -> None:
    nested.save(tmp_path / "engine")
    with pytest.raises(ParameterError, match="allowed: 8, 16, 32"):
        nested.save(tmp_path / "engine", n_bits=24)
    assert by_id(SearchEngine.load(tmp_path / "engine")) == by_id(nested)


def test_engines_whose_codes_are_not_nested_cannot_be_truncated(engine: SearchEngine, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"only a nested code can be truncated.*fit again with n_bits=8"):
        engine.save(tmp_path / "short", n_bits=8)
    assert not (tmp_path / "short").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "itq"}, "no nested codes.*bernoulli-vae"),
        ({"n_bits": 48}, "power of two"),
    ],
)
def test_options_without_nested_codes_are_refused_before_the_fit(options: dict[str, Any], message: str) -> None:
    def texts() -> Any:
        raise AssertionError("the documents are not read")
        yield

    with pytest.raises(ParameterError, match=message):
        SearchEngine.from_documents(texts(), nested=True, **options)


def test_the_commands_fit_truncate_and_encode(
    documents: list[Document],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fewbits", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), *capfd.readouterr()

    source, long, short = (str(tmp_path / name) for name in ("texts.jsonl", "long", "short"))
    Path(source).write_text("\n".join(json.dumps({"id": one.id, "text": one.text}) for one in documents))
    fitted = run("fit", source, "--id", "id", "--output", long, "--nested", "--n-bits", "32")
    assert fitted[0] == 0
    assert run("truncate", long, "--n-bits", "16", "--output", short, "--json") == (
        0,
        json.dumps({"folder": short, "documents": len(documents), "bits": 16}) + "\n",
        "",
    )
    codes: Callable[..., str] = lambda *options: run("encode", *options)[1].strip()  # noqa: E731
    whole = codes(long, "garlic soup")
    assert len(whole) == 8
    assert codes(short, "garlic soup") == codes(long, "garlic soup", "--n-bits", "16") == whole[:4]
    code, _, message = run("encode", long, "garlic soup", "--n-bits", "12")
    assert code == 1
    assert "8, 16, 32" in message
