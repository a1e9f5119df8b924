"""Audits as calls: records stay as they are, options are known by name, and the report has nothing left to compute."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import fisherleak as fl
from fisherleak.auditing import Audit, Settings, attackers, audit, run
from fisherleak.auditing.spotcheck import spot_check
from fisherleak.errors import InvalidInputError
from fisherleak.report.outputs import write_outputs
from fisherleak.report.summarise import summarise
from fisherleak.tables import Room, from_frame, read_table
from fisherleak.tables.read import parts as table_parts
from fisherleak.training import balancing
from fisherleak.training import trained_model as model
from fisherleak.training.trained_model import train


def figures(result: Audit) -> dict[str, Any]:
    summary = summarise(result, show_values=True)
    del summary["created"], summary["diagnostics"]["seconds"]
    return summary


@pytest.mark.parametrize("where", ["csv", *(pytest.param(w, marks=pytest.mark.long) for w in ("frame", "parquet"))])
@pytest.mark.parametrize("room", [None, pytest.param(Room(1), marks=pytest.mark.long)], ids=["in memory", "in parts"])
def test_a_table_can_be_audited_twice(
    people: Any, tmp_path: Path, where: str, room: Room | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if room is not None:
        pytest.importorskip("dask.array")
    monkeypatch.setattr(table_parts, "BLOCK_BYTES", 8 * 40)  # many parts
    if where == "frame":
        raw = from_frame(people)
    elif where == "csv":
        people.to_csv(tmp_path / "t.csv", index=False)
        raw = read_table(tmp_path / "t.csv")
    else:
        people.to_parquet(tmp_path / "t.parquet", row_group_size=40)
        raw = read_table(tmp_path / "t.parquet")
    before = raw.parts
    one, two = (figures(audit(raw, Settings("sick"), room, draws=4, attacks=False)) for _ in range(2))
    assert one == two
    assert raw.parts is before


def test_a_table_for_one_use_says_so_when_it_is_used_again(people: Any) -> None:
    raw = from_frame(people).once()
    train(raw, Settings("sick"))
    with pytest.raises(InvalidInputError, match="can be read once only, and was read before: open it again"):
        train(raw, Settings("sick"))


def test_the_spot_check_writes_into_nothing(people: Any) -> None:
    trained = train(from_frame(people), Settings("cost", "gamma"))
    eta, X = trained.leak.per_example(), trained.design.X
    before = X.copy()
    free = spot_check(trained, eta)
    X.flags.writeable = False
    assert spot_check(trained, eta) == free
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: spot_check(trained, eta), range(8))) == {free}
    np.testing.assert_array_equal(X, before)
    assert free is not None
    assert free.largest_relative_error < 1e-4


def test_the_spot_check_copies_no_more_than_a_block(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = train(from_frame(people), Settings("income"))
    from fisherleak.auditing.spotcheck import _OneRowMoved
    from fisherleak.rows import memory

    monkeypatch.setattr(memory, "SMALLEST_BLOCK", 10)
    monkeypatch.setattr(memory, "BLOCK_ELEMENTS", 1)
    whole = spot_check(trained, trained.leak.per_example())
    assert whole is not None
    assert whole.largest_relative_error < 1e-4
    change = np.ones(trained.design.X.shape[1])
    moved = _OneRowMoved.of(trained.design.X, 25, change)
    assert np.shares_memory(moved[0:20, ...], trained.design.X)
    assert not np.shares_memory(moved[20:30, ...], trained.design.X)
    np.testing.assert_array_equal(moved[20:30, ...][5], trained.design.X[25] + 1)


def test_an_option_that_is_not_there_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    options: dict[str, Any] = {"nosie": 3.0}
    with pytest.raises(InvalidInputError, match=r"^audit has no option 'nosie'\. Did you mean 'noise'\?$"):
        audit(tmp_path / "nothing.csv", Settings("y"), **options)
    other: dict[str, Any] = {"colour": "red"}
    with pytest.raises(InvalidInputError, match=r"^audit has no option 'colour'\. There are: 'noise', 'eta'"):
        audit(tmp_path / "nothing.csv", Settings("y"), **other)
    with pytest.raises(InvalidInputError, match="`noise` and `eta` cannot both be given"):
        audit(tmp_path / "nothing.csv", Settings("y"), noise=fl.Laplace(1.0), eta=1.0)


@pytest.mark.long
def test_the_audit_runs_the_attacks_and_times_them(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audit(people[["age", "weight", "city", "sick"]], Settings("sick"), draws=4)
    assert {outcome.attribute for outcome, _ in result.attacked.outcomes} == {"city", "sick"}
    on = [outcome.attribute for outcome, _ in result.attacked.outcomes]
    assert (on.count("city"), on.count("sick")) == (len(attackers.ATTACKERS), len(attackers.ATTACKERS) - 1)
    assert len(result.attacked.curves) == len(result.tradeoff.points)
    assert result.seconds["attacks"] > 0
    quiet = audit(people, Settings("sick"), draws=4, attacks=False)
    assert quiet.attacked.outcomes == ()
    monkeypatch.setattr(run, "ATTACKED_ROWS", 10)
    large = audit(people, Settings("sick"), draws=4)
    assert large.attacked.notes == (
        "The table is large, so no attack was run; name a column with `attributes` to have one.",
    )
    assert large.attacked.notes[0] in summarise(large)["assumptions"]


def test_the_report_computes_nothing(people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audit(people[["age", "city", "sick"]], Settings("sick"), draws=4, balance=True, max_eta=0.5)

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("computed")

    for place, name in (
        *((run, name) for name in ("attack_all", "tradeoff", "spot_check", "exposure_of", "reweighted")),
        (model, "minimised_on"),
        (balancing, "balance"),
    ):
        monkeypatch.setattr(place, name, fail)
    summary = summarise(result)
    assert len(summary["attacks"]) == 2 * len(attackers.ATTACKERS) - 1
    write_outputs(result, summary, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8")) == summary


def test_the_rows_of_an_audit(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audit(people, Settings("income"), noise=700.0, draws=4, attacks=False)
    monkeypatch.setattr(model, "BLOCK_VALUES", 50)
    blocks = list(result.leakage_rows())
    assert len(blocks) > 3
    np.testing.assert_allclose(np.concatenate([block.eta for block in blocks]), result.eta)
    largest = [figure.largest / result.unit_scale for figure in result.columns]
    cells = np.concatenate([block.cells for block in blocks if block.cells is not None])
    np.testing.assert_allclose(cells.max(axis=0), largest)
    np.testing.assert_array_equal(np.concatenate([block.numbers for block in blocks]), result.design.rows)
