"""The training loop: epochs, learning-rate schedules, early stopping, history and checkpoints."""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fewbits.errors import BrokenFolderError, MissingFileError, ParameterError, TrainingError
from fewbits.nn.data import Batch
from fewbits.nn.models import Networks
from fewbits.nn.optim import Optimizer
from fewbits.storage import load_folder, read_arrays, read_json, save_folder, write_arrays, write_json

EpochRecord = dict[str, float]
Batches = Callable[[int], Iterable[Batch]]
FORMAT = "fewbits checkpoint"
FORMAT_VERSION = 2
VALIDATION_SEED = 20_20  # the same codes are sampled for the validation part after every epoch


def cosine(progress: float) -> float:
    """Decrease from 1 to 0 along half a cosine."""
    return 0.5 * (1 + math.cos(math.pi * progress))


def constant(progress: float) -> float:
    """Return 1."""
    return 1.0


LEARNING_RATES: dict[str, Callable[[float], float]] = {"cosine": cosine, "constant": constant}


def learning_rate_schedule(name: str) -> Callable[[float], float]:
    """Look up a schedule: the learning rate's factor as a function of the share of steps taken."""
    if name not in LEARNING_RATES:
        raise ParameterError("unknown schedule", allowed=", ".join(LEARNING_RATES), got=repr(name))
    return LEARNING_RATES[name]


class Objective(Protocol):
    """The training objective."""

    def __call__(
        self,
        model: Any,
        outputs: Sequence[Tensor],
        batch: Batch,
        epoch: int,
        progress: float,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch, and terms that are summed over the epoch's batches.

        ``outputs`` are those of the model's encoders; ``progress`` is the share of training steps taken.
        """

    def summarize(self, sums: Mapping[str, Tensor], steps: int) -> dict[str, float]:
        """Return the figures of an epoch's record from the sums of the terms."""


@dataclass(frozen=True)
class TrainerConfig:
    """Options of the training loop."""

    epochs: int
    steps_per_epoch: int
    learning_rate: float
    schedule: str = "cosine"
    clip: float | None = None  # largest norm of the gradient
    patience: int | None = None  # epochs without a better validation loss before stopping
    seed: int = 0
    callbacks: Sequence[Callable[[EpochRecord], Any]] = ()


@dataclass
class Progress:
    """The state of a training beside its networks; all of it is saved in a checkpoint."""

    epoch: int = 0
    best_epoch: int = 0
    best_loss: float | None = None
    history: list[EpochRecord] = field(default_factory=list)


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


class Training:
    """Trains a model in place; with a checkpoint, resumes where the last run was interrupted.

    ``batches(epoch)`` returns an epoch's batches. Like all random draws they depend on the epoch's number only, so an
    epoch that is repeated after a crash gives the same result to the bit.
    """

    def __init__(
        self,
        model: Networks,
        objective: Objective,
        batches: Batches,
        config: TrainerConfig,
        *,
        validation: Callable[[], Iterable[Batch]] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.model = model
        self.objective = objective
        self.batches = batches
        self.config = config
        self.validation = validation
        self.checkpoint = checkpoint
        self.device = model.decoder.table.device
        self.optimizer = Optimizer(model, by_rows=self.device.type == "cpu" and config.clip is None)
        self.schedule = learning_rate_schedule(config.schedule)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}  # the networks at the best validation loss

    def run(self, show: Callable[[EpochRecord], Any] | None = None) -> list[EpochRecord]:
        """Train to the end and return the history, one record per epoch; ``show`` is called with each."""
        self._resume()
        while self.progress.epoch < self.config.epochs and not self._should_stop():
            with retain_freed_memory():
                record = self._run_epoch(self.progress.epoch)
            self.progress.epoch += 1
            self._validate(record)
            self.progress.history.append(record)
            if self.checkpoint:
                self.checkpoint.save(self.model, self.optimizer, self.best, asdict(self.progress))
            for callback in (*self.config.callbacks, *([show] if show else [])):
                callback(record)
        if self.best:
            self.model.load_state_dict(self.best)
        self.model.eval()
        return self.progress.history

    def _resume(self) -> None:
        restored = self.checkpoint.resume(self.model, self.optimizer) if self.checkpoint else None
        if restored is not None:
            state, self.best = restored
            self.progress = Progress(**state)

    def _run_epoch(self, epoch: int) -> EpochRecord:
        generator = torch.Generator(self.device).manual_seed(self.config.seed * 1_000_003 + epoch)
        self.model.train()
        sums: dict[str, Tensor] = {}  # not every value: small blocks kept among freed ones would fragment memory
        steps = self.config.steps_per_epoch
        start = time.perf_counter()
        for step, batch in enumerate(self.batches(epoch)):
            progress = (epoch + step / steps) / self.config.epochs
            for name, value in self._step(batch, epoch, progress, generator).items():
                sums.setdefault(name, torch.zeros_like(value)).add_(value)
        self.optimizer.finish()
        seconds = round(time.perf_counter() - start, 3)
        means = self.objective.summarize(sums, steps)
        if not all(map(math.isfinite, means.values())):
            got = ", ".join(f"{name} {value:g}" for name, value in means.items())
            hint = "Choose a smaller learning_rate, or set clip."
            raise TrainingError(f"Training diverged: the loss is not finite in epoch {epoch + 1}", got=got, hint=hint)
        rate = self.config.learning_rate * self.schedule(progress)
        return {"epoch": epoch + 1, "learning_rate": rate, **means, "seconds": seconds}

    def _step(self, batch: Batch, epoch: int, progress: float, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one training step; return the terms of the loss."""
        by_word = self.optimizer.prepare(batch.rows)
        outputs, first_layers = self.model.encode(batch.rows, generator)  # logits psi (documents, bits)
        loss, terms = self.objective(self.model, outputs, batch, epoch, progress, generator)  # estimator and losses
        self.optimizer.clear_gradients()
        torch.autograd.backward(loss)
        if self.config.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step(self.config.learning_rate * self.schedule(progress), by_word, first_layers)
        return terms

    def _validate(self, record: EpochRecord) -> None:
        """Record the validation loss, and keep a copy of the networks if it is the lowest so far."""
        if self.validation is None:
            return
        loss = record["held_out_loss"] = self._validation_loss(self.validation(), self.progress.epoch - 1)
        if self.progress.best_loss is None or loss < self.progress.best_loss:
            self.progress.best_loss, self.progress.best_epoch = loss, self.progress.epoch
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}

    @torch.no_grad()
    def _validation_loss(self, batches: Iterable[Batch], epoch: int) -> float:
        generator = torch.Generator(self.device).manual_seed(VALIDATION_SEED)
        self.model.eval()
        losses = []
        for batch in batches:
            outputs, _ = self.model.encode(batch.rows, generator)
            losses.append(float(self.objective(self.model, outputs, batch, epoch, 1.0, generator)[0]))
        return sum(losses) / len(losses)

    def _should_stop(self) -> bool:
        waited = self.progress.epoch - self.progress.best_epoch
        return self.validation is not None and self.config.patience is not None and waited >= self.config.patience


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt, as numbered in malloc.h
GIB = 1 << 30
DEFAULT_THRESHOLD = 32 << 20  # where glibc's dynamic threshold settles once large blocks have been freed


@contextmanager
def retain_freed_memory() -> Iterator[None]:
    """Keep freed memory inside the block instead of returning it to the system; return it at the end.

    Every step needs the same few large blocks. By default glibc returns such blocks and requests new ones, which the
    system fills with zeros page by page; that can be a third of a step. With another C library nothing changes.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):
        yield
        return
    library.mallopt(MMAP_THRESHOLD, GIB)
    library.mallopt(TRIM_THRESHOLD, GIB)
    try:
        yield
    finally:
        library.mallopt(MMAP_THRESHOLD, DEFAULT_THRESHOLD)
        library.mallopt(TRIM_THRESHOLD, 2 * DEFAULT_THRESHOLD)
        library.malloc_trim(0)
