"""Etas of several outputs are those of the dense Jacobian and of refits, for any rows, attributes, weights and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression

import fisherleak as fl
from fisherleak._support.arrays import host
from fisherleak.engine.information import StackedRows
from fisherleak.engine.norms import output_sets, several_outputs
from fisherleak.leakage.measurement import measurement
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train

CASES = [(K, intercept, weighted) for K in (2, 3, 10) for intercept in (False, True) for weighted in (False, True)]


def people(n: int, d: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    y = np.argmax(X @ rng.normal(size=(d, K)) + 2.0 * rng.gumbel(size=(n, K)), axis=1)
    y[:K] = np.arange(K)
    return X, y


def options(n: int, intercept: bool, weighted: bool, l2: float = 1e-2) -> dict[str, Any]:
    weights = np.random.default_rng(3).random(n) + 0.1 if weighted else None
    return {"l2": l2, "intercept": intercept, "sample_weight": weights}


def dense(fit: Any, X: Any, Y: Any) -> Any:
    """J of every example, (n, K p, d + K), in all K rows of parameters: classes have a pseudo-inverse of the Hessian."""
    n, d = X.shape
    K = fit.coef.shape[0]
    x = X if fit.intercept is None else np.column_stack([X, np.ones(n)])
    p = x.shape[1]
    W = fit.coef if fit.intercept is None else np.column_stack([fit.coef, fit.intercept])
    omega = np.ones(n) if fit.sample_weight is None else fit.sample_weight
    Z = x @ W.T
    if fit.loss.name == "softmax":
        P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
        R, A = P - Y, np.einsum("ik,kl->ikl", P, np.eye(K)) - np.einsum("ik,il->ikl", P, P)
    else:
        R, A = Z - Y, np.broadcast_to(np.eye(K), (n, K, K))
    H = np.einsum("i,ikl,ia,ib->kalb", omega, A, x, x).reshape(K * p, K * p)
    H += np.kron(np.eye(K), n * fit.l2 * np.diag(np.r_[np.ones(d), np.zeros(p - d)]))
    direct = np.einsum("i,ik,aj->ikaj", omega, R, np.eye(p)[:, :d])
    bent = np.einsum("i,ikl,lj,ia->ikaj", omega, A, W[:, :d], x)
    label = -np.einsum("i,kl,ia->ikal", omega, np.eye(K), x)
    inner = np.concatenate([direct + bent, label], axis=3).reshape(n, K * p, d + K)
    return -np.linalg.pinv(H, hermitian=True, rcond=1e-12) @ inner


def tangent(J: Any, d: int, K: int) -> Any:
    """Label columns moved where the sum of the one-hot vector stays."""
    centring = np.eye(K) - 1.0 / K
    return np.concatenate([J[:, :, :d], J[:, :, d:] @ centring], axis=2)


def singular(J: Any) -> Any:
    return np.linalg.norm(J, 2, axis=(1, 2))


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
def test_all_etas_are_those_of_the_dense_jacobian(K: int, intercept: bool, weighted: bool) -> None:
    X, y = people(50, 3, K)
    fit = fl.minimise(X, y, loss="softmax", **options(50, intercept, weighted))
    leak = fl.measure(fit, X, y, fl.Gaussian(0.5))
    J = 2.0 * tangent(dense(fit, X, np.eye(K)[y]), 3, K)
    close: Any = {"rtol": 1e-10, "atol": 0.0}
    np.testing.assert_allclose(leak.per_example(), singular(J), **close)
    np.testing.assert_allclose(leak.per_example([0, 2]), singular(J[:, :, [0, 2]]), **close)
    np.testing.assert_allclose(leak.per_label(), singular(J[:, :, 3:]), **close)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :3], axis=1), **close)
    np.testing.assert_allclose(leak.per_attribute(), [np.linalg.norm(J[:, :, j], 2) for j in range(3)], **close)
    every = np.concatenate(list(J), axis=1)
    assert leak.dataset() == pytest.approx(np.linalg.norm(every, 2), rel=1e-10)
    some = np.concatenate(list(J[[1, 4, 7], :, :2]), axis=1)
    assert leak.of([1, 4, 7], [0, 1]) == pytest.approx(np.linalg.norm(some, 2), rel=1e-10)
    for group, eta in leak.by_group(y).items():
        assert eta == pytest.approx(np.linalg.norm(np.concatenate(list(J[y == group]), axis=1), 2), rel=1e-10)
    # the label's own coordinates are another basis of the same directions
    values = np.linalg.eigvalsh(leak.fim([2, 5]))
    both = np.linalg.svd(np.concatenate([J[2], J[5]], axis=1), compute_uv=False) ** 2
    np.testing.assert_allclose(values[::-1][:3], both[:3], rtol=1e-9)


@pytest.mark.parametrize(("intercept", "weighted"), [(False, True), (True, False), (True, True)])
def test_several_numbers_are_those_of_the_dense_jacobian(intercept: bool, weighted: bool) -> None:
    X, _ = people(40, 3, 2)
    Y = np.random.default_rng(5).normal(size=(40, 4))
    fit = fl.minimise(X, Y, **options(40, intercept, weighted))
    leak, J = fl.measure(fit, X, Y), dense(fit, X, Y)
    np.testing.assert_allclose(leak.per_example(), singular(J), rtol=1e-10)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :3], axis=1), rtol=1e-10)
    assert leak.dataset() == pytest.approx(np.linalg.norm(np.concatenate(list(J), axis=1), 2), rel=1e-10)


def test_one_number_in_a_column_is_one_number() -> None:
    X, _ = people(40, 3, 2)
    y = np.random.default_rng(5).normal(size=40)
    Y = np.column_stack([y, np.zeros(40)])
    one = fl.measure(fl.minimise(X, y, l2=1e-2, intercept=True), X, y)
    two = fl.measure(fl.minimise(X, Y, l2=1e-2, intercept=True), X, Y)
    np.testing.assert_allclose(two.per_example(), one.per_example(), rtol=1e-12)
    assert two.of(attributes=[0]) == pytest.approx(one.of(attributes=[0]), rel=1e-12)


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
def test_columns_of_the_jacobian_are_moves_of_refits(K: int, intercept: bool, weighted: bool) -> None:
    X, y = people(50, 3, K)
    given = options(50, intercept, weighted)
    leak = fl.measure(fl.minimise(X, y, loss="softmax", **given), X, y)
    J = leak._information.written_out(leak._information.attributes, False, np.array([7]))[0]
    for j in range(3):
        moved = []
        for step in (1e-5, -1e-5):
            near = X.copy()
            near[7, j] += step
            moved.append(fl.minimise(near, y, loss="softmax", **given).theta)
        np.testing.assert_allclose(J[:, j], (moved[0] - moved[1]) / 2e-5, atol=1e-5 * np.abs(J).max())


def of_scikit_learn(model: Any, X: Any, y: Any, weights: Any) -> Any:
    """All parameters of a model fitted there; of two classes, whose loss is the binary one, half of them with either sign."""
    model.fit(X, y, weights)
    signs = np.array([[-0.5], [0.5]]) if model.coef_.shape[0] == 1 else np.eye(model.coef_.shape[0])
    coef, level = signs @ model.coef_, signs @ np.reshape(model.intercept_, (model.coef_.shape[0], -1))
    return np.append(coef, level) if model.fit_intercept else coef.reshape(-1)


@pytest.mark.parametrize(("K", "intercept", "weighted"), CASES)
def test_columns_of_the_jacobian_are_moves_of_scikit_learns_refits(K: int, intercept: bool, weighted: bool) -> None:
    """Two classes are the binary loss there, at half the penalty."""
    X, y = people(60, 2, K)
    given = options(60, intercept, weighted, 1 / 60)
    C = 2.0 if K == 2 else 1.0
    model = LogisticRegression(C=C, solver="newton-cg", tol=1e-13, max_iter=1000, fit_intercept=intercept)
    leak = fl.measure(fl.minimise(X, y, loss="softmax", **given), X, y)
    J = leak._information.written_out(leak._information.attributes, False, np.array([11]))[0]
    moved = []
    for step in (1e-4, -1e-4):
        near = X.copy()
        near[11, 1] += step
        moved.append(of_scikit_learn(model, near, y, given.get("sample_weight")))
    np.testing.assert_allclose(J[:, 1], (moved[0] - moved[1]) / 2e-4, atol=1e-5 * np.abs(J).max())


@pytest.mark.parametrize("K", [3, 10])
def test_a_class_of_one_row_agrees_with_the_dense_jacobian_and_with_refits(K: int) -> None:
    X, y = people(50, 2, K)
    y[y == K - 1] = 0
    y[20] = K - 1
    given = options(50, True, False)
    fit = fl.minimise(X, y, loss="softmax", **given)
    leak = fl.measure(fit, X, y)
    J = tangent(dense(fit, X, np.eye(K)[y]), 2, K)
    np.testing.assert_allclose(leak.per_example(), singular(J), rtol=1e-10)
    written = leak._information.written_out(leak._information.attributes, False, np.array([20]))[0]
    moved = []
    for step in (1e-5, -1e-5):
        near = X.copy()
        near[20, 0] += step
        moved.append(fl.minimise(near, y, loss="softmax", **given).theta)
    np.testing.assert_allclose(written[:, 0], (moved[0] - moved[1]) / 2e-5, atol=1e-5 * np.abs(written).max())


def test_a_label_moves_as_refits_with_shared_labels_do() -> None:
    """A row that is a little of another class is two rows of the same features with these weights."""
    X, y = people(40, 2, 3)
    given: Any = {"loss": "softmax", "intercept": True}
    leak: Any = fl.measure(fl.minimise(X, y, l2=1e-2, **given), X, y)
    h, other = 1e-5, (int(y[9]) + 1) % 3
    doubled, labels = np.vstack([X, X[9:10]]), np.append(y, other)
    weights = np.append(np.ones(40), h)
    weights[9] -= h
    moved = fl.minimise(doubled, labels, l2=1e-2 * 40 / 41, sample_weight=weights, **given).theta
    base = fl.minimise(X, y, l2=1e-2, **given).theta
    rate = np.linalg.norm(moved - base) / (h * np.sqrt(2.0))
    basis = leak._information.releases[0].jacobian.by_label
    assert basis.shape == (2, 2)
    assert rate <= leak.per_label()[9] * (1 + 1e-4)
    J = leak._information.written_out((), True, np.array([9]))[0]
    Q = leak._information.releases[0].jacobian.fit.frame
    change = Q.T @ (np.eye(3)[other] - np.eye(3)[y[9]])
    np.testing.assert_allclose(J @ change, (moved - base) / h, atol=1e-4 * np.abs(J).max())


def test_two_classes_are_the_logistic_loss_at_half_the_penalty() -> None:
    X, y = people(60, 3, 2)
    for intercept in (False, True):
        two = fl.measure(fl.minimise(X, y, loss="softmax", l2=2e-2, intercept=intercept), X, y)
        one = fl.measure(fl.minimise(X, y, loss="logistic", l2=1e-2, intercept=intercept), X, y)
        np.testing.assert_allclose(
            two.per_example(label=False), one.per_example(label=False) / np.sqrt(2.0), rtol=1e-10
        )
        np.testing.assert_allclose(two.per_cell(), one.per_cell() / np.sqrt(2.0), rtol=1e-10)
        np.testing.assert_allclose(two.per_label(), one.per_label() / 2.0, rtol=1e-10)
        np.testing.assert_allclose(two.per_attribute(), one.per_attribute() / np.sqrt(2.0), rtol=1e-10)


@pytest.mark.parametrize(("K", "intercept", "weighted"), [(2, True, True), (3, False, False), (10, True, True)])
def test_blocks_of_columns_and_maps_that_differ_by_row(K: int, intercept: bool, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    levels = np.eye(3)[rng.integers(0, 3, 60)]
    X = np.column_stack([rng.normal(size=60), levels])
    y = people(60, 2, K)[1]
    fit = fl.minimise(X, y, loss="softmax", **options(60, intercept, weighted))
    block = fl.Attribute.one_hot("level", [1, 2, 3])
    leak = fl.measure(fit, X, y, attributes=[block])
    J = tangent(dense(fit, X, np.eye(K)[y]), 4, K)
    E = np.zeros((4 + K, 3 + K))
    E[1:4, :2], E[0, 2], E[4:, 3:] = fl.Attribute.one_hot("x", [0, 1, 2]).directions, 1.0, np.eye(K)
    moved = J @ E
    assert leak.attributes == ["level", "x0"]
    np.testing.assert_allclose(leak.per_example(), singular(moved), rtol=1e-10)
    np.testing.assert_allclose(leak.per_cell()[:, 0], singular(moved[:, :, :2]), rtol=1e-10)
    assert leak.per_attribute()[0] == pytest.approx(
        np.linalg.norm(np.concatenate(list(moved[:, :, :2]), 1), 2), rel=1e-10
    )
    own: Any = fl.Attribute("x", [0], rng.normal(size=(60, 1, 1)))
    uneven = fl.measure(fit, X, y, attributes=[own])
    by_row = np.abs(own.directions[:, 0, 0])
    np.testing.assert_allclose(uneven.per_cell()[:, 0], by_row * np.linalg.norm(J[:, :, 0], axis=1), rtol=1e-10)
    scaled = J.copy()
    scaled[:, :, 0] *= own.directions[:, :, 0]
    np.testing.assert_allclose(uneven.per_example(), singular(scaled), rtol=1e-10)
    assert uneven.dataset() == pytest.approx(np.linalg.norm(np.concatenate(list(scaled), axis=1), 2), rel=1e-10)


def test_the_same_for_any_size_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = people(700, 3, 4)
    given = options(700, True, True)
    whole = fl.measure(fl.minimise(X, y, loss="softmax", **given), X, y)
    whole_numbers = (whole.per_example(), whole.per_cell(), whole.per_attribute(), whole.dataset())
    monkeypatch.setattr("fisherleak.rows.memory.BLOCK_ELEMENTS", 500)
    parts = fl.measure(fl.minimise(X, y, loss="softmax", **given), X, y)
    for one, other in zip(
        whole_numbers, (parts.per_example(), parts.per_cell(), parts.per_attribute(), parts.dataset()), strict=True
    ):
        np.testing.assert_allclose(other, one, rtol=1e-11)


def test_the_same_on_every_backend(to_rows: Callable[[Any], Any]) -> None:
    X, y = people(60, 3, 3)
    weights = np.random.default_rng(1).random(60) + 0.1
    here = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2, sample_weight=weights, intercept=True), X, y)
    x, labels = to_rows(X), to_rows(y)
    fit = fl.minimise(x, labels, loss="softmax", l2=1e-2, sample_weight=to_rows(weights), intercept=True)
    there = fl.measure(fit, x, labels)
    computed = [there.per_example(), there.per_cell(), there.per_label()]
    computed = [value.compute() if hasattr(value, "compute") else host(value) for value in computed]
    for value, wanted in zip(computed, [here.per_example(), here.per_cell(), here.per_label()], strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-10)
    np.testing.assert_allclose(host(there.per_attribute()), here.per_attribute(), rtol=1e-10)
    assert there.dataset() == pytest.approx(here.dataset(), rel=1e-10)
    groups = there.by_group(np.repeat([0, 1], 30))
    assert groups == pytest.approx(here.by_group(np.repeat([0, 1], 30)), rel=1e-10)
    both, wanted_both = fl.compose(there, there), fl.compose(here, here)
    assert both.dataset() == pytest.approx(wanted_both.dataset(), rel=1e-10)
    np.testing.assert_allclose(host(both.per_attribute()), wanted_both.per_attribute(), rtol=1e-10)


def test_the_largest_eta_is_certified_from_above() -> None:
    X, y = people(80, 5, 4)
    leak = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True), X, y)
    eta = leak.per_example()
    row = int(np.argmax(eta))
    information = leak._information
    true = np.linalg.norm(information.written_out(information.attributes, True, np.array([row]))[0], 2)
    assert true <= information.certain(information.attributes, True, row, float(eta[row])) <= true * (1 + 1e-9)
    assert information.certain(information.attributes, True, row, 0.5 * float(eta[row])) >= true
    noise = fl.calibrate(leak, eta=0.1)
    assert 0.1 * (1 - 1e-9) <= leak.with_noise(noise).per_example().max() <= 0.1
    for over, extra in (("mean", {}), ("dataset", {}), ("group", {"groups": y})):
        quiet = leak.with_noise(fl.calibrate(leak, eta=0.2, over=over, **extra))
        reached = {
            "mean": quiet.per_example().mean(),
            "dataset": quiet.dataset(),
            "group": max(quiet.by_group(y).values()),
        }
        assert 0.2 * (1 - 1e-8) <= reached[over] <= 0.2


@pytest.mark.parametrize("K", [2, 3, 10])
def test_what_is_calibrated_holds_for_the_dense_jacobian(K: int) -> None:
    X, y = people(60, 3, K)
    fit = fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True)
    leak, J = fl.measure(fit, X, y), tangent(dense(fit, X, np.eye(K)[y]), 3, K)

    def together(rows: Any) -> float:
        return float(np.linalg.norm(np.concatenate(list(J[rows]), axis=1), 2))

    true: list[tuple[dict[str, Any], float]] = [
        ({}, float(singular(J).max())),
        ({"attributes": [1]}, float(np.linalg.norm(J[:, :, 1], axis=1).max())),
        ({"attributes": [0, 2]}, float(singular(J[:, :, [0, 2]]).max())),
        ({"over": "dataset"}, together(slice(None))),
        ({"over": "group", "groups": y}, max(together(y == k) for k in range(K))),
    ]
    for asked, largest in true:
        scale = fl.calibrate(leak, eta=0.2, **asked).scale
        # never below, but for the rounding of the reference itself
        assert largest * (1 - 1e-13) <= 0.2 * scale <= largest * (1 + 1e-8)


def test_noise_with_a_shape_acts_on_coefficients_then_intercepts() -> None:
    X, y = people(50, 2, 3)
    fit = fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True)
    variances = np.random.default_rng(0).random(9) + 0.5
    leak = fl.measure(fit, X, y, fl.Gaussian(1.0, np.diag(variances)))
    J = tangent(dense(fit, X, np.eye(3)[y]), 2, 3)
    # of the dense Jacobian's rows, each class has its intercept beside its coefficients
    order = [0, 1, 3, 4, 6, 7, 2, 5, 8]
    np.testing.assert_allclose(
        leak.per_example(), singular(J[:, order, :] / np.sqrt(variances)[None, :, None]), rtol=1e-10
    )
    noisy = fl.release(fit, fl.Gaussian(1e-9), random_state=0)
    assert noisy.coef.shape == (3, 2)
    assert np.abs(noisy.coef - fit.coef).max() <= 1e-7
    assert np.abs(noisy.intercept - fit.intercept).max() <= 1e-7


def test_rows_without_weight_and_duplicates() -> None:
    X, y = people(40, 3, 3)
    weights = np.ones(40)
    weights[5] = 0.0
    leak = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2, sample_weight=weights), X, y)
    assert leak.per_example()[5] == 0.0
    assert not leak.per_cell()[5].any()
    twice = fl.measure(
        fl.minimise(np.vstack([X, X]), np.append(y, y), loss="softmax", l2=1e-2), np.vstack([X, X]), np.append(y, y)
    )
    np.testing.assert_allclose(twice.per_example()[:40], twice.per_example()[40:], rtol=1e-12)


@pytest.mark.parametrize("K", [2, 3, 10])
def test_duplicates_agree_with_the_dense_jacobian(K: int) -> None:
    X, y = people(30, 3, K)
    X, y = np.vstack([X, X[:20], X[:1]]), np.concatenate([y, y[:20], [(y[0] + 1) % K]])
    fit = fl.minimise(X, y, loss="softmax", l2=1e-2, intercept=True)
    J = tangent(dense(fit, X, np.eye(K)[y]), 3, K)
    leak = fl.measure(fit, X, y)
    np.testing.assert_allclose(leak.per_example(), singular(J), rtol=1e-10)
    assert leak.of([0, 30, 50]) == pytest.approx(
        np.linalg.norm(np.concatenate(list(J[[0, 30, 50]]), axis=1), 2), rel=1e-10
    )


def test_residuals_of_zero_leave_the_bend_alone() -> None:
    X, _ = people(30, 2, 2)
    Y = X @ np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
    fit = fl.minimise(X, Y)
    leak = fl.measure(fit, X, Y)
    np.testing.assert_allclose(leak.per_example(), singular(dense(fit, X, Y)), rtol=1e-12)


def test_cells_that_cancel_keep_their_digits() -> None:
    """A cell whose two effects cancel to a millionth, in one row."""
    X, _ = people(30, 2, 2)
    Y = np.random.default_rng(0).normal(size=(30, 2))
    fit: Any = fl.minimise(X, Y, l2=1e-2)
    J = dense(fit, X, Y)
    E = np.linalg.svd(J[4][:, :2])[2][-1]
    odd = fl.Attribute("odd", [0, 1], E[:, None])
    leak = fl.measure(fit, X, Y, attributes=[odd])
    np.testing.assert_allclose(leak.per_cell()[:, 0], np.linalg.norm(J[:, :, :2] @ E, axis=1), rtol=1e-9)


@pytest.mark.parametrize(
    ("K", "apart", "l2", "within"),
    # one wrong row of each class, or none; the written-out reference itself loses digits where the penalty is least
    [
        (3, False, 1e-6, 1e-9),
        (3, False, 1e-9, 1e-8),
        (2, True, 1e-5, 1e-9),
        (3, True, 1e-5, 1e-9),
        (10, True, 1e-4, 1e-9),
    ],
)
def test_nearly_separated_classes_agree_with_the_dense_jacobian_and_refits(
    K: int, apart: bool, l2: float, within: float
) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(6.0 * np.column_stack([np.arange(K), np.arange(K) ** 2 / K]), 20, axis=0)
    X, y = X + rng.normal(size=X.shape), np.repeat(np.arange(K), 20)
    if not apart:
        y[::20] = (np.arange(K) + 1) % K
    given: Any = {"loss": "softmax", "l2": l2, "intercept": True}
    fit = fl.minimise(X, y, **given)
    leak = fl.measure(fit, X, y)
    np.testing.assert_allclose(leak.per_example(), singular(tangent(dense(fit, X, np.eye(K)[y]), 2, K)), rtol=within)
    row = int(np.argmax(leak.per_cell()[:, 0]))
    J = leak._information.written_out(leak._information.attributes, False, np.array([row]))[0]
    moved = []
    for step in (1e-4, -1e-4):
        near = X.copy()
        near[row, 0] += step
        moved.append(fl.minimise(near, y, **given).theta)
    np.testing.assert_allclose(J[:, 0], (moved[0] - moved[1]) / 2e-4, atol=1e-5 * np.abs(J).max())


def test_other_data_are_refused() -> None:
    X, y = people(50, 3, 3)
    fit = fl.minimise(X, y, loss="softmax", l2=1e-2)
    with pytest.raises(fl.InvalidInputError, match="not at a minimum"):
        fl.measure(fit, X, (y + 1) % 3)
    with pytest.raises(fl.InvalidInputError, match="none of the model's classes"):
        fl.measure(fit, X, np.where(y == 2, 7, y))
    with pytest.raises(fl.InvalidInputError, match="50 rows and 3 columns"):
        fl.measure(fit, X[:, :2], y)
    several = fl.minimise(X, np.column_stack([y, y]).astype(float), l2=1e-2)
    with pytest.raises(fl.InvalidInputError, match="2 outputs in y"):
        fl.measure(several, X, np.column_stack([y, y, y]).astype(float))


def test_what_reads_one_output_refuses_several_by_name() -> None:
    X, y = people(50, 3, 3)
    fit = fl.minimise(X, y, loss="softmax", l2=1e-2)
    leak = fl.measure(fit, X, y)
    doors: dict[str, Callable[[], Any]] = {
        "compose": lambda: fl.compose(leak, fl.measure(fl.minimise(X, y > 0, loss="logistic", l2=1e-2), X, y > 0)),
        "counted": lambda: fl.counted(leak, 1.0),
    }
    for name, door in doors.items():
        with pytest.raises(fl.UnsupportedModelError, match=name) as refusal:
            door()
        assert "3 classes" in str(refusal.value) or name == "compose"
    with pytest.raises(fl.UnsupportedModelError, match="several outputs"):
        assert leak._information.jacobians
    assert fl.compose(leak) is leak


def test_the_digest_says_what_it_is_about() -> None:
    X, y = people(50, 3, 3)
    leak = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-2), X, y)
    assert "softmax" in leak.summary()
    assert "an attacker is correct at most" in leak.summary()
    assert list(leak.to_frame().columns) == ["eta", "eta[x0]", "eta[x1]", "eta[x2]", "eta_label", "membership"]


def with_gaps(n: int, K: int) -> Any:
    """A table as it is audited: some numbers and categories are missing, and scales follow from the rows."""
    rng = np.random.default_rng(6)
    X, y = people(n, 4, K)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[5, :3] = np.nan
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(town=np.array(["u", "v", "w"])[np.arange(n) % 3])
    frame.loc[[3, 17, 25], "town"] = None
    frame["kind"] = np.array(["one", "two", "three", "four"])[y]
    return train(from_frame(frame), Settings("kind", held_out=0.0)).leak


@pytest.mark.parametrize("many", [True, False])
def test_rows_that_lack_a_value_are_those_of_the_dense_jacobian(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without writing a row out, by any of the ways to a column."""
    monkeypatch.setattr(output_sets, "MANY_PARAMETERS", 0 if many else 10**9)
    leak = with_gaps(40, 3)
    information = measurement(leak).information
    J = information.written_out(information.attributes, True, None) / float(leak.noise.scale)
    assert (leak.per_cell() == 0.0).any()
    assert {len(attribute.columns) for attribute in information.attributes if attribute.gaps} == {1, 2}

    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(StackedRows, "__call__", never)
    np.testing.assert_allclose(leak.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-9)
    starts = np.cumsum([0, *(attribute.size for attribute in information.attributes)])
    for k in range(len(information.attributes)):
        own = J[:, :, starts[k] : starts[k + 1]]
        np.testing.assert_allclose(leak.per_cell()[:, k], np.linalg.norm(own, 2, axis=(1, 2)), rtol=1e-8)
        whole = np.linalg.norm(np.moveaxis(own, 1, 0).reshape(own.shape[1], -1), 2)
        assert leak.per_attribute()[k] == pytest.approx(whole, rel=1e-9)
    groups = np.arange(40) % 3
    for group, eta in leak.by_group(groups).items():
        some = J[groups == int(group)]
        assert eta == pytest.approx(np.linalg.norm(np.moveaxis(some, 1, 0).reshape(some.shape[1], -1), 2), rel=1e-9)


@pytest.mark.parametrize("again", [False, True])
def test_rows_that_lack_a_value_in_two_releases(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where terms cancel, each set of attributes is computed again from what its own rows have."""
    leak = with_gaps(40, 3)
    both = fl.compose(leak, leak.with_noise(fl.Gaussian(2.0 * float(leak.noise.scale))))
    information = measurement(both).information
    J = information.written_out(information.attributes, True, None)
    if again:
        monkeypatch.setattr(several_outputs, "CANCELLED", 1e9)
    else:
        monkeypatch.setattr(StackedRows, "again", lambda self, rows, left, squares: pytest.fail("written out"))
    np.testing.assert_allclose(both.per_example(), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-9)
    np.testing.assert_allclose(both.per_example(), leak.per_example() * 1.25**0.5, rtol=1e-9)
    starts = np.cumsum([0, *(attribute.size for attribute in information.attributes)])
    for k in range(len(information.attributes)):
        own = np.linalg.norm(J[:, :, starts[k] : starts[k + 1]], 2, axis=(1, 2))
        np.testing.assert_allclose(both.per_cell()[:, k], own, rtol=1e-8)
