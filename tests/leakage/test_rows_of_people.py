"""A leakage about people: all rows of a person are one, in every method that gives a number for each example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import fisherleak as fl

PERSON = np.repeat(np.arange(20), 3)


@pytest.fixture(scope="module")
def table() -> tuple[pandas.DataFrame, Any]:
    """Sixty visits of twenty people, whose height is the same at each."""
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(60, 3)), columns=["weight", "pulse", "height"])
    X["height"] = rng.normal(size=20)[PERSON]
    return X, X @ np.array([1.0, -0.5, 0.3]) + rng.normal(size=60)


@pytest.fixture(scope="module")
def about_people(table: Any) -> fl.Leakage:
    X, y = table
    return fl.measure(Ridge(1.0).fit(X, y), X, y, fl.Gaussian(0.2), person=PERSON)


@pytest.fixture(scope="module")
def about_rows(table: Any) -> fl.Leakage:
    X, y = table
    return fl.measure(Ridge(1.0).fit(X, y), X, y, fl.Gaussian(0.2))


def test_a_number_for_each_person(about_people: fl.Leakage, about_rows: fl.Leakage) -> None:
    assert about_people.people == list(range(20))
    assert about_rows.people is None
    np.testing.assert_allclose(about_people.per_example(), [*about_rows.by_person(PERSON).values()], rtol=1e-12)
    np.testing.assert_allclose(about_people.membership(), [*about_rows.membership_by_group(PERSON).values()])
    assert about_people.per_cell().shape == (20, 3)
    assert about_people.per_label().shape == (20,)
    assert list(about_people.to_frame().index) == about_people.people


def test_one_column_of_a_person_against_refits(table: Any, about_people: fl.Leakage) -> None:
    """The height moves in all three rows together, the pulse in the direction that is worst."""
    X, y = table
    step, cells = 1e-5, about_people.per_cell()
    for person in (0, 7):
        rows = np.flatnonzero(person == PERSON)
        moves = []
        changes: list[tuple[int, list[int]]] = [(2, rows.tolist()), *((1, [row]) for row in rows.tolist())]
        for column, own in changes:
            ends = []
            for sign in (1.0, -1.0):
                other = X.copy()
                other.iloc[own, column] += sign * step
                fit = Ridge(1.0).fit(other, y)
                ends.append(np.append(fit.coef_, fit.intercept_))
            moves.append((ends[0] - ends[1]) / (2 * step) / 0.2)
        assert cells[person, 2] == pytest.approx(np.linalg.norm(moves[0]), rel=1e-6)
        assert cells[person, 1] == pytest.approx(np.linalg.norm(np.array(moves[1:]), 2), rel=1e-6)


def test_some_attributes_only(about_people: fl.Leakage) -> None:
    np.testing.assert_allclose(about_people.per_example("height"), about_people.per_cell()[:, 2], rtol=1e-12)
    assert np.all(about_people.per_example() >= about_people.per_example(["height", "pulse"]))


def test_all_rows_jointly_tie_what_is_one_value(about_people: fl.Leakage, about_rows: fl.Leakage) -> None:
    assert about_people.per_attribute()[2] > about_rows.per_attribute()[2] * 1.05
    assert about_people.dataset() >= about_rows.dataset()


def test_a_column_names_people(table: Any) -> None:
    X, y = table
    named = X.assign(pulse=PERSON.astype(float))
    leak = fl.measure(Ridge(1.0).fit(named, y), named, y, person="pulse")
    assert leak.people == [float(person) for person in range(20)]


def test_rows_of_their_own_are_people_of_their_own(table: Any, about_rows: fl.Leakage) -> None:
    X, y = table
    leak = fl.measure(Ridge(1.0).fit(X, y), X, y, fl.Gaussian(0.2), person=np.arange(60))
    np.testing.assert_allclose(leak.per_example(), about_rows.per_example(), rtol=1e-9)
    np.testing.assert_allclose(leak.per_cell(), about_rows.per_cell(), rtol=1e-9)
    np.testing.assert_allclose(leak.membership(), about_rows.membership(), rtol=1e-9)


def test_several_classes(table: Any) -> None:
    X, y = table
    label = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    model = LogisticRegression(tol=1e-10).fit(X, label)
    leak = fl.measure(model, X, label, fl.Gaussian(1.0), person=PERSON)
    rows = fl.measure(model, X, label, fl.Gaussian(1.0))
    np.testing.assert_allclose(leak.per_example(), [*rows.by_person(PERSON).values()], rtol=1e-9)
    np.testing.assert_allclose(leak.membership(), [*rows.membership_by_group(PERSON).values()], rtol=1e-6)


@pytest.mark.parametrize("shape", [None, "isotropic", "least-loss", "hessian"])
def test_noise_is_calibrated_to_people(about_people: fl.Leakage, about_rows: fl.Leakage, shape: Any) -> None:
    noise = fl.calibrate(about_people, eta=0.5, shape=shape)
    assert fl.calibrate(about_rows, eta=0.5, shape=shape, person=PERSON).scale == noise.scale
    worst = float(np.max(about_people.with_noise(noise).per_example()))
    assert 0.45 <= worst <= 0.5


def test_a_limit_for_any_record_is_on_people_too(table: Any) -> None:
    X, y = table
    bounds = {"weight": (-1, 1), "pulse": (-1, 1), "height": (-1, 1), "label": (-2, 2)}
    X, y = X.clip(-1, 1), y.clip(-2, 2)
    options: Any = {"over": "any-record", "bounds": bounds, "rows_per_person": 3, "random_state": 0}
    model = Ridge(300.0, fit_intercept=False).fit(X, y)
    own = fl.calibrate(fl.measure(model, X, y, person=PERSON), 2.0, **options)
    assert own.scale == fl.calibrate(fl.measure(model, X, y), 2.0, person=PERSON, **options).scale


def test_releases_about_the_same_people_compose(table: Any, about_people: fl.Leakage, about_rows: fl.Leakage) -> None:
    twice = fl.compose(about_people, about_people)
    np.testing.assert_allclose(twice.per_example(), np.sqrt(2.0) * about_people.per_example(), rtol=1e-9)
    np.testing.assert_allclose(twice.membership(), np.sqrt(2.0) * about_people.membership(), rtol=1e-9)
    X, y = table
    others = fl.measure(Ridge(1.0).fit(X, y), X, y, fl.Gaussian(0.2), person=np.repeat(np.arange(30), 2))
    for other in (about_rows, others):
        with pytest.raises(fl.InvalidInputError, match="the same people: measure all with the same person="):
            fl.compose(about_people, other)


def test_it_says_people(about_people: fl.Leakage) -> None:
    assert "20 people with 60 rows" in repr(about_people)
    assert "20 people with 60 rows" in about_people._repr_html_()
    assert "  per person    mean" in about_people.summary()
    assert about_people.plot().get_ylabel() == "people"


def test_what_counts_rows_refuses_people(table: Any, about_people: fl.Leakage, tmp_path: Path) -> None:
    X, _ = table
    for said, asked in (
        ("queries_until counts rows", lambda: fl.queries_until(about_people, X, fl.Gaussian(1.0), eta=1.0)),
        ("counted counts rows", lambda: fl.counted(about_people, eta=1.0)),
        ("A ledger counts rows", lambda: fl.Ledger(tmp_path / "x.ledger.json").add(about_people)),
        ("plot with groups counts rows", lambda: about_people.plot(groups=PERSON)),
        ("revealed is about single values", about_people.revealed),
        ("report shows rows", lambda: about_people.report(tmp_path / "page.html")),
    ):
        with pytest.raises(fl.InvalidInputError, match=said):
            asked()


def test_everyone_has_a_name(table: Any) -> None:
    X, y = table
    gaps: Any = [None, *PERSON[1:].tolist()]
    with pytest.raises(fl.InvalidInputError, match="person is missing in some rows"):
        fl.measure(Ridge(1.0).fit(X, y), X, y, person=gaps)
    with pytest.raises(fl.InvalidInputError, match="one label for each of the 60 rows"):
        fl.measure(Ridge(1.0).fit(X, y), X, y, person=PERSON[1:])
