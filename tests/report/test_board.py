"""The page that may be handed out: what is on it, and what one row can change on it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import pandas

import fisherleak as fl
from fisherleak.auditing import Settings, audit
from fisherleak.auditing.policy.policy import MEASURED_BY, SECTIONS, policy_of
from fisherleak.auditing.report_summary import ConfirmedRelease, Stated, StatedRule, Summary, read_summary
from fisherleak.report import board
from fisherleak.report.board import board_of, board_page
from fisherleak.report.outputs import write_board
from fisherleak.report.summarise import summary_of_audit
from report import sample
from report.test_pages import Open, opened, violations  # noqa: F401 - a fixture

RULES = {
    "rows": {"max_eta": 40.0},
    "columns": {"*": {"max_revealed": 0.9, "max_attack": 0.95}, "age": {"max_revealed": 0.2, "spread": 12.0}},
    "utility": {"min": 0.1},
}
BOUNDS = (("age", (0.0, 120.0)), ("weight", (30.0, 150.0)), ("income", (0.0, 150_000.0)))
SETTINGS = Settings("income", "linear", bounds=BOUNDS, levels=(("city", ("Bonn", "Genua", "Rom")),), held_out=0.0)


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_audits: None) -> None:
    """Attacks in passing take little time."""


def table(n: int = 205) -> pandas.DataFrame:
    rng = np.random.default_rng(5)
    made = pandas.DataFrame(
        {
            "age": rng.normal(50, 12, n).round(),
            "weight": rng.normal(70, 9, n).round(1),
            "city": rng.choice(["Bonn", "Genua", "Rom"], n),
        }
    )
    made["crp"] = np.nan  # a column that nobody has
    made["income"] = 1000 * made.age + rng.normal(0, 9000, n).round()
    return made


def audited(given: pandas.DataFrame, **options: Any) -> Summary:
    plan = {"noise": 2000.0, "policy": policy_of(RULES, "house.toml"), "draws": 20, **options}
    found = summary_of_audit(audit(given, plan.pop("settings", SETTINGS), **plan))
    return replace(found, created="2026-11-18T00:00:00")


def public(summary: Summary) -> tuple[Any, ...]:
    """All that a board may tell of the data, read off the summary by another way than the page's."""
    assert summary.policy is not None
    cost = summary.tradeoff
    values = [point.utility for point in cost.points if np.isclose(point.scale, summary.noise.scale)]
    told = [
        None if each is None else f"{each:.2f}".replace("-0.00", "0.00")
        for each in (*values, cost.without_noise, cost.baseline)
    ]
    outcome = {rule.rule.rpartition(".")[2]: True for rule in summary.policy.rules}
    for rule in summary.policy.rules:
        outcome[rule.rule.rpartition(".")[2]] &= rule.passed
    return f"{summary.data.train_rows:.1e}", told, sorted(outcome.items())


def one_changed(given: pandas.DataFrame, **values: Any) -> pandas.DataFrame:
    made = given.copy()
    for name, value in values.items():
        made[name] = made[name].astype(object) if isinstance(value, str) else made[name]
        made.loc[7, name] = value
    return made


NEIGHBOURS: dict[str, Callable[[pandas.DataFrame], pandas.DataFrame]] = {
    "removed": lambda given: given.drop(index=3).reset_index(drop=True),
    "the most exposed removed": lambda given: given.drop(index=int(given.age.argmax())).reset_index(drop=True),
    "replaced": lambda given: one_changed(given, age=33.0, weight=81.5, city="Rom", income=41_000.0),
    "a new maximum": lambda given: one_changed(given, age=119.0, weight=149.0, income=140_000.0),
    "a column that one row has": lambda given: one_changed(given, crp=13.0),
    "a category that appears once": lambda given: one_changed(given, city="Zagreb"),
    "a name that appears once": lambda given: one_changed(given, city="Miss <b>Jane Doe</b>"),
    "a text among numbers": lambda given: one_changed(given.astype({"weight": str}), weight="heavy"),
    "a missing cell": lambda given: one_changed(given, weight=np.nan),
    "a missing label": lambda given: one_changed(given, income=np.nan),
}
REFUSED = {"a text among numbers", "a missing cell"}
"""Bounds of what is no number any more, and a policy on attacks where a cell is missing."""


@pytest.fixture(scope="module")
def own() -> Summary:
    return audited(table())


@pytest.mark.long
@pytest.mark.parametrize("change", NEIGHBOURS)
def test_neighbouring_tables_have_the_same_page_but_for_what_is_declared_public(own: Summary, change: str) -> None:
    """The same bytes, unless a rule's outcome, a rounded utility or the two-digit count changed; or no page at all."""
    other = NEIGHBOURS[change](table())
    if change in REFUSED:
        with pytest.raises(fl.InvalidInputError):  # the documentation lists that no page comes
            audited(other)
        return
    found = audited(other)
    page, mine, yours = board_page(found), board_of(own), board_of(found)
    if public(found) == public(own):
        assert page == board_page(own)
    # all else is the same in any case
    assert {rule.what for rule in mine.rules} == {rule.what for rule in yours.rules}
    assert [each.name for each in mine.utility] == [each.name for each in yours.utility]
    told = {name: getattr(mine, name) for name in ("count", "verdict", "rules", "utility")}
    assert replace(yours, **told) == mine
    assert not {"crp", "Zagreb", "Jane", "Doe", "heavy", "149", "119"} & set(re.findall(r"\w+", _shown(page)))


@pytest.mark.parametrize("change", ["removed", "replaced", "a column that one row has", "a category that appears once"])
def test_the_page_of_a_neighbour_without_a_policy(change: str) -> None:
    """Columns that options do not name stay out, also where one row makes the model use them."""
    plain = Settings("income", "linear", held_out=0.0)
    options = {"settings": plain, "policy": None, "attacks": False, "max_eta": 40.0}
    pages = [board_page(audited(each, **options)) for each in (table(), NEIGHBOURS[change](table()))]
    seen = [set(re.findall(r"[\w.]+", _shown(page))) for page in pages]
    assert all("crp" not in each and "Zagreb" not in each and "city" not in each for each in seen)
    numbers = {
        word for word in seen[0] ^ seen[1] if not re.fullmatch(r"0?\.?\d+|passed|failed|Passed|Failed|most|above", word)
    }
    assert numbers == set()


def _shown(page: str) -> str:
    return re.sub(r"<[^>]*>", " ", page.partition("<body>")[2])


def test_without_a_rule_it_says_that_none_was_checked(own: Summary) -> None:
    assert own.stated is not None
    bare = replace(own, stated=replace(own.stated, rules=()))
    with_rules, without = (_shown(board_page(each)) for each in (own, bare))
    assert "A rule that passed holds" in with_rules
    assert "and which rules passed" in with_rules
    assert "A rule that passed holds" not in without
    assert "and which rules passed" not in without
    assert "No rule was checked, so this page does not say how much the model reveals." in without


def test_it_holds_nothing_measured_but_two_digits(own: Summary) -> None:
    """No figure of the summary is on the page with more than two digits, no row and no rule's value."""
    assert own.policy is not None
    shown = _shown(board_page(own))
    found = {float(word) for word in re.findall(r"\d+\.?\d*", shown)}
    rows = {float(row.row) for row in own.rows}
    values = {float(f"{rule.value:.3g}") for rule in own.policy.rules if isinstance(rule.value, float)}
    assert not values & found
    # what was stated, the count, the day, utility, the number of rules, η's own 1 and the 12 of a unit
    stated = {40.0, 90.0, 95.0, 20.0, 0.1, 2000.0, 200.0, 2026.0, 11.0, 18.0, 0.0, 100.0, 1.0, 6.0, 5.0, 12.0}
    rounded = {float(word) for word in re.findall(r"\d+\.?\d*", " ".join(map(str, public(own)[1])))}
    version = {float(word) for word in re.findall(r"\d+\.?\d*", fl.__version__)}
    assert found <= stated | rounded | version
    assert not rows & (found - stated - rounded - version)
    assert "about 200 rows" in shown


def test_lines_of_a_policy_are_those_that_are_written(own: Summary) -> None:
    """[columns."*"] is one line, however many columns the model uses, and a line passes where all of its rules do."""
    assert own.policy is not None
    assert own.stated is not None
    lines = {(each.section, each.column, each.key): each.passed for each in own.stated.rules}
    assert [*lines] == [
        ("rows", None, "max_eta"),
        ("columns", "*", "max_revealed"),
        ("columns", "*", "max_attack"),
        ("columns", "age", "max_revealed"),
        ("utility", None, "min"),
    ]
    judged = {rule.rule: rule.passed for rule in own.policy.rules}
    assert lines["columns", "age", "max_revealed"] == judged["columns.age.max_revealed"]
    every = [passed for name, passed in judged.items() if name.endswith("max_revealed") and ".age." not in name]
    assert len(every) >= 2
    assert lines["columns", "*", "max_revealed"] == all(every)
    assert all(lines.values()) == own.policy.passed


@pytest.mark.parametrize("laxer", ["label", "columns"])
def test_of_two_lines_on_the_target_the_stricter_is_shown(laxer: str) -> None:
    limits = {"label": 0.001, "columns": 0.001, laxer: 1000.0}
    given = {"label": {"max_eta": limits["label"]}, "columns": {"income": {"max_eta": limits["columns"]}}}
    found = audited(table(), policy=policy_of(given), attacks=False)
    assert found.stated is not None
    assert [rule.limit for rule in found.stated.rules] == [0.001]


@pytest.mark.long
def test_limits_and_outcomes_in_words() -> None:
    rules = [
        StatedRule("rows", None, "max_eta", 0.5, True),
        StatedRule("columns", "age", "min_error", 2.0, False),
        StatedRule("label", None, "max_revealed", 0.1, False),
        StatedRule("require", None, "target", "dose", True),
        StatedRule("utility", None, "min", -0.5, True),
    ]
    page = board_of(_with(Stated(rules=tuple(rules), scale=0.25)))
    assert page.verdict == "Failed: 2 of 5 rules."
    known = {rule.what: (rule.known.replace("\N{NO-BREAK SPACE}", " "), rule.passed) for rule in page.rules}
    assert [*known.values()][:2] == [("below ± 2", False), ("above 10 %", False)]
    assert known["η of any row"] == ("at most 0.5", True)
    assert known["Required setting, target: dose"] == ("", True)
    assert known["Utility with the noise"] == ("at least −0.5", True)
    assert "σ = 0.25" in page.noise


def test_every_rule_that_a_policy_can_have_has_words() -> None:
    """A new key of a policy wants its words here."""
    values: dict[str, Any] = {"released": True, "bounds": True, "attacks": True}
    rules = [
        StatedRule(section, "age" if section == "columns" else None, key, values.get(key, 0.5), True)
        for section, keys in SECTIONS.items()
        for key in (keys if section != "columns" else SECTIONS["label"])
        if key not in MEASURED_BY
    ]
    rules += [StatedRule("columns", "*", key, 0.5, True) for key in ("max_revealed", "max_attack")]
    for rule in rules:
        page = board_of(_with(Stated(rules=(rule,), scale=1.0)))
        assert page.rules[0].what
        assert page.verdict == "Passed: the one rule."
        assert rule.section == "require" or page.rules[0].known.startswith(_which_way(rule.key))


def _which_way(key: str) -> str:
    return {"min": "at least", "max": "at most"}[key.partition("_")[0]].replace(" ", "\N{NO-BREAK SPACE}")


def test_a_least_of_any_name_is_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new key that begins with min_ is a least as the known ones are."""
    monkeypatch.setitem(board.OF_MODEL, "groups.min_rows", "Rows of any group")
    rule = StatedRule("groups", None, "min_rows", 20, True)
    page = board_of(_with(Stated(rules=(rule,), scale=1.0)))
    assert page.rules[0].known.startswith(_which_way(rule.key))


@functools.cache
def _sample() -> Summary:
    return read_summary(sample.summary())


def _with(stated: Stated | None) -> Summary:
    return replace(_sample(), stated=stated)


def test_a_scale_that_rows_decided_is_not_shown(own: Summary) -> None:
    """With `eta` the noise is the largest eta over the limit: a measured maximum."""
    found = audited(table(), noise=None, eta=3.0, policy=None, attacks=False)
    said = board_of(found).noise
    assert "at 3 or below " in said
    assert f"{found.noise.scale:.3g}" not in said
    with pytest.raises(fl.InvalidInputError, match="Add `noise`"):
        board_of(audited(table(), noise=None, policy=None, attacks=False))
    with pytest.raises(fl.InvalidInputError, match="run the audit again"):
        board_of(replace(own, stated=None))


def test_of_a_released_file_the_noise_is_that_of_its_card(own: Summary) -> None:
    """It said that the least noise for the rows present was added, whatever the card says."""
    stated = Stated(rules=(), eta=0.5)
    assert "computed from the data" in board_of(replace(own, stated=stated)).noise
    said = board_of(replace(own, stated=stated, released=ConfirmedRelease((), (), None))).noise
    assert "for a limit of 0.5 on the η of every row. The model card has its scale" in said
    assert "computed from the data" not in said


def test_a_kind_of_model_that_one_label_decides_is_refused() -> None:
    """Its measures of utility would tell that label; the remedy works."""
    given = table()
    given["income"] = np.where(given.age > 50, 1.0, 0.0)
    given.loc[4, "income"] = 2.0
    options: dict[str, Any] = {"policy": None, "attacks": False, "noise": 0.5}
    found = audited(given, settings=Settings("income", held_out=0.0), **options)
    with pytest.raises(fl.InvalidInputError, match="give `model='linear'`"):
        board_of(found)
    assert board_of(audited(given, settings=Settings("income", "linear", held_out=0.0), **options)).utility


@pytest.mark.long
def test_measures_are_all_of_the_kind_in_one_order() -> None:
    """Which one leads depends on how even the classes are, which one row can change."""
    given, pages = table(), []
    for share in (0.29, 0.31):
        given["income"] = np.where(given.age > given.age.quantile(1 - share), "yes", "no")
        found = audited(
            given, settings=Settings("income", "logistic", held_out=0.0), policy=None, attacks=False, noise=0.5
        )
        pages.append((found.tradeoff.metric, [each.name for each in board_of(found).utility]))
    assert {lead for lead, _ in pages} == {"auc", "accuracy"}
    assert all(names == ["Accuracy", "AUC", "Log loss"] for _, names in pages)


def test_it_is_written_whole_and_not_twice(own: Summary, tmp_path: Path) -> None:
    place = write_board(own, tmp_path / "board.html")
    assert place.read_text(encoding="utf-8") == board_page(own)
    with pytest.raises(fl.InvalidInputError, match="overwrite"):
        write_board(own, place)


def test_texts_reach_it_escaped() -> None:
    stated = Stated(
        columns=("<b>x</b>", "y" * 500), rules=(StatedRule("columns", "<i>x</i>", "max_eta", 1.0, True),), scale=1.0
    )
    page = board_page(_with(stated))
    assert "&lt;b&gt;x" in page
    assert not {"<b>", "<i>", "<script"} & {page[k : k + size] for k in range(len(page)) for size in (3, 7)}
    assert "y" * 100 not in page


@pytest.fixture
def largest(tmp_path: Path) -> Path:
    """With more rules and columns than the page shows."""
    rules = [
        StatedRule("columns", f"a rather long name of a column {k}", "max_revealed", 0.1, k % 3 > 0) for k in range(60)
    ]
    rules += [
        StatedRule("membership", None, "max_right", 0.6, True),
        StatedRule("attacks", None, "max_gain", 0.1, True),
    ]
    stated = Stated(
        columns=tuple(f"a rather long name of a column {k}" for k in range(90)), rules=tuple(rules), scale=1.0
    )
    return write_board(_with(stated), tmp_path / "board.html")


@pytest.mark.long
def test_it_is_one_sheet_of_paper_and_passes_axe(opened: Open, largest: Path, tmp_path: Path) -> None:  # noqa: F811
    for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
        page = opened(largest, width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == ""
        assert page.locator("script, img, link, iframe").count() == 0
    page.pdf(path=tmp_path / "board.pdf", format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "board.pdf").read_bytes())) == 1
    assert "default-src &#39;none&#39;" in largest.read_text(encoding="utf-8")
    assert "42 more passed. 4 more failed." in page.inner_text("body")
