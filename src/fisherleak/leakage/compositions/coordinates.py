r"""Releases about the same data in the same coordinates: only then do their Fisher information matrices add up.

A category may be encoded in another way by every release. Encoders tell how their columns follow the one-hot vector of the
levels (``engine.encodings``), so directions of one release, (columns, own), times own coordinates by common ones are
directions by common ones. Where nobody knows what the columns of an attribute mean, their values must say that the coordinates
are the same: features move by ``directions @ change``, so the coordinates are the features behind the directions' inverse, but
for a constant. A label of two values may be in other units: where :math:`y' = s y + t`, a derivative by y is s times that
by y'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, as_real, host, like, namespace
from fisherleak.engine.encodings import Encoding, common_coordinates
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.losses.loss import Derivative, Loss
from fisherleak.errors import InvalidInputError
from fisherleak.rows import gather, sum_rows
from fisherleak.rows.selection import same_rows

__all__ = ["encoded_together", "in_common_coordinates", "in_label_unit", "label_factor", "with_label_unit"]

APART = 1e-3
"""Difference of two releases' values of an attribute, relative to their range, past which they are not the same values."""


def in_common_coordinates(jacobians: Sequence[Jacobian], known: Sequence[bool]) -> tuple[list[Jacobian], list[str]]:
    """The Jacobians by common coordinates of every attribute, and the names of those whose unit is that of their levels.

    ``known`` says of each release whether its table is known to be the first one's. Attributes have the same names and order.
    """
    columns: list[list[Attribute]] = []
    changed = []
    for records in zip(*(J.attributes for J in jacobians), strict=True):
        moving = _moving(records)
        if not any(records[k].encoding is not None for k in moving):
            _check_coordinates(jacobians, records, moving, known)
        together, other_unit = encoded_together(records, known)
        columns.append(together)
        changed += [records[0].name] * other_unit
    attributes = zip(*columns, strict=True)
    return [replace(J, attributes=own) for J, own in zip(jacobians, attributes, strict=True)], changed


def _moving(records: Sequence[Attribute]) -> list[int]:
    return [k for k, record in enumerate(records) if not _is_still(record)]


def encoded_together(records: Sequence[Attribute], known: Sequence[bool]) -> tuple[list[Attribute], bool]:
    """One attribute of several releases by common coordinates, and whether its unit is that of its levels."""
    moving = _moving(records)
    if not any(records[k].encoding is not None for k in moving):
        size = records[moving[0]].size if moving else 1
        return [record if k in moving else _still(record.name, size) for k, record in enumerate(records)], False
    own = _encodings([records[k] for k in moving], [known[k] for k in moving])
    shifts, common = common_coordinates(own)
    moved = dict(zip(moving, shifts, strict=True))
    size = common.matrix.shape[0]
    together = [
        _moved(record, moved[k], common) if k in moved else _still(record.name, size)
        for k, record in enumerate(records)
    ]
    return together, all(shift is not None for shift in shifts)


def _is_still(record: Attribute) -> bool:
    """Whether a release does not see the attribute at all."""
    return record.directions is not None and not np.any(record.directions)


def _still(name: str, size: int) -> Attribute:
    return Attribute(name, [0], np.zeros((1, max(size, 1))))


def _encodings(records: Sequence[Attribute], known: Sequence[bool]) -> list[Encoding]:
    """How each release's own coordinates follow the levels; a number follows the levels that are numbers."""
    lead = next(record.encoding for record in records if record.encoding is not None)
    found = []
    for record, same_table in zip(records, known, strict=True):
        encoding = record.encoding
        if encoding is None and same_table and record.size == 1 and all(_is_number(level) for level in lead.levels):
            encoding = Encoding(lead.levels, np.array([lead.levels], dtype=np.float64))
        if encoding is None:
            raise _unknown(record.name)
        if set(encoding.levels) != set(lead.levels):
            extra = sorted(map(repr, set(encoding.levels) ^ set(lead.levels)))[0]
            raise InvalidInputError(
                f"compose needs releases with common coordinates: attribute '{record.name}' is encoded with other levels in "
                f"one than in another ({extra} is in one only). Give their encoders the same categories."
            )
        found.append(encoding)
    return found


def _is_number(level: Any) -> bool:
    return isinstance(level, (bool, int, float))


def _moved(record: Attribute, shift: NDArray[np.float64] | None, common: Encoding) -> Attribute:
    if shift is None:
        return record
    if shift.shape[1] == 0:  # one level only: there is nowhere to move
        return _still(record.name, 1)
    directions = shift if record.directions is None else record.directions @ shift
    return Attribute(record.name, record.columns, directions, common)


def _unknown(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"compose needs releases about the same data: attribute '{name}' is not known to have the same coordinates in all of "
        "them. Encode it alike, or measure pipelines with the encoder inside on the same table."
    )


# Attributes of plain columns, whose meaning only their values tell


def _check_coordinates(
    jacobians: Sequence[Jacobian], records: Sequence[Attribute], moving: Sequence[int], known: Sequence[bool]
) -> None:
    if not moving:
        return
    lead = moving[0]
    for k in moving[1:]:
        alike = known[k] and known[lead] and _same_record(records[lead], records[k])
        if records[k].size != records[lead].size or not (alike or _same_values(jacobians, lead, k, records)):
            raise _unknown(records[k].name)


def _same_record(one: Attribute, two: Attribute) -> bool:
    if one.directions is None or two.directions is None:
        return one.columns == two.columns and one.directions is two.directions
    return one.columns == two.columns and np.array_equal(one.directions, two.directions)


def _same_values(jacobians: Sequence[Jacobian], one: int, two: int, records: Sequence[Attribute]) -> bool:
    """Whether the coordinates differ by a constant; true where they cannot be told from the features."""
    backs = [_back(jacobians[k], records[k]) for k in (one, two)]
    if backs[0] is None or backs[1] is None:
        return True
    X, Z = jacobians[one].X, jacobians[two].X
    xp = namespace(X)
    a, b = (like(back, J.B, xp) for back, J in zip(backs, (jacobians[one], jacobians[two]), strict=True))
    start = like([0], jacobians[one].B, xp)
    x0, z0 = (as_real(row, xp) for row in gather([X, Z], start) if row is not None)

    def block(X: Array, Z: Array) -> tuple[Any, ...]:
        u, v = (as_real(X, xp) - x0) @ a, (as_real(Z, xp) - z0) @ b
        return (xp.stack([xp.max(xp.abs(u - v), axis=0), xp.max(xp.abs(u), axis=0), xp.max(xp.abs(v), axis=0)]),)

    (sizes,) = sum_rows(block, X, Z, join=lambda p, q: (xp.maximum(p[0], q[0]),))
    apart, here, there = host(sizes)
    return bool(np.all(apart <= APART * np.maximum(here, there)))


def _back(J: Jacobian, record: Attribute) -> NDArray[np.float64] | None:
    """From features to coordinates, (d, m), where the attribute has its columns to itself and all its directions show."""
    others = {j for other in J.attributes if other.name != record.name and not _is_still(other) for j in other.columns}
    if record.local or others & set(record.columns):
        return None
    directions = np.eye(len(record.columns)) if record.directions is None else record.directions
    if np.linalg.matrix_rank(directions) < record.size:
        return None
    back = np.zeros((J.X.shape[1], record.size))
    back[list(record.columns)] = np.linalg.pinv(directions).T
    return back


# Labels


def label_factor(first: Array, other: Array) -> float | None:
    """By how much the other label moves where the first moves by one: 1 where they are equal, else for two values only."""
    if same_rows(first, other):
        return 1.0
    xp = namespace(first)

    def edges(y: Array, z: Array) -> tuple[Any]:
        return (xp.stack([xp.max(y), -xp.min(y), xp.max(z), -xp.min(z)]),)

    (found,) = sum_rows(edges, first, other, join=lambda a, b: (xp.maximum(a[0], b[0]),))
    high, low, top, bottom = (sign * float(x) for sign, x in zip((1, -1, 1, -1), host(found), strict=True))
    if not high > low:
        return None

    def apart(y: Array, z: Array) -> tuple[Any]:
        up, down = (
            (y == low) & (z == bottom) | (y == high) & (z == top),
            (y == low) & (z == top) | (y == high) & (z == bottom),
        )
        return (xp.stack([xp.sum(xp.astype(~way, xp.int64)) for way in (up, down)]),)

    (counts,) = sum_rows(apart, first, other)
    rising, falling = (int(count) for count in host(counts))
    slope = (top - bottom) / (high - low)
    return slope if not rising else -slope if not falling else None


def in_label_unit(J: Jacobian, factor: float) -> Jacobian:
    """The Jacobian by a label that its own follows ``factor`` times."""
    if factor == 1.0:
        return J
    return replace(J, fit=replace(J.fit, loss=with_label_unit(J.fit.loss, factor)))


@dataclass(frozen=True)
class _Times:
    """A derivative times a number."""

    function: Derivative
    factor: float

    def __call__(self, z: Array, y: Array) -> Array:
        return self.factor * self.function(z, y)


def with_label_unit(loss: Loss, factor: float) -> Loss:
    """The loss whose derivative by the label is by a label that its own follows ``factor`` times."""
    c, traits = _Times(loss.c, factor), loss.traits
    if traits is not None:
        by_label = _Times(traits.slope_by_label, factor)
        traits = replace(traits, of=(loss.value, loss.r, loss.a, c), slope_by_label=by_label)
    return replace(loss, c=c, traits=traits)
