"""Releases for any record within the bounds, of people with several rows: card, checks, audits, ledgers, and Python."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.auditing.confirmations import confirm
from fisherleak.auditing.records import Plan
from fisherleak.auditing.run import audit_trained
from fisherleak.protection.ledger.ledger import OverspentError
from fisherleak.releasing.cards.cards import rows_per_person_on
from fisherleak.releasing.cards.signatures import card_path, card_text, sealed
from fisherleak.releasing.files.released_files import load_model, retrain, save_model
from fisherleak.releasing.files.verification import verify
from fisherleak.releasing.ledgers import spent_on
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings

pytestmark = [
    pytest.mark.usefixtures("quick_audits"),
    pytest.mark.filterwarnings("ignore::fisherleak.errors.SeededReleaseWarning"),
]
BOUNDS = {"age": (0.0, 100.0), "hours": (0.0, 16.0)}
MOST = 4


def visits(people: int = 400) -> pandas.DataFrame:
    """One to four rows for each of some people."""
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(people), rng.integers(1, MOST + 1, people))
    n = who.size
    frame = pandas.DataFrame(
        {"worker": who + 500, "age": rng.uniform(5, 95, n).round(1), "hours": rng.uniform(1, 15, n).round(1)}
    )
    frame["sick"] = np.where(0.05 * frame.age - 0.2 * frame.hours + rng.logistic(size=n) > 0, "yes", "no")
    return frame


def settings(**given: Any) -> Settings:
    chosen: dict[str, Any] = {"target": "sick", "person": "worker", "held_out": 0.0, "l2": 0.3} | given
    return Settings(**chosen)


def released(path: Path, frame: Any = None, **given: Any) -> Any:
    options: dict[str, Any] = {"eta": 1.0, "rows_per_person": MOST, "bounds": BOUNDS} | given
    return save_model(from_frame(visits() if frame is None else frame), settings(), path, **options)[0]


@pytest.mark.parametrize("shape", ["isotropic", "hessian"])
def test_the_card_says_it_and_is_checked(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "m.skops"
    card = released(path, shape=shape)
    assert (
        card["eta"]["limit_on"] == "every person (by 'worker'), all rows together, at most 4 of them, in standard units"
    )
    assert card["noise"]["calibrated"]["rows_per_person"] == rows_per_person_on(card) == MOST
    assert any("any person, all its rows together, at most 4, whatever records" in each for each in card["assumptions"])
    assert verify(path).failed is None


def confirmed(saved: Any, raw: Any) -> Any:
    trained = retrain(saved, raw)
    plan = Plan(noise=saved.noise_on(trained), attacks=False, draws=3)
    return confirm(saved, audit_trained(trained, saved.settings, plan))


@pytest.mark.long
@pytest.mark.parametrize("shape", [None, "isotropic"])
def test_an_audit_of_the_table_confirms_it(tmp_path: Path, shape: str | None) -> None:
    path, raw = tmp_path / "m.skops", from_frame(visits())
    released(path, shape=shape, choose_l2=shape is None)
    saved = load_model(path)
    found = confirmed(saved, raw)
    assert found.failed is None
    assert any("all rows together, at most 4 of them" in each for each in found.confirmed)
    more = visits()
    more.loc[:9, "worker"] = more.worker[0]  # ten rows of one person
    failed = confirmed(saved, from_frame(more)).failed
    assert failed is not None
    assert "have more rows" in failed or "has more rows" in failed


def changed(path: Path, **fields: Any) -> None:
    """The model card with another number of rows for a person, sealed again."""
    card = json.loads(card_path(path).read_text(encoding="utf-8"))
    for name in ("digest", "signature"):
        card.pop(name, None)
    told = card["noise"]["calibrated"]
    told.pop("rows_per_person", None)
    told |= fields
    card_path(path).write_bytes(card_text(sealed(card, None)))


@pytest.mark.parametrize("fields", [{}, {"rows_per_person": 3}, {"rows_per_person": 1}, {"rows_per_person": 4.0}])
def test_a_changed_number_of_rows_is_found(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "m.skops"
    released(path)
    changed(path, **fields)
    assert verify(path).failed is not None


def test_one_row_each_needs_no_field(tmp_path: Path) -> None:
    frame = visits().drop_duplicates("worker")
    card = released(tmp_path / "m.skops", frame, rows_per_person=1)
    assert "rows_per_person" not in card["noise"]["calibrated"]
    assert rows_per_person_on(card) == 1
    assert "with one row each" in card["eta"]["limit_on"]
    assert verify(tmp_path / "m.skops").failed is None


@pytest.mark.long
def test_python_and_a_table_find_the_same_noise(tmp_path: Path) -> None:
    frame = visits()
    card = released(tmp_path / "m.skops", shape="isotropic", random_state=5)
    # limits on tables are in the units of columns that their bounds give
    units = {name: ((low + high) / 2, (high - low) / np.sqrt(12.0)) for name, (low, high) in BOUNDS.items()}
    X = pandas.DataFrame({name: (frame[name] - centre) / scale for name, (centre, scale) in units.items()})
    bounds = dict.fromkeys(BOUNDS, (-np.sqrt(3.0), np.sqrt(3.0)))
    y = (frame.sick == "yes").to_numpy() * 1.0
    C = 1.0 / (0.3 * len(y))
    model = make_pipeline(StandardScaler(), LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12)).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    noise = fl.calibrate(
        *(leak, 1.0, "any-record"), bounds=bounds, person=frame.worker, rows_per_person=MOST, random_state=5
    )
    assert card["noise"]["scale"] == pytest.approx(noise.scale, rel=1e-6)
    people: dict[str, Any] = {"bounds": bounds, "rows_per_person": MOST, "random_state": 5}
    own = fl.PrivateRelease(clone(model), 1.0, penalty="own", **people).fit(X, y, person=frame.worker)
    assert own.noise_.scale == pytest.approx(noise.scale, rel=1e-6)
    # the rule for the penalty counts what one row has of the limit: that of a fourth of it for rows alone
    chosen = fl.PrivateRelease(clone(model), 1.0, **people).fit(X, y, person=frame.worker).estimator_[-1].C
    alone = fl.PrivateRelease(clone(model), 1.0 / MOST, bounds=bounds, random_state=5).fit(X, y).estimator_[-1].C
    assert chosen == pytest.approx(alone, rel=1e-6)
    # a step of the grid, 2^(1/4), is between neighbouring scales: four rows need about four times one row's
    one = fl.calibrate(leak, 1.0, "any-record", bounds=bounds, random_state=5)
    assert 3.0 < noise.scale / one.scale < 8.0


@pytest.mark.long
def test_protect_keeps_the_limit_for_people_and_counts_no_choice() -> None:
    frame = visits(600)
    X, y = frame[["age", "hours"]].to_numpy(), (frame.sick == "yes").to_numpy() * 1.0
    bounds = {"x0": (0.0, 100.0), "x1": (0.0, 16.0)}
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.003))
    one: dict[str, Any] = {"penalties": [1.0], "weightings": ["none"], "shapes": ["isotropic"], "bounds": bounds}
    people: dict[str, Any] = {"person": frame.worker.to_numpy(), "rows_per_person": MOST}
    found = fl.protect(model, X, y, 1.0, **one, **people)
    alone = fl.protect(model, X, y, 1.0, **one)
    assert 3.0 < found.best().scale / alone.best().scale < 8.0
    assert found.release(random_state=0) is not None
    several = fl.protect(model, X, y, 1.0, **one | {"penalties": [1.0, 3.0]}, **people)
    with pytest.raises(fl.InvalidInputError, match="rows_per_person is 4, and what a choice among 2 candidates"):
        several.release(random_state=0)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"person": people["person"]}, "go together"),
        ({"rows_per_person": 2}, "go together"),
        ({"rows_per_person": 2, "over": "max", "bounds": None}, "rows_per_person is for over='any-record' only"),
        ({"groups": people["person"]}, "give person= and rows_per_person="),
    ]
    for given, words in wrong:
        with pytest.raises(fl.InvalidInputError, match=words):
            fl.protect(model, X, y, 1.0, **one | given)


def test_who_has_more_rows_is_refused_and_the_remedy_works(tmp_path: Path) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"`rows_per_person` is 3, and \d+ people have more rows, 4 at most"):
        released(tmp_path / "m.skops", rows_per_person=3)
    assert not list(tmp_path.iterdir())
    released(tmp_path / "m.skops", rows_per_person=4)


@pytest.mark.long
def test_too_few_people_are_told_how_many_would_do(tmp_path: Path) -> None:
    frame = visits(60)
    with pytest.raises(fl.InvalidInputError, match="a person with 12 rows") as refused:
        released(tmp_path / "m.skops", frame, rows_per_person=12)
    asked = re.search(
        r"([\d,]+) people like these would not be refused at `l2=([\d.]+)`; there are 60", str(refused.value)
    )
    assert asked is not None
    times = int(asked[1].replace(",", "")) // 60
    copies = pandas.concat([frame.assign(worker=frame.worker + 1000 * k) for k in range(times)], ignore_index=True)
    assert released(tmp_path / "m.skops", copies, rows_per_person=12)["noise"]["scale"] > 0


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"rows_per_person": None}, {}, r"`person` \('worker'\) with `eta` needs `rows_per_person` too"),
    ({}, {"person": None}, "`rows_per_person` is 4, and it needs `person`.*give `person`"),
    ({"over": "max"}, {}, "`rows_per_person` is 4.*leave out `noise` or `over`"),
    ({"eta": None, "noise": 1.0}, {}, "`rows_per_person` is 4.*leave out `noise` or `over`"),
]


@pytest.mark.parametrize(("given", "named", "words"), REFUSED)
def test_what_does_not_go_together_is_refused_by_name(
    tmp_path: Path, given: dict[str, Any], named: dict[str, Any], words: str
) -> None:
    options: dict[str, Any] = {"eta": 1.0, "rows_per_person": MOST, "bounds": BOUNDS} | given
    with pytest.raises(fl.InvalidInputError, match=words):
        save_model(from_frame(visits()), settings(**named), tmp_path / "m.skops", **options)


@pytest.mark.long
def test_a_ledger_counts_all_rows_of_a_person(tmp_path: Path) -> None:
    frame, book = visits(), tmp_path / "l.json"
    raw = from_frame(frame)
    released(tmp_path / "m1.skops", frame, ledger=book)
    spent = spent_on(book, raw)
    assert spent.people
    assert spent.eta.size == frame.worker.nunique()
    # nobody is above the limit that the release was calibrated to, and nobody below what is measured of all their rows
    found = load_model(tmp_path / "m1.skops")
    trained = retrain(found, raw)
    scale = found.scale / trained.unit
    measured = dict(zip(map(str, frame.worker.unique()), trained.each_eta() / scale, strict=True))
    told = dict(zip(map(str, spent.ids), spent.eta, strict=True))
    assert all(told[who] >= eta * (1 - 1e-6) for who, eta in measured.items())
    assert max(told.values()) <= 1.0
    released(tmp_path / "m2.skops", frame, ledger=book, limit=100.0)
    twice = spent_on(book, raw).eta
    assert float(twice.max()) == pytest.approx(np.sqrt(2.0) * float(spent.eta.max()), rel=0.3)
    with pytest.raises(OverspentError, match=f"of {frame.worker.nunique()} people past the limit"):
        released(tmp_path / "m3.skops", frame, ledger=book, limit=float(twice.max()))
    assert spent_on(book, raw).eta.max() == twice.max()


@pytest.mark.long
def test_rows_that_left_the_table_count_for_everyone(tmp_path: Path) -> None:
    frame, book = visits(), tmp_path / "l.json"
    released(tmp_path / "m1.skops", frame, ledger=book)
    whole = spent_on(book, from_frame(frame))
    fewer = spent_on(book, from_frame(frame.iloc[:-1]))
    before, after = (dict(zip(each.ids, each.eta, strict=True)) for each in (whole, fewer))
    assert fewer.left == 1
    assert all(after[who] >= before[who] * (1 - 1e-6) for who in after)
