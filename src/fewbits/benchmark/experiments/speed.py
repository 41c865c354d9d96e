"""Training speed compared with a textbook implementation, and the training time until codes reach a precision."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np

from fewbits.benchmark.experiments.base import Experiment, markdown_table
from fewbits.data.datasets import Dataset, load_dataset
from fewbits.hashers._parameters import need_torch
from fewbits.hashers.registry import make_hasher
from fewbits.metrics import encoded_precision

BITS = 32
BATCH_SIZE = 100
WARM_UP_STEPS = 10
STEPS = 50
BLOCKS = 3
ROUNDS = 7
HIDDEN = (500, 500)
DROPOUT = 0.2
LEARNING_RATE = 5e-4
KL_WEIGHT = 0.01
TARGET_PRECISION = 0.80
MAX_EPOCHS = 20
QUALITY_DATASET = "ng20"


@dataclass(frozen=True)
class TrainingSpeed:
    """Documents per second for the paper's unsupervised model (ARM, two layers of 500), in the fastest block.

    Other processes on the machine, or beside it on the same hardware, can only slow a block down.
    """

    dataset: str
    documents: int
    words: int
    ours: float
    textbook: float
    ratio: float
    median_ratio: float  # median of the ratios per round


@dataclass(frozen=True)
class TimeToQuality:
    """The shortest training with labels that reaches a validation precision."""

    dataset: str
    bits: int
    wanted: float  # target precision
    precision: float
    epochs: int
    seconds: float  # from features to a fitted hasher
    seconds_of_all: float  # with the shorter trainings tried before


@dataclass(frozen=True)
class TrainingTime(Experiment[TrainingSpeed | TimeToQuality]):
    """Measure the training speed on each data set, and the time to quality on 20 Newsgroups if it is among them."""

    folder = "speed"
    page = "speed.md"

    datasets: Sequence[str] = ("ng20", "arxiv")

    def measure(self) -> Iterator[TrainingSpeed | TimeToQuality]:
        """Yield the facts of one measurement at a time."""
        for name in self.datasets:
            yield training_speed(name)
        if QUALITY_DATASET in self.datasets:
            yield time_to_quality(load_dataset(QUALITY_DATASET))

    @classmethod
    def file_name(cls, facts: TrainingSpeed | TimeToQuality) -> str:
        """Return the name of the JSON file."""
        kind = "training" if isinstance(facts, TrainingSpeed) else "quality"
        return f"{kind}-{facts.dataset}.json"

    @classmethod
    def from_json(cls, content: Any) -> TrainingSpeed | TimeToQuality:
        """Return the facts in the content of a JSON file."""
        return TrainingSpeed(**content) if "textbook" in content else TimeToQuality(**content)

    @classmethod
    def render(cls, facts: Sequence[TrainingSpeed | TimeToQuality]) -> str:
        """Return the page in Markdown."""
        rates = [
            [
                one.dataset,
                *(f"{count:,.0f}" for count in (one.documents, one.words, one.ours, one.textbook)),
                *(f"{ratio:.1f}" for ratio in (one.ratio, one.median_ratio)),
            ]
            for one in facts
            if isinstance(one, TrainingSpeed)
        ]
        times = [
            [
                one.dataset,
                f"{one.wanted:.2f}",
                f"{one.precision:.4f}",
                str(one.epochs),
                f"{one.seconds:.1f}",
                f"{one.seconds_of_all:.1f}",
            ]
            for one in facts
            if isinstance(one, TimeToQuality)
        ]
        rate_header = ["data set", "documents", "words", "fewbits", "textbook", "ratio", "median ratio"]
        time_header = ["data set", "target", "reached", "epochs", "seconds", "seconds of all"]
        return "\n".join(
            [INTRODUCTION, markdown_table(rate_header, rates), QUALITY, markdown_table(time_header, times)]
        )


def training_speed(dataset_name: str) -> TrainingSpeed:
    """Train both implementations in turn on the same batches, with all cores, each time in a new process.

    New processes keep either implementation from affecting the other, for example through allocated memory.
    """
    need_torch()
    features = load_dataset(dataset_name).train.features
    batches = _batches(features)
    rounds = [(_in_new_process(_our_rate, batches), _in_new_process(_textbook_rate, batches)) for _ in range(ROUNDS)]
    ours, textbook = zip(*rounds, strict=True)
    return TrainingSpeed(
        dataset=dataset_name,
        documents=features.shape[0],
        words=features.shape[1],
        ours=round(max(ours), 1),
        textbook=round(max(textbook), 1),
        ratio=round(max(ours) / max(textbook), 3),
        median_ratio=round(statistics.median(a / b for a, b in rounds), 3),
    )


def time_to_quality(dataset: Dataset) -> TimeToQuality:
    """Train with an increasing number of epochs until the target precision is reached."""
    train, validation = dataset.train, dataset.validation
    begin = time.perf_counter()
    for epochs in range(1, MAX_EPOCHS + 1):
        start = time.perf_counter()
        hasher = make_hasher("pairwise", BITS, 0, epochs=epochs).fit(train.features, train.labels)
        seconds = time.perf_counter() - start
        precision = encoded_precision(hasher, validation.features, validation.labels, train.features, train.labels)
        if precision >= TARGET_PRECISION:
            break
    return TimeToQuality(
        dataset=dataset.name,
        bits=BITS,
        wanted=TARGET_PRECISION,
        precision=round(precision, 4),
        epochs=epochs,
        seconds=round(seconds, 2),
        seconds_of_all=round(time.perf_counter() - begin, 2),
    )


def _in_new_process(measure: Callable[[list[Any]], float], batches: list[Any]) -> float:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, batches).result()


def _batches(features: Any) -> list[Any]:
    """Return the CSR batches that both implementations train on."""
    order = np.random.default_rng(0).permutation(features.shape[0])
    steps = np.arange(WARM_UP_STEPS + STEPS) * BATCH_SIZE
    return [features[order.take(range(start, start + BATCH_SIZE), mode="wrap")] for start in steps]


def _fastest_rate(marks: list[float]) -> float:
    """Return the documents per second of the fastest block; ``marks`` are the times between blocks."""
    return STEPS * BATCH_SIZE / min(end - start for start, end in pairwise(marks))


def _in_blocks(batches: list[Any], marks: list[float]) -> Iterator[Any]:
    """Yield the warm-up batches, then several blocks of the others; append the times between blocks to ``marks``."""
    yield from batches[:WARM_UP_STEPS]
    marks.append(time.perf_counter())
    for _ in range(BLOCKS):
        yield from batches[WARM_UP_STEPS:]
        marks.append(time.perf_counter())


def _our_rate(batches: list[Any]) -> float:
    """Return the rate of the training loop of :class:`fewbits.BernoulliVAE`, with ARM-DVAE's settings."""
    import torch

    from fewbits.nn.data import Batch
    from fewbits.nn.gradient_estimators import make_estimator
    from fewbits.nn.layers import SparseBatch
    from fewbits.nn.losses import Objective, Weights
    from fewbits.nn.models import Model, Shape
    from fewbits.nn.trainer import TrainerConfig, Training

    mean = np.mean([batch.mean(axis=0) for batch in batches], axis=0, dtype=np.float32)
    marks: list[float] = []

    def timed(epoch: int) -> Iterator[Batch]:
        for rows in _in_blocks(batches, marks):
            bags = SparseBatch.from_rows(rows)
            yield Batch(bags, bags)

    model = Model(Shape(BITS, HIDDEN, DROPOUT), torch.from_numpy(mean), None, torch.Generator().manual_seed(0))
    objective = Objective(Weights(kl=(KL_WEIGHT, KL_WEIGHT)), make_estimator("arm"))
    Training(model, objective, timed, TrainerConfig(1, WARM_UP_STEPS + BLOCKS * STEPS, LEARNING_RATE)).run()
    return _fastest_rate(marks)


def _textbook_rate(batches: list[Any]) -> float:
    """Return the rate of a textbook implementation: dense rows, linear layers, log_softmax, default Adam."""
    import torch
    from torch import nn

    words = batches[0].shape[1]
    encoder = nn.Sequential(
        nn.Linear(words, HIDDEN[0]),
        nn.ReLU(),
        nn.Linear(HIDDEN[0], HIDDEN[1]),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(HIDDEN[1], BITS),
    )
    decoder = nn.Linear(BITS, words)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=LEARNING_RATE)

    def reconstruction(codes: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return -(x * torch.log_softmax(decoder(codes), dim=1)).sum(dim=1)

    def step(rows: Any) -> None:
        x = torch.from_numpy(rows.toarray())
        logits = encoder(x)
        u = torch.rand_like(logits)
        loss_1 = reconstruction((u > torch.sigmoid(-logits)).float(), x)
        with torch.no_grad():
            loss_2 = reconstruction((u < torch.sigmoid(logits)).float(), x)
            gradient = (loss_1 - loss_2)[:, None] * (u - 0.5)  # eq:arm
        kl = torch.distributions.kl_divergence(
            torch.distributions.Bernoulli(logits=logits, validate_args=False),
            torch.distributions.Bernoulli(probs=torch.full_like(logits, 0.5), validate_args=False),
        ).sum(dim=1)
        loss = (loss_1 + (gradient * logits).sum(dim=1) + KL_WEIGHT * kl).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    marks: list[float] = []
    for rows in _in_blocks(batches, marks):
        step(rows)
    return _fastest_rate(marks)


INTRODUCTION = f"""\
# Training speed

Rendered by `fewbits bench report` from the measurements of `fewbits bench speed --save`.

The table shows how many documents per second are processed when training the paper's unsupervised model (two layers of
500 units, ARM gradient, no noise added to the code) with {BITS} bits and batches of {BATCH_SIZE}, from sparse rows to
updated weights. *textbook* is the same model in plain PyTorch, with dense rows, `log_softmax` and the default
`torch.optim.Adam`. The two take turns in new processes with all cores, in {ROUNDS} rounds of {BLOCKS} blocks of
{STEPS} steps, after {WARM_UP_STEPS} warm-up steps. The figures are those of the fastest block, because other processes
can only slow a block down; *median ratio* is the median of the ratios per round.
"""
QUALITY = f"""\
The next table shows the time to train codes of {BITS} bits with labels that reach a target precision at 100 on the
validation part, from features to a fitted hasher: the number of epochs is increased until the target is reached.
*seconds* is the time of the last training, *seconds of all* that of all trainings tried.
"""
