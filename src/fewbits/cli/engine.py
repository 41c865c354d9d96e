"""Commands that make and change an engine: fit, add, update, remove, info."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.cli.options import (
    AsJson,
    Bits,
    EmbeddingsFile,
    Encoding,
    Engine,
    IdField,
    LabelField,
    LabelSeparator,
    MaxFeatures,
    MetadataFields,
    Source,
    TextFields,
    TokenPattern,
)
from fewbits.cli.output import err, out, print_json, watch
from fewbits.data import Document, read_documents
from fewbits.data.document import Fields
from fewbits.features import TextVectorizer
from fewbits.features.embeddings import load_embeddings
from fewbits.search import LEARN_FROM, SearchEngine, check_engine_folder

FIELDS = "fields"  # the note under which an engine remembers them


def fit(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder the engine is saved in.")],
    text: TextFields = None,
    id: IdField = None,
    label: LabelField = None,
    label_separator: LabelSeparator = None,
    metadata: MetadataFields = None,
    encoding: Encoding = "utf-8",
    embeddings: EmbeddingsFile = None,
    n_bits: Bits = 64,
    method: Annotated[
        str | None,
        typer.Option(help="Method that learns the codes. [default: pairwise with labels, else bernoulli-vae]"),
    ] = None,
    max_features: MaxFeatures = 20_000,
    token_pattern: TokenPattern = None,
    learn_from: Annotated[
        int, typer.Option(help="Documents to learn from at most, a random choice; all are encoded.", min=2)
    ] = LEARN_FROM,
    random_state: Annotated[int, typer.Option("--random-state", "--seed", help="Seed.", min=0, max=2**32 - 1)] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn codes for your own documents and save an engine; an engine that is there is replaced as a whole.

    Example: fewbits fit news.jsonl --text title --text body --label topic --output news-engine
    """
    start = time.perf_counter()
    check_engine_folder(output)  # before any long work
    fields = Fields(tuple(text or ["text"]), id, label, label_separator, tuple(metadata or ()))
    documents = _read(source, fields, encoding)
    options: dict[str, Any] = {
        "notes": {FIELDS: asdict(fields)},
        "n_bits": n_bits,
        "method": method,
        "learn_from": learn_from,
        "random_state": random_state,
    }
    if embeddings is None:
        vectorizer = TextVectorizer(max_features=max_features, token_pattern=token_pattern)
        engine = SearchEngine.from_documents(documents, vectorizer=vectorizer, verbose=err.is_terminal, **options)
    else:
        engine = SearchEngine.from_embeddings(load_embeddings(embeddings), documents=documents, **options)
    engine.save(output)
    facts = {"folder": str(output), **engine.info(), "seconds": round(time.perf_counter() - start, 2)}
    if as_json:
        return print_json(facts)
    return _say(
        f"Learnt {facts['bits']} bits ({_bytes(facts['bytes_per_document'])}) for each of"
        f" {facts['documents']:,} documents in {facts['seconds']} s (method {facts['method']}{_sampled(facts)})."
        f" Saved in {output}."
    )


def add(
    engine: Engine,
    source: Source,
    text: TextFields = None,
    id: IdField = None,
    label: LabelField = None,
    label_separator: LabelSeparator = None,
    metadata: MetadataFields = None,
    encoding: Encoding = "utf-8",
    embeddings: EmbeddingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Add documents, encoded by what was learnt; all of them, or none where one cannot be added.

    Fields are those that the engine was made with, unless others are named.

    Example: fewbits add news-engine today.jsonl
    """
    loaded = SearchEngine.load(engine, verify=False)
    documents = _read(source, _remembered(loaded, source, text, id, label, label_separator, metadata), encoding)
    count = loaded.add(documents, None if embeddings is None else load_embeddings(embeddings))
    _report("added", count, loaded, as_json=as_json)


def update(
    engine: Engine,
    source: Source,
    text: TextFields = None,
    id: IdField = None,
    label: LabelField = None,
    label_separator: LabelSeparator = None,
    metadata: MetadataFields = None,
    encoding: Encoding = "utf-8",
    embeddings: EmbeddingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Put documents in the place of those with the same ids; all of them, or none where an id is unknown.

    Fields are those that the engine was made with, unless others are named.

    Example: fewbits update news-engine corrected.jsonl
    """
    loaded = SearchEngine.load(engine, verify=False)
    documents = _read(source, _remembered(loaded, source, text, id, label, label_separator, metadata), encoding)
    count = loaded.update(documents, None if embeddings is None else load_embeddings(embeddings))
    _report("updated", count, loaded, as_json=as_json)


def remove(
    engine: Engine,
    ids: Annotated[list[str], typer.Argument(help="Ids of documents; - reads one id a line from standard input.")],
    as_json: AsJson = False,
) -> None:
    """Remove documents; all of them, or none where an id is unknown.

    Example: fewbits remove news-engine https://example.org/1 https://example.org/2
    """
    loaded = SearchEngine.load(engine, verify=False)
    with loaded.snapshot() as snapshot:
        parsed = [snapshot.parse_id(written) for argument in ids for written in lines(argument)]
    count = loaded.remove(parsed)
    _report("removed", count, loaded, as_json=as_json)


def info(engine: Engine, as_json: AsJson = False) -> None:
    """Tell what an engine is made of, check it, and say whether learning anew is worth it.

    Example: fewbits info fewbits-demo
    """
    facts = SearchEngine.load(engine).info()
    if as_json:
        return print_json(facts)
    drift = facts.pop("drift")
    shown = {**facts, **{f"drift: {name}": value for name, value in drift.items() if name not in ("advice", "retrain")}}
    width = max(map(len, shown))
    for name, value in shown.items():
        out.print(f"{name.replace('_', ' '):<{width}}  {value}", markup=False, soft_wrap=True)
    _say("All of it was read and is whole.")
    return _say(drift["advice"])


def lines(argument: str) -> Iterator[str]:
    """The argument itself, or each line of standard input for -."""
    if argument == "-":
        yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
    else:
        yield argument


def _remembered(
    engine: SearchEngine,
    source: str,
    text: list[str] | None,
    id: str | None,
    label: str | None,
    label_separator: str | None,
    metadata: list[str] | None,
) -> Fields:
    """The fields that are named, and for those that are not, what the engine was made with."""
    with engine.snapshot() as snapshot:
        known = snapshot.model.info.notes.get(FIELDS, {})
    if Path(source).is_dir() or Path(source).suffix.lower() == ".txt":
        known = {}  # texts alone have no fields
    return Fields(
        tuple(text or known.get("text") or ["text"]),
        id or known.get("id"),
        label or known.get("label"),
        label_separator or known.get("label_separator"),
        tuple(metadata or known.get("metadata") or ()),
    )


def _read(source: str, fields: Fields, encoding: str) -> Iterable[Document]:
    return watch(read_documents(source, **asdict(fields), encoding=encoding), "Reading documents")


def _report(done: str, count: int, engine: SearchEngine, *, as_json: bool) -> None:
    with engine.snapshot() as snapshot:
        facts = {done: count, "documents": snapshot.count()}
    if as_json:
        return print_json(facts)
    noun = "document" if count == 1 else "documents"
    return _say(f"{done.capitalize()} {count:,} {noun}; there are {facts['documents']:,} now.")


def _bytes(number: int) -> str:
    return f"{number} byte" + ("s" if number != 1 else "")


def _sampled(facts: dict[str, Any]) -> str:
    learnt_from = facts["documents_learnt_from"]
    return f", learnt from {learnt_from:,} of them" if learnt_from < facts["documents"] else ""


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)
