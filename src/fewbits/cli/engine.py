"""Commands that create, change, describe and serve an engine: fit, add, update, remove, info, serve."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fewbits.cli.options import (
    AsJson,
    Bits,
    ChangeOptions,
    DocumentOptions,
    Engine,
    MaxFeatures,
    ReadOptions,
    Source,
    TokenPattern,
    expand_options,
)
from fewbits.cli.output import err, plural, print_json, print_status, print_text, track_progress
from fewbits.data import Document, read_documents
from fewbits.data.document import Fields
from fewbits.errors import MissingExtraError
from fewbits.features import TextVectorizer
from fewbits.features.embeddings import load_embeddings
from fewbits.search import LEARN_FROM, SearchEngine, check_engine_folder, rebuild_lexical_index
from fewbits.search.drift import DRIFT_TITLES, unseen_advice
from fewbits.search.languages import named_pattern

FIELDS = "fields"  # the note in which an engine stores the field names given to fit
INFO_TITLES = {  # of facts whose names in JSON would be unclear in a table
    "metadata": "metadata fields",
    "features": "kind of documents",
    "n_features": "features",
    "setting": "kind of training",
    "documents_learnt_from": "training documents",
    "fewbits": "version of fewbits",
    "label_names": "labels",
}


@expand_options
def fit(
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the engine.")],
    documents: DocumentOptions,
    n_bits: Bits = 64,
    method: Annotated[
        str | None,
        typer.Option(help="Hashing method, see fewbits methods. [default: pairwise with labels, else bernoulli-vae]"),
    ] = None,
    max_features: MaxFeatures = 20_000,
    token_pattern: TokenPattern = None,
    learn_from: Annotated[
        int, typer.Option(help="Maximum number of training documents, sampled at random; all are encoded.", min=2)
    ] = LEARN_FROM,
    language: Annotated[
        str | None,
        typer.Option(help="Language whose inflections searches ignore; none for none. [default: guessed]"),
    ] = None,
    nested: Annotated[
        bool,
        typer.Option("--nested", help="Train every prefix of 8, 16, 32, ... bits as a code of its own, for truncate."),
    ] = False,
    random_state: Annotated[
        int, typer.Option("--random-state", "--seed", help="Seed of the random numbers.", min=0, max=2**32 - 1)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a hashing method on your documents, encode them and save an engine.

    An engine in the output folder is replaced.

    Example: fewbits fit news.jsonl --text title --text body --label topic --output news-engine
    """
    start = time.perf_counter()
    check_engine_folder(output)  # fail before training rather than after
    fields = _fields(documents, {})
    options: dict[str, Any] = {
        "notes": {FIELDS: asdict(fields)},
        "n_bits": n_bits,
        "method": method,
        "learn_from": learn_from,
        "random_state": random_state,
        "language": language,
        "nested": nested,
    }
    stream = _read(source, fields, documents)
    if documents.embeddings is None:
        options |= {"verbose": err.is_terminal, "max_features": max_features}
        if token_pattern is not None:
            options["vectorizer"] = TextVectorizer(
                max_features=max_features, token_pattern=named_pattern(token_pattern)
            )
        engine = SearchEngine.from_documents(stream, **options)
    else:
        engine = SearchEngine.from_embeddings(load_embeddings(documents.embeddings), documents=stream, **options)
    engine.save(output)
    facts = {"folder": str(output), **engine.info(), "seconds": round(time.perf_counter() - start, 2)}
    if as_json:
        return print_json(facts)
    if advice := unseen_advice(facts):
        print_status(advice)
    n_trained = facts["documents_learnt_from"]
    sampled = f", trained on {n_trained:,}" if n_trained < facts["documents"] else ""
    return print_text(
        f"Encoded {plural(facts['documents'], 'document')} with {facts['method']} in {facts['seconds']} s{sampled}:"
        f" {plural(facts['bits'], 'bit')} ({plural(facts['bytes_per_document'], 'byte')}) per document."
        f" Saved in {output}."
    )


def truncate(
    engine: Engine,
    n_bits: Bits,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the engine with shorter codes.")],
    as_json: AsJson = False,
) -> None:
    """Shorten the codes of an engine that was fitted with --nested, without training.

    The engine itself is not changed, unless the output is its own folder.

    Example: fewbits truncate news-engine --n-bits 32 --output news-engine-32
    """
    check_engine_folder(output)
    loaded = SearchEngine.load(engine, verify=False)
    loaded.save(output, n_bits=n_bits)
    facts = {"folder": str(output), "documents": len(loaded), "bits": n_bits}
    if as_json:
        return print_json(facts)
    return print_text(f"Saved {plural(len(loaded), 'code')} of {plural(n_bits, 'bit')} in {output}.")


@expand_options
def add(engine: Engine, source: Source, documents: ChangeOptions, as_json: AsJson = False) -> None:
    """Add documents to an engine, encoded with its trained model.

    If any document cannot be added, none is. Fields default to those given to fit.

    Example: fewbits add news-engine today.jsonl
    """
    _change(engine, SearchEngine.add, "added", source, documents, as_json=as_json)


@expand_options
def update(engine: Engine, source: Source, documents: ChangeOptions, as_json: AsJson = False) -> None:
    """Replace documents with new versions that have the same ids.

    If any id does not exist, no document is replaced. Fields default to those given to fit.

    Example: fewbits update news-engine corrected.jsonl
    """
    _change(engine, SearchEngine.update, "updated", source, documents, as_json=as_json)


def remove(
    engine: Engine,
    ids: Annotated[
        list[str], typer.Argument(metavar="IDS", help="Ids of documents; - reads one id per line from standard input.")
    ],
    as_json: AsJson = False,
) -> None:
    """Remove documents from an engine.

    If any id does not exist, no document is removed.

    Example: fewbits remove news-engine https://example.org/1 https://example.org/2
    """
    loaded = SearchEngine.load(engine, verify=False)
    with loaded.snapshot() as snapshot:
        parsed = [snapshot.parse_id(text) for argument in ids for text in read_lines(argument)]
    count = loaded.remove(parsed)
    _print_change("removed", count, loaded, as_json=as_json)


def info(engine: Engine, as_json: AsJson = False) -> None:
    """Describe an engine, verify its files, and report whether it should be retrained.

    Example: fewbits info fewbits-demo
    """
    facts = SearchEngine.load(engine).info()
    if as_json:
        return print_json(facts)
    drift = facts.pop("drift")
    rows = {INFO_TITLES.get(name, name.replace("_", " ")): value for name, value in facts.items()}
    rows |= {title: drift[name] for name, title in DRIFT_TITLES.items()}
    width = max(map(len, rows))
    for title, value in rows.items():
        print_text(f"{title:<{width}}  {', '.join(map(str, value)) if isinstance(value, list) else value}")
    print_text("All checksums are correct.")
    return print_text(drift["advice"])


def serve(
    engine: Engine,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 listens on all interfaces.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name by which clients may address the service, besides localhost and any IP address; * allows all.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free port.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FEWBITS_TOKEN",
            show_envvar=False,
            help="Token that permits add, update and remove; preferably set as FEWBITS_TOKEN. [default: read-only]",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of search threads.", min=1, max=256)] = 2,
    waiting: Annotated[int, typer.Option(help="Maximum number of queued requests.", min=0)] = 256,
    umap: Annotated[bool, typer.Option(help="Lay out the map with UMAP if it is installed.")] = True,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve an engine over HTTP with a search page, until Ctrl+C or SIGTERM.

    Example: fewbits serve fewbits-demo --port 8000
    """
    try:
        from fewbits.server.run import serve as run
        from fewbits.server.schemas import Settings
    except ImportError as error:
        raise MissingExtraError("serving", extra="serve") from error
    if token is not None and (not token.isascii() or not token.isprintable() or len(token) < 8 or " " in token):
        raise typer.BadParameter("a token has at least 8 printable ASCII characters and no spaces")
    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter("the log level must be debug, info, warning or error")

    # A host that was chosen by its name may be addressed by it.
    allowed_hosts = [name.lower() for name in (host, *(allow_host or ()))]

    def print_address(address: str) -> None:
        access = "read and write" if token else "read-only"
        print_text(f"Serving {engine} at {address} ({access}). Press Ctrl+C to stop.")

    run(
        engine,
        Settings(token=token, workers=workers, waiting=waiting, hosts=("localhost", *allowed_hosts)),
        host=host,
        port=port,
        log_level=log_level,
        use_umap=umap,
        on_start=print_address,
    )


index = typer.Typer(help="Maintain the lexical index of an engine.", no_args_is_help=True, rich_markup_mode=None)


@index.command()
def rebuild(engine: Engine, as_json: AsJson = False) -> None:
    """Build the lexical index again from the documents of an engine.

    The index is updated automatically. Rebuild it if fewbits info reports damage.

    Example: fewbits index rebuild fewbits-demo
    """
    count = rebuild_lexical_index(engine)
    if as_json:
        return print_json({"documents": count})
    return print_text(f"Indexed the words of {plural(count, 'document')}.")


def read_lines(argument: str) -> Iterator[str]:
    """Yield the argument itself, or the non-empty lines of standard input if it is -."""
    if argument == "-":
        yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
    else:
        yield argument


def _change(
    folder: Path,
    change: Callable[[SearchEngine, Iterable[Document], Any], int],
    participle: str,
    source: str,
    documents: ChangeOptions,
    *,
    as_json: bool,
) -> None:
    engine = SearchEngine.load(folder, verify=False)
    has_fields = not (Path(source).is_dir() or Path(source).suffix.lower() == ".txt")
    with engine.snapshot() as snapshot:
        defaults = snapshot.model.info.notes.get(FIELDS, {}) if has_fields else {}
    stream = _read(source, _fields(documents, defaults), documents)
    embeddings = None if documents.embeddings is None else load_embeddings(documents.embeddings)
    _print_change(participle, change(engine, stream, embeddings), engine, as_json=as_json)


def _fields(documents: DocumentOptions, defaults: dict[str, Any]) -> Fields:
    """Return the fields given as options, and the defaults for the others."""
    return Fields(
        tuple(documents.text or defaults.get("text") or ["text"]),
        documents.id or defaults.get("id"),
        documents.label or defaults.get("label"),
        documents.label_separator or defaults.get("label_separator"),
        tuple(documents.metadata or defaults.get("metadata") or ()),
        documents.strip_html or defaults.get("strip_html", False),
    )


def _read(source: str, fields: Fields, options: ReadOptions) -> Iterable[Document]:
    documents = read_documents(source, **{**options.reading(), **asdict(fields)})
    return track_progress(documents, "Reading documents")


def _print_change(participle: str, count: int, engine: SearchEngine, *, as_json: bool) -> None:
    with engine.snapshot() as snapshot:
        total = snapshot.count()
    if as_json:
        return print_json({participle: count, "documents": total})
    return print_text(f"{participle.capitalize()} {plural(count, 'document')}; the engine now has {total:,}.")
