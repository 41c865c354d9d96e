"""The most memory that this process has held since a moment."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def forget_peak() -> None:
    """Start counting anew, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # elsewhere the peak is that of the whole process
        return


def peak_memory_mb() -> float:
    """Peak of resident memory in megabytes (1,000,000 bytes)."""
    if STATUS.exists():
        [line] = [line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
        return round(int(line.split()[1]) * 1024 / 1e6, 1)
    import resource  # not on every system

    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)
