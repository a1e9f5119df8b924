"""How many a release must be about before what it says of its columns tells of nobody."""

from __future__ import annotations

import numpy as np

from fisherleak.errors import InvalidInputError
from fisherleak.tables import Design

__all__ = ["FEWEST_IN_ALL", "FEWEST_ROWS", "check_enough", "sharing_classes"]

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
            f"A release needs at least {FEWEST_IN_ALL} {whose}, and {design.source} has {count}: scales, centres and ranges of "
            "columns, which are released on a grid, tell about single ones of so few."
        )
    _check_columns(design, whose)
    fewest = min(sharing_classes(design), default=FEWEST_ROWS)
    if fewest < FEWEST_ROWS:
        one = whose if fewest > 1 else "training row" if design.people is None else "person"
        raise InvalidInputError(
            f"A release names the classes of the target '{design.target.name}', and one of them has {fewest} {one}: at least "
            f"{FEWEST_ROWS} are needed, or its name tells of them. Unite it with another class in the table, or leave its rows "
            "out."
        )


def _check_columns(design: Design, whose: str) -> None:
    """Refuse columns of numbers that few have a value in: filling the others adds nobody to a scale, a centre or a range."""
    lacking = [feature for feature in design.features if feature.kind == "number" and feature.gaps.rows]
    few = {feature.name: feature.gaps.having for feature in lacking if feature.gaps.having < FEWEST_IN_ALL}
    if few:
        columns = ", ".join(f"'{name}' ({count})" for name, count in [*few.items()][:MOST_NAMED])
        columns += f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
        raise InvalidInputError(
            f"A release needs at least {FEWEST_IN_ALL} {whose} with a value in every column of numbers, and fewer have one in "
            f"{columns}: its scale, centre and range tell about single ones of so few. Leave it out with `drop`."
        )


def sharing_classes(design: Design) -> list[int]:
    """Training rows, or people, of each class; none for a target of numbers."""
    y, people = np.asarray(design.y), design.people
    return [
        int(np.sum(y == k)) if people is None else int(np.unique(people.of_row[y == k]).size)
        for k in range(len(design.target.classes))
    ]
