"""Search quality: measures, intervals, collections in BEIR's layout, and the command."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewbits.benchmark.experiments import SearchQuality
from fewbits.benchmark.experiments.judged import Bm25s, bootstrap_interval, measure, read_collection, run_queries
from fewbits.data import Document
from fewbits.errors import DataError, FewbitsError, MissingExtraError
from helpers.corpora import TOPICS, tiny_documents

Judgements = dict[str, dict[str, int]]


def by_hand(answer: list[str], grades: dict[str, int]) -> list[float]:
    """Compute nDCG@10, recall@100 and the reciprocal rank from their definitions."""
    gains = [grades.get(id, 0) for id in answer]
    ideal = sorted(grades.values(), reverse=True)
    dcg, best = (sum(gain / math.log2(place + 2) for place, gain in enumerate(some[:10])) for some in (gains, ideal))
    first = next((place for place, gain in enumerate(gains, 1) if gain), None)
    return [dcg / best, sum(gain > 0 for gain in gains[:100]) / len(grades), 1 / first if first else 0.0]


def test_the_measures_are_those_of_a_calculation_by_hand() -> None:
    judgements = {"q": {"a": 2, "b": 1}, "none": {"a": 1}}
    found = measure([["x", "b", "a"], []], judgements)
    ndcg = (1 / math.log2(3) + 2 / math.log2(4)) / (2 + 1 / math.log2(3))
    assert found == pytest.approx(np.array([[ndcg, 0.0], [1.0, 0.0], [0.5, 0.0]]), abs=1e-6)


@given(st.permutations([f"d{number}" for number in range(130)]), st.sets(st.integers(0, 129), min_size=1, max_size=30))
def test_the_measures_agree_with_their_definitions(answer: list[str], relevant: set[int]) -> None:
    grades = {f"d{number}": 1 + number % 3 for number in sorted(relevant)}
    assert measure([answer[:110]], {"q": grades})[:, 0] == pytest.approx(by_hand(answer[:110], grades), abs=1e-6)


def test_an_interval_contains_the_mean_and_shrinks_with_more_queries() -> None:
    values = np.random.default_rng(0).random(1000)
    few, many = bootstrap_interval(values[:50]), bootstrap_interval(values)
    assert few[0] < values[:50].mean() < few[1]
    assert many[0] < values.mean() < many[1]
    assert many[1] - many[0] < (few[1] - few[0]) / 3
    standard_error = values.std() / 1000**0.5
    assert many == pytest.approx(
        [values.mean() - 1.96 * standard_error, values.mean() + 1.96 * standard_error], abs=2e-3
    )


def test_bm25s_finds_documents_with_a_word_of_the_query() -> None:
    peer = Bm25s([Document("a", "two boats"), Document("b", "three stars"), Document("c", "one boat and a boat")])
    assert peer.find("boats", 3) == ["c", "a"]
    assert run_queries(peer.find, ["zyzzyva", "", "the of"], 3)[0] == [[], [], []]


def write_collection(folder: Path, judgements: Judgements | None = None) -> Path:
    documents = tiny_documents()
    queries = {f"q-{topic}": " ".join(words.split()[:3]) for topic, words in TOPICS.items()} | {"unjudged": "a query"}
    if judgements is None:
        judgements = {f"q-{topic}": {str(one.id): 1 for one in documents if one.labels == (topic,)} for topic in TOPICS}
    (folder / "qrels").mkdir(parents=True)
    records = [{"_id": one.id, "title": "", "text": one.text} for one in documents]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    lines = [json.dumps({"_id": id, "text": text}) + "\n" for id, text in queries.items()]
    (folder / "queries.jsonl").write_text("".join(lines))
    rows = [f"{query}\t{id}\t{grade}\n" for query, graded in judgements.items() for id, grade in graded.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    return folder


def test_a_collection_has_its_judged_queries(tmp_path: Path) -> None:
    collection = read_collection(write_collection(tmp_path / "tiny"))
    assert (collection.name, len(collection.documents), collection.n_judgements) == ("tiny", 60, 60)
    assert list(collection.queries) == list(collection.judgements) == [f"q-{topic}" for topic in TOPICS]
    assert collection.without_judgements == 1


def test_a_title_comes_before_the_text(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "tiny", {"unjudged": {"7": 1}})
    (folder / "corpus.jsonl").write_text('{"_id": 7, "title": "Cats", "text": "purr"}\n{"_id": "8", "text": "only"}\n')
    collection = read_collection(folder)
    assert [(one.id, one.text) for one in collection.documents] == [("7", "Cats\npurr"), ("8", "only")]


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named_with_the_layout(tmp_path: Path, name: str) -> None:
    folder = write_collection(tmp_path / "tiny")
    (folder / name).unlink()
    with pytest.raises(FewbitsError, match=rf"{name} does not exist \(allowed: a folder with corpus.jsonl, queries"):
        read_collection(folder)
    with pytest.raises(FewbitsError, match="absent is not a folder"):
        read_collection(tmp_path / "absent")


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("corpus.jsonl", "{broken", "corpus.jsonl, line 61 is not JSON"),
        ("corpus.jsonl", '{"_id": "x", "text": null}', "line 61: field 'text' is not a text .*got: None"),
        ("corpus.jsonl", '{"text": "words"}', "line 61: field '_id' is not a text .*got: no such field"),
        ("corpus.jsonl", '{"_id": "cooking-0", "text": "again"}', "line 61 has the same _id as .*line 1 "),
        ("queries.jsonl", '{"_id": "unjudged", "text": "again"}', "line 5 has the same _id as .*line 4 "),
        ("qrels/test.tsv", "q-cooking\tcooking-3\tgood", "line 62: field 'score' is not a grade .*got: 'good'"),
        ("qrels/test.tsv", "q-cooking\tcooking-3", "line 62 differs from the header"),
        (
            "qrels/test.tsv",
            "q-baking\tcooking-0\t1",
            "line 62: the query does not exist .*queries.jsonl; got: 'q-baking'",
        ),
        ("qrels/test.tsv", "q-cooking\tnone\t1", "line 62: the document does not exist .*corpus.jsonl; got: 'none'"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, name: str, line: str, message: str) -> None:
    folder = write_collection(tmp_path / "tiny")
    with (folder / name).open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(DataError, match=message):
        read_collection(folder)


def test_a_collection_needs_a_judgement_and_documents(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "tiny", {"q-cooking": {"cooking-0": 0}})
    with pytest.raises(DataError, match=r"no query of .*tiny has a relevant document"):
        read_collection(folder)
    (folder / "corpus.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"corpus.jsonl is empty"):
        read_collection(folder)


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = read_collection(write_collection(tmp_path / "tiny"))
    monkeypatch.setitem(sys.modules, "bm25s", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"Install it: pip install 'fewbits\[retrieval\]'"):
        SearchQuality(collection)


def test_the_command_prints_and_saves_facts_that_the_page_shows(tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "tiny")
    command = [sys.executable, "-m", "fewbits", "bench", "search", str(folder), "--method", "itq", "--weight", "0.5"]
    options = ["--bits", "16", "--bits", "32", "--save", "--results", str(tmp_path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True, timeout=120)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["bits"] for one in printed] == [16, 32]
    facts = SearchQuality.load(tmp_path)
    assert (
        json.loads((tmp_path / "search-quality/search-tiny-itq-16bits-seed0-weight0.5.json").read_text()) == printed[0]
    )
    rankings = {one.name: one for one in facts[0].rankings}
    assert set(rankings) == {"hybrid", "words", "codes", "bm25s", "LSA cosine"}
    assert rankings["words"].recall_at_100[0] == rankings["bm25s"].recall_at_100[0] < 1.0
    assert rankings["codes"].recall_at_100[0] == 1.0  # all documents are among the first 100
    difference = rankings["hybrid"].ndcg_at_10[0] - rankings["bm25s"].ndcg_at_10[0]
    assert facts[0].hybrid_minus_peer["ndcg_at_10"][0] == pytest.approx(difference, abs=2e-4)
    assert facts[0].bytes_per_document["codes"] > 0
    page = SearchQuality.render(facts)
    assert (
        "60 documents, 3 queries, 60 relevant pairs. Queries left out because nothing was judged relevant: 1." in page
    )
    assert "fewbits bench search tiny --bits 16 --seed 0 --method itq --weight 0.5 --save" in page
