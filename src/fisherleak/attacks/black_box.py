r"""The black-box attack of Fredrikson et al. (2014), as in the paper (equation 20).

.. math:: \hat x = \arg\max_x\; p(x)\, \pi(\phi(w', x_{\setminus}, x),\, y)

with the prior p, the released model's predictions :math:`\phi` and its published performance :math:`\pi`. For regression,
:math:`\pi` is a normal density of the label's neighbourhood, :math:`\exp(-\omega (\phi - y)^2 / 2 s^2)`,
:math:`s^2 = \sum \omega (\phi - y)^2 / (n - p)` over the training data; for classification it is the released model's confusion
matrix, the part of the training rows of class y that it predicts as :math:`\phi`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Estimator, TableLike, VectorLike
from fisherleak.attacks.base import Attacker, Codes, Vector
from fisherleak.engine.erm import Fit
from fisherleak.engine.noise import Noise
from fisherleak.models import checked_model, final_estimator

__all__ = ["BlackBox"]

AT_ONCE = 2**22
"""Predictions held at a time."""


class BlackBox(Attacker):
    """Weighs the prior by how well the released model, queried with each candidate, fits the known label.

    Knows the row's other attributes and its label, the prior, the released model's predictions and its performance on the
    training data. Parameters as for every attacker.

    Notes
    -----
    Works as well on people outside the training data: what it finds is what the model says about the population. There is no
    closed form for its accuracy under noise: ``accuracy`` and ``against`` simulate.

    Examples
    --------
    >>> import fisherleak as fl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> attack = fl.attacks.BlackBox(LinearRegression().fit(X, y), X, y, "sex")
    >>> attack.infer().shape
    (442,)
    """

    name = "black-box"
    by_answers = True

    def __init__(self, model: Estimator, X: TableLike, y: VectorLike, attribute: str | int, **options: Any) -> None:
        super().__init__(model, X, y, attribute, **options)
        target = self.target
        self._candidates = np.stack([_with_constant(host(target.changed(k)), target.fit) for k in range(target.k)])
        self._training = _with_constant(host(target.features).astype(np.float64), target.fit)

    @property
    def classifies(self) -> bool:
        """Whether performance is a confusion matrix."""
        if isinstance(self.target.model, Fit):
            return self.target.fit.loss.labels.binary
        return bool(is_classifier(final_estimator(checked_model(self.target.model))))

    def guess(self, theta: Vector, noise: Noise | None = None) -> Codes:
        score = self._by_class if self.classifies else self._by_density
        most = max(1, AT_ONCE // max(self._training.shape[0], self._candidates.shape[0] * self.target.m))
        parts = []
        for start in range(0, theta.shape[0], most):
            some = theta[start : start + most]
            scores = score(some)[self.target.by_prior]
            parts.append(self.target.by_prior[np.argmax(scores, axis=0)].T)
        return np.concatenate(parts)

    def _by_density(self, theta: Vector) -> NDArray[np.float64]:
        """Log posterior, (k, m, T)."""
        fit, rows = self.target.fit, host(self.target.rows)
        mean = fit.loss.mean
        y = host(self.target.y)
        omega = np.ones(fit.n) if fit.sample_weight is None else host(fit.sample_weight)
        freedom = max(fit.n - theta.shape[1], 1)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            residual = mean(self._training @ theta.T) - y[:, None]
            variance = (omega @ residual**2) / freedom
            misses = mean(self._candidates @ theta.T) - y[rows][None, :, None]
            fits = -omega[rows][None, :, None] * misses**2 / (2.0 * variance)[None, None, :]
            # a model that is never wrong rules out all but its own answer
            fits = np.where(np.isnan(fits), 0.0, fits)
            return np.asarray(fits + np.log(self.target.weights)[:, :, None])

    def _by_class(self, theta: Vector) -> NDArray[np.float64]:
        """Posterior up to a factor, (k, m, T)."""
        positive = host(self.target.y) > 0
        said = self._training @ theta.T > 0
        # part of each class's training rows that the released model puts into the second class, (2, T)
        second = np.stack([said[~positive].mean(axis=0), said[positive].mean(axis=0)])
        chance = second[positive[host(self.target.rows)].astype(int)]
        answers = self._candidates @ theta.T > 0
        performance = np.where(answers, chance[None], 1.0 - chance[None])
        return np.asarray(self.target.weights[:, :, None] * performance)


def _with_constant(features: NDArray[np.float64], fit: Fit) -> NDArray[np.float64]:
    return features if fit.intercept is None else np.column_stack([features, np.ones(features.shape[0])])
