"""An identifier of people that repeats: rows are then visits, or years, of the same people, and not people.

A column counts as one by its name, which is that of an identifier of people and of nothing else, and by its values: many, of
which more than hardly any occur several times. Nothing is decided: a sentence says so, with the argument that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fisherleak.tables.decide.choices import Choices, is_plain, sort_of
from fisherleak.tables.decide.identifier_names import called_ids, names_people
from fisherleak.tables.decide.profile import SKETCHED, Profile, profiles_of
from fisherleak.tables.read.parts import RawTable

__all__ = ["RepeatedIdentifier", "repeated_identifier"]

FEWEST = 20
"""Different values past which a column is an identifier: fewer may be codes of something else."""
PATIENT = re.compile(r"pat|pt|mrn|nhs|nosub|subj")
"""Names of those whose rows are visits."""
TEXTS = {"subject"}
"""Names that are also those of categories: of texts they count where these have digits."""


@dataclass(frozen=True)
class RepeatedIdentifier:
    """The column, how many different values it has, whether that is exact, and how many rows there are.

    ``missing`` of them lack it; ``dropped`` is whether it was left out as asked.
    """

    column: str
    values: int
    exact: bool
    rows: int
    missing: int = 0
    dropped: bool = False

    @property
    def fact(self) -> str:
        """What is the case, in a sentence."""
        about = "" if self.exact else "about "
        bare = re.sub(r"[\W_]", "", self.column).lower()
        what = "rows are visits" if PATIENT.match(bare) else "several rows belong to one"
        return f"{self.column} repeats ({about}{self.values:,} values in {self.rows:,} rows): {what}."

    @property
    def note(self) -> str:
        """The same with what to do."""
        given = f"`person={self.column!r}`"
        given += f" in place of `drop={[self.column]!r}`" * self.dropped
        if self.missing:  # every row needs one
            return f"{self.fact} {self.missing:,} of them lack it: give each a value of its own there, and add {given}."
        return f"{self.fact} Add {given}."


def repeated_identifier(
    raw: RawTable, profiles: Mapping[str, Profile], choices: Choices, lazily: bool
) -> RepeatedIdentifier | None:
    """The identifier of people that repeats, that of most values; None where there is none, or whose rows these are was said.

    Columns that are left out count too: whose rows they are does not change with that.
    """
    if choices.person is not None:
        return None
    told = {choices.target, choices.id, choices.group, *choices.numbers, *choices.categories}
    called = called_ids(raw.names)
    names = [n for n in raw.names if n in called and n not in told and names_people(n) and is_plain(raw.kind(n))]
    left = tuple(name for name in names if name not in profiles)
    if left:
        others = replace(raw, names=left, kinds=tuple(raw.kind(name) for name in left), parts=tuple(raw.parts))
        profiles = {**profiles, **profiles_of(others, Choices(choices.target), lazily)}
    found = [
        RepeatedIdentifier(name, *_different(profiles[name]), raw.rows, profiles[name].missing, name in choices.drop)
        for name in names
        if _repeats(name, sort_of(raw.kind(name)), profiles[name])
    ]
    return max(found, key=lambda each: each.values, default=None)


def _repeats(name: str, sort: str, profile: Profile) -> bool:
    """Whether many values occur, and more than hardly any of them several times."""
    whole = sort == "text" or (profile.numbers is not None and profile.numbers.nearly_whole)
    words = profile.levels is not None and not any(any(c.isdigit() for c in str(level)) for level in profile.levels)
    if re.sub(r"[\W_]", "", name).lower() in TEXTS and sort == "text" and words:
        return False
    many = len(profile.sketch) > FEWEST and not profile.distinct and not profile.nearly_distinct
    return whole and many


def _different(profile: Profile) -> tuple[int, bool]:
    """How many different values there are, and whether that is exact: else to two digits."""
    exact = len(profile.sketch) < SKETCHED
    return (int(profile.different) if exact else int(float(f"{profile.different:.1e}"))), exact
