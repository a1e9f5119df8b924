"""How the scale of a noise was found, as a record that travels with it: what a card may say, and what must not leave.

A scale that was computed from the rows that are present tells about the row that decides it. So a noise keeps over what it was
calibrated, and a release can say so by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fisherleak._support.namespaces import Json, Sums

__all__ = [
    "ADMISSIBLE",
    "FOR_ANYONE",
    "HESSIAN",
    "Calibration",
    "CalibrationCall",
    "Confidential",
    "Frame",
    "calibration_of",
    "declared_frame",
    "has_own_shape",
    "keeps_calibration",
]

ADMISSIBLE, NOTHING = "admissible", "nothing"
HESSIAN, FOR_ANYONE = "hessian", "least-loss-for-anyone"
"""Names, on a card, of shapes that rows decide."""
Frame = tuple[tuple[int, float, float], ...]
"""Place, centre and scale of features."""


@dataclass(frozen=True)
class Confidential:
    """Exact numbers of the data behind a scale on a grid: for whoever holds the table, and in no copy, pickle or record.

    Attributes
    ----------
    lower : float
        An eta, at noise of scale 1, that some admissible row in place of a present one was seen to reach.
    upper : float
        One that no such row is above: the scale is this over the limit, on the grid.
    present : float
        The largest eta of the rows that are there.
    spread : float
        How far the logarithm of ``upper`` moves, at most, if one row is replaced by an admissible one.
    second : float
        What the noise's own shape tells of an admissible row, as an eta that no scale reduces; zero for a shape that is public.
    margin : float
        How far, as a logarithm, the bound is from where it would be refused as too loose, or another one would take its place.
    """

    lower: float
    upper: float
    present: float
    spread: float
    second: float = 0.0
    margin: float = math.inf


@dataclass(frozen=True)
class CalibrationCall:
    """What noise with a shape of the rows' own was asked to keep: arguments of :func:`fisherleak.calibrate`.

    ``groups`` is the group of each row, as an array.
    """

    over: str
    attributes: Any
    label: bool | None
    groups: Any
    gap: float


@dataclass(frozen=True)
class Calibration:
    """How the scale of a noise was found.

    Attributes
    ----------
    over : str
        What was limited: see :func:`fisherleak.calibrate`; "nothing" for noise that keeps a shape of the rows' own at a scale
        that no limit decided.
    eta : float, optional
        The limit.
    bounds : dict, optional
        For "admissible": of each column the bounds or levels, and whether they were declared or taken from rows.
    step : float, optional
        The ratio of neighbouring scales on the public grid.
    offset : float, optional
        The grid's random offset, as a part of a step: drawn for this scale, public, and independent of the data.
    probability : float, optional
        That replacing one person's row by another admissible one changes the scale: at most this, over offsets.
    confidential : Confidential, optional
        Exact numbers of the data; left out of records, copies and pickles.
    folded : bool, optional
        Whether preprocessing was folded into the model that was measured, so that the noise acts in its frame; None where that
        is not known. A release must do the same.
    shape : str, optional
        "hessian" where the noise has the shape of the rows' own inverse Hessian, which eta counts and no record holds.
    least : float, optional
        With such a shape: a standard deviation, at scale 1, that the noise has in every direction, computed from public numbers
        alone. The grid of a release follows it.
    asked : CalibrationCall, optional
        With a shape that rows which are there decided: what :func:`fisherleak.calibrate` was asked, so that the noise can be
        made anew without a row. Left out of records, copies and pickles.
    frame : tuple, optional
        Place, centre and scale of each feature whose column has declared bounds, which give them: where the noise acts.
    """

    over: str
    eta: float | None
    bounds: Json | None = field(default=None, compare=False)
    step: float | None = None
    offset: float | None = None
    probability: float | None = None
    confidential: Confidential | None = field(default=None, compare=False, repr=False)
    folded: bool | None = field(default=None, compare=False, repr=False)
    shape: str | None = None
    least: float | None = field(default=None, compare=False, repr=False)
    asked: CalibrationCall | None = field(default=None, compare=False, repr=False)
    frame: Frame | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> Sums:
        known = (self.over, self.eta, self.bounds, self.step, self.offset, self.probability)
        return type(self), (*known, None, self.folded, self.shape, self.least, None, self.frame)

    @property
    def counted(self) -> bool:
        """Whether the scale may be passed on: nobody's row decides it."""
        return self.over == ADMISSIBLE

    @property
    def by_present_rows(self) -> bool:
        """Whether rows that are there decided the scale."""
        return self.over not in (ADMISSIBLE, NOTHING)

    def at_another_scale(self) -> Self | None:
        """What stays of it there: that the shape is the rows' own, and where the noise acts; nothing of a public shape."""
        if self.shape is None and self.frame is None:
            return None
        kept = type(self)(NOTHING, None, folded=self.folded, shape=self.shape, least=self.least)
        return replace(kept, asked=self.asked, frame=self.frame)

    def record(self) -> Json:
        """JSON types, for a card."""
        found: Json = {"over": self.over} | ({} if self.eta is None else {"eta": self.eta})
        told = ("bounds", "step", "offset", "probability", "shape", "least", "frame")
        more: Json = {name: getattr(self, name) for name in told}
        return found | {name: value for name, value in more.items() if value is not None}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        told: Json = {name: record.get(name) for name in ("bounds", "step", "offset", "probability", "shape", "least")}
        frame = record.get("frame")
        told["frame"] = None if frame is None else tuple((int(k), float(c), float(s)) for k, c, s in frame)
        return cls(record["over"], record.get("eta"), **told)


def calibration_of(noise: Any) -> Calibration | None:
    """How the scale of a noise was found; None where that is not known, as of one from outside."""
    found = getattr(noise, "calibrated", None)
    return found if isinstance(found, Calibration) else None


def keeps_calibration(noise: Any) -> bool:
    """Whether a noise can remember how its scale was found."""
    return "calibrated" in getattr(noise, "__dataclass_fields__", ())


def has_own_shape(noise: Any) -> bool:
    """Whether a noise has a shape that the rows decided: it tells something by itself, which no eta at a fixed noise counts."""
    told = calibration_of(noise)
    return told is not None and told.shape is not None


def declared_frame(noise: Any) -> Frame:
    """The centres and scales that declared bounds gave to features when the noise was calibrated."""
    told = calibration_of(noise)
    return () if told is None else told.frame or ()
