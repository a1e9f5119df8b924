"""What an audit's figures hold under, in sentences: whom they bound, what is counted, what was decided about the table."""

from __future__ import annotations

from fisherleak.audit.model import COUNTED
from fisherleak.audit.noises import noise_words
from fisherleak.audit.records import Audit
from fisherleak.audit.revealed import MEANING, shares_unknown

__all__ = ["assumptions_of", "unread_cells"]


OWN_SHAPE = (
    "The shape of the noise is that of these rows. What it tells by itself is counted in etas of rows and of their values; "
    "presence, attacks and etas of several rows together hold it fixed, and are a little too small."
)


def assumptions_of(audit: Audit) -> list[str]:
    design = audit.design
    own = "in standard deviations too" if design.target.standardised else "as the model sees it"
    people = design.people
    known = "all other rows and that one" if people is None else "all rows of all others and those of that person"
    return [
        "Eta bounds unbiased attackers who know all other data: they do no better than a standard deviation of 1/eta.",
        "Etas of rows, groups and the whole data are in standard units: every number counts in standard deviations of its "
        f"column (rounded to a public grid, within 9 %), every category by its indicators, and the label counts {own}. Etas of "
        "single columns are in the column's own unit.",
        f"{noise_words(audit.noise.noise, 4)} is added to every coefficient per standard unit of its column, and to the "
        f"level at public centres. {audit.noise.note}",
        *_shares_sentence(audit),
        COUNTED[audit.trained.public],
        "The categories that occur, l2 and the scale of the noise are public.",
        audit.presence.note
        or f"Whether someone is in the table is measured beside eta, for attackers who know {known}, and are not told how many "
        "there are.",
        "This is not differential privacy and not anonymity.",
        "This record, the report and leakage.parquet are computed exactly from the data: they stay in the house.",
        "Rows are counted from 1; only training rows are measured, because the model knows no others.",
        *(() if audit.trained.shaped_at is None else (OWN_SHAPE,)),
        *(() if people is None else (_people_sentence(audit.settings.person, people.count, design.n),)),
        *(() if len(design.target.classes) < 3 else (_classes_sentence(len(design.target.classes)),)),
        *design.decided,
    ]


def _classes_sentence(count: int) -> str:
    return (
        f"The label is one of {count} classes, counted as {count} numbers of which its own is one and the others are zero, "
        "moved so that their sum stays: another class is a move of length √2. Eta of a label is per unit of such a move, and "
        "no chance of guessing the class."
    )


def _people_sentence(column: str | None, people: int, rows: int) -> str:
    return (
        f"The {rows} training rows belong to {people} people, by '{column}': all rows of a person are one set, and where etas "
        "of people or of their values in a column are said, all rows of the person are taken together. How many rows each "
        "person has is public."
    )


def unread_cells(audit: Audit, show_values: bool) -> list[str]:
    """Cells that are no numbers, where values may be shown."""
    return [f"Row {cell.row} of '{cell.column}' holds {cell.text!r}." for cell in audit.design.unread if show_values]


def _shares_sentence(audit: Audit) -> list[str]:
    """What a share is, or why there is none."""
    why = shares_unknown(audit.trained)
    return [MEANING if why is None else f"No share of a number is stated: {why}."]
