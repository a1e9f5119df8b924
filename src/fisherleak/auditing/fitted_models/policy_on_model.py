"""A policy on a model that was fitted elsewhere: refused by name where something that it limits cannot be checked.

Its table is read as that of ``fisherleak audit`` is, so that the same tables are refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.compose import make_column_selector

from fisherleak._support.arrays import host
from fisherleak._support.numbers import number
from fisherleak.attacks.candidate_values import classifies
from fisherleak.auditing.fitted_models.summary_of_leakage import categories_of
from fisherleak.auditing.policy.applied_rules import OF_UNITS, AppliedRules, apply_to_model
from fisherleak.auditing.policy.disclosed_beside_noise import refuse_calibrated_for_model, refuse_scale_of_rows
from fisherleak.auditing.policy.policy import Policy, policy_of, read_policy
from fisherleak.auditing.records import Plan
from fisherleak.engine.fit.minimise import Fit, is_fit, moved_to_minimum, risk_of_fit
from fisherleak.engine.noise.calibration_record import calibration_of, has_own_shape
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measurement import MOST_MOVED, measurement
from fisherleak.models import checked_model, final_estimator, read
from fisherleak.models.several import put_parameters
from fisherleak.models.steps.levels import check_common_levels, check_rare_classes, check_settled_levels
from fisherleak.models.steps.transformers import every_step, filled_by_other_rows
from fisherleak.protection.certificates.declared_bounds import LABEL
from fisherleak.protection.release.release import FittedModel
from fisherleak.releasing.cards.enough_people import FEWEST_ROWS
from fisherleak.tables import Choices, Design, design_of, from_frame
from fisherleak.tables.design.whose_rows import People
from fisherleak.training.model_kinds import KINDS, Kind, kind_with, label_rules
from fisherleak.training.trained_model import Settings

__all__ = ["AppliedPolicy", "apply_to_fitted", "policy_from"]

NO_POLICY = "leave policy out"
"""What lets rare categories and classes pass."""
NOT_OPTIONS = (
    "Options in backticks are those of a table's audit: for a fitted model change X, or the policy, and fit it again."
)


ABOUT_VALUES = ("columns", "label", "attacks", "membership")
"""Sections that names of categories in a release could break at any noise."""


"""Part of a step's slope that rounding explains."""


@dataclass(frozen=True)
class AppliedPolicy:
    """A policy and what it means for one fitted model.

    Attributes
    ----------
    design : Design
        How the table would be read: kinds of columns, their spreads and public scales.
    """

    rules: AppliedRules
    design: Design = field(repr=False)
    settings: Settings
    kind: Kind = field(repr=False)

    @property
    def policy(self) -> Policy:
        return self.rules.policy


def policy_from(given: Any) -> Policy | None:
    """A policy as it was given: a TOML file, its sections, or one that was read."""
    if given is None:
        return None
    if isinstance(given, Policy):
        return policy_of(given.sections, given.source, given.sha256)
    if isinstance(given, Mapping):
        return policy_of(given)
    if isinstance(given, (str, os.PathLike)):
        return read_policy(given)
    raise InvalidInputError(
        f"policy must be a TOML file, a mapping of its sections or None; got {type(given).__name__}."
    )


def apply_to_fitted(
    policy: Policy,
    model: Any,
    leak: Leakage,
    y: Any,
    weights: Any,
    settings: Settings,
    plan: Plan,
    people: People | None,
) -> AppliedPolicy:
    """The policy on a fitted model; refused by name where something that it limits cannot be checked."""
    kind = _kind(policy, model, leak)
    if not is_fit(model):
        _refuse_decided_by_data(policy, model)
    if weights is not None or any(_weighted(fit) for fit in leak.fits):
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked with weights (sample_weight): whether they follow from the data "
            "is not known, and no rule counts that. Fit without weights, or leave policy out."
        )
    _refuse_fills(policy, model, leak, y)
    _refuse_curved(policy, model, leak)
    _refuse_moved(policy, model, leak, y, settings)
    if has_own_shape(leak.noise):
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked with noise whose covariance is data-dependent: the figures of a "
            "fitted model do not count what the covariance reveals. Use isotropic noise of a scale that you choose, "
            "fl.Gaussian(scale)."
        )
    told = calibration_of(leak.noise)
    if told is not None and told.by_present_rows:
        refuse_scale_of_rows(policy)
    if told is not None and told.counted:
        refuse_calibrated_for_model(policy, told.bounds or {})
    if any(policy.section(name) for name in ABOUT_VALUES):
        few, whose = FEWEST_ROWS + 1, None if people is None else people.of_row
        if not is_fit(model):
            own = checked_model(model)
            check_common_levels(own, measurement(leak).table, few, whose, NO_POLICY)
            check_settled_levels(own, measurement(leak).table, whose)
        if kind.labels.classes:
            check_rare_classes(y, few, whose, NO_POLICY)
    try:
        design = _design(leak, y, settings, kind, people)
        rules = apply_to_model(policy, design, replace(settings, model=kind.name), plan, leak)
    except InvalidInputError as error:
        said = str(error)
        raise InvalidInputError(f"{said} {NOT_OPTIONS}" if "`" in said else said) from None
    return AppliedPolicy(rules, design, settings, kind)


def _refuse_decided_by_data(policy: Policy, model: Any) -> None:
    """Refuse class weights, columns and penalties that follow from the data: one row can change them."""
    own = final_estimator(checked_model(model))
    if getattr(own, "class_weight", None) is not None:
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked with class_weight={own.class_weight!r}: weights follow from "
            "all labels, and no rule counts that. Fit with class_weight=None, or leave policy out."
        )
    chosen = (columns for step in every_step(checked_model(model)) for *_, columns in getattr(step, "transformers", ()))
    # names alone decide with a pattern, whatever cells hold
    if any(callable(each) and not _by_name(each) for each in chosen):
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked for a ColumnTransformer that selects columns by a function: one "
            "cell can change the type of a column, and with it what is selected. List the columns by name."
        )
    if hasattr(model, "best_params_") or type(own).__name__.endswith("CV"):
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked for a model that searched for its parameters: one row can change "
            "the choice, and no rule counts that. Fit the estimator with the parameters that you choose, or leave policy out."
        )


def _by_name(selector: Any) -> bool:
    """Whether a selector of scikit-learn goes by the names of columns alone."""
    return type(selector) is make_column_selector and selector.dtype_include is None and selector.dtype_exclude is None


def _weighted(fit: Fit) -> bool:
    """Whether rows have different weights, wherever they were given."""
    weights = fit.sample_weight
    return weights is not None and bool(np.ptp(host(weights)) > 0)


def _refuse_curved(policy: Policy, model: Any, leak: Leakage) -> None:
    """Refuse values that a step clips, and limits in units where a step bends: etas say nothing of larger changes.

    A value may reach the model by other steps too. Where some step clips, each feature that a value feeds has to move with it.
    """
    import pandas

    table = measurement(leak).table
    clips = not is_fit(model) and any(getattr(step, "clip", False) for step in every_step(checked_model(model)))
    for attribute in measurement(leak).information.attributes:
        if (
            attribute.directions is not None
            and attribute.curved
            and attribute.columns
            and attribute.name in table.names
        ):
            directions = np.asarray(attribute.directions)
            moving = np.any(directions, axis=2)  # of every row, each feature
            still = ~(np.all(moving, axis=1) if clips else np.any(moving, axis=1))
            known = ~np.asarray(pandas.isna(table.column(table.names.index(attribute.name))))
            if known[still].any():
                raise InvalidInputError(
                    f"The policy '{policy.source}' cannot be checked for '{attribute.name}': a step clips some of its values, "
                    "and etas say nothing of changes beyond the clip. Fit with clip=False, or leave policy out."
                )
            key = next((key for key in OF_UNITS if key in policy.limits_on(attribute.name)), None)
            if key is not None and not attribute.affine:
                raise InvalidInputError(
                    f"The policy '{policy.source}' limits {key} of '{attribute.name}', in which a step of the model is not "
                    "affine: etas are about small changes, and say nothing of values farther apart. Use affine steps such as "
                    "StandardScaler, clip=False for a scaler that clips, or leave policy out."
                )


def _refuse_moved(policy: Policy, model: Any, leak: Leakage, y: Any, settings: Settings) -> None:
    """Refuse parameters away from the minimum that is measured, as far as noise does not hide it: no rule counts that move."""
    noise = leak.noise
    if is_fit(model):
        exact = moved_to_minimum(risk_of_fit(model, *measurement(leak).information.rows), model)
        away = np.subtract(*(np.asarray(host(each.theta), dtype=np.float64) for each in (model, exact)))
    else:
        own = checked_model(model)
        least = np.asarray(host(read(own, measurement(leak).table, y, None, polish=True).fit.theta), dtype=np.float64)
        exact = deepcopy(own)
        put_parameters(exact, least)
        away = np.subtract(*(FittedModel(each, settings.public).acted_on(noise)[0] for each in (own, exact)))
    root = noise.unit_information_root(away.size)
    moved = float(np.linalg.norm(away if root is None else root @ away)) / float(noise.scale)
    if not moved <= MOST_MOVED:
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked: the model is {number(moved)} noise deviations from its minimum "
            f"({MOST_MOVED:g} at most), which no rule counts. Fit with a smaller tol and more iterations, or leave policy out."
        )


def _refuse_fills(policy: Policy, model: Any, leak: Leakage, y: Any) -> None:
    """Refuse gaps that are filled with a number of someone's choice, which shows who lacks a value, and values that are taken
    as gaps: these have no eta.
    """
    other = None if is_fit(model) else filled_by_other_rows(checked_model(model), measurement(leak).table, y)
    if other is not None:
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked with a {type(other).__name__} that was fitted on other rows: "
            "a filled value can show that it was missing, and no rule counts that. Fit the pipeline on the audited rows."
        )
    for step in () if is_fit(model) else every_step(checked_model(model)):
        if not _is_gap(getattr(step, "missing_values", np.nan)):
            raise InvalidInputError(
                f"The policy '{policy.source}' cannot be checked with {type(step).__name__}(missing_values="
                f"{step.missing_values!r}): no rule covers the cells that it fills. Write such cells as missing in the table."
            )
        if getattr(step, "add_indicator", False):
            raise InvalidInputError(
                f"The policy '{policy.source}' cannot be checked with {type(step).__name__}(add_indicator=True): the model "
                "uses whether a value is missing, and no rule counts that. Use add_indicator=False, or leave policy out."
            )
        if getattr(step, "strategy", None) == "constant":
            raise InvalidInputError(
                f"The policy '{policy.source}' cannot be checked with {type(step).__name__}(strategy='constant'): a filled "
                "value can show that it was missing, and no rule counts that. Use strategy='mean' or 'median', or leave "
                "policy out."
            )


def _is_gap(value: Any) -> bool:
    """Whether a marker of missing cells is one in every table: NaN, None or pandas' own."""
    import pandas

    return value is None or (np.ndim(value) == 0 and bool(pandas.isna(value)))


def _kind(policy: Policy, model: Any, leak: Leakage) -> Kind:
    fit, y = leak.fits[0], measurement(leak).information.rows[1]
    found = kind_with(fit.loss) if len(leak.fits) == 1 else None
    if found is not None and found.several:
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked for a fitted model of three or more classes: rules are known for "
            "models of one output. Fit one class against all others, or leave policy out."
        )
    if found is None or np.ndim(host(y)) > 1 or classifies(model, fit) != found.labels.classes:
        raise InvalidInputError(
            f"The policy '{policy.source}' cannot be checked for this model: rules are known for a "
            f"{', '.join(kind.words for kind in KINDS if not kind.several)} of one label. Leave policy out."
        )
    return found


def _design(leak: Leakage, y: Any, settings: Settings, kind: Kind, people: People | None) -> Design:
    """The columns that the model uses, read as a table: with the kinds that rows give them, or else those of the model."""
    import pandas

    table, wanted = measurement(leak).table, categories_of(leak)
    for called in (settings.target, getattr(y, "name", None)):
        if called in leak.attributes:
            raise InvalidInputError(
                f"A policy cannot be checked for this model: X has a column '{called}', and the label is called so too. Rename "
                "one of the two, and fit the model again."
            )
    frame = {name: pandas.Series(table.column(table.names.index(name))).infer_objects() for name in leak.attributes}
    # True and False that the model takes as numbers are 1 and 0
    frame |= {name: own.astype(float) for name, own in frame.items() if own.dtype == bool and name not in wanted}
    labels = np.asarray(host(y) if hasattr(y, "detach") else y).reshape(-1)
    raw = from_frame(pandas.DataFrame({**frame, settings.target: labels}), "X")
    told = calibration_of(leak.noise)
    declared = {} if told is None else dict(told.bounds or {})
    ends = {name: each for name, each in declared.items() if each["from"] == "declared" and "low" in each}
    called = {name: name for name in frame} | ({} if LABEL in frame else {LABEL: settings.target})
    bounds = tuple(
        (called[name], (float(each["low"]), float(each["high"]))) for name, each in ends.items() if name in called
    )
    choices = Choices(settings.target, keep_total=True)
    first = design_of(raw, choices, kind.name, 0.0, settings.seed, None, label_rules())
    taken = {column.name: column.kind for column in first.columns}
    forced = [name for name in frame if taken.get(name) != ("category" if name in wanted else "number")]
    choices = replace(
        choices,
        numbers=tuple(name for name in forced if name not in wanted),
        categories=tuple(name for name in forced if name in wanted),
        bounds=tuple(each for each in bounds if each[0] not in wanted),
    )
    design = design_of(raw, choices, kind.name, 0.0, settings.seed, None, label_rules())
    lost = [name for name in frame if name not in {feature.name for feature in design.features}]
    if lost or design.n != leak.n:
        what = f"the column '{lost[0]}'" if lost else f"{leak.n - design.n} rows"
        raise InvalidInputError(
            f"A policy cannot be checked for this model: an audit of its table would leave out {what}. Leave the same out of "
            "X, and fit the model again."
        )
    return replace(design, people=people, unsettled={})  # the model says what its columns are, whatever they hold
