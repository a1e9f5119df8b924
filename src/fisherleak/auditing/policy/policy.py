"""A policy: the limits that a release must keep, written once in TOML by those who answer for the data.

[rows]            max_eta
    [columns.NAME]    max_revealed, min_error, max_eta, max_attack; spread, kind
    [columns."*"]     max_revealed, max_attack                          (every column of the model, and the target)
    [label]           max_revealed, min_error, max_eta, max_attack; spread
    [groups]          max_eta_joint, max_eta_mean, max_ratio
    [membership]      max_right, max_epsilon; delta
    [attacks]         max_accuracy, max_gain
    [utility]         min, max, max_loss
    [require]         target, public, model, group, person, na, decimal, held_out, released, covariance, bounds,
                      attacks, attributes

Every line is a rule of its own, but for ``spread``, ``kind`` and ``delta``, which say how it is measured. What is not known is
refused: a rule that is read past would be thought to have passed. ``applied_rules`` decides which columns each rule is
about, ``rules`` checks an audit against them.

Also here: what became of one rule of a policy, and what to do next.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fisherleak._support.atomic import NO_POLICY
from fisherleak._support.checks import LARGEST_LIMIT, SMALLEST_LIMIT, nearest
from fisherleak._support.notebook import Shown
from fisherleak.errors import InvalidInputError


@dataclass(frozen=True)
class Rule:
    """One line of a policy, and what became of it.

    Attributes
    ----------
    name : str
        As in the policy: "columns.age.max_revealed".
    limit, value
        What is allowed, and what was found; None where it was not measured.
    passed : bool
    words : str
        The same in a sentence.
    count : int or None
        People above the limit.
    row : int or None
        The row where it was found, among the training rows.
    noise : float or None
        The least scale of noise at which the rule passes, where that follows from one measurement: not for attacks.
    every : bool
        Whether it stands for a line of [columns."*"].
    """

    name: str
    limit: Any
    value: Any
    passed: bool
    words: str
    count: int | None = None
    row: int | None = None
    noise: float | None = None
    every: bool = False


@dataclass(frozen=True)
class Choice:
    """The least noise at which no more than a share of any number of anyone present is revealed."""

    share: float
    noise: float


@dataclass(frozen=True)
class Advice:
    """A scale of noise, none where more of it does not help, or a limit in its place, and why in a sentence."""

    noise: float | None
    note: str
    eta: float | None = None


EVERY = "*"
MEASURED_BY = ("spread", "kind", "delta")
"""Keys that say how something is measured, and limit nothing."""
LARGEST_FILE = 1_000_000
MOST_DOTS = 100
"""In a line of the file: keys of very many parts would be read for minutes."""
LONGEST_SHOWN = 60
"""Characters of a value of a policy that a refusal shows."""
Check = tuple[str, Callable[[Any], bool]]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")


ANY: Check = ("a number", _is_number)
POSITIVE: Check = ("a number above zero", lambda value: _is_number(value) and value > 0)
NOT_NEGATIVE: Check = ("a number, zero or more", lambda value: _is_number(value) and value >= 0)
SHARE: Check = ("a share above 0 and below 1", lambda value: _is_number(value) and 0 < value < 1)
RATIO: Check = ("a number, one or more", lambda value: _is_number(value) and value >= 1)
CHANCE: Check = ("a share from 0.5, which is chance, to below 1", lambda value: _is_number(value) and 0.5 < value < 1)
PART: Check = ("a chance above 0 and below 1", SHARE[1])
TEXT: Check = ("a text", lambda value: isinstance(value, str) and bool(value))
YES: Check = ("true", lambda value: value is True)
MARK: Check = ('"." or ","', lambda value: value in (".", ","))
KIND: Check = ('"number" or "category"', lambda value: value in ("number", "category"))
TEXTS: Check = (
    "a list of texts",
    lambda value: isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value),
)
ONE_VALUE = {"max_revealed": SHARE, "min_error": POSITIVE, "max_eta": POSITIVE}
LABEL: Mapping[str, Check] = {**ONE_VALUE, "max_attack": SHARE, "spread": POSITIVE}
COLUMN: Mapping[str, Check] = {**LABEL, "kind": KIND}
EVERY_COLUMN: Mapping[str, Check] = {"max_revealed": SHARE, "max_attack": SHARE}
SECTIONS: Mapping[str, Mapping[str, Check]] = {
    "rows": {"max_eta": POSITIVE},
    "columns": {},
    "label": LABEL,
    "groups": {"max_eta_joint": POSITIVE, "max_eta_mean": POSITIVE, "max_ratio": RATIO},
    "membership": {"max_right": CHANCE, "max_epsilon": POSITIVE, "delta": PART},
    "attacks": {"max_accuracy": SHARE, "max_gain": SHARE},
    "utility": {"min": ANY, "max": ANY, "max_loss": NOT_NEGATIVE},
    "require": {
        "target": TEXT,
        "public": TEXT,
        "model": TEXT,
        "group": TEXT,
        "person": TEXT,
        "na": TEXTS,
        "decimal": MARK,
        "held_out": SHARE,
        "released": YES,
        "covariance": TEXTS,
        "bounds": YES,
        "attacks": YES,
        "attributes": TEXTS,
    },
}
"""Every section with its keys, and what each takes."""


@dataclass(frozen=True)
class Policy(Shown):
    """Rules by section, and where they come from."""

    source: str
    sha256: str
    sections: Mapping[str, Mapping[str, Any]] = field(repr=False)

    def _shown(self) -> tuple[str, list[tuple[str, object]], str]:
        pairs: list[tuple[str, object]] = [
            (f"[{section}]", ", ".join(f"{name} = {json.dumps(value)}" for name, value in rules.items()))
            for section, rules in self.sections.items()
        ]
        return f"Policy of {len(pairs)} sections", pairs, f"From {self.source}."

    def section(self, name: str) -> Mapping[str, Any]:
        return self.sections.get(name, {})

    def limits_on(self, name: str) -> dict[str, Any]:
        """Limits in a column's own section, without what says how it is measured."""
        return _limiting(self.section("columns").get(name, {}))

    @property
    def limits_on_label(self) -> dict[str, Any]:
        return _limiting(self.section("label"))


def _limiting(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: limit for key, limit in section.items() if key not in MEASURED_BY}


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in a TOML file."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise InvalidInputError(NO_POLICY.format(place)) from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"The policy {str(place)!r} cannot be read: {said}.") from None
    if len(data) > LARGEST_FILE:
        raise InvalidInputError(
            f"The policy '{place}' has more than {LARGEST_FILE:,} bytes: a policy is a short TOML file."
        )
    for k, line in enumerate(data.split(b"\n"), start=1):
        if line.count(b".") > MOST_DOTS:
            raise InvalidInputError(
                f"The policy '{place}' has more than {MOST_DOTS} dots in line {k}: no key has so many parts; write a list in "
                "several lines."
            )
    try:
        given = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"The policy '{place}' is no TOML in UTF-8: {error}.") from None
    except (ValueError, RecursionError):  # integers of thousands of digits, arrays within arrays
        raise InvalidInputError(
            f"The policy '{place}' has a number of too many digits, or arrays too deep within each other: a rule takes one "
            "number, text or list."
        ) from None
    return policy_of(given, place.name, hashlib.sha256(data).hexdigest())


def policy_of(given: Mapping[str, Any], source: str = "policy", sha256: str = "") -> Policy:
    """A policy from its sections, each checked."""
    if not given:
        raise InvalidInputError(f"The policy '{source}' is empty: it has none of {', '.join(SECTIONS)}.")
    for section, rules in given.items():
        _check_text(source, section)
        if section not in SECTIONS:
            raise InvalidInputError(f"The policy '{source}' has a section [{section}]. {nearest(section, [*SECTIONS])}")
        if section == "columns":
            _check_table(source, section, rules)
            for name, own in rules.items():
                _check_text(source, name)
                _check_rules(source, f"columns.{name}", own, EVERY_COLUMN if name == EVERY else COLUMN)
        else:
            _check_rules(source, section, rules, SECTIONS[section])
    member = given.get("membership", {})
    if "delta" in member and "max_epsilon" not in member:
        raise InvalidInputError(
            f"The policy '{source}' has 'delta' in [membership] without max_epsilon: write that limit too, or remove delta."
        )
    return Policy(source, sha256, given)


def _check_text(source: str, name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidInputError(f"The policy '{source}' has the name {name!r}, which is no text: write it as text.")


def _check_table(source: str, section: str, rules: Any) -> None:
    if not isinstance(rules, Mapping) or not rules:
        raise InvalidInputError(
            f"The policy '{source}' has no rules in [{section}]: write a section with a rule in it."
        )


def _check_rules(source: str, section: str, rules: Any, known: Mapping[str, Check]) -> None:
    _check_table(source, section, rules)
    for key, value in rules.items():
        _check_text(source, key)
        if key not in known:
            raise InvalidInputError(
                f"The policy '{source}' has a rule '{key}' in [{section}]. {nearest(key, [*known])}"
            )
        words, holds = known[key]
        if isinstance(value, (int, float)) and value and not SMALLEST_LIMIT <= abs(value) <= LARGEST_LIMIT:
            words = f"{words}, of a size from {SMALLEST_LIMIT:g} to {LARGEST_LIMIT:g}"
        elif holds(value):
            continue
        raise InvalidInputError(f"{section}.{key} of the policy '{source}' must be {words}; got {_shown(value)}.")


def _shown(value: Any) -> str:
    """The start of a value; of one that Python cannot write, what it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "one that is too long to write"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
