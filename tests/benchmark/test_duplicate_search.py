from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from fewbits.benchmark.experiments import DuplicateSearch
from fewbits.benchmark.experiments.duplicate_search import SENTENCES, all_pairs, exact_pairs, run_command
from fewbits.benchmark.experiments.edited_copies import EDITED, KINDS, NUMBER, mixed_sentences, with_edits
from fewbits.errors import ParameterError
from fewbits.search.text_differences import same_numbers
from fewbits.search.words import split


def texts_of_random_words(count: int) -> list[str]:
    generator = random.Random(1)
    words = [f"{first}{second}er" for first in "abcdefghijkl" for second in ("bo", "ca", "du", "fi", "go")]
    return [
        ". ".join(" ".join(generator.choices(words, k=9)) for _ in range(3)) + f". Number {number}."
        for number in range(count)
    ]


def test_edited_copies_are_appended_and_only_one_kind_changes_a_number() -> None:
    texts = texts_of_random_words(300)
    edited, counts, originals = with_edits(texts)
    assert edited[:300] == texts
    assert [count for _, count, _ in counts] == [EDITED] * len(KINDS)
    assert len(edited) - 300 == len(originals) == EDITED * len(KINDS)
    copies = iter(zip(edited[300:], originals, strict=True))
    for kind, count, should_be_found in counts:
        assert should_be_found == (kind != NUMBER)
        pairs = [next(copies) for _ in range(count)]
        assert all(same_numbers(copy, texts[row]) == should_be_found for copy, row in pairs)
        assert sum(copy != texts[row] for copy, row in pairs) > count / 2


@pytest.mark.slow
def test_a_collection_is_measured_with_brute_force_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fewbits.benchmark.experiments.duplicate_search._texts_of", lambda *_: texts_of_random_words(900)
    )
    [facts] = DuplicateSearch(["any"], 900, tmp_path / "files").measure()
    assert facts.documents == 900 + EDITED * len(KINDS)
    assert facts.recall is not None
    assert facts.recall_same is not None
    assert facts.recall >= 0.98
    assert facts.recall_same >= 0.98
    assert facts.precision == facts.precision_same == 1
    edits = {one.kind: one for one in facts.edits}
    assert edits["case"].found == edits["case"].made
    assert edits[NUMBER].found == 0
    assert facts.cpu_seconds > 0
    assert "| any |" in DuplicateSearch.render([DuplicateSearch.from_json(json.loads(saved(facts, tmp_path)))])


def saved(facts: object, folder: Path) -> str:
    return DuplicateSearch.save(facts, folder).read_text()  # type: ignore[arg-type]


def test_mixed_sentences_are_reproducible_and_contain_copies() -> None:
    source = texts_of_random_words(200)
    mixed = list(mixed_sentences(source, 500))
    assert mixed == list(mixed_sentences(source, 500))
    assert len(mixed) == 500
    assert exact_pairs(mixed, 0.9)


def test_pairs_of_the_command_are_those_of_brute_force(tmp_path: Path) -> None:
    texts = ["one two three four", "one two three four!", "five six seven", "five six eight"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found, cpu_seconds, peak = run_command(path, "word")
    assert all_pairs(found) == exact_pairs(texts, 0.8) == {(0, 1)}
    assert cpu_seconds > 0
    assert peak > 50
    assert SENTENCES == "sentences"
    with pytest.raises(ParameterError, match="fewbits duplicates failed"):
        run_command(tmp_path / "missing.jsonl", "word")


@pytest.mark.parametrize("frequent", [0.0, 0.1, 0.4, 1.0])
def test_exact_pairs_are_those_of_the_product_of_all_words(frequent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewbits.benchmark.experiments.duplicate_search.FREQUENT", frequent)
    monkeypatch.setattr("fewbits.benchmark.experiments.duplicate_search.CHUNK", 70)
    texts = with_edits(texts_of_random_words(300))[0][:1200]
    table = TfidfVectorizer(analyzer=lambda text: split(text).words.split()).fit_transform(texts)
    near = np.argwhere((table @ table.T).toarray() >= 0.8)
    assert exact_pairs(texts, 0.8) == {(left, right) for left, right in near.tolist() if left < right}
