"""What the neural hashers share behind the contract: training by :mod:`fewbits.nn`, encoding without torch."""

from __future__ import annotations

import hashlib
import json
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fewbits.codes import Bits
from fewbits.errors import DataError, MissingExtraError, ParameterError
from fewbits.features.neighbors import latent_neighbours, neighbours_by_pairs
from fewbits.hashers._parameters import check_parameters
from fewbits.hashers.base import EXECUTION_PARAMETERS, Hasher, Layers, rowwise_matmul

if TYPE_CHECKING:
    from fewbits.nn.data import Batches
    from fewbits.nn.models import Networks
    from fewbits.nn.trainer import Objective

Neighbours = NDArray[np.int64] | None  # (documents, neighbours)
CONSTANT_SHARE = 0.005  # a bit that is the same in all documents but so many says nothing
REFINING_BITS = 128  # codes that only serve to find better neighbours are long
FEW_WORDS = 2000
MANY_ROWS = 10_000  # that are encoded at one time
HIDDEN = (1000,)
LEAST_STEPS = 300  # a small corpus is passed over more often
SHORT_STEP = 0.002  # learning rates below it need thousands of steps for a weight of some units


class ConstantBitsWarning(UserWarning):
    """Some bits have collapsed: they are the same for nearly all documents."""


class EmptyDocumentsWarning(UserWarning):
    """Some documents have no words: nothing can be learnt from them, and their codes are all alike."""


class NeuralHasher(Hasher):
    """A hasher whose encoder is a network on sparse rows; a subclass says what it is trained for.

    Attributes
    ----------
    history_ : list of dict
        Learning rate and every term of the loss, an entry an epoch.
    bit_balance_ : array of shape (n_bits,)
        Share of the training documents in which each bit is 1.
    decoder_embeddings_, decoder_bias_ : arrays of shape (words, n_bits) and (words,)
        The decoder: what each bit says about each word.
    """

    # parameters of every subclass, which lists them in its own signature as scikit-learn asks
    hidden: Sequence[int] | None
    dropout: float
    word_dropout: float
    initial_scale: float
    noise: bool | float
    estimator: str
    epochs: int | None
    batch_size: int
    learning_rate: float | None
    schedule: str
    clip: float | None
    validation_fraction: float
    patience: int | None
    checkpoint: str | None
    neighbour_weight: float
    neighbour_dimensions: int
    callbacks: Sequence[Callable[[dict[str, float]], Any]]
    device: str
    verbose: bool

    fitted_arrays: ClassVar[tuple[str, ...]] = ("decoder_embeddings", "decoder_bias", "bit_balance")
    needs_positive = True
    default_epochs: ClassVar[int]

    history_: list[dict[str, float]]
    bit_balance_: NDArray[np.float64]
    encoder_layers_: list[tuple[NDArray[np.float32], NDArray[np.float32]]]
    decoder_embeddings_: NDArray[np.float32]
    decoder_bias_: NDArray[np.float32]

    def bit_loadings(self) -> NDArray[np.float32] | None:
        """What each bit says about each word: by how much it raises the decoder's logit."""
        # a decoder may start from a hidden layer instead of the bits
        return self.decoder_embeddings_ if self.decoder_embeddings_.shape[1] == self.n_bits else None

    def layers(self) -> Layers | None:
        """The encoder's layers."""
        check_is_fitted(self)
        return Layers(self.encoder_layers_)

    def _encode(self, X: Any) -> Bits:
        return (self._logits(X) >= 0).astype(np.uint8)  # p >= 1/2

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return self._logits(X)

    def _bit_confidence(self, margins: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.abs(2 * expit(margins) - 1)  # of a bit that is 1 with probability p, by which it is unlike a coin

    @staticmethod
    def _activation(values: NDArray[np.float32]) -> NDArray[np.float32]:
        """What stands between the encoder's layers."""
        return np.maximum(values, 0)

    def _logits(self, X: Any) -> NDArray[np.float32]:
        """Logits of rows; hidden layers are wide, so those of some rows are held at one time."""
        logits = np.empty((X.shape[0], len(self.encoder_layers_[-1][1])), dtype=np.float32)
        for start in range(0, X.shape[0], MANY_ROWS):
            (weights, bias), *later = self.encoder_layers_
            x = rowwise_matmul(X[start : start + MANY_ROWS], weights) + bias
            for weights, bias in later:
                x = rowwise_matmul(self._activation(x), weights) + bias
            logits[start : start + MANY_ROWS] = x
        return logits

    def _arrays_by_name(self) -> dict[str, NDArray[Any]]:
        arrays = super()._arrays_by_name()
        for number, (weights, bias) in enumerate(self.encoder_layers_):
            arrays |= {f"encoder_weights_{number}": weights, f"encoder_bias_{number}": bias}
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        count = sum(name.startswith("encoder_weights_") for name in arrays)
        self.encoder_layers_ = [(arrays[f"encoder_weights_{n}"], arrays[f"encoder_bias_{n}"]) for n in range(count)]

    def _check_rows(self, X: Any) -> Any:
        """Rows of words, not all empty."""
        check_parameters(self.get_params())
        rows = sparse.csr_array(X, dtype=np.float32)
        rows.eliminate_zeros()
        if not rows.nnz:
            raise DataError("no document has any words", allowed="one or more in some row", got="zeros only")
        empty = np.flatnonzero(np.diff(rows.indptr) == 0)
        if len(empty):
            shown = ", ".join(map(str, empty[:5])) + (", …" if len(empty) > 5 else "")
            warnings.warn(
                f"{len(empty)} of {rows.shape[0]} documents have no words and nothing can be learnt from them"
                f" (rows {shown}); leave them out.",
                EmptyDocumentsWarning,
                stacklevel=4,
            )
        return rows

    def _find_neighbours(
        self,
        rows: Any,
        wanted: int,
        refinements: int,
        seed: int,
        learn: Callable[[Neighbours, int, str], None],
        together: NDArray[np.int64] | None = None,
    ) -> Neighbours:
        """The nearest documents of each, at first in a latent semantic space, or by their words where these are few.

        Then, as often as there are refinements, ``learn(neighbours, n_bits, name)`` learns long codes from them, by
        which better ones are found. Pairs known to belong ``together`` teach both spaces what counts.
        """
        if not wanted or rows.shape[0] < 2:
            return None
        dimensions = rows.shape[1] if has_few_words(rows) else self.neighbour_dimensions
        neighbours = latent_neighbours(rows, wanted, dimensions, seed, together)
        for number in range(refinements):
            learn(neighbours, REFINING_BITS, f"refinement-{number}")
            neighbours = neighbours_by_pairs(expit(self._logits(rows)) - 0.5, wanted, together)
        return neighbours

    def _train(
        self,
        X: Any,
        batches: Batches,
        objective: Objective,
        n_bits: int,
        seed: int,
        *,
        held_out: Batches | None = None,
        labels: Any = None,
        marked: Sequence[NDArray[Any]] = (),
        name: str,
    ) -> None:
        """Train a model on batches and keep it.

        ``name`` tells the rounds of one training apart; ``marked`` is what was told beside rows and labels.
        """
        import torch

        from fewbits.nn.checkpoints import Checkpoint
        from fewbits.nn.trainer import TrainerConfig, Training

        _, learning_rate = self._depth_and_speed(X.shape[1], n_bits)
        epochs = self.epochs or max(self.default_epochs, -(-LEAST_STEPS // batches.steps))
        generator = torch.Generator().manual_seed(seed)
        model = self._networks(n_bits, X, labels, generator).to(self.device)
        loop = TrainerConfig(
            epochs=epochs,
            steps_per_epoch=batches.steps,
            learning_rate=learning_rate,
            schedule=self.schedule,
            clip=self.clip,
            patience=self.patience,
            seed=seed,
            callbacks=self.callbacks,
        )
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(f"{self.checkpoint}/{name}", self._fingerprint(X, labels, seed, marked))
        training = Training(
            model,
            objective,
            batches,
            loop,
            held_out=None if held_out is None else lambda: held_out(0),
            checkpoint=checkpoint,
        )
        with progress_of_epochs(epochs) if self.verbose else nullcontext() as show:
            self.history_ = training.run(show)
        self._keep(model, X)

    def _networks(self, n_bits: int, X: Any, labels: Any, generator: Any) -> Networks:
        """The networks to train."""
        from fewbits.nn.models import Model, Shape

        hidden, learning_rate = self._depth_and_speed(X.shape[1], n_bits)
        # From a small start the codes of labels find their places by themselves. But no step of Adam's is longer than
        # the learning rate: by short ones small weights hardly grow, and without large ones short codes say nothing.
        sizes = (n_bits, hidden, self.dropout, self.word_dropout, self.initial_scale, self.noise)
        shape = Shape(*sizes, has_large_labels=learning_rate < SHORT_STEP)
        return Model(shape, mean_row(X), None if labels is None else mean_row(labels), generator)

    def _keep(self, model: Networks, X: Any) -> None:
        """Keep what trained networks have learnt as arrays, and look whether the bits are alive."""
        encoder = model.encoder
        layers = [(encoder.words, encoder.bias), *((layer.weight.T, layer.bias) for layer in encoder.layers)]
        self.encoder_layers_ = [(_array(weights), _array(bias)) for weights, bias in layers]
        self.decoder_embeddings_ = _array(model.decoder.embeddings)
        self.decoder_bias_ = _array(model.decoder.bias)
        self._look_at_bits(X)

    def _look_at_bits(self, X: Any) -> None:
        self.bit_balance_ = self._encode(X).mean(axis=0, dtype=float)
        constant = int((np.abs(self.bit_balance_ - 0.5) > 0.5 - CONSTANT_SHARE).sum())
        if constant and X.shape[0] * CONSTANT_SHARE >= 1:
            warnings.warn(
                f"{constant} of {len(self.bit_balance_)} bits are the same for nearly all training documents;"
                " a smaller kl_weight or learning_rate, or fewer bits, may help.",
                ConstantBitsWarning,
                stacklevel=3,
            )

    @abstractmethod
    def _depth_and_speed(self, n_features: int, n_bits: int) -> tuple[tuple[int, ...], float]:
        """Widths of the hidden layers and Adam's step size."""

    def _seed(self) -> int:
        drawn = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.checkpoint is None or self.random_state is not None:
            return drawn
        from fewbits.nn.checkpoints import seed_of_checkpoint

        return seed_of_checkpoint(self.checkpoint, drawn)

    def _fingerprint(self, X: Any, labels: Any, seed: int, marked: Sequence[NDArray[Any]]) -> str:
        left_out = (*EXECUTION_PARAMETERS, "random_state")  # the seed itself is part of the digest
        parameters = {name: value for name, value in self.get_params().items() if name not in left_out}
        digest = hashlib.sha256(json.dumps([type(self).__name__, parameters, seed], default=str).encode())
        for table in (X, labels):
            for values in () if table is None else (table.shape, table.indptr, table.indices, table.data):
                digest.update(np.ascontiguousarray(values).tobytes())
        for values in marked:
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


def has_few_words(X: Any) -> bool:
    """Whether it takes several words together to tell what a document is about: one says little, a linear encoder no
    more than that, and a latent space of fewer dimensions less still."""
    return bool(X.shape[1] < FEW_WORDS)


def default_hidden(hidden: Sequence[int] | None, n_features: int) -> tuple[int, ...]:
    """Widths of hidden layers: unless given none, or one where there are few words."""
    if hidden is None:
        return HIDDEN if n_features < FEW_WORDS else ()
    return tuple(hidden)


def default_neighbors(X: Any) -> int:
    """How many neighbours say what a document is about: a topic of a small corpus has few documents.

    Never more than a quarter of all: were all others its neighbours, a bit would stand for the words it has not.
    """
    return min(30 if has_few_words(X) else 100, max(10, X.shape[0] // 100), X.shape[0] // 4)


def need_torch() -> None:
    """Say how to install torch, and numba beside it, where they are not; only learning needs them."""
    try:
        import torch  # noqa: F401

        if find_spec("numba") is None:  # itself imported only for large networks: it takes half a second
            raise ImportError("numba")
    except ImportError as error:
        raise MissingExtraError("learning with this method", extra="train", otherwise="choose method itq") from error


def as_range(weight: float | Sequence[float]) -> tuple[float, float]:
    """A weight at the start and at the end of training; one figure stays as it is."""
    start, end = weight if isinstance(weight, Sequence) else (weight, weight)
    return float(start), float(end)


def as_prior(prior: Any, n_bits: int, wanted: int) -> float | tuple[float, ...]:
    """The prior gamma of a code of ``n_bits`` bits as plain numbers, for one of so many bits as are ``wanted``.

    A round whose codes only serve to find neighbours has more bits: each of them has the mean of the others.
    """
    values = np.asarray(prior, dtype=float)
    if values.shape not in ((), (n_bits,)) or not ((values > 0) & (values < 1)).all():
        allowed = f"a number between 0 and 1, or one for each of the {n_bits} bits"
        raise ParameterError("prior is out of range", allowed=allowed, got=repr(prior))
    if values.ndim == 0 or wanted != n_bits:
        return float(values.mean())
    return tuple(values.tolist())


def train_validation_split(count: int, fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide rows into those to learn from and those to look at for early stopping."""
    order = np.random.default_rng(seed).permutation(count)
    cut = round(count * fraction)
    if fraction and not 0 < cut < count:
        raise DataError(
            f"a validation_fraction of {fraction:g} leaves nothing to learn from or nothing to look at",
            allowed="one document or more on either side; those in marked pairs are never held out",
            got=f"{count} documents that may be held out",
        )
    return np.sort(order[cut:]), np.sort(order[:cut])


def mean_row(X: Any) -> Any:
    """Mean of the rows as a tensor."""
    import torch

    return torch.from_numpy(np.asarray(X.mean(axis=0), dtype=np.float32).ravel())


def _array(parameter: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(parameter.detach().cpu().numpy())


@contextmanager
def progress_of_epochs(epochs: int) -> Iterator[Callable[[dict[str, float]], None]]:
    """Show each epoch's record on standard error: a bar on a terminal, else a line."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("Learning, epoch"), MofNCompleteColumn(), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=epochs)

    def show(record: dict[str, float]) -> None:
        bar.update(task, completed=record["epoch"])
        if not console.is_terminal:
            figures = ((name, value) for name, value in record.items() if name != "epoch")
            terms = "  ".join(f"{name} {value:.4g}" for name, value in figures)
            console.print(f"epoch {record['epoch']:.0f}/{epochs}  {terms}", markup=False, soft_wrap=True)

    with bar if console.is_terminal else nullcontext():
        yield show
