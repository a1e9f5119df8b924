"""What ``shape=`` may be, and what is refused.

Least-loss noise: no row is above the limit, no other covariance is cheaper by more than the gap.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

import fisherleak as fl
from cases import dense_jacobian, make
from fisherleak.protection.calibrate.limit_terms import units_of
from fisherleak.protection.calibrate.shapes import least_loss
from realdata import image_features


def test_the_shape_of_the_hessian_is_its_inverse() -> None:
    case = make("squared", 1)
    noise: Any = fl.calibrate(case.leak(), 0.5, shape="hessian")
    H = case.X.T @ case.X + len(case.y) * case.l2 * np.eye(3)
    np.testing.assert_allclose(noise.shape / noise.shape[0, 0], np.linalg.inv(H) / np.linalg.inv(H)[0, 0], rtol=1e-9)


def test_a_matrix_and_the_isotropic_shape_are_taken_whatever_the_noise_of_the_leakage() -> None:
    leak = make("squared", 1).leak(fl.Laplace(2.0))
    matrix = np.diag([1.0, 2.0, 3.0])
    shaped: Any = fl.calibrate(leak, 0.5, shape=matrix)
    np.testing.assert_array_equal(shaped.shape, matrix)
    assert leak.with_noise(shaped).per_example().max() == pytest.approx(0.5, rel=1e-9)
    plain: Any = fl.calibrate(leak, 0.5, shape="isotropic")
    assert isinstance(plain, fl.Gaussian)
    assert plain.shape is None
    assert isinstance(fl.calibrate(leak, 0.5), fl.Laplace)


def test_a_shape_from_public_rows_keeps_the_limit_here() -> None:
    public = make("squared", 2, n=200).leak()
    leak = make("squared", 3).leak()
    there: Any = fl.calibrate(public, 0.5, shape="least-loss")
    here: Any = fl.calibrate(leak, 0.5, shape=public)
    np.testing.assert_array_equal(here.shape, there.shape)
    assert here.gap is None
    assert leak.with_noise(here).per_example().max() == pytest.approx(0.5, rel=1e-9)


def test_an_inverse_computed_by_numpy_is_a_shape() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 12)) * 10.0 ** rng.integers(-6, 6, size=12)
    inverse = np.linalg.inv(X.T @ X)
    assert np.any(inverse != inverse.T)
    shape = fl.Gaussian(1.0, inverse).shape
    assert shape is not None
    np.testing.assert_array_equal(shape, shape.T)
    np.testing.assert_allclose(shape, inverse, rtol=1e-6)


@pytest.mark.parametrize("off", [1e-6, 0.5])
def test_a_matrix_that_is_not_symmetric_is_refused(off: float) -> None:
    with pytest.raises(fl.InvalidInputError, match="shape must be symmetric"):
        fl.Gaussian(1.0, np.array([[1.0, 0.0], [off, 1.0]]))
    with pytest.raises(fl.InvalidInputError, match="shape must be symmetric"):
        fl.Gaussian(1.0, np.array([[1e8, 0.0], [off, 1e-8]]))


@pytest.mark.parametrize("thin", [1e-17, 1e-16, 1e-14, 1e-11, 1e-6])
@pytest.mark.parametrize("units", [1.0, 1e-9])
def test_a_shape_is_refused_or_its_inverse_is_right(thin: float, units: float) -> None:
    """Against exact fractions: a shape that is singular but for rounding left etas of twice the limit."""
    case = make("squared", 1, d=2)
    turned = np.array([[0.8, 0.6], [-0.6, 0.8]]) @ np.diag([1.0, np.sqrt(thin)])
    shape = np.diag([1.0, units]) @ turned @ turned.T @ np.diag([1.0, units])
    if thin < 1e-12:
        with pytest.raises(fl.InvalidInputError, match=r"shape (is nearly singular|must be positive definite)"):
            fl.calibrate(case.leak(), 1.0, shape=shape)
        return
    noise: Any = fl.calibrate(case.leak(), 1.0, shape=shape)
    (a, b), (_, c) = [[Fraction(value) for value in row] for row in noise.shape.tolist()]
    inverse = np.array([[float(c / (a * c - b * b)), float(-b / (a * c - b * b))], [0.0, float(a / (a * c - b * b))]])
    inverse[1, 0] = inverse[0, 1]
    J = dense_jacobian(case, case.fit())
    squares = [np.linalg.eigvalsh(K.T @ inverse @ K)[-1] for K in J]
    assert np.sqrt(max(squares)) / noise.scale == pytest.approx(1.0, rel=1e-3)


def test_the_gap_goes_with_the_noise_and_is_no_part_of_it() -> None:
    noise: Any = fl.calibrate(make("squared", 1).leak(), 0.5, shape="least-loss")
    assert noise.gap == copy.deepcopy(noise).gap == noise.rescaled(2.0).gap
    assert noise == fl.Gaussian(noise.scale, noise.shape)
    assert hash(noise) == hash(fl.Gaussian(noise.scale, noise.shape))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": "least_loss"}, "shape must be one of least-loss, isotropic, hessian, a matrix, or a leakage"),
        ({"shape": np.eye(4)}, "shape must cover the 3 released parameters; got 4 rows"),
        ({"shape": "least-loss", "over": "mean"}, "limits over 'max', 'group', 'person' or 'dataset'; got over='mean'"),
        ({"shape": "least-loss", "gap": 0.0}, "gap must be a finite number, greater than zero"),
        ({"shape": "public", "over": "group", "groups": [0] * 40}, "shape from public rows cannot be limited by group"),
        ({"shape": "wider"}, "shape must come from a model with the same 3 released parameters; the public one has 4"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    leak = make("squared").leak()
    named = {"public": leak, "wider": make("squared", intercept=True).leak()}
    shape = options["shape"]
    options = options | {"shape": named.get(shape, shape) if isinstance(shape, str) else shape}
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.calibrate(leak, 0.1, **options)


def test_a_composition_has_no_shape() -> None:
    leak = make("squared").leak()
    with pytest.raises(fl.InvalidInputError, match="composition"):
        fl.calibrate(fl.compose(leak, leak), 0.1, shape="least-loss")


def test_nothing_to_hide_needs_no_noise() -> None:
    X = np.array([[1.0], [-1.0]])
    leak = fl.measure(fl.minimise(X, np.zeros(2)), X, np.zeros(2))
    with pytest.raises(fl.InvalidInputError, match="does not depend on these values"):
        fl.calibrate(leak, 0.1, attributes=["x0"], shape="least-loss")


def test_the_rows_themselves_are_not_public() -> None:
    """Their shape would be on a record, digit by digit."""
    case = make("squared", 1, n=40)
    leak, most = case.leak(), replace(case, X=case.X[:30], y=case.y[:30]).leak()
    for own in (leak, most, replace(case, X=case.X.copy()).leak()):
        with pytest.raises(
            fl.InvalidInputError, match="`shape` must come from public rows, and most of these are rows of"
        ):
            fl.calibrate(leak, 1.0, shape=own)
    rng = np.random.default_rng(0)
    few = [rng.integers(0, 2, (40, 3)).astype(float) for _ in range(2)]  # rows that many have in common
    here, there = (replace(case, X=X).leak() for X in few)
    assert fl.calibrate(here, 1.0, shape=there).scale > 0


Vector = NDArray[np.float64]


def hessian_of(case: Any, fit: fl.Fit) -> Vector:
    """Over the released parameters, from the definition."""
    n, d = case.X.shape
    X = np.column_stack([case.X, np.ones(n)]) if case.intercept else case.X
    omega = np.ones(n) if case.weights is None else case.weights
    a = omega * fit.loss.a(X @ np.asarray(fit.theta), case.y)
    return np.asarray((X.T * a) @ X + n * fit.l2 * np.diag([1.0] * d + [0.0] * int(case.intercept)))


def covariance(noise: Any, size: int) -> Vector:
    return np.asarray(noise.scale**2 * (np.eye(size) if noise.shape is None else noise.shape))


def cost(noise: Any, H: Vector) -> float:
    return float(np.trace(H @ covariance(noise, len(H)))) / 2


def reference(J: Vector, H: Vector, target: float) -> float:
    """The least tr(H S) / 2 by a general solver over a triangular factor of S^-1."""
    p = len(H)
    lower = np.tril_indices(p)

    def factor(z: Vector) -> Vector:
        L = np.zeros((p, p))
        L[lower] = z
        return L

    def slack(z: Vector) -> Vector:
        return np.asarray(1.0 - np.linalg.norm(factor(z).T @ J, 2, axis=(1, 2)) / target)

    def loss(z: Vector) -> float:
        return float(np.trace(np.linalg.solve(factor(z) @ factor(z).T, H)) / 2) / scale

    start = np.linalg.cholesky(np.eye(p) * (0.9 * target / np.linalg.norm(J, 2, axis=(1, 2)).max()) ** 2)[lower]
    scale = 1.0
    scale = loss(start)
    options = {"maxiter": 2000, "ftol": 1e-12}
    found = minimize(loss, start, method="SLSQP", constraints={"type": "ineq", "fun": slack}, options=options)
    assert slack(found.x).min() > -1e-5  # what the optimiser of older versions leaves
    return float(found.fun) * scale


@pytest.mark.parametrize("loss", ["squared", "logistic", "gamma"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_covariance_is_cheaper(loss: str, d: int) -> None:
    case = make(loss, 7 + d, n=12, d=d, l2=0.05)
    fit = case.fit()
    H, J = hessian_of(case, fit), dense_jacobian(case, fit)
    noise: Any = fl.calibrate(case.leak(), 0.3, shape="least-loss", gap=1e-4)
    least = reference(J, H, 0.3)
    assert noise.gap <= 1e-4
    assert cost(noise, H) == pytest.approx(least, rel=3e-4)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(["squared", "logistic", "poisson", "gamma", "pseudo_huber"]),
    weighted=st.booleans(),
    intercept=st.booleans(),
    scale=st.sampled_from([1e-8, 1.0, 1e8]),
    target=st.sampled_from([1e-6, 0.3, 1e6]),
)
def test_the_limit_holds_and_the_cost_is_below_that_of_other_shapes(
    seed: int, loss: str, weighted: bool, intercept: bool, scale: float, target: float
) -> None:
    case = make(loss, seed, weighted=weighted, intercept=intercept, scale=scale)
    leak = case.leak()
    H = hessian_of(case, leak.fits[0])
    noise: Any = fl.calibrate(leak, target, shape="least-loss")
    reached = leak.with_noise(noise).per_example()
    assert target * (1 - 1e-9) <= reached.max() <= target
    J = dense_jacobian(case, leak.fits[0])
    W = np.linalg.inv(np.linalg.cholesky(covariance(noise, len(H))))
    assert np.linalg.norm(W @ J, 2, axis=(1, 2)).max() == pytest.approx(target, rel=1e-6)
    assert 0 <= noise.gap <= 0.01
    for shape in ("isotropic", "hessian"):
        other = fl.calibrate(leak, target, shape=shape)
        assert leak.with_noise(other).per_example().max() <= target
        assert cost(noise, H) <= cost(other, H) * 1.01


def test_the_certificate_is_a_lower_bound_that_no_tighter_search_passes() -> None:
    units = units_of(make("logistic", 3, n=60, d=5).leak(), "max", None, None, None)
    traces = {gap: least_loss(units, gap) for gap in (0.3, 1e-2, 1e-6)}
    exact = float(np.trace(traces[1e-6].covariance))
    for gap, found in traces.items():
        assert found.gap <= gap
        assert exact * (1 - 1e-6) <= np.trace(found.covariance) <= exact * (1 + found.gap)


def test_not_reaching_the_gap_is_said() -> None:
    units = units_of(make("logistic", 3).leak(), "max", None, None, None)
    with pytest.raises(
        fl.NotConvergedError, match=r"gap of .* in 2 passes over the rows, and the gap asked for is 1 × 10⁻⁴"
    ):
        least_loss(units, 1e-4, steps=2)


@pytest.mark.parametrize("over", ["attributes", "label", "group", "person", "dataset"])
def test_every_limited_quantity_is_kept(over: str) -> None:
    case = make("squared", 1, intercept=True, weighted=True)
    leak = case.leak(attributes={"pair": [0, 2]})
    groups = np.arange(leak.n) // (2 if over == "person" else 14)
    known: dict[str, dict[str, Any]] = {
        "attributes": {"attributes": ["pair"]},
        "label": {"attributes": [], "label": True},
        "group": {"over": "group", "groups": groups},
        "person": {"over": "group", "groups": groups},
        "dataset": {"over": "dataset"},
    }
    options = known[over]
    noise: Any = fl.calibrate(leak, 0.5, shape="least-loss", **options)
    after = leak.with_noise(noise)
    reached = {
        "attributes": lambda: after.per_example(["pair"]).max(),
        "label": lambda: after.per_label().max(),
        "dataset": after.dataset,
    }.get(over, lambda: max(after.by_group(groups).values()))()
    assert 0.5 * (1 - 1e-9) <= reached <= 0.5
    H = hessian_of(case, leak.fits[0])
    assert cost(noise, H) <= cost(fl.calibrate(leak, 0.5, shape="isotropic", **options), H)


def test_the_data_set_has_a_closed_form() -> None:
    """One unit: the covariance is the sum of J J^T itself."""
    case = make("logistic", 5)
    leak = case.leak()
    J = dense_jacobian(case, leak.fits[0])
    noise: Any = fl.calibrate(leak, 1.0, over="dataset", shape="least-loss", gap=1e-6)
    np.testing.assert_allclose(covariance(noise, 3), np.einsum("ipm,iqm->pq", J, J), rtol=1e-9)


def test_one_unit_is_not_searched_for() -> None:
    """Data sets whose directions differ by orders: the gap that is asked for is reached, and the certificate is its own."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    leak = fl.measure(fl.minimise(X, y, "logistic", 1e-2), X, y)
    units = units_of(leak, "dataset", None, None, None)
    for gap in (0.01, 1e-6):
        found = least_loss(units, gap)
        assert found.gap <= gap
        assert np.trace(found.covariance) == pytest.approx(np.trace(units.total()), rel=gap)
        M = found.weights.matrix()
        value, weight = np.sqrt(np.clip(np.linalg.eigvalsh(M), 0, None)).sum() ** 2, np.sum(found.weights.f**2)
        assert weight == pytest.approx(1.0)
        assert value == pytest.approx(np.trace(units.total()), rel=1e-6)
        noise: Any = fl.calibrate(leak, 1.0, over="dataset", shape="least-loss", gap=gap)
        assert 1 - 1e-6 <= leak.with_noise(noise).dataset() <= 1.0


def test_other_units_of_the_features_turn_the_covariance_with_them() -> None:
    """Where attributes are what they were, features A x have coefficients A^-T w, and the noise is A^-T S A^-1."""
    case = make("squared", 4, l2=0.0, d=3)
    A = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 3.0]])
    Z = case.X @ A.T
    moved = [fl.Attribute(f"x{j}", [0, 1, 2], A[:, [j]]) for j in range(3)]
    one: Any = fl.calibrate(case.leak(), 1.0, shape="least-loss", gap=1e-6)
    two: Any = fl.calibrate(
        fl.measure(fl.minimise(Z, case.y), Z, case.y, attributes=moved), 1.0, shape="least-loss", gap=1e-6
    )
    back = np.linalg.inv(A)
    expected = back.T @ covariance(one, 3) @ back
    np.testing.assert_allclose(covariance(two, 3), expected, rtol=0, atol=5e-3 * np.abs(expected).max())


def hostile(name: str) -> tuple[Vector, Vector, float, Vector | None]:
    """Features, labels, l2 and weights of problems that leave directions without information, or nearly."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    y = X @ np.ones(4) + rng.normal(size=30)
    if name == "one row":
        return X[:1], y[:1], 0.1, None
    if name == "more parameters than rows":
        return rng.normal(size=(6, 15)), y[:6], 0.1, None
    if name == "duplicates":
        return np.repeat(X, 4, axis=0), np.repeat(y, 4), 0.1, None
    if name == "weights of zero":
        return X, y, 0.1, np.where(np.arange(30) < 20, 0.0, 1.0)
    if name == "a column of nothing":
        return X * np.array([1.0, 0.0, 1.0, 1.0]), y, 0.1, None
    if name == "scales":
        units = np.array([1e-8, 1.0, 1e8, 1e3])
        return X * units, y, 0.0, None
    y[1] = 1e6
    return np.concatenate([X[:1] * 1e4, X[1:]]), y, 0.01, None


@pytest.mark.parametrize(
    "name",
    [
        *("one row", "more parameters than rows", "duplicates", "weights of zero", "a column of nothing", "scales"),
        "outliers",
    ],
)
@pytest.mark.parametrize("attributes", [None, ["x0"]])
def test_hostile_data(name: str, attributes: list[str] | None) -> None:
    X, y, l2, weights = hostile(name)
    leak = fl.measure(fl.minimise(X, y, l2=l2, sample_weight=weights), X, y)
    noise: Any = fl.calibrate(leak, 0.5, shape="least-loss", attributes=attributes)
    assert noise.gap <= 0.01
    assert 0.5 * (1 - 1e-4) <= leak.with_noise(noise).per_example(attributes).max() <= 0.5
    declared = fl.Gaussian(noise.scale, noise.shape)  # the record of a released Fit holds its noise
    assert np.isfinite(fl.release(leak.fits[0], declared, 0).coef).all()


@pytest.mark.parametrize("kind", ["public scaler", "folded", "not affine"])
def test_pipelines(kind: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.gamma(2.0, size=(80, 3))
    y = X @ np.ones(3) + rng.normal(size=80)
    step = SplineTransformer(n_knots=3) if kind == "not affine" else StandardScaler()
    model = make_pipeline(step, Ridge(3.0)).fit(X, y)
    leak = fl.measure(model, X, y, public="nothing" if kind == "folded" else "preprocessing")
    cases: list[dict[str, Any]] = [{}, {"over": "group", "groups": np.arange(80) // 4}]
    for options in cases:
        noise: Any = fl.calibrate(leak, 0.5, shape="least-loss", **options)
        after = leak.with_noise(noise)
        reached = max(after.by_group(options["groups"]).values()) if options else after.per_example().max()
        assert 0.5 * (1 - 1e-9) <= reached <= 0.5
        assert noise.gap <= 0.01


def test_the_cost_is_the_excess_loss_of_draws() -> None:
    """Mean excess risk of many releases is tr(H S) / 2, exactly for the squared loss: 5 % off would be seen."""
    case = make("squared", 2, n=60, d=4)
    leak = case.leak()
    noise: Any = fl.calibrate(leak, 0.5, shape="least-loss")
    b = noise.draws(60_000, 4, np.random.default_rng(0))
    theta = np.asarray(leak.fits[0].theta) + b
    risk = 0.5 * np.sum((case.X @ theta.T - case.y[:, None]) ** 2, axis=0) + 0.5 * 60 * case.l2 * np.sum(
        theta**2, axis=1
    )
    excess = risk - leak.fits[0].objective
    expected = cost(noise, hessian_of(case, leak.fits[0]))
    error = float(np.std(excess)) / np.sqrt(len(b))
    assert error < 0.01 * expected
    assert abs(excess.mean() - expected) < 4 * error


def iwpc(folder: Any) -> tuple[Vector, Vector]:
    data = fl.datasets.load_iwpc(data_home=folder)
    pieces = [data.preprocessing.fit(data.X).transform(X) for X in (data.X, data.X_test)]
    return np.concatenate(pieces).astype(float), np.concatenate([data.y, data.y_test])


@pytest.mark.long
@pytest.mark.parametrize(("name", "times"), [("iwpc", 300.0), ("breast cancer", 8.0), ("mnist", 1.7)])
def test_least_loss_noise_costs_a_fraction_of_isotropic_noise(name: str, times: float, data_folder: Any) -> None:
    if name == "iwpc":
        X, y = iwpc(data_folder)
        fit = fl.minimise(X, y, "squared", 1e-3)
    elif name == "mnist":
        X, y, _, _ = image_features("mnist", data_folder)
        fit = fl.minimise(X, y, "logistic", 8e-4)
    else:
        X, y = load_breast_cancer(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        fit = fl.minimise(X, y, "logistic", 1e-2)
    leak = fl.measure(fit, X, y)
    H = np.linalg.inv(fit.factor.inverse())
    noise: Any = fl.calibrate(leak, 1.0, shape="least-loss")
    assert noise.gap <= 0.01
    assert leak.with_noise(noise).per_example().max() <= 1.0
    assert cost(noise, H) * times <= cost(fl.calibrate(leak, 1.0, shape="isotropic"), H)


@pytest.fixture(scope="module")
def three_classes() -> tuple[Vector, Vector, Any]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(24, 2)) * [1.0, 0.3]
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.normal(size=(24, 3)), axis=1)
    return X, y, fl.minimise(X, y, loss="softmax", l2=0.02, intercept=False)


def all_of_softmax(fit: Any, X: Vector) -> Vector:
    """The Hessian over all K d parameters, class by class, from the definition."""
    z = X @ np.asarray(fit.coef).T
    P = np.exp(z - z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    A = P[:, :, None] * np.eye(P.shape[1]) - P[:, :, None] * P[:, None, :]
    size = P.shape[1] * X.shape[1]
    curved = np.einsum("nkl,na,nb->kalb", A, X, X).reshape(size, size)
    return np.asarray(curved + len(X) * fit.l2 * np.eye(size))


@pytest.mark.parametrize("over", ["max", "group", "dataset"])
def test_least_loss_of_several_classes_keeps_the_limit_and_costs_less(three_classes: Any, over: str) -> None:
    X, y, fit = three_classes
    leak = fl.measure(fit, X, y)
    H = all_of_softmax(fit, X)
    how: Any = {"groups": np.arange(24) % 5} if over == "group" else {}
    # what all classes have alike has a penalty in H as it is written, and none of it is lost
    alike = np.kron(np.full((3, 3), 1 / 3), np.eye(2))
    H -= len(X) * fit.l2 * alike
    costs = []
    for shape in ("isotropic", "hessian", "least-loss"):
        gap = 1e-3 if shape == "least-loss" else None
        noise: Any = fl.calibrate(leak, 0.5, over, shape=shape, gap=gap, **how)
        after = leak.with_noise(noise)
        if over == "group":
            reached = max(after.by_group(how["groups"]).values())
        else:
            reached = float(np.max(after.per_example() if over == "max" else after.dataset()))
        assert reached == pytest.approx(0.5, rel=1e-6)
        costs.append(cost(noise, H))
    assert costs[2] < costs[1]
    assert costs[2] < costs[0]
    assert noise.gap <= 1e-3


@pytest.mark.long
def test_no_covariance_of_several_classes_is_cheaper_by_more_than_the_gap(three_classes: Any) -> None:
    X, y, fit = three_classes
    leak = fl.measure(fit, X, y)
    turn = np.kron(np.asarray(fit.frame).T, np.eye(2))  # to what is left of rows of classes that sum to zero
    chosen, label = leak._chosen(None, None)
    J = np.einsum("rp,npm->nrm", turn, np.asarray(leak._information.written_out(chosen, label, None)))
    H = turn @ all_of_softmax(fit, X) @ turn.T
    noise: Any = fl.calibrate(leak, 1.0, shape="least-loss", gap=1e-3)
    own = turn @ covariance(noise, 6) @ turn.T
    least = reference(J, H, 1.0)
    assert np.trace(H @ own) / 2 == pytest.approx(least, rel=3e-3)
    top = np.linalg.eigvalsh(np.einsum("npa,pq,nqb->nab", J, np.linalg.inv(own), J))[:, -1]
    assert np.sqrt(top.max()) <= 1.0 + 1e-9
