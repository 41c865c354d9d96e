"""Known items: is a document that somebody has in mind found by the few words of its title?

The titles are queries against the bodies alone. Of each way to rank: the share of titles whose own document is among
the first ten, and the time of a query. The length of the shortlist is chosen on other titles than those reported.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.benchmark.report.tables import markdown
from fewbits.data import Document, DocumentId
from fewbits.data.datasets import Dataset
from fewbits.errors import DataError
from fewbits.features import TextVectorizer
from fewbits.hashers.registry import make_hasher
from fewbits.search import SearchEngine
from fewbits.search.rerank import SHORTLIST
from fewbits.storage import read_json, write_json

DEPTH = 10
REPORTED, CHOOSING = 2_000, 500  # titles
SHORTLISTS = (300, 1_000, 3_000, 10_000)
LEARN_FROM = 30_000
EXACT = "tf-idf cosine, exact"
CODES, BITS, WORDS = "codes alone", "codes, bits weighed by certainty", "codes, then words of a shortlist"

Find = Callable[[str], Sequence[DocumentId]]


@dataclass(frozen=True)
class Titled:
    """A document in two parts: what somebody types, and what is searched."""

    id: DocumentId
    title: str
    body: str


@dataclass(frozen=True)
class KnownItems:
    """How often a way to rank finds the document of a title among its first ten, and how fast."""

    ranking: str
    shortlist: int | None
    titles: str  # reported, or those that the shortlist was chosen on
    queries: int
    share: float
    of_exact: float
    milliseconds: float


@dataclass(frozen=True)
class Comparison:
    """All ways to rank one collection with codes of one length."""

    dataset: str
    method: str
    bits: int
    documents: int
    learnt_from: int
    default_shortlist: int
    rows: list[KnownItems]
    load: float | None = None  # of the machine while measuring, a core; None where it was not noted


def split_titles(dataset: Dataset) -> list[Titled]:
    """Training documents whose texts begin with a line that is their title."""
    if dataset.train.texts is None:
        raise DataError(f"{dataset.name} has no texts", allowed="a set whose texts begin with a title, such as arxiv")
    parts = (text.partition("\n") for text in dataset.train.texts)
    return [Titled(id, title, body) for id, (title, _, body) in zip(dataset.train.ids, parts, strict=True)]


def compare_known_items(
    name: str,
    documents: Sequence[Titled],
    n_bits: int,
    *,
    method: str = "bernoulli-vae",
    learn_from: int = LEARN_FROM,
    reported: int = REPORTED,
    choosing: int = CHOOSING,
    shortlists: Sequence[int] = SHORTLISTS,
    max_features: int = 20_000,
    checkpoint: Path | None = None,
    watch: Callable[[str], Any] = lambda _: None,
) -> Comparison:
    """Measure all ways to rank, with codes learnt from a sample of the bodies."""
    vectorizer = TextVectorizer(max_features=max_features)
    rows = vectorizer.fit_transform(document.body for document in documents)
    order = np.random.default_rng(0).permutation(len(documents))
    sets = {"reported": order[:reported], "choosing": order[reported : reported + choosing]}
    titles = {name: [documents[row] for row in chosen] for name, chosen in sets.items()}
    watch(EXACT)
    exact = _exact(vectorizer, rows, [document.id for document in documents])
    measured = {which: _measure(exact, EXACT, None, which, items, None) for which, items in titles.items()}
    sample = np.sort(np.random.default_rng(0).choice(len(documents), min(learn_from, len(documents)), replace=False))
    watch(f"learning {n_bits} bits")
    learnt = _engine(vectorizer, rows, documents, sample, method, n_bits, checkpoint)
    ways: list[tuple[str, str, int | None, str]] = [
        (CODES, "none", None, "reported"),
        (BITS, "bits", None, "reported"),
        (WORDS, "words", SHORTLIST, "reported"),
        *((WORDS, "words", shortlist, "choosing") for shortlist in shortlists),
    ]
    results = list(measured.values())
    with tempfile.TemporaryDirectory(prefix="fewbits-known-items-") as place:
        learnt.save(Path(place) / "engine")
        engine = SearchEngine.load(Path(place) / "engine", verify=False)
        for ranking, rescore, shortlist, which in ways:
            watch(ranking)
            find = _finder(engine, rescore, shortlist)
            results.append(_measure(find, ranking, shortlist, which, titles[which], measured[which].share))
    return Comparison(name, method, n_bits, len(documents), len(sample), SHORTLIST, results, _load())


def _load() -> float | None:
    """What the machine had to do in the last minutes, a core."""
    return round(os.getloadavg()[2] / (os.cpu_count() or 1), 2) if hasattr(os, "getloadavg") else None


def _engine(
    vectorizer: TextVectorizer,
    rows: Any,
    documents: Sequence[Titled],
    sample: Any,
    method: str,
    n_bits: int,
    checkpoint: Path | None,
) -> SearchEngine:
    hasher = make_hasher(method, n_bits, 0)
    if checkpoint is not None and "checkpoint" in hasher.get_params():
        hasher.set_params(checkpoint=str(checkpoint / str(n_bits)))
    hasher.fit(rows[sample])
    bodies = (Document(document.id, document.body) for document in documents)
    return SearchEngine.from_fitted(vectorizer, hasher, bodies, rows, method=method)


def _finder(engine: SearchEngine, rescore: str, shortlist: int | None) -> Find:
    return lambda title: [hit.id for hit in engine.search(title, DEPTH, rerank=rescore, shortlist=shortlist)]


def _exact(vectorizer: TextVectorizer, rows: Any, ids: Sequence[DocumentId]) -> Find:
    columns = rows.T.tocsr()

    def find(title: str) -> Sequence[DocumentId]:
        similarities = (vectorizer.transform([title]) @ columns).toarray()[0]
        return [ids[row] for row in np.argsort(-similarities, kind="stable")[:DEPTH]]

    return find


def _measure(
    find: Find,
    ranking: str,
    shortlist: int | None,
    titles: str,
    items: Sequence[Titled],
    exact_share: float | None,
) -> KnownItems:
    found = 0
    seconds = []
    for item in items:
        start = time.perf_counter()
        try:
            found += item.id in find(item.title)
        except DataError:  # a title without a known word finds nothing
            continue
        finally:
            seconds.append(time.perf_counter() - start)
    share = round(found / len(items), 4)
    return KnownItems(
        ranking,
        shortlist,
        titles,
        len(items),
        share,
        round(share / exact_share, 3) if exact_share else 1.0,
        round(float(np.median(seconds)) * 1000, 2),
    )


def save_known_items(comparison: Comparison, folder: Path) -> Path:
    """Write one file for a data set and length."""
    path = Path(folder) / f"known-items-{comparison.dataset}-{comparison.bits}bits.json"
    write_json(path, asdict(comparison))
    return path


def render_known_items(folder: Path) -> str:
    """Tables in Markdown of all files of a folder."""
    parts = [INTRODUCTION]
    for facts in sorted(map(_read, Path(folder).glob("known-items-*.json")), key=lambda one: (one.dataset, one.bits)):
        rows = facts.rows
        parts.append(f"## {facts.dataset}, {facts.bits} bits\n")
        parts.append(
            f"{facts.documents:,} documents; codes of `{facts.method}`, learnt from {facts.learnt_from:,} of them, a"
            f" random choice. {rows[0].queries:,} titles{_told(facts.load)}:\n"
        )
        parts.append(_table([row for row in rows if row.titles == "reported"]))
        parts.append("The length of the shortlist, on other titles:\n")
        parts.append(_table([row for row in rows if row.titles == "choosing"]))
        command = f"fewbits bench known-items --dataset {facts.dataset} --bits {facts.bits} --save"
        parts.append(f"```sh\n{command}\n```\n")
    return "\n".join(parts)


def _told(load: float | None) -> str:
    return "" if load is None else f", on a machine with a load of {load} a core"


def _read(path: Path) -> Comparison:
    content = read_json(path)
    return Comparison(**{**content, "rows": [KnownItems(**row) for row in content["rows"]]})


def _table(rows: Sequence[KnownItems]) -> str:
    header = ["ranking", "shortlist", "among the first ten", "of exact", "ms a query"]
    cells = [
        [
            row.ranking,
            "" if row.shortlist is None else f"{row.shortlist:,}",
            f"{row.share:.3f}",
            f"{row.of_exact:.2f}",
            f"{row.milliseconds:.1f}",
        ]
        for row in rows
    ]
    return markdown(header, cells)


INTRODUCTION = f"""\
# Known items

Rendered by `fewbits bench report`. Somebody has a document in mind and types a few
words of it: the titles of documents are queries against their bodies alone. A figure is the share of titles whose own
document is among the first {DEPTH} hits, and what that is of the exact tf-idf cosine over all documents; the time is
the median of a whole query, from text to documents, one at a time in one thread. Where the machine had other work to
do, times are longer than they need be, and only their ratios inside a table mean something.

A title says little to a short code, and a code was made to say what a document is about, not which one it is. So by
default `search` takes a shortlist of the {SHORTLIST:,} documents whose codes are nearest, each bit weighed by how sure
the query is of it, and orders it by the cosine of the words. The length of the shortlist was chosen on titles that are
not among those reported: the shortest of those tried that, with 64 bits, keeps nine tenths of what the exact cosine
finds.
"""
