"""Semantic hashing by stacked restricted Boltzmann machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewbits.hashers._linalg import sample_rows
from fewbits.hashers._neural import NeuralHasher
from fewbits.hashers._parameters import as_range
from fewbits.validation import check_whole_number


class StackedRBM(NeuralHasher):
    """Restricted Boltzmann machines (RBMs) trained one on another, unfolded and fine-tuned as an auto-encoder (S-RBM).

    The visible units of the first RBM are the words of a document, drawn from one softmax; tf-idf rows are not counts,
    so rows scaled by ``document_scale`` stand in for them. Fine-tuning adds growing noise to the code's logits: without
    it the code's units would stay near 1/2, and rounding them would lose the information.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    hidden : sequence of int, default=(500, 500)
        Widths of the RBMs below the code.
    document_scale : float, default=10.0
        Factor by which rows are multiplied to stand in for counts.
    pretraining_epochs : int, default=5
        Passes over the documents for each RBM.
    pretraining_rate : float, default=0.01
        Learning rate of contrastive divergence.
    code_noise : float or (float, float), default=(0.0, 4.0)
        Standard deviation of the noise on the code's logits, at the start of fine-tuning and at its end.
    epochs : int or None, default=None
        Passes of fine-tuning. None for 25, or more if a small corpus would make fewer than 300 steps.
    max_rows : int, default=50000
        Largest number of documents to train on, a random sample: an RBM's step is dense in the words.
    learning_rate, batch_size, schedule, clip, checkpoint, callbacks, device, verbose, random_state :
        As for :class:`BernoulliVAE`.

    Attributes
    ----------
    pretraining_errors_ : array of shape (RBMs, pretraining_epochs)
        Squared reconstruction error of each RBM by epoch.

    References
    ----------
    R. Salakhutdinov, G. Hinton. Semantic hashing. International Journal of Approximate Reasoning 2009.
    """

    fitted_arrays = (*NeuralHasher.fitted_arrays, "pretraining_errors")
    activation = "sigmoid"
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
        check_whole_number("pretraining_epochs", self.pretraining_epochs, 1)
        rows = self._check_rows(X)
        import torch

        from fewbits.nn.data import Batches, ReconstructionTarget
        from fewbits.nn.losses import NoisyReconstruction
        from fewbits.nn.models import UnfoldedStack
        from fewbits.nn.rbm import train_stack

        seed = self._seed()
        scale = np.float32(self.document_scale)
        rows = sparse.csr_array(sample_rows(rows, self.max_rows, np.random.RandomState(seed)) * scale, dtype=np.float32)
        rbms, errors = train_stack(
            rows,
            [*self.hidden, self.n_bits],
            epochs=self.pretraining_epochs,
            batch_size=self.batch_size,
            learning_rate=self.pretraining_rate,
            seed=seed,
        )
        trained = self._train(
            UnfoldedStack(rbms, torch.Generator().manual_seed(seed)),
            NoisyReconstruction(as_range(self.code_noise)),
            Batches(rows, ReconstructionTarget(rows), **self._batch_options(seed)),
            n_bits=self.n_bits,
            name="final",
        )
        self.pretraining_errors_ = np.array(errors)
        (weights, bias), *later = trained.encoder_layers
        unscaled = weights * scale, bias  # rows to encode are not scaled
        self._finalize(replace(trained, encoder_layers=[unscaled, *later]), rows / scale)

    def _learning_rate(self, n_features: int, n_bits: int) -> float:
        return self.learning_rate
