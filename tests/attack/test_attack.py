"""The attacks of ``make attack``, with fewer attempts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attack.outcomes import Attack, Count, Outcome, load, render, save, table
from attack.run import ATTACKS

SCALE = 0.002


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.name)
def test_nothing_is_lost(attack: Attack) -> None:
    name = attack.name
    if name == "full disk" and os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    # In a process of its own, as attacks fork.
    command = [sys.executable, "-m", "attack.run", "--name", name, "--scale", str(SCALE)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_outcomes_are_kept_and_rendered_with_their_sums(tmp_path: Path) -> None:
    count = Count()
    for number in range(10):
        count.check(number % 5 > 0, f"attempt {number}")
    outcome = count.outcome("two words", {"cpu s": 1.25})
    assert outcome == Outcome("two words", 10, 8, 2, {"cpu s": 1.25}, ("attempt 0", "attempt 5"))
    save("input", outcome, tmp_path)
    save("folder", Outcome("other", 1_000, 1_000, 0), tmp_path)
    assert load(tmp_path) == [("folder", Outcome("other", 1_000, 1_000, 0)), ("input", outcome)]
    assert table(load(tmp_path)).splitlines()[2:] == [
        "| folder | other | 1,000 | 1,000 | 0 |  |",
        "| input | two words | 10 | 8 | 2 | cpu s 1.25 |",
        "| all | | 1,010 | 1,008 | 2 | |",
    ]
    assert table(load(tmp_path)) in render(load(tmp_path))
