"""From files to columns made ready for a linear model: may import ``rows`` and ``_support``; never ``engine`` or ``models``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily

if TYPE_CHECKING:
    from fisherleak.rows.moments import Moments as Moments
    from fisherleak.tables.choices import Choices as Choices
    from fisherleak.tables.column_kinds import Column as Column
    from fisherleak.tables.design import Design as Design
    from fisherleak.tables.design import design_of as design_of
    from fisherleak.tables.features import Feature as Feature
    from fisherleak.tables.opening import example_table as example_table
    from fisherleak.tables.opening import from_frame as from_frame
    from fisherleak.tables.opening import read_table as read_table
    from fisherleak.tables.parts import RawTable as RawTable
    from fisherleak.tables.parts import Room as Room
    from fisherleak.tables.target import LabelRule as LabelRule
    from fisherleak.tables.target import Target as Target

__all__ = [
    "Choices",
    "Column",
    "Design",
    "Feature",
    "LabelRule",
    "Moments",
    "RawTable",
    "Room",
    "Target",
    "design_of",
    "example_table",
    "from_frame",
    "read_table",
]

# reading a header must not load what features are made with
__getattr__, __dir__ = lazily(
    __name__,
    {
        "fisherleak.rows.moments": ("Moments",),
        "fisherleak.tables.choices": ("Choices",),
        "fisherleak.tables.column_kinds": ("Column",),
        "fisherleak.tables.design": ("Design", "design_of"),
        "fisherleak.tables.features": ("Feature",),
        "fisherleak.tables.opening": ("example_table", "from_frame", "read_table"),
        "fisherleak.tables.parts": ("RawTable", "Room"),
        "fisherleak.tables.target": ("LabelRule", "Target"),
    },
)
