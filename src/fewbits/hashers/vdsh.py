"""Variational deep semantic hashing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fewbits.codes import Bits
from fewbits.data.labels import known_labels
from fewbits.errors import ParameterError
from fewbits.hashers._neural import NeuralHasher, as_range, mean_row, need_torch, train_validation_split
from fewbits.hashers.base import Layers

if TYPE_CHECKING:
    from fewbits.nn.models import Networks

SUPERVISION = ("none", "shared", "private")


class VDSH(NeuralHasher):
    """A Gaussian variational auto-encoder whose means, cut at their training medians, are the code (VDSH, -S, -SP).

    The decoder explains which words are there, not their tf-idf weights: so it is in the method's released code, where
    the weights stand inside the logarithm. The log variances go through a sigmoid. Unlike there, the divergence's
    weight rises over the whole training, and labels are a softmax with the target spread evenly over a document's
    labels, as for the other methods here.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    supervision : {"none", "shared", "private"}, default="none"
        Whether labels are told from the code (VDSH-S), and whether beside it a private variable helps to explain the
        words, so that the code need not (VDSH-SP). Documents without a label take part with their words alone.
    hidden : sequence of int, default=(500, 500)
        Widths of the encoder's hidden layers.
    dropout, initial_scale :
        As for :class:`BernoulliVAE`.
    kl_weight : float or (float, float), default=(0.0, 1.0)
        Weight of the divergence from the prior, at the start of training and at its end.
    label_weight : float or (float, float), default=(0.0, 150.0)
        Weight of the labels, at the start of training and at its end.
    epochs : int or None, default=None
        Passes over the documents; None for 25, or so many more that a small corpus makes 300 steps.
    learning_rate, batch_size, schedule, clip, validation_fraction, patience, checkpoint, callbacks, device :
        As for :class:`BernoulliVAE`.
    verbose, random_state :
        As for :class:`BernoulliVAE`.

    References
    ----------
    S. Chaidaroon, Y. Fang. Variational deep semantic hashing for text documents. SIGIR 2017.
    """

    fitted_arrays = (*NeuralHasher.fitted_arrays, "offsets")
    default_epochs = 25
    hidden: Sequence[int]
    learning_rate: float
    offsets_: NDArray[np.float32]  # (bits,): medians

    def __init__(
        self,
        n_bits: int = 64,
        *,
        supervision: str = "none",
        hidden: Sequence[int] = (500, 500),
        dropout: float = 0.2,
        initial_scale: float = 0.1,
        kl_weight: float | tuple[float, float] = (0.0, 1.0),
        label_weight: float | tuple[float, float] = (0.0, 150.0),
        epochs: int | None = None,
        batch_size: int = 100,
        learning_rate: float = 1e-3,
        schedule: str = "constant",
        clip: float | None = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        checkpoint: str | None = None,
        callbacks: Sequence[Callable[[dict[str, float]], Any]] = (),
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.supervision = supervision
        self.hidden = hidden
        self.dropout = dropout
        self.initial_scale = initial_scale
        self.kl_weight = kl_weight
        self.label_weight = label_weight
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.clip = clip
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.device = device
        self.verbose = verbose

    def _fit(self, X: Any, y: Any) -> None:
        from fewbits.nn.data import Batches, ReconstructionTarget
        from fewbits.nn.gaussian import GaussianObjective

        need_torch()
        if self.supervision not in SUPERVISION:
            raise ParameterError("supervision is unknown", allowed=", ".join(SUPERVISION), got=repr(self.supervision))
        rows = self._check_rows(X)
        labels = None if self.supervision == "none" else known_labels(y, rows.shape[0])
        seed = self._seed()
        learnt_from, held_out = train_validation_split(rows.shape[0], self.validation_fraction, seed)

        def batches(chosen: NDArray[np.int64]) -> Batches:
            part = rows[chosen]
            present = sparse.csr_array((np.ones_like(part.data), part.indices, part.indptr), shape=part.shape)
            part_labels = None if labels is None else labels[chosen]
            options: dict[str, Any] = {"batch_size": self.batch_size, "seed": seed, "device": self.device}
            return Batches(part, ReconstructionTarget(present), labels=part_labels, **options)

        learnt = batches(learnt_from)
        self._train(
            learnt.X,
            learnt,
            GaussianObjective(as_range(self.kl_weight), as_range(self.label_weight)),
            self.n_bits,
            seed,
            held_out=batches(held_out) if len(held_out) else None,
            labels=learnt.labels,
            name="final",
        )

    def _networks(self, n_bits: int, X: Any, labels: Any, generator: Any) -> Networks:
        from fewbits.nn.gaussian import GaussianNetworks

        return GaussianNetworks(
            n_bits,
            mean_row(X > 0),
            None if labels is None else mean_row(labels),
            hidden=tuple(self.hidden),
            dropout=self.dropout,
            initial_scale=self.initial_scale,
            is_private=self.supervision == "private",
            generator=generator,
        )

    def _depth_and_speed(self, n_features: int, n_bits: int) -> tuple[tuple[int, ...], float]:
        return tuple(self.hidden), self.learning_rate

    def _look_at_bits(self, X: Any) -> None:
        """Keep the means of the shared variable alone, and their medians."""
        weights, bias = self.encoder_layers_[-1]
        self.encoder_layers_[-1] = np.ascontiguousarray(weights[:, : self.n_bits]), bias[: self.n_bits].copy()
        self.offsets_ = np.median(self._logits(X), axis=0).astype(np.float32)
        super()._look_at_bits(X)

    def layers(self) -> Layers | None:
        """The encoder's layers, less the medians."""
        check_is_fitted(self)
        *earlier, (weights, bias) = self.encoder_layers_
        return Layers([*earlier, (weights, bias - self.offsets_)], zero_is_one=False)

    def _encode(self, X: Any) -> Bits:
        return (self._logits(X) > self.offsets_).astype(np.uint8)

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return self._logits(X) - self.offsets_

    def _bit_confidence(self, margins: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.abs(margins)  # a mean of a Gaussian, no logit

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.supervision != "none"
        return tags
