"""Rules that nothing can check on a released model: what they limit does not count something that its rows decided."""

from __future__ import annotations

from collections.abc import Collection

from fisherleak.auditing.policy.policy import Policy
from fisherleak.auditing.records import Plan
from fisherleak.engine.noise.calibrated import has_own_shape
from fisherleak.errors import InvalidInputError
from fisherleak.training.noise_words import as_noise
from fisherleak.training.trained_model import Trained

__all__ = ["refuse_uncounted"]

NOT_REVEALED = ("utility", "require")
"""Sections that limit nothing that is revealed."""


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
