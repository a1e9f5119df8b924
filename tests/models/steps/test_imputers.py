"""Missing values: etas against refits of the whole pipeline, imputer and scaler fitted again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_iterative_imputer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline

import fisherleak as fl
from cases import flat, norms
from fisherleak.models.steps.imputers import noisy_fill
from often import often
from refits import numeric_jacobian

RNG = np.random.default_rng(3)
N = 41
WHOLE = pd.DataFrame(
    {"age": RNG.gamma(9.0, 5.0, N), "income": 10.0 * RNG.gamma(2.0, 1.0, N), "bmi": 20 + 3 * RNG.normal(size=N)}
)
Z = (WHOLE.age - 45) / 15 - (WHOLE.income - 20) / 20
Y = (Z + 0.5 * RNG.normal(size=N)).to_numpy()
W = RNG.gamma(3.0, 0.4, N)
NAMES = list(WHOLE.columns)
GAPS = WHOLE.copy()
GAPS.loc[[3, 8, 9, 20], "age"] = np.nan
GAPS.loc[[3, 5, 7, 30, 31], "income"] = np.nan
EXACT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 2000}
MODELS: dict[str, tuple[Any, Any]] = {
    "ridge": (lm.Ridge(alpha=6.0), Y),
    "logistic": (lm.LogisticRegression(C=0.5, **EXACT), (Y > 0) * 1),
    "poisson": (lm.PoissonRegressor(alpha=0.3, **EXACT), np.floor(np.exp(0.6 * Y + 1))),
}
SCALERS: dict[str, Any] = {
    "none": "passthrough",
    "standard": pre.StandardScaler(),
    "min-max": pre.MinMaxScaler((-1.0, 2.0)),
    "max-abs": pre.MaxAbsScaler(),
    "robust": pre.RobustScaler(),
}


def piped(strategy: str, scaler: Any, model: Any) -> Pipeline:
    return Pipeline(
        [("imputer", SimpleImputer(strategy=strategy, fill_value=25.0)), ("scaler", scaler), ("model", model)]
    )


def affine(scaler: Any, count: int) -> tuple[Any, Any]:
    """Factor and offset of a fitted scaler, by column."""
    if isinstance(scaler, str):
        return np.ones(count), np.zeros(count)
    if isinstance(scaler, pre.MinMaxScaler):
        return scaler.scale_, scaler.min_
    centre = getattr(scaler, "mean_", getattr(scaler, "center_", np.zeros(count)))
    return 1.0 / scaler.scale_, -np.asarray(centre) / scaler.scale_


def released(model: Pipeline, centres: Any) -> Any:
    """Raw coefficients, raw intercept and t, from a fitted pipeline; no t for constants."""
    factor, offset = affine(model[1], len(NAMES))
    scaled = np.ravel(model[-1].coef_)
    coef = scaled * factor
    parts = [coef, np.ravel(model[-1].intercept_) + scaled @ offset]
    if centres is not None:
        parts.append(coef * (model[0].statistics_ - centres))
    return np.concatenate(parts)


def centres_of(leak: fl.Leakage, model: Pipeline) -> Any:
    """The public centres behind t, which stay where they are."""
    folding = leak._information.jacobians[0].folding
    return (
        None
        if folding is None or folding.filling is None
        else model[0].statistics_ - np.asarray(folding.filling.offsets)
    )


def check(pipe: Pipeline, frame: pd.DataFrame, y: Any, given: dict[str, Any], rows: Any, label: bool) -> fl.Leakage:
    """Etas of some rows are those of refits, end to end and in raw units."""
    weights = given.get("model__sample_weight")

    def fitted(frame: pd.DataFrame, y: Any) -> Pipeline:
        return clone(pipe).fit(frame, y, **given)

    model = fitted(frame, y)
    size = 4 if pipe[0].strategy == "constant" else 7
    leak = fl.measure(model, frame, y, fl.Gaussian(0.5, np.eye(size)), sample_weight=weights, public="nothing")
    centres = centres_of(leak, model)
    cells, whole = leak.per_cell(), leak.per_example(NAMES, label=label)
    for row in rows:
        J = numeric_jacobian(lambda f, y: released(fitted(f, y), centres), frame, y, row, NAMES, label, 1e-5) / 0.5
        there = ~np.isnan(frame.loc[row].to_numpy())
        np.testing.assert_array_equal(np.isnan(cells[row]), ~there)
        np.testing.assert_allclose(cells[row][there], np.linalg.norm(J, axis=0)[: there.sum()], rtol=1e-5)
        assert whole[row] == pytest.approx(np.linalg.norm(J, 2), rel=1e-5)
    return leak


def deciding(frame: pd.DataFrame) -> list[int]:
    """A row with gaps, an ordinary one, the one that holds the median age, and the largest income."""
    return [3, 11, int((frame.age - frame.age.median()).abs().argmin()), int(frame.income.argmax())]


CASES = [("ridge", strategy, scaler) for strategy in ("mean", "median", "constant") for scaler in SCALERS]
CASES += [
    (kind, strategy, "standard") for kind in ("logistic", "poisson") for strategy in ("mean", "median", "constant")
]
CASES += [("logistic", "mean", "min-max"), ("poisson", "median", "none")]


@pytest.mark.parametrize(("kind", "strategy", "scaler"), often(CASES, 3))
def test_etas_are_those_of_refits_of_the_whole_pipeline(kind: str, strategy: str, scaler: str) -> None:
    model, y = MODELS[kind]
    weighted = {"model__sample_weight": W} if kind != "poisson" or strategy == "mean" else {}
    # fits of scikit-learn that iterate take long
    rows = deciding(GAPS) if kind == "ridge" else deciding(GAPS)[1:3]
    check(piped(strategy, SCALERS[scaler], model), GAPS, y, weighted, rows, label=kind == "ridge")


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_a_scaler_with_weights_of_its_own(strategy: str) -> None:
    """Weighted means are not those of the imputer, so filled values move the spread."""
    given = {"model__sample_weight": W, "scaler__sample_weight": W}
    check(piped(strategy, pre.StandardScaler(), lm.Ridge(6.0)), GAPS, Y, given, [3, 11], label=True)


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_quantiles_that_are_filled_values_move_with_them(strategy: str) -> None:
    frame: Any = GAPS.copy()
    frame.loc[::2, "age"] = np.nan  # every quartile is a filled value now, or next to one
    pipe = piped(strategy, pre.RobustScaler(quantile_range=(30.0, 80.0)), lm.Ridge(6.0))
    middle = int((frame.age - frame.age.median()).abs().argmin())
    check(pipe, frame, Y, {}, [3, 11, middle], label=True)


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_an_imputer_that_had_nothing_to_do_is_counted_all_the_same(strategy: str) -> None:
    leak = check(piped(strategy, pre.StandardScaler(), lm.Ridge(6.0)), WHOLE, Y, {}, deciding(WHOLE), label=True)
    plain = make_pipeline(pre.StandardScaler(), lm.Ridge(6.0)).fit(WHOLE, Y)
    without = fl.measure(plain, WHOLE, Y, fl.Gaussian(0.5, np.eye(4)), public="nothing")
    assert (leak.per_example() > without.per_example() * (1 - 1e-9)).all()


def test_beside_categories_in_a_column_transformer() -> None:
    frame = GAPS.assign(city=np.array(["a", "b", "c"])[np.arange(N) % 3])
    numbers = make_pipeline(SimpleImputer(), pre.StandardScaler())
    ways = [("levels", pre.OneHotEncoder(drop="first", sparse_output=False), ["city"]), ("numbers", numbers, NAMES)]
    pipe = Pipeline([("columns", ColumnTransformer(ways)), ("model", lm.Ridge(6.0))])
    model = clone(pipe).fit(frame, Y)
    leak = fl.measure(model, frame, Y, fl.Gaussian(1.0, np.eye(9)), public="nothing")
    folding: Any = leak._information.jacobians[0].folding

    def parts(model: Pipeline) -> Any:
        imputer, scaler = model[0].named_transformers_["numbers"]
        coef = np.append(model[-1].coef_[:2], model[-1].coef_[2:] / scaler.scale_)
        return coef, model[-1].intercept_ - coef[2:] @ scaler.mean_, imputer.statistics_

    centres = parts(model)[2] - folding.filling.offsets

    def refit(frame: pd.DataFrame, y: Any) -> Any:
        coef, intercept, filled = parts(clone(pipe).fit(frame, y))
        return np.concatenate([coef, [intercept], coef[2:] * (filled - centres)])

    for row in (3, 11):
        J = numeric_jacobian(refit, frame, Y, row, NAMES, True, 1e-5)
        assert leak.per_example(NAMES, label=True)[row] == pytest.approx(np.linalg.norm(J, 2), rel=1e-5)


@pytest.mark.parametrize("public", ["preprocessing", "nothing"])
def test_sets_groups_and_the_matrix_are_those_of_written_out_jacobians(public: str) -> None:
    model = piped("mean", pre.StandardScaler(), lm.Ridge(6.0)).fit(GAPS, Y)
    leak = fl.measure(model, GAPS, Y, fl.Gaussian(0.3), public=public)
    J = leak._information.written_out(leak._information.attributes, True, None) / 0.3
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-10)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-10)
    assert leak.of(np.arange(5)) == pytest.approx(np.linalg.norm(flat(J[:5]), 2), rel=1e-10)
    assert leak.per_attribute()[0] == pytest.approx(np.linalg.norm(flat(J[:, :, [0]]), 2), rel=1e-10)
    there = ~np.isnan(GAPS.to_numpy())
    np.testing.assert_allclose(leak.per_cell()[there], np.linalg.norm(J, axis=1)[:, :3][there], rtol=1e-10)
    assert (J[:, :, :3].swapaxes(1, 2)[~there] == 0).all()
    assert fl.calibrate(leak, eta=0.5).scale == pytest.approx(0.3 * leak.per_example().max() / 0.5, rel=1e-6)


def test_many_columns_by_products() -> None:
    """More values than are written out: the iteration gives what the Jacobians give."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 55))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nansum(X[:, :3], axis=1) + rng.normal(size=90)
    model = make_pipeline(SimpleImputer(), pre.StandardScaler(), lm.Ridge(5.0)).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing")
    J = leak._information.written_out(leak._information.attributes, True, None)
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-9)


@pytest.mark.parametrize("add_indicator", [False, True])
@pytest.mark.parametrize("strategy", ["mean", "median", "constant"])
def test_with_preprocessing_public_filled_values_are_constants(strategy: str, add_indicator: bool) -> None:
    """The same as a table that was filled before, less the cells that were."""
    imputer = SimpleImputer(strategy=strategy, fill_value=25.0, add_indicator=add_indicator)
    model = make_pipeline(imputer, pre.StandardScaler(), lm.Ridge(6.0)).fit(GAPS, Y)
    leak = fl.measure(model, GAPS, Y)
    features = model[:-1].transform(GAPS)
    plain = fl.measure(lm.Ridge(6.0).fit(features, Y), features, Y)
    known = plain.per_cell()[:, :3] / model[1].scale_[:3]
    there = ~np.isnan(GAPS.to_numpy())
    np.testing.assert_allclose(leak.per_cell()[there], known[there], rtol=1e-10)
    assert np.isnan(leak.per_cell()[~there]).all()
    # a row without gaps is what it was; one with gaps has its other values and the label
    names, scale = plain.attributes[:3], model[1].scale_[:3]
    J = plain._information.written_out(plain._information.attributes, True, None)[:, :, [0, 1, 2, -1]]
    J = J / np.append(scale, 1.0) * np.column_stack([there, np.ones(N)])[:, None, :]
    np.testing.assert_allclose(leak.per_example(), norms(J), rtol=1e-9)
    assert len(names) == len(leak.attributes) == 3
    frame = leak.to_frame()
    assert frame["eta[age]"].isna().sum() == 4
    assert "membership" in frame
    assert "9 cells missing, without an eta" in leak.summary()
    assert "nan" not in leak.summary()


@pytest.mark.parametrize("estimator", [lm.Ridge(6.0), lm.LogisticRegression(tol=1e-12)])
def test_shares_of_values_that_are_there_are_those_of_a_filled_table(estimator: Any) -> None:
    """Filled with means, so that what is believed of the values has the same centre."""
    y = Y if hasattr(estimator, "alpha") else (np.median(Y) < Y).astype(int)
    imputer = SimpleImputer().fit(GAPS)
    filled = pd.DataFrame(imputer.transform(GAPS), columns=GAPS.columns)
    model, plain = (make_pipeline(*steps, pre.StandardScaler(), clone(estimator)) for steps in ((SimpleImputer(),), ()))
    found = fl.measure(model.fit(GAPS, y), GAPS, y).revealed()
    spread = {str(name): float(GAPS[name].std(ddof=0)) for name in GAPS}
    known = fl.measure(plain.fit(filled, y), filled, y).revealed(spread=spread)
    there = ~np.isnan(GAPS.to_numpy())
    np.testing.assert_allclose(found[there], known[there], rtol=1e-9)
    assert np.isnan(found[~there]).all()


def test_indicators_end_to_end_are_constants() -> None:
    imputer = SimpleImputer(add_indicator=True)
    pipe = Pipeline([("imputer", imputer), ("scaler", pre.StandardScaler()), ("model", lm.Ridge(6.0))])
    model = clone(pipe).fit(GAPS, Y)
    leak = fl.measure(model, GAPS, Y, fl.Gaussian(1.0, np.eye(9)), public="nothing")
    centres = centres_of(leak, model)

    def refit(frame: pd.DataFrame, y: Any) -> Any:
        model = clone(pipe).fit(frame, y)
        coef = model[-1].coef_ / model[1].scale_
        filled = coef[:3] * (model[0].statistics_ - centres)
        return np.concatenate([coef, [model[-1].intercept_ - coef @ model[1].mean_], filled])

    for row in (3, 11):
        J = numeric_jacobian(refit, GAPS, Y, row, NAMES, True, 1e-5)
        assert leak.per_example()[row] == pytest.approx(np.linalg.norm(J, 2), rel=1e-5)


def test_other_marks_and_float32() -> None:
    """Values that stand for missing ones; and a table in single precision, whose filled values are."""
    nan = fl.measure(piped("median", "passthrough", lm.Ridge(6.0)).fit(GAPS, Y), GAPS, Y, public="nothing")
    marked = GAPS.fillna(-1.0)
    pipe = make_pipeline(SimpleImputer(missing_values=-1.0, strategy="median"), lm.Ridge(6.0)).fit(marked, Y)
    other = fl.measure(pipe, marked, Y, public="nothing")
    np.testing.assert_allclose(other.per_cell(), nan.per_cell(), rtol=1e-10)
    single = GAPS.astype(np.float32)
    model = make_pipeline(SimpleImputer(strategy="median"), lm.Ridge(6.0)).fit(single, Y)
    leak = fl.measure(model, single, Y, public="nothing", polish=True)
    np.testing.assert_allclose(leak.per_cell(), nan.per_cell(), rtol=1e-3)


def test_releases_of_one_table_compose() -> None:
    leaks = [
        fl.measure(piped(strategy, pre.StandardScaler(), lm.Ridge(6.0)).fit(GAPS, Y), GAPS, Y, public="nothing")
        for strategy in ("mean", "median")
    ]
    both = fl.compose(*leaks)
    squares = sum(leak.per_cell() ** 2 for leak in leaks)
    np.testing.assert_allclose(both.per_cell() ** 2, squares, rtol=1e-9)
    assert np.isnan(both.per_cell()).sum() == 9


def test_noise_without_a_shape_does_not_see_where_a_column_has_its_zero() -> None:
    """What is filled in leaves in units of the score, about the public centre: years are not ruined."""
    far = GAPS.assign(age=GAPS.age + 2**20)
    cells = [
        fl.measure(piped("mean", pre.StandardScaler(), lm.Ridge(6.0)).fit(x, Y), x, Y, public="nothing").per_cell()
        for x in (GAPS, far)
    ]
    np.testing.assert_allclose(cells[1], cells[0], rtol=0.2)


def test_what_a_released_imputer_fills_in_comes_from_noisy_parameters_alone() -> None:
    w, c, m = np.array([0.5, -2.0]), np.array([41.0, 7.0]), np.array([40.0, 8.0])
    np.testing.assert_allclose(noisy_fill(w, w * (c - m), m), c, rtol=1e-14)
    noisy, t = w + 0.1, w * (c - m) - 0.3
    filled = noisy_fill(noisy, t, m)
    # the score of a row that lacks the value is that of the centre, plus t
    np.testing.assert_allclose(noisy * filled, noisy * m + t, rtol=1e-14)
    np.testing.assert_array_equal(noisy_fill([0.0, 1.0], [3.0, 3.0], m), [40.0, 11.0])


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([KNNImputer()], r"KNNImputer learned from the data.*SimpleImputer with strategy"),
        (
            [enable_iterative_imputer.IterativeImputer()],
            r"IterativeImputer learned from the data.*SimpleImputer with strategy",
        ),
        ([SimpleImputer(strategy="most_frequent")], r"SimpleImputer\(strategy='most_frequent'\) learned from the data"),
        (
            [SimpleImputer(), pre.PolynomialFeatures(2)],
            r"SimpleImputer stands before PolynomialFeatures.*let only scalers follow it",
        ),
        ([pre.StandardScaler(), SimpleImputer()], r"StandardScaler stands before SimpleImputer.*put the scaler last"),
    ],
)
def test_what_cannot_be_folded_is_refused_by_name(steps: list[Any], message: str) -> None:
    model = make_pipeline(*steps, lm.Ridge()).fit(GAPS, Y)
    with pytest.raises(fl.UnsupportedModelError, match=message):
        fl.measure(model, GAPS, Y, public="nothing")


@pytest.mark.parametrize("imputer", [KNNImputer(), SimpleImputer(strategy="most_frequent")])
def test_with_preprocessing_public_other_imputers_are_refused_where_they_filled(imputer: Any) -> None:
    model = make_pipeline(imputer, lm.Ridge()).fit(GAPS, Y)
    with pytest.raises(fl.InvalidInputError, match=r"filled 4 missing values of column 'age' \(first in row 3\)"):
        fl.measure(model, GAPS, Y)
    whole = make_pipeline(imputer, lm.Ridge()).fit(WHOLE, Y)
    assert np.isfinite(fl.measure(whole, WHOLE, Y).per_cell()).all()


def test_other_refusals() -> None:
    empty = GAPS.assign(bmi=np.nan)
    for steps in ([SimpleImputer()], [SimpleImputer(), pre.StandardScaler()]):
        with pytest.warns(UserWarning, match="without any observed values"):
            model = make_pipeline(*steps, lm.Ridge()).fit(empty, Y)
        with (
            pytest.warns(UserWarning, match="without any observed values"),
            pytest.raises(fl.UnsupportedModelError, match="drop columns without any value"),
        ):
            fl.measure(model, empty, Y)
        with pytest.raises(fl.InvalidInputError, match="Column 'bmi' has no value at all"):
            fl.measure(model, empty, Y, public="nothing")
    model = make_pipeline(SimpleImputer(), lm.Ridge()).fit(GAPS, Y)
    model[0].statistics_ = model[0].statistics_ + np.array([0.001, 0.0, 0.0])
    model[-1].fit(model[0].transform(GAPS), Y)
    with pytest.raises(fl.InvalidInputError, match="SimpleImputer was not fitted on these rows: the mean of age"):
        fl.measure(model, GAPS, Y, public="nothing")


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_rows_of_a_person_with_gaps_are_one_set(strategy: str) -> None:
    model = piped(strategy, pre.StandardScaler(), lm.Ridge(alpha=6.0)).fit(GAPS, Y)
    leak = fl.measure(model, GAPS, Y, public="nothing")
    person = np.arange(N) // 2
    joint, group = leak.by_person(person), leak.by_group(person)
    assert all(joint[each] >= group[each] * (1 - 1e-12) for each in group)
