"""The bound on the worst record within the bounds of a model of several classes: no refitted row is above it, and it tightens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.protection.certificates.exchange import exchange_in
from fisherleak.protection.certificates.softmax_certificate import followed, largest_sum
from fisherleak.protection.certificates.softmax_penalty_bound import columns_of, exchanged_scales
from fisherleak.protection.certificates.worst_record import certified, eta_in_place, worst_record
from often import often


def rows(n: int, K: int, seed: int, d: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(n, d)), -2.0, 2.0)
    scores = X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))
    return X, scores.argmax(axis=1)


def box(d: int) -> dict[str, tuple[float, float]]:
    return {f"x{j}": (-2.0, 2.0) for j in range(d)}


def tried(leak: fl.Leakage, K: int, seed: int, count: int) -> float:
    """The largest eta of records within the bounds in place of present ones, corners and others, each in its own refit."""
    rng = np.random.default_rng(seed)
    n, d = one_release(leak._information).X.shape
    exchange, found = exchange_in(leak, box(d)), 0.0
    for _ in range(count):
        inside = rng.uniform(-2.0, 2.0, d)
        x = np.where(rng.random(d) < 0.7, np.sign(inside) * 2.0, inside)
        put = (int(rng.integers(n)), x, float(rng.integers(K)))
        found = max(found, eta_in_place(exchange, *put))
    return found


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("intercept", often([True, False]))
def test_no_row_is_above_the_bound(K: int, intercept: bool) -> None:
    X, y = rows(120, K, seed=K)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 120) if intercept else None
    fit = fl.minimise(X, y, loss="softmax", l2=0.3, sample_weight=weights, intercept=intercept)
    leak = fl.measure(fit, X, y, sample_weight=weights)
    above = certified(exchange_in(leak, box(2))).upper
    assert np.isfinite(above)
    assert tried(leak, K, seed=7, count=60) <= above
    assert float(np.max(leak.per_example())) <= above


def test_no_row_is_above_the_bound_with_folded_scales() -> None:
    pandas = pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = rows(400, 3, seed=4)
    frame = pandas.DataFrame(X, columns=["x0", "x1"])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (400 * 0.2), tol=1e-10, max_iter=1000)).fit(
        frame, y
    )
    leak = fl.measure(model, frame, y, public="nothing")
    above = certified(exchange_in(leak, box(2))).upper
    assert np.isfinite(above)
    assert tried(leak, 3, seed=8, count=40) <= above


@pytest.mark.long
def test_the_bound_closes_in_on_the_search_as_rows_grow() -> None:
    ratios = []
    for n in (500, 2000):
        X, y = rows(n, 3, seed=2)
        worst = worst_record(
            exchange_in(fl.measure(fl.minimise(X, y, loss="softmax", l2=0.1, intercept=True), X, y), box(2))
        )
        assert worst.present <= worst.lower <= worst.upper
        ratios.append(worst.upper / worst.lower)
    assert ratios[1] < ratios[0] < 5
    assert ratios[1] < 3


def test_calibrated_to_whoever_could_be_there() -> None:
    X, y = rows(500, 3, seed=3)
    names = np.array(["a", "b", "c"])[y]
    leak = fl.measure(fl.minimise(X, names, loss="softmax", l2=0.1, intercept=True), X, names)
    noise = fl.calibrate(leak, eta=0.5, over="any-record", bounds=box(2), random_state=0)
    assert float(leak.with_noise(noise).per_example().max()) <= 0.5
    told: Any = getattr(noise, "calibrated", None)
    assert told.bounds["label"] == {"classes": 3, "from": "declared"}
    assert told.probability == 1.0
    assert told.confidential.lower <= told.confidential.upper <= noise.scale * 0.5 * (1 + 1e-9)
    assert 0.5 * noise.scale <= 2**0.25 * told.confidential.upper * (1 + 1e-9)
    cells = fl.calibrate(leak, eta=0.5, over="any-record", attributes=["x0"], bounds=box(2), random_state=0)
    assert cells.scale < noise.scale


def test_what_has_no_bound_is_refused() -> None:
    X, y = rows(40, 3, seed=5)
    few = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-3, intercept=True), X, y)
    with pytest.raises(InvalidInputError, match=r"No useful bound .* larger l2 or more rows, or `over='max'`"):
        fl.calibrate(few, eta=1.0, over="any-record", bounds=box(2))
    with pytest.raises(InvalidInputError, match="are its classes"):
        fl.calibrate(few, eta=1.0, over="any-record", bounds={"label": (0, 2)})
    Y = np.column_stack([y, -y]).astype(float)
    numbers = fl.measure(fl.minimise(X, Y, l2=0.1), X, Y)
    with pytest.raises(UnsupportedModelError, match="any-record"):
        fl.calibrate(numbers, eta=1.0, over="any-record", bounds=box(2))
    with pytest.raises(InvalidInputError, match="shape='hessian'"):
        fl.calibrate(few, eta=1.0, over="any-record", bounds=box(2), shape="hessian")


@pytest.mark.parametrize("weighted", [False, True])
def test_few_rows_and_a_weak_penalty_are_followed(weighted: bool) -> None:
    """Rows that move the model a long way: no refit is above the bound, and it is no more than some times the worst."""
    X, y = rows(150, 3, seed=11, d=4)
    weights = np.random.default_rng(2).uniform(0.7, 1.3, 150) if weighted else None
    fit = fl.minimise(X, y, loss="softmax", l2=0.05, sample_weight=weights, intercept=True)
    leak = fl.measure(fit, X, y, sample_weight=weights)
    above, found = certified(exchange_in(leak, box(4))).upper, tried(leak, 3, seed=9, count=60)
    assert found <= above <= 20 * found


def test_curvature_and_moves_are_within_what_was_followed() -> None:
    X, y = rows(120, 3, seed=12)
    fit: Any = fl.minimise(X, y, loss="softmax", l2=0.1, intercept=True)
    leak = fl.measure(fit, X, y)
    exchange, scales = exchange_in(leak, box(2)), exchanged_scales(one_release(leak._information))
    found = followed(exchange, scales, columns_of(exchange.allowed, scales))
    assert found is not None
    rng = np.random.default_rng(3)
    for _ in range(25):
        changed, labels, row = X.copy(), y.copy(), int(rng.integers(120))
        changed[row], labels[row] = 2.0 * np.sign(rng.normal(size=2)), rng.integers(3)
        other: Any = fl.minimise(changed, labels, loss="softmax", l2=0.1, intercept=True)
        # the same parameters for rows less the old centre
        V, moved = (np.reshape(np.asarray(each.centred_theta), (2, 3)) for each in (fit, other))
        moved = np.column_stack([moved[:, :2], moved[:, 2] + moved[:, :2] @ (_centre(fit) - _centre(other))])
        way = np.linalg.solve(found.root.T, (moved - V).reshape(-1))
        assert np.linalg.norm(way) <= found.move
        x = np.column_stack([changed - _centre(fit), np.ones(120)])
        z = x @ moved.T @ np.asarray(fit.frame).T
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        A = np.einsum("nk,kl->nkl", p, np.eye(3)) - p[:, :, None] * p[:, None, :]
        inner = np.einsum("kl,nkm,mo->nlo", fit.frame, A, fit.frame)
        H = np.einsum("nlo,np,nq->lpoq", inner, x, x).reshape(6, 6) + np.diag(np.tile([12.0, 12.0, 0.0], 2))
        between = np.linalg.eigvalsh(np.linalg.inv(found.root @ H @ found.root.T))
        assert found.low <= between[0]
        assert between[-1] <= 1.0


def _centre(fit: Any) -> Any:
    return np.zeros(2) if fit.centre is None else np.asarray(fit.centre)


def test_sums_of_columns_are_below_their_bound() -> None:
    rng = np.random.default_rng(4)
    few, many = rng.normal(size=(5, 6)), rng.normal(size=(30, 14)) * 10.0 ** rng.uniform(-2, 1, 14)
    signs = np.sign(rng.normal(size=(4000, 14)))
    assert np.linalg.norm(few @ signs[:, :6].T, axis=0).max() == pytest.approx(largest_sum(few), rel=1e-12)
    best = np.linalg.norm(many @ signs.T, axis=0).max()
    assert best <= largest_sum(many) <= 1.5 * best
