from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import fisherleak as fl
from cases import Case, make, parameters

EVERY_LOSS = sorted(fl.LOSSES)


def objective(case: Case, theta: Any) -> float:
    """The paper's risk, written out."""
    d = case.X.shape[1]
    z = case.X @ theta[:d] + (theta[d] if case.intercept else 0.0)
    loss = fl.LOSSES[case.loss] if isinstance(case.loss, str) else case.loss
    omega = np.ones(len(case.y)) if case.weights is None else case.weights
    return float(np.sum(omega * loss.value(z, case.y)) + 0.5 * len(case.y) * case.l2 * np.sum(theta[:d] ** 2))


@settings(max_examples=60)
@given(
    loss=st.sampled_from(EVERY_LOSS),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    intercept=st.booleans(),
    l2=st.sampled_from([1e-3, 0.1]),
)
def test_it_is_the_minimum(loss: str, seed: int, weighted: bool, intercept: bool, l2: float) -> None:
    case = make(loss, seed, weighted=weighted, intercept=intercept, l2=l2)
    fit = case.fit()
    assert fit.gradient <= 1e-10
    theta = parameters(fit)
    assert fit.objective == pytest.approx(objective(case, theta), rel=1e-12)
    rng = np.random.default_rng(seed)
    for size in (1e-3, 0.1, 1.0):
        assert objective(case, theta + size * rng.normal(size=theta.shape)) > fit.objective
    best = minimize(lambda t: objective(case, t), np.zeros(theta.size), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(theta, best.x, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_units_do_not_matter(scale: float) -> None:
    plain, other = make("logistic", 1).fit(), make("logistic", 1, scale=scale).fit()
    np.testing.assert_allclose(other.coef * scale, plain.coef, rtol=1e-9)
    assert other.condition == pytest.approx(plain.condition)


def test_integer_weights_count_rows() -> None:
    case = make("poisson", 2, 30)
    counts = np.arange(30) % 3
    repeated = fl.minimise(
        np.repeat(case.X, counts, axis=0), np.repeat(case.y, counts), "poisson", 0.01 * 30 / counts.sum()
    )
    weighted = fl.minimise(case.X, case.y, "poisson", 0.01, counts)
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-9)


def test_large_counts_and_far_starts() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + 3.0
    for loss in ("poisson", "gamma"):
        for intercept in (False, True):
            fit = fl.minimise(X, np.exp(4 + X @ [0.5, -0.2]) * rng.gamma(5.0, 0.2, 60), loss, 0.0, None, intercept)
            assert fit.gradient <= 1e-10


def test_single_precision_and_integers_are_computed_in_double() -> None:
    X = np.random.default_rng(0).integers(0, 9, size=(30, 3))
    y = X @ np.array([1, 2, 3]) + np.arange(30) % 2
    wide = fl.minimise(X.astype(float), y.astype(float))
    for dtype in (np.float32, np.int8, np.uint16):
        np.testing.assert_allclose(fl.minimise(X.astype(dtype), y).coef, wide.coef, rtol=1e-13)
    leak = fl.measure(wide, X.astype(np.int8), y)
    np.testing.assert_allclose(leak.per_example(), fl.measure(wide, X.astype(float), y * 1.0).per_example(), rtol=1e-13)


# Refusals: the name, the value, the rule, the remedy

GOOD = make("squared", 0, 12, 2)
X, Y = GOOD.X, GOOD.y
NAN, INF = X.copy(), X.copy()
NAN[3, 1] = np.nan
INF[7, 0] = -np.inf
BINARY = (np.median(Y) < Y).astype(float)

REFUSALS: list[tuple[str, type[Exception], str, dict[str, Any]]] = [
    ("nan", fl.InvalidInputError, r"row 3, column 1 is nan \(1 such value in all\)", {"X": NAN}),
    ("infinity", fl.InvalidInputError, "row 7, column 0 is -inf", {"X": INF}),
    (
        "nan label",
        fl.InvalidInputError,
        "y must be finite; row 2 is nan",
        {"y": np.where(np.arange(12) == 2, np.nan, Y)},
    ),
    ("length", fl.InvalidInputError, "one value for each of the 12 rows of X; got 11", {"y": Y[:11]}),
    ("weights' length", fl.InvalidInputError, "sample_weight must have one value", {"sample_weight": np.ones(3)}),
    ("negative weight", fl.InvalidInputError, "row 4 is -1.0", {"sample_weight": np.where(np.arange(12) == 4, -1, 1)}),
    ("nan weight", fl.InvalidInputError, "row 4 is nan", {"sample_weight": np.where(np.arange(12) == 4, np.nan, 1)}),
    ("no weight", fl.InvalidInputError, "zero for every row", {"sample_weight": np.zeros(12)}),
    ("no rows", fl.InvalidInputError, "at least one row", {"X": X[:0], "y": Y[:0]}),
    ("no columns", fl.InvalidInputError, "at least one row and one column", {"X": X[:, :0]}),
    ("one dimension", fl.InvalidInputError, r"Use? ?X\[:, None\]|use X\[:, None\]", {"X": X[:, 0]}),
    ("label matrix", fl.InvalidInputError, "y must have one dimension", {"y": Y[:, None]}),
    ("negative l2", fl.InvalidInputError, "l2 must be a finite number, zero or more; got -1", {"l2": -1}),
    ("nan l2", fl.InvalidInputError, "l2 must be a finite number", {"l2": float("nan")}),
    ("text l2", fl.InvalidInputError, "l2 must be a number", {"l2": "0.1"}),
    ("unknown loss", fl.InvalidInputError, "loss must be one of squared, logistic", {"loss": "hinge"}),
    ("text", fl.InvalidInputError, "X must hold numbers", {"X": np.full((12, 2), "a")}),
    ("mixed", fl.InvalidInputError, "X must hold numbers", {"X": np.array([["a", 1.0]] * 12, dtype=object)}),
    ("dates", fl.InvalidInputError, "dtype datetime64", {"y": np.zeros(12, dtype="datetime64[s]")}),
    ("complex", fl.InvalidInputError, "dtype complex128", {"X": X + 0j}),
    ("ragged", fl.InvalidInputError, "X must be a numeric array", {"X": [[1.0], [1.0, 2.0]]}),
    (
        "labels -1 and 1",
        fl.InvalidInputError,
        "needs labels that are 0 or 1; y is -1",
        {"loss": "logistic", "y": 2 * BINARY - 1},
    ),
    ("one class", fl.InvalidInputError, r"one class only \(1\)", {"loss": "logistic", "y": np.ones(12)}),
    (
        "one class with weight",
        fl.InvalidInputError,
        r"one class only \(0\)",
        {"loss": "logistic", "y": BINARY, "sample_weight": 1 - BINARY},
    ),
    ("negative counts", fl.InvalidInputError, "zero or more", {"loss": "poisson"}),
    ("zero gamma", fl.InvalidInputError, "greater than zero", {"loss": "gamma", "y": np.abs(Y) * (np.arange(12) > 0)}),
    (
        "wide",
        fl.SingularHessianError,
        r"more parameters \(2\) than rows with a weight above zero \(1\)",
        {"X": X[:1], "y": Y[:1]},
    ),
    (
        "wide by weights",
        fl.SingularHessianError,
        r"more parameters \(2\) than rows",
        {"sample_weight": (np.arange(12) == 0) * 1.0},
    ),
    (
        "twin columns",
        fl.SingularHessianError,
        "rank is 1 of 2. Collinear: columns 'x[01]' and 'x[01]'",
        {"X": X[:, [0, 0]]},
    ),
    ("zero column", fl.SingularHessianError, "column 'x1' has no influence", {"X": X * [1.0, 0.0]}),
    (
        "constant with intercept",
        fl.SingularHessianError,
        "column 'x1' has no influence on the loss .*constant beside an intercept",
        {"X": X * [1.0, 0.0] + [0.0, 5.0], "intercept": True},
    ),
    (
        "separable",
        fl.SeparableClassesError,
        "linearly separable. Add an l2 penalty",
        {"loss": "logistic", "y": (X[:, 0] > 0) * 1.0},
    ),
    (
        "only zeros",
        fl.NotConvergedError,
        "no intercept reaches the mean label",
        {"loss": "poisson", "y": np.zeros(12), "intercept": True},
    ),
    ("only zeros without", fl.NotConvergedError, "did not converge", {"loss": "poisson", "y": np.zeros(12), "X": X**2}),
]


@pytest.mark.parametrize(
    ("error", "message", "changes"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_refusals_say_what_and_why(error: type[Exception], message: str, changes: dict[str, Any]) -> None:
    with pytest.raises(error, match=message) as caught:
        fl.minimise(**({"X": X, "y": Y} | changes))
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")


def test_separable_but_for_ties_is_not_called_a_minimum() -> None:
    """A tie at the border: no strict separation, yet the minimiser lies at infinity."""
    X = np.array([[-2.0], [-1.0], [0.0], [0.0], [1.0], [2.0]])
    with pytest.raises(fl.NotConvergedError, match="minimiser may lie at infinity"):
        fl.minimise(X, np.array([0.0, 0, 0, 1, 1, 1]), "logistic")
    assert fl.minimise(X, np.array([0.0, 0, 0, 1, 1, 1]), "logistic", l2=1e-3).gradient <= 1e-10


def test_collinear_columns_are_named() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6))
    X[:, 4] = 2 * X[:, 1] - 3 * X[:, 2]
    with pytest.raises(fl.SingularHessianError, match="rank is 5 of 6") as caught:
        fl.minimise(X * [1, 1e6, 1, 1e-6, 1, 1], rng.normal(size=50))
    assert set(re.findall(r"x\d", str(caught.value))) == {"x1", "x2", "x4"}


def test_the_names_of_a_table_are_used() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [1.0, 2, 3], "years": [1.0, 2, 3]})
    with pytest.raises(fl.SingularHessianError, match=r"'age' and 'years'|'years' and 'age'"):
        fl.minimise(table, [1.0, 2.0, 4.0])


def test_near_singular_warns_with_the_digits_left() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    X[:, 1] = X[:, 0] + 3e-6 * X[:, 1]
    with pytest.warns(fl.NearSingularWarning, match="trust about [3-6] digits"):
        fl.minimise(X, rng.normal(size=50))


def test_sparse_input_is_refused_by_name() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(fl.InvalidInputError, match=r"X is a sparse csr_array.*X\.toarray"):
        fl.minimise(sparse.csr_array(X), Y)


# Cases that once passed for fits, or stopped short


@pytest.mark.parametrize(("loss", "y"), [("logistic", [0.0, 1, 1, 1, 1]), ("poisson", [1.0, 2, 3, 0, 0])])
def test_a_group_with_one_label_only_has_no_minimiser(loss: str, y: list[float]) -> None:
    groups = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1], [0, 1]])
    with pytest.raises(fl.NotConvergedError, match="did not converge"):
        fl.minimise(groups, y, loss)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.arange(200) < 20])
    labels = np.where(np.arange(200) < 20, y[-1], rng.integers(0, 2, 200))
    for intercept in (False, True):
        with pytest.raises(fl.NotConvergedError):
            fl.minimise(X, labels, loss, intercept=intercept)
        assert fl.minimise(X, labels, loss, 1e-3, intercept=intercept).gradient <= 1e-10


@pytest.mark.parametrize("factor", [1e-9, 1e-6, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("loss", ["gamma", "poisson"])
def test_the_unit_of_positive_labels_moves_the_intercept_alone(loss: str, factor: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = rng.gamma(2.0, np.exp(X @ [0.5, -0.3, 0.2]) / 2)
    plain, scaled = (fl.minimise(X, y * k, loss, intercept=True) for k in (1.0, factor))
    np.testing.assert_allclose(scaled.coef, plain.coef, rtol=1e-10)
    assert scaled.intercept == pytest.approx(plain.intercept + np.log(factor), rel=1e-12)
    etas = [fl.measure(fit, X, y * k).per_example(label=False) for fit, k in ((plain, 1.0), (scaled, factor))]
    np.testing.assert_allclose(etas[1], etas[0], rtol=1e-9)


@pytest.mark.parametrize("loss", ["gamma", "squared", "pseudo_huber"])
def test_other_labels_are_noticed_whatever_their_level(loss: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2))
    y = rng.gamma(2.0, 1.0, 100) * 1e7 if loss == "gamma" else rng.normal(size=100) + 1e7
    fit = fl.minimise(X, y, loss, intercept=True)
    fl.measure(fit, X, y)
    with pytest.raises(fl.InvalidInputError, match="not at a minimum"):
        fl.measure(fit, X, y[::-1].copy())


@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_columns_far_from_zero_cost_no_digits_beside_an_intercept(loss: str) -> None:
    case = make(loss, 3, 60, 2, intercept=True, l2=0.0)
    shifted = Case(case.X * 10.0 + 2000.0, case.y, case.loss, 0.0, None, True)
    near = Case(shifted.X - 2000.0, case.y, case.loss, 0.0, None, True)  # the same rows, exactly
    np.testing.assert_allclose(shifted.fit().coef, near.fit().coef, rtol=1e-11)
    etas = [c.leak(fl.Gaussian(1.0, _level_free())).per_example() for c in (shifted, near)]
    assert shifted.fit().condition == pytest.approx(near.fit().condition, rel=1e-6)
    # the intercept itself moves with the columns, so compare what the coefficients reveal: give it a great deal of noise
    np.testing.assert_allclose(etas[0], etas[1], rtol=1e-8)


def _level_free() -> Any:
    return np.diag([1.0, 1.0, 1e18])


def test_extreme_labels_and_offsets_converge() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100, 2))
    outlier = rng.normal(size=100)
    outlier[3] = 1e12
    assert fl.minimise(X, outlier, "pseudo_huber", intercept=True).gradient <= 1e-10
    assert fl.minimise(X, rng.normal(size=100) + 1e8, "pseudo_huber", intercept=True).distance <= 1e-6


def test_shifted_columns_are_other_data() -> None:
    """Beside an intercept rows are centred; the centre is that of the fit, so a shift does not go unnoticed."""
    case = make("squared", 1, 40, 2, intercept=True)
    with pytest.raises(fl.InvalidInputError, match="not at a minimum"):
        fl.measure(case.fit(), case.X + 5.0, case.y)


def test_columns_of_a_table_are_named() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": [1.0, np.nan, 3.0], "city": ["a", "b", "c"]})
    with pytest.raises(fl.InvalidInputError, match="row 1, column 'age' is nan"):
        fl.minimise(table[["age"]], [1.0, 2.0, 3.0])
    with pytest.raises(fl.InvalidInputError, match="'a' in row 0, column 'city', does not"):
        fl.minimise(table, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("given", [object(), None, {"age": 1}])
def test_what_is_no_array_is_refused_in_a_sentence(given: Any) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"X must be an array or a table of numbers; got \w+\."):
        fl.minimise(given, np.ones(3))
    with pytest.raises(fl.InvalidInputError, match=r"y must be an array .*; got \w+\."):
        fl.minimise(np.ones((3, 1)), given)


@pytest.mark.parametrize("intercept", [False, True])
def test_two_classes_of_softmax_are_the_logistic_loss(intercept: bool) -> None:
    """One output and several are one risk: w = w_1 - w_0 with half the penalty."""
    case = make("logistic", 4, 40, 3, intercept=intercept)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    one = fl.minimise(case.X, case.y, "logistic", 0.05, weights, intercept)
    two = fl.minimise(case.X, case.y, "softmax", 0.1, weights, intercept)
    np.testing.assert_allclose(two.coef[1] - two.coef[0], one.coef, rtol=1e-9)
    np.testing.assert_allclose(two.objective, one.objective, rtol=1e-12)
    np.testing.assert_allclose(two.distance, one.distance, atol=1e-12)
    assert two.outputs == 2
    assert one.outputs == 1
    if intercept:
        np.testing.assert_allclose(two.intercept[1] - two.intercept[0], one.intercept, rtol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_a_notebook_shows_a_fit_of_any_number_of_outputs(loss: str) -> None:
    case = make("logistic", 4, 40, 3)
    for intercept in (False, True):
        shown = fl.minimise(case.X, case.y, loss, 0.1, intercept=intercept)._repr_html_()
        assert "40 rows, 3 columns" in shown
        assert (">none<" in shown) is not intercept
