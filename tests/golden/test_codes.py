"""Every method gives the same codes as an earlier version, to the last bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from .corpus import HERE

GOLDEN: dict[str, Any] = json.loads((HERE / "codes.json").read_text())
pytestmark = pytest.mark.xdist_group("golden-codes")  # all are fitted in one process


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """Fit everything, if libraries and processor are those of the golden codes."""
    pytest.importorskip("torch", reason="the neural methods need torch")
    from .codes import codes_in_one_thread, platform_facts

    here, there = platform_facts(), GOLDEN["machine"]
    if here != there:
        pytest.skip(f"codes depend on processor and libraries: expected {there}, got {here}")
    return codes_in_one_thread()


@pytest.mark.parametrize("name", GOLDEN["codes"])
def test_a_method_gives_the_same_codes(name: str, fitted: dict[str, Any]) -> None:
    now, golden = fitted["codes"][name], GOLDEN["codes"][name]
    differing = [place for place, codes in enumerate(zip(now, golden, strict=True)) if codes[0] != codes[1]]
    assert not differing, f"{len(differing)} of {len(golden)} documents have another code, the first is {differing[0]}"


@pytest.mark.parametrize("name", GOLDEN["margins"])
def test_a_method_gives_the_same_margins(name: str, fitted: dict[str, Any]) -> None:
    np.testing.assert_allclose(fitted["margins"][name], GOLDEN["margins"][name], rtol=1e-5, atol=1.1e-5)
