"""Policies: what is not known is refused in one sentence, and limits become etas of values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from fisherleak import InvalidInputError
from fisherleak.auditing import Settings
from fisherleak.auditing.policy import policy as policies
from fisherleak.auditing.policy.applied_rules import AppliedRules, apply_policy
from fisherleak.auditing.policy.policy import SECTIONS, policy_of, read_policy
from fisherleak.auditing.records import Plan
from fisherleak.leakage.shares import share_of
from fisherleak.tables import Choices, design_of, from_frame

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("[row]\nmax_eta = 1", r"has a section \[row\]. Did you mean 'rows'"),
        ("[rows]\nmax_etas = 1", r"has a rule 'max_etas' in \[rows\]. Did you mean 'max_eta'"),
        ("[rows]\nmax_eta = '1'", "rows.max_eta of the policy 'p.toml' must be a number above zero; got '1'"),
        ("[rows]\nmax_eta = nan", "must be a number above zero"),
        ("[rows]\nmax_eta = true", "must be a number above zero"),
        ("[rows]", r"has no rules in \[rows\]"),
        ("rows = 3", r"has no rules in \[rows\]"),
        ("[columns]\nage = 1", r"has no rules in \[columns.age\]"),
        ("[columns.age]\nmax_revealed = 10", "columns.age.max_revealed of the policy 'p.toml' must be a share"),
        ('[columns."*"]\nmin_error = 2', r"has a rule 'min_error' in \[columns.\*\]"),
        ("[membership]\nmax_right = 0.4", "which is chance"),
        ("[require]\nattacks = false", "require.attacks of the policy 'p.toml' must be true"),
        ("[require]\nattributes = []", "must be a list of texts"),
        ("[columns.age]\nspread = 0", "columns.age.spread of the policy 'p.toml' must be a number above zero"),
        ("[columns.age]\nkind = 'text'", 'columns.age.kind of the policy \'p.toml\' must be "number" or "category"'),
        ("[label]\nkind = 'number'", r"has a rule 'kind' in \[label\]"),
        ('[columns."*"]\nspread = 2', r"has a rule 'spread' in \[columns.\*\]"),
        ("max_eta == 1", "is no TOML in UTF-8"),
    ],
)
def test_refusals(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=says) as refused:
        read_policy(tmp_path / "p.toml")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="does not exist: name a TOML file"):
        read_policy(tmp_path / "p.toml")


def test_the_example_is_a_policy() -> None:
    example = read_policy(ROOT / "examples" / "policy.toml")
    assert set(example.sections) <= set(SECTIONS)
    assert len(example.sha256) == 64


KNOWN = {**SECTIONS, "columns.NAME": policies.COLUMN, 'columns."*"': policies.EVERY_COLUMN}
"""Every section as a policy's author writes it, with its keys."""
del KNOWN["columns"]


def test_the_page_and_the_docstring_have_every_section_and_key() -> None:
    """A new key, or section, of ``SECTIONS`` is missed in both until it is written there, and one that is gone is too much."""
    listed = re.findall(r"^ *\[(\S+)\]([^(\n]*(?:\n {10,}[^(\n]*)*)", policies.__doc__ or "", re.MULTILINE)
    page = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `\[(\S+)\]` \| (.*) \|$", page, re.MULTILINE))
    assert {section: set(re.findall(r"[a-z_]+", keys)) for section, keys in listed} == {
        section: set(keys) for section, keys in KNOWN.items()
    }
    said = {section: set(re.findall(r"(?<!})`([a-z_]+)(?: = true)?`", words)) for section, words in rows.items()}
    said["label"] |= {key for key in said["columns.NAME"] if key.startswith(("min_", "max_"))}  # "the same four rules"
    assert said == {section: set(keys) for section, keys in KNOWN.items()}


def test_settings_are_no_limits() -> None:
    policy = policy_of({"columns": {"age": {"spread": 12, "kind": "number", "max_eta": 1}}, "label": {"spread": 3}})
    assert policy.limits_on("age") == {"max_eta": 1}
    assert policy.limits_on("weight") == policy.limits_on_label == {}


BOUNDS = (("age", (0.0, 120.0)), ("weight", (0.0, 200.0)), ("income", (-100_000.0, 200_000.0)))


def applied(people: Any, given: dict[str, Any], **spread: float) -> AppliedRules:
    design = design_of(from_frame(people[["age", "weight", "city", "income"]]), Choices("income", bounds=BOUNDS))
    found = apply_policy(design, Settings("income"), Plan(policy=policy_of(given), spread=spread))
    assert found is not None
    return found


def test_a_column_keeps_its_own_limit_and_those_on_every_column(people: Any) -> None:
    given: dict[str, Any] = {
        "*": {"max_revealed": 0.1, "max_attack": 0.8},
        "age": {"max_revealed": 0.05, "min_error": 4, "spread": 12},
    }
    found = applied(people, {"columns": given, "label": {"max_eta": 2}}, age=12)
    limits = {name: {each.key: each.limit for each in own} for name, own in found.columns.items()}
    assert limits == {
        "age": {"max_revealed": 0.05, "min_error": 4},
        "weight": {"max_revealed": 0.1},
        "city": {"max_attack": 0.8},
    }
    assert {each.rule: each.limit for each in found.label} == {"label.max_eta": 2, "columns.income.max_revealed": 0.1}
    assert found.stated == {"age": 12}
    assert 12 < found.spreads["age"] == pytest.approx(people.age.std(), rel=0.05)  # of the training rows
    assert found.attacked == found.guessable == ("city",)


def test_limits_become_etas_of_values(people: Any) -> None:
    given = {"age": {"max_revealed": 0.05, "min_error": 4}, "city": {"max_eta": 3}}
    found = applied(people, {"columns": given, "label": {"max_revealed": 0.2}})
    design = design_of(from_frame(people[["age", "weight", "city", "income"]]), Choices("income"))
    limits = found.limits(design, [12.0, 9.0, float("nan"), 30.0])
    assert share_of(limits.columns["age"]["max_revealed"] * 12.0) == pytest.approx(0.05)
    assert limits.columns["age"]["min_error"] == 0.25
    assert limits.columns["city"] == {"max_eta": 3.0}
    assert share_of(limits.label["max_revealed"] * 30.0) == pytest.approx(0.2)


def test_of_two_limits_on_the_target_the_stricter_holds(people: Any) -> None:
    given = {"columns": {"income": {"max_eta": 1, "min_error": 5}}, "label": {"max_eta": 2, "min_error": 6}}
    found = applied(people, given)
    assert {each.rule: each.limit for each in found.label} == {"columns.income.max_eta": 1, "label.min_error": 6}
