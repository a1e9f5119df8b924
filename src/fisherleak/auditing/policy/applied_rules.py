"""Which columns every rule of a policy is about, decided before anything is measured. A rule that nothing can check is refused.

What a number is measured with (spreads, kinds of columns, whose rows they are, groups, what is public) comes from the policy or
from the data. An option alone does not decide it: it could make any limit pass.

Also here: options that decide what a rule is measured with: refused where the policy does not state the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fisherleak._support.checks import nearest
from fisherleak._support.numbers import number
from fisherleak.auditing.exposure.revealed import (
    Limits,
    Yardsticks,
    exposure_at,
    label_spread,
    prior_spreads,
    yardsticks,
)
from fisherleak.auditing.policy.copied_data import refuse_copies, refuse_disguised, refuse_narrow, sampled_rows
from fisherleak.auditing.policy.disclosed_beside_noise import (
    NOT_REVEALED,
    refuse_bounds_of_few,
    refuse_told_anyway,
    refuse_told_by_model,
    refuse_told_of_model,
)
from fisherleak.auditing.policy.policy import EVERY, Policy
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.tables import Design, Feature
from fisherleak.tables.design.features import FAR_FILL
from fisherleak.training.defaults import PUBLIC
from fisherleak.training.trained_model import Settings, Trained

if TYPE_CHECKING:
    from fisherleak.auditing.records import Plan


def check_measured(policy: Policy, settings: Settings) -> None:
    """Refuse options that decide what is measured where the policy does not state them."""
    stated = policy.section("require")
    asked: dict[str, tuple[Any, str]] = {
        "public": (
            None if settings.public == PUBLIC[0] else settings.public,
            "what preprocessing learned is then not counted",
        ),
        "person": (settings.person, "it decides whose rows are measured together"),
        "decimal": (settings.decimal, "it decides the unit of numbers, and so what a limit in that unit means"),
    }
    if policy.section("groups"):
        asked["group"] = (settings.group, "it decides which groups are measured")
    unstated = [text for text in settings.na if text not in stated.get("na", ())]
    if unstated:
        raise InvalidInputError(
            f"`na` is {unstated[0]!r}, which the policy '{policy.source}' does not state: no rule covers the cells that it "
            f"makes missing. Leave it out, or write na = {[*settings.na]!r} under [require] in the policy."
        )
    for name, (value, why) in asked.items():
        if value is not None and name not in stated:
            line = f'{name} = "{value}" under [require] in the policy'
            # of fitted models the default is to take preprocessing as public, and to count it refuses many pipelines
            remedy = (
                f"Write {line}, or use public='{PUBLIC[0]}'" if name == "public" else f"Leave it out, or write {line}"
            )
            raise InvalidInputError(
                f"`{name}` is '{value}', which the policy '{policy.source}' does not state: {why}. {remedy}."
            )


def check_kinds(policy: Policy, design: Design) -> None:
    """Refuse columns that an option made numbers or categories, where the policy does not state their kind."""
    sections = policy.section("columns")
    if "kind" in sections.get(design.target.name, {}):
        raise InvalidInputError(
            f"The policy '{policy.source}' states a kind of the target '{design.target.name}', and the kind of a target "
            "follows from the model. Write model under [require] instead."
        )
    asked = {column.name for column in design.columns if not column.assumed}
    every = EVERY in sections or "attacks" in policy.sections
    for feature in (each for each in design.features if each.of is None):
        name, kind = feature.name, "number" if feature.has_share else "category"
        stated = sections.get(name, {}).get("kind")
        if stated not in (None, kind):
            option = "numbers" if stated == "number" else "categories"
            raise InvalidInputError(
                f"The policy '{policy.source}' takes '{name}' for a {stated}, and here it is a {kind}: use "
                f"`{option}={[name]!r}`."
            )
        if stated is None and name in asked and (every or name in sections):
            option = "numbers" if kind == "number" else "categories"
            raise InvalidInputError(
                f"An option decides that '{name}' is a {kind}, and the policy '{policy.source}' does not state it: leave "
                f'`{option}` out, or write kind = "{kind}" under [columns."{name}"] in the policy.'
            )


def check_marks(policy: Policy, design: Design, names: Collection[str]) -> None:
    """Refuse columns with limits in their unit whose marks are between decimals or thousands, where nothing settles which."""
    if "decimal" in policy.section("require"):
        return
    for name in names:
        if name in design.open_marks:
            raise InvalidInputError(
                f"The policy '{policy.source}' has a limit in the unit of '{name}': the table does not show whether the "
                'marks in its numbers are decimal marks or thousands separators. Write decimal = "," or "." under '
                "[require] in the policy, and give the same as `decimal`."
            )


def check_settled(policy: Policy, design: Design, ruled: Collection[str]) -> None:
    """Refuse what a few rows, or one person, settle: decimal marks, what columns are taken for, whether a row is a total.

    With another kind of one column each rule says something else, of other columns too: they are known, or not used.
    """
    member, target = bool(policy.section("membership")), design.target.name
    others = any(policy.section(name) for name in policy.sections if name not in (*NOT_REVEALED, "membership"))
    stated = {name for name, own in policy.section("columns").items() if "kind" in own}
    known = {feature.name for feature in design.features} | {target}
    whose = "one row" if design.people is None else "the rows of one person"
    for name in (n for n in design.marks if n in design.few_settle_marks & (known if member else known & {*ruled})):
        raise InvalidInputError(
            f"A few cells (at most {FEWEST_ROWS}, or {whose}) decide whether the marks in the numbers of '{name}' are decimal "
            "marks or thousands separators. So they decide the unit of the column, and no rule of the policy "
            f"'{policy.source}' counts that: write decimal = {design.marks[name]!r} under [require] in the policy, and "
            "give the same as `decimal`."
        )
    if design.header_by_one_row and (member or others):
        raise InvalidInputError(
            f"One row, or a few, decide how the header of {design.source} is read. Without them there might be other columns, "
            f"or a refusal, and no rule of the policy '{policy.source}' counts that: write a name for every column into its "
            "first line, with nothing but rows below, and give `header=True`."
        )
    for name in design.rarely_there if member or others else ():
        raise InvalidInputError(
            f"Without {whose} {design.source} has no column '{name}', and an option that names it is refused. No rule of the "
            f"policy '{policy.source}' counts that: write '{name}' into every record, as null where nothing is known, or name "
            "it in no option."
        )
    if member and design.summed:
        raise InvalidInputError(
            f"Without {whose} other last rows might be taken for totals and left out, or none. No rule of the policy "
            f"'{policy.source}' counts that: take the total out of the table, or keep all rows with `keep_total=True`."
        )
    if design.left_out_before is not None and (member or others):
        gone, other = design.left_out_before
        raise InvalidInputError(
            f"Rows that lack {', '.join(map(repr, gone))} were left out before it was known that the model does not use such a "
            f"column. Without {whose} the remaining rows might give '{other}' another use, which a release shows. No rule of "
            f"the policy '{policy.source}' counts that: give `drop={[*gone]!r}`."
        )
    categories = {column.name for column in design.columns if column.kind == "category"}
    for name, what in design.unsettled.items() if member or others else ():
        if what == "use" and name in categories and design.people is None and not others:
            continue  # rows that decide it are recognised
        if name in stated and what not in ("cells", "levels") and not member:
            continue  # with another kind than the policy states nothing is checked
        if name == target:
            raise InvalidInputError(
                f"Without {whose} the target '{name}' might be read as something else: numbers, text or dates. A release shows "
                f"that, and no rule of the policy '{policy.source}' counts it: mend the cells that are written in another way, "
                "or name what stands for a missing value with `na`."
            )
        if what == "levels":
            raise InvalidInputError(
                f"Without {whose} the categories of the column '{name}' might be spelt differently, or not be text. A "
                f"release shows that, and no rule of the policy '{policy.source}' counts it: mend the cells that are written "
                f"in another way, or give `drop={[name]!r}` and name the column in no other option."
            )
        if what == "cells":
            raise InvalidInputError(
                f"Without {whose} the column '{name}' might be read as other numbers, or as none. A release shows that, and "
                f"no rule of the policy '{policy.source}' counts it: mend the cells that are written in another way, or name "
                f"the column by `drop={[name]!r}` alone."
            )
        raise InvalidInputError(
            f"Without {whose} the column '{name}' might be taken for something else: numbers, a category, or nothing that is "
            f"used. A release shows that, and no rule of the policy '{policy.source}' counts it: leave it out with "
            f"`drop={[name]!r}`, or write its kind under [columns.{name}] in the policy and give `numbers={[name]!r}`, or "
            "`categories`."
        )


OF_NUMBERS = ("max_revealed", "min_error")
"""Rules that only a number can be held to: a category has neither a share nor an error in a unit."""
OF_UNITS = ("min_error", "max_eta")
"""Rules in a column's own unit."""
OF_ATTACKS = ("max_attack",)
OF_LABELS = ("rows", "groups", "attacks")
"""Sections whose rules count labels too."""
OTHER_UNIT = 3.0
"""Times a stated spread that the column's own may be: beyond, the column has another unit than the policy was written for."""


@dataclass(frozen=True)
class ColumnLimit:
    """One limit on a column or on the target, with the rule's name as the policy has it.

    ``every`` says that it comes from [columns."*"].
    """

    rule: str
    key: str
    limit: float
    every: bool = False


@dataclass(frozen=True)
class AppliedRules:
    """A policy, and what it means for one table.

    Attributes
    ----------
    columns : mapping of name to limits
        Of every column that the model uses.
    label : limits
    stated : mapping of name to number
        What an outsider starts from about a number, in its unit, as the policy states it.
    spreads : mapping of name to number
        The same, or the column's own spread where that is larger. The data decide the others.
    guessable : names
        Columns that [attacks] is about: categories, columns of two values, and numbers of few values.
    attacked : names
        Columns, or the target, that some rule needs attacks on.
    """

    policy: Policy
    columns: Mapping[str, tuple[ColumnLimit, ...]] = field(repr=False)
    label: tuple[ColumnLimit, ...] = field(repr=False)
    stated: Mapping[str, float] = field(repr=False)
    spreads: Mapping[str, float] = field(repr=False)
    guessable: tuple[str, ...]
    attacked: tuple[str, ...]

    def with_eta(self, design: Design) -> tuple[str, ...]:
        """Columns, and the target, with a limit on their eta."""
        limits = (*self.columns.items(), (design.target.name, self.label))
        return tuple(name for name, own in limits if any(each.key == "max_eta" for each in own))

    def limits(self, design: Design, priors: Sequence[float]) -> Limits:
        """Limits on values as etas in their own unit; ``priors`` are spreads in that unit, the label's last."""
        names = [feature.name for feature in design.features]
        found = {name: _etas(own, priors[names.index(name)]) for name, own in self.columns.items()}
        return Limits(found, _etas(self.label, priors[-1]))


def _etas(limits: Sequence[ColumnLimit], spread: float) -> dict[str, float]:
    """1 / eta is the least error of an unbiased attacker; a share has its eta in units of 1 / spread."""
    made: dict[str, Callable[[float], float]] = {
        "max_revealed": lambda value: exposure_at(value) / spread,
        "min_error": lambda value: 1.0 / value,
        "max_eta": float,
    }
    return {each.key: made[each.key](each.limit) for each in limits if each.key in made}


def apply_policy(design: Design, settings: Settings, plan: Plan) -> AppliedRules | None:
    """The policy of a plan, applied to the columns of a table; None where the plan has none."""
    policy = plan.policy
    if policy is None:
        return None
    found, ruled = _applied(policy, design, settings, plan)
    refuse_told_anyway(design, policy.source, ruled, found.spreads, plan.released)
    if design.held_out:
        _check_split(policy, design, ruled)
    if "model" not in policy.section("require") and any(name not in NOT_REVEALED for name in policy.sections):
        refuse_told_by_model(design, policy.source)
    if plan.quick and (found.attacked or policy.section("attacks")):
        raise InvalidInputError(
            f"`quick` attacks fewer rows and lets no attacker learn, and the policy '{policy.source}' limits attacks: leave "
            "`quick` out."
        )
    return found


def apply_to_model(policy: Policy, design: Design, settings: Settings, plan: Plan, leak: Leakage) -> AppliedRules:
    """A policy applied to a model that was fitted elsewhere; ``design`` is how its table would be read."""
    found, ruled = _applied(policy, design, settings, plan, of_table=False)
    shares = {feature.name for feature in design.features if feature.has_share}
    shares |= set() if design.target.classes else {design.target.name}
    for name in found.with_eta(design):
        if name not in shares:
            raise InvalidInputError(
                f"The policy '{policy.source}' limits max_eta of '{name}', which is no numeric column. For a fitted "
                "model, the effect of another category on the release is not measured: limit max_attack."
            )
    if design.people is not None and policy.section("groups"):
        raise InvalidInputError(
            f"The rules under [groups] of the policy '{policy.source}' cannot be checked for a fitted model with `person`: "
            "leave these rules out, or leave `person` out."
        )
    refuse_told_of_model(design, policy.source, ruled, found.spreads, leak)
    return found


def _applied(
    policy: Policy, design: Design, settings: Settings, plan: Plan, of_table: bool = True
) -> tuple[AppliedRules, set[str]]:
    """The rules, and the columns whose values they are about; ``of_table`` says that the model has the design's features."""
    _check_named(policy, design)
    check_measured(policy, settings)
    check_kinds(policy, design)
    rows = sampled_rows(design)
    values = any(policy.section(name) for name in ("columns", "label", "attacks"))
    refuse_copies(design, policy.source, rows, values, "max_gain" in policy.section("attacks"))
    features = [feature for feature in design.features if feature.of is None]
    refuse_disguised(design, policy, rows)
    columns = {feature.name: tuple(_of_column(policy, feature)) for feature in features}
    label = tuple(_of_label(policy, design))
    guessable = tuple(feature.name for feature in features if _is_guessed(policy, feature))
    stated = _stated_spreads(policy, design, plan.spread)
    own = _own_spreads(design, stated)
    spreads = {name: max(value, own[name]) for name, value in stated.items()}
    found = AppliedRules(policy, columns, label, stated, spreads, guessable, ())
    refuse_narrow(design, policy.source, _unstated_spreads(found, design), rows)
    attacked = tuple(_attacked(found, design))
    _check_some(policy, any((*columns.values(), label)), guessable)
    _check_missing(found, design, of_table)
    check_marks(policy, design, _in_units(found, design))
    ruled = _ruled(found, design, (*attacked, *(plan.attributes or ())))
    check_settled(policy, design, ruled)
    refuse_bounds_of_few(design, policy.source, plan.released)
    return replace(found, attacked=attacked), ruled


def yardsticks_at(trained: Trained, scale: float, plan: Plan, applied: AppliedRules | None) -> Yardsticks:
    """What etas of values are compared with at a scale of noise: half of a value, and the limits of a policy."""
    priors = prior_spreads(trained, plan.spread if applied is None else applied.spreads)
    limits = Limits() if applied is None else applied.limits(trained.design, priors.tolist())
    return yardsticks(trained, scale / trained.unit, priors, limits)


def _of_column(policy: Policy, feature: Feature) -> Iterator[ColumnLimit]:
    """A column's own limits, and those on every column that it has none of its own for."""
    name, own = feature.name, policy.limits_on(feature.name)
    for key in OF_NUMBERS:
        if key in own and not feature.has_share:
            what = "has two values" if feature.yes_no else "is a category"
            raise _unchecked(policy, f"columns.{name}.{key}", f"'{name}' {what}, which has no {_said(key)}")
    given = {**_on_every_column(policy, name, feature.has_share, bool(own), _is_guessed(policy, feature)), **own}
    yield from (ColumnLimit(f"columns.{name}.{key}", key, limit, key not in own) for key, limit in given.items())


def _of_label(policy: Policy, design: Design) -> Iterator[ColumnLimit]:
    """The target's limits: of two on the same, the stricter."""
    target, found = design.target, dict[str, ColumnLimit]()
    sections = (("label", policy.limits_on_label), (f"columns.{target.name}", policy.limits_on(target.name)))
    for place, given in sections:
        for key, limit in given.items():
            if key in OF_NUMBERS and target.classes:
                raise _unchecked(policy, f"{place}.{key}", f"'{target.name}' has classes, which have no {_said(key)}")
            known = found.get(key)
            if known is None or (limit > known.limit if key.startswith("min_") else limit < known.limit):
                found[key] = ColumnLimit(f"{place}.{key}", key, limit)
    for key, limit in _on_every_column(policy, target.name, not target.classes, bool(found), target.few).items():
        if key not in found and target.unlike_data and "model" not in policy.section("require"):
            raise InvalidInputError(
                f"`model` gives the target '{target.name}' another kind than its values suggest. The policy '{policy.source}' "
                f'does not state that kind, and its [columns."{EVERY}"] covers the target: leave `model` out, or write '
                f'model = "{target.kind}" under [require] in the policy.'
            )
        found.setdefault(key, ColumnLimit(f"columns.{target.name}.{key}", key, limit, every=True))
    yield from found.values()


def _is_guessed(policy: Policy, feature: Feature) -> bool:
    """Whether limits on attacks are about a column: a category, and a number of few values that the policy calls none."""
    stated = policy.section("columns").get(feature.name, {}).get("kind")
    return not feature.has_share or (feature.few and stated is None)


def _unstated_spreads(found: AppliedRules, design: Design) -> list[str]:
    """Columns, and the target, that have a limit on their share, and whose spread the policy does not state."""
    limits = (*found.columns.items(), (design.target.name, found.label))
    shared = [name for name, own in limits if any(each.key == "max_revealed" for each in own)]
    return [name for name in shared if name not in found.spreads]


def _on_every_column(policy: Policy, name: str, has_share: bool, own: bool, guessed: bool = False) -> dict[str, Any]:
    """What the section for every column means for this one; refused where it means nothing, and no other rule is there."""
    given = policy.section("columns").get(EVERY, {})
    fits = "max_revealed" if has_share else "max_attack"  # a number has a share, a category has guesses
    if given and fits not in given and not own:
        what = "a number" if has_share else "no number"
        raise InvalidInputError(
            f"[columns.\"{EVERY}\"] of the policy '{policy.source}' covers every column, and has no {fits} for '{name}', which "
            f'is {what}: add {fits} to it, or write a rule under [columns."{name}"].'
        )
    keys = (fits, "max_attack") if guessed else (fits,)
    return {key: given[key] for key in keys if key in given}


def _attacked(found: AppliedRules, design: Design) -> Iterator[str]:
    """Columns, and the target, that rules need attacks on, in their order."""
    policy = found.policy
    wanted = {*(found.guessable if policy.section("attacks") else ()), *policy.section("require").get("attributes", ())}
    for name, limits in (*found.columns.items(), (design.target.name, found.label)):
        if name in wanted or any(each.key in OF_ATTACKS for each in limits):
            yield name


def _ruled(found: AppliedRules, design: Design, attacked: Sequence[str]) -> set[str]:
    """Columns, and the target, whose values rules are about."""
    limited = {name for name, limits in (*found.columns.items(), (design.target.name, found.label)) if limits}
    return limited | (set(attacked) - {design.target.name} if found.policy.section("attacks") else set())


def _in_units(found: AppliedRules, design: Design) -> list[str]:
    """Columns, and the target, with a limit in their own unit that no stated spread confirms."""
    limits = (*found.columns.items(), (design.target.name, found.label))
    named = [name for name, own in limits if any(each.key in OF_UNITS for each in own)]
    return [name for name in named if name not in found.stated]


def _own_spreads(design: Design, stated: Collection[str]) -> dict[str, float]:
    """Standard deviations of the numbers, and of a numeric target that has a stated spread."""
    own = {feature.name: feature.prior for feature in design.features if feature.has_share}
    target = design.target.name
    return own | ({target: label_spread(design)} if target in stated and not design.target.classes else {})


def _stated_spreads(policy: Policy, design: Design, given: Mapping[str, float]) -> dict[str, float]:
    """Spreads that the policy states, in the unit of the data; those that were given must be the same."""
    target = design.target.name
    stated = {name: own["spread"] for name, own in policy.section("columns").items() if "spread" in own}
    label = policy.section("label").get("spread")
    if label is not None and stated.setdefault(target, label) != label:
        raise InvalidInputError(
            f"The policy '{policy.source}' states two spreads of the target '{target}': {label:g} under [label] and "
            f'{stated[target]:g} under [columns."{target}"]. Keep one.'
        )
    own = _own_spreads(design, stated)
    for name, value in stated.items():
        if name not in own:
            raise InvalidInputError(
                f"The policy '{policy.source}' states a spread of '{name}', which is no numeric column of this model: "
                "remove it."
            )
        if own[name] > OTHER_UNIT * value:
            raise InvalidInputError(
                f"The policy '{policy.source}' states a spread of {value:g} for '{name}', whose standard deviation is "
                f"{number(own[name], 2)}: check the unit. Limits on this column are in the unit of the policy."
            )
    for name, value in given.items():
        if stated.get(name) != value:
            where = "[label]" if name == target else f'[columns."{name}"]'
            raise InvalidInputError(
                f"`spread` of '{name}' is {value:g}, which the policy '{policy.source}' does not state: under a policy a "
                "spread comes from the policy or from the data. Leave it out, or write "
                f"spread = {value!r} under {where} in the policy."
            )
    return stated


def _check_split(policy: Policy, design: Design, ruled: Collection[str]) -> None:
    """Refuse rules on who was there, or on classes, for a release whose split follows from all rows and their classes.

    Rows are held out by a draw over their numbers, class by class. Without a row, or with another class of one, other rows are
    held out, and the release is one of another table: by more than any rule that holds the split fixed counts.
    """
    target = design.target
    about = ["[membership]"] * bool(policy.section("membership"))
    limited = target.name in ruled or any(policy.section(name) for name in OF_LABELS)
    about += [f"the classes of '{target.name}'"] * (bool(target.classes) and limited)
    if about:
        raise InvalidInputError(
            f"The policy '{policy.source}' has rules on {' and '.join(about)}, and the release holds rows out. If one row "
            "were removed, or had another class, other rows would be held out, and no rule counts that. Use `held_out=0`: "
            "the model is then trained on all rows."
        )


def _check_named(policy: Policy, design: Design) -> None:
    """Refuse rules for columns that the table does not have, or that the model does not use."""
    known = {column.name: column for column in design.columns}
    for name in policy.section("columns"):
        if name == EVERY:
            continue
        if name not in known:
            raise InvalidInputError(
                f"The policy has a rule for the column '{name}', which the table does not have. {nearest(name, [*known])}"
            )
        column = known[name]
        if column.kind not in ("number", "category", "target"):
            told = {
                "person": "is the person column: limit what is revealed about people under [rows] and [membership]",
                "group": "only forms the groups: limit what is revealed about them under [groups]",
            }.get(column.kind, f"is left out, because it {_shortly(column.note)}")
            told = "is left out as asked" if column.note == "left out as asked" else told
            raise InvalidInputError(
                f"The policy '{policy.source}' has a rule for '{name}', and nothing can check it: this column {told}. Use the "
                "column in the model, or remove the rule."
            )


def _check_some(policy: Policy, values: bool, guessable: Sequence[str]) -> None:
    """Refuse a policy without a single rule that applies, and a section about columns that are not there."""
    if policy.section("attacks") and not guessable:
        raise InvalidInputError(
            f"The rules under [attacks] of the policy '{policy.source}' cannot be checked: the model uses no categorical "
            "column and no column of two values. Remove them; max_revealed limits numeric columns."
        )
    others = any(policy.section(name) for name in policy.sections if name not in ("columns", "label"))
    if not values and not others:
        raise InvalidInputError(
            f"No rule of the policy '{policy.source}' applies: it has spread and kind only. Write a limit."
        )


def _check_missing(found: AppliedRules, design: Design, of_table: bool) -> None:
    """Refuse rules where the model uses who lacks a value, which none of them is about. Refuse a fill that tells them apart."""
    policy = found.policy
    every = policy.section("attacks") or "max_attack" in policy.section("columns").get(EVERY, {})
    for feature in design.features:
        name = feature.name if feature.of is None else feature.of
        lacks = feature.of is not None or feature.filled
        remedy = f"leave such rows out with `missing='drop'`, or the column with `drop={[name]!r}`."
        if lacks and (every or any(each.key in OF_ATTACKS for each in found.columns[name])):
            on = "every column" if every else f"'{name}'"
            raise InvalidInputError(
                f"The policy '{policy.source}' limits attacks on {on}. The model also uses whether a value of '{name}' is "
                f"missing, and no attack guesses that: {remedy}"
            )
        if of_table and feature.of is not None and found.columns[name]:
            raise InvalidInputError(
                f"The policy '{policy.source}' limits what is revealed of '{name}'. The model also uses whether such a value "
                f"is missing, and no rule limits what is revealed of that: {remedy}"
            )
        if feature.filled_far and found.columns[name]:
            raise InvalidInputError(
                f"Missing values of '{name}' are filled with the centre of its bounds, which is far from the other values "
                f"(beyond them, or more than {FAR_FILL:g} spreads from their mean). That shows who lacks a value, and no rule "
                f"of the policy '{policy.source}' counts that: declare bounds whose centre lies among the values, {remedy}"
            )


def _unchecked(policy: Policy, rule: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"The rule {rule} of the policy '{policy.source}' cannot be checked: {why}. Use max_attack or max_eta instead."
    )


def _said(key: str) -> str:
    return {"max_revealed": "share that is revealed", "min_error": "error in a unit"}[key]


def _shortly(note: str) -> str:
    """Why a column is left out, without what keeps it."""
    return note.partition(";")[0]
