"""Options that decide what a rule is measured with: refused where the policy does not state the same."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fisherleak.auditing.policy.policy import EVERY, Policy
from fisherleak.errors import InvalidInputError
from fisherleak.tables import Design
from fisherleak.training.trained_model import PUBLIC, Settings

__all__ = ["check_kinds", "check_marks", "check_measured"]


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
            f"`na` is {unstated[0]!r}, which the policy '{policy.source}' does not state: cells that count as missing are in "
            f"no rule. Leave it out, or write na = {[*settings.na]!r} under [require] in the policy."
        )
    for name, (value, why) in asked.items():
        if value is not None and name not in stated:
            raise InvalidInputError(
                f"`{name}` is '{value}', which the policy '{policy.source}' does not state: {why}. Leave it out, or write "
                f'{name} = "{value}" under [require] in the policy.'
            )


def check_kinds(policy: Policy, design: Design) -> None:
    """Refuse columns that an option made numbers or categories, where the policy does not state their kind."""
    sections = policy.section("columns")
    if "kind" in sections.get(design.target.name, {}):
        raise InvalidInputError(
            f"The policy '{policy.source}' states a kind of the target '{design.target.name}': its model decides it. Write "
            "model under [require] instead."
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
                f"The policy '{policy.source}' has a limit in the unit of '{name}', and nothing in the table settles whether "
                'the marks in its numbers are decimal ones or stand between thousands: write decimal = "," or "." under '
                "[require] in the policy, and give the same as `decimal`."
            )
