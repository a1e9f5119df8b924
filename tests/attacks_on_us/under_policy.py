"""Audits under a policy, run as the command line runs them: what all attacks on policies share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fisherleak.cli import main

__all__ = ["judged", "write_table_and_policy"]

Judged = tuple[int, str, dict[str, Any]]


def write_table_and_policy(table: Any, policy: str, sep: str = ",") -> None:
    """Both in the present folder; a text is written as it is."""
    Path("policy.toml").write_text(policy, encoding="utf-8")
    if hasattr(table, "to_csv"):
        table.to_csv("t.csv", index=False, sep=sep)
    else:
        Path("t.csv").write_text(table, encoding="utf-8")


def judged(capsys: pytest.CaptureFixture[str], *options: str, table: str = "t.csv") -> Judged:
    """Audits a table under policy.toml: the exit status, what was said on standard error, and the rules by name."""
    capsys.readouterr()
    status = main(["audit", table, "--policy", "policy.toml", "--json", *options])
    out, err = capsys.readouterr()
    return status, err, {rule["rule"]: rule for rule in json.loads(out)["policy"]["rules"]} if out else {}
