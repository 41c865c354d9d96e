from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fewbits.benchmark.experiments.service import render_load


def test_the_service_under_load_is_measured_saved_and_rendered(tmp_path: Path) -> None:
    def run(*options: str) -> str:
        command = [sys.executable, "-m", "fewbits", "bench", "service", *options, "--results", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    size = ("--documents", "2000", "--clients", "3", "--seconds", "1")
    found = json.loads(run(*size, "--rescore", "none", "--save"))
    assert found["errors"] == 0
    assert found["requests"] > 0
    assert found["documents"] == 2000
    assert 0 < found["median_ms"] <= found["p99_ms"]
    assert json.loads((tmp_path / "service" / "load-none.json").read_text()) == found
    assert f"| {found['requests']:,} | 0 |" in render_load(tmp_path / "service")
