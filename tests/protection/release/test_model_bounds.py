"""The rule for penalty and covariance on models of scikit-learn: the numbers of a table's, from nothing but public ones."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.protection.release.penalty_and_shape import PublicNumbers
from fisherleak.protection.release.private_release import ReleaseReport
from fisherleak.protection.release.procedure import (
    MadeRelease,
    ReleaseRequest,
    draw_parameters,
    released_by_rule,
    with_l2,
)
from fisherleak.protection.release.release import FittedModel, check_releasable, measured_model
from fisherleak.releasing.any_record_noise import AnyRecordLimit, public_numbers
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train

RNG = np.random.default_rng(0)
X = np.clip(RNG.normal(size=(300, 3)), -3.0, 3.0)
Y = np.clip(X @ [1.0, -0.5, 0.2] + RNG.normal(size=300), -5.0, 5.0)
BOUNDS: Any = {"x0": (-3.0, 3.0), "x1": (-3.0, 4.0), "x2": (-4.0, 4.0), "label": (-5.0, 5.0)}
RIDGE = make_pipeline(StandardScaler(), Ridge())


def fitted(estimator: Any, X: Any = X, y: Any = Y) -> FittedModel:
    model = clone(estimator).fit(X, y)
    check_releasable(model)
    return measured_model(model, X, y, None, None, True, "levels")


def numbers(estimator: Any = RIDGE, X: Any = X, bounds: Any = BOUNDS, eta: float = 0.5) -> PublicNumbers:
    return fitted(estimator, X)._numbers(ReleaseRequest(eta, bounds=bounds))


def test_they_are_the_numbers_of_the_same_table() -> None:
    """In units of the bounds the limits of both are the same; noise alike on all is priced for itself."""
    units = {name: (high - low) / math.sqrt(12.0) for name, (low, high) in BOUNDS.items()}
    rows = np.column_stack([X[:, j] / units[f"x{j}"] for j in range(3)])
    y = Y / units["label"]
    bounds = {name: (low / units[name], high / units[name]) for name, (low, high) in BOUNDS.items()}
    own = fitted(RIDGE, rows, y)._numbers(ReleaseRequest(0.5, bounds=bounds))
    frame = pandas.DataFrame({f"x{j}": rows[:, j] for j in range(3)} | {"y": y})
    declared = {("y" if name == "label" else name): ends for name, ends in bounds.items()}
    settings = Settings("y", "linear", held_out=0.0, bounds=tuple(declared.items()))
    table = public_numbers(train(from_frame(frame), settings), AnyRecordLimit(0.5, bounds=declared))
    for name in ("limit", "in_deviations", "longest", "widest", "varies", "curvature"):
        assert getattr(own, name) == pytest.approx(getattr(table, name), rel=1e-9), name
    assert (own.parameters, own.rows, own.squared) == (table.parameters, table.rows, table.squared)
    assert own.penalty().l2 == table.penalty().l2


def test_a_limit_is_taken_in_the_least_unit() -> None:
    first = numbers()
    assert first.limit == pytest.approx(0.5 * 6.0 / math.sqrt(12.0))
    small = numbers(X=X / [1.0, 1.0, 100.0], bounds=BOUNDS | {"x2": (-0.04, 0.04)})
    assert small.limit == pytest.approx(0.5 * 0.08 / math.sqrt(12.0))
    assert replace(small, limit=first.limit, in_deviations=first.in_deviations) == first


def test_no_value_of_a_row_decides() -> None:
    shuffled = np.column_stack([RNG.permutation(column) for column in X.T])
    assert numbers(X=shuffled) == numbers()
    assert numbers(X=np.vstack([X[:-1], [[2.9, 3.9, -3.9]]])) == numbers()


def test_the_unit_of_a_penalty_is_that_of_the_features_it_acts_on() -> None:
    request = ReleaseRequest(0.5, bounds=BOUNDS)
    assert fitted(RIDGE).unit_of_penalty(request) == 1.0
    table = pandas.DataFrame(X, columns=["x0", "x1", "x2"]).assign(city=np.array(["A", "B", "C"])[np.arange(300) % 3])
    columns = make_column_transformer((StandardScaler(), ["x0", "x1", "x2"]), (OneHotEncoder(), ["city"]))
    assert fitted(make_pipeline(columns, Ridge()), table).unit_of_penalty(request) == 1.0
    mean = (6.0 * 7.0 * 8.0) ** (2.0 / 3.0) / 12.0
    assert fitted(Ridge()).unit_of_penalty(request) == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize(
    ("estimator", "option", "value"),
    [(Ridge(), "alpha", 60.0), (LogisticRegression(), "C", 1 / 60), (PoissonRegressor(), "alpha", 0.2)],
)
def test_a_penalty_is_for_each_row(estimator: Any, option: str, value: float) -> None:
    made = with_l2(estimator, 0.2, 300)
    assert made.get_params()[option] == pytest.approx(value, rel=1e-5)
    labels = {"C": (Y > 0).astype(int)}.get(option, np.round(np.abs(Y)))
    assert float(fitted(made, X, labels).measured.fits[0].l2) == pytest.approx(0.2, rel=1e-5)


def test_a_model_without_a_penalty_keeps_what_it_has() -> None:
    asked = ReleaseRequest(4.0, bounds=BOUNDS, random_state=0)
    made = released_by_rule(make_pipeline(StandardScaler(), LinearRegression()), fitted, asked)
    assert type(made.fitted.model[-1]) is LinearRegression
    assert made.shape == "least-loss"


def outwards(low: float, high: float) -> tuple[float, float]:
    """To a tenth or so of the width."""
    step = 10.0 ** math.floor(math.log10(high - low))
    return math.floor(low / step) * step, math.ceil(high / step) * step


def utility(made: MadeRelease, X: Any, y: Any) -> float:
    rng = np.random.default_rng(0)
    own, noise = made.fitted, made.noise
    return float(np.mean([own.built(draw_parameters(own, noise, rng), noise).score(X, y) for _ in range(20)]))


@pytest.mark.long
@pytest.mark.parametrize(("eta", "least"), [(0.5, 0.35), (1.0, 0.42)])
def test_diabetes_keeps_most_of_its_model(eta: float, least: float) -> None:
    """In standard deviations; 0.518 without noise. With penalties of 1, 10 and 100 it was below zero."""
    raw, progression = load_diabetes(return_X_y=True, scaled=False)
    rows, y = StandardScaler().fit_transform(raw), (progression - progression.mean()) / progression.std()
    bounds = {f"x{j}": outwards(*np.quantile(rows[:, j], [0, 1])) for j in range(10)}
    request = ReleaseRequest(eta, bounds=bounds | {"label": outwards(y.min(), y.max())}, random_state=0)
    made = released_by_rule(RIDGE, lambda model: fitted(model, rows, y), request)
    assert made.shape == "least-loss"
    assert utility(made, rows, y) > least


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:This release may be no better")  # by public numbers, which are cautious
def test_eight_columns_of_breast_cancer_are_not_refused() -> None:
    raw, y = load_breast_cancer(return_X_y=True)
    rows = StandardScaler().fit_transform(raw[:, :8])
    bounds = {f"x{j}": outwards(*np.quantile(rows[:, j], [0, 1])) for j in range(8)}
    model = make_pipeline(StandardScaler(), LogisticRegression())
    request = ReleaseRequest(1.0, bounds=bounds, random_state=0)
    made = released_by_rule(model, lambda each: fitted(each, rows, y), request)
    assert utility(made, rows, y) > 0.78


def test_a_release_that_is_predicted_to_be_useless_is_said_to_be() -> None:
    """By public numbers, for a number and for classes; a release that hides the noise in many rows is not."""

    def said(estimator: Any, rows: int, eta: float) -> bool:
        own = np.resize(X, (rows, 3))
        labels = own[:, 0] if estimator is RIDGE else own[:, 0] > 0
        declared = {name: ends for name, ends in BOUNDS.items() if name != "label" or estimator is RIDGE}
        request = ReleaseRequest(eta, bounds=declared, random_state=0)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            released_by_rule(estimator, lambda model: fitted(model, own, labels), request)
        return any("no better than the baseline" in str(each.message) for each in found)

    classes = make_pipeline(StandardScaler(), LogisticRegression())
    for model in (RIDGE, classes):
        assert said(model, 300, 0.02)
        assert not said(model, 3000, 1.0)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::fisherleak.SeededReleaseWarning")
def test_private_release_takes_the_rule_or_the_estimators_own_penalty() -> None:
    chosen = fl.PrivateRelease(RIDGE, 0.5, bounds=BOUNDS, random_state=0).fit(X, Y)
    own = fl.PrivateRelease(RIDGE, 0.5, bounds=BOUNDS, random_state=0, penalty="own").fit(X, Y)
    assert own.estimator_[-1].alpha == 1.0
    assert chosen.estimator_[-1].alpha / 300 in {each.l2 for each in numbers().penalty().compared()}
    assert isinstance(chosen.leakage_, ReleaseReport)
    assert float(chosen.leakage_.eta.max()) <= 0.5
    with pytest.raises(fl.InvalidInputError, match="penalty must be one of chosen, own; got 'best'"):
        fl.PrivateRelease(RIDGE, 0.5, bounds=BOUNDS, penalty="best").fit(X, Y)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::fisherleak.SeededReleaseWarning")
def test_protect_protected_and_private_release_take_the_same() -> None:
    asked: Any = {"eta": 0.5, "bounds": BOUNDS, "random_state": 0}
    model = fl.Protected(RIDGE, **asked).fit(X, Y)
    assert model.promise_ is not None
    assert (model.promise_["eta_choice"], model.promise_["eta_noise"]) == (0.0, 0.5)
    private = fl.PrivateRelease(RIDGE, polish=True, **asked).fit(X, Y)
    frontier = fl.protect(RIDGE, X, Y, 0.5, bounds=BOUNDS)
    alphas = [each[-1].alpha for each in (model.estimator_, private.estimator_, frontier.release(random_state=0))]
    assert len(set(alphas)) == 1
    assert alphas[0] / 300 == pytest.approx(model.choice_.penalty)
    assert model.choice_.penalty in frontier.task.penalties
