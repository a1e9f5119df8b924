"""Texts on a terminal of 80 columns: every line fits, but for commands that are there to be copied."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fisherleak.cli import _layout
from fisherleak.cli._layout import paragraph, wrapped
from report.records import show_audit

Command = Callable[..., Any]
COPIED = ("    fisherleak ", "open ")
REPORT = Path(__file__).parents[2] / "docs" / "reports" / "iwpc.json"
POLICY = """[columns.age]
max_revealed = 0.1

[membership]
max_right = 0.51

[label]
max_attack = 0.6
"""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(_layout, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))


def too_long(text: str) -> list[str]:
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split("\n")
    return [line for line in lines if len(line.rstrip()) > 80 and not line.startswith(COPIED)]


def long_sentences(text: str) -> list[str]:
    """Sentences of more than 25 words; lines of tables, bars and commands are none."""
    plain = [line for line in text.split("\n") if not re.search(r"\x1b|#|^    fisherleak |\S {2,}\S.* {2,}\S", line)]
    blocks = re.split(r"\n(?=\S|  - |  \S)", "\n".join(plain))
    found = [each for block in blocks for each in re.split(r"(?<=[.!?:;])\s+(?=[A-Z'\"])", " ".join(block.split()))]
    return [each for each in found if len(each.split()) > 25]


@pytest.mark.usefixtures("terminal")
def test_every_command_fits(fisherleak: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(POLICY, encoding="utf-8")
    table = ("people.csv", "--target", "sick")
    limits = (
        "--noise",
        "0.05",
        "--max-eta",
        "0.1",
        "--policy",
        "policy.toml",
        "--group",
        "city",
        "--bounds",
        "age=0:120",
    )
    lines = [
        ("audit", *table, *limits, "--balance", "--draws", "4"),
        ("release", *table, "--eta", "1e3", "--out", "m.skops", "--ledger", "spent.ledger", "--limit", "1e6"),
        ("verify", "m.skops"),
        ("predict", "m.skops", "people.csv"),
        ("ledger", "spent.ledger", "people.csv"),
        ("attack", "people.csv", "--released", "m.skops", "--attribute", "age", "--quick"),
        ("answers", *table[:1], "people.csv", *table[1:], "--noise", "0.5"),
    ]
    for line in lines:
        done = fisherleak(*line)
        assert done.status == (1 if line[0] == "audit" else 0), done.err
        assert len(done.out) > 60
        assert too_long(done.out) == [], line[0]
        assert line[0] == "predict" or len(done.out.rstrip("\n").split("\n")) <= 24, line[0]
        assert line[0] in ("predict", "audit") or long_sentences(done.out) == [], line[0]  # test_print_audit has audits


def test_verify_begins_with_its_verdict(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.skops"
    assert fisherleak("release", people, "--target", "sick", "--noise", "0.5", "--out", model, "--quiet").status == 0
    assert fisherleak("verify", model).out.startswith("Verified.\n")
    assert "can compute its digest again" not in fisherleak("verify", model).out
    assert "can compute its digest again" in fisherleak("verify", model, "-v").out
    model.write_bytes(model.read_bytes() + b"x")
    done = fisherleak("verify", model)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("fisherleak: Not verified: ")


def test_paragraphs_are_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert not sys.stdout.isatty()
    text = "word " * 40
    paragraph(f"\n{text}")
    assert capsys.readouterr().out == f"\n{text}\n"


@pytest.mark.usefixtures("terminal")
def test_lines_go_on_below_their_beginning() -> None:
    found = wrapped("  - ", "word " * 40).split("\n")
    assert len(found) > 1
    assert all(line.startswith("    word") for line in found[1:])
    assert max(map(len, found)) <= 80


def test_numbers_have_one_style(capsys: pytest.CaptureFixture[str]) -> None:
    """Thousands are set apart, a minus is one, and no number has an e: as in the report."""
    summary = json.loads(REPORT.read_text(encoding="utf-8"))
    summary["attributes"][0] |= {"error_least": 27_460.2, "error_typical": 5.6e7, "spread": 7_365.4}
    summary["groups"][0]["count"] = 15_358
    summary["tradeoff"] |= {"baseline": -0.0022}
    show_audit(summary)
    said = capsys.readouterr().out
    for number in ("± 27,500", "± 5.6 × 10⁷", "7,370", "15,358", "−0.0022 for the baseline"):
        assert number in said
    assert re.search(r"\de[+-]\d", said) is None
