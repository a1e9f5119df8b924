r"""How far releases with and without rows are apart, whatever is released and by however many releases.

With :math:`w_{(-S)}` the minimiser without the rows S and :math:`W^T W` the information of the noise at scale 1,
:math:`|W (w_{(-S)} - w)|`; the squares of independent releases add up. S is one row, or all rows of a group.

Where the rows decide the covariance of the noise there is no such mu. Then it is that of equal accuracy of the best test at
even odds, with the noise made anew without the rows (``remade_covariance``): it does not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, is_lazy, like, namespace
from fisherleak.engine.changes.remade_covariance import FromGram, Reshaped, equivalent_norms
from fisherleak.engine.changes.removal import EXACT, check_fixed, check_normal, is_light, removal_norms
from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.noise.calibrated import has_own_shape
from fisherleak.engine.norms import every_release
from fisherleak.engine.norms.compositions.shaped_releases import refuse_membership
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.measurement import measurement
from fisherleak.rows import map_rows

__all__ = [
    "membership_of",
    "presence_kind",
    "presence_norms",
    "refuse_lazy_groups",
    "reshaped_by",
    "unknown_by_shape",
]

NOT_KNOWN = "Membership is not known for this noise: "

Sets = Sequence[NDArray[np.int64]]


def membership_of(leakage: Any, tolerance: float, sets: Sets | None = None) -> Array:
    """Mu of every row of a leakage, (n,), or of every set of rows, (m,), at its own noise."""
    information, count = measurement(leakage).information, leakage.n if sets is None else len(sets)
    reshaped = _reshaped(leakage, count)
    if reshaped is None:
        return presence_norms(information, tolerance, sets) / measurement(leakage).scale
    jacobian = measurement(leakage).jacobian
    found = equivalent_norms(reshaped, jacobian, tolerance, sets)
    return like(found, jacobian.X, namespace(jacobian.X))


def presence_kind(leakage: Any) -> str:
    """What a leakage's mu is: "mu", "equivalent", or "upper bound" of that; what is not known is refused by name."""
    reshaped = _reshaped(leakage, leakage.n)
    if reshaped is None:
        return "mu"
    return "upper bound" if reshaped.is_bounded(leakage.n) else "equivalent"


def unknown_by_shape(leakage: Any, count: int) -> str:
    """Why membership of so many rows, or sets of them, is not measured where rows decide the noise; nothing where it can be."""
    try:
        reshaped = _reshaped(leakage, count)
    except InvalidInputError as error:
        return f"not known: {str(error).removeprefix(NOT_KNOWN).removesuffix('.')}"
    if reshaped is None or (reshaped.is_light(count) and is_light(measurement(leakage).jacobian, count)):
        return ""
    return (
        "not measured here: the noise is made anew without each row, and with so many it takes long (leak.membership)"
    )


def _reshaped(leakage: Any, count: int) -> Reshaped | None:
    information = measurement(leakage).information
    if information.data_dependent:
        if information.closed_mechanism is None:
            refuse_membership(information)
        return FromGram.of_mechanism(information.releases[0].jacobian, information.closed_mechanism)
    noise = measurement(leakage).noise
    if not has_own_shape(noise):
        return None
    if information.several:
        _refuse_own(noise, "for models of one output only")
    return reshaped_by(information.jacobians[0], noise, count)


def reshaped_by(jacobian: Jacobian, noise: Any, count: int) -> Reshaped:
    """Gaussian noise with a shape of the rows' own as it is made anew, for so many rows or sets that are left out."""
    check_fixed(jacobian)
    if not isinstance(jacobian.X, np.ndarray):
        _refuse_own(noise, "for NumPy rows in memory only: compute the rows first, or bring them to the host")
    if noise.calibrated.asked is not None:
        # a room below this one: loaded when called
        made: Reshaped = import_module("fisherleak.protection.calibrate.remade_noise").made_anew(jacobian, noise, count)
        return made
    found = FromGram.of_shape(jacobian, noise, noise.calibrated.shape)
    if found is None:
        _refuse_own(
            noise,
            "for the rows and the call that it came from, and these are not known here: calibrate again on this leakage",
        )
    return found


def _refuse_own(noise: Any, where: str) -> NoReturn:
    raise InvalidInputError(
        f"{NOT_KNOWN}its covariance, shape='{noise.calibrated.shape}', was computed from the rows, "
        f"and is made anew without a row {where}. Or use shape='isotropic'."
    )


def presence_norms(information: Information, tolerance: float, sets: Sets | None = None) -> Array:
    """For every row, (n,), or for every set of rows, (m,), at noise of scale 1; never below the truth.

    Of several releases each is as exact as can be: squares add up.
    """
    tolerance = tolerance if len(information.fits) == 1 else min(tolerance, EXACT)
    if information.data_dependent:
        refuse_membership(information)
    jacobians = every_release(information)
    for jacobian in jacobians:
        check_normal(jacobian.noise)
        check_fixed(jacobian)
    norms = [removal_norms(jacobian, tolerance, sets=sets) for jacobian in jacobians]
    if len(norms) == 1:
        return norms[0]
    xp = namespace(norms[0])
    return map_rows(lambda *each: xp.sqrt(sum(mu**2 for mu in each)), *norms)


def refuse_lazy_groups(X: Any) -> None:
    """Refuse rows that are not in memory: those of a group may be anywhere."""
    if is_lazy(X):
        raise InvalidInputError(
            "membership_by_group needs rows in memory, and X is a Dask array: measure a sample that fits, X.compute()."
        )
