r"""The shape of a release's noise: from public rows, or from the table's own, which then stays there.

A shape is a covariance over the parameters in the frame where noise acts. With :math:`A = (\mathrm{diag}(s), 0;\; m^T, 1)` the
map from raw parameters to the frame of a design with public scales s and centres m, a shape S that was found in the frame of
public rows is :math:`M S M^T` here, :math:`M = A A_{public}^{-1}`.

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
from fisherleak.audit.model import Settings, Trained, train
from fisherleak.audit.noises import from_card
from fisherleak.engine.noise import Gaussian, Noise
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.protection.own_shape import HESSIAN, own_shape
from fisherleak.protection.shapes import SHAPES, noise_shaped
from fisherleak.tables import Design, RawTable

__all__ = ["ISOTROPIC", "OWN", "check_shape", "noise_of_card", "own_rows_shape", "public_rows_shape", "shape_words"]

Matrix = NDArray[np.float64]
ISOTROPIC, LEAST_LOSS = "isotropic", "least-loss"
OWN = (HESSIAN, LEAST_LOSS)
"""Shapes that rows decide."""
GAP = 0.01


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
    if shape == HESSIAN:
        return _matrix(own_shape(trained.fit))
    people = trained.design.people
    return _matrix(_least_loss(trained.leak, columns, None if people is None else people.of_row))


def public_rows_shape(
    trained: Trained, settings: Settings, public: RawTable, shape: str, columns: Sequence[str] | None = None
) -> Matrix:
    """The same from public rows with the same columns, in the frame of the table's own model; of a mean variance of one."""
    found = train(public, _as_there(trained.design, settings, public))
    for ours, theirs in zip(trained.design.features, found.design.features, strict=False):
        if (ours.name, ours.levels) != (theirs.name, theirs.levels):
            raise InvalidInputError(
                f"`shape_from` ({public.source}) differs in column '{ours.name}', by a level that the table lacks or by "
                "having one value only: public rows must have the columns and levels of the table."
            )
    if len(trained.design.features) != len(found.design.features):
        raise InvalidInputError(f"`shape_from` ({public.source}) gives another number of features than the table.")
    S = own_rows_shape(found, shape, columns)
    M = _into_frame(trained.design) @ np.linalg.inv(_into_frame(found.design))
    turned = M @ S @ M.T
    return np.asarray(turned * (len(turned) / np.trace(turned)))


def noise_of_card(record: Json, trained: Trained, columns: Sequence[str] | None = None) -> Noise:
    """The noise that a card tells of, with a shape that it only names computed again from the rows."""
    named = record.get("shape")
    return from_card(record, own_rows_shape(trained, named, columns) if isinstance(named, str) else None)


def shape_words(shape: str, source: str | None, counted: bool) -> str:
    """What a card says of the shape."""
    words = {HESSIAN: "the inverse Hessian", LEAST_LOSS: "least loss"}
    if shape == ISOTROPIC:
        return "The noise is the same on all of these."
    if source is not None:
        return f"The noise has the shape of {words[shape]} for the rows of {source}, which are taken as public."
    if counted:
        return (
            f"The noise has the shape of {words[shape]} for the table's own rows, which is not told. What the shape tells by "
            "itself is counted: the limit is on both together."
        )
    return (
        f"The noise has the shape of {words[shape]} for the table's own rows, which is not told; what it tells by itself is "
        "not counted."
    )


def _matrix(noise: Gaussian) -> Matrix:
    assert noise.shape is not None
    return np.asarray(noise.shape)


def _least_loss(leak: Leakage, columns: Sequence[str] | None, people: Any = None) -> Gaussian:
    over = "max" if people is None else "group"
    noise = noise_shaped(leak, LEAST_LOSS, over, None if columns is None else list(columns), None, people, GAP)
    assert isinstance(noise, Gaussian)
    return noise


def _as_there(design: Design, settings: Settings, public: RawTable) -> Settings:
    """Settings that read public rows as the table was read: the same columns, kinds and levels."""
    names = {kind: tuple(f.name for f in design.features if f.kind == kind) for kind in ("number", "category")}
    used = {design.target.name, *names["number"], *names["category"]}
    lacking = [name for name in used if name not in public.names]
    if lacking:
        raise InvalidInputError(
            f"`shape_from` ({public.source}) has no column '{sorted(lacking)[0]}': public rows must have the columns of the "
            "model and the target."
        )
    levels = {
        f.name: tuple(str(level) for level in (f.levels[1:] if f.pooled else f.levels))
        for f in design.features
        if f.kind == "category"
    }
    return replace(
        settings,
        model=design.target.kind,
        held_out=0.0,
        numbers=names["number"],
        categories=names["category"],
        drop=tuple(name for name in public.names if name not in used),
        id=None,
        group=None,
        person=None,
        levels=tuple(levels.items()),
    )


def _into_frame(design: Design) -> Matrix:
    """A: from raw parameters to those where noise acts."""
    d = design.X.shape[1]
    A = np.eye(d + 1)
    for feature in design.features:
        if feature.kind == "number":
            (k,) = feature.columns
            A[k, k], A[d, k] = feature.scale, feature.centre
    return A
