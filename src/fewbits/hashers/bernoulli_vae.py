"""The Bernoulli variational auto-encoder: unsupervised codes from which a document's words can be predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewbits.hashers._nested import NestedHasher
from fewbits.hashers._parameters import as_prior, as_range, default_neighbors, has_few_words
from fewbits.hashers._smoothing import LARGE, SMALL, SmoothedSpace, Smoothing, agreement, nested_start, smoothed_space
from fewbits.hashers._training import (
    FINAL_ROUND,
    Neighbors,
    TrainedNetworks,
    train_validation_split,
    train_with_refinements,
)
from fewbits.hashers.base import Layer, encode_rows

SMALL_CORPUS = 5000  # documents
SEED_STEP = 1000  # between the seeds of trainings from several starts
FIRST_BITS = "first-bits"  # name of the training of the shortest prefix of a nested code
SHORT_CODE = 8  # bits up to which the precision depends much on the rotation that training starts from
SHORT_CODE_DIMENSIONS = 64  # a short code can represent no more than the main directions of a space
SHORT_CODE_STARTS = 4


class BernoulliVAE(NestedHasher):
    """Learn codes from which a softmax decoder predicts the words of a document and of its neighbors.

    The paper's unsupervised system (ARM-DVAE) predicts a document's own words from a code sampled bit by bit, with the
    ARM gradient. The defaults here go further: the flip gradient, which evaluates every single-bit flip in closed form;
    a linear encoder; beside a document's own words, those of its neighbors among the training documents; and an encoder
    that starts from a rotation of a smoothed latent space, as ITQ starts from the principal directions. Labels are not
    used.

    NASH is this model with the straight-through gradient: without noise on the code (``nash``), with a fixed standard
    deviation of 0.1, which its paper does not state (``nash-n``), or with data-dependent noise (``nash-dn``). These
    presets have ARM-DVAE's networks and its KL weight of 0.01, so they differ only in gradient and noise.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    hidden : sequence of int or None, default=None
        Widths of the encoder's hidden layers. None for a linear encoder with 2,000 words or more, and one layer of
        1,000 with fewer. The paper has (500, 500).
    dropout : float, default=0.0
        Dropout rate of the last hidden layer's outputs.
    word_dropout : float, default=0.0
        Dropout rate of the encoder's input words.
    initial_scale : float, default=0.03
        Initial standard deviation of the first layer's weights.
    noise : bool or float, default=False
        Noise on the code before the decoder: True for a data-dependent standard deviation, as in NASH-DN and the
        paper's unsupervised runs; a number for a fixed one.
    estimator : str, default="flip"
        Gradient estimator: arm, disarm, leave-one-out, flip, straight-through, gumbel-softmax or reinmax.
    kl_weight : float or (float, float), default=0.03
        Weight lambda of the divergence from the prior, or its values at the start and at the end of training.
    prior : float or sequence of float, default=0.5
        Prior probability gamma of a 1, for all bits or per bit.
    smoothing : int or None, default=None
        Rounds of smoothing the latent semantic space, in which a linear map of the words is fitted to the means of
        neighbors; neighbors and the start of a linear encoder are taken from the last round. None for 1 with fewer than
        5,000 documents and 3 with more, but 0 with fewer than 2,000 words or without neighbors. With 0, the encoder
        starts at random.
    starts : int or None, default=None
        Trainings of a linear encoder for codes of up to 8 bits, by turns from a rotation of the smoothed space and of
        the latent semantic space, each of 64 dimensions; the one whose nearest documents by code are nearest in the
        smoothed space is kept. None for 4. 0 for the earlier default: rotations of a smoothed space of as many
        dimensions as for longer codes, three from 5,000 documents on and one with fewer.
    nested : bool, default=False
        Whether every prefix of 8, 16, 32, ... bits is trained as a code of its own, see :meth:`truncate`; ``n_bits``
        must be a power of two. With smoothing and a linear encoder, the first 8 bits start from a code of 8 bits.
    n_neighbours : int or None, default=None
        Number of neighbors whose words are predicted; 0 for none. None for a hundredth of the documents, but at least
        10 and at most 100, or 30 with fewer than 2,000 words, and at most a quarter of the documents.
    neighbour_weight : float, default=0.9
        Weight of the neighbors' words; that of the document's own words is the rest up to 1.
    neighbour_dimensions : int, default=128
        Dimensions of the latent semantic space in which neighbors are nearest by cosine, without smoothing; with fewer
        than 2,000 words they are found by the words themselves.
    refinements : int or None, default=None
        Rounds of training codes of 128 bits whose only use is to find better neighbors. None for none, or one without
        smoothing and with 2,000 words or more.
    epochs : int or None, default=None
        Passes over the documents. None with smoothing for about 600 steps with fewer than 5,000 documents and 900 with
        more; without, for 12, or more if a small corpus would make fewer than 300 steps.
    batch_size, learning_rate, schedule : default=100, None, "cosine"
        Documents per step, Adam's learning rate and its schedule ("cosine" or "constant"). None for 0.01 with a linear
        encoder, or 0.12 / sqrt(n_bits) with smoothing and 5,000 documents or more; and 0.003 with hidden layers.
    clip : float or None, default=None
        Largest norm of a gradient.
    validation_fraction, patience : default=0.0, None
        Share of the documents used for validation, and the number of epochs without a lower validation loss after which
        training stops.
    checkpoint : str or None, default=None
        Folder for the state after every epoch; an interrupted training resumes from it.
    callbacks : sequence of callables, default=()
        Called with each epoch's record.
    device : str, default="cpu"
        Torch device to train on.
    verbose : bool, default=False
        Show each epoch's record on standard error: a progress bar on a terminal, else one line per epoch.
    random_state : int, RandomState instance or None, default=None
        Seed of all random draws. With one thread the same seed gives the same codes; with several, sums are added in
        the order in which threads finish, and the codes may differ from run to run.

    References
    ----------
    S. Zamani Dadaneh, S. Boluki, M. Yin, M. Zhou, X. Qian. Pairwise supervised hashing with Bernoulli variational
    auto-encoder and self-control gradient estimator. UAI 2020.

    D. Shen, Q. Su, P. Chapfuwa, W. Wang, G. Wang, L. Carin, R. Henao. NASH: toward end-to-end neural architecture for
    generative semantic hashing. ACL 2018.
    """

    default_epochs = 12
    legacy_values: ClassVar[Mapping[str, Any]] = {"smoothing": 0, "starts": 0, "nested": False}

    def __init__(
        self,
        n_bits: int = 64,
        *,
        hidden: Sequence[int] | None = None,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        initial_scale: float = 0.03,
        noise: bool | float = False,
        estimator: str = "flip",
        kl_weight: float | tuple[float, float] = 0.03,
        prior: float | ArrayLike = 0.5,
        n_neighbours: int | None = None,
        neighbour_weight: float = 0.9,
        neighbour_dimensions: int = 128,
        refinements: int | None = None,
        smoothing: int | None = None,
        starts: int | None = None,
        nested: bool = False,
        epochs: int | None = None,
        batch_size: int = 100,
        learning_rate: float | None = None,
        schedule: str = "cosine",
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
        self.hidden = hidden
        self.dropout = dropout
        self.word_dropout = word_dropout
        self.initial_scale = initial_scale
        self.noise = noise
        self.estimator = estimator
        self.kl_weight = kl_weight
        self.prior = prior
        self.n_neighbours = n_neighbours
        self.neighbour_weight = neighbour_weight
        self.neighbour_dimensions = neighbour_dimensions
        self.refinements = refinements
        self.smoothing = smoothing
        self.starts = starts
        self.nested = nested
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

    def recorded_parameters(self) -> dict[str, Any]:
        """Return the parameters that identify a fit; the number of starts only if there can be several."""
        recorded = super().recorded_parameters()
        if self.smoothing == 0 or (self.n_bits > SHORT_CODE and not self.nested):
            recorded.pop("starts", None)
        return recorded

    def _fit(self, X: Any, y: Any) -> None:
        as_prior(self.prior, self.n_bits, self.n_bits)
        rows = self._check_rows(X)
        seed = self._seed()
        train_rows, validation_rows = train_validation_split(rows.shape[0], self.validation_fraction, seed)
        X_train, X_val = rows[train_rows], rows[validation_rows]

        few_words = has_few_words(X_train)
        n_neighbors = default_neighbors(X_train) if self.n_neighbours is None else self.n_neighbours
        smoothing = self._smoothing(X_train, n_neighbors)
        is_linear = not self._architecture(X_train.shape[1])

        def space_for(n_bits: int) -> SmoothedSpace | None:
            if smoothing is None:
                return None
            dimensions = self._dimensions(smoothing, n_bits)
            return smoothed_space(X_train, n_neighbors, dimensions, smoothing.rounds, seed)

        space = space_for(self.n_bits)

        def train(neighbors: Neighbors, n_bits: int, name: str) -> TrainedNetworks:
            if smoothing is None or space is None:
                return self._train_round(X_train, X_val, neighbors, n_bits, seed, name, smoothing)
            if name == FINAL_ROUND and n_bits <= SHORT_CODE:
                return self._train_short_code(X_train, X_val, neighbors, n_bits, seed, name, smoothing, space)
            first_bits: Layer | None = None
            if self.nested and is_linear and name == FINAL_ROUND and (short := space_for(SHORT_CODE)) is not None:
                options = (short.neighbors, SHORT_CODE, seed, FIRST_BITS, smoothing, short)
                [first_bits] = self._train_short_code(X_train, X_val, *options).encoder_layers
            options_of_round = (smoothing, space.weights, first_bits)
            return self._train_round(X_train, X_val, neighbors, n_bits, seed, name, *options_of_round)

        default_refinements = 0 if few_words or smoothing is not None else 1
        trained = train_with_refinements(
            X_train,
            train,
            n_bits=self.n_bits,
            n_neighbors=n_neighbors,
            dimensions=X_train.shape[1] if few_words else self.neighbour_dimensions,
            refinements=default_refinements if self.refinements is None else self.refinements,
            seed=seed,
            neighbors=None if space is None else space.neighbors,
        )
        self._finalize(trained, X_train)

    def _smoothing(self, X_train: Any, n_neighbors: int) -> Smoothing | None:
        """Return the settings of smoothing, or None if there is none."""
        if not n_neighbors or X_train.shape[0] < 2 or (self.smoothing is None and has_few_words(X_train)):
            return None
        settings = SMALL if X_train.shape[0] < SMALL_CORPUS else LARGE
        rounds = settings.rounds if self.smoothing is None else self.smoothing
        return replace(settings, rounds=rounds) if rounds else None

    def _dimensions(self, smoothing: Smoothing, n_bits: int) -> int:
        return smoothing.dimensions if n_bits > SHORT_CODE or self.starts == 0 else SHORT_CODE_DIMENSIONS

    def _train_short_code(
        self,
        X_train: Any,
        X_val: Any,
        neighbors: Neighbors,
        n_bits: int,
        seed: int,
        name: str,
        smoothing: Smoothing,
        space: SmoothedSpace,
    ) -> TrainedNetworks:
        """Train from several starts; return the networks whose codes agree most with the space."""
        count = SHORT_CODE_STARTS if self.starts is None else self.starts or smoothing.earlier_starts
        if self._architecture(X_train.shape[1]):
            count = 1  # the start of a hidden layer is random
        candidates = []
        for number in range(count):
            start_weights = space.latent_weights if number % 2 and self.starts != 0 else space.weights
            options = (seed + number * SEED_STEP, f"{name}-{number}" if number else name, smoothing, start_weights)
            candidates.append(self._train_round(X_train, X_val, neighbors, n_bits, *options))
        return most_agreeing(candidates, X_train, space, seed)

    def _learning_rate(self, n_features: int, n_bits: int) -> float:
        default = 0.003 if self._architecture(n_features) else 0.01
        return default if self.learning_rate is None else self.learning_rate

    def _train_round(
        self,
        X_train: Any,
        X_val: Any,
        neighbors: Neighbors,
        n_bits: int,
        seed: int,
        name: str,
        smoothing: Smoothing | None,
        start_weights: NDArray[np.float32] | None = None,
        first_bits: Layer | None = None,
    ) -> TrainedNetworks:
        """Train networks; a linear encoder starts from a rotation of the image of ``start_weights``, if given."""
        from fewbits.nn.data import Batches, ReconstructionTarget
        from fewbits.nn.gradient_estimators import make_estimator
        from fewbits.nn.losses import Objective, Weights

        options = self._batch_options(seed)
        words = None if smoothing is None else most_frequent_words(X_train, smoothing.decoded_words)
        target, target_val = (X_train, X_val) if words is None else (X_train[:, words], X_val[:, words])
        batches = Batches(X_train, ReconstructionTarget(target, neighbors, self.neighbour_weight), **options)
        # A validation document has no neighbors among the training documents: only its own words are predicted.
        validation = Batches(X_val, ReconstructionTarget(target_val), **options) if X_val.shape[0] else None
        weights = Weights(kl=as_range(self.kl_weight), prior=as_prior(self.prior, self.n_bits, n_bits))
        objective = Objective(weights, make_estimator(self.estimator))
        prefixes = self._prefixes_of_round(n_bits, name)
        model = self._bernoulli_networks(batches, n_bits, words, prefixes=prefixes)
        is_linear = not self._architecture(X_train.shape[1])
        rate = None
        if smoothing is not None and start_weights is not None and is_linear:
            rate = smoothing.learning_rate(n_bits)
            if (start := nested_start(X_train, start_weights, (0, *prefixes), seed)) is not None:
                model.encoder.set_first_layer(*with_first_bits(start, first_bits))
        trained = self._train(
            model,
            objective,
            batches,
            n_bits=n_bits,
            name=name,
            validation=validation,
            default_steps=None if smoothing is None else smoothing.steps,
            default_rate=rate,
        )
        return trained if words is None else trained.with_all_words(words, X_train)


def with_first_bits(start: Layer, first_bits: Layer | None) -> Layer:
    """Replace the first bits of a linear layer by those of another."""
    if first_bits is None:
        return start
    (weights, bias), count = start, len(first_bits[1])
    return np.hstack([first_bits[0], weights[:, count:]]), np.concatenate([first_bits[1], bias[count:]])


def most_agreeing(candidates: list[TrainedNetworks], X: Any, space: SmoothedSpace, seed: int) -> TrainedNetworks:
    """Return the networks whose nearest documents by code are nearest in the smoothed space; labels are not used."""
    if len(candidates) == 1:
        return candidates[0]
    places = X @ space.weights
    codes = [encode_rows(one.encoder_layers, X) >= 0 for one in candidates]
    agreements = [agreement(places, one, seed) for one in codes]
    return candidates[int(np.argmax(agreements))]


def most_frequent_words(X: Any, count: int) -> NDArray[np.int64] | None:
    """Return the sorted columns of the words in the most rows; None if there are no more than ``count``."""
    if X.shape[1] <= count:
        return None
    frequency = np.bincount(X.indices, minlength=X.shape[1])
    return np.sort(np.argsort(-frequency, kind="stable")[:count])
