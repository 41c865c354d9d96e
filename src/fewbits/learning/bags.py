"""Sparse rows as torch takes them: the words of all documents in one list, with the place where each begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Bags:
    """A batch of sparse rows; nothing of size documents x words."""

    words: Tensor  # (nonzeros,), int64
    values: Tensor  # (nonzeros,)
    starts: Tensor  # (documents,), int64
    rows: Tensor  # (nonzeros,), int64: the document of each word
    totals: Tensor  # (documents,): sum of values, N in the reconstruction loss

    @classmethod
    def from_rows(cls, rows: Any, device: torch.device | None = None) -> Bags:
        """Convert CSR rows."""
        lengths = np.diff(rows.indptr)
        values = torch.from_numpy(np.ascontiguousarray(rows.data, dtype=np.float32)).to(device)
        row_of = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths)).to(device)
        return cls(
            words=torch.from_numpy(rows.indices.astype(np.int64)).to(device),
            values=values,
            starts=torch.from_numpy(rows.indptr[:-1].astype(np.int64)).to(device),
            rows=row_of,
            totals=torch.zeros(len(lengths), device=device).index_add_(0, row_of, values),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def times(self, table: Tensor, values: Tensor | None = None) -> Tensor:
        """Product with a dense table (words, columns): (documents, columns)."""
        weights = self.values if values is None else values
        return torch.nn.functional.embedding_bag(self.words, table, self.starts, mode="sum", per_sample_weights=weights)
