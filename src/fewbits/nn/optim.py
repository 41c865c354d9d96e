"""What changes the networks after each step: Adam, which of a first layer moves the rows of a batch's words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from fewbits.nn.layers import Encoder, SparseBatch
from fewbits.nn.models import Networks

if TYPE_CHECKING:
    from fewbits.nn.row_adam import ByWord, RowAdam


USUAL: dict[str, Any] = {
    "beta1": 0.9,
    "beta2": 0.999,
    "eps": 1e-8,
    "weight_decay": 0.0,
    "amsgrad": False,
    "maximize": False,
}
LARGE_TABLE = 2_000_000  # values; to move all of a smaller one takes no longer than to look for the rows


class Optimizer:
    """Adam on all parameters of some networks.

    ``by_rows`` is for a CPU: there, moving all rows of a large first layer would be a third of a step. The gradient of
    that layer is then nowhere as a whole, and cannot be clipped.
    """

    def __init__(self, networks: Networks, *, by_rows: bool) -> None:
        large = [encoder for encoder in networks.encoders if by_rows and encoder.words.numel() >= LARGE_TABLE]
        self.tables: list[tuple[Encoder, RowAdam]] = []
        self.batch: ByWord  # that the next step is for
        if large:
            from fewbits.nn.row_adam import RowAdam

            self.tables = [(encoder, RowAdam(encoder.words)) for encoder in large]
        for encoder in large:
            encoder.keeps_factored_gradient = True
        apart = {id(encoder.words) for encoder, _ in self.tables}
        self.parameters = [parameter for parameter in networks.parameters() if id(parameter) not in apart]
        # Adam's moments and steps; its function is called directly, because an optimiser of torch's takes longer to get
        # to it than it takes itself.
        self.means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in self.parameters]

    def prepare(self, rows: SparseBatch) -> None:
        """Get ready for a step with these rows."""
        if self.tables:
            from fewbits.nn.row_adam import ByWord

            self.batch = ByWord.of(rows, len(self.tables[0][1].table))
        for _, table in self.tables:
            table.catch_up(self.batch.words)

    def clear_gradients(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self.parameters:
            parameter.grad = None
        for encoder, _ in self.tables:
            encoder.factored_gradient = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Change the networks by the gradients that there are."""
        moments = zip(self.parameters, self.means, self.squares, self.steps, strict=True)
        changed = [(part[0], part[0].grad, *part[1:]) for part in moments if part[0].grad is not None]
        parameters, gradients, means, squares, steps = map(list, zip(*changed, strict=True))
        adam(parameters, gradients, means, squares, [], steps, lr=rate, fused=True, **USUAL)
        for encoder, table in self.tables:
            if encoder.factored_gradient is not None:
                table.step(self.batch, *encoder.factored_gradient, rate)

    def finish(self) -> None:
        """Bring all that was put off up to date: from now on the networks may be looked at."""
        for _, table in self.tables:
            table.catch_up()

    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on, when nothing is put off."""
        found: dict[str, Tensor] = {}
        for number, (mean, square, step) in enumerate(zip(self.means, self.squares, self.steps, strict=True)):
            found |= {f"{number}.mean": mean, f"{number}.square": square, f"{number}.step": step}
        for number, (_, table) in enumerate(self.tables):
            found |= {f"table-{number}.{name}": value for name, value in table.state().items()}
        return found

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state; the networks have been restored."""
        for number, moments in enumerate(zip(self.means, self.squares, self.steps, strict=True)):
            for name, value in zip(("mean", "square", "step"), moments, strict=True):
                value.copy_(state[f"{number}.{name}"].reshape(value.shape))  # a number may come back as a list of one
        for number, (_, table) in enumerate(self.tables):
            table.restore({name: state[f"table-{number}.{name}"] for name in table.state()})
