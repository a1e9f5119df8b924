r"""Values that are told at any noise, by what a release says beside it: refused where a policy limits what is revealed of them.

Without declared bounds a column's public centre and scale follow from the rows, on a grid; without declared levels so do the
categories that are named. Where another value of one row changes them, whoever knows all other rows reads that value off the
card, and no figure of the noise counts it. A value may be anything within the column's range and within ``REACH`` spreads of
its mean: what lies beyond is less than :math:`2 z \phi(z)` = 0.11 % of the variance of a normal belief, z = 4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fisherleak.auditing.exposure.recognised_by_names import off_common
from fisherleak.auditing.policy.policy import Policy
from fisherleak.auditing.records import Plan
from fisherleak.engine.noise.calibrated import has_own_shape
from fisherleak.errors import InvalidInputError
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS, sharing_classes
from fisherleak.releasing.noise.stable_under_replacement import kind_settled, most_rows, unit_settled
from fisherleak.rows.moments import Moments
from fisherleak.tables import Design, Feature
from fisherleak.training.model_kinds import kind_of
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Trained

__all__ = ["refuse_told_anyway", "refuse_told_by_model", "refuse_uncounted"]

REACH = 4.0
"""Spreads around the mean within which a value may lie."""
NOT_REVEALED = ("utility", "require")
"""Sections that limit nothing that is revealed."""


def refuse_told_anyway(
    design: Design, source: str, ruled: Collection[str], spreads: Mapping[str, float], released: bool
) -> None:
    """Refuse columns, and the target, that rules are about and of which another value of one row changes what is public.

    ``spreads`` are those that a policy states, in the columns' own units; ``released`` is whether a file is checked.
    """
    features = [feature for feature in design.features if feature.name in ruled]
    who, again = "row" if design.people is None else "person", ", and release the model again" * released
    unframed = [name for name in _numbers(design, features, ruled) if not _stays(design, name, spreads.get(name, 0.0))]
    if unframed:
        wanted = ", ".join(f"{name!r}: (low, high)" for name in unframed)
        raise InvalidInputError(
            f"The policy '{source}' limits what is revealed of {_listed(unframed)}, without declared bounds: another value of "
            f"one {who} can change the public centre or scale, which tells that value at any noise. Declare the least and the "
            f"largest value that are possible with `bounds={{{wanted}}}`{again}."
        )
    thin = _thin(design, features)
    for feature in features:
        if feature.kind == "category" and feature.at_edge:
            raise InvalidInputError(
                f"The policy '{source}' limits what is revealed of '{feature.name}': another value of one {who} can change "
                "which of its categories a release names, which tells that value at any noise. Declare all of them with "
                f"`levels`, '(missing)' too where some are missing{again}."
            )
        if feature.name in thin:
            raise InvalidInputError(
                f"The policy '{source}' limits what is revealed of '{feature.name}', of which so few have another value than "
                f"most that a release without one {who} would leave it out, which tells that value at any noise: leave it out "
                f"with `drop={[feature.name]!r}`{again}."
            )
    target = design.target
    if target.name in ruled and target.classes and min(sharing_classes(design)) <= FEWEST_ROWS:
        raise InvalidInputError(
            f"The policy '{source}' limits what is revealed of the target '{target.name}', one class of which so few have that "
            f"without one {who} no release would be made, which tells that class at any noise. Unite it with another class in "
            "the table, or leave its rows out."
        )


def _thin(design: Design, features: Collection[Feature]) -> set[str]:
    """Numbers that a release without one row, or person, might leave out."""
    few = [feature for feature in features if feature.kind == "number" and feature.few]
    others = zip(few, off_common(design, few), strict=True)
    return {feature.name for feature, (_, count) in others if count <= FEWEST_ROWS}


def refuse_told_by_model(design: Design, source: str, released: bool) -> None:
    """Refuse a kind of model that nobody stated and that one row's label decides: the card tells it, at any noise.

    A card has the kind and not whether it was given: it counts as found from the rows wherever these would give it.
    """
    target = design.target
    found = kind_of(target.kind).labels.assumed and not target.unlike_data
    if target.assumed or (released and found):
        if kind_settled(replace(design, target=replace(target, assumed=True))):
            return
        who, given = (
            "row" if design.people is None else "person",
            "" if released else f"give `model={target.kind!r}`, or ",
        )
        raise InvalidInputError(
            f"The policy '{source}' limits what is revealed of the target '{target.name}', or who is in the table, and the "
            f"labels of one {who} can decide that the model is {target.kind}, which a release tells at any noise: "
            f'{given}write model = "{target.kind}" under [require] in the policy.'
        )


def _numbers(design: Design, features: Collection[Feature], ruled: Collection[str]) -> list[str]:
    """Columns of numbers, and the target, whose centre and scale follow from the rows."""
    names = {feature.name for feature in features} | ({design.target.name} & set(ruled))
    return [name for name in design.unbounded if name in names]


def _stays(design: Design, name: str, spread: float) -> bool:
    """Whether centre and scale stay for all other values of one row, or of all rows of one person."""
    target, most = design.target, most_rows(design)
    if name == target.name:
        return unit_settled((target.centre, target.scale), target.known, *_ends(target.known, spread), most)
    feature = next(feature for feature in design.features if feature.name == name)
    known = feature.known
    ends = (known.low, known.high) if feature.yes_no else _ends(known, spread)
    return unit_settled((feature.centre, feature.scale), known, *ends, most)


def _ends(known: Moments, spread: float) -> tuple[float, float]:
    """Between which a value may lie."""
    reach = REACH * max(spread, (known.squares / known.count) ** 0.5)
    return min(known.low, known.mean - reach), max(known.high, known.mean + reach)


def _listed(names: Collection[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def refuse_uncounted(trained: Trained, plan: Plan) -> None:
    """Refuse rules that hold weights, a shape or a scale of the noise fixed where a model's own rows decided them."""
    if plan.policy is None:
        return
    _refuse_fixed_weights(trained, plan.policy)
    if plan.noise is not None:
        _refuse_fixed_noise(trained, plan, plan.policy)


def _refuse_fixed_weights(trained: Trained, policy: Policy) -> None:
    """Of a balanced model etas of rows alone count how its weights follow from the data."""
    if trained.weights is None:
        return
    counted = trained.weighting is not None
    what = "is counted in max_eta under [rows] alone" if counted else "is not counted for this model"
    _refuse(
        policy,
        (*NOT_REVEALED, *(("rows",) if counted else ())),
        f"the model is balanced, and how its weights follow from the data {what}. Release it without `balance`",
    )


def _refuse_fixed_noise(trained: Trained, plan: Plan, policy: Policy) -> None:
    """A shape of the rows' own is counted where ``shaped_at`` is known, and in membership; a scale of theirs nowhere."""
    noise = as_noise(plan.noise)
    told = getattr(noise, "calibrated", None)
    if has_own_shape(noise) and trained.with_noise(noise).shaped_at is None:
        _refuse(
            policy,
            (*NOT_REVEALED, "membership"),
            "the noise has a shape that the rows decided, and what that tells is not counted. Release with "
            "`shape='isotropic'`",
        )
    if plan.released and told is not None and told.by_present_rows:
        _refuse(
            policy,
            (*NOT_REVEALED, "rows", "groups"),
            "the noise's scale, which the card tells, was computed from the rows, and no figure counts what it tells about "
            "them. Release with a `noise` that is given, or with `over='admissible'`",
        )


def _refuse(policy: Policy, counted: Collection[str], why: str) -> None:
    """Where a policy has other sections than those that count it; ``why`` ends with a remedy."""
    others = [name for name in policy.sections if name not in counted]
    if others:
        raise InvalidInputError(
            f"The rules under [{others[0]}] of the policy '{policy.source}' cannot be checked: {why}, or leave these rules out."
        )
