"""Every remedy that is printed works: the refusal is provoked, what it advises is done, and the call succeeds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import fisherleak as fl
import sentences
from fisherleak.cli import main
from often import often
from remedies.of_bounds import OF_BOUNDS
from remedies.of_choices import OF_CHOICES
from remedies.of_commands import LINES, Line, write_tables
from remedies.of_data import OF_DATA
from remedies.of_estimators import OF_ESTIMATORS
from remedies.of_files import OF_FILES
from remedies.of_gates import OF_GATES
from remedies.of_limits import CALIBRATED, PROTECTED
from remedies.of_models import ATTACKED, AUDITED, MEASURED, RELEASED
from remedies.of_noises import OF_NOISES
from remedies.of_others import OF_OTHERS
from remedies.of_people import OF_PEOPLE
from remedies.of_policies import OF_POLICIES
from remedies.of_releases import OF_RELEASES
from remedies.of_tables import OF_TABLES
from remedies.table import FILE, REASONS, Remedy, as_text, followed, line_with, not_executed, reason_for, with_remedy

FIRST = [*MEASURED, *AUDITED, *RELEASED, *ATTACKED, *CALIBRATED, *PROTECTED, *OF_PEOPLE]
OTHERS = [*OF_DATA, *OF_ESTIMATORS, *OF_NOISES, *OF_POLICIES, *OF_TABLES, *OF_BOUNDS]
OTHERS += [*OF_CHOICES, *OF_RELEASES, *OF_FILES, *OF_GATES, *OF_OTHERS]
CALLS = [*FIRST, *OTHERS]
SAID = [*(each.says for each in CALLS), *(each.says for each in LINES)]
MOST_NOT_EXECUTED = 0
"""Without a reason why no test can follow them. May only be lowered."""


def names(entries: list[Remedy] | list[Line]) -> list[str]:
    return [each.says[:48] for each in entries]


@pytest.mark.parametrize("each", [*FIRST, *often(OTHERS, 5)], ids=names(CALLS))
def test_a_call_works_as_its_refusal_advises(each: Remedy) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is measured has tests of its own
        with pytest.raises(fl.FisherleakError) as refused:
            each.call(**each.given)
        said = str(refused.value)
        assert all(part in said for part in re.split(r"\{[^{}]*\}|`[^`]*`", each.says)), said
        assert each.remedies
        for remedy, action in each.remedies.items():
            assert remedy in said, f"'{remedy}' is not printed"
            assert followed(remedy, action, each.call, each.given) is not None


@pytest.mark.parametrize("each", LINES, ids=names(LINES))
def test_a_command_works_as_its_refusal_advises(
    each: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    assert main(each.words) == 2
    said = " ".join(capfd.readouterr().err.split())
    said = said.replace("'", "")
    for remedy, action in each.remedies.items():
        assert remedy.replace("'", "") in said, f"'{remedy}' is not printed"
        for written in tmp_path.glob("m.skops*"):
            written.unlink()
        assert main(line_with(remedy, each.words) if action is None else action.split()) == 0, capfd.readouterr().err


def test_an_entry_is_of_a_refusal_with_a_remedy() -> None:
    known = [each for said in sentences.sentences().values() for each in said]
    assert [says for says in SAID if not any(says in each for each in known)] == [], "no refusal says this"


def test_refusals_whose_remedy_nothing_follows_are_listed_and_get_fewer() -> None:
    found = not_executed(SAID)
    assert FILE.read_text(encoding="utf-8") == as_text(found), "in tests/, run python -m remedies.table"
    left = [each for said in found.values() for each in said]
    assert sum(not reason_for(each) for each in left) <= MOST_NOT_EXECUTED, "add an entry for the refusal that is new"
    assert [part for part in REASONS if not any(part in each for each in left)] == []


@pytest.mark.parametrize(
    ("sentence", "has"),
    [
        ("scale must be a finite number greater than zero; got {scale}.", False),
        ("rows must not repeat: a row can be counted only once.", False),
        ("gap={gap} needs shape='least-loss'. Leave it out.", True),
        ("'{path}' exists: choose another file, or allow it with `overwrite=True`.", True),
    ],
)
def test_a_remedy_is_an_action_and_no_rule(sentence: str, has: bool) -> None:
    assert with_remedy(sentence) is has


def test_what_is_followed_is_what_is_printed() -> None:
    call: Callable[..., dict[str, object]] = lambda **given: given  # noqa: E731
    assert followed("over='max'", None, call, {"over": "dataset"}) == {"over": "max"}
    assert followed("leave gap out", None, call, {"gap": 1, "eta": 2}) == {"eta": 2}
    assert line_with("--noise 1", ["audit", "--target", "y"]) == ["audit", "--target", "y", "--noise", "1"]
    assert line_with("leave --quick out", ["audit", "--quick", "--target", "y"]) == ["audit", "--target", "y"]
