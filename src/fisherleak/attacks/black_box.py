r"""The black-box attack of Fredrikson et al. (2014), as in the paper (equation 20).

.. math:: \hat x = \arg\max_x\; p(x)\, \pi(\phi(w', x_{\setminus}, x),\, y)

with the prior p, the released model's predictions :math:`\phi` and its published performance :math:`\pi`. For regression,
:math:`\pi` is a normal density of the label's neighbourhood, :math:`\exp(-\omega (\phi - y)^2 / 2 s^2)`,
:math:`s^2 = \sum \omega (\phi - y)^2 / (n - p)` over the training data; for classification it is the released model's confusion
matrix, the part of the training rows of class y that it predicts as :math:`\phi`. Several numbers have a density each.
Where the label is under attack, it is y that has candidates, and the row is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.attacks.base import Attacker, Codes
from fisherleak.attacks.candidate_values import classifies
from fisherleak.attacks.candidates import Candidates
from fisherleak.attacks.likelihoods import ANSWERS_AT_ONCE, classes_said, linear_scores, with_ones
from fisherleak.engine.noise import Noise


class BlackBox(Attacker):
    """Weighs the prior by how well the released model, queried with each candidate, fits the known label.

    Knows the row's other attributes and its label (all attributes, where the label is attacked), the prior, the released
    model's predictions and its performance on the training data. Parameters as for every attacker.

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

    def _aim(self, target: Candidates) -> None:
        super()._aim(target)
        # rows are the same for every candidate where the label is attacked
        count = target.k if target.encoded is None else 1
        self._candidates = np.stack([with_ones(host(target.changed(k)), target.fit) for k in range(count)])
        self._labels = np.stack([host(target.labels(k)) for k in range(target.k if count == 1 else 1)])
        self._training = with_ones(host(target.features), target.fit)

    @property
    def classifies(self) -> bool:
        """Whether performance is a confusion matrix."""
        return classifies(self.target.model, self.target.fit)

    def guess(self, theta: Vector, noise: Noise | None = None) -> Codes:
        score = self._by_class if self.classifies else self._by_density
        per_release = max(self._training.shape[0], self.target.k * self.target.m) * self.target.fit.outputs
        most = max(1, ANSWERS_AT_ONCE // per_release)
        parts = []
        for start in range(0, theta.shape[0], most):
            some = theta[start : start + most]
            scores = score(some)[self.target.by_prior]
            parts.append(self.target.by_prior[np.argmax(scores, axis=0)].T)
        return np.concatenate(parts)

    def _by_density(self, theta: Vector) -> NDArray[np.float64]:
        """Log posterior, (k, m, T)."""
        fit, rows = self.target.fit, host(self.target.rows)
        mean = getattr(fit.loss, "mean", None)
        y = _columns(host(self.target.y))
        omega = np.ones(fit.n) if fit.sample_weight is None else host(fit.sample_weight)
        freedom = max(fit.n - theta.shape[1] // self.target.fit.outputs, 1)
        labels = np.stack([_columns(each) for each in self._labels])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            said, answers = (linear_scores(each, theta, fit) for each in (self._training, self._candidates))
            said, answers = (each if mean is None else mean(each) for each in (said, answers))
            variance = np.einsum("n,ntk->tk", omega, (said - y[:, None, :]) ** 2) / freedom
            misses = (answers - labels[:, :, None, :]) ** 2
            fits = -omega[rows][None, :, None, None] * misses / (2.0 * variance)
            # a model that is never wrong rules out all but its own answer
            fits = np.where(np.isnan(fits), 0.0, fits).sum(axis=3)
            return np.asarray(fits + np.log(self.target.weights)[:, :, None])

    def _by_class(self, theta: Vector) -> NDArray[np.float64]:
        """Posterior up to a factor, (k, m, T)."""
        K = max(self.target.fit.outputs, 2)
        own = self._codes(host(self.target.y))
        said = classes_said(linear_scores(self._training, theta, self.target.fit))
        # part of each class's training rows that the released model puts into each class, (T, K, K)
        counts = np.zeros((theta.shape[0], K, K))
        for k in range(K):
            mine = said[own == k]
            for c in range(K):
                counts[:, k, c] = (mine == c).mean(axis=0) if mine.shape[0] else 0.0
        answers = classes_said(linear_scores(self._candidates, theta, self.target.fit))
        labels = np.stack([self._codes(each) for each in self._labels])
        trials = np.arange(theta.shape[0])
        performance = counts[trials, labels[:, :, None], answers]
        return np.asarray(self.target.weights[:, :, None] * performance)

    def _codes(self, y: Vector) -> NDArray[np.int64]:
        """Classes of labels as the loss takes them, 0 to K - 1."""
        return (y > 0).astype(np.int64) if self.target.fit.outputs == 1 else y.astype(np.int64)


def _columns(y: Vector) -> Vector:
    """Labels as (n, K)."""
    return y[:, None] if y.ndim == 1 else y
