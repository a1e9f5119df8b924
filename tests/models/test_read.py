"""Five minutes of misuse: every error is one or two sentences that name the thing and the remedy."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model as lm
from sklearn import preprocessing as pre
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.models.read import promised_gradient

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
N = 50
T = pd.DataFrame(
    {
        "age": RNG.normal(50, 10, N),
        "vkorc1": RNG.choice(["CC", "CT", "TT"], N),
        "height": RNG.normal(170, 9, N),
    }
)
Y = T["age"].to_numpy() * 0.1 + RNG.normal(size=N)
B = np.where(np.median(Y) < Y, "high", "low")
NUMBERS = ["age", "height"]
WEIGHTS = RNG.gamma(2.0, 1.0, N)


def encode(*more: Any) -> Any:
    return ColumnTransformer([("n", pre.StandardScaler(), NUMBERS), ("c", pre.OneHotEncoder(), ["vkorc1"]), *more])


def pipe(*steps: Any) -> Any:
    return make_pipeline(*steps, lm.Ridge())


MODEL = pipe(encode()).fit(T, Y)
LOGISTIC = make_pipeline(encode(), lm.LogisticRegression()).fit(T, B)
LEAK = fl.measure(MODEL, T, Y)
GAPS = T.copy()
GAPS.loc[[3, 9], "age"] = np.nan
HOLES = T.copy()
HOLES.loc[4, "vkorc1"] = None
UNSEEN = T.assign(vkorc1=np.where(np.arange(N) == 7, "AA", T["vkorc1"]))
NAMES = {
    "fl": fl, "np": np, "pd": pd, "lm": lm, "pre": pre, "T": T, "Y": Y, "B": B, "MODEL": MODEL, "LOGISTIC": LOGISTIC,
    "LEAK": LEAK, "GAPS": GAPS, "HOLES": HOLES, "UNSEEN": UNSEEN, "WEIGHTS": WEIGHTS, "NUMBERS": NUMBERS, "N": N,
    "pipe": pipe, "encode": encode, "sparse": sparse, "SimpleImputer": SimpleImputer, "KNNImputer": KNNImputer, "GridSearchCV": GridSearchCV,
    "FeatureUnion": FeatureUnion, "make_pipeline": make_pipeline, "ColumnTransformer": ColumnTransformer,
    "RandomForestClassifier": RandomForestClassifier,
}  # fmt: skip

CASES: list[tuple[str, str]] = [
    # names
    ("LEAK.per_example(['vkorc'])", "There is no attribute 'vkorc'. Did you mean 'vkorc1'?"),
    ("LEAK.per_example(['Age'])", "Did you mean 'age'?"),
    ("LEAK.by_group('vkorc')", "There is no column 'vkorc'. Did you mean 'vkorc1'?"),
    ("LEAK.by_group(['a', 'b'])", "one label for each of the 50 rows; got 2"),
    ("fl.measure(MODEL, T, Y, attributes=['a'])", "attributes of a pipeline are the columns of its table"),
    ("fl.IRFIL(lm.Ridge(), attributes=['hight']).fit(T[NUMBERS], Y)", "Did you mean 'height'?"),
    ("fl.PrivateRelease(lm.Ridge(), over='max', attributes=['hight']).fit(T[NUMBERS], Y)", "Did you mean 'height'?"),
    # labels and weights
    ("fl.measure(MODEL, T, Y[:-1])", "y must have one value for each of the 50 rows of X; got 49"),
    ("fl.measure(MODEL, T, 3.0)", "got none"),
    ("fl.measure(MODEL, T, np.where(np.arange(N) == 3, np.nan, Y))", "y must be finite; row 3 is nan"),
    ("fl.measure(MODEL, T, B)", "y must hold numbers for Ridge"),
    ("fl.measure(LOGISTIC, T, np.where(B == 'low', 'lo', B))", "none of the model's classes ['high', 'low']"),
    ("fl.measure(LOGISTIC, T, B[:, None])", "y must have one dimension; got shape (50, 1). Use y.ravel()"),
    ("fl.measure(LOGISTIC, T, B == 'low')", "none of the model's classes"),
    ("fl.measure(MODEL, T, Y[::-1])", "Ridge is not at the minimum of its objective"),
    ("fl.measure(MODEL, T, Y, sample_weight=WEIGHTS)", "Pass the rows, labels and weights it was fitted with"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y, ridge__sample_weight=WEIGHTS), T[NUMBERS], Y)", "not at the minimum"),
    ("fl.measure(MODEL, T, Y, sample_weight=-WEIGHTS)", "sample_weight must be finite and zero or more; row 0"),
    ("fl.measure(MODEL, T, Y, sample_weight=WEIGHTS[:9])", "sample_weight must have one value for each of the 50 rows"),
    ("fl.measure(MODEL, T, Y, noise=0.1)", "noise must be a noise such as fisherleak.Gaussian(0.1)"),
    # models
    ("fl.measure(pipe(encode()), T, Y)", "Pipeline is not fitted yet: call fit first"),
    ("fl.measure(lm.Ridge(), T[NUMBERS], Y)", "Ridge is not fitted yet"),
    ("fl.measure(lm.Ridge, T, Y)", "model must be a fisherleak.Fit or a fitted scikit-learn model; got"),
    ("fl.measure(None, T, Y)", "got NoneType"),
    ("fl.measure(RandomForestClassifier(3).fit(T[NUMBERS], B), T[NUMBERS], B)", "RandomForestClassifier is not supported"),
    ("fl.measure(GridSearchCV(lm.Ridge(), {'alpha': [1]}, refit=False).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "refit=True"),
    ("fl.measure(make_pipeline(pipe().fit(T[NUMBERS], Y)), T[NUMBERS], Y)", "as the last step of a Pipeline"),
    # columns
    ("fl.measure(MODEL, T[['age', 'height']], Y)", "X lacks column 'vkorc1'. Pass the table that Pipeline was fitted on"),
    ("fl.measure(MODEL, T.assign(extra=1), Y)", "X has column 'extra', which the model has not seen"),
    ("fl.measure(MODEL, T[['height', 'age', 'vkorc1']], Y)", "another order"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), T[NUMBERS].to_numpy()[:, :1], Y)", "was fitted on 2 columns; X has 1"),
    ("fl.measure(MODEL, pd.concat([T, T['age']], axis=1), Y)", "the column 'age' more than once"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), T['age'], Y)", "X must have two dimensions"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), sparse.csr_array(T[NUMBERS].to_numpy()), Y)", "X is a sparse csr_array"),
    ("fl.measure(pipe().fit(T[NUMBERS], Y), np.full((N, 2), 'a'), Y)", "not numeric"),
    ("fl.measure(MODEL, T.to_numpy(), Y)", "chooses the column 'age' by name, and X has no such column"),
    ("fl.measure(fl.IRFIL(lm.Ridge(), n_iter=1).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "pass its estimator_, with sample_weight"),
    ("fl.release(fl.IRFIL(lm.Ridge(), n_iter=1).fit(T[NUMBERS], Y), fl.Gaussian(1.0))", "IRFIL is not supported: pass its estimator_"),
    ("fl.release(RandomForestClassifier(3).fit(T[NUMBERS], B), fl.Gaussian(1.0))", "RandomForestClassifier is not supported"),
    ("fl.release(MODEL, fl.Gaussian(1.0, np.eye(2)))", "shape must cover the 6 released parameters; got 2"),
    ("fl.PrivateRelease(lm.Ridge(), over='group').fit(T[NUMBERS], Y)", "over must be one of any-record, max, mean, dataset; got 'group'"),
    ("fl.PrivateRelease(lm.Ridge(), over='dataset', attributes=['age']).fit(T[NUMBERS], Y)", "cannot be given with over='dataset'"),
    ("fl.IRFIL(lm.Ridge()).fit(T[NUMBERS], Y, sample_weight=-WEIGHTS)", "sample_weight must be finite and zero or more"),
    # values
    ("fl.measure(MODEL, GAPS, Y)", "X must be finite; row 3, column 'age' is nan (2 such values in all)"),
    ("fl.measure(pipe(KNNImputer()).fit(GAPS[NUMBERS], Y), GAPS[NUMBERS], Y)", "filled 2 missing values of column 'age' (first in row 3)"),
    (
        "fl.measure(pipe(SimpleImputer(strategy='most_frequent', add_indicator=True)).fit(GAPS[NUMBERS], Y), GAPS[NUMBERS], Y)",
        "filled 2 missing values",
    ),
    ("fl.measure(MODEL, UNSEEN, Y)", "a column of it holds values that this step does not take"),
    ("fl.measure(pipe(ColumnTransformer([('c', pre.TargetEncoder(), ['vkorc1'])])).fit(T, Y), T, Y)", "TargetEncoder is not supported"),
    ("fl.measure(pipe(pre.QuantileTransformer(n_quantiles=20)).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "QuantileTransformer is not supported"),
    ("fl.measure(pipe(pre.FunctionTransformer(np.log)).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "with a function of its own"),
    (
        "fl.measure(pipe(ColumnTransformer([('n', 'passthrough', NUMBERS)], transformer_weights={'n': 2})).fit(T, Y), T, Y)",
        "transformer_weights is not supported",
    ),
    ("fl.measure(pipe(pre.StandardScaler(), pre.OneHotEncoder()).fit(T[NUMBERS], Y), T[NUMBERS], Y)", "encode the raw column itself"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "message"), CASES, ids=[row[0] for row in CASES])
def test_one_clear_sentence(expression: str, message: str) -> None:
    with pytest.raises(fl.InvalidInputError) as caught:
        eval(expression, dict(NAMES))  # noqa: S307 - the expressions stand above
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert len(text) < 400


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 40


def test_small_integers_do_not_overflow() -> None:
    X = RNG.integers(0, 120, size=(N, 2))
    wide = lm.Ridge().fit(X.astype(float), Y)
    expected = fl.measure(wide, X.astype(float), Y).per_cell()
    for dtype in (np.int8, np.uint8, np.int16, np.float32):
        model = lm.Ridge().fit(X.astype(dtype), Y) if dtype != np.float32 else wide
        np.testing.assert_allclose(fl.measure(model, X.astype(dtype), Y).per_cell(), expected, rtol=1e-6)
    bent = make_pipeline(pre.PolynomialFeatures(3), lm.Ridge(alpha=1e6))
    small, large = (
        fl.measure(bent.fit(X.astype(t), Y), X.astype(t), Y, polish=True).per_cell() for t in (np.int64, float)
    )
    np.testing.assert_allclose(small, large, rtol=1e-6)


def test_missing_levels_are_levels() -> None:
    """An encoder that knows "missing" as a level treats it as any other."""
    model = pipe(encode()).fit(HOLES, Y)
    assert np.isfinite(fl.measure(model, HOLES, Y).per_cell()).all()


SOLVERS = ["lbfgs", "newton-cg", "newton-cholesky", "liblinear", "sag", "saga"]
EXACT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 10_000}


def rare_group(n: int = 2000, size: int = 4) -> tuple[Any, Any]:
    """Two columns that matter, and a column that marks a few rows whose labels are all equal."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(n, 2)), np.arange(n) < size])
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    y[:size] = 1
    return X, y


def test_a_rare_group_of_a_loose_fit_has_the_eta_of_the_exact_one() -> None:
    X, y = rare_group()
    loose = lm.LogisticRegression(C=1e6).fit(X, y)
    exact = fl.minimise(X, y, "logistic", 1e-6 / len(y), intercept=True)
    expected = fl.measure(exact, X, y).per_example()
    assert expected.max() > 70_000
    with pytest.warns(fl.LooseFitWarning, match=r"from 7\.39e\+04 at the minimum to 1\.09e\+03 as given"):
        leak = fl.measure(loose, X, y)
    np.testing.assert_allclose(leak.per_example(), expected, rtol=1e-6)
    assert "moved to its minimum" in leak.summary()
    with pytest.warns(fl.LooseFitWarning, match=r"these etas are off by up to a factor of \d\d"):
        given = fl.measure(loose, X, y, polish=False)
    assert given.per_example().max() < 2_000


def test_the_effect_on_eta_is_told_where_the_distance_says_nothing() -> None:
    """The same distance from the minimum, with and without an effect on eta: only the one with an effect warns."""
    X, y = rare_group()
    for C, warned in ((1e6, True), (1e2, False)):
        model = lm.LogisticRegression(C=C).fit(X, y)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fl.measure(model, X, y)
        assert [w.category for w in caught] == [fl.LooseFitWarning] * warned


def test_calibration_counts_what_is_left_and_not_what_was_bridged() -> None:
    X, y = rare_group()
    leak = fl.measure(lm.LogisticRegression(C=1e2).fit(X, y), X, y)
    fit = leak.fits[0]
    assert fit.left is not None
    assert fit.left < 1e-9 < 1e-6 < fit.distance
    exact = fl.measure(fl.minimise(X, y, "logistic", 1e-2 / len(y), intercept=True), X, y)
    assert fl.calibrate(leak, 1.0).scale == pytest.approx(fl.calibrate(exact, 1.0).scale, rel=1e-7)


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "newton-cholesky", "sag", "saga"])
@pytest.mark.parametrize("polish", [None, True, False])
def test_a_group_with_one_label_is_refused_by_name_for_every_solver(solver: str, polish: bool | None) -> None:
    pandas = pytest.importorskip("pandas")
    X, y = rare_group(600, 20)
    frame = pandas.DataFrame(X, columns=["age", "dose", "ward"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = lm.LogisticRegression(C=np.inf, solver=solver, random_state=0).fit(frame, y)
    with pytest.raises(fl.NotConvergedError, match="'ward'"):
        fl.measure(model, frame, y, polish=polish)


def test_liblinear_penalises_always_and_so_has_a_minimum_however_far() -> None:
    X, y = rare_group(600, 20)
    model = lm.LogisticRegression(C=1e8, solver="liblinear").fit(X, y)
    with pytest.warns(fl.LooseFitWarning, match="as given"):
        leak = fl.measure(model, X, y)
    assert leak.fits[0].gradient <= 1e-10
    assert leak.per_example().max() > 1e6


def test_a_group_that_ran_off_so_far_that_nothing_is_left_of_it_is_refused_by_name_too() -> None:
    X, y = rare_group(600, 20)
    model = lm.LogisticRegression(C=np.inf, **EXACT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    model.coef_[0, 2] = 800.0
    with pytest.raises(fl.NotConvergedError, match="'x2'"):
        fl.measure(model, X, y)


def test_the_level_that_an_encoder_dropped_is_found() -> None:
    """The labels of the level that has no column of its own are all equal: every other level's column says so."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.normal(size=300), "city": rng.choice(["Aix", "Bonn", "Cork"], 300)})
    y = np.where(frame["city"] == "Aix", 1, rng.integers(0, 2, 300))
    encode = make_column_transformer((OneHotEncoder(drop="first"), ["city"]), remainder="passthrough")
    model = make_pipeline(encode, lm.LogisticRegression(C=np.inf)).fit(frame, y)
    with pytest.raises(fl.SeparableClassesError, match=r"\(city\)"):
        fl.measure(model, frame, y)


def problem(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.random((n, 8)) < np.linspace(0.002, 0.2, 8)])
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ np.linspace(-1, 1, 11)))).astype(int)


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "newton-cholesky"])
@pytest.mark.parametrize("kind", [lm.LogisticRegression, lm.PoissonRegressor, lm.GammaRegressor, lm.TweedieRegressor])
def test_solvers_keep_their_promise_on_their_own_data_alone(kind: Any, solver: str) -> None:
    """What a solver promises at its end holds on its own data, and is what other data break first."""
    X, y = problem(4000)
    if kind is not lm.LogisticRegression:
        if solver == "newton-cg":
            solver = "lbfgs"
        y = y + np.random.default_rng(2).gamma(2.0, 1.0, len(y))
    model = kind(solver=solver, max_iter=1000).fit(X, y)
    assert promised_gradient(model) == 1e-4
    fl.measure(model, X, y)
    weights = np.random.default_rng(3).choice([0.5, 1.5], len(y))
    for rows, labels, given in ((X[:-40], y[:-40], None), (X, y[::-1], None), (X, y, weights)):
        with pytest.raises(fl.NotAtMinimumError, match=r"mean gradient .* tol=0\.0001"):
            fl.measure(model, rows, labels, sample_weight=given)


def test_weights_of_classes_and_examples_count_in_the_promise() -> None:
    X, y = problem(1500)
    weights = np.random.default_rng(0).gamma(2.0, 30.0, len(y))
    model = lm.LogisticRegression(class_weight={0: 9.0, 1: 0.5}).fit(X, y, sample_weight=weights)
    with pytest.warns(fl.LooseFitWarning, match="moved there"):
        fl.measure(model, X, y, sample_weight=weights)
    with pytest.raises(fl.NotAtMinimumError):
        fl.measure(model, X, y)


def test_a_promise_that_any_data_keep_proves_nothing() -> None:
    """With a tolerance as wide as the chance of the draw, another sample would pass: the distance decides."""
    X, y = problem(2000)
    model = lm.LogisticRegression(tol=0.05).fit(X, y)
    with pytest.raises(fl.NotAtMinimumError, match="fit with a smaller tol"):
        fl.measure(model, X, y)


def test_polish_says_what_is_measured() -> None:
    X, y = problem(3000)
    model = lm.LogisticRegression(solver="newton-cg").fit(X, y)
    exact = fl.measure(lm.LogisticRegression(**EXACT).fit(X, y), X, y).per_example()
    for polish in (None, True):
        leak = fl.measure(model, X, y, polish=polish)
        np.testing.assert_allclose(leak.per_example(), exact, rtol=1e-8)
        np.testing.assert_array_equal(fl.measure(model, X, y, polish=polish).fits[0].coef, leak.fits[0].coef)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.LooseFitWarning)
        given = fl.measure(model, X, y, polish=False)
    np.testing.assert_array_equal(given.fits[0].coef, model.coef_[0])
    direct = lm.Ridge().fit(X, y)
    np.testing.assert_array_equal(fl.measure(direct, X, y).fits[0].coef, direct.coef_)


def sparse_and_dense(drop: str | None = None) -> tuple[Any, Any, Any, Any]:
    """A table, numbers, and what makes sparse features and the same dense ones of its columns."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 10, 600), "bmi": rng.normal(25, 4, 600)})
    for name in ("city", "job"):
        frame[name] = rng.choice([f"{name} {k}" for k in range(30)], 600)
    y = 0.1 * frame["age"] + frame["bmi"] + (frame["city"] == "city 3") + rng.normal(size=600)
    numbers, texts = (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "bmi"]), ["city", "job"]
    sparsely, densely = (
        make_column_transformer(numbers, (OneHotEncoder(drop=drop, sparse_output=sparse_output), texts))
        for sparse_output in (True, False)
    )
    return frame, y, sparsely, densely


@pytest.mark.parametrize("polish", [None, True])
@pytest.mark.parametrize("last", [lm.Ridge(), lm.RidgeClassifier(), OneVsRestClassifier(lm.RidgeClassifier())])
def test_a_ridge_on_sparse_features_is_moved_to_its_minimum(last: Any, polish: bool | None) -> None:
    """Its solver is iterative there: the etas are those of the same model on dense features, which a direct one fits."""
    frame, y, sparsely, densely = sparse_and_dense()
    labels = y if isinstance(last, lm.Ridge) else y > y.median()
    one, other = (make_pipeline(encoder, clone(last)).fit(frame, labels) for encoder in (sparsely, densely))
    leak, direct = fl.measure(one, frame, labels, polish=polish), fl.measure(other, frame, labels)
    assert direct.fits[0].distance < 1e-12 < 1e-6 < leak.fits[0].distance
    np.testing.assert_allclose(leak.per_example(), direct.per_example(), rtol=1e-8)
    assert fl.audit(one, frame, labels, fl.Gaussian(1.0), attacks=False).leakage.n == 600


def test_a_linear_regression_on_sparse_features_is_moved_to_its_minimum() -> None:
    frame, y, sparsely, densely = sparse_and_dense("first")
    one, other = (make_pipeline(encoder, lm.LinearRegression()).fit(frame, y) for encoder in (sparsely, densely))
    leak, direct = (fl.measure(each, frame, y) for each in (one, other))
    assert leak.fits[0].left is not None
    assert direct.fits[0].left is None
    np.testing.assert_allclose(leak.per_example(), direct.per_example(), rtol=1e-8)


def test_a_solver_that_stops_too_far_is_named_with_its_tolerance() -> None:
    frame, y, sparsely, densely = sparse_and_dense()
    with pytest.raises(
        fl.NotAtMinimumError, match=r"the solver 'sparse_cg' stopped at tol=0\.1: fit with a smaller tol"
    ):
        fl.measure(make_pipeline(sparsely, lm.Ridge(tol=0.1)).fit(frame, y), frame, y, polish=True)
    fl.measure(make_pipeline(sparsely, lm.Ridge(tol=1e-10)).fit(frame, y), frame, y, polish=False)
    with pytest.raises(fl.NotAtMinimumError, match="sparse_output=False"):
        fl.measure(make_pipeline(sparsely, lm.RidgeCV(cv=3)).fit(frame, y), frame, y)
    fl.measure(make_pipeline(densely, lm.RidgeCV(cv=3)).fit(frame, y), frame, y)


def test_a_ridge_on_sparse_features_is_refused_on_other_labels() -> None:
    frame, y, sparsely, _ = sparse_and_dense()
    with pytest.raises(fl.NotAtMinimumError, match="Pass the rows, labels and weights it was fitted with"):
        fl.measure(make_pipeline(sparsely, lm.Ridge()).fit(frame, y), frame, y[::-1], polish=True)


def test_a_released_model_keeps_its_own_parameters() -> None:
    X, y = problem(3000)
    model = lm.LogisticRegression().fit(X, y)
    before = model.coef_.copy()
    leak = fl.measure(model, X, y)
    np.testing.assert_array_equal(model.coef_, before)
    assert not np.array_equal(leak.fits[0].coef, before[0])


def test_private_releases_count_the_etas_of_the_minimum() -> None:
    X, y = rare_group()
    loose = lm.LogisticRegression(C=1e6)
    expected = fl.measure(fl.minimise(X, y, "logistic", 1e-6 / len(y), intercept=True), X, y).per_example().max()
    with pytest.warns(fl.LooseFitWarning):
        released = fl.PrivateRelease(loose, over="max", eta=1.0, random_state=0).fit(X, y)
    assert released.noise_.scale == pytest.approx(expected, rel=1e-2)


@pytest.mark.long
def test_ordinary_models_of_adult_are_measured_and_others_data_refused(data_folder: Path) -> None:
    adult = fl.datasets.load_adult(data_home=data_folder)
    X, y = adult.X, np.asarray(adult.y)
    numbers = [name for name in X.columns if X[name].dtype.kind == "i"]
    rest = [name for name in X.columns if name not in numbers]
    encode = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(drop="first", sparse_output=False), rest)
    )
    plain = make_pipeline(encode, lm.LogisticRegression())
    model = clone(plain).fit(X, y)
    exact = make_pipeline(encode, lm.LogisticRegression(**EXACT)).fit(X, y)
    leak = fl.measure(model, X, y)
    assert "moved to its minimum; etas as given differ by up to" in leak.summary()
    np.testing.assert_allclose(leak.per_example(), fl.measure(exact, X, y).per_example(), rtol=1e-6)
    for rows in (slice(300, None), np.random.default_rng(0).choice(len(y), len(y))):
        with pytest.raises(fl.NotAtMinimumError, match="mean gradient"):
            fl.measure(model, X.iloc[rows].reset_index(drop=True), y[rows])


@pytest.mark.long
def test_ordinary_models_of_two_classes_of_doses_are_measured(data_folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(data_folder / "iwpc" / "iwpc-scaled.csv")
    dose = frame.pop("dose").to_numpy()
    y = (dose > np.median(dose)).astype(int)
    numbers = ["age", "height", "weight"]
    rest = [name for name in frame.columns if name not in numbers]
    encode = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(drop="first"), rest))
    exact = fl.measure(make_pipeline(encode, lm.LogisticRegression(**EXACT)).fit(frame, y), frame, y).per_example()
    for solver in SOLVERS[:3]:
        model = make_pipeline(encode, lm.LogisticRegression(solver=solver)).fit(frame, y)
        np.testing.assert_allclose(fl.measure(model, frame, y).per_example(), exact, rtol=1e-6)
        wrong = y.copy()
        wrong[:10] = 1 - wrong[:10]
        with pytest.raises(fl.NotAtMinimumError):
            fl.measure(model, frame, wrong)


@pytest.mark.parametrize("kind", ["minimised", "ridge", "several numbers", "behind a scaler", "poisson"])
@pytest.mark.parametrize("level", [1.7, 1e9 / 3])
def test_labels_that_are_all_the_same_are_fitted_to_rounding(kind: str, level: float) -> None:
    """The rounding of one common level is no distance from the minimum, and one label that differs is."""
    X = 4.0 + np.random.default_rng(0).normal(size=(500, 2))
    y: Any = np.full(500, level)
    if kind == "several numbers":
        y = np.column_stack([y, y + 1.3])
    makers: dict[str, Any] = {
        "minimised": lambda: fl.minimise(X, y, "squared", 1.0, intercept=True),
        "poisson": lambda: fl.minimise(X, y, "poisson", 1.0, intercept=True),
        "behind a scaler": lambda: make_pipeline(StandardScaler(), lm.Ridge(1.0)).fit(X, y),
    }
    model = makers.get(kind, lambda: lm.Ridge(1.0).fit(X, y))()
    assert fl.measure(model, X, y).fits[0].distance <= 1e-6
    y[7] *= 1.001
    with pytest.raises(fl.InvalidInputError, match=r"not at a|not at the minimum"):
        fl.measure(model, X, y)
