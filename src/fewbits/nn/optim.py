"""The optimizer: Adam, which updates only the rows of a batch's words in a large first layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from fewbits.nn.layers import FirstLayer, SparseBatch
from fewbits.nn.models import Networks

if TYPE_CHECKING:
    from fewbits.nn.row_adam import ByWord, RowAdam


ADAM_OPTIONS: dict[str, Any] = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0.0,
    "amsgrad": False,
    "maximize": False,
}
LARGE_TABLE = 2_000_000  # values; updating all rows of a smaller table takes no longer than finding a batch's rows


class Optimizer:
    """Adam on all parameters of some networks.

    With ``by_rows``, meant for a CPU, a large first layer gets its updates row by row: updating all of its rows would
    be a third of a step. Its full gradient is never materialized, so it cannot be clipped, and autograd does not track
    it.
    """

    def __init__(self, networks: Networks, *, by_rows: bool) -> None:
        self.tables: dict[int, RowAdam] = {}  # by the encoder's place among the networks' encoders
        for place, encoder in enumerate(networks.encoders):
            if by_rows and encoder.words.numel() >= LARGE_TABLE:
                from fewbits.nn.row_adam import RowAdam  # needs numba, which takes half a second to import

                self.tables[place] = RowAdam(encoder.words)
                encoder.words.requires_grad_(False)
        self.parameters = [parameter for parameter in networks.parameters() if parameter.requires_grad]
        # Adam's moments and step counts; its function is called directly, since the overhead of torch's optimizer class
        # exceeds the time of the update itself.
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in self.parameters]

    def prepare(self, rows: SparseBatch) -> ByWord | None:
        """Apply the pending updates of a batch's rows; return the batch by word, None without large tables."""
        if not self.tables:
            return None
        from fewbits.nn.row_adam import ByWord

        by_word: ByWord | None = None
        for table in self.tables.values():
            by_word = by_word or ByWord.of(rows, len(table.table))
            table.catch_up(by_word.words)
        return by_word

    def clear_gradients(self) -> None:
        """Discard the gradients of the last step."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float, by_word: ByWord | None, first_layers: Sequence[FirstLayer]) -> None:
        """Update the networks: parameters by their gradients, large tables by those of the first layers' outputs."""
        moments = zip(self.parameters, self.means, self.squares, self.steps, strict=True)
        changed = [(part[0], part[0].grad, *part[1:]) for part in moments if part[0].grad is not None]
        parameters, gradients, means, squares, steps = map(list, zip(*changed, strict=True))
        adam(parameters, gradients, means, squares, [], steps, lr=rate, fused=True, **ADAM_OPTIONS)
        for place, table in self.tables.items():
            layer = first_layers[place]
            if by_word is not None and layer.outputs.grad is not None:
                table.step(by_word, layer.values, layer.outputs.grad, rate)

    def finish(self) -> None:
        """Apply all updates that are still pending, so that the networks can be read."""
        for table in self.tables.values():
            table.catch_up()

    def state(self) -> dict[str, Tensor]:
        """Return everything needed to resume; no update may be pending."""
        state: dict[str, Tensor] = {}
        for number, (mean, square, step) in enumerate(zip(self.means, self.squares, self.steps, strict=True)):
            state |= {f"{number}.mean": mean, f"{number}.square": square, f"{number}.step": step}
        for number, table in enumerate(self.tables.values()):
            state |= {f"table-{number}.{name}": value for name, value in table.state().items()}
        return state

    def restore(self, state: dict[str, Tensor]) -> None:
        """Resume from a state; the networks must have been restored."""
        for number, moments in enumerate(zip(self.means, self.squares, self.steps, strict=True)):
            for name, value in zip(("mean", "square", "step"), moments, strict=True):
                value.copy_(state[f"{number}.{name}"].reshape(value.shape))  # a scalar may be stored as a list of one
        for number, table in enumerate(self.tables.values()):
            table.restore({name: state[f"table-{number}.{name}"] for name in table.state()})
