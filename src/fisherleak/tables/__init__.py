"""From files to columns made ready for a linear model: may import ``rows`` and ``_support``; never ``engine`` or ``models``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily

if TYPE_CHECKING:
    from fisherleak.rows.summary import Moments as Moments
    from fisherleak.tables.decide.choices import Choices as Choices
    from fisherleak.tables.decide.column_kinds import Column as Column
    from fisherleak.tables.decide.target import LabelRule as LabelRule
    from fisherleak.tables.decide.target import Target as Target
    from fisherleak.tables.design.design import Design as Design
    from fisherleak.tables.design.design import design_of as design_of
    from fisherleak.tables.design.features import Feature as Feature
    from fisherleak.tables.read.opening import example_table as example_table
    from fisherleak.tables.read.opening import from_frame as from_frame
    from fisherleak.tables.read.opening import read_table as read_table
    from fisherleak.tables.read.parts import RawTable as RawTable
    from fisherleak.tables.read.parts import Room as Room

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
        "fisherleak.rows.summary": ("Moments",),
        "fisherleak.tables.decide.choices": ("Choices",),
        "fisherleak.tables.decide.column_kinds": ("Column",),
        "fisherleak.tables.design.design": ("Design", "design_of"),
        "fisherleak.tables.design.features": ("Feature",),
        "fisherleak.tables.read.opening": ("example_table", "from_frame", "read_table"),
        "fisherleak.tables.read.parts": ("RawTable", "Room"),
        "fisherleak.tables.decide.target": ("LabelRule", "Target"),
    },
)
