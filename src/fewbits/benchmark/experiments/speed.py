"""How fast training is: documents a second beside a textbook implementation, and seconds until codes are good."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.benchmark.report.tables import markdown
from fewbits.data.datasets import Dataset, load_dataset
from fewbits.hashers._parameters import need_torch
from fewbits.hashers.registry import make_hasher
from fewbits.metrics import precision_at_k
from fewbits.storage import read_json, write_json

BITS = 32
BATCH = 100
WARM_UP_STEPS = 10
STEPS = 50
BLOCKS = 3
ROUNDS = 7
HIDDEN = (500, 500)
DROPOUT = 0.2
LEARNING_RATE = 5e-4
KL_WEIGHT = 0.01
WANTED_PRECISION = 0.80
MOST_EPOCHS = 20


@dataclass(frozen=True)
class TrainingSpeed:
    """Documents a second of the paper's unsupervised model (ARM, two layers of 500), in the fastest of some blocks.

    Whatever else runs on a machine, and beside it on the same hardware, can only take time away.
    """

    dataset: str
    documents: int
    words: int
    ours: float
    textbook: float
    ratio: float  # of the two
    median_ratio: float  # of the rounds' own ratios


@dataclass(frozen=True)
class TimeToQuality:
    """The shortest training with labels that reaches a validation precision."""

    dataset: str
    bits: int
    wanted: float
    precision: float
    epochs: int
    seconds: float  # from raw features to a trained hasher
    seconds_of_all: float  # with the shorter trainings that were tried before


def training_speed(dataset_name: str) -> TrainingSpeed:
    """Train both for some steps in turn, each time in a process of its own, so that neither finds what the other left.

    Both get the same documents in the same batches, and all cores.
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
    """Train with ever more epochs until the validation precision is reached."""
    train, validation = dataset.train, dataset.validation
    begin = time.perf_counter()
    for epochs in range(1, MOST_EPOCHS + 1):
        start = time.perf_counter()
        hasher = make_hasher("pairwise", BITS, 0, epochs=epochs).fit(train.features, train.labels)
        seconds = time.perf_counter() - start
        precision = precision_at_k(
            hasher.transform(validation.features), validation.labels, hasher.transform(train.features), train.labels
        )
        if precision >= WANTED_PRECISION:
            break
    return TimeToQuality(
        dataset=dataset.name,
        bits=BITS,
        wanted=WANTED_PRECISION,
        precision=round(precision, 4),
        epochs=epochs,
        seconds=round(seconds, 2),
        seconds_of_all=round(time.perf_counter() - begin, 2),
    )


def _in_new_process(measure: Callable[[list[Any]], float], batches: list[Any]) -> float:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, batches).result()


def _batches(features: Any) -> list[Any]:
    """The same rows for both, a list of CSR batches."""
    order = np.random.default_rng(0).permutation(features.shape[0])
    steps = np.arange(WARM_UP_STEPS + STEPS) * BATCH
    return [features[order.take(range(start, start + BATCH), mode="wrap")] for start in steps]


def _fastest(marks: list[float]) -> float:
    """Documents a second in the fastest of the blocks of steps that lie between moments."""
    return STEPS * BATCH / min(end - start for start, end in pairwise(marks))


def _in_blocks(batches: list[Any], marks: list[float]) -> Iterator[Any]:
    """Some batches to warm up, then the others again and again; the moments between are noted."""
    yield from batches[:WARM_UP_STEPS]
    marks.append(time.perf_counter())
    for _ in range(BLOCKS):
        yield from batches[WARM_UP_STEPS:]
        marks.append(time.perf_counter())


def _our_rate(batches: list[Any]) -> float:
    """The training loop of :class:`fewbits.BernoulliVAE` with ARM-DVAE's settings; the first steps are not timed."""
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
    return _fastest(marks)


def _textbook_rate(batches: list[Any]) -> float:
    """The same model as a textbook has it: dense rows, linear layers, log_softmax, Adam as it comes."""
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
        ahead = reconstruction((u > torch.sigmoid(-logits)).float(), x)
        with torch.no_grad():
            behind = reconstruction((u < torch.sigmoid(logits)).float(), x)
            gradient = (ahead - behind)[:, None] * (u - 0.5)  # eq:arm
        kl = torch.distributions.kl_divergence(
            torch.distributions.Bernoulli(logits=logits, validate_args=False),
            torch.distributions.Bernoulli(probs=torch.full_like(logits, 0.5), validate_args=False),
        ).sum(dim=1)
        loss = (ahead + (gradient * logits).sum(dim=1) + KL_WEIGHT * kl).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    marks: list[float] = []
    for rows in _in_blocks(batches, marks):
        step(rows)
    return _fastest(marks)


def save_speed(facts: TrainingSpeed | TimeToQuality, folder: Path) -> Path:
    """Write one file for a data set and kind of figure."""
    kind = "training" if isinstance(facts, TrainingSpeed) else "quality"
    path = Path(folder) / f"{kind}-{facts.dataset}.json"
    write_json(path, asdict(facts))
    return path


def render_speed(folder: Path) -> str:
    """Tables in Markdown of all files of a folder."""
    trainings = [TrainingSpeed(**read_json(path)) for path in sorted(Path(folder).glob("training-*.json"))]
    qualities = [TimeToQuality(**read_json(path)) for path in sorted(Path(folder).glob("quality-*.json"))]
    rates = [
        [s.dataset]
        + [f"{count:,.0f}" for count in (s.documents, s.words, s.ours, s.textbook)]
        + [f"{ratio:.1f}" for ratio in (s.ratio, s.median_ratio)]
        for s in trainings
    ]
    times = [
        [
            q.dataset,
            f"{q.wanted:.2f}",
            f"{q.precision:.4f}",
            str(q.epochs),
            f"{q.seconds:.1f}",
            f"{q.seconds_of_all:.1f}",
        ]
        for q in qualities
    ]
    return "\n".join(
        [
            INTRODUCTION,
            markdown(["data set", "documents", "words", "fewbits", "textbook", "times faster", "in the median"], rates),
            QUALITY,
            markdown(["data set", "wanted", "reached", "epochs", "seconds", "with the tries before"], times),
        ]
    )


INTRODUCTION = f"""\
# Speed of training

Rendered by `fewbits bench report` from what `fewbits bench speed --save` measured.

Documents a second in training the paper's unsupervised model (two layers of 500, ARM gradient; without noise on the
code), with {BITS} bits and batches of {BATCH}, from sparse rows to changed weights. *textbook*: the same model in plain
PyTorch with dense rows, `log_softmax` and `torch.optim.Adam` as it comes. Both run in turn in processes of their own
with all cores, in {ROUNDS} rounds of {BLOCKS} blocks of {STEPS} steps each, after {WARM_UP_STEPS} steps to warm up. The
figures are those of each one's fastest block, because whatever else a machine does takes time away from whoever is
running; *in the median*: the median of the rounds' own ratios, on the machine as it was.
"""
QUALITY = f"""\
Seconds until codes of {BITS} bits learnt with labels reach a precision at 100 on the validation part: the shortest
training that does, from raw features to a trained hasher. *With the tries before*: all shorter trainings included.
"""
