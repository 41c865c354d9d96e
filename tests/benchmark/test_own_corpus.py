"""Comparison of methods on a user's corpus: a recommendation, or an error before any training."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fewbits import ITQ
from fewbits.cli import app
from fewbits.data.datasets import assign_split
from fewbits.hashers.registry import HASHERS
from helpers.corpora import TOPICS

FAST = ("--method", "lsh", "--method", "pairwise", "--bits", "8", "--bits", "16")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Write short texts about three topics, each with words that are independent of the topic."""
    generator = random.Random(0)
    noise = [f"{a}{b}" for a in ("ab", "cd", "ef", "gh") for b in ("ly", "ness", "ing", "er")]
    records = []
    for number in range(240):
        topic = list(TOPICS)[number % 3]
        words = generator.sample(TOPICS[topic].split(), 6) + generator.sample(noise, 6)
        records.append({"key": f"d{number}", "body": " ".join(words), "topic": topic})
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "own", *arguments])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
def test_a_corpus_with_labels_gives_a_recommendation_with_costs(corpus: Path) -> None:
    done = bench(str(corpus), "--text", "body", "--label", "topic", *FAST, "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    quality = {(one["method"], one["bits"]): one["quality"] for one in content["candidates"]}
    assert set(quality) == {(method, bits) for method in ("lsh", "pairwise") for bits in (8, 16)}
    chosen = content["recommendation"]["chosen"]
    assert (chosen["method"], chosen["bits"], chosen["bytes_per_document"]) == ("pairwise", 8, 1)
    assert quality["pairwise", 8] > 0.95 > quality["lsh", 8] > content["recommendation"]["floor"]
    assert chosen["seconds_learning"] > 0
    assert chosen["milliseconds_per_query"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fewbits.hashers._neural.ConstantBitsWarning")
def test_a_corpus_with_pairs_gives_a_recommendation(corpus: Path, tmp_path: Path) -> None:
    generator = random.Random(1)
    lines = ["left,right,same"]
    for number in range(400):
        left, right = generator.sample(range(240), 2)
        right = right if number % 2 else (right - right % 3 + left % 3)
        if left != right:
            lines.append(f"d{left},d{right},{'yes' if left % 3 == right % 3 else 'no'}")
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    options = ("--text", "body", "--id", "key", "--pairs", str(tmp_path / "pairs.csv"))
    done = bench(str(corpus), *options, "--method", "itq", "--method", "pairwise", "--bits", "16")
    assert done.exit_code == 0, done.output
    output = " ".join(done.stdout.split())
    assert "Use pairwise with 16 bits: share of pairs in the right order" in output
    assert "2 bytes per document" in output
    assert "It is trained on texts and pairs" in output


def test_labels_unrelated_to_the_texts_give_no_recommendation(corpus: Path) -> None:
    generator = random.Random(2)
    records = [{**json.loads(line), "topic": generator.choice("ab")} for line in corpus.read_text().splitlines()]
    corpus.write_text("\n".join(map(json.dumps, records)))
    several = [option for bits in (8, 16, 24, 32, 64) for option in ("--bits", str(bits))]
    options = (str(corpus), "--text", "body", "--label", "topic", "--method", "lsh", "--method", "itq", *several)
    output = " ".join(bench(*options).stdout.split())
    assert "Codes are not useful for these texts: even the best candidate, " in output
    assert "Use" not in output
    assert json.loads(bench(*options, "--json").stdout)["recommendation"]["helps"] is False


@pytest.mark.parametrize(
    ("broken", "options", "message"),
    [
        ("{oops", (), "line 241 is not JSON"),
        ('{"key": "x", "topic": "a", "body": 5}', (), "line 241: field 'body' is not a text"),
        ("", ("--label", "key2"), "has no field 'key2'"),
        ("", ("--bits", "0"), "code length"),
        ("", ("--bits", "16", "--bits", "0"), "code length"),
        ("", ("--method", "lsh", "--method", "magic"), "unknown method"),
        (
            "",
            ("--method", "lsh", "--method", "ksh", "--pairs", "PAIRS"),
            "ksh needs labels and cannot be fitted on pairs",
        ),
        ("", ("--pairs", "PAIRS", "--label", "topic"), "codes are evaluated by labels or by pairs"),
        ("", ("--pairs", "PAIRS"), "line 2: field 'same' is not yes or no"),
    ],
)
def test_an_invalid_file_or_option_is_reported_before_any_training(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, options: tuple[str, ...], message: str
) -> None:
    def fit(*_: object) -> None:
        raise AssertionError("a hasher was fitted")

    for hasher in HASHERS.values():
        monkeypatch.setattr(hasher, "fit", fit)
    corpus.write_text(corpus.read_text() + "\n" + broken)
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("left,right,same\nd1,d2,perhaps\n")
    given = [str(pairs) if option == "PAIRS" else option for option in options]
    evaluated_by = () if "--pairs" in options else ("--label", "topic")
    done = bench(str(corpus), "--text", "body", *evaluated_by, *given)
    assert done.exit_code == 1
    assert message in str(done.exception)
    assert done.stdout == ""


def rewritten(corpus: Path, change: Callable[[int, dict[str, str]], dict[str, str]]) -> list[str]:
    """Change each record of the corpus and return the options that name its fields."""
    records = [change(number, json.loads(line)) for number, line in enumerate(corpus.read_text().splitlines())]
    corpus.write_text("\n".join(map(json.dumps, records)))
    return [str(corpus), "--text", "body", "--label", "topic"]


def test_a_label_that_only_queries_have_is_refused_before_any_training(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ITQ, "fit", None)
    a_query = next(number for number in range(240) if assign_split("own", number, (0.8, 0.8)) == "test")
    options = rewritten(corpus, lambda number, record: {**record, "topic": "b" if number == a_query else "a"})
    done = bench(*options, "--method", "itq")
    assert "too few labels or queries remain after a fifth of the documents are held out" in str(done.exception)
    assert "labels among the training documents: 1" in str(done.exception)


def test_documents_without_a_label_are_fitted_on_but_not_searched(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training_sizes: list[int] = []
    fit = ITQ.fit

    def noted(self: ITQ, X: Any, y: Any = None) -> ITQ:
        training_sizes.append(X.shape[0])
        return fit(self, X, y)

    monkeypatch.setattr(ITQ, "fit", noted)
    options = rewritten(corpus, lambda number, record: {**record, "topic": record["topic"] if number % 2 else ""})
    done = bench(*options, "--method", "itq", "--bits", "16", "--bits", "16", "--json")
    assert done.exit_code == 0, done.output
    queries = sum(assign_split("own", number, (0.8, 0.8)) == "test" for number in range(1, 240, 2))
    assert training_sizes == [240 - queries]  # once, though the length was given twice
    assert json.loads(done.stdout)["recommendation"]["best"]["quality"] > 0.9


def test_texts_in_another_script_need_a_token_pattern(corpus: Path) -> None:
    cyrillic = {ord(letter): chr(0x430 + place) for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
    options = rewritten(corpus, lambda _, record: {**record, "body": record["body"].translate(cyrillic)})
    options += ["--method", "itq", "--bits", "16"]
    assert "token_pattern" in str(bench(*options).exception)
    assert "Use itq with 16 bits" in bench(*options, "--token-pattern", r"\w\w+").stdout


def test_copies_and_repeated_pairs_count_once(corpus: Path, tmp_path: Path) -> None:
    """A pair given in both directions could be in the training and the test part."""
    records = [json.loads(line) for line in corpus.read_text().splitlines()]
    copies = [{**record, "key": f"copy-{record['key']}"} for record in records]
    corpus.write_text("\n".join(map(json.dumps, records + copies)))
    pairs = [(f"d{left}", f"d{(left + step) % 240}", step % 3 == 0) for left in range(120) for step in (3, 4)]
    repeated = [*pairs, *((right, left, same) for left, right, same in pairs), ("d1", "copy-d1", True)]
    candidates = []
    for number, some in enumerate((pairs, repeated)):
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(["left,right,same", *(f"{a},{b},{same}" for a, b, same in some)]))
        options = (str(corpus), "--text", "body", "--id", "key", "--pairs", str(path), "--method", "itq")
        candidates.append(json.loads(bench(*options, "--bits", "16", "--json").stdout)["candidates"])
    assert [one["quality"] for one in candidates[0]] == [one["quality"] for one in candidates[1]]
    assert [one["error"] for one in candidates[0]] == [one["error"] for one in candidates[1]]  # as many pairs


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        (20, ("--label", "topic"), "too few different documents"),
        (240, (), "too few documents have a label"),
        (240, ("--label", "one"), "all documents have the same label"),
    ],
)
def test_a_corpus_that_cannot_be_evaluated_is_refused(
    corpus: Path, records: int, options: tuple[str, ...], message: str
) -> None:
    lines = [json.dumps({**json.loads(line), "one": "same"}) for line in corpus.read_text().splitlines()]
    corpus.write_text("\n".join(lines[:records]))
    assert message in str(bench(str(corpus), "--text", "body", *options).exception)
