"""Load the benchmark data sets, each split and vectorized in the same way for every method."""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from fewbits.data.datasets.base import PARTS, Dataset, Part, Source, Split, TermTable, assign_split
from fewbits.data.datasets.docstrings import read_docstrings
from fewbits.data.datasets.generalisation import GENERALISATION_SOURCES
from fewbits.data.datasets.term_tables import read_matlab, read_rcv1, read_tmc
from fewbits.data.datasets.text_collections import read_arxiv, read_newsgroups, read_reuters
from fewbits.data.document import Document
from fewbits.data.labels import label_table
from fewbits.errors import DataError, MissingFileError, ParameterError
from fewbits.features.vectorizer import TextVectorizer, inverse_document_frequency, tf_idf

SOURCES = {
    source.name: source
    for source in (
        Source(
            "ng20",
            read_newsgroups,
            (0.6, 0.8),
            7_164,
            archive="20news-bydate.tar.gz",
            url="http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
            contents="e96d9cd504d2303c5cbdab257a8cd4ee1aa7cd0e81f274befc3f95d87d81b0a1",
        ),
        Source(
            "reuters",
            read_reuters,
            (0.8, 0.9),
            10_000,
            archive="reuters21578.tar.gz",
            url="https://kdd.ics.uci.edu/databases/reuters21578/reuters21578.tar.gz",
            contents="96fcbfcb296ed9250aae15703b05d3f02f6f05076ab8e2ea2dedea111224bb88",
        ),
        Source(
            "tmc",
            read_tmc,
            (0.75, 0.875),
            500,
            archive="tmc2007-500.zip",
            contents="649afb322518ea099376c1799e7f44fa584cd3fe6fe7cb37c58f1a9dd528503f",
        ),
        Source(
            "arxiv",
            read_arxiv,
            (0.8, 0.85),
            20_000,
            archive="arxiv-abstracts-140k.jsonl.gz",
            contents="2fc3ad02723c2cf10b0d61e06ff48363ed093bb2368df6282aefffb1b51cb272",
        ),
        Source("rcv1", read_rcv1, (0.8, 0.85), 47_236),
        Source("docstrings", lambda _: read_docstrings(), (0.8, 0.9), 10_000),
    )
}


def load_dataset(name: str | Path, path: Path | None = None, *, progress: bool = False) -> Dataset:
    """Load a data set by name, or a ``.mat`` file in the format of the VDSH authors by its path.

    Parameters
    ----------
    name : str
        ``ng20``, ``reuters``, ``tmc``, ``arxiv``, ``rcv1``, ``docstrings`` (the default corpus), ``*.mat``,
        or one of the small corpora of docs/generalisation.md, such as ``general-ax1500c``.
    path : Path, optional
        Archive to read instead of the usual one; its contents are not checked.
    progress : bool, default=False
        Whether to show the progress of a download.
    """
    source = find_source(name)
    if str(name).endswith(".mat"):
        path = Path(name)
    archive = path or source.locate(progress=progress)
    content = _read(source, archive)
    fingerprint = _fingerprint(content)
    if path is None and source.contents not in (None, fingerprint):
        raise DataError(
            f"{archive} does not contain the {source.name} documents of the protocol",
            allowed=f"contents {str(source.contents)[:12]}",
            got=fingerprint[:12],
            hint=f"Delete it to download it again, or read it unchecked: load_dataset({source.name!r}, path=...).",
        )
    if isinstance(content, TermTable):
        return _from_terms(source, content, fingerprint)
    return _from_documents(source, content, fingerprint)


def find_source(name: str | Path) -> Source:
    """Return the source of a data set, by its name or the path of a ``.mat`` file."""
    if str(name).endswith(".mat"):
        return Source(Path(name).name, read_matlab, (0.8, 0.9), 0)
    if not is_source(name):
        allowed = ", ".join(SOURCES) + ", general-… (see docs/generalisation.md) or a .mat file"
        raise ParameterError("unknown data set", allowed=allowed, got=repr(name))
    return {**SOURCES, **GENERALISATION_SOURCES}[str(name)]


def is_source(name: str | Path) -> bool:
    """Return whether there is a data set of this name, other than a ``.mat`` file."""
    return name in SOURCES or name in GENERALISATION_SOURCES


def _read(source: Source, path: Path) -> list[Document] | TermTable:
    if not path.exists() and source.archive:
        raise MissingFileError(f"{path} does not exist")
    try:
        content = source.read(path)
        content = content if isinstance(content, TermTable) else list(content)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(
            f"{path} is not a complete archive", got=error, hint="Delete it and download it again."
        ) from error
    if not content:
        raise DataError(f"{path} contains no documents of {source.name}")
    return content


def _fingerprint(content: list[Document] | TermTable) -> str:
    """Compute the checksum of the contents of an archive, independent of its compression."""
    digest = hashlib.sha256()
    if isinstance(content, TermTable):
        digest.update(json.dumps([list(content.ids), list(content.label_sets), list(content.vocabulary)]).encode())
        for values, kind in (
            (content.terms.indptr, "<i8"),
            (content.terms.indices, "<i8"),
            (content.terms.data, "<f8"),
        ):
            digest.update(values.astype(kind).tobytes())
    else:
        for document in content:
            digest.update(json.dumps([document.id, document.text, document.labels]).encode())
    return digest.hexdigest()


def _from_documents(source: Source, documents: list[Document], contents: str) -> Dataset:
    split_key = source.split_key or source.name
    parts = [assign_split(split_key, document.id, source.thresholds) for document in documents]
    tie_breakers = _tie_breakers(source.name) if contents == source.contents else None
    vectorizer = TextVectorizer(max_features=source.vocabulary_size, tie_breakers=tie_breakers)
    vectorizer.fit(document.text for document, part in zip(documents, parts, strict=True) if part == "train")
    return _assemble(
        source.name,
        ids=[document.id for document in documents],
        texts=[document.text for document in documents],
        features=vectorizer.transform(document.text for document in documents),
        label_sets=[document.labels for document in documents],
        parts=parts,
        vocabulary=vectorizer.vocabulary_,
        contents=contents,
    )


def _tie_breakers(name: str) -> list[str] | None:
    """Return the words of the vocabulary that are as frequent as others which no longer fit.

    The protocol follows scikit-learn, whose choice among equally frequent words depends on the processor. The choice of
    a processor with AVX2 is stored, so that all machines have the same features.
    """
    words: dict[str, list[str]] = json.loads(
        files("fewbits.data.datasets").joinpath("tied-words.json").read_text(encoding="utf-8")
    )
    return words.get(name)


def _from_terms(source: Source, table: TermTable, contents: str) -> Dataset:
    terms = sparse.csr_array(table.terms)
    parts = table.parts or [assign_split(source.name, document_id, source.thresholds) for document_id in table.ids]
    if table.weighted:
        features = normalize(terms.astype(np.float32), norm="l2")
    else:
        features = tf_idf(terms, inverse_document_frequency(terms[[part == "train" for part in parts]]))
    return _assemble(
        source.name,
        ids=list(table.ids),
        texts=None,
        features=features,
        label_sets=table.label_sets,
        parts=parts,
        vocabulary=list(table.vocabulary),
        contents=contents,
    )


def _assemble(
    name: str,
    *,
    ids: list[Any],
    texts: list[str] | None,
    features: Any,
    label_sets: Sequence[tuple[str, ...]],
    parts: Sequence[Part],
    vocabulary: list[str],
    contents: str,
) -> Dataset:
    labels, label_names = label_table(label_sets)
    has_words = np.diff(features.indptr) > 0  # other documents are dropped
    rows = {part: np.flatnonzero(has_words & (np.asarray(parts) == part)) for part in PARTS}
    splits = {
        part: Split(
            ids=[ids[row] for row in chosen],
            texts=None if texts is None else [texts[row] for row in chosen],
            features=features[chosen],
            labels=labels[chosen],
        )
        for part, chosen in rows.items()
    }
    fingerprint = hashlib.sha256(json.dumps([contents, list(parts), vocabulary]).encode()).hexdigest()
    return Dataset(name, **splits, vocabulary=vocabulary, label_names=label_names, fingerprint=fingerprint)
