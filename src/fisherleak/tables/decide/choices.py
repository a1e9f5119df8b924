"""What the user says about columns, and what names and types of columns tell without a look at their values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fisherleak._support.checks import nearest
from fisherleak.errors import InvalidInputError

__all__ = [
    "INDEX_LEVEL",
    "MOST_FORCED",
    "ROW_NAMES",
    "Choices",
    "called_ids",
    "check_choices",
    "is_plain",
    "looks_called_id",
    "names_somebody",
    "sort_of",
    "spelled",
]

LABEL = "label"
"""What bounds may call the target, where no column is called so."""
WAYS = ("impute", "drop")
"""What may become of rows that lack a column."""
MOST_FORCED = 1000
"""Levels past which even a category named by the user is refused: each would be a coefficient."""
ID_NAMES = {
    *(
        "id",
        "ids",
        "index",
        "row",
        "rows",
        "rownames",
        "rownumber",
        "rownum",
        "record",
        "recno",
        "uuid",
        "guid",
        "key",
        "ssn",
    ),
    *(
        "mrn",
        "nhs",
        "nhsnumber",
        "pid",
        "pidnum",
        "pidp",
        "subject",
        "subj",
        "subjno",
        "subno",
        "subnum",
        "subjectno",
        "obs",
    ),
    *(
        "obsno",
        "obsnum",
        "observation",
        "case",
        "caseno",
        "casenum",
        "casenumber",
        "caseid",
        "person",
        "patient",
        "respondent",
    ),
    *(
        "participant",
        "serial",
        "serialno",
        "sno",
        "nr",
        "no",
        "idnum",
        "idno",
        "idnr",
        "idcode",
        "hhid",
        "ptid",
        "ptno",
        "nosub",
    ),
    *(
        "seqn",
        "seqno",
        "code_id",
        "passport",
        "x1",
        "v1",
        "level_0",
        "accountnumber",
        "account",
        "memberno",
        "studentno",
    ),
}
"""Names of identifiers and row numbers, in small letters without signs."""
ID_ENDS = re.compile(r"(?:^|[^A-Za-z])(?:id|ID|Id|uuid|guid|ssn|mrn|SSN|MRN)\d?$|[a-z](?:ID|Id)\d?$")
ID_STARTS = re.compile(r"^(?:id|ID)[_. ]")
NUMBERED = re.compile(
    r"(?:patient|person|subject|member|client|customer|employee|student|participant|respondent|policy|insurance|claim|record)"
    r"s?(?:no|nr|num|number|nbr)"
)
"""Names of numbers that people and their records are called by, in small letters without signs."""
ID_WORDS = {
    *(
        "acid",
        "aid",
        "amid",
        "android",
        "arid",
        "asteroid",
        "bid",
        "covid",
        "fluid",
        "grid",
        "hybrid",
        "humid",
        "invalid",
        "kid",
    ),
    *(
        "laid",
        "lipid",
        "liquid",
        "maid",
        "mid",
        "opioid",
        "overpaid",
        "paid",
        "plaid",
        "prepaid",
        "rapid",
        "raid",
        "rid",
        "said",
    ),
    *(
        "solid",
        "spheroid",
        "steroid",
        "thyroid",
        "timid",
        "unpaid",
        "valid",
        "void",
        "typhoid",
        "aminoacid",
        "hid",
        "lid",
        "skid",
    ),
}
"""Words that end in id and are none."""
ROW_NAMES = re.compile(r"^(?:X|X\.\d+|\.\.\.\d+|[Uu]nnamed.*|column \d+'*|__index_level_\d+__)$")
"""What programs call a column of row numbers that has no name."""
INDEX_LEVEL = re.compile(r"^__index_level_\d+__$")
"""What pandas calls an index without a name in a file."""
SOMEBODY = re.compile(
    r"(?:person|patient|pat|pt|p|subj|subject|sub|indiv|individual|hh|household|fam|family|member|client|customer|cust|user|student|stud|"
    r"pupil|child|mother|teacher|school|class|clinic|hospital|employee|emp|worker|firm|company|resp|respondent|participant)?"
    r"ids?|(?:id|pid)(?:num|no|nr|code|p)|pidp|subj|subj?(?:no|num)|person|patient|subject|respondent|participant|ptno|nosub|ssn|mrn"
)
"""Names of identifiers that are nothing else, in small letters without signs."""
BY_PLACE = re.compile(r"^column \d+'*$")
"""What columns are called here that have no name."""


@dataclass(frozen=True)
class Choices:
    """What the user says about the columns."""

    target: str
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id: str | None = None
    group: str | None = None
    person: str | None = None
    """The column that tells which rows belong to one person."""
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Levels of categories that are declared, by column: they are public, whether a row has them or not."""
    rare: int = 0
    """Levels that are not declared and have fewer training rows than this are pooled into one."""
    decimal: str | None = None
    """The decimal mark of numbers that are written as text; found from each column by default."""
    na: tuple[str, ...] = ()
    """What counts as missing beside the usual marks."""
    unite: tuple[str, ...] = ()
    """Columns whose texts are one where they differ in case or blanks only."""
    keep_total: bool = False
    """Whether a last row that holds totals is kept."""
    missing: str = "impute"
    """What becomes of rows that lack a column: "impute" fills it inside the model, "drop" leaves them out."""
    bounds: tuple[tuple[str, tuple[float, float]], ...] = ()
    """(low, high) of numbers and of the target that are declared, by column: centre and scale follow from them."""

    def within(self, name: str) -> tuple[float, float] | None:
        """The bounds that were declared for a column."""
        return dict(self.bounds).get(name)


def spelled(names: Sequence[str], choices: Choices) -> Choices:
    """The same choices with names as the table has them: blanks around a name need not be given."""
    bare: dict[str, list[str]] = {}
    for name in names:
        bare.setdefault(name.strip(), []).append(name)

    def own(name: str) -> str:
        found = bare.get(str(name).strip(), [])
        return found[0] if name not in names and len(found) == 1 else name

    lists: dict[str, Any] = {
        key: tuple(own(name) for name in getattr(choices, key)) for key in ("numbers", "categories", "drop", "unite")
    }
    single: dict[str, Any] = {
        key: None if getattr(choices, key) is None else own(getattr(choices, key)) for key in ("id", "group", "person")
    }
    target = own(choices.target)
    bounds = tuple(
        (target if name == LABEL and LABEL not in names else own(name), ends) for name, ends in choices.bounds
    )
    return replace(choices, target=target, bounds=bounds, **lists, **single)


def check_choices(names: Sequence[str], choices: Choices) -> None:
    """Columns that exist, and one role for each."""
    said: list[tuple[str, str | None]] = [("target", choices.target)]
    said += [("numbers", name) for name in choices.numbers] + [("categories", name) for name in choices.categories]
    said += [("drop", name) for name in choices.drop] + [("unite", name) for name in choices.unite]
    check_levels(names, choices)
    check_bounds(names, choices)
    if choices.missing not in WAYS:
        raise InvalidInputError(f"`missing` must be one of {', '.join(WAYS)}; got {choices.missing!r}.")
    single = {"id": choices.id, "person": choices.person, "group": choices.group}
    said += [(role, name) for role, name in single.items() if name is not None]
    for role, name in said:
        if name not in names:
            raise InvalidInputError(
                f"`{role}` names the column '{name}', which is not there. {nearest(str(name), names)}"
            )
    roles: dict[str, str] = {}
    for role, name in said:
        if role == "unite" or (role == "group" and name not in (choices.target, choices.id, choices.person)):
            continue  # groups may be formed by a column that has another role
        if name in roles and roles[name] != role and (roles[name], role) != ("target", "categories"):
            raise InvalidInputError(
                f"Column '{name}' is named by `{roles[name]}` and by `{role}`: it can have one role only."
            )
        roles[str(name)] = role


def check_levels(names: Sequence[str], choices: Choices) -> None:
    """Declared levels of columns that exist, each column once."""
    seen: set[str] = set()
    for name, levels in choices.levels:
        if name not in names:
            raise InvalidInputError(f"`levels` names the column '{name}', which is not there. {nearest(name, names)}")
        if name in seen or not levels or len(set(levels)) != len(levels):
            raise InvalidInputError(f"`levels` must list the levels of column '{name}' once, each of them once.")
        seen.add(name)


def check_bounds(names: Sequence[str], choices: Choices) -> None:
    """Declared bounds of columns that exist, each column once: two finite numbers, the first the smaller."""
    seen: set[str] = set()
    for name, ends in choices.bounds:
        if name not in names:
            raise InvalidInputError(f"`bounds` name '{name}', which is no column. {nearest(name, names)}")
        if name in seen:
            raise InvalidInputError(f"`bounds` name '{name}' twice: give each column once.")
        numbers = len(ends) == 2 and all(isinstance(end, (int, float)) and math.isfinite(end) for end in ends)
        if not (numbers and ends[0] < ends[1]):
            raise InvalidInputError(
                f"`bounds` of '{name}' must be two finite numbers, the first the smaller; got {ends!r}."
            )
        seen.add(name)


def looks_called_id(name: str) -> bool:
    """Whether a column's name is one of those that identifiers and row numbers have."""
    name = name.strip()
    bare = re.sub(r"[\W_]", "", name).lower()
    if bare in ID_NAMES or ROW_NAMES.match(name) or NUMBERED.fullmatch(bare):
        return True
    joined = bare.endswith("id") and bare.isalpha() and bare not in ID_WORDS
    return bool(joined or ID_ENDS.search(name) or ID_STARTS.match(name))


def names_somebody(name: str) -> bool:
    """Whether a name is that of an identifier and of nothing else: id, person, school_id; not no, case, index."""
    bare = re.sub(r"[\W_]", "", name).lower()
    return bool(SOMEBODY.fullmatch(bare) or NUMBERED.fullmatch(bare))


def called_ids(names: Sequence[str]) -> frozenset[str]:
    """The columns that are called as identifiers are; none where all are called by their place, as without a header."""
    by_place = len(names) > 1 and all(BY_PLACE.match(name) for name in names)
    return frozenset() if by_place else frozenset(name for name in names if looks_called_id(name))


def is_plain(kind: Any) -> bool:
    """Whether an Arrow type has values that can be told apart and shown."""
    return sort_of(kind) in ("number", "text", "bool", "date")


def sort_of(kind: Any) -> str:
    """What an Arrow type holds: number, text, bool, date or other."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return sort_of(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "bool"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_temporal(kind):
        return "date"
    return "other"
