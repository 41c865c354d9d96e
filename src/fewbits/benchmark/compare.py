"""Our figures beside the published ones, and beside our own of before: has anything got worse?"""

from __future__ import annotations

import io
import statistics
import subprocess
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fewbits.benchmark.figures import Figure
from fewbits.benchmark.paper import Store, more_tables
from fewbits.benchmark.published import render_comparison
from fewbits.benchmark.results import Result, load_results
from fewbits.errors import MissingFileError

METRIC = "precision_at_100"


@dataclass(frozen=True)
class Worse:
    """A cell whose precision has fallen: means over the seeds that both have."""

    method: str
    dataset: str
    bits: int
    before: float
    now: float


def render_all(results: Iterable[Result], figures: Iterable[Figure]) -> str:
    """Every table of the paper in Markdown, ours beside the published figures."""
    found = list(results)
    store = Store(result for result in found if result.part == "test")
    return "\n".join([render_comparison(found), *(table.markdown() for table in more_tables(store, figures))])


def find_worse(now: Iterable[Result], before: Iterable[Result], tolerance: float) -> list[Worse]:
    """Cells that both have, on the same documents, whose precision fell by more than the tolerance."""
    found = {_run(result): result for result in now}
    pairs: defaultdict[tuple[str, str], list[tuple[Result, Result]]] = defaultdict(list)
    for old in before:
        if new := found.get(_run(old)):
            pairs[old.cell, old.data_fingerprint].append((old, new))
    worse = []
    for both in pairs.values():
        was, is_now = (statistics.mean(pair[side].metrics[METRIC] for pair in both) for side in (0, 1))
        if was - is_now > tolerance:
            first = both[0][0]
            worse.append(Worse(first.method, first.dataset, first.bits, was, is_now))
    return worse


def _run(result: Result) -> tuple[str, str]:
    return result.key, result.data_fingerprint


def load_baseline(baseline: str, results: Path) -> list[Result]:
    """Results to compare with: those of a folder, or those that a git revision has of the same folder."""
    if Path(baseline).is_dir():
        return list(load_results(Path(baseline)))
    folder = Path(results).absolute()
    command = ["git", "archive", "--format=tar", baseline]  # of the folder that it is called in
    archive = None
    if folder.is_dir():
        archive = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if archive is None or archive.returncode:
        raise MissingFileError(
            f"there is nothing to compare {results} with",
            allowed="a folder of results, or a git revision that has them",
            got=baseline,
        )
    with tempfile.TemporaryDirectory() as place, tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(place, filter="data")
        return list(load_results(Path(place)))
