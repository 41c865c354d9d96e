"""Variational deep semantic hashing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fewbits.data.labels import check_labels
from fewbits.hashers._neural import NeuralHasher
from fewbits.hashers._parameters import as_range, check_choice
from fewbits.hashers._training import mean_row, train_validation_split
from fewbits.hashers.base import Layers, encode_rows

SUPERVISION = ("none", "shared", "private")


class VDSH(NeuralHasher):
    """Threshold the latent means of a Gaussian variational auto-encoder at their training medians (VDSH, -S, -SP).

    The decoder predicts which words are present, not their tf-idf weights, as in the method's released code, where the
    weights are inside the logarithm. Log variances pass through a sigmoid. Unlike there, the weight of the divergence
    rises over the whole training, and labels are predicted by a softmax whose target is spread evenly over a document's
    labels, as for the other methods here.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    supervision : {"none", "shared", "private"}, default="none"
        "shared" predicts labels from the code (VDSH-S); "private" adds a second latent variable that helps to
        reconstruct the words, so that the code need not (VDSH-SP). Documents without a label contribute their words
        only.
    hidden : sequence of int, default=(500, 500)
        Widths of the encoder's hidden layers.
    dropout, initial_scale :
        As for :class:`BernoulliVAE`.
    kl_weight : float or (float, float), default=(0.0, 1.0)
        Weight of the divergence from the prior, at the start of training and at its end.
    label_weight : float or (float, float), default=(0.0, 150.0)
        Weight of the labels, at the start of training and at its end.
    epochs : int or None, default=None
        Passes over the documents. None for 25, or more if a small corpus would make fewer than 300 steps.
    learning_rate, batch_size, schedule, clip, validation_fraction, patience, checkpoint, callbacks, device :
        As for :class:`BernoulliVAE`.
    verbose, random_state :
        As for :class:`BernoulliVAE`.

    Attributes
    ----------
    offsets_ : array of shape (n_bits,)
        Thresholds of the latent means: the next number above each median, since only means above it are 1.

    References
    ----------
    S. Chaidaroon, Y. Fang. Variational deep semantic hashing for text documents. SIGIR 2017.
    """

    fitted_arrays = (*NeuralHasher.fitted_arrays, "offsets")
    default_epochs = 25
    hidden: Sequence[int]
    learning_rate: float
    offsets_: NDArray[np.float32]  # (bits,)

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
        check_choice("supervision", self.supervision, SUPERVISION)
        rows = self._check_rows(X)
        labels = None if self.supervision == "none" else check_labels(y, rows.shape[0])
        from fewbits.nn.data import Batches, ReconstructionTarget
        from fewbits.nn.losses import GaussianObjective

        seed = self._seed()
        train_rows, validation_rows = train_validation_split(rows.shape[0], self.validation_fraction, seed)

        def batches_of(chosen: NDArray[np.int64]) -> Batches:
            part = rows[chosen]
            present = sparse.csr_array((np.ones_like(part.data), part.indices, part.indptr), shape=part.shape)
            part_labels = None if labels is None else labels[chosen]
            return Batches(part, ReconstructionTarget(present), labels=part_labels, **self._batch_options(seed))

        batches = batches_of(train_rows)
        trained = self._train(
            self._gaussian_networks(batches.X, batches.labels, seed),
            GaussianObjective(as_range(self.kl_weight), as_range(self.label_weight)),
            batches,
            n_bits=self.n_bits,
            name="final",
            validation=batches_of(validation_rows) if len(validation_rows) else None,
        )
        *earlier, (weights, bias) = trained.encoder_layers
        means = np.ascontiguousarray(weights[:, : self.n_bits]), bias[: self.n_bits].copy()  # without log variances
        trained = replace(trained, encoder_layers=[*earlier, means])
        latent = encode_rows(trained.encoder_layers, batches.X, self.activation)
        self.offsets_ = _above(np.median(latent, axis=0))
        self._finalize(trained, batches.X)

    def _gaussian_networks(self, X: Any, labels: Any, seed: int) -> Any:
        import torch

        from fewbits.nn.models import GaussianNetworks

        return GaussianNetworks(
            self.n_bits,
            mean_row(X > 0),
            None if labels is None else mean_row(labels),
            hidden=tuple(self.hidden),
            dropout=self.dropout,
            initial_scale=self.initial_scale,
            is_private=self.supervision == "private",
            generator=torch.Generator().manual_seed(seed),
        )

    def _learning_rate(self, n_features: int, n_bits: int) -> float:
        return self.learning_rate

    def layers(self) -> Layers | None:
        """Return the encoder's layers, with the thresholds subtracted from the last bias."""
        check_is_fitted(self)
        *earlier, (weights, bias) = self.encoder_layers_
        return Layers([*earlier, (weights, bias - self.offsets_)])

    def _margins(self, X: Any) -> NDArray[np.float32]:
        return self._logits(X) - self.offsets_

    def _bit_confidence(self, margins: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.abs(margins)  # distances of Gaussian means, not logits

    def _upgrade(self, arrays: dict[str, NDArray[Any]], version: int) -> dict[str, NDArray[Any]]:
        if version < 2:  # offsets were the medians, and bits were 1 above them only
            arrays = {**arrays, "offsets": _above(arrays["offsets"])}
        return arrays

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.supervision != "none"
        return tags


def _above(medians: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the next 32-bit number above each median: ``x >= _above(m)`` is ``x > m``."""
    return np.nextafter(medians.astype(np.float32), np.float32(np.inf))
