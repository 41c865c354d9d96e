"""Gradients through bits that are drawn, one estimator a file."""

from __future__ import annotations

from fewbits.errors import ParameterError
from fewbits.learning.estimators.arm import ARM
from fewbits.learning.estimators.base import CodeLoss, GradientEstimator
from fewbits.learning.estimators.disarm import DisARM
from fewbits.learning.estimators.flip import Flip
from fewbits.learning.estimators.gumbel_softmax import GumbelSoftmax
from fewbits.learning.estimators.leave_one_out import LeaveOneOut
from fewbits.learning.estimators.reinmax import ReinMax
from fewbits.learning.estimators.straight_through import StraightThrough

ESTIMATORS: dict[str, type[GradientEstimator]] = {
    estimator.name: estimator for estimator in (ARM, DisARM, LeaveOneOut, Flip, StraightThrough, GumbelSoftmax, ReinMax)
}


def make_estimator(name: str) -> GradientEstimator:
    """Make an estimator by name."""
    if name not in ESTIMATORS:
        raise ParameterError("there is no such gradient estimator", allowed=", ".join(ESTIMATORS), got=repr(name))
    return ESTIMATORS[name]()


__all__ = ["ESTIMATORS", "CodeLoss", "GradientEstimator", "make_estimator"]
