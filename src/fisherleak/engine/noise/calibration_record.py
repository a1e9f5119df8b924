"""How the scale of a noise was found, as a record that travels with it: what a model card may say, and what must not leave.

A scale that was computed from the rows that are present reveals something about the row that decides it. So a noise keeps
over what it was calibrated, and a release can say so by name.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fisherleak._support.checks import warn_renamed
from fisherleak._support.namespaces import Json, Sums
from fisherleak.engine.noise.noise import Noise
from fisherleak.errors import InvalidInputError, UncountedScaleWarning

ANY_RECORD, NOTHING = "any-record", "nothing"
IN_FILES = "admissible"
"""The word for "any-record" in cards and ledgers, whose format stays that of version 0.2."""
HESSIAN, FOR_ANYONE = "hessian", "least-loss-for-anyone"
"""Names, on a model card, of shapes that rows decide."""
Frame = tuple[tuple[int, float, float], ...]
"""Place, centre and scale of features."""


@dataclass(frozen=True)
class Confidential:
    """Exact numbers of the data behind a scale on a grid: for whoever holds the table, and in no copy, pickle or record.

    Attributes
    ----------
    lower : float
        An eta, at noise of scale 1, that some record within the bounds in place of a present one was seen to reach.
    upper : float
        One that no such row is above: the scale is this over the limit, on the grid.
    present : float
        The largest eta of the rows that are there.
    spread : float
        How far the logarithm of ``upper`` moves, at most, if one row is replaced by another record within the bounds.
    second : float
        What the noise's own covariance reveals of a record within the bounds, as an eta that no scale reduces; zero for a
        covariance that is public.
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
    """What noise with a data-dependent covariance was asked to keep: arguments of :func:`fisherleak.calibrate`.

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
        What was limited: see :func:`fisherleak.calibrate`; "nothing" for noise that keeps a data-dependent covariance at a
        scale that no limit decided.
    eta : float, optional
        The limit.
    bounds : dict, optional
        For "any-record": of each column the bounds or levels, and whether they were declared or taken from rows.
    step : float, optional
        The ratio of neighbouring scales on the public grid.
    offset : float, optional
        The grid's random offset, as a part of a step: drawn for this scale, public, and independent of the data.
    probability : float, optional
        That replacing one person's row by another record within the bounds changes the scale: at most this, over offsets.
    confidential : Confidential, optional
        Exact numbers of the data; left out of records, copies and pickles.
    folded : bool, optional
        Whether preprocessing was folded into the model that was measured, so that the noise acts in its frame; None where that
        is not known. A release must do the same.
    shape : str, optional
        "hessian" where the noise has the covariance of the table's inverse Hessian, which eta counts and no record holds.
    least : float, optional
        With such a shape: a standard deviation, at scale 1, that the noise has in every direction, computed from public numbers
        alone. The grid of a release follows it.
    asked : CalibrationCall, optional
        With a shape that rows which are there decided: what :func:`fisherleak.calibrate` was asked, so that the noise can be
        made anew without a row. Left out of records, copies and pickles.
    frame : tuple, optional
        Place, centre and scale of each feature whose column has declared bounds, which give them: where the noise acts.
    rows_per_person : int, optional
        For "any-record": how many rows a person may have, all of which the limit is on together; None for one row.
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
    rows_per_person: int | None = None

    def __post_init__(self) -> None:
        if self.over == IN_FILES:  # of a file, or of a pickle of version 0.2
            object.__setattr__(self, "over", ANY_RECORD)

    def __reduce__(self) -> Sums:
        known = (self.over, self.eta, self.bounds, self.step, self.offset, self.probability)
        return type(self), (*known, None, self.folded, self.shape, self.least, None, self.frame, self.rows_per_person)

    @property
    def counted(self) -> bool:
        """Whether the scale may be passed on: nobody's row decides it."""
        return self.over == ANY_RECORD

    @property
    def by_present_rows(self) -> bool:
        """Whether rows that are there decided the scale."""
        return self.over not in (ANY_RECORD, NOTHING)

    def at_another_scale(self) -> Self | None:
        """What stays of it there: that the shape is the rows' own, and where the noise acts; nothing of a public shape."""
        if self.shape is None and self.frame is None:
            return None
        kept = type(self)(NOTHING, None, folded=self.folded, shape=self.shape, least=self.least)
        return replace(kept, asked=self.asked, frame=self.frame)

    def record(self) -> Json:
        """JSON types, for a card."""
        found: Json = {"over": IN_FILES if self.counted else self.over} | (
            {} if self.eta is None else {"eta": self.eta}
        )
        told = ("bounds", "step", "offset", "probability", "shape", "least", "frame", "rows_per_person")
        more: Json = {name: getattr(self, name) for name in told}
        return found | {name: value for name, value in more.items() if value is not None}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        names = ("bounds", "step", "offset", "probability", "shape", "least", "rows_per_person")
        told: Json = {name: record.get(name) for name in names}
        frame = record.get("frame")
        told["frame"] = None if frame is None else tuple((int(k), float(c), float(s)) for k, c, s in frame)
        return cls(record["over"], record.get("eta"), **told)


def read_over(over: Any, known: Iterable[str]) -> str:
    """What a limit is on, as one of the known words; that of version 0.2 for any record is read with a warning."""
    known = tuple(known)
    if isinstance(over, str) and over == IN_FILES and ANY_RECORD in known:
        warn_renamed(f"`over={IN_FILES!r}`", f"`over={ANY_RECORD!r}`")
        return ANY_RECORD
    if not isinstance(over, str) or over not in known:
        raise InvalidInputError(f"over must be one of {', '.join(known)}; got {over!r}.")
    return over


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


def calibration_told(calibrated: Calibration | None) -> Json:
    """What a noise's record says of how its scale was found."""
    return {} if calibrated is None else {"calibrated": calibrated.record()}


def calibration_in(record: Mapping[str, Any]) -> Calibration | None:
    """How the scale of a recorded noise was found."""
    return Calibration.from_record(record["calibrated"]) if "calibrated" in record else None


def remembering(noise: Noise, calibrated: Calibration) -> Noise:
    """The noise with how its scale was found; one from outside that keeps no such record stays as it is, with a warning now.

    Its release cannot warn later.
    """
    if not keeps_calibration(noise):
        if calibrated.by_present_rows:
            _warn_of_scale(calibrated.over, 4)
        return noise
    kept: Noise = dataclasses.replace(noise, calibrated=calibrated)  # type: ignore[type-var]
    return kept


def publishable(noise: Noise, stacklevel: int = 3) -> Noise:
    """The noise as it may leave: without confidential numbers, and with a warning where its scale is one itself."""
    calibrated = calibration_of(noise)
    if calibrated is None:
        return noise
    if calibrated.by_present_rows:
        _warn_of_scale(calibrated.over, stacklevel + 1)
    return remembering(noise, dataclasses.replace(calibrated, confidential=None, asked=None))


def _warn_of_scale(over: str, stacklevel: int) -> None:
    warnings.warn(
        f"The scale of this noise was computed from the rows present (over='{over}'), so the scale itself "
        "reveals something about the row that decides it: use over='any-record' for a release.",
        UncountedScaleWarning,
        stacklevel=stacklevel,
    )
