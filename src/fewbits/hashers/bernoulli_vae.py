"""The Bernoulli variational auto-encoder: codes that explain a document's words, without labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from fewbits.hashers._neural import (
    Neighbours,
    NeuralHasher,
    as_prior,
    as_range,
    default_hidden,
    default_neighbors,
    has_few_words,
    need_torch,
    train_validation_split,
)


class BernoulliVAE(NeuralHasher):
    """Learn codes from which a softmax decoder explains the words of a document and of its neighbours.

    The paper's unsupervised system (ARM-DVAE) explains a document's own words from a code that is drawn bit by bit,
    with the ARM gradient. The defaults here go further: the gradient of every single-bit flip in closed form, a linear
    encoder, and the words of a document's neighbours among the training documents beside its own. Labels are not seen.

    NASH is this model with the straight-through gradient: no noise on the code (``nash``), a fixed spread of 0.1, which
    its paper does not tell (``nash-n``), or one that depends on the document (``nash-dn``). The presets of these names
    have ARM-DVAE's networks and its KL weight of 0.01, so that what differs is the gradient and the noise.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the code.
    hidden : sequence of int or None, default=None
        Widths of the encoder's hidden layers; None for a linear encoder where there are 2,000 words or more, and one
        layer of 1,000 where there are fewer. The paper has (500, 500).
    dropout : float, default=0.0
        Share of the last hidden layer's outputs that are left out in a step.
    word_dropout : float, default=0.0
        Share of a document's words that the encoder does not see in a step.
    initial_scale : float, default=0.03
        Standard deviation of the first layer's weights at the start.
    noise : bool or float, default=False
        Noise on the code before the decoder: True for a spread that depends on the document, as NASH-DN and the paper's
        unsupervised runs have it, a number for a fixed spread.
    estimator : str, default="flip"
        Gradient estimator: arm, disarm, leave-one-out, flip, straight-through, gumbel-softmax or reinmax.
    kl_weight : float or (float, float), default=0.03
        Weight lambda of the divergence from the prior, or its values at the start and at the end of training.
    prior : float or sequence of float, default=0.5
        Probability gamma of a 1 under the prior, for all bits or for each.
    n_neighbours : int or None, default=None
        Of how many neighbours the words are explained; 0 for none, None for a hundredth of the documents, but between
        10 and 100, or 30 with fewer than 2,000 words, and at most a quarter of the documents.
    neighbour_weight : float, default=0.9
        Share of the neighbours' words beside the document's own.
    neighbour_dimensions : int, default=128
        Neighbours are the nearest by cosine in a latent semantic space of so many dimensions; with fewer than 2,000
        words, by the words themselves.
    refinements : int or None, default=None
        How often codes of 128 bits are learnt first, only to find better neighbours by them; None for once, or not at
        all with fewer than 2,000 words.
    epochs : int or None, default=None
        Passes over the documents; None for 12, or so many more that a small corpus makes 300 steps.
    batch_size, learning_rate, schedule : default=100, None, "cosine"
        Documents in a step, Adam's step size and how it falls ("cosine" or "constant"). None for 0.01 with a linear
        encoder and 0.003 with hidden layers.
    clip : float or None, default=None
        Largest norm of a gradient.
    validation_fraction, patience : default=0.0, None
        Share of the documents that is held out, and after how many epochs without a better loss on it to stop.
    checkpoint : str or None, default=None
        Folder for the state after every epoch; a training that was cut off goes on from there.
    callbacks : sequence of callables, default=()
        Called with each epoch's record.
    device : str, default="cpu"
        Where to train.
    verbose : bool, default=False
        Show each epoch's record on standard error: a bar on a terminal, else a line.
    random_state : int, RandomState instance or None, default=None
        Seed of everything that is drawn.

    References
    ----------
    S. Zamani Dadaneh, S. Boluki, M. Yin, M. Zhou, X. Qian. Pairwise supervised hashing with Bernoulli variational
    auto-encoder and self-control gradient estimator. UAI 2020.

    D. Shen, Q. Su, P. Chapfuwa, W. Wang, G. Wang, L. Carin, R. Henao. NASH: toward end-to-end neural architecture for
    generative semantic hashing. ACL 2018.
    """

    default_epochs = 12

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
        need_torch()
        as_prior(self.prior, self.n_bits, self.n_bits)
        rows = self._check_rows(X)
        seed = self._seed()
        learnt_from, held_out = train_validation_split(rows.shape[0], self.validation_fraction, seed)
        known, looked_at = rows[learnt_from], rows[held_out]

        def learn(neighbours: Neighbours, n_bits: int, name: str) -> None:
            self._learn(known, looked_at, neighbours, n_bits, seed, name)

        wanted = default_neighbors(known) if self.n_neighbours is None else self.n_neighbours
        usual = 0 if has_few_words(known) else 1
        refinements = usual if self.refinements is None else self.refinements
        learn(self._find_neighbours(known, wanted, refinements, seed, learn), self.n_bits, "final")

    def _depth_and_speed(self, n_features: int, n_bits: int) -> tuple[tuple[int, ...], float]:
        hidden = default_hidden(self.hidden, n_features)
        usual = 0.003 if hidden else 0.01
        return hidden, usual if self.learning_rate is None else self.learning_rate

    def _learn(self, known: Any, looked_at: Any, neighbours: Neighbours, n_bits: int, seed: int, name: str) -> None:
        from fewbits.nn.data import Batches, ReconstructionTarget
        from fewbits.nn.gradient_estimators import make_estimator
        from fewbits.nn.losses import Objective, Weights

        options: dict[str, Any] = {"batch_size": self.batch_size, "seed": seed, "device": self.device}
        batches = Batches(known, ReconstructionTarget(known, neighbours, self.neighbour_weight), **options)
        # A held-out document has no neighbours among the training documents: its own words are what it is judged by.
        held_out = Batches(looked_at, ReconstructionTarget(looked_at), **options) if looked_at.shape[0] else None
        weights = Weights(kl=as_range(self.kl_weight), prior=as_prior(self.prior, self.n_bits, n_bits))
        objective = Objective(weights, make_estimator(self.estimator))
        self._train(known, batches, objective, n_bits, seed, held_out=held_out, name=name)
