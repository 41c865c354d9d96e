"""Options that several commands share, and groups of them.

A command with a parameter annotated with an option group takes all options of the group: see :func:`expand_options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from fewbits.cli.output import print_status
from fewbits.search.rerank import OLD_RANKS, SEMANTIC_WEIGHT

Value = TypeVar("Value")

Engine = Annotated[Path, typer.Argument(help="Folder of a saved engine.", metavar="ENGINE")]
Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="JSON, CSV, TSV, Parquet, .txt, a folder of .txt files, or - (stdin)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Bits = Annotated[int, typer.Option("--n-bits", "--bits", help="Code length in bits.")]
TextFields = Annotated[
    list[str] | None,
    typer.Option("--text", help="Field with the text. Repeat to join several fields. [default: text]"),
]
IdField = Annotated[str | None, typer.Option(help="Field with the id. [default: the position, from 0]")]
LabelField = Annotated[str | None, typer.Option(help="Field with the label, or a list of labels.")]
LabelSeparator = Annotated[str | None, typer.Option(help="Separator between the labels in the label field.")]
MetadataFields = Annotated[
    list[str] | None,
    typer.Option("--metadata", help="Field to store with the document and to filter by; repeatable."),
]
MaxFeatures = Annotated[int, typer.Option(help="Maximum size of the vocabulary.")]
TokenPattern = Annotated[
    str | None,
    typer.Option(
        help="Regular expression that matches a word of the codes, or unicode for words of any letters and digits."
        " [default: letters a-z; fit takes unicode if the first documents have many other letters]"
    ),
]
Encoding = Annotated[str, typer.Option(help="Character encoding of the file.")]
Delimiter = Annotated[
    str | None, typer.Option(help="Character between the fields of a CSV or TSV file, such as ';' or '\\t'.")
]
StripHtml = Annotated[bool, typer.Option("--strip-html", help="Remove tags, scripts and styles from texts.")]
OnError = Annotated[
    str, typer.Option(help="What to do with a record that cannot be used: stop, or skip it and report it at the end.")
]
EmbeddingsFile = Annotated[
    Path | None, typer.Option(help="Precomputed embeddings: a .npy array with one row per document.")
]
Rank = Annotated[
    str | None,
    typer.Option(help="What ranks the hits: hybrid (words and codes), words (BM25) or codes. [default: hybrid]"),
]
ResultsFolder = Annotated[Path, typer.Option("--results", help="Folder with the result files.")]
Jobs = Annotated[int, typer.Option(help="Number of parallel runs. With more than one, each run uses one thread.")]


@dataclass(frozen=True)
class ReadOptions:
    """Options of how a file is read."""

    encoding: Encoding = "utf-8"
    delimiter: Delimiter = None
    strip_html: StripHtml = False
    on_error: OnError = "stop"

    def reading(self) -> dict[str, Any]:
        """Return the options as keyword arguments of ``read_documents``, with its warnings on standard error."""
        return {
            "encoding": self.encoding,
            "delimiter": self.delimiter,
            "strip_html": self.strip_html,
            "on_error": self.on_error,
            "warn": print_status,
        }


@dataclass(frozen=True)
class DuplicateFileOptions(ReadOptions):
    """Options of a file whose texts are compared."""

    text: TextFields = None
    id: IdField = None

    def reading_texts(self) -> dict[str, Any]:
        """Return the options as keyword arguments of ``read_documents``."""
        return {**self.reading(), "text": self.text or ["text"], "id": self.id}


@dataclass(frozen=True)
class FieldOptions(ReadOptions):
    """Options that map the fields of a file to the parts of a document."""

    text: TextFields = None
    id: IdField = None
    label: LabelField = None
    label_separator: LabelSeparator = None


@dataclass(frozen=True)
class DocumentOptions(FieldOptions):
    """Options of commands that store documents in an engine."""

    metadata: MetadataFields = None
    embeddings: EmbeddingsFile = None


@dataclass(frozen=True)
class ChangeOptions(DocumentOptions):
    """Options of commands that change the documents of an engine; fields default to those given to fit."""

    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="Field with the text. Repeat to join several fields. [default: as given to fit]"),
    ] = None
    id: Annotated[str | None, typer.Option(help="Field with the id. [default: as given to fit]")] = None


@dataclass(frozen=True)
class SearchOptions:
    """Options that select and rank hits."""

    k: Annotated[int | None, typer.Option("--k", "-k", help="Number of hits. [default: 10]")] = None
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="Return only documents with this label; if repeated, with any of them."),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Return only documents that meet a condition such as 'year>=2020'; if repeated, all of them."
        ),
    ] = None
    rank: Rank = None
    weight: Annotated[
        float | None, typer.Option(help=f"Weight of the codes in a hybrid ranking. [default: {SEMANTIC_WEIGHT:g}]")
    ] = None
    rerank: Annotated[str | None, typer.Option(hidden=True)] = None
    rescore: Annotated[str | None, typer.Option(hidden=True)] = None
    shortlist: Annotated[int | None, typer.Option(hidden=True)] = None
    explain: Annotated[bool, typer.Option("--explain", help="Show the bits and words behind each hit.")] = False

    def filters(self) -> dict[str, Any]:
        """Return the filters as keyword arguments of the engine."""
        return {"labels": self.label or (), "where": self.where or ()}

    def ranking(self) -> dict[str, Any]:
        """Return the ranking options as keyword arguments of the engine."""
        old = [name for name in ("rerank", "rescore") if getattr(self, name) is not None]
        if len(old) > 1 or (old and self.rank is not None):
            raise typer.BadParameter(f"--{old[-1]} is an old name of --rank; give only --rank")
        if old:
            value = OLD_RANKS.get(getattr(self, old[0]), "")
            print_status(f"--{old[0]} is deprecated; use --rank {value}".rstrip() + ".")
        if self.shortlist is not None:
            print_status("--shortlist is deprecated and has no effect; use --rank and --weight.")
        return {
            "rank": self.rank,
            "weight": self.weight,
            "rerank": self.rerank or self.rescore,
            "shortlist": self.shortlist,
        }


OPTION_GROUPS = (ReadOptions, DuplicateFileOptions, FieldOptions, DocumentOptions, ChangeOptions, SearchOptions)


def renamed(name: str, value: Value | None, old_name: str, old_value: Value | None) -> Value | None:
    """Return the value of an option that may have been given under its old name, with a note on standard error."""
    if old_value is None:
        return value
    if value is not None:
        raise typer.BadParameter(f"--{old_name} is the old name of --{name}; give only --{name}")
    print_status(f"--{old_name} is deprecated; use --{name}.")
    return old_value


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is annotated with an option group by the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if hint in OPTION_GROUPS}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            options = get_type_hints(groups[name], include_extras=True)
            parameters += [
                inspect.Parameter(
                    option.name, parameter.KEYWORD_ONLY, default=option.default, annotation=options[option.name]
                )
                for option in fields(groups[name])
            ]
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def expanded(**values: Any) -> None:
        grouped = {
            name: group(**{option.name: values.pop(option.name) for option in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **grouped)

    del expanded.__wrapped__  # typer would read the parameters of the command
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded
