"""Semantic hashing by stacked restricted Boltzmann machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from fewbits.hashers._neural import NeuralHasher, as_range, need_torch
from fewbits.hashers.base import Layers, sample_rows
from fewbits.validation import check_whole_number

if TYPE_CHECKING:
    from fewbits.nn.models import Networks


class StackedRBM(NeuralHasher):
    """Restricted Boltzmann machines trained one on another, then unfolded and fine-tuned as an auto-encoder (S-RBM).

    The lowest machine's visible units are the words of a document, drawn from one softmax; tf-idf rows are no counts,
    so a row scaled by ``document_scale`` stands for them. Fine-tuning puts growing noise on the code's logits: without
    it the code would stay grey, and cutting it at 1/2 would lose what it says.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    hidden : sequence of int, default=(500, 500)
        Widths of the machines below the code.
    document_scale : float, default=10.0
        What rows are multiplied by to stand for counts.
    pretraining_epochs : int, default=5
        Passes over the documents for each machine.
    pretraining_rate : float, default=0.01
        Step size of contrastive divergence.
    code_noise : float or (float, float), default=(0.0, 4.0)
        Spread of the noise on the code's logits, at the start of fine-tuning and at its end.
    epochs : int or None, default=None
        Passes of fine-tuning; None for 25, or so many more that a small corpus makes 300 steps.
    max_rows : int, default=50000
        Machines and auto-encoder learn from so many documents at most, a random choice of them: a machine's step is
        dense in the words.
    learning_rate, batch_size, schedule, clip, checkpoint, callbacks, device, verbose, random_state :
        As for :class:`BernoulliVAE`.

    Attributes
    ----------
    pretraining_errors_ : array of shape (machines, pretraining_epochs)
        Squared reconstruction error of each machine by epoch.

    References
    ----------
    R. Salakhutdinov, G. Hinton. Semantic hashing. International Journal of Approximate Reasoning 2009.
    """

    fitted_arrays = (*NeuralHasher.fitted_arrays, "pretraining_errors")
    default_epochs = 25
    hidden: Sequence[int]
    learning_rate: float
    validation_fraction = 0.0
    patience = None
    pretraining_errors_: NDArray[np.float64]

    def __init__(
        self,
        n_bits: int = 64,
        *,
        hidden: Sequence[int] = (500, 500),
        document_scale: float = 10.0,
        pretraining_epochs: int = 5,
        pretraining_rate: float = 0.01,
        code_noise: float | tuple[float, float] = (0.0, 4.0),
        epochs: int | None = None,
        batch_size: int = 100,
        learning_rate: float = 1e-3,
        schedule: str = "cosine",
        clip: float | None = None,
        max_rows: int = 50_000,
        checkpoint: str | None = None,
        callbacks: Sequence[Callable[[dict[str, float]], Any]] = (),
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_bits, random_state=random_state)
        self.hidden = hidden
        self.document_scale = document_scale
        self.pretraining_epochs = pretraining_epochs
        self.pretraining_rate = pretraining_rate
        self.code_noise = code_noise
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.clip = clip
        self.max_rows = max_rows
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.device = device
        self.verbose = verbose

    def _fit(self, X: Any, y: Any) -> None:
        from fewbits.nn.data import Batches, ReconstructionTarget
        from fewbits.nn.rbm import ReconstructionThroughNoise

        need_torch()
        check_whole_number("pretraining_epochs", self.pretraining_epochs, 1)
        seed = self._seed()
        rows = sample_rows(self._check_rows(X), self.max_rows, np.random.RandomState(seed))
        rows = sparse.csr_array(rows * np.float32(self.document_scale), dtype=np.float32)
        options: dict[str, Any] = {"batch_size": self.batch_size, "seed": seed, "device": self.device}
        objective = ReconstructionThroughNoise(as_range(self.code_noise))
        self._train(
            rows, Batches(rows, ReconstructionTarget(rows), **options), objective, self.n_bits, seed, name="final"
        )

    def _networks(self, n_bits: int, X: Any, labels: Any, generator: Any) -> Networks:
        from fewbits.nn.rbm import UnfoldedStack, train_stack

        machines, errors = train_stack(
            X,
            [*self.hidden, n_bits],
            epochs=self.pretraining_epochs,
            batch_size=self.batch_size,
            learning_rate=self.pretraining_rate,
            seed=generator.initial_seed(),
        )
        self.pretraining_errors_ = np.array(errors)
        return UnfoldedStack(machines, generator)

    def _depth_and_speed(self, n_features: int, n_bits: int) -> tuple[tuple[int, ...], float]:
        return tuple(self.hidden), self.learning_rate

    def _look_at_bits(self, X: Any) -> None:
        weights, bias = self.encoder_layers_[0]
        self.encoder_layers_[0] = weights * np.float32(self.document_scale), bias  # rows come unscaled from now on
        super()._look_at_bits(X / np.float32(self.document_scale))

    def layers(self) -> Layers | None:
        """The machines, one on another."""
        check_is_fitted(self)
        return Layers(self.encoder_layers_, activation="sigmoid")

    @staticmethod
    def _activation(values: NDArray[np.float32]) -> NDArray[np.float32]:
        return expit(values)
