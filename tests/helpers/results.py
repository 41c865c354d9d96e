"""Results of made-up runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fewbits.benchmark.results import Result
from fewbits.hashers.registry import make_hasher

ROOT = Path(__file__).parents[2]


def make_result(method: str, bits: int, precision: float, dataset: str = "ng20", **parameters: Any) -> Result:
    """Return a result with a given precision."""
    used = {**make_hasher(method, bits).get_params(), **parameters}
    for name in ("n_bits", "random_state", "callbacks", "checkpoint", "device", "verbose"):
        used.pop(name, None)
    metrics = {"precision_at_100": precision, "random_floor": 0.05}
    return Result(method, dataset, bits, 0, "test", json.loads(json.dumps(used)), metrics, {}, 1.0, {}, "f" * 64)
