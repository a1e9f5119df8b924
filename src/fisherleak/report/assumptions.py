"""What an audit's figures hold under, in sentences: whom they bound, what is counted, what was decided about the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from fisherleak.auditing.exposure.revealed import MEANING, shares_unknown
from fisherleak.auditing.records import Audit
from fisherleak.tables import Target
from fisherleak.training.defaults import COUNTED
from fisherleak.training.noise_words import noise_words
from fisherleak.training.trained_model import Settings

LIMITS_NOTHING = "The policy limits nothing that is revealed: it has rules under [require] and [utility] only."

MOST_NAMED = 10
"""Columns that a sentence names at most."""
OWN_SHAPE = (
    "The covariance of the noise was computed from these rows, so it reveals something about them. Etas of rows and of their "
    "values count that. Attacks and etas of several rows together do not, and are a little too small. Shares of values count "
    "it: the covariance is computed again for each value, at the same scale. For noise of least loss shares are upper bounds. "
    "Membership, if it is measured, counts it too: the best test knows the covariance with and without the row, at the same "
    "scale."
)
DEVIATIONS = "standard deviations of its column (rounded to a public grid, within 9 %)"
WIDTHS = "units of the width of its declared bounds, divided by √12"
BOUNDED = "With so many rows and columns the figures on membership are upper bounds."

FIXED_SCALE = (
    "The scale of this noise was computed for a limit, and one row can change it. The figures here hold it fixed; a rule "
    "on membership counts that change."
)
POOLED = " Categories that few rows have are pooled, as in a release."


def assumptions_of(audit: Audit) -> list[str]:
    design = audit.design
    people = design.people
    known = "that row and all others" if people is None else "all rows of that person and of everyone else"
    return [
        "Eta bounds attackers who know all other data and estimate without bias: their standard deviation is at least 1/eta.",
        f"Etas of rows, groups and the whole data put all values on one scale. A numeric value counts in {_units(audit)}, a "
        f"category by its indicators, and the label counts {_label_unit(design.target)}. "
        "Etas of single columns are in the column's own unit.",
        f"{noise_words(audit.noise.noise, 4)} is added to every coefficient times its column's scale, and to the "
        f"intercept at public centres. {audit.noise.note}",
        *_shares_sentence(audit),
        COUNTED[audit.trained.public],
        "The categories that occur, l2 and the scale of the noise are public.",
        *((FIXED_SCALE,) if audit.released and audit.scale_by_limit else ()),
        audit.membership.note
        or f"Membership is measured beside eta, for an attacker who knows {known}. The number of rows is taken as public.",
        "This is not differential privacy and not anonymity.",
        "This record, the report and leakage.parquet are computed exactly from the data: keep them internal.",
        "Rows are counted from 1. Only training rows are measured, because the model was fitted on no others.",
        *(() if audit.trained.shaped_at is None else (OWN_SHAPE,)),
        *(() if audit.membership.kind != "upper bound" else (BOUNDED,)),
        *(() if people is None else (_people_sentence(audit.settings.person, people.count, design.n),)),
        *(() if len(design.target.classes) < 3 else (_classes_sentence(len(design.target.classes)),)),
        *design.decided,
    ]


def policy_scope(audit: Audit) -> str:
    """What the rules of a policy were checked for: which rows and which options, and whether they limit anything."""
    settings, design, plain = audit.settings, audit.design, Settings(audit.settings.target)
    other = [
        item.name
        for item in fields(Settings)
        if item.name not in ("target", "held_out", "seed", "rare")
        and getattr(settings, item.name) != getattr(plain, item.name)
    ]
    options = ", ".join(f"{name.replace('_', '-')} {_shown(getattr(settings, name))}" for name in other)
    told = (
        f"Checked for the model of {design.n:,} of {design.rows_read:,} rows (held-out {settings.held_out:g}, seed "
        f"{settings.seed}){f', with {options}' if options else ''}. No rule covers "
        "rows that are held out or columns that are left out."
        f"{POOLED if any(feature.pooled for feature in design.features) else ''}"
    )
    about = set() if audit.policy is None else set(audit.policy.sections)
    nothing = () if about - {"utility", "require"} else (LIMITS_NOTHING,)
    return " ".join((told, *_uncovered(audit), *nothing))


def _uncovered(audit: Audit) -> Iterator[str]:
    """What a reader may think that rules on columns and attacks cover: scales without bounds, and who lacks a number."""
    policy, features = audit.policy, audit.design.features
    if policy is None or not {"columns", "label", "attacks"} & set(policy.sections):
        return
    unbounded = [f"'{name}'" for name in audit.design.unbounded]
    if unbounded:
        yield (
            f"{_listed(unbounded)} {'has' if len(unbounded) == 1 else 'have'} no declared bounds: public centres and scales "
            "follow from the rows. In columns with rules, another value in one row does not change them. In other columns it "
            "may, and no rule covers that."
        )
    lacking = [f"'{feature.name}'" for feature in features if feature.gaps.rows and feature.kind == "number"]
    if lacking:
        yield f"No rule on columns covers whether a value of {_listed(lacking)} is missing."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _shown(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    if value and isinstance(value[0], tuple):  # ends by name, or categories
        return ", ".join(f"{name} {_ends(ends)}" for name, ends in value)
    return " ".join(map(str, value))


def _ends(given: Sequence[object]) -> str:
    """A column's bounds or categories, as the options take them."""
    numbers = [f"{end:.12g}" for end in given if isinstance(end, float)]
    return ":".join(numbers) if numbers else ",".join(map(str, given))


def _units(audit: Audit) -> str:
    """What a standard unit of a number is: from declared bounds, or from the rows."""
    if not audit.design.declared:
        return DEVIATIONS
    return f"{WIDTHS}, or, without bounds, in {DEVIATIONS}" if audit.design.unbounded else WIDTHS


def _label_unit(target: Target) -> str:
    """What a standard unit of the label is, the same whether or not the model is fitted in it."""
    if target.classes:
        return "as the model sees it"
    return f"in {DEVIATIONS if target.bounds is None else WIDTHS}"


def _classes_sentence(count: int) -> str:
    return (
        f"The label is one of {count} classes. It counts as {count} numbers: one for its own class, zero for the others. "
        "Changes keep their sum, and another class is a change of length √2. Eta of a label is per unit of such a change. "
        "It is not the chance of guessing the class."
    )


def _people_sentence(column: str | None, people: int, rows: int) -> str:
    return (
        f"The {rows} training rows belong to {people} people, by '{column}'. Etas of people, and of their values in a column, "
        "take all rows of the person together. A value that several of these rows have counts as one value. How many rows "
        "each person has is public."
    )


def unread_cells(audit: Audit, show_values: bool) -> list[str]:
    """Cells that are no numbers, where values may be shown."""
    return [f"Row {cell.row} of '{cell.column}' holds {cell.text!r}." for cell in audit.design.unread if show_values]


def _shares_sentence(audit: Audit) -> list[str]:
    """What a share is, or why there is none."""
    why = shares_unknown(audit.trained)
    return [MEANING if why is None else f"No share of a numeric value is stated: {why}."]
