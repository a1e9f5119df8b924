r"""Values that are told at any noise, by what a release says beside it: refused where a policy limits what is revealed of them.

Without declared bounds a column's public centre and scale follow from the rows, on a grid; without declared levels so do the
categories that are named. Where another value of one row changes them, whoever knows all other rows reads that value off the
card, and no figure of the noise counts it. A value may be anything within the column's range and within ``REACH`` spreads of
its mean: what lies beyond is less than :math:`2 z \phi(z)` = 0.11 % of the variance of a normal belief, z = 4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fisherleak._support.arrays import host
from fisherleak._support.grids import public_units
from fisherleak._support.namespaces import Json
from fisherleak.auditing.policy.policy import Policy
from fisherleak.engine.noise.calibration_record import has_own_shape
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import measurement
from fisherleak.releasing.any_record_noise import kind_settled, most_rows, moved_moments, unit_settled
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS, bounds_of_few, sharing_classes
from fisherleak.rows.summary import Moments
from fisherleak.tables import Design, Feature
from fisherleak.training.model_kinds import kind_of
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Trained

if TYPE_CHECKING:
    from fisherleak.auditing.records import Plan

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
            f"The policy '{source}' limits what is revealed of {_listed(unframed)}, without declared bounds. Another value of "
            f"one {who} can change the public centre or scale, which reveals that value however large the noise is. Declare "
            f"the least and the largest possible value with `bounds={{{wanted}}}`{again}."
        )
    for feature in features:
        if feature.kind == "category" and feature.at_edge:
            raise InvalidInputError(
                f"The policy '{source}' limits what is revealed of '{feature.name}': another value of one {who} can change "
                "which of its categories a release names. That reveals the value however large the noise is. Declare all "
                f"categories with `levels`, and '(missing)' too if some are missing{again}."
            )
        if feature.nearly_all:
            raise InvalidInputError(
                f"The policy '{source}' limits what is revealed of '{feature.name}', and nearly all rows have the same value "
                f"of it. A release without one {who} would leave the column out. That reveals the value however large the "
                f"noise is: leave the column out with `drop={[feature.name]!r}`, and its own rules out of the policy{again}."
            )
    _refuse_few_of_class(design, source, ruled)


def refuse_told_of_model(
    design: Design, source: str, ruled: Collection[str], spreads: Mapping[str, float], leak: Leakage
) -> None:
    """The same of a model that was fitted elsewhere: of every centre and scale of a feature that its release shows."""
    moving = _moving(design, ruled, spreads, leak)
    unframed = [name for name, bounded in moving.items() if bounded]
    if len(unframed) < len(moving):
        name = next(name for name, bounded in moving.items() if not bounded)
        raise InvalidInputError(
            f"The policy '{source}' limits what is revealed of '{name}': another value of one row can change the public centre "
            f"or scale of a scaler. That reveals the value however large the noise is. Leave '{name}' out of scalers, let a "
            "StandardScaler take it directly from X, or give public='preprocessing' if centres and scales are public."
        )
    if unframed:
        wanted = ", ".join(f"{name!r}: (low, high)" for name in unframed)
        raise InvalidInputError(
            f"The policy '{source}' limits what is revealed of {_listed(unframed)}, without declared bounds: another value of "
            f"one row can change the public centre or scale, which reveals that value however large the noise is. Use noise of "
            f"fl.calibrate(leak, eta=…, over='any-record', bounds={{{wanted}}})."
        )
    _refuse_few_of_class(design, source, ruled)


def _moving(design: Design, ruled: Collection[str], spreads: Mapping[str, float], leak: Leakage) -> dict[str, bool]:
    """Columns of which another value moves a centre or scale that is shown, and whether declared bounds would help."""
    most, yes_no = most_rows(design), {feature.name for feature in design.features if feature.yes_no}
    found: dict[str, bool] = {}
    for frame in measurement(leak).shown_frames:
        for column in frame.columns:
            for own in measurement(leak).information.attributes:
                if own.name not in ruled or column.place not in own.columns:
                    continue
                known = Moments.of(np.asarray(host(frame.X), dtype=np.float64)[:, column.place])
                plain = column.name == own.name and not own.curved and own.encoding is None
                ends = (known.low, known.high) if own.name in yes_no else _ends(known, spreads.get(own.name, 0.0))
                if own.encoding is not None:
                    codes = len(own.encoding.levels) - 1
                    ends = (min(known.low, 0.0), 1.0 if len(own.columns) >= codes else max(known.high, float(codes)))
                moments = np.array(moved_moments(known, *ends, most)).reshape(-1, 2)
                stays = bool(len(moments)) and bool(column.stays(*moments.T).all())
                if not (stays and (plain or own.encoding is not None)):
                    found[own.name] = plain and column.by_moments and found.get(own.name, True)
    return found


def refuse_bounds_of_few(design: Design, source: str, again: bool) -> None:
    """Refuse declared bounds that are the rows' own least or largest values: a card shows them as declared."""
    found = bounds_of_few(design)
    if found:
        raise InvalidInputError(
            f"The policy '{source}' cannot be checked: a declared bound of {_listed(found)} is the least or largest value in "
            f"the table, and fewer than {FEWEST_ROWS} have it. A release shows bounds, so it reveals that value. Declare "
            f"bounds that are known without the table{', and release the model again' * again}."
        )


def _refuse_few_of_class(design: Design, source: str, ruled: Collection[str]) -> None:
    target, who = design.target, "row" if design.people is None else "person"
    if target.name in ruled and target.classes and min(sharing_classes(design)) <= FEWEST_ROWS:
        raise InvalidInputError(
            f"The policy '{source}' limits what is revealed of the target '{target.name}', and one class of it is rare. "
            f"Without one {who} of that class no release would be made, which reveals the class at any noise. Unite it with "
            "another class in the table, or leave its rows out."
        )


def refuse_told_by_model(design: Design, source: str) -> None:
    """Refuse a kind of model that nobody stated and that one row's label decides: the model card tells it, at any noise.

    A model card has the kind and not whether it was given: it counts as found from the rows wherever these would give it.
    """
    target = design.target
    found = kind_of(target.kind).labels.assumed and not target.unlike_data
    if target.assumed or found:
        if kind_settled(replace(design, target=replace(target, assumed=True))):
            return
        who = "row" if design.people is None else "person"
        raise InvalidInputError(
            f"The labels of one {who} can decide that the model is {target.kind}, which a release shows at any noise. No rule "
            f"of the policy '{source}' counts that: "
            f'write model = "{target.kind}" under [require] in the policy.'
        )


def few_in_class(counts: Sequence[int], held_out: Sequence[int], people: bool) -> str:
    """That a class has so few rows, or people, that one shows in which measures of utility have a value; nothing elsewhere.

    ``counts`` are those that the model was fitted on, by class; ``held_out`` the rows that it is scored on, if others are.
    """
    for own, whose in ((counts, "people" if people else "training rows"), (held_out, "held-out rows")):
        if min(own, default=FEWEST_ROWS) < FEWEST_ROWS:
            return (
                f"a class has fewer than {FEWEST_ROWS} {whose}, and one of them can decide which measures of utility have a "
                "value. Unite it with another class or leave its rows out; of more held-out rows a class has more."
            )
    return ""


def kind_unsettled(design: Design) -> str:
    """That labels of one row, or person, might decide the kind of model, with a remedy; nothing where they do not."""
    target = design.target
    if not target.assumed or (not design.lazy and kind_settled(design)):
        return ""
    who = "row" if design.people is None else "person"
    return (
        f"the labels of one {who} can decide that the model is {target.kind}, and so which measures of utility are shown: "
        f"give `model={target.kind!r}`."
    )


def _numbers(design: Design, features: Collection[Feature], ruled: Collection[str]) -> list[str]:
    """Columns of numbers, and the target, whose centre and scale follow from the rows."""
    names = {feature.name for feature in features} | ({design.target.name} & set(ruled))
    return [name for name in design.unbounded if name in names]


def _stays(design: Design, name: str, spread: float) -> bool:
    """Whether centre and scale stay for all other values of one row, or of all rows of one person."""
    target, most = design.target, most_rows(design)
    if name == target.name:
        ends = _ends(target.known, spread)
        if target.standardised:
            return unit_settled((target.centre, target.scale), target.known, *ends, most)
        return {public_units(*each)[1] for each in moved_moments(target.known, *ends, most)} == {target.unit}
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
    if plan.noise is None:
        refuse_scale_of_rows(plan.policy)
    else:
        _refuse_fixed_noise(trained, plan, plan.policy)


def refuse_scale_of_rows(policy: Policy) -> None:
    """Refuse rules that hold a noise scale fixed which the rows present decided: a release shows all of its digits."""
    _refuse(
        policy,
        (*NOT_REVEALED, "rows", "groups"),
        "the noise scale was computed from the rows, a release shows it, and no rule counts what it reveals. Choose a scale "
        "and give it with `noise`",
    )


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
    """A data-dependent covariance is counted where ``shaped_at`` is known, and in membership; a scale of theirs nowhere."""
    noise = as_noise(plan.noise)
    told = getattr(noise, "calibrated", None)
    if has_own_shape(noise) and trained.with_noise(noise).shaped_at is None:
        _refuse(
            policy,
            (*NOT_REVEALED, "membership"),
            "the rows decided the covariance of the noise, and what that reveals is not counted. Release with "
            "`shape='isotropic'`",
        )
    if plan.released and told is not None and told.by_present_rows:
        _refuse(
            policy,
            (*NOT_REVEALED, "rows", "groups"),
            "the noise's scale, which the model card states, was computed from the rows, and no figure counts what "
            "it reveals about them. Release with a `noise` that is given, or with `over='any-record'`",
        )
    if plan.released and told is not None and told.counted:
        _refuse_ranges(policy, told.bounds or {}, "the model card", "Release with `{}`")
        _refuse_scale(trained, plan, policy)


def refuse_calibrated_for_model(policy: Policy, bounds: Json) -> None:
    """Of a fitted model: refuse noise whose record tells ranges, or whose scale a row's removal may change."""
    _refuse_ranges(policy, bounds, "the record of the noise", "Calibrate it with {}")
    _refuse(
        policy,
        [name for name in policy.sections if name != "membership"],
        "the noise was calibrated, so its scale moves a little with the rows. How likely one row changes it is not computed "
        "for a fitted model. Use noise of a scale that you choose, fl.Gaussian(scale)",
    )


def _refuse_ranges(policy: Policy, bounds: Json, where: str, remedy: str) -> None:
    """A range from rows tells about who is at its end. Scale and penalty follow from all ranges, so that all are needed."""
    found = [name for name, each in bounds.items() if each["from"] == "rows" and "low" in each]
    if found:
        each = ", and so for each of them" * (len(found) > 1)
        _refuse(
            policy,
            NOT_REVEALED,
            f"{where} states ranges of {_listed(found)} that were taken from the rows, and so reveals something about the rows "
            f"at their ends, at any noise. {remedy.format(f'bounds={{{found[0]!r}: (low, high)}}')}{each}",
        )


def _refuse_scale(trained: Trained, plan: Plan, policy: Policy) -> None:
    """Where it is not known how likely a row's removal changes the scale of a limit on any record within the bounds."""
    if plan.scale_rule is None or plan.scale_rule.too_many(trained.design.n) or trained.design.people is not None:
        _refuse(
            policy,
            [name for name in policy.sections if name != "membership"],
            "the noise's scale on the model card moves a little with the rows, and how likely one of them changes it "
            "is not computed "
            f"for {'people' if trained.design.people is not None else f'{trained.design.n:,} rows'}. Release with a `noise` "
            "that is given",
        )


def _refuse(policy: Policy, counted: Collection[str], why: str) -> None:
    """Where a policy has other sections than those that count it; ``why`` ends with a remedy."""
    others = [name for name in policy.sections if name not in counted]
    if others:
        raise InvalidInputError(
            f"The rules under [{others[0]}] of the policy '{policy.source}' cannot be checked: {why}, or leave these rules out."
        )
