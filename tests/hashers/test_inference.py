"""Codes of neural methods do not depend on torch, on the batch or on the order of documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from fewbits import Dataset
from fewbits.data.datasets import PARTS
from fewbits.hashers.registry import make_hasher, write_hasher
from fewbits.nn.layers import SparseBatch


def torch_logits(hasher: Any, rows: Any) -> Any:
    """Compute logits with the products that training uses."""
    (table, start), *later = [[torch.from_numpy(part) for part in layer] for layer in hasher.encoder_layers_]
    x = SparseBatch.from_rows(rows).matmul(table) + start
    for weights, bias in later:
        x = torch.relu(x) @ weights + bias
    if (posterior := getattr(hasher, "posterior_", None)) is not None:
        table, start, codewords = map(torch.from_numpy, (posterior.weights, posterior.bias, posterior.codewords))
        x = x + torch.softmax(SparseBatch.from_rows(rows).matmul(table) + start, dim=1) @ codewords
    return x.numpy()


@pytest.mark.slow
@pytest.mark.xdist_group("archives")
@pytest.mark.parametrize("method", ["bernoulli-vae", "pairwise", "arm-dvae"])
def test_codes_without_torch_are_the_same_in_every_batch_and_order(
    method: str,
    benchmark_set: Callable[[str], Dataset],
    encode_without_torch: Callable[[Path, Any], Any],
    tmp_path: Path,
) -> None:
    dataset = benchmark_set("ng20")
    rows = sparse.csr_array(sparse.vstack([dataset.part(part).features for part in PARTS]))
    hasher = make_hasher(method, 64, 0, epochs=1, **({"n_neighbours": 0} if method == "bernoulli-vae" else {}))
    codes = hasher.fit(dataset.train.features, dataset.train.labels).transform(rows)
    assert len(codes) == 18_846
    write_hasher(hasher, tmp_path)
    assert np.array_equal(encode_without_torch(tmp_path, rows), codes)
    by_torch = torch_logits(hasher, rows) >= 0
    assert np.abs(hasher.margins(rows))[by_torch != codes].max(initial=0) < 1e-5  # up to rounding
    generator = np.random.default_rng(0)
    order = generator.permutation(len(codes))
    boundaries = np.cumsum(generator.choice([1, 7, 100, 1000], len(codes)))
    for some in np.split(order, boundaries[boundaries < len(codes)]):  # alone, too
        assert np.array_equal(hasher.transform(rows[some]), codes[some])
