"""Training of the neural hashers: the validation split, refinement rounds, progress, and the trained networks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fewbits.errors import DataError
from fewbits.features.neighbors import latent_neighbors, neighbors_by_pairs
from fewbits.hashers.base import Layer, encode_rows

if TYPE_CHECKING:
    from fewbits.nn.models import Networks

Neighbors = NDArray[np.int64] | None  # (documents, neighbors)
FINAL_ROUND = "final"  # name of the round that trains the networks returned
REFINEMENT_BITS = 128  # codes that only serve to find better neighbors are long


@dataclass(frozen=True)
class TrainedNetworks:
    """The result of a training."""

    encoder_layers: list[Layer]
    decoder_embeddings: NDArray[np.float32]  # (words, bits)
    decoder_bias: NDArray[np.float32]  # (words,)
    history: list[dict[str, float]]

    @classmethod
    def from_torch(cls, model: Networks, history: list[dict[str, float]]) -> TrainedNetworks:
        """Convert trained networks to arrays."""
        encoder = model.encoder
        layers = [(encoder.words, encoder.bias), *((layer.weight.T, layer.bias) for layer in encoder.layers)]
        return cls(
            encoder_layers=[(_as_array(weights), _as_array(bias)) for weights, bias in layers],
            decoder_embeddings=_as_array(model.decoder.embeddings),
            decoder_bias=_as_array(model.decoder.bias),
            history=history,
        )

    def with_logits_of_size_1(self, X: Any) -> tuple[TrainedNetworks, NDArray[np.float32]]:
        """Scale the encoder until each bit's logits have a mean size of 1 on the rows; return it and these logits."""
        logits = encode_rows(self.encoder_layers, X)
        size = np.abs(logits).mean(axis=0)
        size[size == 0] = 1
        *before, (weights, bias) = self.encoder_layers
        return replace(self, encoder_layers=[*before, (weights / size, bias / size)]), logits / size

    def with_all_words(self, words: NDArray[np.int64], X: Any) -> TrainedNetworks:
        """Return the networks with a decoder of all columns of X, of which it was trained on some.

        Whatever the code, a word that is not among them has the probability that it has in the mean row.
        """
        embeddings = np.zeros((X.shape[1], self.decoder_embeddings.shape[1]), dtype=np.float32)
        bias = mean_row_logarithm(X)
        embeddings[words], bias[words] = self.decoder_embeddings, self.decoder_bias
        return replace(self, decoder_embeddings=embeddings, decoder_bias=bias)


def train_with_refinements(
    X: Any,
    train: Callable[[Neighbors, int, str], TrainedNetworks],
    *,
    n_bits: int,
    n_neighbors: int,
    dimensions: int,
    refinements: int,
    seed: int,
    similar_pairs: NDArray[np.int64] | None = None,
    neighbors: Neighbors = None,
) -> TrainedNetworks:
    """Find neighbors of the documents, refine them with long codes, and train the final networks.

    Neighbors that are not given are found in a latent semantic space of ``dimensions``. Each refinement calls
    ``train(neighbors, n_bits, name)`` with 128 bits and finds neighbors again by these codes; the last call trains the
    networks returned. Pairs known to be similar shape both spaces.
    """
    if n_neighbors and X.shape[0] >= 2:
        if neighbors is None:
            neighbors = latent_neighbors(X, n_neighbors, dimensions, seed, similar_pairs)
        for number in range(refinements):
            trained = train(neighbors, REFINEMENT_BITS, f"refinement-{number}")
            logits = encode_rows(trained.encoder_layers, X)
            neighbors = neighbors_by_pairs(expit(logits) - 0.5, n_neighbors, similar_pairs)
    return train(neighbors, n_bits, FINAL_ROUND)


def train_validation_split(count: int, fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split row numbers into a training part and a validation part."""
    order = np.random.default_rng(seed).permutation(count)
    cut = round(count * fraction)
    if fraction and not 0 < cut < count:
        raise DataError(
            f"a validation_fraction of {fraction:g} leaves the training or the validation part empty",
            allowed="one document or more in each; those in labelled pairs are always trained on",
            got=f"{count} documents to split",
        )
    return np.sort(order[cut:]), np.sort(order[:cut])


def fingerprint(description: list[Any], tables: list[Any], arrays: list[NDArray[Any]]) -> str:
    """Return a digest of a training: a description in JSON, sparse tables (or None) and arrays."""
    digest = hashlib.sha256(json.dumps(description, default=str).encode())
    parts = [(table.shape, table.indptr, table.indices, table.data) for table in tables if table is not None]
    for values in [*(value for part in parts for value in part), *arrays]:
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def mean_row_logarithm(X: Any) -> NDArray[np.float32]:
    """Return the decoder's initial biases as an array."""
    from fewbits.nn.layers import log_of_mean

    return _as_array(log_of_mean(mean_row(X)))


def mean_row(X: Any) -> Any:
    """Return the mean of the rows as a tensor."""
    import torch

    return torch.from_numpy(np.asarray(X.mean(axis=0), dtype=np.float32).ravel())


def _as_array(parameter: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(parameter.detach().cpu().numpy())


@contextmanager
def progress_of_epochs(epochs: int) -> Iterator[Callable[[dict[str, float]], None]]:
    """Show each epoch's record on standard error: a progress bar on a terminal, else one line per epoch."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("Training, epoch"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=epochs)

    def show(record: dict[str, float]) -> None:
        bar.update(task, completed=record["epoch"])
        if not console.is_terminal:
            values = ((name, value) for name, value in record.items() if name != "epoch")
            terms = "  ".join(f"{name} {value:.4g}" for name, value in values)
            console.print(f"epoch {record['epoch']:.0f}/{epochs}  {terms}", markup=False, soft_wrap=True)

    with bar if console.is_terminal else nullcontext():
        yield show
