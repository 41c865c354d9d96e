"""Every method learns the codes that it learnt at an earlier state, to the last bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from .corpus import HERE

GOLDEN: dict[str, Any] = json.loads((HERE / "codes.json").read_text())
pytestmark = pytest.mark.xdist_group("golden-codes")  # all are learnt at once


@pytest.fixture(scope="module")
def learnt() -> dict[str, Any]:
    """Learn everything, where libraries and processor are those of the golden codes."""
    pytest.importorskip("torch", reason="the neural methods learn with torch")
    from .codes import codes_in_one_thread, machine

    here, there = machine(), GOLDEN["machine"]
    if here != there:
        pytest.skip(f"codes are equal on equal machines only: they were made with {there}, and this is {here}")
    return codes_in_one_thread()


@pytest.mark.parametrize("name", GOLDEN["codes"])
def test_a_method_learns_the_codes_that_it_learnt(name: str, learnt: dict[str, Any]) -> None:
    now, golden = learnt["codes"][name], GOLDEN["codes"][name]
    differing = [place for place, codes in enumerate(zip(now, golden, strict=True)) if codes[0] != codes[1]]
    assert not differing, f"{len(differing)} of {len(golden)} documents have another code, the first is {differing[0]}"


@pytest.mark.parametrize("name", GOLDEN["margins"])
def test_margins_are_what_they_were(name: str, learnt: dict[str, Any]) -> None:
    np.testing.assert_allclose(learnt["margins"][name], GOLDEN["margins"][name], rtol=1e-5, atol=1.1e-5)
