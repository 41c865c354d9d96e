"""What tables of the report are made of: cells with our figure and the published one, rows, and the table itself."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from fewbits.benchmark.tables import markdown


@dataclass(frozen=True)
class Cell:
    """A figure of ours over the seeds, the published one, or words."""

    values: tuple[float, ...] = ()
    published: float | None = None
    text: str = ""
    published_text: str = ""

    @property
    def mean(self) -> float | None:
        """Mean over the seeds."""
        return statistics.mean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        ours = self.text
        if self.mean is not None:
            ours = f"{self.mean:.3f}" + (f" ± {self.spread:.3f}" if self.spread is not None else "")
        theirs = self.published_text or ("" if self.published is None else f"{self.published:.3f}")
        return f"{ours} ({theirs})".strip() if theirs else ours


@dataclass(frozen=True)
class Row:
    """A method's cells."""

    method: str
    title: str
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """A table of the paper; published figures stand in parentheses."""

    name: str
    title: str
    columns: list[str]
    rows: list[Row]
    command: str
    notes: list[str] = field(default_factory=list)
    rows_are: str = "method"
    has_best: bool = True  # not where rows are about different data sets

    def markdown(self) -> str:
        """The table in Markdown, with its command."""
        rows = [[row.title, *map(str, row.cells)] for row in self.rows]
        notes = [" ".join(self.notes) + "\n"] if self.notes else []
        table = markdown(["", *self.columns], rows)
        return "\n".join([f"## {self.title}\n", *notes, table, f"Made by: `{self.command}`\n"])
