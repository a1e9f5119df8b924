"""PrivateRelease: fit, measure, calibrate and perturb in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fisherleak._array import host
from fisherleak._check import check_positive
from fisherleak._meta import Wrapper, fit_weighted, one_target
from fisherleak.calibrate import calibrate
from fisherleak.leakage import Leakage, measure
from fisherleak.noise import Noise
from fisherleak.release import release

__all__ = ["PrivateRelease", "ReleaseReport"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ReleaseReport:
    """What a :class:`PrivateRelease` reveals, without anything of the unperturbed model.

    Attributes
    ----------
    eta : array of shape (n,)
        Per-example eta of the release over the values that were limited.
    limit : float
    over : str
    dataset : float
        Eta of the whole data set, all attributes and labels.
    """

    eta: Vector = field(repr=False)
    limit: float
    over: str
    dataset: float


class PrivateRelease(Wrapper):
    """Fit, measure, calibrate and perturb in one ``fit``.

    Parameters
    ----------
    estimator : scikit-learn model
        Any that :func:`fisherleak.measure` reads.
    eta : float
        The limit on Fisher information loss.
    over : {"max", "mean", "dataset"}
        What is limited, as in :func:`fisherleak.calibrate`.
    attributes : names, optional
        The attributes that count, without the label. Everything, with the label, by default. Not for "dataset".
    noise : Noise, optional
        The kind of noise; its scale is replaced. ``fl.Gaussian`` by default.
    polish : bool
        Measure at the exact minimum where the estimator stopped close to it.
    keep_unperturbed : bool
        Keep ``unperturbed_`` (the model without noise) and make ``leakage_`` a full :class:`Leakage`, which holds it too.
    random_state : int or Generator, optional
        For tests only: see :func:`fisherleak.release`.

    Attributes
    ----------
    estimator_ : scikit-learn model
        The released model: the only one to pass on.
    noise_ : Noise
    leakage_ : ReleaseReport or Leakage
        Derived from the data: do not publish it with the model.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = fl.PrivateRelease(Ridge(), eta=5.0).fit(X, y)
    >>> bool(model.leakage_.eta.max() <= 5.0)
    True
    """

    def __init__(
        self,
        estimator: Any,
        eta: float = 1.0,
        over: str = "max",
        attributes: Sequence[str | int] | None = None,
        noise: Noise | None = None,
        polish: bool = False,
        keep_unperturbed: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.over = over
        self.attributes = attributes
        self.noise = noise
        self.polish = polish
        self.keep_unperturbed = keep_unperturbed
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, find the noise for the limit, and keep a perturbed copy."""
        check_positive(self.eta, "eta")
        y = one_target(self.estimator, y)
        model = fit_weighted(clone(self.estimator), X, y, sample_weight)
        leak = measure(model, X, y, self.noise, sample_weight, polish=self.polish)
        self.noise_ = calibrate(leak, self.eta, self.over, attributes=self.attributes)
        quiet = leak.with_noise(self.noise_)
        self.estimator_ = release(model, self.noise_, self.random_state)
        self.leakage_: Leakage | ReleaseReport
        if self.keep_unperturbed:
            self.unperturbed_, self.leakage_ = model, quiet
        else:
            eta = np.asarray(host(quiet.per_example(self.attributes)))
            self.leakage_ = ReleaseReport(eta, float(self.eta), self.over, quiet.dataset())
        return self
