"""Ways to pass a rule by what a card tells beside the noise: ranges that rows decide, and the scale that a limit asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks_on_us.under_policy import judged, write_table_and_policy

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("skops")

import pandas
from scipy.special import ndtr

from fisherleak.auditing.exposure.membership_of_rows import told_right
from fisherleak.cli import main
from fisherleak.protection.certificates import exchange as exchange_module
from fisherleak.protection.certificates.exchange import exchange_in
from fisherleak.protection.certificates.published_scale import STEP
from fisherleak.protection.certificates.worst_record import worst_record
from fisherleak.releasing import scale_rule as rules_of_scales
from fisherleak.releasing.any_record_noise import AnyRecordLimit, leaks_of_limits, least_admitted
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.scale_rule import ScaleRule, changes_of_scale, scale_rule
from fisherleak.rows.selection import some_rows
from fisherleak.tables import Room, from_frame
from fisherleak.training.trained_model import Settings, train

pytestmark = pytest.mark.usefixtures("quick_audits")

Gate = Callable[..., tuple[int, str, dict[str, Any]]]
ENDS = {"a": (-4.0, 4.0), "b": (-4.0, 4.0), "y": (-8.0, 8.0)}
BOUNDS = [word for name, (low, high) in ENDS.items() for word in ("--bounds", f"{name}={low:g}:{high:g}")]
MEMBERS = "[membership]\nmax_right = {}\n"


def plain(rows: int = 60) -> pandas.DataFrame:
    rng = np.random.default_rng(3)
    X = rng.uniform(-3.9, 3.9, (rows, 2))
    y = X @ [1.0, -0.5] + rng.uniform(-2.0, 2.0, rows)
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Releases a table and checks the file under a policy: the exit status, standard error, and the rules by name."""
    monkeypatch.chdir(tmp_path)

    def run(table: pandas.DataFrame, policy: str, *options: str) -> tuple[int, str, dict[str, Any]]:
        write_table_and_policy(table, policy)
        line = ["release", "t.csv", "--target", "y", "--out", "m.skops", "--quiet", "--overwrite"]
        assert main([*line, *options]) == 0, capsys.readouterr().err
        return judged(capsys, "--released", "m.skops", "--no-attacks", "--draws", "2")

    return run


# ranges that were taken from the rows


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(MEMBERS.format(0.999), marks=pytest.mark.long),
        "[columns.a]\nmax_revealed = 0.999\n",
        "[columns.a]\nmax_eta = 1e3\n",
        "[columns.a]\nmin_error = 1e-6\n",
        "[label]\nmax_revealed = 0.999\n",
        "[rows]\nmax_eta = 1e3\n",
    ],
)
def test_no_rule_passes_a_card_with_ranges_from_rows_and_the_remedy_works(gate: Gate, policy: str) -> None:
    kind = ["--eta", "1", "--l2", "3", "--shape", "isotropic"]
    status, err, _ = gate(plain(100), policy, *kind)
    assert (status, err.count("\n")) == (2, 1)
    assert "the model card states ranges of 'a', 'b' and 'y' that were taken from the rows" in err
    assert "Release with --bounds a=LOW:HIGH, and so for each of them" in err
    status, err, rules = gate(plain(100), policy, *kind, *BOUNDS)
    assert (status, err) == (0, ""), err
    assert all(rule["passed"] for rule in rules.values())


def test_one_range_from_rows_is_enough_since_the_scale_follows_from_all(gate: Gate) -> None:
    some = [*BOUNDS[:2], *BOUNDS[4:]]
    status, err, _ = gate(plain(), "[columns.a]\nmax_revealed = 0.999\n", "--eta", "1", "--l2", "3", *some)
    assert (status, "ranges of 'b' that" in err, "--bounds b=LOW:HIGH, or leave" in err) == (2, True, True), err


def test_a_noise_that_is_given_tells_no_range(gate: Gate) -> None:
    status, err, rules = gate(plain(), "[rows]\nmax_eta = 1e3\n", "--noise", "1")
    assert (status, err, rules["rows.max_eta"]["passed"]) == (0, "", True)


# the scale that a limit asks for


def scale(table: pandas.DataFrame, shape: str | None) -> float:
    """What is rounded up to the grid, by the functions that a release uses."""
    settings = Settings("y", held_out=0.0, l2=3.0, bounds=tuple(ENDS.items()))
    trained = train(from_frame(table), settings, Room.here())
    return least_admitted(trained, settings, AnyRecordLimit(1.0, bounds=ENDS, shape=shape))[0]


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        pytest.param("isotropic", 100, marks=pytest.mark.long),
        ("hessian", 40),
        pytest.param("least-loss", 40, marks=pytest.mark.long),
    ],
)
def test_membership_counts_that_the_scale_changes_without_a_row(gate: Gate, shape: str, rows: int) -> None:
    table = plain(rows)
    options = ["--eta", "1", "--l2", "3", "--shape", shape, *BOUNDS]
    status, _, rules = gate(table, MEMBERS.format(0.999), *options)
    said = rules["membership.max_right"]
    assert (status, "changes it with a probability of" in said["note"]) == (0, True)
    named = None if shape == "isotropic" else shape
    row = said["row"] - 1
    apart = abs(math.log(scale(table, named) / scale(table.drop(index=row), named))) / math.log(STEP)
    assert apart > 0.02  # more than nothing, in this table
    assert said["value"] > 0.5 + apart / 2  # what (offset, scale) alone tells, and the parameters beside it
    # between what the parameters tell and what both tell
    trained = retrain(load_model(Path("m.skops")), from_frame(table))
    noise = load_model(Path("m.skops")).noise_on(trained)
    rule = scale_rule(load_model(Path("m.skops")), trained, noise)
    assert rule is not None
    changes = changes_of_scale(trained, rule)
    assert changes[row] == pytest.approx(apart, rel=1e-6)


def test_the_best_attacker_is_right_as_often_as_offsets_and_noise_let_him() -> None:
    rng, mu, p, draws = np.random.default_rng(5), 0.8, 0.3, 400_000
    present, other = rng.random(draws) < 0.5, rng.random(draws) < p
    seen = rng.normal(size=draws) + mu * present
    guess = np.where(other, present, seen > mu / 2)  # another scale tells for certain
    assert np.mean(guess == present) == pytest.approx(float(told_right(mu, p)), abs=4 * 0.5 / math.sqrt(draws))
    assert told_right(mu) == ndtr(mu / 2)
    assert told_right(math.inf, p) == 1.0


def test_a_penalty_that_a_rule_chose_counts_every_scale_that_was_compared(tmp_path: Path) -> None:
    table, path = from_frame(plain(200)), tmp_path / "m.skops"
    save_model(table, Settings("y", held_out=0.0), path, eta=1.0, bounds=ENDS, choose_l2=True, random_state=0)
    saved = load_model(path)
    trained = retrain(saved, table)
    rule = scale_rule(saved, trained, saved.noise_on(trained))
    assert rule is not None
    penalties = [l2 for l2, _ in rule.tried]
    assert saved.settings.l2 in penalties
    assert rule.too_many(rules_of_scales.MOST_FITS // len(penalties) + 1)
    assert not rule.too_many(rules_of_scales.MOST_FITS // len(penalties))
    # every penalty before the chosen one was looked at: three times as much each
    assert all(later == pytest.approx(3 * l2, rel=0.04) for l2, later in pairwise(penalties) if later != l2)


def test_without_a_scale_that_keeps_the_limit_a_row_is_told_for_certain() -> None:
    settings = Settings("y", held_out=0.0, l2=1e-6, bounds=tuple(ENDS.items()))
    trained = train(from_frame(0.1 * plain(30)), settings, Room.here())
    assert (changes_of_scale(trained, ScaleRule(AnyRecordLimit(1.0, bounds=ENDS), ((1e-6, None),))) == 1.0).all()


def test_where_it_takes_long_the_rule_is_refused_and_the_remedy_works(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_of_scales, "MOST_FITS", 10)
    kind = ["--l2", "3", *BOUNDS]
    status, err, _ = gate(plain(), MEMBERS.format(0.999), "--eta", "1", *kind)
    assert (status, "is not computed for 60 rows. Release with a --noise that is given" in err) == (2, True), err
    assert gate(plain(), MEMBERS.format(0.999), "--noise", "2", *kind)[0] == 0


def test_rules_on_values_say_that_they_hold_the_scale_fixed(gate: Gate) -> None:
    policy = "[columns.a]\nmax_revealed = 0.999\n"
    options = ("--l2", "3", *BOUNDS)
    _, _, rules = gate(plain(), policy, "--eta", "1", *options)
    assert "the noise scale is held fixed, though another value may change it" in str(rules)
    _, _, rules = gate(plain(), policy, "--noise", "1", *options)
    assert "scale is held fixed" not in str(rules)


def test_the_bound_without_a_search_is_the_same() -> None:
    settings = Settings("y", held_out=0.0, l2=3.0, bounds=tuple(ENDS.items()))
    trained = train(from_frame(plain()), settings, Room.here())
    ((leak, _, attributes, bounds),) = leaks_of_limits(trained, AnyRecordLimit(1.0, bounds=ENDS))
    found = worst_record(exchange_in(leak, bounds, attributes), searched=False)
    assert found.upper == worst_record(exchange_in(leak, bounds, attributes)).upper


def test_the_bound_of_classes_without_a_search_is_the_same_by_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = plain()
    frame = pandas.concat([frame] * 3, ignore_index=True).assign(y=lambda f: [f"class {k % 3}" for k in range(len(f))])
    frame.loc[frame.index % 9 == 4, "a"] = np.nan
    ends = {name: ENDS[name] for name in ("a", "b")}
    settings = Settings("y", held_out=0.0, l2=3.0, intercept_l2=3.0, bounds=tuple(ends.items()))
    trained = train(from_frame(frame), settings, Room.here())
    ((leak, _, attributes, bounds),) = leaks_of_limits(trained, AnyRecordLimit(1.0, bounds=ends))
    exchange = exchange_in(leak, bounds, attributes)
    asked = worst_record(exchange)
    rows = some_rows(len(frame), exchange_module.SOME_ROWS, 0)
    some = float(np.max(leak.per_example()[rows])) * float(leak.noise.scale)
    assert exchange.present_in_some == pytest.approx(some, rel=1e-9)
    assert exchange.present_in_some <= exchange.present * (1 + 1e-9)
    found = worst_record(exchange_in(leak, bounds, attributes), searched=False)
    assert found.upper == asked.upper
    assert found.present == pytest.approx(some, rel=1e-9)
