"""The bound on the worst admissible row of a model of several classes: no refitted row is above it, and it tightens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.norms import one_release
from fisherleak.errors import InvalidInputError, UnsupportedModelError
from fisherleak.protection.admissible import certified, worst_admissible
from fisherleak.protection.ascent import eta_in_place


def rows(n: int, K: int, seed: int, d: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(n, d)), -2.0, 2.0)
    scores = X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))
    return X, scores.argmax(axis=1)


def box(d: int) -> dict[str, tuple[float, float]]:
    return {f"x{j}": (-2.0, 2.0) for j in range(d)}


def tried(leak: fl.Leakage, K: int, seed: int, count: int) -> float:
    """The largest eta of admissible rows in place of present ones, corners and others, each in its own refit."""
    rng = np.random.default_rng(seed)
    jacobian = one_release(leak._information)
    n, d = jacobian.X.shape
    found = 0.0
    for _ in range(count):
        inside = rng.uniform(-2.0, 2.0, d)
        x = np.where(rng.random(d) < 0.7, np.sign(inside) * 2.0, inside)
        put = (int(rng.integers(n)), x, float(rng.integers(K)))
        found = max(found, eta_in_place(jacobian, leak._chosen(None, None)[0], True, *put))
    return found


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("intercept", [False, True])
def test_no_row_is_above_the_bound(K: int, intercept: bool) -> None:
    X, y = rows(120, K, seed=K)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 120) if intercept else None
    fit = fl.minimise(X, y, loss="softmax", l2=0.3, sample_weight=weights, intercept=intercept)
    leak = fl.measure(fit, X, y, sample_weight=weights)
    above = certified(leak, box(2)).upper
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
    above = certified(leak, box(2)).upper
    assert np.isfinite(above)
    assert tried(leak, 3, seed=8, count=40) <= above


def test_the_bound_closes_in_on_the_search_as_rows_grow() -> None:
    ratios = []
    for n in (500, 2000):
        X, y = rows(n, 3, seed=2)
        worst = worst_admissible(fl.measure(fl.minimise(X, y, loss="softmax", l2=0.1, intercept=True), X, y), box(2))
        assert worst.present <= worst.lower <= worst.upper
        ratios.append(worst.upper / worst.lower)
    assert ratios[1] < ratios[0] < 5
    assert ratios[1] < 3


def test_calibrated_to_whoever_could_be_there() -> None:
    X, y = rows(500, 3, seed=3)
    names = np.array(["a", "b", "c"])[y]
    leak = fl.measure(fl.minimise(X, names, loss="softmax", l2=0.1, intercept=True), X, names)
    noise = fl.calibrate(leak, eta=0.5, over="admissible", bounds=box(2), random_state=0)
    assert float(leak.with_noise(noise).per_example().max()) <= 0.5
    told: Any = getattr(noise, "calibrated", None)
    assert told.bounds["label"] == {"classes": 3, "from": "declared"}
    assert told.probability == 1.0
    assert told.confidential.lower <= told.confidential.upper <= noise.scale * 0.5 * (1 + 1e-9)
    assert 0.5 * noise.scale <= 2**0.25 * told.confidential.upper * (1 + 1e-9)
    cells = fl.calibrate(leak, eta=0.5, over="admissible", attributes=["x0"], bounds=box(2), random_state=0)
    assert cells.scale < noise.scale


def test_what_has_no_bound_is_refused() -> None:
    X, y = rows(40, 3, seed=5)
    few = fl.measure(fl.minimise(X, y, loss="softmax", l2=1e-3, intercept=True), X, y)
    with pytest.raises(InvalidInputError, match=r"No useful bound .* larger l2 or more rows, or `over='max'`"):
        fl.calibrate(few, eta=1.0, over="admissible", bounds=box(2))
    with pytest.raises(InvalidInputError, match="are the classes"):
        fl.calibrate(few, eta=1.0, over="admissible", bounds={"label": (0, 2)})
    Y = np.column_stack([y, -y]).astype(float)
    numbers = fl.measure(fl.minimise(X, Y, l2=0.1), X, Y)
    with pytest.raises(UnsupportedModelError, match="admissible"):
        fl.calibrate(numbers, eta=1.0, over="admissible", bounds=box(2))
    with pytest.raises(InvalidInputError, match="shape='hessian'"):
        fl.calibrate(few, eta=1.0, over="admissible", bounds=box(2), shape="hessian")
