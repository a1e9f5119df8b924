r"""The shape of a release's noise: from public rows, or from the table's own, which then stays there.

A shape is a covariance over the parameters in the frame where noise acts. Public rows are brought into that frame: numbers in
the table's public centres and scales, levels as the table has them. The model fitted to them there has a Hessian and rows of
its own, and none of the table's.

A shape that comes from the table's own rows is as exact as they are. No card holds it: its name is there, and whoever has the
table computes it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Json
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import HESSIAN
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS, SHAPES, check_other_rows, noise_shaped
from fisherleak.protection.certificates.data_dependent_covariance import own_shape
from fisherleak.tables import Design, Feature, RawTable
from fisherleak.tables.design.gaps import NO_GAPS
from fisherleak.training.trained_model import Settings, Trained, train, trained_on

Matrix = NDArray[np.float64]
GAP = 0.01
GIVEN = "given"
"""Where a covariance comes from that has no source on its card."""


def check_shape(shape: str, given_noise: bool, public_rows: bool) -> None:
    """Refuse what does not go together, before anything long is begun."""
    if shape not in SHAPES:
        raise InvalidInputError(f"`shape` must be one of {', '.join(SHAPES)}; got {shape!r}.")
    if given_noise and (public_rows or shape != ISOTROPIC):
        raise InvalidInputError(
            "`shape` goes with a limit `eta`: a given `noise` is the same on every coefficient times its column's scale."
        )
    if public_rows and shape == ISOTROPIC:
        raise InvalidInputError(
            "`shape_from` names public rows, and `shape='isotropic'` does not use them: leave one out."
        )


def own_rows_shape(trained: Trained, shape: str, columns: Sequence[str] | None = None) -> Matrix:
    """The covariance of noise of a named shape at scale 1, from the rows of the table itself."""
    if shape == HESSIAN and trained.kind.several:
        return _matrix(noise_shaped(trained.leak, HESSIAN, "max", None, None, None, GAP))
    if shape == HESSIAN:
        return _matrix(own_shape(measurement(trained.leak).information.jacobians[0]))
    people = trained.design.people
    return _matrix(_least_loss(trained.leak, columns, None if people is None else people.of_row))


def public_rows_shape(
    trained: Trained, settings: Settings, public: RawTable, shape: str, columns: Sequence[str] | None = None
) -> Matrix:
    """The same from public rows with the same columns, in the frame of the table's own model; of a mean variance of one."""
    there = train(public, _as_there(trained.design, settings, public)).design
    own = (trained.l2, None, trained.public, trained.fit.intercept_l2)
    found = trained_on(trained.kind, _in_frame_of(trained.design, there), *own)
    check_other_rows(trained.leak, found.leak, "shape_from")
    S = own_rows_shape(found, shape, columns)
    return np.asarray(S * (len(S) / np.trace(S)))


def covariance_from(card: Json) -> str | None:
    """Where the matrix on a card comes from: the name of public rows, or ``GIVEN``; None where there is no matrix."""
    return (card["shape"]["from"] or GIVEN) if isinstance(card["noise"].get("shape"), list) else None


def covariance_words(card: Json) -> str | None:
    """What stands on a card as a covariance, and that nothing bears it out; None where there is none."""
    source, size = covariance_from(card), len(card["noise"].get("shape", ()))
    if source is None:
        return None
    whence = (
        "it was given"
        if source == GIVEN
        else f"the card says that it was computed from the rows of {source}, which were not read"
    )
    return (
        f"The covariance of the noise, {size} x {size} numbers in every digit: {whence}, and nothing in the release shows "
        "where its digits come from."
    )


def _matrix(noise: Any) -> Matrix:
    """The covariance of Gaussian noise at scale 1."""
    return np.asarray(noise.shape)


def _least_loss(leak: Leakage, columns: Sequence[str] | None, people: Any = None) -> Noise:
    over = "max" if people is None else "person"
    return noise_shaped(leak, LEAST_LOSS, over, None if columns is None else list(columns), None, people, GAP)


def _as_there(design: Design, settings: Settings, public: RawTable) -> Settings:
    """Settings that read public rows as the table was read: the same columns, kinds and levels."""
    own = [feature for feature in design.features if feature.of is None]
    names = {kind: tuple(f.name for f in own if f.kind == kind) for kind in ("number", "category")}
    used = {design.target.name, *names["number"], *names["category"]}
    lacking = [name for name in used if name not in public.names]
    if lacking:
        raise InvalidInputError(
            f"`shape_from` ({public.source}) has no column '{sorted(lacking)[0]}': public rows must have the columns of the "
            "model and the target."
        )
    return replace(
        settings,
        model=design.target.kind,
        held_out=0.0,
        numbers=names["number"],
        categories=names["category"],
        drop=tuple(name for name in public.names if name not in used),
        id=None,
        group=None,
        levels=(),
        rare=0,
        person=None,
        missing="drop",  # in public rows nothing is missing
    )


def _in_frame_of(design: Design, public: Design) -> Design:
    """The public rows as features and labels of the table's own model, with their own means and spreads."""
    theirs = {feature.name: feature for feature in public.features}
    X, features = np.zeros((public.n, design.X.shape[1])), []
    for feature in design.features:
        if feature.of is not None:
            features.append(feature)
            continue
        if feature.name not in theirs:
            raise InvalidInputError(
                f"`shape_from` ({public.source}) has one value only in column '{feature.name}': take more public rows."
            )
        values = public.raw(theirs[feature.name])
        if feature.kind == "number":
            X[:, feature.columns[0]] = (values - feature.centre) / feature.scale
            features.append(replace(feature, mean=float(np.mean(values)), spread=float(np.std(values)), gaps=NO_GAPS))
        else:
            places = np.eye(len(feature.levels))[_places(feature, values, public.source)]
            X[:, list(feature.columns)] = places[:, 1:]
            features.append(replace(feature, gaps=NO_GAPS))
    return replace(public, X=X, y=_labels(design, public), features=tuple(features), target=design.target)


def _places(feature: Feature, values: NDArray[Any], source: str) -> NDArray[np.int64]:
    """Every row's place among the table's levels; others are pooled where the table pools."""
    known = {str(level): k for k, level in enumerate(feature.levels)}
    new = [value for value in values.tolist() if str(value) not in known]
    if new and not feature.pooled:
        raise InvalidInputError(
            f"`shape_from` ({source}) has the category {str(new[0])!r} in column '{feature.name}', which the table lacks: "
            "leave such rows out."
        )
    return np.array([known.get(str(value), 0) for value in values.tolist()], dtype=np.int64)


def _labels(design: Design, public: Design) -> Matrix:
    target, labels = design.target, public.labels()
    if not target.classes:
        return np.asarray((labels - target.centre) / target.scale)
    known = {str(name): float(k) for k, name in enumerate(target.classes)}
    if any(str(label) not in known for label in labels.tolist()):
        raise InvalidInputError(f"`shape_from` ({public.source}) has other classes of '{target.name}' than the table.")
    return np.array([known[str(label)] for label in labels.tolist()])
