"""What the rest of the package asks of a leakage, beside its public methods: the information and how arguments are read.

``Leakage`` shows etas to users, and its names are a promise to them. Other modules need what etas are made of, and ask for it
here: ``measurement(leak).information``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fisherleak._support.arrays import Array
from fisherleak.engine.information import Information
from fisherleak.engine.jacobian import Jacobian
from fisherleak.engine.jacobian.perturbation import Attribute
from fisherleak.engine.noise.calibrated import Frame
from fisherleak.models import Queried, Table

if TYPE_CHECKING:
    from fisherleak.leakage.leakage import Leakage
    from fisherleak.leakage.membership.recognised import RowsFrame

__all__ = ["Measurement", "measurement"]


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
    def notes(self) -> tuple[str, ...]:
        """What a summary says beside the numbers."""
        return self._leak._notes

    @property
    def absent(self) -> Any:
        """(n, number of attributes): cells that were missing and that an imputer filled; None where there are none."""
        return self._leak._absent

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
        return self._leak._within(bounds)

    def not_framed(self, names: Collection[str]) -> Leakage:
        """The same leakage, with columns of these names in the rows' frame whatever their bounds."""
        return self._leak._not_framed(names)
