"""What the rest of the package asks of a leakage, beside its public methods: the information and how arguments are read.

``Leakage`` shows etas to users, and its names are a promise to them. Other modules need what etas are made of, and ask for it
here: ``measurement(leak).information``.

Also here: what a model's distance from its minimum does to eta: found by measuring at both places, never guessed from
the distance.

Etas are those of the minimum, unless asked for as given: the derivative of the minimiser is what the theory speaks of, and
at parameters that are not a minimum the formula is the derivative of nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fisherleak._support.arrays import Array, host, is_lazy, namespace
from fisherleak.engine.fit.minimise import Fit
from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.mechanisms.interface_answers import Disclosed
from fisherleak.engine.noise import Noise
from fisherleak.engine.noise.calibration_record import Frame, keeps_calibration
from fisherleak.engine.norms import information_of, one_release
from fisherleak.errors import InvalidInputError, LooseFitWarning
from fisherleak.rows import sum_rows

if TYPE_CHECKING:
    from fisherleak.leakage.leakage import Leakage
    from fisherleak.leakage.membership_distance import RowsFrame
    from fisherleak.models import Queried, Reading, Table


def measurement(leak: Leakage) -> Measurement:
    """What a leakage was measured from."""
    return Measurement(leak)


@dataclass(frozen=True)
class Measurement:
    """A leakage as other modules of this package see it."""

    _leak: Leakage

    @property
    def information(self) -> Information:
        """The Fisher information of what is released, at noise of scale 1 (``scale`` divides it)."""
        return self._leak._information

    @property
    def jacobian(self) -> Jacobian:
        """Of the one model, whatever it is released by."""
        return self._leak._jacobian

    @property
    def noise(self) -> Any:
        """The noise, interface or mechanism of the one release; None for a composition."""
        return self._leak._noise

    @property
    def scale(self) -> float:
        """What norms of the information are divided by: that of the noise, or one where the information has it."""
        return self._leak._scale

    @property
    def table(self) -> Table:
        """The rows as users gave them."""
        return self._leak._table

    @property
    def of_columns(self) -> bool:
        """Whether its attributes are columns of the table, whatever steps stand between these and the model."""
        return self._leak._raw

    @property
    def notes(self) -> tuple[str, ...]:
        """What a summary says beside the numbers."""
        return self._leak._notes

    @property
    def absent(self) -> Any:
        """(n, number of attributes): cells that were missing and that an imputer filled; None where there are none."""
        return self._leak._absent

    @property
    def people(self) -> Any:
        """Whose rows are whose, where the leakage is about people; None where it is about rows."""
        return self._leak._people

    @property
    def moved(self) -> float:
        """How far the model as given is from its minimum, in standard deviations of the noise on its parameters."""
        if self._leak._away is None:
            return 0.0
        jacobian = one_release(self.information)
        xp = namespace(jacobian.metric)
        return float(xp.linalg.vector_norm(jacobian.metric @ self._leak._away)) / self.scale

    @property
    def about_rows(self) -> Leakage:
        """The same leakage about rows."""
        return self._leak if self.people is None else replace(self._leak, _people=None)

    @property
    def sets(self) -> list[Array]:
        """The rows of each person, where the rows are."""
        return self._leak._where_rows_are(self.people.rows)

    @property
    def queried(self) -> Queried | None:
        """How queries to the model become its features; None where that is not known."""
        return self._leak._queried

    @property
    def frames(self) -> tuple[RowsFrame, ...]:
        """Public centres and scales that come from the rows."""
        return self._leak._frames

    @property
    def frame(self) -> Frame:
        """Those that declared bounds give instead."""
        return self._leak._frame

    @property
    def shown_frames(self) -> tuple[RowsFrame, ...]:
        """Those of ``frames`` that the release tells."""
        return self._leak._shown_frames

    def chosen(
        self, attributes: Sequence[str | int] | str | int | None, label: bool | None
    ) -> tuple[tuple[Attribute, ...], bool]:
        """The attributes that are asked for, and whether the label counts."""
        return self._leak._chosen(attributes, label)

    def certain(self, attributes: Any, label: bool | None, top: Sequence[tuple[int, float]]) -> float:
        """An eta that the most exposed examples are certainly not above; ``top`` are their rows and etas."""
        return self._leak._certain(attributes, label, top)

    def rows(self, rows: Any) -> Array | None:
        """Positions of the rows that are asked for; None for all."""
        return self._leak._rows(rows)

    def labels(self, labels: Any) -> Any:
        """Groups of rows, by a column's name or as given."""
        return self._leak._labels(labels)

    def within(self, bounds: Mapping[str, Any] | None) -> Leakage:
        """The same leakage with the frame that declared bounds give, where a noise can remember it."""
        own = self._leak
        found = tuple(each for frame in own._frames if not frame.published for each in frame.within(bounds or {}))
        return own._acting_in(found) if keeps_calibration(own._noise) and found != own._frame else own

    def not_framed(self, names: Collection[str]) -> Leakage:
        """The same leakage, with columns of these names in the rows' frame whatever their bounds."""
        frames = tuple(frame.unnamed(names) for frame in self._leak._frames)
        return replace(self._leak, _frames=frames) if names else self._leak

    def read_as(self, attributes: tuple[Attribute, ...], table: Table, names: Mapping[int, str]) -> Leakage:
        """The same leakage about other attributes of the same features; ``names`` are of features that bounds frame."""
        information = information_of(replace(one_release(self.information), attributes=attributes))
        frames = tuple(frame.named(names) for frame in self._leak._frames)
        return replace(self._leak, _information=information, _table=table, _absent=None, _frames=frames)


def refuse_lazy_groups(X: Any, what: str = "membership_by_group") -> None:
    """Refuse rows that are not in memory: those of a group may be anywhere."""
    if is_lazy(X):
        raise InvalidInputError(
            f"{what} needs rows in memory, and X is a Dask array: measure a sample that fits, X.compute()."
        )


# What a model's distance from its minimum does to eta

WRONG = 1.01
"""Factor on an eta that is reported as given past which it is called wrong."""
APART = 1.5
"""Factor between an eta at the minimum and as given past which a warning says so, though the one reported is right."""
MOST_MOVED = 0.05
"""Deviations of the noise that a model may be from its minimum: that tells at most a share of a quarter of a percent."""
COUNTED = 1e-6
"""Rows whose eta is below this part of the largest are not compared: their digits are rounding."""


@dataclass(frozen=True)
class Looseness:
    """Etas at the parameters as given compared with those at the minimum.

    Parameters
    ----------
    distance : float
        How far the model stopped from its minimum.
    factor : float
        Largest ratio, either way, between the two etas of one row; 1 or more.
    given, exact : float
        Largest eta of a row as given and at the minimum.
    polished : bool
        Whether the etas that are reported are those at the minimum.
    """

    distance: float
    factor: float
    given: float
    exact: float
    polished: bool

    def note(self) -> str:
        """One line for a digest."""
        differ = f"etas as given differ by up to {_words(self.factor)}"
        return f"moved to its minimum; {differ}" if self.polished else f"as given; {differ} from those at its minimum"

    def warn(self, stacklevel: int) -> None:
        """Warn where it matters."""
        if self.factor <= (APART if self.polished else WRONG):
            return
        stopped = f"The model stopped at a distance of {self.distance:.1e} from its minimum"
        if self.polished:
            text = (
                f"{stopped} and was moved there: single etas change by up to {_words(self.factor)}, the largest from "
                f"{self.exact:.3g} at the minimum to {self.given:.3g} as given. Releasing it releases the parameters as given: "
                "fit with a smaller tol, so that they are those measured."
            )
        else:
            text = (
                f"{stopped}, and these etas are off by up to {_words(self.factor)}: the largest is {self.given:.3g} as given "
                f"and {self.exact:.3g} at the minimum. Leave polish=False out, or fit with a smaller tol."
            )
        warnings.warn(text, LooseFitWarning, stacklevel=stacklevel + 1)


def looseness_of(reading: Reading, other_fit: Fit, noise: Noise | Disclosed, scale: float) -> Looseness:
    """The etas of a reading beside those of another fit of it."""
    own, other = (_etas(replace(reading, fit=fit), noise) for fit in (reading.fit, other_fit))
    largest = tuple(float(x) for x in host(_join_max(_largest, own, other)))
    least = COUNTED * max(largest)
    (factor,) = (float(x) for x in host(_join_max(_Ratio(least), own, other)))
    exact, given = largest if reading.polished else largest[::-1]
    return Looseness(reading.fit.distance, factor, given / scale, exact / scale, reading.polished)


def _etas(reading: Reading, noise: Noise | Disclosed) -> Array:
    return reading.information(noise).example_norms(reading.attributes, True)


def _join_max(function: Any, *arrays: Array) -> Array:
    (found,) = sum_rows(function, *arrays, join=lambda a, b: (namespace(a[0]).maximum(a[0], b[0]),))
    return found


def _largest(own: Array, other: Array) -> tuple[Array]:
    xp = namespace(own)
    return (xp.stack([xp.max(own), xp.max(other)]),)


@dataclass(frozen=True)
class _Ratio:
    least: float

    def __call__(self, own: Array, other: Array) -> tuple[Array]:
        xp = namespace(own)
        high, low = xp.maximum(own, other), xp.minimum(own, other)
        ratios = xp.where(high > self.least, high / xp.where(low > 0, low, high), 1.0)
        return (xp.reshape(xp.max(ratios), (1,)),)


def _words(factor: float) -> str:
    return f"{100 * (factor - 1):.2g} %" if factor < 1.5 else f"a factor of {factor:.2g}"
