"""Checkpoints: the state of a training after an epoch, from which it resumes with the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fewbits.errors import BrokenFolderError, MissingFileError
from fewbits.nn.optim import Optimizer
from fewbits.storage import load_folder, read_arrays, read_json, save_folder, write_arrays, write_json

FORMAT = "fewbits checkpoint"
FORMAT_VERSION = 2


def seed_of_checkpoint(folder: str | Path, drawn: int) -> int:
    """Return the seed of the first training with this folder, and record ``drawn`` if this is the first."""
    path = Path(folder) / "seed.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"seed": drawn})
    return int(read_json(path)["seed"])


class Checkpoint:
    """A folder with the networks, optimizer, epoch and history of one training."""

    def __init__(self, folder: str | Path, training: str) -> None:
        self.folder = Path(folder)
        self.training = training  # fingerprint of data and parameters: only the same training may resume

    def save(self, model: nn.Module, optimizer: Optimizer, best: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Replace the saved state."""

        def write(folder: Path) -> None:
            arrays = {f"model.{name}": value for name, value in model.state_dict().items()}
            arrays |= {f"best.{name}": value for name, value in best.items()}
            arrays |= {f"optimizer.{name}": value for name, value in optimizer.state().items()}
            write_arrays(
                folder / "state.safetensors", {name: value.numpy(force=True) for name, value in arrays.items()}
            )
            write_json(folder / "state.json", {"training": self.training, **state})

        save_folder(self.folder, FORMAT, FORMAT_VERSION, write)

    def resume(self, model: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Restore the saved state and return it with the best networks; None if nothing is saved."""
        try:
            state, arrays = load_folder(self.folder, FORMAT, FORMAT_VERSION, self._read)
        except MissingFileError:
            return None
        if state.pop("training") != self.training:
            raise BrokenFolderError(
                f"{self.folder} holds a checkpoint of another training",
                hint="Its data or parameters differ, or its random_state. Choose another folder, or delete this one.",
            )
        model.load_state_dict(_with_prefix(arrays, "model."))
        optimizer.restore(_with_prefix(arrays, "optimizer."))
        return state, _with_prefix(arrays, "best.")

    @staticmethod
    def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        arrays = read_arrays(folder / "state.safetensors")
        return read_json(folder / "state.json"), {name: torch.from_numpy(value) for name, value in arrays.items()}


def _with_prefix(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
