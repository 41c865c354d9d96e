"""Readouts of the prefixes of a code, so that each prefix becomes a code of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fewbits.nn.layers import ReadoutLoss, SoftmaxReadout, SparseBatch


class NestedReadout(nn.Module):
    """One readout per prefix of the code: the longest has all bits.

    A readout shared by all prefixes would have one embedding per bit, which would have to suit short and long codes.
    """

    def __init__(self, prefixes: Sequence[int], make: Callable[[int], SoftmaxReadout]) -> None:
        super().__init__()
        self.prefixes = tuple(prefixes)
        self._readouts = nn.ModuleList(make(length) for length in self.prefixes)

    @property
    def readouts(self) -> list[SoftmaxReadout]:
        """Return the readouts, from the shortest prefix to the whole code."""
        return list(self._readouts)  # type: ignore[arg-type]

    @property
    def longest(self) -> SoftmaxReadout:
        """Return the readout of the whole code."""
        return self.readouts[-1]

    @property
    def table(self) -> nn.Parameter:
        """Return the table of the whole code: (outputs, bits + 1)."""
        return self.longest.table

    @property
    def embeddings(self) -> Tensor:
        """Return the embeddings of the whole code: (outputs, bits)."""
        return self.longest.embeddings

    @property
    def bias(self) -> Tensor:
        """Return the biases of the whole code: (outputs,)."""
        return self.longest.bias

    def loss(self, targets: SparseBatch, shift: Tensor | None = None) -> NestedLoss:
        """Return the loss of a batch of target rows as a function of their codes; ``shift`` is added to the codes."""
        shifts = [None if shift is None else shift[:, :length] for length in self.prefixes]
        pairs = zip(self.readouts, shifts, strict=True)
        return NestedLoss(self.prefixes, [readout.loss(targets, part) for readout, part in pairs])


class NestedLoss:
    """The sum of the losses of all prefixes of a code, with every single-bit flip in closed form."""

    def __init__(self, prefixes: Sequence[int], losses: Sequence[ReadoutLoss]) -> None:
        self.parts = list(zip(prefixes, losses, strict=True))

    def __call__(self, codes: Tensor) -> Tensor:
        """Compute the losses (documents,) of codes (documents, bits)."""
        return torch.stack([loss(codes[:, :length]) for length, loss in self.parts]).sum(dim=0)

    def of_both(self, codes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the losses of two codes per document; only the first have a gradient."""
        both = [loss.of_both(codes[:, :length], others[:, :length]) for length, loss in self.parts]
        first, second = zip(*both, strict=True)
        return torch.stack(first).sum(dim=0), torch.stack(second).sum(dim=0)

    def with_flips(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the losses (documents,) and their changes for each flipped bit (documents, bits)."""
        values = []
        changes = torch.zeros_like(codes)
        for length, loss in self.parts:
            value, change = loss.with_flips(codes[:, :length])
            values.append(value)
            changes[:, :length] += change
        return torch.stack(values).sum(dim=0), changes
