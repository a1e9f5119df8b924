r"""One release as a ledger keeps it: what is needed to compose it exactly with others, and no row of data.

The information of a release about its rows is :math:`J_i^T J_i` with
:math:`J_i = -B\,[\,a\, x w^T E + r E,\; c\, x\,]` (``engine.jacobian``). B, with the noise in it, w, the loss and how raw
columns become features (E, levels, an offset) are small and kept; x and y are those of the table that is compared with it
later. A row that was not part of the release is one of weight zero. Rows are known by keyed digests of their id and of their
values. Of a release whose noise the data shape, the mechanism and H^-1 are kept in place of B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.arrays import host, is_lazy
from fisherleak._support.grids import rounded_up
from fisherleak._support.namespaces import Json, Vector
from fisherleak.engine.fit.factored_hessian import Factor
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.information import Release
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.folding import Folding
from fisherleak.engine.jacobian.perturbation import Attribute, Encoding
from fisherleak.engine.losses import LOSSES, Loss, pseudo_huber
from fisherleak.engine.mechanisms.interface_answers import Disclosed
from fisherleak.engine.mechanisms.self_shaped import MECHANISMS
from fisherleak.engine.noise.calibration_record import has_own_shape
from fisherleak.engine.norms.several_outputs import refuse_several
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.compositions import encoded_together, in_label_unit
from fisherleak.leakage.leakage import Leakage, check_leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.models import Table
from fisherleak.protection.ledger.known_rows import (
    CARRY,
    WRITTEN,
    Rows,
    cell_digests,
    recorded_labels,
    row_digests,
    used_by,
    written_digests,
)

REPRODUCED = 1e-9
"""Relative difference between features and their encoding that is rounding."""
STILL = np.zeros((1, 1))
DIGITS = 7
"""Of etas that are kept, never below the truth."""
CELLS_KEPT = 2**20
"""Values of a release of which digests are kept one by one, eight bytes each: later tables may then lack columns of it."""


def entry_of(leakage: Leakage, rows: Rows, key: bytes, label: tuple[float, float] | None, choice: float = 0.0) -> Json:
    """The entry of one release; refuses what cannot be kept exactly, by name.

    ``label`` is the (centre, unit) of labels that the release was measured with, where these are not the table's own;
    ``choice`` the eta of the choice that it was released by, which that of every row counts.
    """
    jacobian, mechanism = recordable(leakage), _mechanism_of(leakage)
    fit, columns = jacobian.fit, _columns(leakage, jacobian)
    offset = _offset(jacobian, columns, rows.table)
    entry: Json = {
        "what": repr(leakage.noise),
        "loss": _loss_record(fit.loss),
        "labels": _label_record(jacobian, label),
        "theta": _listed(jacobian.theta),
        "intercept": fit.intercept is not None,
        "centre": None if fit.centre is None else _listed(fit.centre),
        "B": _listed(fit.factor.inverse() if mechanism else jacobian.B / measurement(leakage).scale),
        "mechanism": mechanism,
        "l2": fit.l2,
        "condition": fit.condition,
        "distance": fit.distance if fit.left is None else fit.left,
        "folding": _folding_record(jacobian.folding),
        "columns": columns,
        "offset": _listed(offset),
        "rows": list(rows.ids),
        "weights": None if fit.sample_weight is None else _listed(fit.sample_weight),
    }
    entry["values"] = list(row_digests(key, entry, rows, np.arange(rows.n)))
    entry["features"] = list(row_digests(key, entry, rows, np.arange(rows.n), label=False))
    entry["written"] = {
        name: list(written_digests(key, entry, rows, label, loosely)) for name, (label, loosely) in WRITTEN.items()
    }
    if rows.n * (len(used_by(entry)) + 1) <= CELLS_KEPT:
        entry["cells"] = cell_digests(key, entry, rows, np.arange(rows.n), sorted(used_by(entry)))
    etas = np.hypot(np.asarray(host(leakage.per_example())), choice)
    entry["eta"] = [rounded_up(eta, DIGITS) for eta in etas.tolist()]
    return entry | ({"choice": choice} if choice > 0 else {})


def _listed(x: Any) -> Any:
    return np.asarray(host(x), dtype=np.float64).tolist()


def recordable(leakage: Leakage) -> Jacobian:
    """The Jacobian of a release that a ledger can keep; else a refusal by name."""
    check_leakage(leakage, "A ledger")
    known = measurement(leakage)
    refuse_several(known.information, "a ledger")
    if known.noise is None or len(known.information.fits) != 1:
        raise InvalidInputError("A ledger takes releases one by one: add each leakage of a composition by itself.")
    if known.information.averaged is not None:
        raise InvalidInputError(
            "A ledger adds up matrices, and for ObjectivePerturbation of this loss only upper limits of single etas are known: "
            "use noise on parameters, fisherleak.Gaussian."
        )
    if has_own_shape(known.noise):
        raise InvalidInputError(
            "A ledger adds up noise whose covariance is public, and this one follows from the rows themselves: release with "
            "`shape='isotropic'`, or with a covariance from public rows."
        )
    jacobian = known.jacobian
    if is_lazy(jacobian.X) or not isinstance(jacobian.X, np.ndarray):
        raise InvalidInputError("A ledger takes leakages of NumPy rows in memory: measure X.compute(), or host arrays.")
    if known.absent is not None:
        raise InvalidInputError(
            "A ledger cannot keep rows with missing values: drop or fill these rows before the model."
        )
    curved = [attribute.name for attribute in jacobian.attributes if attribute.local]
    if curved:
        raise InvalidInputError(
            f"A ledger keeps affine preprocessing only, and that of column '{curved[0]}' is not: measure the model behind "
            "it on its features."
        )
    folding = jacobian.folding
    if folding is not None and (folding.filling is not None or np.any(folding.shares)):
        raise InvalidInputError(
            "A ledger keeps scalers that are standard deviations only: use StandardScaler, or public='preprocessing'."
        )
    return jacobian


def _mechanism_of(leakage: Leakage) -> Json | None:
    """Of noise that the data shape; None for other noise, which is in B."""
    mechanism = measurement(leakage).information.releases[0].mechanism
    return None if mechanism is None else dict(mechanism.record())


def _columns(leakage: Leakage, jacobian: Jacobian) -> list[Json]:
    """How every attribute becomes features: a number times its directions, levels by a table, features as they are."""
    table, queried = measurement(leakage).table, measurement(leakage).queried
    as_they_are = queried is not None and queried.model is None
    found: list[Json] = []
    for attribute in jacobian.attributes:
        record: Json = {
            "name": attribute.name,
            "features": list(attribute.columns),
            "directions": None if attribute.directions is None else attribute.directions.tolist(),
            "sources": [table.names[j] for j in attribute.columns] if as_they_are else [attribute.name],
        }
        if as_they_are:
            found.append({**record, "kind": "features"})
        elif attribute.encoding is not None:
            levels = [_level(level, attribute.name) for level in attribute.encoding.levels]
            found.append({**record, "kind": "levels", "levels": levels, "matrix": attribute.encoding.matrix.tolist()})
        elif (
            attribute.name in table.names
            and attribute.size == 1
            and table.is_numeric(table.names.index(attribute.name))
        ):
            found.append({**record, "kind": "number"})
        elif attribute.directions is not None and not np.any(attribute.directions):
            found.append({**record, "kind": "none"})
        else:
            raise InvalidInputError(
                f"A ledger cannot keep how column '{attribute.name}' becomes features: encode it by categories or as a number."
            )
    return found


def _level(level: Any, name: str) -> Any:
    own = level.item() if isinstance(level, np.generic) else level
    if own is None or isinstance(own, str | bool | int | float):
        return own
    raise InvalidInputError(f"A ledger keeps categories that are text or numbers; column '{name}' has {own!r}.")


def _offset(jacobian: Jacobian, columns: list[Json], table: Table) -> Vector:
    """What is left of the features once the columns' parts are taken off: the same in every row, or it is refused."""
    X = np.asarray(jacobian.X, dtype=np.float64)
    rest = X - _features(columns, table, np.arange(X.shape[0]), X.shape[1])
    offset = 0.5 * (rest.max(axis=0) + rest.min(axis=0))
    size = np.maximum(np.abs(X).max(axis=0), np.abs(rest).max(axis=0))
    if np.any(np.abs(rest - offset) > REPRODUCED * np.maximum(size, np.finfo(float).tiny)):
        feature = int(np.argmax(np.abs(rest - offset).max(axis=0)))
        names = [column["name"] for column in columns if feature in column["features"]] or [str(feature)]
        raise InvalidInputError(
            f"A ledger cannot keep how column '{names[0]}' becomes features: they are not a sum of one part for each "
            "column."
        )
    return np.asarray(offset)


def _features(columns: list[Json], table: Table, rows: NDArray[np.int64], width: int) -> Vector:
    """The columns' parts of the features of some rows, (len(rows), width)."""
    found = np.zeros((rows.size, width))
    for column in columns if rows.size else ():
        features = column["features"]
        if column["kind"] == "features":
            for feature, source in zip(features, column["sources"], strict=True):
                found[:, feature] = table.numbers(table.names.index(source))[rows]
        elif column["kind"] == "number":
            x = table.numbers(table.names.index(column["name"]))[rows]
            found[:, features] += x[:, None] * _directions(column)[:, 0][None, :]
        elif column["kind"] == "levels":
            parts = (_directions(column) @ np.asarray(column["matrix"])).T
            place = {level: k for k, level in enumerate(column["levels"])}
            values = [_plain_value(value) for value in table.named(column["name"])[rows].tolist()]
            unknown = next((value for value in values if value not in place), None)
            if unknown is not None:
                raise InvalidInputError(
                    f"Column '{column['name']}' has the category {unknown!r}, which a release did not know."
                )
            found[:, features] += parts[[place[value] for value in values]]
    return found


def _plain_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _directions(column: Json) -> Vector:
    given = column["directions"]
    return np.eye(len(column["features"])) if given is None else np.asarray(given)


def _loss_record(loss: Loss) -> Json:
    delta = getattr(loss.r, "delta", None)
    known = pseudo_huber(delta) if delta is not None else LOSSES.get(loss.name)
    if known != loss:
        raise InvalidInputError(f"A ledger keeps the package's own losses; '{loss.name}' is not one of them.")
    return {"name": loss.name, "delta": delta}


def _label_record(jacobian: Jacobian, label: tuple[float, float] | None) -> Json:
    centre, unit = (0.0, 1.0) if label is None else label
    kinds = np.unique(np.asarray(jacobian.y))
    two = kinds.size == 2 and (jacobian.fit.loss.labels.binary or kinds.tolist() == [-1.0, 1.0])
    return {"classes": kinds.tolist() if two else None, "centre": centre, "unit": unit, "several": kinds.size > 2}


def check_one_target(entries: Sequence[Json], first: int = 1) -> None:
    """Refuse releases of which one has two classes and another more values of its label: no table has both.

    ``first`` is the number of the first of them on their ledger.
    """
    of_classes = [number for number, entry in enumerate(entries, first) if entry["labels"]["classes"] is not None]
    of_values = [number for number, entry in enumerate(entries, first) if entry["labels"].get("several")]
    if of_classes and of_values:
        raise InvalidInputError(
            f"A ledger is of one target: release {of_classes[0]} has two classes, and release {of_values[0]} more values of "
            f"its label. Keep one ledger for each target; or {CARRY}."
        )


def _folding_record(folding: Folding | None) -> Json | None:
    if folding is None:
        return None
    return {"slopes": _listed(folding.slopes), "means": _listed(folding.means), "weighted": folding.weighted}


def aligned_attributes(entries: Sequence[Json]) -> tuple[list[tuple[Attribute, ...]], tuple[str, ...]]:
    """The attributes of all releases by common coordinates, in one order; refuses what has none."""
    sources: dict[str, list[str]] = {}
    for entry in entries:
        for column in entry["columns"]:
            _check_sources(column, sources)
            sources[column["name"]] = column["sources"]
    own = [{column["name"]: _attribute_of(column) for column in entry["columns"]} for entry in entries]
    together: list[list[Attribute]] = []
    notes = []
    for name in sources:
        records = [attributes.get(name, Attribute(name, [0], STILL)) for attributes in own]
        sizes = {record.size for record in records if record.directions is None or np.any(record.directions)}
        if len(sizes) > 1 and not any(record.encoding is not None for record in records):
            raise InvalidInputError(f"Attribute '{name}' has other dimensions in one release than in another.")
        found, other_unit = encoded_together(records, [True] * len(records))
        together.append(found)
        notes += [f"{name}: per unit of the one-hot vector of its categories, encoded differently"] * other_unit
    return [tuple(attributes) for attributes in zip(*together, strict=True)], tuple(notes)


def _check_sources(column: Json, known: Mapping[str, Sequence[str]]) -> None:
    """Refuse an attribute that is made of other columns in another release: their etas would not add up."""
    name, own = column["name"], set(column["sources"])
    for other, theirs in known.items():
        if set(theirs) != own if other == name else set(theirs) & own:
            raise InvalidInputError(
                f"Attribute '{name}' is made of columns that another release has as '{other}': measure both with the same "
                "attributes."
            )


# From an entry and a table to the release's Jacobian


def release_from(
    entry: Mapping[str, Any], rows: Rows, places: NDArray[np.int64], attributes: tuple[Attribute, ...]
) -> Release:
    """A recorded release over the rows of a table, which it had at some places, by some coordinates of its attributes."""
    jacobian = replace(_jacobian_from(entry, rows, places), attributes=attributes)
    record = entry.get("mechanism")
    return Release(jacobian, None if record is None else MECHANISMS[record["kind"]].from_record(record))


def _jacobian_from(entry: Mapping[str, Any], rows: Rows, places: NDArray[np.int64]) -> Jacobian:
    """The Jacobian of a recorded release over the rows of a table: rows that it did not have count nothing."""
    own = np.flatnonzero(places >= 0)
    width = len(entry["offset"])
    folding = _folding(entry, width)
    # a row that was not there has no weight, and lies where the scales of columns do not feel it
    X = np.zeros((rows.n, width)) + (0.0 if folding is None else folding.means)
    X[own] = np.asarray(entry["offset"]) + _features(entry["columns"], rows.table, own, width)
    weights = np.zeros(rows.n)
    weights[own] = 1.0 if entry["weights"] is None else np.asarray(entry["weights"])[places[own]]
    fit = _fit(entry, weights)
    zero = np.zeros(rows.n)
    y = np.where(fit.loss.labels.accepts(zero), zero, 1.0)
    y[own] = recorded_labels(entry, rows)[own]
    B, theta = np.asarray(entry["B"]), np.asarray(entry["theta"])
    attributes = tuple(_attribute_of(column) for column in entry["columns"])
    noise = Disclosed(entry["what"], np.full(B.shape, np.nan))
    jacobian = Jacobian(fit, X, y, B, theta, attributes, noise, folding)
    return in_label_unit(jacobian, label_slope(entry))


def _attribute_of(column: Json) -> Attribute:
    """The attribute that an entry tells of."""
    encoding = None
    if column["kind"] == "levels":
        encoding = Encoding(tuple(column["levels"]), np.asarray(column["matrix"]))
    return Attribute(column["name"], column["features"], column["directions"], encoding)


def label_slope(entry: Mapping[str, Any]) -> float:
    """By how much the release's label moves where the table's moves by one, or from one class to the other."""
    record = entry["labels"]
    return float(1.0 / record["unit"] if record["classes"] is None else record["classes"][1] - record["classes"][0])


def _folding(entry: Mapping[str, Any], width: int) -> Folding | None:
    record = entry["folding"]
    if record is None:
        return None
    nothing = np.empty((0, width))
    slopes, means = np.asarray(record["slopes"]), np.asarray(record["means"])
    return Folding(slopes, means, bool(record["weighted"]), nothing, nothing, np.eye(len(entry["theta"])))


def _fit(entry: Mapping[str, Any], weights: Vector) -> Fit:
    """What the norms ask of a fit; its Hessian is kept for noise that it shapes, and whatever else needs it is NaN."""
    theta, d = np.asarray(entry["theta"]), len(entry["offset"])
    p = theta.size
    loss, shaped = entry["loss"], entry.get("mechanism") is not None
    moved = 0.0 if entry["centre"] is None else float(theta[:d] @ np.asarray(entry["centre"]))
    level = float(theta[d]) - moved if shaped and entry["intercept"] else float("nan")
    inverse = np.asarray(entry["B"]) if shaped else np.full((p, p), np.nan)
    return Fit(
        coef=theta[:d],
        intercept=level if entry["intercept"] else None,
        loss=LOSSES[loss["name"]] if loss["delta"] is None else pseudo_huber(loss["delta"]),
        l2=entry["l2"],
        n=weights.size,
        sample_weight=weights,
        factor=Factor(np.full(p, 1.0 if shaped else np.nan), inverse, entry["condition"]),
        gradient=0.0,
        distance=entry["distance"],
        steps=0,
        objective=float("nan"),
        centre=None if entry["centre"] is None else np.asarray(entry["centre"]),
        level=float(theta[d]) if entry["intercept"] else None,
    )
