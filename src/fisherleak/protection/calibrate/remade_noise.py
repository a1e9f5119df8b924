"""Noise that was calibrated on rows, with a shape of their own, made anew without some of them: the same call on the others.

The rows leave, n l2 stays the same number (or loses their part of it, where it is stated per row), and the model is fitted
again. The scale is found anew with the shape where a limit on the rows decided it, and stays as it is where the noise was
rescaled since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.namespaces import Vector
from fisherleak.engine.changes.changed_rows import Rows
from fisherleak.engine.changes.remade_covariance import Reshaped
from fisherleak.engine.changes.starting_fit import MovingPenalty
from fisherleak.engine.fit.minimise import fit_at, risk_of_fit
from fisherleak.engine.jacobian import Jacobian, jacobian_of
from fisherleak.engine.noise import Gaussian
from fisherleak.engine.noise.calibration_record import HESSIAN, CalibrationCall
from fisherleak.engine.norms import information_of
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.models import as_table
from fisherleak.protection.calibrate.calibration import calibrate

WORK, SEARCHED = 2**32, 2**29
"""Steps for all rows that are left out, up to which it takes minutes: for the shape H^-1, and for one that is searched for."""
EACH = 2**18
"""Steps that one of them takes beside n p^2."""
LIGHT = 24
"""Part of these that takes seconds."""


@dataclass(frozen=True)
class MadeAnew(Reshaped):
    """A release with such noise."""

    jacobian: Jacobian
    noise: Gaussian
    asked: CalibrationCall

    @cached_property
    def white(self) -> Vector:
        W = self.noise.unit_information_root(int(self.jacobian.theta.shape[0]))
        assert W is not None
        return np.asarray(W / self.noise.scale)

    def steps(self, count: int) -> float:
        """For so many rows, or sets of them, as a part of the most."""
        assert self.noise.calibrated is not None
        n, p = int(self.jacobian.X.shape[0]), len(self.white)
        return count * (EACH + n * p**2) / (WORK if self.noise.calibrated.shape == HESSIAN else SEARCHED)

    def is_light(self, count: int) -> bool:
        return self.steps(count) * LIGHT <= 1

    def covariances(self, sets: Sequence[Rows]) -> Vector:
        return np.stack([self._without(rows) for rows in sets])

    def _without(self, rows: Rows) -> Vector:
        try:
            noise = self._noise(self._left(rows), np.delete(np.arange(self.jacobian.X.shape[0]), rows))
        except FisherleakError:
            return np.full(self.white.shape, np.nan)  # nothing is released of such rows
        assert noise.shape is not None
        return np.asarray(noise.scale**2 * self.white @ noise.shape @ self.white.T)

    def _noise(self, leakage: Leakage, others: Rows) -> Gaussian:
        """The noise that the same call gives for the other rows."""
        asked, told = self.asked, self.noise.calibrated
        assert told is not None
        groups = None if asked.groups is None else np.asarray(host(asked.groups))[others]
        known = {"attributes": asked.attributes, "label": asked.label, "groups": groups, "shape": told.shape}
        gap = None if told.shape == HESSIAN else asked.gap
        noise: Any = calibrate(leakage, told.eta or 1.0, asked.over, **known, gap=gap)
        found: Gaussian = noise if told.by_present_rows else noise.rescaled(self.noise.scale)
        return found

    def _left(self, rows: Rows) -> Leakage:
        """The leakage of the other rows, at noise of scale 1."""
        jacobian = self.jacobian
        risk, count = risk_of_fit(jacobian.fit, jacobian.X, jacobian.y), int(jacobian.X.shape[0])
        others = np.delete(np.arange(count), rows)
        weights = None if risk.weights is None else risk.weights[others]
        X, y = risk.X[others], risk.y[others]
        moving = MovingPenalty.of(jacobian)
        # l2 is per row here: the whole of the penalty, or what is left of it, is on fewer rows
        weighted = moving is not None and moving.weighted and risk.weights is not None
        gone = len(rows) if not weighted else float(np.sum(np.asarray(risk.weights)[rows]))
        more = (1.0 if moving is None else moving.kept_without(gone)) * count / len(others)
        left = replace(risk, X=X, y=y, weights=weights, l2=more * risk.l2, intercept_l2=more * risk.intercept_l2)
        fit = fit_at(left, jacobian.fit.theta, polish=True)
        known = jacobian_of(fit, X, y, Gaussian(1.0), jacobian.attributes)
        return Leakage(information_of(known), Gaussian(1.0), as_table(np.asarray(X)))


def made_anew(jacobian: Jacobian, noise: Any, count: int) -> MadeAnew:
    """For leaving out so many rows, or sets of them; what is not known, or takes long, is refused by name."""
    told = noise.calibrated
    if jacobian.folding is not None:
        _refuse(
            told.shape,
            "What it is without a row is known behind public preprocessing only: measure with public='preprocessing'",
        )
    curved = [attribute.name for attribute in jacobian.attributes if attribute.local]
    if curved:
        _refuse(
            told.shape,
            "What it is without a row is known behind affine preprocessing only, and that of column "
            f"'{curved[0]}' is not affine",
        )
    found = MadeAnew(jacobian, noise, told.asked)
    if found.steps(count) > 1:
        _refuse(
            told.shape,
            f"It would have to be computed again without each of {count} rows, which takes long: ask about some, "
            "fisherleak.attacks.Membership(model, X, y, rows=[...]).accuracy(noise), or calibrate with over='any-record'",
        )
    return found


def _refuse(shape: str, rule: str) -> NoReturn:
    raise InvalidInputError(
        f"Membership is not known for this noise: its covariance, shape='{shape}', was computed from the rows. {rule}."
    )
