"""Small problems, the dense reference they are held against, and refits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fisherleak as fl

Vector = NDArray[np.float64]
EVERY_ATTACKER: list[Any] = [
    kind
    for kind in map(fl.attacks.__dict__.get, fl.attacks.__all__)
    if isinstance(kind, type) and issubclass(kind, fl.attacks.Attacker) and kind is not fl.attacks.Attacker
]


@dataclass(frozen=True)
class Case:
    """Data and settings of one fit."""

    X: Vector
    y: Vector
    loss: str | fl.Loss
    l2: float
    weights: Vector | None
    intercept: bool

    def fit(self) -> fl.Fit:
        return fl.minimise(self.X, self.y, self.loss, self.l2, self.weights, self.intercept)

    def leak(self, noise: Any = None, attributes: Any = None) -> fl.Leakage:
        return fl.measure(self.fit(), self.X, self.y, noise, attributes=attributes)


def make(
    loss: str,
    seed: int = 0,
    n: int = 40,
    d: int = 3,
    *,
    weighted: bool = False,
    intercept: bool = False,
    l2: float = 1e-2,
    scale: float = 1.0,
) -> Case:
    """A random problem in units of ``scale``: the same one for every scale."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)) / np.sqrt(d))
    z = X @ rng.normal(size=d) * 0.5 / np.sqrt(d) + 0.3
    labels: dict[str, Callable[[], Vector]] = {
        "squared": lambda: z + 0.5 * rng.normal(size=n),
        "pseudo_huber": lambda: z + 0.5 * rng.standard_t(2.5, size=n),
        "logistic": lambda: np.where(np.arange(n) < 2, np.arange(n) % 2, rng.random(n) < 1 / (1 + np.exp(-z))) * 1.0,
        "poisson": lambda: rng.poisson(np.exp(z)) * 1.0 + (np.arange(n) == 0),
        "gamma": lambda: rng.gamma(2.0, np.exp(z) / 2.0) + 1e-3,
    }
    y = labels[loss]()
    weights = rng.gamma(2.0, 0.5, size=n) if weighted else None
    if weights is not None:
        weights[n // 2] = 0.0
    record: str | fl.Loss = loss
    if loss in ("squared", "pseudo_huber"):
        y = y * scale
        record = fl.pseudo_huber(scale) if loss == "pseudo_huber" else loss
    return Case(X * scale, y, record, l2 * scale**2, weights, intercept)


def dense_jacobian(case: Case, fit: fl.Fit, E: Vector | None = None, label: bool = True) -> Vector:
    """(n, p, m + label), written out from the paper's formula: nothing of the engine but the parameters."""
    n, d = case.X.shape
    X = np.column_stack([case.X, np.ones(n)]) if case.intercept else case.X
    p = X.shape[1]
    omega = np.ones(n) if case.weights is None else case.weights
    theta = np.asarray(fit.coef) if fit.intercept is None else np.append(fit.coef, fit.intercept)
    loss = fit.loss
    z = X @ theta
    r, a, c = loss.r(z, case.y), loss.a(z, case.y), loss.c(z, case.y)
    penalty = np.full(p, n * case.l2)
    if case.intercept:
        penalty[-1] = 0.0
    H = (X * (omega * a)[:, None]).T @ X + np.diag(penalty)
    E = np.eye(p)[:, :d] if E is None else E
    inner = a[:, None, None] * X[:, :, None] * (E.T @ theta)[None, None, :] + r[:, None, None] * E[None]
    if label:
        inner = np.concatenate([inner, (c[:, None] * X)[:, :, None]], axis=2)
    scale = 1.0 / np.sqrt(np.diag(H))
    solved = np.linalg.solve(scale[:, None] * H * scale, scale[:, None] * np.moveaxis(inner, 0, 1).reshape(p, -1))
    J = np.moveaxis((scale[:, None] * solved).reshape(p, n, -1), 1, 0)
    return np.asarray(-omega[:, None, None] * J)


def norms(J: Vector) -> Vector:
    """Largest singular value of each matrix in a stack."""
    return np.asarray(np.linalg.svd(J, compute_uv=False)[:, 0])


def flat(J: Vector) -> Vector:
    """(n, p, m) -> (p, n m): the Jacobian by all values at once."""
    return np.moveaxis(J, 0, 1).reshape(J.shape[1], -1)


def parameters(fit: fl.Fit) -> Vector:
    return np.asarray(fit.theta)


def moved(case: Case, row: int, column: int | None, step: float) -> Case:
    """The same problem with one value (or, for column None, one label) moved."""
    X, y = case.X.copy(), case.y.copy()
    if column is None:
        y[row] += step
    else:
        X[row, column] += step
    return replace(case, X=X, y=y)


def slanted(p: int) -> Vector:
    """A covariance whose directions are no columns."""
    L = np.eye(p) + 0.4 * np.tril(np.ones((p, p)), -1)
    return np.asarray(L @ np.diag(np.linspace(0.3, 2.0, p)) @ L.T)


def yes_or_no(each: int) -> fl.Loss:
    """The logistic loss of several labels at once, as a record from outside."""
    one = fl.LOSSES["logistic"]
    return fl.Loss(
        name="several yes or no",
        value=lambda z, y: one.value(z, y).sum(axis=1),
        r=one.r,
        a=lambda z, y: one.a(z, y)[:, :, None] * np.eye(each),
        c=lambda z, y: -np.eye(each)[None],
        labels=fl.Labels("0 or 1", lambda y: (y == 0) | (y == 1)),
        frame=np.eye,
    )
