"""Near-duplicates: recall and precision against all pairs, edits with a known answer, CPU time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from fewbits.benchmark.experiments.base import Experiment, markdown_section, markdown_table
from fewbits.benchmark.experiments.edited_copies import mixed_sentences, with_edits
from fewbits.data import read_docstrings
from fewbits.data.datasets import load_dataset
from fewbits.errors import ParameterError
from fewbits.search.near_duplicates import MIN_SIMILARITY, FoundPairs
from fewbits.search.text_differences import same_numbers
from fewbits.search.words import split
from fewbits.storage import atomic_write

SENTENCES = "sentences"  # of arXiv, mixed: any number of texts
LARGEST_COMPARED = 150_000  # texts of which all pairs are computed
FREQUENT = 0.003  # share of texts with a word from which it is multiplied only where needed
CHUNK = 500  # rows compared with all at a time

Pair = tuple[int, int]


@dataclass(frozen=True)
class Edits:
    """Copies of one kind: how many were made, how many have a cosine above the minimum, and how many were found."""

    kind: str
    made: int
    above: int
    found: int
    should_be_found: bool


@dataclass(frozen=True)
class DuplicateFacts:
    """Facts about the near-duplicates of one collection; recall and precision are None where it is too large."""

    corpus: str
    documents: int
    file_bytes: int  # of the texts as JSON Lines
    min_similarity: float
    cpu_seconds: float  # of the whole command, from the file to the printed groups
    peak_mb: float
    pairs: int
    exact_pairs: int | None = None
    recall: float | None = None
    precision: float | None = None
    exact_pairs_same: int | None = None  # with the same numbers and codes
    recall_same: float | None = None
    precision_same: float | None = None
    edits: list[Edits] = field(default_factory=list)


@dataclass(frozen=True)
class DuplicateSearch(Experiment[DuplicateFacts]):
    """Measure the command ``duplicates`` on collections with edited copies."""

    folder = "duplicates"
    page = "duplicates.md"

    corpora: Sequence[str] = ("docstrings", "ng20", "arxiv")
    documents: int = 100_000
    files: Path | None = None  # folder of the collections as files; a temporary one by default
    progress: Callable[[str], object] = lambda _: None

    def measure(self) -> Iterator[DuplicateFacts]:
        """Yield the facts of one collection at a time."""
        with ExitStack() as stack:
            folder = self.files or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for corpus in self.corpora:
                self.progress(corpus)
                yield _measure(corpus, self.documents, Path(folder), self.progress)

    @classmethod
    def file_name(cls, facts: DuplicateFacts) -> str:
        """Return the name of the JSON file."""
        return f"duplicates-{facts.corpus}-{facts.documents}.json"

    @classmethod
    def from_json(cls, content: Any) -> DuplicateFacts:
        """Return the facts in the content of a JSON file."""
        return DuplicateFacts(**{**content, "edits": [Edits(**one) for one in content["edits"]]})

    @classmethod
    def render(cls, facts: Sequence[DuplicateFacts]) -> str:
        """Return the page in Markdown."""
        ordered = sorted(facts, key=lambda one: one.documents)
        parts = [INTRODUCTION, _quality_table(ordered), COST, _cost_table(ordered), EDITS]
        for one in ordered:
            if one.edits:
                command = f"fewbits bench duplicates --corpus {one.corpus} --save"
                parts.append(markdown_section(f"{one.corpus}, {one.documents:,} texts", _edits_table(one), command))
        return "\n".join(parts)


def _measure(corpus: str, size: int, folder: Path, progress: Callable[[str], object]) -> DuplicateFacts:
    path = folder / f"{corpus}-{size}.jsonl"
    edits: list[tuple[str, int, bool]] = []
    if corpus == SENTENCES:
        if not path.exists():
            _write_texts(path, mixed_sentences(load_dataset("arxiv").train.texts or [], size))
        texts: list[str] = []
    else:
        texts, edits, originals = with_edits(_texts_of(corpus, size))
        _write_texts(path, texts)
    progress(f"{corpus}: fewbits duplicates")
    found, cpu_seconds, peak = run_command(path, "same")
    documents = len(found.originals)
    facts: dict[str, Any] = {
        "corpus": corpus,
        "documents": documents,
        "file_bytes": path.stat().st_size,
        "min_similarity": MIN_SIMILARITY,
        "cpu_seconds": round(cpu_seconds, 1),
        "peak_mb": round(peak, 1),
        "pairs": len(all_pairs(found)),
    }
    if texts and documents <= LARGEST_COMPARED:
        progress(f"{corpus}: all pairs, exactly")
        exact = exact_pairs(texts, MIN_SIMILARITY)
        exact_same = {pair for pair in exact if same_numbers(texts[pair[0]], texts[pair[1]])}
        as_words, same = all_pairs(run_command(path, "word")[0]), all_pairs(found)
        facts |= _compared(exact, as_words, "") | _compared(exact_same, same, "_same")
        facts["edits"] = _count_edits(edits, originals, len(texts), exact, same)
    return DuplicateFacts(**facts)


def _compared(exact: set[Pair], found: set[Pair], suffix: str) -> dict[str, Any]:
    both = len(exact & found)
    return {
        f"exact_pairs{suffix}": len(exact),
        f"recall{suffix}": round(both / max(1, len(exact)), 5),
        f"precision{suffix}": round(both / max(1, len(found)), 5),
    }


def _count_edits(
    edits: list[tuple[str, int, bool]], originals: list[int], size: int, exact: set[Pair], found: set[Pair]
) -> list[Edits]:
    first = size - len(originals)
    counted = []
    start = first
    for kind, made, should_be_found in edits:
        pairs = [(originals[row - first], row) for row in range(start, start + made)]
        start += made
        above, n_found = (sum(pair in known for pair in pairs) for known in (exact, found))
        counted.append(Edits(kind, made, above, n_found, should_be_found))
    return counted


def run_command(path: Path, numbers: str) -> tuple[FoundPairs, float, float]:
    """Run ``fewbits duplicates`` on a file in another process; return the pairs, CPU seconds and peak megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = Path(folder) / "pairs"
        arguments = ["duplicates", str(path), "--numbers", numbers, "--pairs", str(pairs), "--json"]
        with (Path(folder) / "out").open("wb") as out:
            process = subprocess.Popen([sys.executable, "-m", "fewbits", *arguments], stdout=out)
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise ParameterError("fewbits duplicates failed", got=f"status {status}")
        stored = FoundPairs.read(pairs)
    assert stored is not None
    unit = 1 if sys.platform == "darwin" else 1024
    return stored, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6


def all_pairs(found: FoundPairs) -> set[Pair]:
    """Return all pairs of near-duplicates, also those of rows with the same words."""
    copies: dict[int, list[int]] = {}
    for row, original in enumerate(found.originals.tolist()):
        copies.setdefault(original, []).append(row)
    near = [*zip(found.pairs.left.tolist(), found.pairs.right.tolist(), strict=True)]
    near += [(row, row) for row, rows in copies.items() if len(rows) > 1]
    return {(min(a, b), max(a, b)) for one, other in near for a in copies[one] for b in copies[other] if a != b}


def exact_pairs(texts: Sequence[str], min_similarity: float) -> set[Pair]:
    """Return all pairs whose tf-idf rows of all words, by scikit-learn, have a large cosine.

    The product of the rarer words is computed for all pairs, and that of the frequent words where it may suffice, which
    the norms of their parts of the rows tell (the Cauchy-Schwarz inequality).
    """
    table = TfidfVectorizer(analyzer=_words).fit_transform(texts).tocsc()
    is_frequent = np.diff(table.indptr) > FREQUENT * len(texts)
    frequent, rare = sparse.csr_array(table[:, is_frequent]), sparse.csr_array(table[:, ~is_frequent])
    norms = np.sqrt(np.asarray(frequent.multiply(frequent).sum(axis=1))).ravel()
    transposed = sparse.csr_array(rare.T)
    found: set[Pair] = set()
    for start in range(0, len(texts), CHUNK):
        products = sparse.coo_array(rare[start : start + CHUNK] @ transposed)
        left, right = products.row + start, products.col
        near = (left < right) & (products.data + norms[left] * norms[right] >= min_similarity)
        found |= _large(frequent, left[near], right[near], products.data[near], min_similarity)
    alone = np.flatnonzero(norms >= min_similarity)  # rows that need share no rare word
    for row in alone.tolist():
        others = alone[alone > row]
        rows = np.full(len(others), row)
        of_rare = np.asarray(rare[rows].multiply(rare[others]).sum(axis=1)).ravel()
        found |= _large(frequent, rows, others, of_rare, min_similarity)
    return found


def _large(frequent: Any, left: Any, right: Any, of_rare: Any, min_similarity: float) -> set[Pair]:
    cosines = of_rare + np.asarray(frequent[left].multiply(frequent[right]).sum(axis=1)).ravel()
    large = cosines >= min_similarity
    return set(zip(left[large].tolist(), right[large].tolist(), strict=True))


def _words(text: str) -> list[str]:
    return split(text).words.split()


def _texts_of(corpus: str, size: int) -> list[str]:
    if corpus == "docstrings":
        return [document.text for document in islice(read_docstrings(), size)]
    parts = load_dataset(corpus)
    texts = [text for part in (parts.train, parts.validation, parts.test) for text in part.texts or ()]
    if not texts:
        raise ParameterError(f"{corpus} has no texts", allowed=f"docstrings, ng20, arxiv, {SENTENCES}")
    return texts[:size]


def _write_texts(path: Path, texts: Iterable[str]) -> None:
    with atomic_write(path) as stream:
        for number, text in enumerate(texts):
            stream.write((json.dumps({"id": number, "text": text}) + "\n").encode())


def _quality_table(facts: Sequence[DuplicateFacts]) -> str:
    header = ["collection", "texts", "numbers", "exact pairs", "recall", "precision"]
    rows = []
    for one in facts:
        for name, values in (
            ("same", (one.exact_pairs_same, one.recall_same, one.precision_same)),
            ("word", (one.exact_pairs, one.recall, one.precision)),
        ):
            count, recall, precision = values
            if count is not None and recall is not None and precision is not None:
                rows.append([one.corpus, f"{one.documents:,}", name, f"{count:,}", f"{recall:.4f}", f"{precision:.4f}"])
    return markdown_table(header, rows)


def _cost_table(facts: Sequence[DuplicateFacts]) -> str:
    header = ["collection", "texts", "MB as JSON Lines", "CPU seconds", "peak MB", "pairs found"]
    rows = [
        [
            one.corpus,
            f"{one.documents:,}",
            f"{one.file_bytes / 1e6:.1f}",
            f"{one.cpu_seconds:.1f}",
            f"{one.peak_mb:.0f}",
            f"{one.pairs:,}",
        ]
        for one in facts
    ]
    return markdown_table(header, rows)


def _edits_table(facts: DuplicateFacts) -> str:
    header = ["edit", "copies", f"cosine of {facts.min_similarity:g} or more", "found", "should be found"]
    rows = [
        [one.kind, f"{one.made:,}", f"{one.above:,}", f"{one.found:,}", "yes" if one.should_be_found else "no"]
        for one in facts.edits
    ]
    return markdown_table(header, rows)


INTRODUCTION = f"""\
# Near-duplicates

Rendered by `fewbits bench report`. The command `fewbits duplicates FILE` is run on collections to which edited copies
were added. Near-duplicates are pairs whose tf-idf rows of all words have a cosine of {MIN_SIMILARITY} or more: by
default pairs with the same numbers and product codes ("same"), with `--numbers word` all ("word"). Both are compared
with all pairs of scikit-learn's `TfidfVectorizer`, computed exactly.
"""
COST = """\
CPU time and memory are those of the whole process with one thread, from reading the file to printing the groups. The
collection "sentences" consists of texts of seven sentences, each drawn at random from the abstracts of arXiv; a
twentieth are copies with one word in twenty changed.
"""
EDITS = """\
The kind of each edit is known. A copy whose cosine is below the minimum is not a near-duplicate by definition.
"""
