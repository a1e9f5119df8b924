"""A ledger composes what was released exactly, survives its writers, and holds no row."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler

import fisherleak as fl
from cases import make, slanted
from fisherleak.engine.noise.calibration_record import Calibration
from fisherleak.protection.ledger import ledger_file as locked
from often import often

NOISE = fl.Gaussian(0.5)


def clinic(n: int = 80) -> tuple[pandas.DataFrame, Any]:
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame(
        {"age": rng.normal(50, 12, n), "dose": rng.gamma(3.0, 2.0, n), "kind": rng.choice(["a", "b", "c"], n)},
        index=[f"p{k}" for k in range(n)],
    )
    y = np.where(0.05 * (frame["age"] - 50) + (frame["kind"] == "b") + rng.normal(size=n) > 0.3, "ill", "well")
    return frame, y


def pipeline(last: Any, encoder: Any = None) -> Any:
    encode = OneHotEncoder(drop="first") if encoder is None else encoder
    parts = [("n", StandardScaler(), ["age", "dose"]), ("k", encode, ["kind"])]
    return make_pipeline(ColumnTransformer(parts), last)


@pytest.fixture
def ledger(tmp_path: Path) -> fl.Ledger:
    return fl.Ledger(tmp_path / "table.ledger.json")


def same(found: fl.Leakage, expected: fl.Leakage) -> None:
    np.testing.assert_allclose(found.per_example(), expected.per_example(), rtol=1e-7)
    np.testing.assert_allclose(found.per_cell(), expected.per_cell(), rtol=1e-7)
    np.testing.assert_allclose(found.per_label(), expected.per_label(), rtol=1e-7)
    np.testing.assert_allclose(found.per_attribute(), expected.per_attribute(), rtol=1e-7)
    assert found.dataset() == pytest.approx(expected.dataset(), rel=1e-7)


@pytest.mark.parametrize("loss", list(fl.LOSSES))
def test_what_is_read_is_the_composition_of_what_was_added(ledger: fl.Ledger, loss: str) -> None:
    case = make(loss, weighted=True, intercept=True)
    other = make(loss, weighted=True, intercept=True, l2=0.2)
    leaks = [case.leak(NOISE), other.leak(fl.Laplace(2.0)), case.leak(fl.Answers(case.X[:7], fl.Bounded(1.0)))]
    assert [ledger.add(leak) for leak in leaks] == [1, 2, 3]
    same(ledger.leakage(case.X, case.y), fl.compose(*leaks))
    assert ledger.leakage(case.X, case.y).fim(rows=[3]) == pytest.approx(fl.compose(*leaks).fim(rows=[3]), rel=1e-7)


def test_totals_without_a_table_are_never_below_the_truth(ledger: fl.Ledger) -> None:
    case = make("squared", intercept=True)
    true = [case.leak(fl.Gaussian(scale)).per_example() for scale in (1.0, 1.1, 1.3, 1.7)]
    for scale in (1.0, 1.1, 1.3, 1.7):
        ledger.add(case.leak(fl.Gaussian(scale)))
    for row in range(len(case.y)):
        assert all((kept or 0.0) >= float(own[row]) for kept, own in zip(ledger.recorded(row), true, strict=True))
    assert all(entry["largest"] >= float(own.max()) for entry, own in zip(ledger.entries, true, strict=True))
    assert ledger.remaining(9.0) <= float(np.sqrt(81.0 - sum(own**2 for own in true).max()))


@pytest.mark.parametrize("public", ["preprocessing", "nothing"])
def test_pipelines_on_frames_are_kept_with_their_encoding(ledger: fl.Ledger, public: str) -> None:
    frame, y = clinic()
    classes = pipeline(LogisticRegression(tol=1e-10, max_iter=9999)).fit(frame, y)
    other = pipeline(LogisticRegression(C=0.1, tol=1e-10, max_iter=9999), OneHotEncoder()).fit(frame, y)
    leaks = [fl.measure(model, frame, y, noise=NOISE, public=public) for model in (classes, other)]
    leaks.append(fl.measure(classes, frame, y, noise=fl.SampledLabels(frame), public=public))
    ledger.add(leaks[0])
    same(ledger.leakage(frame, y), leaks[0])
    for leak in leaks[1:]:
        ledger.add(leak)
    same(ledger.leakage(frame, y), fl.compose(*leaks))
    assert "independent releases" in ledger.leakage(frame, y).summary()
    with pytest.raises(fl.InvalidInputError, match="membership"):
        ledger.leakage(frame, y).membership()


SHAPED: list[Any] = [fl.Posterior(0.3), fl.ObjectivePerturbation(1.7)]


@pytest.mark.parametrize("way", SHAPED)
@pytest.mark.parametrize("intercept", often([False, True]))
def test_noise_that_the_data_shape_is_kept_with_its_shape(ledger: fl.Ledger, way: Any, intercept: bool) -> None:
    case = make("squared", weighted=True, intercept=intercept)
    leaks = [case.leak(way), case.leak(fl.Gaussian(0.4)), case.leak(SHAPED[0])]
    ledger.add(leaks[0])
    same(ledger.leakage(case.X, case.y), leaks[0])
    for leak in leaks[1:]:
        ledger.add(leak)
    together = fl.compose(*leaks)
    same(ledger.leakage(case.X, case.y), together)
    spent = float(together.per_example().max())
    assert ledger.remaining(2.0 * spent, case.X, case.y) == pytest.approx(np.sqrt(3.0) * spent, rel=1e-6)
    with pytest.raises(fl.InvalidInputError, match="limit"):
        ledger.add(leaks[0], limit=1.01 * spent)
    assert len(ledger.entries) == 3
    grown = np.vstack([case.X, [[0.3, -0.2, 1.0]]])
    found = ledger.leakage(grown, np.append(case.y, 0.5)).per_example()
    np.testing.assert_allclose(found[:-1], together.per_example(), rtol=1e-7)
    assert found[-1] == 0.0


def test_a_shaped_objective_is_kept_with_its_public_shape(ledger: fl.Ledger) -> None:
    case = make("squared", weighted=True, intercept=True)
    leak = case.leak(fl.ObjectivePerturbation(1.7, shape=slanted(4)))
    ledger.add(leak)
    same(ledger.leakage(case.X, case.y), leak)
    assert not np.allclose(leak.per_example(), case.leak(fl.ObjectivePerturbation(1.7)).per_example())


@pytest.mark.parametrize("way", SHAPED)
def test_noise_that_the_data_shape_is_not_recorded_beside_what_it_is_not_composed_with(
    ledger: fl.Ledger, way: Any
) -> None:
    frame, y = clinic()
    numbers = frame[["age", "dose"]]
    labels = (y == "ill") * 1.0
    scaled = make_pipeline(StandardScaler(), Ridge(1.0)).fit(numbers, labels)
    plain = fl.measure(scaled, numbers, labels, way)
    ledger.add(plain)
    same(ledger.leakage(numbers, labels), plain)
    folded = fl.measure(scaled, numbers, labels, NOISE, public="nothing")
    with pytest.raises(fl.InvalidInputError, match=type(way).__name__):
        ledger.add(folded)
    assert len(ledger.entries) == 1


def test_adding_one_twice_counts_twice(ledger: fl.Ledger) -> None:
    case = make("squared")
    leak = case.leak(NOISE)
    for times in (1, 2, 3, 4):
        ledger.add(leak)
        expected = np.sqrt(times) * leak.per_example()
        np.testing.assert_allclose(ledger.leakage(case.X, case.y).per_example(), expected, rtol=1e-9)


@pytest.mark.parametrize("public", ["preprocessing", "nothing"])
def test_rows_that_came_are_in_no_earlier_release_and_those_that_left_keep_their_record(
    ledger: fl.Ledger, public: str
) -> None:
    frame, _ = clinic()
    y = frame["age"].to_numpy() / 10 + frame["dose"].to_numpy()
    early, late = frame.iloc[:60], frame.iloc[20:]
    first = fl.measure(pipeline(Ridge(1.0)).fit(early, y[:60]), early, y[:60], noise=NOISE, public=public)
    second = fl.measure(pipeline(Ridge(5.0)).fit(late, y[20:]), late, y[20:], noise=NOISE, public=public)
    ledger.add(first)
    ledger.add(second)
    now = ledger.leakage(late, y[20:])
    np.testing.assert_allclose(now.per_example()[40:], second.per_example()[40:], rtol=1e-7)
    for row in (0, 11, 39):  # in both, at place row + 20 of the first
        F = first.fim(rows=[row + 20]) + second.fim(rows=[row])
        assert now.per_example()[row] == pytest.approx(np.sqrt(np.linalg.eigvalsh(F)[-1]), rel=1e-7)
        np.testing.assert_allclose(now.fim(rows=[row]), F, rtol=1e-6, atol=1e-9 * np.abs(F).max())
    shuffled = np.random.default_rng(0).permutation(60)
    again = ledger.leakage(late.iloc[shuffled], y[20:][shuffled])
    np.testing.assert_allclose(again.per_example(), now.per_example()[shuffled], rtol=1e-7)
    assert ledger.recorded("p3") == [pytest.approx(first.per_example()[3], rel=1e-5), None]
    assert ledger.recorded("p70") == [None, pytest.approx(second.per_example()[50], rel=1e-5)]


def test_what_remains_is_on_the_safe_side(ledger: fl.Ledger) -> None:
    case = make("logistic")
    leak = case.leak(NOISE)
    worst = float(leak.per_example().max())
    ledger.add(leak)
    limit = 2.0 * worst
    assert ledger.remaining(limit) == pytest.approx(np.sqrt(3.0) * worst, rel=1e-5)
    assert ledger.remaining(limit, case.X, case.y) == pytest.approx(np.sqrt(3.0) * worst)
    more = fl.calibrate(leak, ledger.remaining(limit, case.X, case.y))
    ledger.add(leak.with_noise(more))
    assert ledger.leakage(case.X, case.y).per_example().max() <= limit * (1 + 1e-9)
    assert ledger.remaining(worst) == 0


def test_a_release_past_the_limit_is_refused_and_not_recorded(ledger: fl.Ledger) -> None:
    frame, y = clinic()
    model = pipeline(LogisticRegression(tol=1e-10, max_iter=9999)).fit(frame, y)
    leak = fl.measure(model, frame, y, noise=NOISE)
    etas = leak.per_example()
    worst = frame.index[int(np.argmax(etas))]
    limit = 1.2 * float(etas.max())
    ledger.add(leak, limit=limit)
    with pytest.raises(fl.InvalidInputError, match=rf"{worst} \(by {np.sqrt(2) * etas.max() - limit:.3g}\)"):
        ledger.add(leak, limit=limit)
    assert len(ledger.entries) == 1
    assert ledger.entries[0]["largest"] == pytest.approx(etas.max(), rel=1e-5)


def test_the_file_is_confidential_and_holds_no_row(ledger: fl.Ledger) -> None:
    frame, y = clinic()
    model = pipeline(LogisticRegression(tol=1e-10, max_iter=9999)).fit(frame, y)
    ledger.add(fl.measure(model, frame, y, noise=NOISE))
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    text = ledger.path.read_text(encoding="utf-8")
    assert "Confidential" in text
    assert "confidential" in repr(ledger)
    assert not any(name in text for name in frame.index[20:])
    assert not any(repr(float(value)) in text for value in frame["age"])
    ledger.path.chmod(0o644)
    with pytest.raises(fl.FisherleakError, match="chmod 600"):
        _ = ledger.entries


# What is refused


def test_damaged_and_foreign_ledgers_are_refused_by_name(ledger: fl.Ledger, tmp_path: Path) -> None:
    case = make("squared")
    with pytest.raises(fl.FisherleakError, match="does not exist"):
        ledger.leakage(case.X, case.y)
    ledger.add(case.leak(NOISE))
    whole = ledger.path.read_text(encoding="utf-8")
    changed = json.loads(whole)
    changed["entries"][0]["theta"][0] += 1e-3
    for text in (whole[:-40], "", json.dumps(changed), whole.replace('"eta": [', '"eta": [0.0, ')):
        ledger.path.write_text(text, encoding="utf-8")
        with pytest.raises(fl.DataError, match="is damaged"):
            ledger.leakage(case.X, case.y)
        with pytest.raises(fl.DataError, match="is damaged"):
            ledger.add(case.leak(NOISE))
        assert ledger.path.read_text(encoding="utf-8") == text
    for text in ("{}", "[]", json.dumps({"schema": "fisherleak.card/1"})):
        ledger.path.write_text(text, encoding="utf-8")
        with pytest.raises(fl.DataError, match="is no ledger"):
            ledger.leakage(case.X, case.y)
    ledger.path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(fl.DataError, match="no text"):
        ledger.leakage(case.X, case.y)
    with pytest.raises(fl.InvalidInputError, match="does not exist"):
        fl.Ledger(tmp_path / "nowhere" / "a.json")


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(fl.DataError, match="is a folder: name a file"):
        _ = fl.Ledger(tmp_path).entries


def test_other_tables_and_changed_rows_are_refused(ledger: fl.Ledger) -> None:
    frame, y = clinic()
    model = pipeline(LogisticRegression(tol=1e-10, max_iter=9999)).fit(frame, y)
    ledger.add(fl.measure(model, frame, y, noise=NOISE))
    with pytest.raises(fl.InvalidInputError, match="another table"):
        ledger.leakage(frame.set_axis([f"q{k}" for k in range(80)]), y)
    older = frame.assign(age=np.where(frame.index == "p7", 99.0, frame["age"]))
    with pytest.raises(fl.InvalidInputError, match="Row 7 of X has other values"):
        ledger.leakage(older, y)
    with pytest.raises(fl.InvalidInputError, match="Row 7 of X has other values"):
        ledger.leakage(frame, np.where(frame.index == "p7", np.where(y == "ill", "well", "ill"), y))
    with pytest.raises(fl.InvalidInputError, match=r"All 80 rows .* Keep one for each target"):
        ledger.leakage(frame, np.where(y == "ill", "well", "ill"))
    with pytest.raises(fl.InvalidInputError, match="lacks column 'dose'"):
        ledger.leakage(frame.drop(columns="dose"), y)
    with pytest.raises(fl.InvalidInputError, match="ids must differ"):
        ledger.leakage(frame, y, ids=[0] * 80)


def test_a_release_of_changed_rows_is_not_recorded(ledger: fl.Ledger) -> None:
    """No table has both values, so that a ledger with both could never be read again; no limit need be asked for."""
    frame, y = clinic()
    model = pipeline(LogisticRegression(tol=1e-10, max_iter=9999))
    ledger.add(fl.measure(model.fit(frame, y), frame, y, noise=NOISE))
    older = frame.assign(age=np.where(frame.index == "p7", 99.0, frame["age"]))
    with pytest.raises(fl.InvalidInputError, match="Row 7 of X has other values"):
        ledger.add(fl.measure(model.fit(older, y), older, y, noise=NOISE))
    other = np.where(np.arange(80) % 2 == 0, "ill", "well")
    with pytest.raises(fl.InvalidInputError, match=r"another label|other values"):
        ledger.add(fl.measure(model.fit(frame, other), frame, other, noise=NOISE))
    assert len(ledger.entries) == 1
    few = frame[["dose"]]  # a release may use fewer columns than those before
    ledger.add(fl.measure(LogisticRegression(tol=1e-10, max_iter=9999).fit(few, y), few, y, noise=NOISE))
    assert ledger.leakage(frame, y).n == 80


def test_what_cannot_be_kept_exactly_is_refused_by_name(ledger: fl.Ledger) -> None:
    frame, _ = clinic()
    numbers, y = frame[["age", "dose"]], frame["age"].to_numpy() + np.arange(80) % 3
    curved = make_pipeline(PolynomialFeatures(2, include_bias=False), Ridge()).fit(numbers, y)
    ranged = make_pipeline(MinMaxScaler(), Ridge()).fit(numbers, y)
    plain = fl.measure(fl.minimise(numbers, y, l2=1.0), numbers, y, noise=NOISE)
    own = fl.Gaussian(0.1, np.eye(2), calibrated=Calibration("any-record", 1.0, shape="hessian"))
    assert "rows decided it" in plain.with_noise(own).summary()
    attempts: list[tuple[Any, str]] = [
        (fl.measure(curved, numbers, y, noise=NOISE), "affine"),
        (fl.measure(ranged, numbers, y, noise=NOISE, public="nothing"), "standard deviations"),
        (fl.compose(plain, plain), "one by one"),
        (plain.with_noise(own), "follows from the rows themselves"),
        ("leak", "takes a leakage"),
    ]
    for leak, reason in attempts:
        with pytest.raises(fl.InvalidInputError, match=reason):
            ledger.add(leak)
    ledger.add(plain)
    joint = fl.measure(fl.minimise(numbers, y, l2=1.0), numbers, y, noise=NOISE, attributes={"both": [0, 1]})
    with pytest.raises(fl.InvalidInputError, match="same attributes"):
        ledger.add(joint)
    assert len(ledger.entries) == 1


# Whoever is who: a person counts on, however the id is written and by whichever name the file is reached


def test_ids_are_the_same_however_a_file_writes_them(ledger: fl.Ledger) -> None:
    """One text in a column of numbers makes all of it text when it is read again, with zeros in front."""
    case = make("squared", n=6)
    leak = case.leak(NOISE)
    limit = 1.1 * float(leak.per_example().max())
    ledger.add(leak, ids=[1, 2, 3, 40, 500, -6], limit=limit)
    for ids in (
        ["001", "002", "003", "040", "500", "-6"],
        [1.0, 2.0, 3.0, 40.0, 500.0, -6.0],
        ["1.0", "2.0", "3.00", "40", " 500", "-06"],
    ):
        with pytest.raises(fl.InvalidInputError, match="past the limit"):
            ledger.add(leak, ids=ids, limit=limit)
        np.testing.assert_allclose(ledger.leakage(case.X, case.y, ids).per_example(), leak.per_example(), rtol=1e-9)
    for clash in ([1, "01", 2, 3, 4, 5], [1.5, "1.50", 2, 3, 4, 5]):
        with pytest.raises(fl.InvalidInputError, match="ids must differ"):
            ledger.add(leak, ids=np.array(clash, dtype=object))


@pytest.mark.parametrize(
    "ids",
    [
        [1234567890 + k for k in range(6)],
        [1234567890.0 + k for k in range(6)],
        [10**17 + k for k in range(6)],
        ["\ud800", "\x1b[31m", "é", "a\nb", "", "=1+1"],
    ],
)
def test_long_and_odd_ids_are_told_apart(ledger: fl.Ledger, ids: list[Any]) -> None:
    case = make("squared", n=6)
    leak = case.leak(NOISE)
    ledger.add(leak, ids=ids)
    ledger.add(leak, ids=ids)
    found = ledger.leakage(case.X, case.y, ids).per_example()
    np.testing.assert_allclose(found, np.sqrt(2.0) * leak.per_example(), rtol=1e-9)
    assert [len(ledger.recorded(name)) for name in ids] == [2] * 6
    assert None not in ledger.recorded(ids[0])


def test_under_other_ids_nobody_starts_again_from_nothing(ledger: fl.Ledger) -> None:
    case = make("squared", n=6)
    leak = case.leak(NOISE)
    ledger.add(leak, ids=[f"p{k}" for k in range(6)])
    for ids in (None, [f"q{k}" for k in range(6)]):
        with pytest.raises(fl.InvalidInputError, match="ledger of another table"):
            ledger.add(leak, ids=ids, limit=100.0)
        with pytest.raises(fl.InvalidInputError, match="ledger of another table"):
            ledger.add(leak, ids=ids)
    assert len(ledger.entries) == 1


def test_a_link_is_the_ledger_itself_and_a_second_name_is_refused(ledger: fl.Ledger, tmp_path: Path) -> None:
    leak = make("squared", n=6).leak(NOISE)
    ledger.add(leak)
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "link.json"
    link.symlink_to(ledger.path)
    assert fl.Ledger(link).add(leak) == 2
    assert link.is_symlink()
    assert len(ledger.entries) == 2
    assert [path.name for path in link.parent.iterdir()] == ["link.json"], "one lock for all"
    second = tmp_path / "second.json"
    os.link(ledger.path, second)
    for path in (ledger.path, second):
        with pytest.raises(fl.DataError, match=r"under 2 names .* remove the others"):
            fl.Ledger(path).add(leak)


def test_a_first_release_that_is_refused_leaves_no_file(ledger: fl.Ledger, tmp_path: Path) -> None:
    leak = make("squared", n=6).leak(NOISE)
    with pytest.raises(fl.InvalidInputError, match="past the limit"):
        ledger.add(leak, limit=1e-9)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_taken_away_is_no_lock(tmp_path: Path) -> None:
    """Whoever waited for the lock of a refused first release does not hold it together with one who came later."""
    file = tmp_path / "file"
    (begin, begun), (reader, writer) = os.pipe(), os.pipe()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                os.read(begin, 1)
                with locked.held(file):
                    os.write(writer, b"<")
                    time.sleep(0.03)
                    os.write(writer, b">")
            finally:
                os._exit(0)
        children.append(child)
    with locked.held(file):
        os.write(begun, b"...")
        time.sleep(0.1)
    for child in children:
        os.waitpid(child, 0)
    assert os.read(reader, 9) == b"<><><>"
    for end in (begin, begun, reader, writer):
        os.close(end)
    assert list(tmp_path.iterdir()) == []


# Several writers, and those that are killed


def write_until_killed(path: Path, leak: fl.Leakage, acknowledged: int) -> None:
    """In a process of its own: record, say so, again."""
    ledger = fl.Ledger(path)
    while True:
        number = ledger.add(leak)
        os.write(acknowledged, f"{number}\n".encode())


def killed(path: Path, leaks: list[fl.Leakage], times: int) -> list[int]:
    """Two writers at once, killed at random moments and started again; what they said was recorded."""
    choose = np.random.default_rng(0)
    reader, writer = os.pipe()
    said = b""
    os.set_blocking(reader, False)
    children: list[int] = []
    for _ in range(times):
        while len(children) < 2:
            child = os.fork()
            if child == 0:  # pragma: no cover - another process
                try:
                    write_until_killed(path, leaks[len(children)], writer)
                finally:
                    os._exit(1)
            children.append(child)
        time.sleep(choose.uniform(0.001, 0.03))
        gone = children.pop(int(choose.integers(2)))
        os.kill(gone, signal.SIGKILL)
        os.waitpid(gone, 0)
        said += _available(reader)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    said += _available(reader)
    os.close(reader)
    os.close(writer)
    return [int(line) for line in said.split()]


def _available(reader: int) -> bytes:
    found = b""
    while True:
        try:
            found += os.read(reader, 65536)
        except BlockingIOError:
            return found


def check_killed(ledger: fl.Ledger, times: int) -> None:
    case = make("squared", n=6, d=2)
    leaks = [case.leak(NOISE), case.leak(fl.Gaussian(1.0))]
    numbers = killed(ledger.path, leaks, times)
    assert len(numbers) >= times / 4
    assert len(set(numbers)) == len(numbers), "no number was given twice"
    entries = ledger.entries
    assert len(entries) >= max(numbers), "every acknowledged entry is there"
    sums = sum(entry["largest"] ** 2 for entry in entries)
    assert ledger.remaining(1e6) == pytest.approx(np.sqrt(1e12 - sums))


@pytest.mark.long
def test_two_writers_that_are_killed_lose_nothing(ledger: fl.Ledger) -> None:
    check_killed(ledger, 10)


@pytest.mark.long
def test_two_hundred_kills(ledger: fl.Ledger) -> None:
    check_killed(ledger, 200)


def test_ids_of_many_digits_are_told_apart(ledger: fl.Ledger) -> None:
    case = make("squared")
    leak = case.leak(NOISE)
    eta = np.asarray(leak.per_example())
    ids = [9434765919 + k for k in range(len(eta))]
    assert ledger.add(leak, ids=ids) == 1
    assert [ledger.recorded(ids[k]) for k in (0, 1)] == [[pytest.approx(eta[k], rel=1e-6)] for k in (0, 1)]
    # read as floats, as a column with a gap was once, and added again
    same(ledger.leakage(case.X, case.y, ids=np.array(ids, dtype=float)), leak)
    assert ledger.add(leak, ids=ids) == 2
    with pytest.raises(fl.InvalidInputError, match="ids must differ"):
        ledger.add(leak, ids=[1, 1.0, *ids[2:]])


def test_what_the_rows_decided_of_a_noise_is_no_exact_sum(tmp_path: Path) -> None:
    case = make("squared", n=40)
    for shape in ("hessian", "least-loss"):
        own = fl.calibrate(case.leak(), 0.5, shape=shape)
        with (
            pytest.raises(fl.InvalidInputError, match="follows from the rows themselves"),
            pytest.warns(fl.UncountedScaleWarning),
        ):
            fl.Ledger(tmp_path / "l.json").add(case.leak(own))
    with pytest.warns(fl.UncountedScaleWarning, match="reveals something about the row that decides it"):
        fl.Ledger(tmp_path / "l.json").add(case.leak(fl.calibrate(case.leak(), 0.5)))


BOUNDED: Any = {"x0": (-3.0, 3.0), "x1": (-3.0, 3.0), "label": (-4.0, 4.0)}


def chosen_release() -> tuple[Any, Any, fl.Leakage, Any]:
    """A candidate that was drawn, with the leakage of its release."""
    case = make("squared", 1, n=120, d=2, intercept=True)
    X, y = np.clip(case.X, -3, 3), np.clip(case.y, -4, 4)
    options: Any = {"penalties": [1.0, 30.0], "weightings": ["none"], "shapes": ["isotropic"], "bounds": BOUNDED}
    choice = fl.protect(Ridge(20.0), X, y, 2.0, **options).choose(random_state=0)
    model = Ridge(20.0 * choice.point.penalty).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    noise = fl.calibrate(leak, choice.eta_noise, "any-record", shape=choice.point.shape, bounds=BOUNDED)
    return X, y, leak.with_noise(noise), choice


def test_a_choice_is_added_to_what_its_release_tells(ledger: fl.Ledger) -> None:
    X, y, leak, choice = chosen_release()
    own = np.asarray(leak.per_example())
    assert own.max() < choice.eta_noise
    ledger.add(leak)
    ledger.add(leak, choice=choice)
    np.testing.assert_allclose(ledger.etas(X, y), np.sqrt(2 * own**2 + choice.eta_choice**2), rtol=1e-6)
    assert ledger.recorded(3) == pytest.approx([own[3], np.hypot(own[3], choice.eta_choice)], rel=1e-5)
    left = np.sqrt(25.0 - 2 * own.max() ** 2 - choice.eta_choice**2)
    assert ledger.remaining(5.0, X, y) == pytest.approx(left, rel=1e-6)
    assert ledger.remaining(5.0) == pytest.approx(left, rel=1e-5)
    # rows that came later were in neither
    more, labels = np.vstack([X, [[0.5, 0.5]]]), np.append(y, 0.0)
    assert ledger.etas(more, labels)[-1] == 0
    with pytest.raises(fl.InvalidInputError, match="Release 2 of the ledger was chosen among candidates"):
        ledger.leakage(X, y)


def test_a_limit_counts_choices(ledger: fl.Ledger) -> None:
    *_, leak, choice = chosen_release()
    own = float(np.asarray(leak.per_example()).max())
    both = float(np.hypot(own, choice.eta_choice))
    with pytest.raises(fl.InvalidInputError, match="past the limit"):
        ledger.add(leak, limit=0.999 * both, choice=choice)
    assert ledger.add(leak, limit=0.999 * both) == 1
    assert ledger.add(leak, limit=1.001 * np.hypot(own, both), choice=choice) == 2
    with pytest.raises(fl.InvalidInputError, match="past the limit"):
        ledger.add(leak, limit=float(np.sqrt(3) * own) * 1.001)  # the choice of the second stays told


def test_choices_are_in_the_units_of_the_ledger_or_refused(ledger: fl.Ledger) -> None:
    """Classes of -1 and 1 are two units apart, and a ledger tells etas from one class to the other."""
    X, y, leak, choice = chosen_release()
    with pytest.raises(fl.InvalidInputError, match=r"choice must be a counted one, .* got FrontierPoint"):
        ledger.add(leak, choice=choice.point)
    classes = np.where(y > 0, 1, 0)
    two = fl.measure(RidgeClassifier(20.0).fit(X, classes), X, classes, noise=NOISE)
    ledger.add(two, choice=choice)
    own = fl.Ledger(ledger.path.with_name("other.json"))
    own.add(two)
    expected = np.sqrt(np.asarray(own.etas(X, classes)) ** 2 + (2.0 * choice.eta_choice) ** 2)
    np.testing.assert_allclose(ledger.etas(X, classes), expected, rtol=1e-9)
