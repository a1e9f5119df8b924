"""Tables in files: read, columns sorted into kinds, rows and features made ready for a linear model."""

from fisherleak.rows.moments import Moments
from fisherleak.tables.choices import Choices
from fisherleak.tables.column_kinds import Column
from fisherleak.tables.design import Design, design_of
from fisherleak.tables.features import Feature
from fisherleak.tables.opening import example_table, from_frame, read_table
from fisherleak.tables.parts import RawTable, Room
from fisherleak.tables.target import LabelRule, Target

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
