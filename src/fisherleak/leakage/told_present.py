r"""How far releases with and without rows are apart, whatever is released and by however many releases.

With :math:`w_{(-S)}` the minimiser without the rows S and :math:`W^T W` the information of the noise at scale 1,
:math:`|W (w_{(-S)} - w)|`; the squares of independent releases add up. S is one row, or all rows of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, is_lazy, namespace
from fisherleak.engine.information import Information
from fisherleak.engine.norms.data_shaped import DataShaped
from fisherleak.engine.norms.several_outputs import SeveralOutputs
from fisherleak.engine.norms.shaped_releases import ShapedReleases, refuse_membership
from fisherleak.engine.norms.stacked_outputs import StackedOutputs
from fisherleak.engine.outputs.several_removal import several_removal_norms
from fisherleak.engine.removal import EXACT, check_fixed, check_normal, removal_norms
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.rows import map_rows

__all__ = ["presence_norms", "refuse_lazy_groups"]

Sets = Sequence[NDArray[np.int64]]


def presence_norms(information: Information, tolerance: float, sets: Sets | None = None) -> Array:
    """For every row, (n,), or for every set of rows, (m,), at noise of scale 1; never below the truth.

    Of several releases each is as exact as can be: squares add up.
    """
    tolerance = tolerance if len(information.fits) == 1 else min(tolerance, EXACT)
    if isinstance(information, DataShaped | ShapedReleases):
        refuse_membership(information)
    if isinstance(information, (SeveralOutputs, StackedOutputs)):
        norms = _of_several(information, tolerance, sets)
    else:
        for jacobian in information.jacobians:
            check_normal(jacobian.noise)
            check_fixed(jacobian)
        norms = [removal_norms(jacobian, tolerance, sets=sets) for jacobian in information.jacobians]
    if len(norms) == 1:
        return norms[0]
    xp = namespace(norms[0])
    return map_rows(lambda *each: xp.sqrt(sum(mu**2 for mu in each)), *norms)


def _of_several(information: SeveralOutputs | StackedOutputs, tolerance: float, sets: Sets | None) -> list[Array]:
    releases = information.releases if isinstance(information, StackedOutputs) else (information,)
    norms = []
    for each in releases:
        assert isinstance(each, SeveralOutputs)
        check_normal(each.jacobian.noise)
        folding = each.jacobian.folding
        if folding is not None and (each.jacobian.fit.loss.quadratic or folding.totals is None):
            raise UnsupportedModelError(
                "membership() of a model of several outputs counts standard deviations that the softmax loss is fitted "
                "behind, and no other preprocessing: measure with public='preprocessing'."
            )
        norms.append(several_removal_norms(each.jacobian, tolerance, sets))
    return norms


def refuse_lazy_groups(X: Any) -> None:
    """Refuse rows that are not in memory: those of a group may be anywhere."""
    if is_lazy(X):
        raise InvalidInputError(
            "membership_by_group needs rows in memory, and X is a Dask array: measure a sample that fits, X.compute()."
        )
