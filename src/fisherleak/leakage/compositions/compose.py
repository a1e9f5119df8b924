"""Leakage of several independent releases: Fisher information adds up (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fisherleak.engine.information import Release
from fisherleak.engine.noise.calibrated import has_own_shape
from fisherleak.engine.norms import information_together
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.compositions.coordinates import in_common_coordinates, in_label_unit, label_factor
from fisherleak.leakage.compositions.outputs_together import (
    composed_outputs,
    label_unit,
    refuse_mixture,
    refuse_other_data,
)
from fisherleak.leakage.leakage import Leakage, is_leakage
from fisherleak.leakage.measurement import Measurement, measurement

__all__ = ["compose", "label_ratio"]


def compose(*leakages: Leakage) -> Leakage:
    """Leakage of several independent releases about the same data.

    Fisher information adds up (paper, section 3.1), so the matrices are added before the norm is taken: never more,
    and usually less, than the root of the sum of squares of the etas.

    Parameters
    ----------
    *leakages : Leakage
        Of the same rows, labels and attributes in the same order; models, losses, features, encodings and noise may differ.
        Models of several outputs are composed with each other, of categories that are encoded alike; heads on frozen networks
        with other heads about the same inputs, on the same network or on others.

    Returns
    -------
    Leakage
        With the same methods. Releases share no eigenbasis, so per-example etas take some ten products with n x d x d
        matrices for each but the first (relative error 4e-11 beside rounding).

    Notes
    -----
    Holds where the noise of the releases is independent, and each release's own assumptions hold. Releases by
    :class:`fisherleak.Posterior` and :class:`fisherleak.ObjectivePerturbation` (squared loss) are composed with others about
    NumPy rows behind affine, public preprocessing: what the shapes of their noise tell is added too. Gaussian noise with the
    shape of the rows' own Hessian (``calibrate(over="admissible", shape="hessian")``) tells by its shape what no composition
    counts, and is refused.

    **Units.** Releases may encode a category differently (other reference levels, another order, none dropped, rare levels
    together, codes): its etas are then per unit of the full one-hot vector of its levels, moved in the space of changes that
    keep the sum. Where all encode it alike it keeps their unit. Labels of two values may be in other units (0 and 1 here, -1
    and 1 there): etas are per unit of the first release's. ``summary()`` says both.

    Examples
    --------
    >>> import fisherleak as fl
    >>> import numpy as np
    >>> X, y = np.array([[1.0, 0.5], [2.0, -1.0], [-1.0, 0.0]]), np.array([1.0, 3.0, -1.0])
    >>> first = fl.measure(fl.minimise(X, y, l2=0.1), X, y, noise=fl.Gaussian(1.0))
    >>> again = fl.compose(first, first)  # drawn twice, independently
    >>> (again.per_example() / first.per_example()).round(4)
    array([1.4142, 1.4142, 1.4142])
    """
    if not leakages:
        raise InvalidInputError("compose needs at least one leakage.")
    for leakage in leakages:
        if not is_leakage(leakage):
            raise InvalidInputError(
                f"compose takes leakages, one by one: compose(leak_a, leak_b); got {type(leakage).__name__}."
            )
        if len(leakages) > 1 and has_own_shape(measurement(leakage).noise):
            raise InvalidInputError(
                "compose adds up noise whose shape is public, and this one was shaped by the rows themselves: calibrate with "
                "shape='isotropic', or with a shape from public rows."
            )
    first = leakages[0]
    if len(leakages) == 1:
        return first
    # a leakage about something before the features knows how it is composed with others of its kind, or refuses
    composed = next((leakage.composed for leakage in leakages if hasattr(leakage, "composed")), None)
    if composed is not None:
        found: Leakage = composed(leakages)
        return found
    measured = [measurement(leakage) for leakage in leakages]
    for each in measured:
        if each.information.several and each.information.data_dependent:
            raise InvalidInputError(
                f"{type(each.noise).__name__} of a model of several outputs is not composed with other releases: compose "
                "models of one output, or use noise on the parameters, fisherleak.Gaussian."
            )
    if any(each.information.several for each in measured):
        return composed_outputs(leakages)
    factors = [_checked(first, other) for other in leakages]
    releases, jacobians, known = [], [], []
    for each, factor in zip(measured, factors, strict=True):
        for release in _releases(each):
            releases.append(release)
            jacobians.append(in_label_unit(release.jacobian, factor))
            known.append(each.table.names == measured[0].table.names)
    common, changed = in_common_coordinates(jacobians, known)
    notes = [note for each in measured for note in each.notes]
    notes += [f"{name}: per unit of the one-hot vector of its levels, encoded differently" for name in changed]
    notes += ["label: per unit of the first release's"] * any(factor != 1.0 for factor in factors)
    # a cell that is missing for one release and a level for another is data
    masks = [each.absent for each in measured]
    absent = None if any(mask is None for mask in masks) else np.logical_and.reduce(masks)
    together = [Release(J, release.mechanism) for release, J in zip(releases, common, strict=True)]
    frames = tuple(replace(frame, published=True) for each in measured for frame in each.shown_frames)
    told = tuple(dict.fromkeys(notes))
    return Leakage(information_together(together), None, measured[0].table, told, absent, _frames=frames)


def _releases(measured: Measurement) -> Sequence[Release]:
    """The releases of a leakage, each at its own scale."""
    if measured.information.averaged is not None:
        raise InvalidInputError(
            "ObjectivePerturbation of this loss is known by upper limits of single etas, which do not add up as matrices do: "
            "compose releases with noise on parameters, or bound the eta of all by the root of the sum of squares."
        )
    return measured.information.scaled(1.0 / measured.scale).releases


def _checked(first: Leakage, other: Leakage) -> float:
    """Refuse other rows, attributes and labels; give back by how much the other's label moves with the first one's."""
    refuse_other_data(first, other)
    return 1.0 if other is first else label_ratio(first, other)


def label_ratio(first: Leakage, other: Leakage) -> float:
    """By how much the other's label moves where the first one's moves by one; labels that are not the same are refused."""
    one, two = measurement(first).information, measurement(other).information
    if one.several and two.several:
        return label_unit(one.releases[0].jacobian, two.releases[0].jacobian)
    if one.several or two.several:
        refuse_mixture()
    factor = label_factor(one.rows[1], two.rows[1])
    if factor is None:
        raise InvalidInputError("compose needs releases about the same data: their labels y differ.")
    return factor
