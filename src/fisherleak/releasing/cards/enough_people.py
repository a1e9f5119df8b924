"""How many a release must be about before what it says of its columns tells of nobody."""

from __future__ import annotations

import numpy as np

from fisherleak.errors import InvalidInputError
from fisherleak.tables import Design, Feature

FEWEST_IN_ALL = 30
"""Training rows, or people, of a table that is released, and those with a value in each of its columns of numbers."""
FEWEST_ROWS = 5
"""Levels that are not declared, and classes, that fewer training rows or people have are not named in a release."""
MOST_NAMED = 6
"""Columns that a refusal names."""


def check_enough(design: Design) -> None:
    """Refuse tables so small, and classes so rare, that scales, centres, ranges or names tell about single people."""
    count, whose = (design.n, "training rows") if design.people is None else (design.people.count, "people")
    if count < FEWEST_IN_ALL:
        raise InvalidInputError(
            f"A release needs at least {FEWEST_IN_ALL} {whose}, and {design.source} has {count}: of so few, the released "
            "scales, centres and ranges of columns reveal single ones, although they are rounded."
        )
    _check_columns(design, whose)
    fewest = min(sharing_classes(design), default=FEWEST_ROWS)
    if fewest < FEWEST_ROWS:
        one = whose if fewest > 1 else "training row" if design.people is None else "person"
        raise InvalidInputError(
            f"A release names the classes of the target '{design.target.name}', and one of them has {fewest} {one}: at least "
            f"{FEWEST_ROWS} are needed, or the name of the class reveals them. Unite it with another class in the table, or "
            "leave its rows out."
        )


def _check_columns(design: Design, whose: str) -> None:
    """Refuse columns of numbers that few have a value in: filling the others adds nobody to a scale, a centre or a range."""
    lacking = [feature for feature in design.features if feature.kind == "number" and feature.gaps.rows]
    few = {feature.name: feature.gaps.having for feature in lacking if feature.gaps.having < FEWEST_IN_ALL}
    if few:
        columns = ", ".join(f"'{name}' ({count})" for name, count in [*few.items()][:MOST_NAMED])
        columns += f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
        raise InvalidInputError(
            f"A release needs at least {FEWEST_IN_ALL} {whose} with a value in every numeric column, and fewer have one in "
            f"{columns}: of so few, its scale, centre and range reveal single ones. Leave it out with `drop`."
        )


def sharing_classes(design: Design) -> list[int]:
    """Training rows, or people, of each class; none for a target of numbers."""
    y, people = np.asarray(design.y), design.people
    return [
        int(np.sum(y == k)) if people is None else int(np.unique(people.of_row[y == k]).size)
        for k in range(len(design.target.classes))
    ]


def bounds_of_few(design: Design) -> list[str]:
    """Numbers of which a declared bound is the least or largest value, to the last digit, and too few rows, or people, have it.

    Whole numbers of two significant digits at most, and numbers of one, are known without a table.
    """
    found = []
    for name, bounds in design.declared.items():
        feature = next((feature for feature in design.features if feature.name == name), None)
        known = design.target.known if feature is None else feature.known
        ends = {
            end for end, own in zip(bounds, (known.low, known.high), strict=True) if end == own and not _is_round(end)
        }
        if ends and (design.lazy or any(_sharing(design, feature, end) < FEWEST_ROWS for end in ends)):
            found.append(name)
    return found


def _is_round(number: float) -> bool:
    return float(f"{number:.0e}") == number or (number.is_integer() and float(f"{number:.1e}") == number)


def _sharing(design: Design, feature: Feature | None, value: float) -> int:
    """How many rows, or people, have a value of a number, or of the target."""
    own = design.labels() if feature is None else design.raw(feature)
    mine = np.isclose(np.asarray(own, dtype=np.float64), value, rtol=1e-9, atol=0.0)
    if feature is not None:
        mine &= ~design.lacking(feature)
    return int(mine.sum() if design.people is None else np.unique(design.people.of_row[mine]).size)
