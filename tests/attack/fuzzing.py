"""Fuzzing of what users write: conditions and queries."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attack.outcomes import Attack, Count, Outcome
from fewbits import Condition
from fewbits.errors import FewbitsError
from fewbits.search.words import parse, possible_fields, split, word_spans

EXAMPLES = 5_000
CPU_SECONDS = 1.0

CONDITIONS = st.text(max_size=2_000) | st.text(' \t\n<>=!ay1.e-"[]{}', max_size=1_500)
PARTS = st.sampled_from(
    ['"', "-", "*", ":", " ", "a", "year:", "-a ", "\u0300", "\u0316", "京", "\u064b", "_", "+", "#", "\x00"]
)
QUERIES = (
    st.text(max_size=2_000)
    | st.lists(PARTS, max_size=400).map("".join)
    | st.lists(PARTS, max_size=9).map(lambda parts: "".join(parts) * 400)
)


def _fuzz(name: str, strategy: st.SearchStrategy[str], work: Callable[[str], object], scale: float) -> Outcome:
    """Call a function with generated texts; it may only raise errors of the library, and not for long."""
    count = Count()
    slowest = 0.0

    @settings(
        max_examples=max(10, int(EXAMPLES * scale)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def attempt(text: str) -> None:
        nonlocal slowest
        start = time.process_time()
        try:
            work(text)
            error = ""
        except FewbitsError:
            error = ""
        except Exception as other:
            error = repr(other)
        seconds = time.process_time() - start
        slowest = max(slowest, seconds)
        count.check(not error and seconds < CPU_SECONDS, f"{text[:60]!r}: {error} after {seconds:.2f} s")

    attempt()
    return count.outcome(name, {"slowest cpu s": round(slowest, 4)})


def _read_query(text: str) -> None:
    fields = possible_fields(text)
    parse(text, fields)
    word_spans(text, fields)
    split(text)


ATTACKS = [
    Attack("conditions", "input", partial(_fuzz, "conditions", CONDITIONS, Condition.parse)),
    Attack("queries", "input", partial(_fuzz, "queries", QUERIES, _read_query)),
]
