"""Policies: what is not known is refused in one sentence, and limits become etas of values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from fisherleak import InvalidInputError
from fisherleak.audit.policy import SECTIONS, policy_of, read_policy
from fisherleak.audit.revealed import share_of


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
        ("[membership]\nmax_right = 0.4", "which is guessing"),
        ("[require]\nattacks = false", "require.attacks of the policy 'p.toml' must be true"),
        ("[require]\nattributes = []", "must be a list of texts"),
        ("max_eta == 1", "is no TOML in UTF-8"),
    ],
)
def test_refusals(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=says) as refused:
        read_policy(tmp_path / "p.toml")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_policy(tmp_path / "p.toml")


def test_the_example_is_a_policy() -> None:
    example = read_policy(Path(__file__).parents[2] / "examples" / "policy.toml")
    assert set(example.sections) <= set(SECTIONS)
    assert len(example.sha256) == 64


def test_a_column_keeps_its_own_limit_and_those_on_every_column() -> None:
    given: dict[str, Any] = {
        "*": {"max_revealed": 0.1, "max_attack": 0.8},
        "age": {"max_revealed": 0.05, "min_error": 4},
    }
    policy = policy_of({"columns": given})
    assert policy.of_column("age", category=False) == {"max_revealed": 0.05, "min_error": 4}
    assert policy.of_column("weight", category=False) == {"max_revealed": 0.1}
    assert policy.of_column("city", category=True) == {"max_attack": 0.8}
    limits = policy.limits({"age": False, "city": True}, [12.0, float("nan"), 3.0])
    assert share_of(limits.columns["age"]["max_revealed"] * 12.0) == pytest.approx(0.05)
    assert limits.columns["age"]["min_error"] == 0.25
    assert limits.columns["city"] == limits.label == {}
