"""What changes the networks after each step: Adam, which of a first layer moves the rows of a batch's words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fewbits.learning.bags import Bags
from fewbits.learning.encoder import Encoder
from fewbits.learning.model import Networks

if TYPE_CHECKING:
    from fewbits.learning.row_adam import ByWord, RowAdam


LARGE_TABLE = 2_000_000  # values; to move all of a smaller one takes no longer than to look for the rows


class Optimizer:
    """Adam on all parameters of some networks.

    ``by_rows`` is for a CPU: there, moving all rows of a large first layer would be a third of a step. The gradient of
    that layer is then nowhere as a whole, and cannot be clipped.
    """

    def __init__(self, networks: Networks, *, by_rows: bool) -> None:
        self.networks = networks
        large = [encoder for encoder in networks.encoders if by_rows and encoder.words.numel() >= LARGE_TABLE]
        self.tables: list[tuple[Encoder, RowAdam]] = []
        self.batch: ByWord  # that the next step is for
        if large:
            from fewbits.learning.row_adam import RowAdam  # compiles its work, which takes a second or two

            self.tables = [(encoder, RowAdam(encoder.words)) for encoder in large]
        for encoder in large:
            encoder.keeps_gradient_apart = True
        apart = {id(encoder.words) for encoder, _ in self.tables}
        self.parameters = [parameter for parameter in networks.parameters() if id(parameter) not in apart]
        self.adam = torch.optim.Adam(self.parameters, fused=True)

    def prepare(self, rows: Bags) -> None:
        """Get ready for a step with these rows."""
        if self.tables:
            from fewbits.learning.row_adam import ByWord

            self.batch = ByWord.of(rows, len(self.tables[0][1].table))
        for _, table in self.tables:
            table.bring_up_to_date(self.batch.words)

    def clear_gradients(self) -> None:
        """Forget the gradients of the last step."""
        for parameter in self.parameters:
            parameter.grad = None
        for encoder, _ in self.tables:
            encoder.gradient_apart = None

    def step(self, rate: float) -> None:
        """Change the networks by the gradients that there are."""
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        for encoder, table in self.tables:
            if encoder.gradient_apart is not None:
                table.step(self.batch, *encoder.gradient_apart, rate)

    def finish(self) -> None:
        """Bring all that was put off up to date: from now on the networks may be looked at."""
        for _, table in self.tables:
            table.bring_up_to_date()

    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on, when nothing is put off."""
        moments = self.adam.state_dict()["state"]
        found = {f"{number}.{name}": value for number, part in moments.items() for name, value in part.items()}
        for number, (_, table) in enumerate(self.tables):
            found |= {f"table-{number}.{name}": value for name, value in table.state().items()}
        return found

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state; the networks have been restored."""
        parts: dict[str, dict[str, Tensor]] = {}
        for name, value in state.items():
            part, moment = name.split(".")
            parts.setdefault(part, {})[moment] = value
        for number, (_, table) in enumerate(self.tables):
            table.restore(parts.pop(f"table-{number}"))
        moments = {int(number): part for number, part in parts.items()}
        self.adam.load_state_dict({**self.adam.state_dict(), "state": moments})
