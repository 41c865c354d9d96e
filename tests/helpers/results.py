"""Made-up results of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fewbits.benchmark.results import Result
from fewbits.benchmark.spec import Spec

ROOT = Path(__file__).parents[2]


def make_result(
    method: str, bits: int, precision: float, dataset: str = "ng20", *, seed: int = 0, **parameters: Any
) -> Result:
    """Return a result with a given precision."""
    spec = Spec(method, dataset, bits, seed, parameters=parameters)
    metrics = {"precision_at_100": precision, "random_floor": 0.05}
    stored = json.loads(json.dumps(spec.all_parameters))
    return Result(method, dataset, bits, seed, "test", stored, metrics, {}, 1.0, {}, "f" * 64)
