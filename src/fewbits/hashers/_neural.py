"""Base class of the neural hashers: their parameters, and training by :mod:`fewbits.nn`."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from fewbits.errors import DataError
from fewbits.hashers._parameters import check_parameters, default_hidden, need_torch
from fewbits.hashers._training import (
    TrainedNetworks,
    fingerprint,
    mean_row,
    progress_of_epochs,
)
from fewbits.hashers.base import EXECUTION_PARAMETERS, NetworkHasher

if TYPE_CHECKING:
    from fewbits.nn.data import Batches
    from fewbits.nn.models import Networks
    from fewbits.nn.trainer import Objective

CONSTANT_SHARE = 0.005  # a bit that differs in at most this share of the documents counts as constant
MIN_STEPS = 300  # a small corpus is trained on for more epochs
SMALL_RATE = 0.002  # below this learning rate it takes thousands of steps for a weight to grow by a few units


class ConstantBitsWarning(UserWarning):
    """Some bits have collapsed: they are the same for nearly all documents."""


class NeuralHasher(NetworkHasher):
    """Base class of methods whose encoder is a network on sparse rows; subclasses define the training objective.

    Attributes
    ----------
    history_ : list of dict
        Learning rate and every term of the loss, one record per epoch.
    bit_balance_ : array of shape (n_bits,)
        Share of the training documents in which each bit is 1.
    decoder_embeddings_, decoder_bias_ : arrays of shape (words, n_bits) and (words,)
        The decoder: the weight of each bit for each word.
    """

    # parameters of every subclass, which lists them in its own signature as scikit-learn requires
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
    decoder_embeddings_: NDArray[np.float32]
    decoder_bias_: NDArray[np.float32]

    def bit_loadings(self) -> NDArray[np.float32] | None:
        """Return the decoder's weight of each bit for each word: how much the bit raises the word's logit."""
        # the decoder of a deep auto-encoder starts from a hidden layer instead of the bits
        return self.decoder_embeddings_ if self.decoder_embeddings_.shape[1] == self.n_bits else None

    def _check_rows(self, X: Any) -> Any:
        """Check the parameters and convert X to CSR rows of words, not all of them empty."""
        need_torch()
        check_parameters(self.get_params())
        rows = sparse.csr_array(X, dtype=np.float32)
        rows.eliminate_zeros()
        if not rows.nnz:
            raise DataError("all documents are empty", allowed="a nonzero value in at least one row", got="only zeros")
        return rows

    def _architecture(self, n_features: int) -> tuple[int, ...]:
        """Return the widths of the encoder's hidden layers."""
        return default_hidden(self.hidden, n_features)

    @abstractmethod
    def _learning_rate(self, n_features: int, n_bits: int) -> float:
        """Return Adam's learning rate."""

    def _batch_options(self, seed: int) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "seed": seed, "device": self.device}

    def _seed(self) -> int:
        drawn = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.checkpoint is None or self.random_state is not None:
            return drawn
        from fewbits.nn.trainer import seed_of_checkpoint

        return seed_of_checkpoint(self.checkpoint, drawn)

    def _bernoulli_networks(
        self,
        batches: Batches,
        n_bits: int,
        decoded_words: NDArray[np.int64] | None = None,
        *,
        prefixes: Sequence[int] = (),
    ) -> Networks:
        """Make the networks of a Bernoulli VAE for the documents and labels of some batches.

        The decoder predicts the words in the given columns, by default all. A nested code has the lengths ``prefixes``.
        """
        import torch

        from fewbits.nn.models import Model, Shape

        n_features = batches.X.shape[1]
        # Small initial embeddings of the labels let training arrange them. But a step of Adam is no larger than the
        # learning rate: with a small rate small weights hardly grow, and short codes then carry little information.
        has_large_labels = self._learning_rate(n_features, n_bits) < SMALL_RATE
        sizes = (n_bits, self._architecture(n_features), self.dropout, self.word_dropout, self.initial_scale)
        shape = Shape(*sizes, noise=self.noise, has_large_labels=has_large_labels, prefixes=prefixes)
        mean_labels = None if batches.labels is None else mean_row(batches.labels)
        columns = None if decoded_words is None else torch.from_numpy(decoded_words)
        generator = torch.Generator().manual_seed(batches.seed)
        return Model(shape, mean_row(batches.X), mean_labels, generator, columns)

    def _train(
        self,
        model: Networks,
        objective: Objective,
        batches: Batches,
        *,
        n_bits: int,
        name: str,
        validation: Batches | None = None,
        pairs: Sequence[NDArray[Any]] = (),
        default_steps: int | None = None,
        default_rate: float | None = None,
    ) -> TrainedNetworks:
        """Train a model on batches.

        ``default_steps`` and ``default_rate`` apply if ``epochs`` and ``learning_rate`` are None; without them, the
        method's own defaults do.

        ``name`` identifies the round in a checkpoint; ``pairs`` are the labelled pairs, if any, which identify the data
        together with the rows and labels of the batches.
        """
        from fewbits.nn.trainer import Checkpoint, TrainerConfig, Training

        default_epochs = max(self.default_epochs, -(-MIN_STEPS // batches.steps))
        if default_steps is not None:
            default_epochs = max(1, round(default_steps / batches.steps))
        rate = self._learning_rate(batches.X.shape[1], n_bits)
        if default_rate is not None and self.learning_rate is None:
            rate = default_rate
        config = TrainerConfig(
            epochs=self.epochs or default_epochs,
            steps_per_epoch=batches.steps,
            learning_rate=rate,
            schedule=self.schedule,
            clip=self.clip,
            patience=self.patience,
            seed=batches.seed,
            callbacks=self.callbacks,
        )
        checkpoint = None
        if self.checkpoint is not None:
            left_out = (*EXECUTION_PARAMETERS, "random_state")  # the seed itself is part of the fingerprint
            parameters = {key: value for key, value in self.recorded_parameters().items() if key not in left_out}
            description = [type(self).__name__, parameters, batches.seed]
            digest = fingerprint(description, [batches.X, batches.labels], list(pairs))
            checkpoint = Checkpoint(f"{self.checkpoint}/{name}", digest)
        training = Training(
            model.to(self.device),
            objective,
            batches,
            config,
            validation=None if validation is None else lambda: validation(0),
            checkpoint=checkpoint,
        )
        with progress_of_epochs(config.epochs) if self.verbose else nullcontext() as show:
            history = training.run(show)
        return TrainedNetworks.from_torch(model, history)

    def _finalize(self, trained: TrainedNetworks, X: Any) -> None:
        """Set the fitted attributes from trained networks; X are the training rows."""
        self.history_ = trained.history
        self.encoder_layers_ = trained.encoder_layers
        self.decoder_embeddings_ = trained.decoder_embeddings
        self.decoder_bias_ = trained.decoder_bias
        self.bit_balance_ = self._encode(X).mean(axis=0, dtype=float)
        self._warn_constant_bits(X.shape[0])

    def _warn_constant_bits(self, n_documents: int) -> None:
        constant = int((np.abs(self.bit_balance_ - 0.5) > 0.5 - CONSTANT_SHARE).sum())
        if constant and n_documents * CONSTANT_SHARE >= 1:
            warnings.warn(
                f"{constant} of {len(self.bit_balance_)} bits are the same for nearly all training documents;"
                " a smaller kl_weight or learning_rate, or fewer bits, may help.",
                ConstantBitsWarning,
                stacklevel=5,
            )
