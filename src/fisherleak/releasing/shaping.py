r"""The shape of a release's noise: from public rows, or from the table's own, which then stays there.

A shape is a covariance over the parameters in the frame where noise acts. Public rows are brought into that frame: numbers in
the table's public centres and scales, levels as the table has them. The model fitted to them there has a Hessian and rows of
its own, and none of the table's.

A shape that comes from the table's own rows is as exact as they are. No card holds it: its name is there, and whoever has the
table computes it again.

Also here: how likely leaving out a row changes the noise's scale, or the penalty, of a release for any record within
the bounds.

A card tells the scale that the certified bound U asks for, rounded up on a grid with a random offset (``published_scale``). So
the release of a table and that of the same table without a row have different scales with the probability
:math:`\min(1, |\log U - \log U_{-i}| / \log \mathrm{step})` over offsets. Both bounds are computed here, for every row. Where a
rule chose the penalty, by the scales at several, one of those changes with at most the sum of their probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fisherleak._support.namespaces import Json, Vector
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import HESSIAN
from fisherleak.errors import FisherleakError, InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.protection.calibrate.calibration import bounds_for_any_record
from fisherleak.protection.calibrate.shapes import ISOTROPIC, LEAST_LOSS, SHAPES, check_other_rows, noise_shaped
from fisherleak.protection.certificates.any_record import NoUsefulBoundError
from fisherleak.protection.certificates.data_dependent_covariance import own_shape
from fisherleak.protection.certificates.published_scale import STEP
from fisherleak.releasing.any_record_noise import AnyRecordLimit, Shape, leaks_of_limits
from fisherleak.tables import Design, Feature, RawTable
from fisherleak.tables.design.gaps import NO_GAPS
from fisherleak.training.trained_model import Settings, Trained, train, trained_on

MOST_FITS = 2000
"""Fits without a row, each at one penalty: about a minute or two."""
ROUNDING = 1e-9
"""Of the logarithm of a bound."""


@dataclass(frozen=True)
class ScaleRule:
    """What a scale on a model card follows from, so that it can be found again without a row.

    Attributes
    ----------
    asked : AnyRecordLimit
    tried : tuple of pairs
        Each `l2` and shape at which a scale was looked at; several where a rule chose among them.
    """

    asked: AnyRecordLimit
    tried: tuple[tuple[float, Shape], ...]

    def too_many(self, rows: int) -> bool:
        """Whether finding it again without each of so many rows takes long."""
        return rows * len(self.tried) > MOST_FITS


def changes_of_scale(trained: Trained, rule: ScaleRule) -> Vector:
    """For every row, the probability over offsets that a release without it has another scale or penalty, at most: (n,)."""
    design, step = trained.design, math.log(STEP)
    found = np.zeros(design.n)
    for l2, shape in rule.tried:
        now = _logs(trained, design, l2, shape, rule)
        if now is None:  # whether it is refused without a row too takes a search for each
            return np.ones(design.n)
        for row in range(design.n):
            without = _logs(trained, _without(design, row), l2, shape, rule)
            # a refusal tells the row for certain
            apart = math.inf if without is None else float(np.sum(np.abs(now - without)))
            found[row] += (apart + ROUNDING) / step
    return np.minimum(found, 1.0)


def _logs(trained: Trained, design: Design, l2: float, shape: Shape, rule: ScaleRule) -> Vector | None:
    """Logarithms of the scales that rows ask for, one for each limited column; None where a release would be refused."""
    held = l2 if trained.kind.several else trained.fit.intercept_l2
    try:
        other = trained_on(trained.kind, design, l2, None, trained.public, held)
        limits = leaks_of_limits(other, rule.asked)
        return np.log([_scale(*each, shape) for each in limits])
    except FisherleakError:
        return None


def _scale(leak: Leakage, limit: float, attributes: Sequence[str] | None, bounds: Any, shape: Shape) -> float:
    """What ``calibrate(over="any-record")`` rounds up to its grid."""
    try:
        return bounds_for_any_record(leak, limit, shape, bounds, attributes, searched=False).scale(limit)
    except NoUsefulBoundError:  # what a search finds may show that the bound is useful
        return bounds_for_any_record(leak, limit, shape, bounds, attributes).scale(limit)


def _without(design: Design, row: int) -> Design:
    """The training rows but one, with means and spreads of those that are left; centres and scales are declared."""
    X, y = np.delete(np.asarray(design.X), row, axis=0), np.delete(np.asarray(design.y), row)
    features = tuple(
        replace(
            feature,
            mean=feature.centre + feature.scale * float(np.mean(X[:, feature.columns[0]])),
            spread=feature.scale * float(np.std(X[:, feature.columns[0]])),
        )
        if feature.kind == "number"
        else feature
        for feature in design.features
    )
    return replace(design, X=X, y=y, features=features, rows=np.delete(np.asarray(design.rows), row))


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
            "`shape_from` names public rows, and `shape='isotropic'` asks nothing of them: leave one out."
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
