"""The training loop: epochs of batches, Adam, schedules, early stopping, history, checkpoints."""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from fewbits.errors import TrainingError
from fewbits.nn.checkpoints import Checkpoint
from fewbits.nn.losses import Batch
from fewbits.nn.models import Networks
from fewbits.nn.optim import Optimizer
from fewbits.nn.schedules import learning_rate_schedule

EpochRecord = dict[str, float]
Batches = Callable[[int], Iterable[Batch]]
HELD_OUT_SEED = 20_20  # the same codes are drawn for the held-out part after every epoch


class Objective(Protocol):
    """What a training makes small."""

    def __call__(
        self, model: Any, batch: Batch, done: float, generator: torch.Generator | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of a batch when a share of training is ``done``, and its terms for the history."""

    def begin_epoch(self, epoch: int) -> None:
        """Follow schedules that go by epochs."""

    def end_epoch(self) -> dict[str, float]:
        """What the history tells of an epoch beside the terms of its batches."""


@dataclass(frozen=True)
class TrainerConfig:
    """How long and how fast to train."""

    epochs: int
    steps_per_epoch: int
    learning_rate: float
    schedule: str = "cosine"
    clip: float | None = None  # largest norm of the gradient
    patience: int | None = None  # epochs without a better held-out loss before stopping
    seed: int = 0
    callbacks: Sequence[Callable[[EpochRecord], Any]] = ()


@dataclass
class Progress:
    """Where a training stands; all of it is in a checkpoint."""

    epoch: int = 0
    best_epoch: int = 0
    best_loss: float | None = None
    history: list[EpochRecord] = field(default_factory=list)


class Training:
    """Trains a model in place; with a checkpoint, goes on where the last run was cut off.

    ``batches(epoch)`` gives an epoch's batches. Like everything that is drawn they follow from the epoch's number
    alone, so an epoch begun again after a crash is the same epoch, and its outcome is the same to the bit.
    """

    def __init__(
        self,
        model: Networks,
        objective: Objective,
        batches: Batches,
        loop: TrainerConfig,
        *,
        held_out: Callable[[], Iterable[Batch]] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.model = model
        self.objective = objective
        self.batches = batches
        self.loop = loop
        self.held_out = held_out
        self.checkpoint = checkpoint
        self.optimizer = Optimizer(model, by_rows=self._device.type == "cpu" and loop.clip is None)
        self.schedule = learning_rate_schedule(loop.schedule)
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}  # the networks of the best held-out loss

    def run(self, show: Callable[[EpochRecord], Any] | None = None) -> list[EpochRecord]:
        """Train to the end and return the history, a record an epoch; ``show`` is called with each."""
        self._resume()
        while self.progress.epoch < self.loop.epochs and not self._should_stop():
            with retain_freed_memory():
                record = self._run_epoch(self.progress.epoch)
            self.progress.epoch += 1
            self._validate(record)
            self.progress.history.append(record)
            if self.checkpoint:
                self.checkpoint.save(self.model, self.optimizer, self.best, asdict(self.progress))
            for callback in (*self.loop.callbacks, *([show] if show else [])):
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
        generator = torch.Generator(self._device).manual_seed(self.loop.seed * 1_000_003 + epoch)
        self.objective.begin_epoch(epoch)
        self.model.train()
        sums: dict[str, Tensor] = {}  # not all values: what stays among blocks that go keeps memory from being reused
        steps = self.loop.steps_per_epoch
        start = time.perf_counter()
        for step, batch in enumerate(self.batches(epoch)):
            done = (epoch + step / steps) / self.loop.epochs
            for name, value in self._step(batch, done, generator).items():
                sums.setdefault(name, torch.zeros_like(value)).add_(value)
        means = {name: float(total) / steps for name, total in sums.items()}
        self.optimizer.finish()
        seconds = round(time.perf_counter() - start, 3)
        if not all(map(math.isfinite, means.values())):
            got = ", ".join(f"{name} {value:g}" for name, value in means.items())
            hint = "Choose a smaller learning_rate, or set clip."
            raise TrainingError(f"the loss is no number in epoch {epoch + 1}", got=got, hint=hint)
        rate = self.loop.learning_rate * self.schedule(done)
        return {"epoch": epoch + 1, "learning_rate": rate, **means, **self.objective.end_epoch(), "seconds": seconds}

    def _step(self, batch: Batch, done: float, generator: torch.Generator) -> dict[str, Tensor]:
        self.optimizer.prepare(batch.rows)
        loss, terms = self.objective(self.model, batch, done, generator)
        self.optimizer.clear_gradients()
        torch.autograd.backward(loss)
        if self.loop.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.loop.clip)
        self.optimizer.step(self.loop.learning_rate * self.schedule(done))
        return terms

    def _validate(self, record: EpochRecord) -> None:
        """Look at the held-out part, and keep the networks if they were never better."""
        if self.held_out is None:
            return
        loss = record["held_out_loss"] = self._held_out_loss(self.held_out())
        if self.progress.best_loss is None or loss < self.progress.best_loss:
            self.progress.best_loss, self.progress.best_epoch = loss, self.progress.epoch
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}

    @torch.no_grad()
    def _held_out_loss(self, batches: Iterable[Batch]) -> float:
        generator = torch.Generator(self._device).manual_seed(HELD_OUT_SEED)
        self.model.eval()
        losses = [float(self.objective(self.model, batch, 1.0, generator)[0]) for batch in batches]
        return sum(losses) / len(losses)

    def _should_stop(self) -> bool:
        waited = self.progress.epoch - self.progress.best_epoch
        return self.held_out is not None and self.loop.patience is not None and waited >= self.loop.patience

    @property
    def _device(self) -> torch.device:
        return self.model.decoder.bias.device


# glibc's mallopt, as malloc.h numbers its parameters
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
GIB = 1 << 30
FOUND_BY_ITSELF = 32 << 20  # what glibc arrives at by itself once large blocks have been freed


@contextmanager
def retain_freed_memory() -> Iterator[None]:
    """Keep what is freed instead of giving it back to the system, and give it back at the end.

    Every step needs the same few large blocks. By itself the C library returns such blocks and asks for fresh ones,
    which the system fills with zeros page by page; that can be a third of a step. Where the C library is another one
    nothing is changed.
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
        library.mallopt(MMAP_THRESHOLD, FOUND_BY_ITSELF)
        library.mallopt(TRIM_THRESHOLD, 2 * FOUND_BY_ITSELF)
        library.malloc_trim(0)
