r"""What IRFIL's whole procedure reveals, weights included: the derivative of every reweighting, carried forward.

With :math:`u = \log\omega`, a reweighting is :math:`u \leftarrow u - \log \eta(\omega, D)`, normalised. A change of one value
of the data moves the parameters of each fit by the implicit function theorem,

.. math:: d\theta = -B \Big[ \sum_j d\omega_j\, r_j x_j + \omega_i (a_i x_i\, w \cdot dx + r_i\, dx + c_i x_i\, dy) \Big] ,

the etas by their explicit formula at (:math:`\omega, D, \theta`) along that direction, and so the next weights. What is left
after the last reweighting is the derivative of the released parameters by the value, and eta is the norm of those by all values
of a row. The fixed point is the limit of this; here it is the procedure as it ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.progress import track
from fisherleak.engine.erm import Fit, fit_at
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.noise import Noise
from fisherleak.engine.norms import information_of
from fisherleak.engine.perturbation import Attribute
from fisherleak.engine.risk import Risk
from fisherleak.errors import InvalidInputError
from fisherleak.protection.counted import value_moves
from fisherleak.protection.limited import raw_map
from fisherleak.protection.reweight import SMALLEST_PART

__all__ = ["EndToEndEtas", "Procedure"]

Vector = NDArray[np.float64]
STEP = 1e-4
"""How far data, weights and parameters are moved along a derivative, in their own sizes, to difference etas."""


@dataclass(frozen=True)
class EndToEndEtas:
    """Etas of a few rows with the weights' own dependence on the data.

    Attributes
    ----------
    rows : array of shape (k,)
        Positions, the largest end-to-end eta first.
    fixed : array of shape (k,)
        Eta with the weights held fixed: what IRFIL makes equal.
    eta : array of shape (k,)
        Eta of the whole procedure.
    """

    rows: NDArray[np.int64]
    fixed: Vector = field(repr=False)
    eta: Vector


@dataclass(frozen=True)
class _Round:
    """One fit on the way, with its rows' etas and derivatives."""

    risk: Risk
    fit: Fit
    eta: Vector
    B: Vector
    X1: Vector
    """Rows with the constant, (n, p)."""
    r: Vector
    a: Vector
    c: Vector


@dataclass(frozen=True)
class Procedure:
    """IRFIL on given features and labels: plain reweightings by single rows, without limits.

    Parameters
    ----------
    risk : Risk
        With the weights that the procedure starts from.
    theta : array
        Where the first fit starts.
    noise : Noise
        What etas are measured with.
    every, attributes : sequences of Attribute
        All that the rows have, and those whose etas are made equal and reported.
    label : bool
    count : int
        Reweightings.
    """

    risk: Risk
    theta: Vector
    noise: Noise
    every: tuple[Attribute, ...]
    attributes: tuple[Attribute, ...]
    label: bool
    count: int

    def etas(self, most: int, rows: Sequence[int] | None = None) -> EndToEndEtas:
        """Of the rows that the plain fit exposes most, or of given ones."""
        rounds = self._rounds()
        if rows is None:
            rows = [int(row) for row in np.argsort(-rounds[0].eta, kind="stable")[:most]]
        eta = np.array([self._eta(rounds, row) for row in track(rows, len(rows), "Following rows end to end")])
        fixed = rounds[-1].eta[list(rows)]
        order = np.argsort(-eta, kind="stable")
        return EndToEndEtas(np.asarray(rows, dtype=np.int64)[order], fixed[order], eta[order])

    def _jacobian(self, fit: Fit, risk: Risk) -> Jacobian:
        return jacobian_of(fit, risk.X, risk.y, self.noise, self.every)

    def _measured(self, risk: Risk, theta: Vector, polish: bool) -> tuple[Fit, Vector]:
        fit = fit_at(risk, theta, polish)
        norms = information_of(self._jacobian(fit, risk)).example_norms(self.attributes, self.label)
        return fit, np.asarray(norms) / float(self.noise.scale)

    def _rounds(self) -> list[_Round]:
        """The procedure itself, all fits of it."""
        found: list[_Round] = []
        risk, theta = self.risk, self.theta
        weights = np.ones(risk.X.shape[0]) if risk.weights is None else np.asarray(risk.weights)
        counted = weights > 0
        total = weights.sum()
        for _ in range(self.count + 1):
            risk = replace(risk, weights=weights)
            fit, eta = self._measured(risk, theta, polish=True)
            if not np.all(eta[counted] > SMALLEST_PART * eta[counted].mean()):
                raise InvalidInputError(
                    "account='end-to-end' needs an eta above zero for every row, and some row has none: leave such rows out."
                )
            theta = np.asarray(fit.theta)
            found.append(self._round(risk, fit, eta))
            raised = np.where(counted, weights / np.where(counted, eta, 1.0), 0.0)
            weights = raised * (total / raised.sum())
        return found

    def _round(self, risk: Risk, fit: Fit, eta: Vector) -> _Round:
        X = np.asarray(risk.X, dtype=np.float64)
        X1 = np.column_stack([X, np.ones(len(X))]) if risk.intercept else X
        z, y = X1 @ np.asarray(fit.theta), np.asarray(risk.y, dtype=np.float64)
        U = raw_map(fit)
        r, a, c = (np.asarray(function(z, y)) for function in (fit.loss.r, fit.loss.a, fit.loss.c))
        return _Round(risk, fit, eta, U @ U.T, X1, r, a, c)

    def _eta(self, rounds: Sequence[_Round], row: int) -> float:
        """The norm of the procedure's derivative by all values of a row."""
        _, directions = value_moves(self._jacobian(rounds[0].fit, rounds[0].risk), self.attributes, self.label)
        moved = np.stack([self._derivative(rounds, row, direction) for direction in directions], axis=1)
        root = self.noise.unit_information_root(moved.shape[0])
        return float(np.linalg.norm(moved if root is None else root @ moved, 2)) / float(self.noise.scale)

    def _derivative(self, rounds: Sequence[_Round], row: int, direction: Vector) -> Vector:
        """The move of the last parameters by a unit move of one row's (features, label)."""
        du = np.zeros(len(rounds[0].eta))
        for k, at in enumerate(rounds):
            dtheta = _parameters_move(at, row, direction, du)
            if k == len(rounds) - 1:
                return dtheta
            counted = np.asarray(at.risk.weights) > 0
            v = np.where(counted, du - self._log_eta_move(at, row, direction, du, dtheta), 0.0)
            following = np.asarray(rounds[k + 1].risk.weights)
            du = np.where(counted, v - following @ v / following.sum(), 0.0)
        raise AssertionError

    def _log_eta_move(self, at: _Round, row: int, direction: Vector, du: Vector, dtheta: Vector) -> Vector:
        """Central differences of the explicit formula along the direction that all its arguments take."""
        X, theta = np.asarray(at.risk.X), np.asarray(at.fit.theta)
        spread = np.append(X.std(axis=0), np.asarray(at.risk.y, dtype=np.float64).std())
        sizes = [
            float(np.max(np.abs(direction) / np.where(spread > 0, spread, 1.0))),
            float(np.max(np.abs(du))),
            float(np.linalg.norm(dtheta) / (np.linalg.norm(theta) or 1.0)),
        ]
        step = STEP / max(sizes)
        up, down = (self._moved(at, row, side * step, direction, du, dtheta) for side in (1.0, -1.0))
        return np.asarray((np.log(np.where(up > 0, up, 1.0)) - np.log(np.where(down > 0, down, 1.0))) / (2.0 * step))

    def _moved(self, at: _Round, row: int, step: float, direction: Vector, du: Vector, dtheta: Vector) -> Vector:
        X, y = np.array(at.risk.X, dtype=np.float64), np.array(at.risk.y, dtype=np.float64)
        X[row] += step * direction[:-1]
        y[row] += step * direction[-1]
        risk = replace(at.risk, X=X, y=y, weights=np.asarray(at.risk.weights) * np.exp(step * du))
        return self._measured(risk, np.asarray(at.fit.theta) + step * dtheta, polish=False)[1]


def _parameters_move(at: _Round, row: int, direction: Vector, du: Vector) -> Vector:
    """The implicit function theorem for one fit: data of one row and all weights move."""
    weights, theta = np.asarray(at.risk.weights), np.asarray(at.fit.theta)
    dx, dy = direction[:-1], float(direction[-1])
    gradient = at.X1.T @ (weights * du * at.r)
    own = at.a[row] * at.X1[row] * (theta[: dx.size] @ dx) + at.c[row] * dy * at.X1[row]
    own[: dx.size] += at.r[row] * dx
    return np.asarray(-at.B @ (gradient + weights[row] * own))
