"""Outcomes of attacks: the table that is printed, the files they are kept in, and the page rendered from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "attack"
PAGE = ROOT / "docs" / "reliability.md"
PROMISES = Path(__file__).with_name("promises.md")


@dataclass(frozen=True)
class Outcome:
    """What came of an attack: the attempts, how many were held and lost, and what was measured."""

    name: str
    tried: int
    held: int
    lost: int
    figures: dict[str, float] = field(default_factory=dict)  # by a name that contains the unit
    failures: tuple[str, ...] = ()  # the first attempts that were lost, one sentence each


class Attack(NamedTuple):
    """An attack: its name, the part of the software that it is aimed at, and the function that runs it.

    The function gets a factor for the number of attempts: 1 for ``make attack``, less in tests.
    """

    name: str
    target: str
    run: Callable[[float], Outcome]


class Count:
    """Count attempts that were held and lost."""

    def __init__(self) -> None:
        self.held = 0
        self.lost = 0
        self.failures: list[str] = []

    def check(self, is_held: bool, failure: str) -> None:
        """Count an attempt; ``failure`` says what was wrong if it was lost."""
        if is_held:
            self.held += 1
            return
        self.lost += 1
        if len(self.failures) < 5:
            self.failures.append(failure[:300])

    def outcome(self, name: str, figures: dict[str, float] | None = None) -> Outcome:
        """Return the outcome of all attempts."""
        return Outcome(name, self.held + self.lost, self.held, self.lost, figures or {}, tuple(self.failures))


def save(target: str, outcome: Outcome, folder: Path = RESULTS) -> None:
    """Write an outcome to its file."""
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"target": target, **asdict(outcome)}, indent=1) + "\n"
    (folder / f"{target}-{outcome.name.replace(' ', '-')}.json").write_text(content)


def load(folder: Path = RESULTS) -> list[tuple[str, Outcome]]:
    """Read all outcomes with their targets, ordered by target and name."""
    outcomes = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        target = content.pop("target")
        outcomes.append((target, Outcome(**{**content, "failures": tuple(content["failures"])})))
    return outcomes


def table(outcomes: Sequence[tuple[str, Outcome]]) -> str:
    """Return outcomes as a Markdown table with their sums."""
    lines = ["| target | attack | tried | held | lost | figures |", "| --- | --- | --- | --- | --- | --- |"]
    for target, outcome in outcomes:
        cells = [target, outcome.name, *_counts([outcome]), _figures(outcome.figures)]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(f"| all | | {' | '.join(_counts([outcome for _, outcome in outcomes]))} | |")
    return "\n".join(lines)


def render(outcomes: Sequence[tuple[str, Outcome]], promises: Path = PROMISES) -> str:
    """Return the page about reliability: what is promised, and the table."""
    return promises.read_text().replace("TABLE\n", table(outcomes) + "\n")


def _counts(outcomes: Iterable[Outcome]) -> list[str]:
    counts = [(outcome.tried, outcome.held, outcome.lost) for outcome in outcomes]
    return [f"{sum(column):,}" for column in zip(*counts, strict=True)] or ["0"] * 3


def _figures(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())
