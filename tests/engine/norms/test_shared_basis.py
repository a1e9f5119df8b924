"""Every granularity against the materialised Jacobian, and the Jacobian against refits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fisherleak as fl
from cases import Case, dense_jacobian, flat, make, moved, norms, parameters

EVERY_LOSS = sorted(fl.LOSSES)
Vector = NDArray[np.float64]

drawn = st.fixed_dictionaries(
    {
        "loss": st.sampled_from(EVERY_LOSS),
        "seed": st.integers(0, 10**6),
        "n": st.integers(30, 60),
        "d": st.integers(1, 6),
        "weighted": st.booleans(),
        "intercept": st.booleans(),
        "l2": st.sampled_from([1e-3, 1e-2, 1.0]),
        "scale": st.sampled_from([1e-8, 1e-4, 1.0, 1e4, 1e8]),
    }
)


def assert_relative(actual: Any, desired: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=0.0)


@settings(max_examples=60)
@given(settings=drawn, label=st.booleans())
def test_per_example_is_the_dense_norm(settings: dict[str, Any], label: bool) -> None:
    case = make(**settings)
    J = dense_jacobian(case, case.fit(), label=label)
    assert_relative(case.leak().per_example(label=label), norms(J), 1e-11)


@settings(max_examples=40)
@given(settings=drawn, label=st.booleans(), data=st.data())
def test_blocks_and_preprocessing_maps(settings: dict[str, Any], label: bool, data: st.DataObject) -> None:
    settings["d"] = max(settings["d"], 3)
    case = make(**settings)
    d = case.X.shape[1]
    p = d + int(case.intercept)
    rng = np.random.default_rng(settings["seed"])
    raw = data.draw(st.integers(1, 2 * d), label="raw columns behind a linear map")
    maps = {
        "block": (fl.Attribute("v", [0, 2]), np.eye(p)[:, [0, 2]]),
        "tangent": (fl.Attribute.one_hot("v", [0, 1, 2]), None),
        "linear": (
            fl.Attribute("v", range(d), matrix := rng.normal(size=(d, raw))),
            np.vstack([matrix, np.zeros((p - d, raw))]),
        ),
    }
    attribute, E = maps[data.draw(st.sampled_from(sorted(maps)), label="map")]
    if E is None:
        assert attribute.directions is not None
        E = np.zeros((p, 2))
        E[:3] = attribute.directions
        np.testing.assert_allclose(E.T @ E, np.eye(2), atol=1e-15)
        np.testing.assert_allclose(E[:3].sum(axis=0), 0.0, atol=1e-15)
    leak = case.leak(attributes=[attribute])
    J = dense_jacobian(case, case.fit(), E, label)
    assert_relative(leak.per_example(["v"], label=label), norms(J), 1e-11)
    assert_relative(leak.of(attributes="v", label=label), np.linalg.norm(flat(J), 2), 1e-12)
    only = dense_jacobian(case, case.fit(), E, label=False)
    place = leak.attributes.index("v")
    assert_relative(leak.per_attribute()[place], np.linalg.norm(flat(only), 2), 1e-12)
    assert_relative(leak.per_cell()[:, place], norms(only), 1e-11)


@pytest.mark.long
@settings(max_examples=80)
@given(settings=drawn)
def test_sets_columns_cells_and_everything(settings: dict[str, Any]) -> None:
    case = make(**settings)
    n, d = case.X.shape
    leak = case.leak()
    J = dense_jacobian(case, case.fit())
    assert_relative(leak.dataset(), np.linalg.norm(flat(J), 2), 1e-12)
    assert_relative(leak.of(label=False), np.linalg.norm(flat(J[:, :, :d]), 2), 1e-12)
    assert_relative(leak.of(attributes=[], label=True), np.linalg.norm(flat(J[:, :, d:]), 2), 1e-12)
    assert_relative(leak.per_attribute(), [np.linalg.norm(J[:, :, j].T, 2) for j in range(d)], 1e-12)
    assert_relative(leak.per_cell(), np.linalg.norm(J[:, :, :d], axis=1), 1e-11)
    assert_relative(leak.per_label(), np.linalg.norm(J[:, :, d], axis=1), 1e-11)
    groups = np.arange(n) % 3
    dense = {k: np.linalg.norm(flat(J[groups == k]), 2) for k in range(3)}
    for group, eta in leak.by_group(groups).items():
        assert_relative(eta, dense[group], 1e-12)
    rows = np.array([5, 2, 17])
    assert_relative(leak.of(rows, [0]), np.linalg.norm(flat(J[rows][:, :, :1]), 2), 1e-12)
    F = flat(J[rows])
    np.testing.assert_allclose(leak.fim(rows), F.T @ F, rtol=1e-10, atol=1e-13 * float(np.linalg.norm(F, 2)) ** 2)


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_jacobian_is_the_derivative_of_refits(loss: str, weighted: bool, intercept: bool) -> None:
    case = make(loss, 4, 25, 3, weighted=weighted, intercept=intercept)
    fit = case.fit()
    part = fl.measure(fit, case.X, case.y)._information.jacobians[0]
    J = np.asarray(part.dense(part.attributes, True)(case.X, case.y, case.weights))
    np.testing.assert_allclose(J, dense_jacobian(case, fit), rtol=1e-11, atol=1e-14)
    step = 1e-4
    for row in (0, 12):
        for column in (0, 1, 2, None):
            if column is None and loss == "logistic":
                continue  # 0.0001 is no label: see the next test
            if column is None and loss == "poisson" and case.y[row] == 0:
                continue  # nor is -0.0001
            above, below = (parameters(moved(case, row, column, sign * step).fit()) for sign in (1, -1))
            numeric = (above - below) / (2 * step)
            exact = J[row, :, 3 if column is None else column]
            assert np.linalg.norm(numeric - exact) <= 1e-6 * np.linalg.norm(J[row])


def test_logistic_jacobian_by_the_label_with_fractional_labels() -> None:
    """The formula by the label, refitted with a loss that accepts labels between 0 and 1."""
    case = make("logistic", 1, 30, 2)
    plain = fl.LOSSES["logistic"]
    anything = fl.Labels("anything", lambda y: y == y)
    relaxed = fl.Loss("relaxed", plain.value, plain.r, plain.a, plain.c, anything)
    case = Case(case.X, case.y, relaxed, case.l2, None, False)
    J = dense_jacobian(case, case.fit())
    for row in (0, 7):
        above, below = (parameters(moved(case, row, None, sign * 1e-4).fit()) for sign in (1, -1))
        np.testing.assert_allclose((above - below) / 2e-4, J[row, :, 2], rtol=1e-6)


# Hostile cases


def check_everything(case: Case) -> fl.Leakage:
    """All granularities of one case at the promised accuracies."""
    fit = case.fit()
    d = case.X.shape[1]
    leak = fl.measure(fit, case.X, case.y)
    for label in (True, False):
        J = dense_jacobian(case, fit, label=label)
        assert_relative(leak.per_example(label=label), norms(J), 1e-11)
        assert_relative(leak.of(label=label), np.linalg.norm(flat(J), 2), 1e-12)
    assert_relative(leak.per_cell(), np.linalg.norm(J[:, :, :d], axis=1), 1e-11)
    assert_relative(leak.per_attribute(), [np.linalg.norm(J[:, :, j].T, 2) for j in range(d)], 1e-12)
    for j in range(d):
        assert_relative(leak.per_example([j]), np.linalg.norm(J[:, :, j], axis=1), 1e-11)
    return leak


@pytest.mark.parametrize("intercept", [False, True])
def test_zero_residuals(intercept: bool) -> None:
    X = np.random.default_rng(0).integers(-3, 4, size=(20, 3)).astype(np.float64)
    case = Case(X, X @ np.array([1.0, -2.0, 0.5]), "squared", 0.0, None, intercept)
    fit = case.fit()
    J = dense_jacobian(case, fit)
    assert_relative(case.leak().per_example(), norms(J), 1e-11)
    assert_relative(case.leak().dataset(), np.linalg.norm(flat(J), 2), 1e-12)


def test_zero_curvature() -> None:
    case = make("logistic", 2, 40, 3)
    X = case.X.copy()
    X[:4] *= 3e3  # these rows are so certain that a underflows to zero
    case = Case(X, case.y, "logistic", 1e-2, None, False)
    fit = case.fit()
    assert (fit.loss.a(X @ fit.coef, case.y) == 0).any()
    check_everything(case)


def test_zero_parameters() -> None:
    X = np.array([[1.0, 2.0], [-1.0, -2.0], [2.0, -1.0], [-2.0, 1.0]])
    case = Case(X, np.array([3.0, 3.0, -1.0, -1.0]), "squared", 0.0, None, False)
    assert (case.fit().coef == 0).all()
    check_everything(case)
    check_everything(Case(X, np.zeros(4), "squared", 0.0, None, False))


def test_repeated_eigenvalues() -> None:
    X = np.vstack([np.eye(4), -np.eye(4), 2 * np.eye(4)])
    case = Case(X, np.random.default_rng(1).normal(size=12), "squared", 0.1, None, False)
    check_everything(case)


@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_one_feature(loss: str) -> None:
    check_everything(make(loss, 3, 30, 1))


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("exponent", range(-8, 9, 2))
def test_any_unit_of_x_and_y(loss: str, exponent: int) -> None:
    plain = check_everything(make(loss, 5, 40, 3, weighted=True))
    scaled = check_everything(make(loss, 5, 40, 3, weighted=True, scale=10.0**exponent))
    assert plain.n == scaled.n


@pytest.mark.parametrize("exponents", [(-8, 8), (8, -8), (-8, -8), (8, 8)])
def test_any_unit_of_x_and_of_y_apart(exponents: tuple[int, int]) -> None:
    case = make("squared", 6, 40, 3, l2=0.0)
    check_everything(Case(case.X * 10.0 ** exponents[0], case.y * 10.0 ** exponents[1], "squared", 0.0, None, False))


def test_rows_whose_top_root_is_below_the_top_pole() -> None:
    """In the basis of B E E^T B^T alone the top eigenvalue of many rows lies below the top pole r^2 s_max."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(200, 3)) * np.array([1.0, 0.7, 0.5])
    case = Case(X, X @ np.array([0.1, 0.0, 0.3]) + rng.normal(size=200), "squared", 0.0, None, False)
    fit = case.fit()
    J = dense_jacobian(case, fit, label=False)
    r = X @ fit.coef - case.y
    pole = np.abs(r) * np.linalg.norm(np.linalg.inv(X.T @ X), 2)
    assert np.mean(norms(J) < pole) > 0.2
    check_everything(case)


def test_zero_weights_leak_nothing_and_leave_no_trace() -> None:
    case = make("logistic", 8, 40, 3, weighted=True)
    assert case.weights is not None
    keep = case.weights > 0
    leak = case.leak()
    assert (np.asarray(leak.per_example())[~keep] == 0).all()
    assert (np.asarray(leak.per_cell())[~keep] == 0).all()
    # the penalty counts all n rows, so the rows left out keep their share of it
    share = case.l2 * 40 / keep.sum()
    without = Case(case.X[keep], case.y[keep], "logistic", share, case.weights[keep], False)
    assert_relative(without.leak().per_example(), np.asarray(leak.per_example())[keep], 1e-10)


def test_columns_in_very_different_units() -> None:
    case = make("squared", 9, 40, 4, l2=0.0)
    units = np.array([1e-8, 1e8, 1.0, 1e4])
    case = Case(case.X * units, case.y, "squared", 0.0, None, True)
    assert case.fit().condition < 1e3
    fit = case.fit()
    J = dense_jacobian(case, fit)
    assert_relative(case.leak().per_example(), norms(J), 1e-11)
    assert_relative(case.leak().per_cell(), np.linalg.norm(J[:, :, :4], axis=1), 1e-11)


def test_shaped_noise_and_noise_of_ones_own() -> None:
    """Other noise enters as a value: no code of its own."""
    case = make("logistic", 10, 40, 3, intercept=True)
    root = np.random.default_rng(0).normal(size=(4, 4))
    covariance = root @ root.T + np.eye(4)
    noise = fl.Gaussian(0.3, covariance)
    J = np.linalg.solve(np.linalg.cholesky(covariance), dense_jacobian(case, case.fit())) / 0.3
    leak = case.leak(noise)
    assert_relative(leak.per_example(), norms(J), 1e-11)
    assert_relative(leak.dataset(), np.linalg.norm(flat(J), 2), 1e-12)
    rng = np.random.default_rng(1)
    draws = np.stack([noise.draw(4, rng) for _ in range(20_000)])
    np.testing.assert_allclose(np.cov(draws.T), 0.09 * covariance, atol=0.03 * 0.09 * np.trace(covariance))


@pytest.mark.parametrize("elements", [7, 40, 10**6])
def test_any_block_size_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    case = make("poisson", 12, 50, 3, weighted=True, intercept=True)
    before = case.leak()
    monkeypatch.setattr("fisherleak.rows.memory.SMALLEST_BLOCK", 1)
    monkeypatch.setattr("fisherleak.rows.memory.BLOCK_ELEMENTS", elements)
    after = case.leak()
    assert_relative(after.per_example(), before.per_example(), 1e-11)
    assert_relative(after.per_cell(), before.per_cell(), 1e-11)
    assert_relative(after.dataset(), before.dataset(), 1e-11)
    assert_relative(after.of(np.arange(0, 50, 2), ["x1"]), before.of(np.arange(0, 50, 2), ["x1"]), 1e-11)


@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_order_between_granularities(loss: str) -> None:
    """A set leaks at least as much as any part of it, and at most the root of the sum of squares."""
    leak = make(loss, 13, 40, 3, weighted=True).leak()
    rows, cells = np.asarray(leak.per_example()), np.asarray(leak.per_cell())
    assert (rows[:, None] >= cells * (1 - 1e-12)).all()
    assert leak.dataset() >= rows.max() * (1 - 1e-12)
    assert leak.dataset() >= np.asarray(leak.per_attribute()).max() * (1 - 1e-12)
    assert leak.dataset() <= np.sqrt((rows**2).sum()) * (1 + 1e-12)
    np.testing.assert_allclose(rows, leak.with_noise(fl.Gaussian(0.1)).per_example() * 0.1, rtol=1e-14)


@settings(max_examples=40)
@given(settings=drawn, label=st.booleans())
def test_maps_of_their_own_for_every_row(settings: dict[str, Any], label: bool) -> None:
    """Preprocessing that is not affine: the derivative differs from row to row."""
    settings["d"] = max(settings["d"], 3)
    case = make(**settings)
    n, d = case.X.shape
    p = d + int(case.intercept)
    local = np.random.default_rng(1).normal(size=(n, 2, 1))
    attributes = [fl.Attribute("bent", [0, 2], local), fl.Attribute("plain", [1])]
    leak = case.leak(attributes=attributes)
    J = dense_jacobian(case, case.fit(), np.eye(p)[:, :d], label)
    bent = np.einsum("ipk,ikm->ipm", J[:, :, [0, 2]], local)
    everything = np.concatenate([bent, J[:, :, 1:2], J[:, :, 3:]], axis=2)
    assert_relative(leak.per_example(label=label), norms(everything), 1e-11)
    assert_relative(leak.per_example("bent"), norms(bent), 1e-11)
    assert_relative(leak.per_example("plain"), norms(J[:, :, 1:2]), 1e-11)
    assert_relative(leak.per_cell()[:, 0], norms(bent), 1e-11)
    assert_relative(leak.per_attribute()[0], np.linalg.norm(flat(bent), 2), 1e-12)
    assert_relative(leak.of(label=label), np.linalg.norm(flat(everything), 2), 1e-12)
    rows = [3, 1, 8]
    assert_relative(leak.of(rows, "bent"), np.linalg.norm(flat(bent[rows]), 2), 1e-12)
    F = flat(bent[rows])
    np.testing.assert_allclose(
        leak.fim(rows, "bent"), F.T @ F, rtol=1e-10, atol=1e-13 * float(np.linalg.norm(F, 2)) ** 2
    )
