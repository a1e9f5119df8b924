"""Several independent releases of models of several outputs about the same data, as one leakage.

Labels are the same classes (or numbers), and attributes have the same coordinates: categories are encoded alike. What differs
there is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from fisherleak.engine.information import Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.norms.several_outputs import SeveralOutputs, StackedOutputs
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models.frames import same_values
from fisherleak.rows.selection import same_rows

__all__ = ["composed_outputs", "label_unit", "refuse_mixture", "refuse_other_data"]


def composed_outputs(leakages: Sequence[Leakage]) -> Leakage:
    """The leakage of all of them, whose labels are in the unit of the first release's."""
    first = leakages[0]
    releases: list[Release] = []
    for leakage in leakages:
        refuse_other_data(first, leakage)
        scaled = measurement(leakage).information.scaled(1.0 / measurement(leakage).scale)
        if not scaled.several:
            refuse_mixture()
        releases += scaled.releases
    lead = releases[0]
    joined = tuple(_in_unit(lead, each) for each in releases)
    masks = [measurement(leakage).absent for leakage in leakages]
    absent = None if any(mask is None for mask in masks) else np.logical_and.reduce(masks)
    notes = [note for leakage in leakages for note in measurement(leakage).notes]
    return Leakage(StackedOutputs(joined), None, measurement(first).table, tuple(dict.fromkeys(notes)), absent)


def refuse_mixture() -> NoReturn:
    """Models of one output and of several have labels of other kinds."""
    raise UnsupportedModelError(
        "compose() of models of several outputs with models of one output is not supported: their labels are vectors "
        "here and numbers there. Compose them apart."
    )


def refuse_other_data(first: Leakage, other: Leakage) -> None:
    """Refuse other rows and attributes."""
    if other.n != first.n or other.attributes != first.attributes:
        raise InvalidInputError(
            f"compose needs releases about the same data: {first.n} rows with attributes {first.attributes} are "
            f"not {other.n} rows with attributes {other.attributes}."
        )
    one, two = measurement(first).table, measurement(other).table
    if other is not first and two.names == one.names and not same_values(one, two):
        raise InvalidInputError("compose needs releases about the same data: the values of their tables differ.")


def _in_unit(lead: Release, other: Release) -> SeveralOutputs:
    """A release with its label in the unit of the first one's."""
    one, two = lead.jacobian, other.jacobian
    unit = label_unit(one, two)
    for a, b in zip(one.attributes, two.named(one.attributes), strict=True):
        if not _same_coordinates(a, b):
            raise UnsupportedModelError(
                f"compose() of models of several outputs needs attributes that are encoded alike, and '{a.name}' is not: use "
                "the same encoder for both."
            )
    return SeveralOutputs(replace(two, label_unit=unit))


def label_unit(one: Jacobian, two: Jacobian) -> float:
    """By how much the other's label moves with the first one's: signs move by two where one-hot vectors move by one."""
    alike = one.fit.loss.classes == two.fit.loss.classes and one.y.shape == two.y.shape
    if not alike or not same_rows(one.y, two.y) or not _same_classes(one, two):
        raise InvalidInputError("compose needs releases about the same data: their labels y differ.")
    signs = [J.fit.loss.classes and J.fit.loss.quadratic for J in (one, two)]
    return float(one.label_unit * (2.0 ** (int(signs[1]) - int(signs[0]))))


def _same_classes(one: Jacobian, two: Jacobian) -> bool:
    a, b = one.fit.classes, two.fit.classes
    return a is None or b is None or np.array_equal(np.asarray(a), np.asarray(b))


def _same_coordinates(a: Attribute, b: Attribute) -> bool:
    if a.size != b.size:
        return False
    if a.encoding is not None or b.encoding is not None:
        if a.encoding is None or b.encoding is None or a.encoding.levels != b.encoding.levels:
            return False
        return bool(np.array_equal(a.encoding.matrix, b.encoding.matrix))
    return a.size == 1 or (a.columns == b.columns and a.directions is None and b.directions is None)
