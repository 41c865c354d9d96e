"""The interface of experiments: measure facts, save and load them as JSON files, render them as a page."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from fewbits.storage import read_json, write_json

Facts = TypeVar("Facts")


class Experiment(ABC, Generic[Facts]):
    """A measurement other than a run of the benchmark.

    A subclass is a dataclass whose fields are the options of the measurement. ``Facts`` is the content of one JSON
    file: a dataclass, or a list of them, with the fields as keys.
    """

    folder: ClassVar[str]  # inside the folder of results
    fact: ClassVar[Callable[..., Any]]  # the dataclass of the facts; unused if from_json is overridden
    page: ClassVar[str | None] = None  # name of the rendered page; None if the report shows the facts

    @abstractmethod
    def measure(self) -> Iterator[Facts]:
        """Yield the facts of one file at a time."""

    @classmethod
    @abstractmethod
    def file_name(cls, facts: Facts) -> str:
        """Return the name of the JSON file."""

    @classmethod
    def from_json(cls, content: Any) -> Facts:
        """Return the facts in the content of a JSON file."""
        facts: Any = [cls.fact(**one) for one in content] if isinstance(content, list) else cls.fact(**content)
        return cast(Facts, facts)

    @classmethod
    def render(cls, facts: Sequence[Facts]) -> str:
        """Return the page in Markdown."""
        return ""

    @classmethod
    def save(cls, facts: Facts, results: Path) -> Path:
        """Write the facts to their file, replacing earlier ones."""
        path = Path(results) / cls.folder / cls.file_name(facts)
        content: Any = facts
        write_json(path, [asdict(one) for one in content] if isinstance(content, list) else asdict(content))
        return path

    @classmethod
    def load(cls, results: Path) -> list[Facts]:
        """Read all files of the experiment, ordered by name, with numbers in the names ordered by value."""
        paths = (Path(results) / cls.folder).glob("*.json")
        return [cls.from_json(read_json(path)) for path in sorted(paths, key=_natural_order)]


def _natural_order(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown: the first column is text, the others are numbers.

    The table packages pad the columns to equal width, so that one changed figure would change every line.
    """
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def markdown_section(heading: str, table: str, command: str) -> str:
    """Return a section of a page: a heading, a table and the command that measures its figures."""
    return f"## {heading}\n\n{table}\n```sh\n{command}\n```\n"
