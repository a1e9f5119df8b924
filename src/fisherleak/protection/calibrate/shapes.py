"""What ``shape=`` may be where noise is calibrated: a name, a matrix, or the leakage of rows that are public."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from fisherleak._support.arrays import host, is_lazy
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.engine.noise.calibrated import ADMISSIBLE
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage, is_leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.calibrate.least_loss import least_loss
from fisherleak.protection.calibrate.limit_terms import covering, raw_map, units_of

__all__ = ["ISOTROPIC", "LEAST_LOSS", "OWN", "SHAPES", "check_other_rows", "noise_shaped"]

ISOTROPIC, LEAST_LOSS = "isotropic", "least-loss"
OWN = ("hessian", LEAST_LOSS)
"""Shapes that rows decide."""
SHAPES = (LEAST_LOSS, ISOTROPIC, "hessian")


def noise_shaped(
    leakage: Leakage, shape: Any, over: str, attributes: Any, label: bool | None, groups: Any, gap: float
) -> Noise:
    """The noise whose scale remains to be found: the leakage's own for None."""
    if shape is None:
        own: Noise = leakage.noise
        return own
    of_parameters = is_leakage(shape) or (isinstance(shape, str) and shape != ISOTROPIC)
    if of_parameters and getattr(one_release(measurement(leakage).information), "gradient", False):
        raise InvalidInputError(
            "shape must be 'isotropic' or a matrix for the leakage of a gradient: the others are shapes of parameters."
        )
    if is_leakage(shape):
        return _of_public_rows(leakage, shape, over, attributes, label, gap)
    if not isinstance(shape, str):
        noise = Gaussian(1.0, shape)
        noise.unit_information_root(_size(leakage))
        return noise
    if shape == ISOTROPIC:
        return Gaussian(1.0)
    if shape == "hessian":
        return Gaussian(1.0, _unit(_released(leakage, None)))
    if shape == LEAST_LOSS:
        found = least_loss(units_of(leakage, over, attributes, label, groups), gap)
        return Gaussian(1.0, _unit(_released(leakage, found.covariance)), found.gap)
    raise InvalidInputError(
        f"shape must be one of {', '.join(SHAPES)}, a matrix, or a leakage of public rows; got {shape!r}."
    )


def _of_public_rows(
    leakage: Leakage, public: Leakage, over: str, attributes: Any, label: bool | None, gap: float
) -> Noise:
    """The shape of least loss for public rows; the gap is that of their problem, so it is not passed on."""
    if over == "group":
        raise InvalidInputError("shape from public rows cannot be limited by group: it has no groups. Use over='max'.")
    if _size(public) != _size(leakage):
        raise InvalidInputError(
            f"shape must come from a model with the same {_size(leakage)} released parameters; the public one has "
            f"{_size(public)}."
        )
    check_other_rows(leakage, public)
    # whoever could be there is whoever is there, for a shape: its scale is found for all of them
    limited = "max" if over == ADMISSIBLE else over
    noise: Any = noise_shaped(public, LEAST_LOSS, limited, attributes, label, None, gap)
    alone: Noise = replace(noise, gap=None)
    return alone


def check_other_rows(leakage: Leakage, public: Leakage, name: str = "shape") -> None:
    """Refuse rows as public that are the private ones: most are found there, each once, to six digits of a column's spread."""
    own, theirs = (one_release(measurement(each).information) for each in (leakage, public))
    if own.X is not theirs.X:
        if is_lazy(own.X) or is_lazy(theirs.X) or own.X.shape[1] != theirs.X.shape[1]:
            return
        here, there = (np.asarray(host(each.X), dtype=np.float64) for each in (own, theirs))
        spread = np.where(here.std(axis=0) > 0, here.std(axis=0), 1.0)
        times, given = (Counter(map(bytes, np.round(rows / spread, 6) + 0.0)) for rows in (here, there))
        if 2 * sum(count == times[row] == 1 for row, count in given.items()) <= len(there):
            return
    raise InvalidInputError(
        f"`{name}` must come from public rows, and most of these are rows of the table itself: a shape by them is as exact as "
        "they are. Give other rows, or use `shape='hessian'`, which stays with the table and is counted."
    )


def _released(leakage: Leakage, covariance: Any) -> Any:
    """A covariance in the coordinates of ``limit_terms``, the identity for None, over the released parameters."""
    fit = leakage.fits[0]
    U = raw_map(fit)
    return covering(U @ U.T if covariance is None else U @ covariance @ U.T, fit)


def _size(leakage: Leakage) -> int:
    return int(leakage.noise is not None and leakage.fits[0].theta.shape[0])


def _unit(S: Any) -> Any:
    """With a mean variance of one, so that the scale is a standard deviation."""
    return S * (S.shape[0] / np.trace(S))
