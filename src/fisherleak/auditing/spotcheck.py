r"""Eta compared with the definition: move a row a little, fit again, and see how far the model moves.

For row i the direction v that moves the model most is the first right singular vector of its Jacobian; then
:math:`\|\theta(x_i + hv) - \theta(x_i - hv)\| / (2h)` is the norm of the Jacobian, which is what eta is made of.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.progress import track
from fisherleak.engine.fit.minimise import fit_at, risk_of_fit
from fisherleak.engine.fit.risk import Risk
from fisherleak.leakage.measurement import measurement
from fisherleak.training.trained_model import Trained, spreads_in

BIG = 20_000_000
"""Values in the features past which one row is checked only: each takes two fits."""
SHORTER = (1.0, 0.1, 0.01)
"""Steps that are tried, in units of the first, until refits agree to ``AGREED``."""
WRITTEN_OUT, MOST_PRODUCTS = 200, 200
"""Rows or columns of a Jacobian up to which it is decomposed, and products with larger ones."""
SEEN, TRIED = 1e-11, 10
"""Move of the model, relative to its size, that refits can tell from rounding, and rows that are tried for one."""
MOST_STEPS, ENOUGH, AT_MINIMUM = 20, 1e-9, 1e-13
"""Steps by the Hessian of the fit at most, what they may leave of the first one, and the least distance from the minimum."""
AGREED, WARNED = 1e-3, 1e-2
"""Relative differences: small enough, and too large to pass without a warning."""


@dataclass(frozen=True)
class SpotCheck:
    """How far refits disagree with eta, relative to it, over the rows that were checked."""

    rows: int
    largest_relative_error: float
    note: str


def spot_check(trained: Trained, eta: NDArray[np.float64], count: int = 3) -> SpotCheck | None:
    """Refit around the most exposed row, the median one, and so on."""
    design = trained.design
    count = min(count if design.X.size <= BIG else 1, design.n)
    if count == 0:
        return None
    order = np.argsort(-eta, kind="stable")
    places = np.linspace(0, (design.n - 1) / 2, count).astype(int).tolist()
    found = [_first_error(trained, order[k:].tolist()) for k in track(places, len(places), "Refitting")]
    errors = [error for error in found if error is not None]
    if not errors:
        return None
    what = "scales of columns and model were" if trained.public == "nothing" else "the model was"
    note = f"All attributes of a row were moved together by a little, without its label, and {what} fitted again."
    largest = float(max(errors))
    if largest > WARNED:
        warnings.warn(
            f"Refits disagree with eta by {largest:.1%}, even with the shortest step: near a row the model is strongly "
            "nonlinear, or its fit is not exact.",
            UserWarning,
            stacklevel=2,
        )
    return SpotCheck(len(errors), largest, note)


def _first_error(trained: Trained, rows: list[int]) -> float | None:
    """Of the first of some rows whose attributes move the model by more than rounding; the label may be all that does."""
    return next((error for row in rows[:TRIED] if (error := _error(trained, row)) is not None), None)


def _error(trained: Trained, row: int) -> float | None:
    """The relative difference of refits from the norm of the Jacobian; none where rounding hides it."""
    size, direction = _moves_most(_jacobian(trained, row))
    # one row among many moves the model little: a longer step keeps the difference above rounding
    step = float(np.clip(1e-5 * np.sqrt(trained.design.n), 1e-4, 1e-2))
    if size * step <= SEEN * float(np.linalg.norm(_whitened(trained, np.asarray(trained.fit.theta)))):
        return None
    errors: list[float] = []
    # where the model bends within a step, a shorter one is nearer to the derivative
    for shorter in SHORTER:
        ends = [_moved(trained, row, sign * shorter * step * direction) for sign in (1.0, -1.0)]
        moved = float(np.linalg.norm(ends[0] - ends[1])) / (2 * shorter * step)
        errors.append(abs(moved / size - 1.0))
        if errors[-1] <= AGREED:
            break
    return min(errors)


def _moves_most(J: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The largest singular value of J (p, m) and its direction, (m,); of a large one by products, to a part in a million.

    What is compared with refits is then how far that direction moves the model, which is exact for whatever direction it is.
    """
    if min(J.shape) <= WRITTEN_OUT:
        _, sizes, directions = np.linalg.svd(J, full_matrices=False)
        return float(sizes[0]), directions[0]
    next_one, direction, size = J[int(np.argmax(np.abs(J).sum(axis=1)))], np.zeros(J.shape[1]), 0.0
    for _ in range(MOST_PRODUCTS):
        if not next_one.any():
            break
        direction = next_one / np.linalg.norm(next_one)
        moved = J @ direction
        before, size = size, float(np.linalg.norm(moved))
        if abs(size - before) <= 1e-6 * size:
            break
        next_one = J.T @ moved
    return size, direction


def _jacobian(trained: Trained, row: int) -> NDArray[np.float64]:
    """The Jacobian of one row's attributes at noise of scale 1, (p, m)."""
    information = measurement(trained.take(np.array([row])).leak).information
    return np.asarray(information.written_out(information.attributes, False, np.array([0]))[0])


def _moved(trained: Trained, row: int, change: NDArray[np.float64]) -> NDArray[np.float64]:
    """The parameters with one row moved, whitened by the noise."""
    return _whitened(trained, _refitted(trained, _risk(trained, row, change)))


def _whitened(trained: Trained, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    root = trained.leak.noise.unit_information_root(theta.size)
    return theta if root is None else np.asarray(root @ theta)


def _risk(trained: Trained, row: int, change: NDArray[np.float64]) -> Risk:
    """The risk with one row moved, its parameters those for rows less the centre of the fit."""
    design, fit = trained.design, trained.fit
    moved = _OneRowMoved.of(design.X, row, change)
    return replace(risk_of_fit(fit, moved, design.y), weights=trained.weights, scales=_scales(trained, row, change))


def _refitted(trained: Trained, risk: Risk) -> NDArray[np.float64]:
    """The minimiser of a risk close to the fit's, as parameters are released.

    Steps by the Hessian of the fit end where the gradient of the moved rows vanishes, which is their own minimum: each is a
    pass over the rows and no factorisation. Where they do not settle, Newton's method does it.
    """
    fit, theta, lengths = trained.fit, trained.fit.centred_theta, [np.inf]
    for _ in range(MOST_STEPS):
        at = risk.at(theta, curvature=False)
        distance = at.distance(fit.factor)
        if not distance < 0.25 * lengths[-1]:
            break
        theta = theta - fit.factor.solve(at.gradient)
        # every step is shorter than the one before it by the same factor, or more
        to_go = distance * (distance / lengths[-1]) if len(lengths) > 1 else distance
        lengths.append(distance)
        if to_go <= ENOUGH * lengths[1]:
            return np.asarray(fit.uncentred(theta[:, None]))[:, 0]
    if distance > AT_MINIMUM:
        return np.asarray(fit_at(risk, fit.theta, polish=True).theta)
    return np.asarray(fit.uncentred(theta[:, None]))[:, 0]


def _scales(trained: Trained, row: int, change: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviations of the columns, fitted again with one row moved; as they were where they are public."""
    _, scales = spreads_in(trained.design)
    if trained.public != "nothing":
        return scales
    for feature in trained.design.features:
        if feature.kind == "number":
            (k,) = feature.columns
            column = trained.design.X[:, k].copy()
            column[row] += change[k]
            scales[k] = column.std()
    return scales


class _OneRowMoved(np.ndarray[Any, np.dtype[np.float64]]):
    """Features with one row moved, for passes over slices of them.

    The features themselves are neither written nor copied: only the slice that holds the row is a copy.
    """

    row: int
    change: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray[np.float64], row: int, change: NDArray[np.float64]) -> Self:
        moved = X.view(cls)
        moved.row, moved.change = row, change
        return moved

    def __getitem__(self, key: Any) -> Any:
        """A slice of rows."""
        rows = key[0] if isinstance(key, tuple) else key
        start, stop, _ = rows.indices(self.shape[0])
        block = self.view(np.ndarray)[start:stop]
        if start <= self.row < stop:
            block = block.copy()
            block[self.row - start] += self.change
        return block
