"""Someone who starts again on a ledger: under a new id, in an older copy of it, or in a second one."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import fisherleak as fl
from cases import Case, make
from fisherleak.cli import main
from fisherleak.protection.ledger import ledger_entries as entries
from fisherleak.protection.ledger.ledger_file import read_content, write_content
from fisherleak.releasing.cards.signatures import card_path, digest_of

pytest.importorskip("pyarrow")
Command = Callable[..., Any]
NOISE = fl.Gaussian(0.5)
N = 20


@pytest.fixture
def ledger(tmp_path: Path) -> fl.Ledger:
    return fl.Ledger(tmp_path / "table.ledger.json")


@pytest.fixture
def case() -> Case:
    return make("squared", n=N)


def renamed(count: int) -> list[str]:
    """Ids of which the first so many are new."""
    return [f"new{k}" if k < count else f"p{k}" for k in range(N)]


def test_a_row_under_a_new_id_carries_the_total_of_the_id_that_had_its_values(ledger: fl.Ledger, case: Case) -> None:
    leak = case.leak(NOISE)
    eta = np.asarray(leak.per_example())
    ledger.add(leak, ids=renamed(0))
    np.testing.assert_allclose(ledger.etas(case.X, case.y, renamed(3)), eta, rtol=1e-9)
    np.testing.assert_allclose(ledger.leakage(case.X, case.y, renamed(3)).per_example(), eta, rtol=1e-9)
    limit = 1.2 * float(eta.max())
    worst = int(np.argmax(eta))
    ids = [f"new{k}" if k == worst else f"p{k}" for k in range(N)]
    with pytest.raises(fl.InvalidInputError, match=rf"past the limit .* new{worst} \(by"):
        ledger.add(leak, ids=ids, limit=limit)
    ledger.add(leak, ids=ids)
    assert ledger.recorded(f"new{worst}") == [pytest.approx(eta[worst], rel=1e-5)] * 2
    assert ledger.remaining(9.0) == pytest.approx(np.sqrt(81.0 - 2.0 * eta.max() ** 2), rel=1e-5)
    # and back to the first id: what was told under the second counts
    for again in (ids, renamed(0)):
        np.testing.assert_allclose(ledger.etas(case.X, case.y, again), np.sqrt(2.0) * eta, rtol=1e-7)
    assert ledger.add(leak, ids=renamed(0)) == 3
    np.testing.assert_allclose(ledger.etas(case.X, case.y, ids), np.sqrt(3.0) * eta, rtol=1e-7)


def test_a_table_in_which_most_rows_are_renamed_is_refused(ledger: fl.Ledger, case: Case) -> None:
    leak = case.leak(NOISE)
    ledger.add(leak, ids=renamed(0))
    assert ledger.etas(case.X, case.y, renamed(N // 2)).size == N
    ids = renamed(N // 2 + 1)
    for question in (
        lambda: ledger.add(leak, ids=ids),
        lambda: ledger.add(leak, ids=ids, limit=100.0),
        lambda: ledger.etas(case.X, case.y, ids),
        lambda: ledger.leakage(case.X, case.y, ids),
        lambda: ledger.remaining(9.0, case.X, case.y, ids),
    ):
        with pytest.raises(fl.InvalidInputError, match=r"11 of 20 rows have values .*made with `carry_to`"):
            question()
    assert len(ledger.entries) == 1


def test_people_with_the_same_values_are_not_merged_while_both_are_there(ledger: fl.Ledger) -> None:
    X = np.repeat(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.3]]), 5, axis=0)
    y = X @ [1.0, 2.0] + 0.5
    twins = Case(X, y, "squared", 0.1, None, False)
    ledger.add(twins.leak(NOISE), ids=range(N))
    grown = np.vstack([X, X[:3]])
    found = ledger.etas(grown, np.append(y, y[:3]), range(N + 3))
    assert np.all(found[N:] == 0.0), "three who came have the values of others who are still there"
    assert np.all(found[:N] > 0.0)
    # one of five left and one came with the same values: on the safe side
    changed = [*range(1, N), 77]
    later = ledger.etas(np.vstack([X[1:], X[:1]]), np.append(y[1:], y[0]), changed)
    assert later[-1] == pytest.approx(found[0], rel=1e-9)


def test_a_row_that_is_known_by_the_columns_of_one_release_carries_what_all_releases_told(ledger: fl.Ledger) -> None:
    """Its value of a column that only the other release used was changed too."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(N, 2)), columns=["age", "dose"], index=[f"p{k}" for k in range(N)])
    y = frame["age"].to_numpy() + rng.normal(size=N)
    both = fl.measure(Ridge(1.0).fit(frame, y), frame, y, noise=NOISE)
    dose = frame[["dose"]]
    one = fl.measure(Ridge(1.0).fit(dose, y), dose, y, noise=NOISE)
    ledger.add(both)
    ledger.add(one)
    exact = ledger.etas(frame, y)
    other = frame.assign(age=np.where(frame.index == "p4", 99.0, frame["age"])).rename(index={"p4": "new"})
    etas = ledger.etas(other, y)
    bound = np.hypot(both.per_example()[4], one.per_example()[4])
    assert exact[4] * (1 - 1e-9) <= etas[4] <= bound * (1 + 1e-5)
    np.testing.assert_allclose(np.delete(etas, 4), np.delete(exact, 4), rtol=1e-9)
    with pytest.raises(fl.InvalidInputError, match=r"Row 'new' has totals .* Ledger\.etas"):
        ledger.leakage(other, y)


def test_corrected_rows_go_on_in_a_ledger_that_starts_from_the_totals(
    ledger: fl.Ledger, case: Case, tmp_path: Path
) -> None:
    leak = case.leak(NOISE)
    eta = np.asarray(leak.per_example())
    ledger.add(leak, ids=renamed(0))
    ledger.add(leak, ids=renamed(0))
    X = case.X.copy()
    X[3] += 0.4
    with pytest.raises(fl.InvalidInputError, match=r"Row 3 of X has other values.*made with `carry_to`"):
        ledger.etas(X, case.y, renamed(0))
    new = tmp_path / "new.ledger.json"
    corrected = ledger.carry_to(new)
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    np.testing.assert_allclose(corrected.etas(X, case.y, renamed(0)), np.sqrt(2.0) * eta, rtol=1e-5)
    assert np.all(corrected.etas(X, case.y, renamed(0)) >= np.sqrt(2.0) * eta)
    assert corrected.remaining(9.0) == pytest.approx(np.sqrt(81.0 - 2.0 * eta.max() ** 2), rel=1e-5)
    assert corrected.remaining(9.0, X, case.y, renamed(0)) == pytest.approx(corrected.remaining(9.0), rel=1e-5)
    assert corrected.recorded("p3") == [pytest.approx(eta[3], rel=1e-5)] * 2
    with pytest.raises(fl.InvalidInputError, match=r"Ledger\.etas"):
        corrected.leakage(X, case.y, renamed(0))
    other = Case(X, case.y, "squared", 0.2, None, False).leak(NOISE)
    with pytest.raises(fl.InvalidInputError, match="past the limit"):
        corrected.add(other, ids=renamed(0), limit=1.001 * float(np.max(np.sqrt(2.0) * eta)))
    assert corrected.add(other, ids=renamed(0)) == 3, "releases are numbered on"
    assert [entry["number"] for entry in corrected.entries] == [1, 2, 3]
    expected = np.sqrt(2.0 * eta**2 + np.asarray(other.per_example()) ** 2)
    np.testing.assert_allclose(corrected.etas(X, case.y, renamed(0)), expected, rtol=1e-5)
    # new ids are no way out of the carried totals either, nor is a third ledger
    np.testing.assert_allclose(corrected.etas(X, case.y, renamed(3)), expected, rtol=1e-5)
    third = corrected.carry_to(tmp_path / "third.ledger.json")
    np.testing.assert_allclose(third.etas(case.X, case.y, renamed(0)), expected, rtol=1e-5)


def test_ids_that_change_twice_with_a_corrected_value_between_carry_all_totals(
    ledger: fl.Ledger, case: Case, tmp_path: Path
) -> None:
    """One thing changes at a time: a new id, a value on a new ledger, and a new id again."""
    etas = []

    def released(ledger: fl.Ledger, X: Any, who: str) -> None:
        leak = fl.measure(fl.minimise(X, case.y, l2=0.1), X, case.y, NOISE)
        etas.append(float(leak.per_example()[3]))
        ledger.add(leak, ids=[who if k == 3 else f"p{k}" for k in range(N)])

    def total(ledger: fl.Ledger, X: Any, who: str) -> float:
        return float(ledger.etas(X, case.y, [who if k == 3 else f"p{k}" for k in range(N)])[3])

    corrected = np.array(case.X)
    corrected[3, 1] += 0.25
    released(ledger, case.X, "ANNA")
    released(ledger, case.X, "BERTA")
    second = ledger.carry_to(tmp_path / "second.ledger.json")
    released(second, corrected, "BERTA")
    expected = float(np.sqrt(np.sum(np.square(etas))))
    assert total(second, corrected, "BERTA") == pytest.approx(expected, rel=1e-4)
    assert total(second, corrected, "CARLA") == pytest.approx(expected, rel=1e-4)


def test_a_ledger_that_was_not_carried_over_to_its_end_is_closed_and_the_call_ends_it(
    ledger: fl.Ledger, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed between two files leaves no two ledgers that do not count each other's releases."""
    ledger.add(case.leak(NOISE))
    new = tmp_path / "new.ledger.json"
    written: list[Path] = []

    def killed(path: Path, content: Any) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write_content(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("fisherleak.protection.ledger.ledger.write_content", killed)
        with pytest.raises(KeyboardInterrupt):
            ledger.carry_to(new)
    assert not new.exists()
    with pytest.raises(fl.InvalidInputError, match="was carried to"):
        ledger.add(case.leak(NOISE))
    with pytest.raises(fl.InvalidInputError, match="was carried to"):
        ledger.carry_to(tmp_path / "other.json")
    assert ledger.carry_to(new).etas(case.X, case.y).max() == pytest.approx(ledger.etas(case.X, case.y).max(), rel=1e-5)
    with pytest.raises(fl.InvalidInputError, match="is there already"):
        ledger.carry_to(new)


def test_a_ledger_is_overwritten_by_nothing(ledger: fl.Ledger, case: Case, tmp_path: Path) -> None:
    ledger.add(case.leak(NOISE))
    before = ledger.path.read_bytes()
    frame = pandas.DataFrame(np.round(case.X, 3), columns=[f"x{j}" for j in range(case.X.shape[1])])
    frame = pandas.concat([frame] * 3, ignore_index=True).assign(y=np.round(np.tile(case.y, 3), 3))
    frame.to_csv(tmp_path / "t.csv", index=False)
    line = ["release", str(tmp_path / "t.csv"), "--target", "y", "--noise", "5", "--overwrite", "--quiet", "--out"]
    assert main([*line, str(ledger.path)]) == 2
    assert ledger.path.read_bytes() == before


def test_a_ledger_that_was_carried_over_takes_no_more(ledger: fl.Ledger, case: Case, tmp_path: Path) -> None:
    leak = case.leak(NOISE)
    ledger.add(leak)
    new = tmp_path / "new.ledger.json"
    new.write_text("mine", encoding="utf-8")
    with pytest.raises(fl.InvalidInputError, match="is there already"):
        ledger.carry_to(new)
    with pytest.raises(fl.InvalidInputError, match="is there already"):
        ledger.carry_to(ledger.path.with_name("new.ledger.json"))
    assert new.read_text(encoding="utf-8") == "mine"
    assert ledger.add(leak) == 2
    new.unlink()
    ledger.carry_to(new)
    for again in (lambda: ledger.add(leak), lambda: ledger.carry_to(tmp_path / "other.json")):
        with pytest.raises(fl.InvalidInputError, match="was carried to"):
            again()
    assert len(ledger.entries) == 2
    assert ledger.etas(case.X, case.y).size == N


def test_another_table_is_no_table_of_a_carried_ledger(ledger: fl.Ledger, case: Case, tmp_path: Path) -> None:
    ledger.add(case.leak(NOISE), ids=renamed(0))
    new = ledger.carry_to(tmp_path / "new.json")
    np.testing.assert_allclose(new.etas(case.X, case.y, range(N)), ledger.etas(case.X, case.y, renamed(0)), rtol=1e-5)
    with pytest.raises(fl.InvalidInputError, match="ledger of another table"):
        new.etas(case.X + 1.0, case.y, range(N))


def test_another_target_is_refused_before_it_is_recorded(ledger: fl.Ledger, tmp_path: Path) -> None:
    """Also where the new table lacks the old target's columns: no table could be held against both."""
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame(rng.normal(size=(30, 3)), columns=["age", "dose", "weight"])
    ill = (frame["age"] + rng.normal(size=30) > 0).astype(float).to_numpy()
    rows = frame[["age", "dose"]]
    ledger.add(fl.measure(LogisticRegression().fit(rows, ill), rows, ill, noise=NOISE))
    for columns, y in ((["dose", "weight"], frame["age"]), (["weight"], 1.0 - ill), (["weight"], 2.0 * ill + 3.0)):
        other = frame[columns]
        leak = fl.measure(Ridge().fit(other, y), other, np.asarray(y), noise=NOISE)
        if columns == ["weight"] and y[0] in (3.0, 5.0):
            ledger.add(leak)  # the same two classes, written as other numbers
            assert ledger.etas(frame, y).size == 30
            continue
        with pytest.raises(fl.InvalidInputError, match=r"target|classes"):
            ledger.add(leak)
    new = ledger.carry_to(tmp_path / "new.json")
    other = frame[["dose", "weight"]]
    leak = fl.measure(Ridge().fit(other, frame["age"]), other, frame["age"].to_numpy(), noise=NOISE)
    assert new.add(leak) == 3
    assert np.all(new.etas(frame, frame["age"]) >= np.asarray(leak.per_example()))


def test_a_value_that_changed_is_noticed_in_a_table_of_fewer_columns(ledger: fl.Ledger) -> None:
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame(rng.normal(size=(30, 2)), columns=["age", "dose"])
    y = rng.normal(size=30)
    ledger.add(fl.measure(Ridge().fit(frame, y), frame, y, noise=NOISE))
    dose = frame[["dose"]] + (np.arange(30) == 7)[:, None]
    with pytest.raises(fl.InvalidInputError, match="Row 7 of X has other values"):
        ledger.add(fl.measure(Ridge().fit(dose, y), dose, y, noise=NOISE))
    assert len(ledger.entries) == 1


# An older copy that is put back


@pytest.fixture
def fisherleak(capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line in this process."""

    def run(*arguments: object) -> SimpleNamespace:
        capfd.readouterr()
        over = ("--over", "max") if arguments[0] == "release" else ()
        status = main([str(argument) for argument in (*arguments, *over)])
        captured = capfd.readouterr()
        return SimpleNamespace(status=status, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def people(tmp_path: Path, frame: Any) -> Path:
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


def released(fisherleak: Command, table: Path, book: Path, number: int) -> Path:
    out = table.parent / f"m{number}.skops"
    options = ("--target", "sick", "--id", "person", "--eta", "0.4", "--out", out, "--ledger", book)
    done = fisherleak("release", table, *options)
    assert done.status == 0, done.err
    return out


@pytest.mark.long
def test_a_ledger_that_was_rolled_back_is_noticed(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    book, older = tmp_path / "people.ledger.json", tmp_path / "older"
    first = released(fisherleak, people, book, 1)
    shutil.copy2(book, older)
    second = released(fisherleak, people, book, 2)
    for number, model in enumerate((first, second), start=1):
        done = fisherleak("verify", model, "--ledger", book)
        assert (done.status, done.err) == (0, "")
        assert f"as number {number} of 2" in done.out.replace("\n", " ")
    shutil.copy2(older, book)
    assert fisherleak("verify", first, "--ledger", book).status == 0
    done = fisherleak("verify", second, "--ledger", book)
    assert done.status == 1
    assert "was rolled back" in done.err
    third = released(fisherleak, people, book, 3)  # as number 2, again
    assert fisherleak("verify", third, "--ledger", book).status == 0
    done = fisherleak("verify", second, "--ledger", book)
    assert done.status == 1
    assert "has another release as number 2" in done.err
    new = tmp_path / "new.ledger.json"
    carried = fisherleak("ledger", book, "--carry-to", new)
    assert carried.status == 0
    assert "starts from the totals of 2 releases" in carried.out.replace("\n", " ")
    assert fisherleak("verify", third, "--ledger", new).status == 0
    assert fisherleak("verify", second, "--ledger", new).status == 1
    fourth = released(fisherleak, people, new, 4)
    assert json.loads(card_path(fourth).read_text(encoding="utf-8"))["ledger"]["release"] == 3
    told = json.loads(fisherleak("ledger", new, people, "--json").out)
    assert len(told["releases"]) == 3


@pytest.mark.long
def test_the_mark_of_one_release_is_none_of_another(fisherleak: Command, people: Path, tmp_path: Path) -> None:
    book, other = tmp_path / "people.ledger.json", tmp_path / "other.ledger.json"
    first = released(fisherleak, people, book, 1)
    second = released(fisherleak, people, other, 2)
    plain = people.parent / "m3.skops"
    fisherleak("release", people, "--target", "sick", "--eta", "0.4", "--out", plain)
    assert "another ledger" in fisherleak("verify", second, "--ledger", book).err
    assert "names no release on a ledger" in fisherleak("verify", plain, "--ledger", book).err
    claim = json.loads(card_path(first).read_text(encoding="utf-8"))["ledger"]
    for false in (claim, claim | {"release": 2}, claim | {"release": "1"}, claim | {"mark": 3}, [1]):
        card = json.loads(card_path(plain).read_text(encoding="utf-8"))
        card["ledger"] = false
        card["digest"]["value"] = digest_of(card)
        card_path(plain).write_text(json.dumps(card), encoding="utf-8")
        done = fisherleak("verify", plain, "--ledger", book)
        assert done.status in (1, 2), false
        assert "this should not happen" not in done.err


@pytest.mark.parametrize("options", [("people.csv",), ("--limit", "1")])
def test_what_carries_over_needs_no_table(
    fisherleak: Command, people: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    book, new = tmp_path / "people.ledger.json", tmp_path / "new.ledger.json"
    released(fisherleak, people, book, 1)
    done = fisherleak("ledger", book, *options, "--carry-to", new)
    assert done.status == 2
    assert "--carry-to needs no" in done.err
    assert not new.exists()
    assert fisherleak("ledger", book).status == 2


@pytest.mark.long
def test_totals_stay_in_standard_units_on_the_command_line(
    fisherleak: Command, people: Path, tmp_path: Path, frame: Any
) -> None:
    """A column in small units, or in large ones, makes no total larger than it was."""
    book, new = tmp_path / "people.ledger.json", tmp_path / "new.ledger.json"
    released(fisherleak, people, book, 1)
    before = json.loads(fisherleak("ledger", book, people, "--json").out)
    assert fisherleak("ledger", book, "--carry-to", new, "--quiet").out == ""
    corrected = people.parent / "corrected.csv"
    pandas.DataFrame(frame).assign(age=frame["age"] + 0.01 * (frame["person"] == "p004")).to_csv(corrected, index=False)
    after = json.loads(fisherleak("ledger", new, corrected, "--json").out)
    then, now = ({row["id"]: row["eta"] for row in told["most_exposed"]} for told in (before, after))
    assert now == pytest.approx(then, rel=1e-4)


def as_before(ledger: fl.Ledger) -> None:
    """Write a ledger as version 0.1.0 did: without marks, digests of single values and what can be carried over."""
    content = {name: value for name, value in read_content(ledger.path).items() if name not in ("digest", "carried")}
    content["schema"] = "fisherleak.ledger/1"
    for entry in content["entries"]:
        for name in ("cells", "written", "spent", "other_ids"):
            del entry[name]
        del entry["labels"]["several"]
    write_content(ledger.path, content)


def test_ledgers_of_the_version_before_are_read_gone_on_with_and_carried_over(
    ledger: fl.Ledger, case: Case, tmp_path: Path
) -> None:
    leak = case.leak(NOISE)
    eta = np.asarray(leak.per_example())
    ledger.add(leak, ids=renamed(0))
    as_before(ledger)
    np.testing.assert_allclose(ledger.etas(case.X, case.y, renamed(3)), eta, rtol=1e-9)
    few = Case(case.X[:, :1], case.y, "squared", 0.1, None, False).leak(NOISE)
    with pytest.raises(fl.InvalidInputError, match="pass a table that has all columns"):
        ledger.add(few, ids=renamed(0))
    assert ledger.add(leak, ids=renamed(3)) == 2
    np.testing.assert_allclose(ledger.etas(case.X, case.y, renamed(0)), np.sqrt(2.0) * eta, rtol=1e-7)
    new = ledger.carry_to(tmp_path / "new.json")
    np.testing.assert_allclose(new.etas(case.X, case.y, renamed(3)), np.sqrt(2.0) * eta, rtol=1e-5)


def test_wide_tables_keep_no_digests_of_single_values(
    ledger: fl.Ledger, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "CELLS_KEPT", 10)
    ledger.add(case.leak(NOISE))
    few = Case(case.X[:, :1], case.y, "squared", 0.1, None, False).leak(NOISE)
    with pytest.raises(fl.InvalidInputError, match="without digests of single values"):
        ledger.add(few)
    assert ledger.add(case.leak(NOISE)) == 2


# Values that cannot be looked up


@pytest.fixture
def patients() -> Any:
    rng = np.random.default_rng(4)
    frame = pandas.DataFrame(
        rng.normal(size=(N, 3)), columns=["age", "dose", "weight"], index=[f"p{k}" for k in range(N)]
    )
    return frame, frame["age"].to_numpy() + rng.normal(size=N), (frame["dose"] > 0).to_numpy().astype(float)


def ridge(frame: Any, y: Any) -> Any:
    return fl.measure(Ridge(1.0).fit(frame, y), frame, y, noise=NOISE)


def under_new_ids(frame: Any) -> Any:
    """All but the first, which keeps the ledger that of this table."""
    return frame.set_axis(["p0", *(f"q{k}" for k in range(1, len(frame)))])


@pytest.mark.parametrize("how", ["dropped", "renamed"])
def test_a_column_that_is_not_there_hides_no_new_id(how: str, ledger: fl.Ledger, patients: Any, tmp_path: Path) -> None:
    frame, y, _ = patients
    ledger.add(ridge(frame, y))
    new = ledger.carry_to(tmp_path / "new.json")
    fewer = frame.drop(columns="weight") if how == "dropped" else frame.rename(columns={"weight": "weight_"})
    again = ridge(under_new_ids(fewer), y)
    said = rf"{N - 1} of {N} rows have ids that no release .*row 1 of X first.* release 1 used column 'weight'.* leave these"
    for question in (
        lambda: new.add(again),
        lambda: new.add(again, limit=1e6),
        lambda: new.etas(under_new_ids(fewer), y),
    ):
        with pytest.raises(fl.InvalidInputError, match=said):
            question()
    # each remedy works: the column, the ids, fewer rows
    assert new.etas(under_new_ids(frame), y) == pytest.approx(ledger.etas(frame, y), rel=1e-5)
    assert new.etas(fewer, y) == pytest.approx(ledger.etas(frame, y), rel=1e-5)
    assert new.etas(under_new_ids(fewer)[:1], y[:1]) == pytest.approx(ledger.etas(frame, y)[:1], rel=1e-5)


def test_another_target_hides_no_new_id(ledger: fl.Ledger, patients: Any, tmp_path: Path) -> None:
    frame, y, ill = patients
    ledger.add(ridge(frame, y))
    new = ledger.carry_to(tmp_path / "new.json")
    assert new.etas(under_new_ids(frame), ill) == pytest.approx(ledger.etas(frame, y), rel=1e-5)
    content = read_content(new.path)
    for entry in content["carried"]:  # as ledgers were before
        del entry["features"]
    write_content(new.path, content)
    assert new.etas(under_new_ids(frame), y) == pytest.approx(ledger.etas(frame, y), rel=1e-5)


def test_a_new_id_is_not_forgotten_with_corrected_values(ledger: fl.Ledger, patients: Any, tmp_path: Path) -> None:
    """Known by values under the new id once, then carried over again with others, or with fewer columns."""
    frame, y, _ = patients
    ledger.add(ridge(frame, y))
    second = ledger.carry_to(tmp_path / "second.json")
    second.add(ridge(under_new_ids(frame), y))
    third = second.carry_to(tmp_path / "third.json")
    told = np.sqrt(2.0) * ledger.etas(frame, y)
    for table in (frame, frame + 0.1, frame.drop(columns="weight")):
        assert third.etas(under_new_ids(table), y) == pytest.approx(told, rel=1e-5)


@pytest.mark.long
def test_other_bounds_of_the_target_make_nobody_a_newcomer(fisherleak: Any, tmp_path: Path) -> None:
    """A label of 0 is 0 in every unit: rows are known by their values, and honest ids go on."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.uniform(0, 100, (60, 2)).round(1), columns=["a", "b"])
    frame["wage"] = (frame.a - frame.b + rng.normal(0, 20, 60)).round()
    frame.loc[59, ["a", "b", "wage"]] = [99.0, 1.0, 0.0]
    frame.insert(0, "pid", [f"p{k}" for k in range(60)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.replace({"pid": {"p59": "someone"}}).to_csv(tmp_path / "renamed.csv", index=False)

    def release(table: str, low: int, out: str, *options: str) -> Any:
        bounds = ("--bounds", "a=0:100", "--bounds", "b=0:100", "--bounds", f"wage={low}:250")
        own = ("--target", "wage", "--id", "pid", "--noise", "20", *bounds, "--ledger", tmp_path / "L")
        return fisherleak("release", tmp_path / table, *own, *options, "--out", tmp_path / out)

    assert release("t.csv", -299, "1.skops").status == 0
    assert release("t.csv", -292, "2.skops").status == 0  # ids as they were
    assert release("renamed.csv", -287, "3.skops").status == 0
    (last,) = read_content(tmp_path / "L")["entries"][-1:]
    assert [len(names) for names in last["other_ids"].values()] == [1]  # of one row, the id that it had
