"""Releases about the same data in the same coordinates: only then do their Fisher information matrices add up.

A category may be encoded in another way by every release. Encoders tell how their columns follow the one-hot vector of the
levels (``jacobian.perturbation``), so directions of one release, (columns, own), times own coordinates by common ones are
directions by common ones. Where nobody knows what the columns of an attribute mean, their values must say that the coordinates
are the same: features move by ``directions @ change``, so the coordinates are the features behind the directions' inverse, but
for a constant. A label of two values may be in other units: where :math:`y' = s y + t`, a derivative by y is s times that
by y'.

Also here: several independent releases of models of several outputs about the same data, as one leakage.

Labels are the same classes (or numbers), and attributes have the same coordinates: categories are encoded alike. What differs
there is refused by name.

Also here: leakage of several independent releases: Fisher information adds up (paper, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import Array, as_real, host, like, namespace
from fisherleak.engine.information import Information, Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute, Encoding, common_coordinates
from fisherleak.engine.losses.loss import Derivative, Loss
from fisherleak.engine.noise.calibration_record import has_own_shape
from fisherleak.engine.norms import information_together
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.leakage.leakage import Leakage, is_leakage
from fisherleak.leakage.measurement import Measurement, measurement
from fisherleak.models.frames import same_values
from fisherleak.rows import gather, sum_rows
from fisherleak.rows.selection import same_rows

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
    """One attribute of several releases by common coordinates, and whether its unit is that of its categories."""
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
                f"compose needs releases with common coordinates: attribute '{record.name}' is encoded with other categories "
                f"in one than in another ({extra} is in one only). Give their encoders the same categories."
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
        f"compose needs releases about the same data: attribute '{name}' may be encoded differently in some of "
        "them. Encode it alike, or measure pipelines that contain the encoder, on the same table."
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
    if factor == 1.0:
        return loss
    c, traits = _Times(loss.c, factor), loss.traits
    if traits is not None:
        by_label = _Times(traits.slope_by_label, factor)
        traits = replace(traits, of=(loss.value, loss.r, loss.a, c), slope_by_label=by_label)
    return replace(loss, c=c, traits=traits, label_unit=factor * loss.label_unit)


def _of_several_outputs(leakages: Sequence[Leakage]) -> Information:
    """The information of all of them, whose labels are in the unit of the first release's."""
    releases: list[Release] = []
    for leakage in leakages:
        refuse_other_data(leakages[0], leakage)
        scaled = measurement(leakage).information.scaled(1.0 / measurement(leakage).scale)
        if not scaled.several:
            refuse_mixture()
        releases += scaled.releases
    return information_together([_in_unit(releases[0], each) for each in releases])


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


def _in_unit(lead: Release, other: Release) -> Release:
    """A release with its label in the unit of the first one's."""
    one, two = lead.jacobian, other.jacobian
    unit = label_unit(one, two)
    for a, b in zip(one.attributes, two.named(one.attributes), strict=True):
        if not _same_coordinates(a, b):
            raise UnsupportedModelError(
                f"compose() of models of several outputs needs attributes that are encoded alike, and '{a.name}' is not: use "
                "the same encoder for both."
            )
    return Release(replace(two, label_unit=unit))


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
    NumPy rows behind affine, public preprocessing: what their noise reveals by its covariance is added too. Gaussian noise
    with the covariance of the table's own Hessian (``calibrate(over="any-record", shape="hessian")``) reveals by it what no
    composition counts, and is refused.

    **Units.** Releases may encode a category differently (other references, another order, none dropped, rare ones
    together, codes): its etas are then per unit of the full one-hot vector of its categories, moved in the space of changes
    that keep the sum. Where all encode it alike it keeps their unit. Labels of two values may be in other units (0 and 1 here,
    -1 and 1 there): etas are per unit of the first release's. ``summary()`` says both.

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
                "compose adds up noise whose covariance is public, and this one follows from the rows themselves: "
                "calibrate with "
                "shape='isotropic', or with a covariance from public rows."
            )
    first = leakages[0]
    if len(leakages) == 1:
        return first
    people = measurement(first).people
    for leakage in leakages[1:]:
        other = measurement(leakage).people
        if (people is None) != (other is None) or (people is not None and not people.same(other)):
            raise InvalidInputError("compose needs releases about the same people: measure all with the same person=.")
    return replace(_composed(leakages), _people=people)


def _composed(leakages: Sequence[Leakage]) -> Leakage:
    """The leakage about the rows."""
    first = leakages[0]
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
    notes = [note for each in measured for note in each.notes]
    # of one table: others are refused
    columns = all(each.of_columns for each in measured)
    if any(each.information.several for each in measured):
        several = _of_several_outputs(leakages)
        told = tuple(dict.fromkeys(notes))
        return Leakage(several, None, measured[0].table, told, _absent(measured), _raw=columns)
    factors = [_checked(first, other) for other in leakages]
    releases, jacobians, known = [], [], []
    for each, factor in zip(measured, factors, strict=True):
        for release in _releases(each):
            releases.append(release)
            jacobians.append(in_label_unit(release.jacobian, factor))
            known.append(each.table.names == measured[0].table.names)
    common, changed = in_common_coordinates(jacobians, known)
    notes += [f"{name}: per unit of the one-hot vector of its categories, encoded differently" for name in changed]
    notes += ["label: per unit of the first release's"] * any(factor != 1.0 for factor in factors)
    together = [Release(J, release.mechanism) for release, J in zip(releases, common, strict=True)]
    frames = tuple(replace(frame, published=True) for each in measured for frame in each.shown_frames)
    told = tuple(dict.fromkeys(notes))
    information, table = information_together(together), measured[0].table
    return Leakage(information, None, table, told, _absent(measured), _frames=frames, _raw=columns)


def _absent(measured: Sequence[Measurement]) -> Any:
    """Cells that are missing for all of them: one that is a level for another release is data."""
    masks = [each.absent for each in measured]
    return None if any(mask is None for mask in masks) else np.logical_and.reduce(masks)


def _releases(measured: Measurement) -> Sequence[Release]:
    """The releases of a leakage, each at its own scale."""
    if measured.information.averaged is not None:
        raise InvalidInputError(
            "For ObjectivePerturbation of this loss only upper limits of single etas are known, and compose needs more. "
            "Compose releases with noise on parameters, or bound the eta of all by the root of the sum of squared etas."
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
