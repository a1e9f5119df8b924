"""Compositions with noise that the data shape: information adds up, at every granularity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import make
from copies import copies
from fisherleak.engine.fit.minimise import one_by_one

Vector = NDArray[np.float64]
CASE = make("squared", n=12, weighted=True, intercept=True, l2=0.05)
WAYS: dict[str, Any] = {
    "Posterior": fl.Posterior(0.3),
    "ObjectivePerturbation": fl.ObjectivePerturbation(1.7),
    "Gaussian": fl.Gaussian(0.4),
    "Laplace": fl.Laplace(0.7),
    "Answers": fl.Answers(np.random.default_rng(7).normal(size=(6, 3)), fl.Gaussian(0.3)),
}
PAIRS = [(one, two) for one in list(WAYS)[:2] for two in WAYS]


def top(F: Vector) -> float:
    return float(np.sqrt(np.linalg.eigvalsh(F)[-1]))


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_information_adds_up(one: str, two: str) -> None:
    """Against the sums of the releases' own matrices."""
    parts = [CASE.leak(WAYS[one]), CASE.leak(WAYS[two])]
    for order in (parts, parts[::-1]):
        both = fl.compose(*order)
        F = sum(np.asarray(part.fim()) for part in parts)
        blocks = np.asarray(F).reshape(12, 4, 12, 4)
        single = np.stack([blocks[i, :, i, :] for i in range(12)])
        np.testing.assert_allclose(both.fim(), F, rtol=1e-9, atol=1e-10 * np.abs(F).max())
        np.testing.assert_allclose(both.per_example(), [top(f) for f in single], rtol=1e-9)
        np.testing.assert_allclose(both.per_example(["x1", "x2"]), [top(f[1:3, 1:3]) for f in single], rtol=1e-9)
        np.testing.assert_allclose(both.per_label(), np.sqrt(single[:, 3, 3]), rtol=1e-9)
        np.testing.assert_allclose(both.per_cell(), np.sqrt(single[:, [0, 1, 2], [0, 1, 2]]), rtol=1e-9)
        np.testing.assert_allclose(both.per_attribute(), [top(blocks[:, j, :, j]) for j in range(3)], rtol=1e-8)
        assert both.dataset() == pytest.approx(top(np.asarray(F)), rel=1e-8)
        some = [1, 4, 7]
        assert both.of(rows=some) == pytest.approx(top(blocks[some][:, :, some].reshape(12, 12)), rel=1e-8)
        assert both.by_group(np.isin(np.arange(12), some))[True] == pytest.approx(both.of(rows=some), rel=1e-8)


def test_many_values_blocks_and_compositions_of_compositions() -> None:
    case = make("squared", n=80, d=30, intercept=True)
    blocks = {"pair": [3, 4], "many": fl.Attribute.one_hot("many", [10, 11, 12])}
    drawn, tilted, plain = (case.leak(way, blocks) for way in list(WAYS.values())[:3])
    nested = fl.compose(fl.compose(drawn, plain), fl.compose(tilted, drawn))
    flat = fl.compose(drawn, plain, tilted, drawn)
    np.testing.assert_allclose(nested.per_example(), flat.per_example(), rtol=1e-12)
    assert flat.per_example()[7] == pytest.approx(top(flat.fim(rows=[7])), rel=1e-9)
    squares = np.sum([np.asarray(part.per_cell()) ** 2 for part in (drawn, plain, tilted, drawn)], axis=0)
    single = [k for k, size in enumerate(flat.sizes) if size == 1]
    np.testing.assert_allclose(np.asarray(flat.per_cell())[:, single] ** 2, squares[:, single], rtol=1e-9)
    assert np.all(flat.per_cell() ** 2 <= squares * (1.0 + 1e-9))
    assert flat.of(rows=range(10)) == pytest.approx(top(np.asarray(flat.fim(rows=range(10)))), rel=1e-8)


def test_releases_with_other_losses_and_units_of_labels_beside() -> None:
    case = make("logistic", n=30)
    signs = 2.0 * case.y - 1.0
    ridge = fl.measure(fl.minimise(case.X, signs, l2=0.1), case.X, signs, fl.Posterior(0.3))
    classes = case.leak(fl.Gaussian(0.4))
    both = fl.compose(classes, ridge)
    unit = np.diag([1.0, 1.0, 1.0, 2.0])  # the ridge's label moves by two where the first one's moves by one
    for row in (0, 7):
        F = np.asarray(classes.fim(rows=[row])) + unit @ np.asarray(ridge.fim(rows=[row])) @ unit
        assert both.per_example()[row] == pytest.approx(top(F), rel=1e-9)


def test_a_release_that_is_drawn_twice_tells_root_two_times_as_much() -> None:
    leak = CASE.leak(fl.Posterior(0.3))
    twice = fl.compose(leak, leak)
    np.testing.assert_allclose(twice.per_example(), np.sqrt(2.0) * leak.per_example(), rtol=1e-9)
    assert "the noise's dependence on the data counted" in twice.summary()
    assert "membership" not in twice.to_frame()
    for copied in copies(twice):
        np.testing.assert_array_equal(copied.per_example(), twice.per_example())


@pytest.mark.parametrize("mechanism", [fl.Posterior(0.3), fl.ObjectivePerturbation(1.7)])
def test_what_is_not_exact_is_refused_by_name(mechanism: Any) -> None:
    name = type(mechanism).__name__
    both = fl.compose(CASE.leak(), CASE.leak(mechanism))
    attempts: list[Any] = [both.membership, lambda: fl.calibrate(both, 1.0)]
    for attempt in attempts:
        with pytest.raises(fl.InvalidInputError, match=rf"{name}|composition"):
            attempt()
    logistic = make("logistic", n=30)
    averaged = logistic.leak(fl.ObjectivePerturbation(1.0, draws=100))
    with pytest.raises(fl.InvalidInputError, match=r"ObjectivePerturbation.*upper limits"):
        fl.compose(logistic.leak(), averaged)


# Models of several numbers


OUTPUTS = np.column_stack([CASE.y, 0.5 * CASE.y**2 + CASE.X[:, 0], np.cos(3.0 * CASE.X[:, 1])])
SHAPED: dict[str, Any] = {name: WAYS[name] for name in ("Posterior", "ObjectivePerturbation")}
every_mechanism = pytest.mark.parametrize("mechanism", SHAPED.values(), ids=SHAPED.keys())


def several(X: Vector = CASE.X, Y: Vector = OUTPUTS) -> Any:
    return fl.minimise(X, Y, l2=0.05, sample_weight=CASE.weights, intercept=True)


def distribution(X: Vector, Y: Vector, mechanism: Any) -> tuple[Vector, Vector]:
    """Mean (K, p) of what is released and the covariance of each output's part, from the rows alone."""
    rows = np.column_stack([X, np.ones(len(X))])
    left = (rows * np.asarray(CASE.weights)[:, None]).T
    B = np.linalg.inv(left @ rows + np.diag([*[len(X) * 0.05] * 3, 0.0]))
    S = mechanism.temperature * B if isinstance(mechanism, fl.Posterior) else mechanism.scale**2 * B @ B
    return (B @ (left @ Y)).T, S


def moved_by(row: int, place: int, step: float) -> tuple[Vector, Vector]:
    """The rows with one value moved: a feature, or a number of the label behind them."""
    X, Y = CASE.X.copy(), OUTPUTS.copy()
    if place < 3:
        X[row, place] += step
    else:
        Y[row, place - 3] += step
    return X, Y


def by_differences(mechanism: Any, rows: list[int]) -> Vector:
    step, inverse = 1e-5, np.linalg.inv(distribution(CASE.X, OUTPUTS, mechanism)[1])
    means, shapes = [], []
    for row in rows:
        for place in range(6):
            sides = [distribution(*moved_by(row, place, s * step), mechanism) for s in (1, -1)]
            means.append((sides[0][0] - sides[1][0]) / (2 * step))
            shapes.append(inverse @ (sides[0][1] - sides[1][1]) / (2 * step))
    m, D = np.stack(means), np.stack(shapes)
    first = np.einsum("akj,jl,bkl->ab", m, inverse, m)
    return np.asarray(first + 0.5 * OUTPUTS.shape[1] * np.einsum("aij,bji->ab", D, D))


@every_mechanism
def test_both_terms_of_several_numbers_are_those_of_refits(mechanism: Any) -> None:
    leak = fl.measure(several(), CASE.X, OUTPUTS, mechanism)
    F = by_differences(mechanism, list(range(12)))
    np.testing.assert_allclose(leak.fim(), F, rtol=1e-5, atol=1e-6 * np.abs(F).max())
    blocks = F.reshape(12, 6, 12, 6)
    single = np.stack([blocks[i, :, i, :] for i in range(12)])
    np.testing.assert_allclose(leak.per_example(), [top(f) for f in single], rtol=1e-5)
    np.testing.assert_allclose(leak.per_example(["x1", "x2"]), [top(f[1:3, 1:3]) for f in single], rtol=1e-5)
    np.testing.assert_allclose(leak.per_label(), [top(f[3:, 3:]) for f in single], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(leak.per_cell(), np.sqrt(single[:, [0, 1, 2], [0, 1, 2]]), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(leak.per_attribute(), [top(blocks[:, j, :, j]) for j in range(3)], rtol=1e-5)
    assert leak.dataset() == pytest.approx(top(F), rel=1e-5)
    assert leak.of(rows=[1, 4]) == pytest.approx(top(blocks[[1, 4]][:, :, [1, 4]].reshape(12, 12)), rel=1e-5)


@every_mechanism
def test_a_number_twice_is_two_models_of_one_output(mechanism: Any) -> None:
    """Features are told of twice as much, and each label by its own output alone."""
    twice = np.column_stack([CASE.y, CASE.y])
    leak, one = fl.measure(several(CASE.X, twice), CASE.X, twice, mechanism), CASE.leak(mechanism)
    for row in (0, 5):
        F, own = np.asarray(leak.fim(rows=[row])), np.asarray(one.fim(rows=[row]))
        np.testing.assert_allclose(F[:3, :3], 2.0 * own[:3, :3], rtol=1e-9, atol=1e-10 * np.abs(own).max())
        for label in (3, 4):
            np.testing.assert_allclose(F[[0, 1, 2, label], label], own[:, 3], rtol=1e-8, atol=1e-10 * np.abs(own).max())
        assert F[3, 4] == 0.0
    np.testing.assert_allclose(leak.per_cell(), np.sqrt(2.0) * one.per_cell(), rtol=1e-9)


@every_mechanism
def test_fim_of_several_numbers_is_the_covariance_of_the_score_of_releases(mechanism: Any) -> None:
    """Drawn and solved for output by output, as released; five percent more or less is rejected."""
    fit, row = several(), 2
    outputs = enumerate(one_by_one(fit))
    parts = [mechanism.released_draws(one, 60_000, np.random.default_rng(k)) for k, one in outputs]
    drawn = np.stack(parts, axis=1)
    score = []
    for place in range(6):
        sides = [log_density(drawn, *distribution(*moved_by(row, place, s * 1e-4), mechanism)) for s in (1, -1)]
        score.append((sides[0] - sides[1]) / 2e-4)
    covariance = np.stack(score) @ np.stack(score).T / len(drawn)
    fim = np.asarray(fl.measure(fit, CASE.X, OUTPUTS, mechanism).fim(rows=[row]))
    direction = np.linalg.eigh(fim)[1][:, -1]
    share = float(direction @ covariance @ direction) / float(direction @ fim @ direction)
    assert share == pytest.approx(1.0, abs=0.022)
    assert min(abs(share / 0.95 - 1.0), abs(share / 1.05 - 1.0)) > 0.022


def log_density(t: Vector, mean: Vector, S: Vector) -> Vector:
    L = np.linalg.cholesky(S)
    white = np.linalg.solve(L, (t - mean).transpose(1, 2, 0))
    return np.asarray(-0.5 * np.sum(white**2, axis=(0, 1)) - mean.shape[0] * np.sum(np.log(np.diag(L))))


@every_mechanism
def test_several_numbers_are_released_calibrated_and_refused_by_name(mechanism: Any, tmp_path: Any) -> None:
    fit, name = several(), type(mechanism).__name__
    noisy = [fl.release(fit, mechanism, random_state=k) for k in range(400)]
    assert noisy[0].coef.shape == (3, 3)
    mean, S = distribution(CASE.X, OUTPUTS, mechanism)
    drawn = np.stack([np.column_stack([each.coef, each.intercept]) for each in noisy])
    white = (drawn - mean) @ np.linalg.inv(np.linalg.cholesky(S)).T
    assert abs(float(np.mean(white**2)) - 1.0) < 0.1
    leak = fl.measure(fit, CASE.X, OUTPUTS, mechanism)
    limit = float(leak.with_noise(mechanism.rescaled(1.3 * mechanism.scale)).per_example().max())
    found = fl.calibrate(leak, limit)
    assert leak.with_noise(found).per_example().max() <= limit
    np.testing.assert_allclose(
        leak.with_noise(fl.Gaussian(1.0)).per_example(), fl.measure(fit, CASE.X, OUTPUTS).per_example(), rtol=1e-9
    )
    assert "one number for each output" in leak.summary()
    for copied in copies(leak):
        np.testing.assert_array_equal(copied.per_example(), leak.per_example())
    classes = np.argmax(OUTPUTS, axis=1)
    softmax = fl.minimise(CASE.X, classes, loss="softmax", l2=0.1)
    attempts: list[Any] = [
        leak.membership,
        lambda: fl.compose(leak, leak),
        lambda: fl.Ledger(tmp_path / "a.json").add(leak),
        lambda: leak.report(tmp_path / "a.html"),
        lambda: fl.attacks.WhiteBox(fit, CASE.X, OUTPUTS, 0, values=[-1.0, 1.0]).accuracy(mechanism),
        lambda: fl.measure(softmax, CASE.X, classes, mechanism),
        lambda: fl.release(softmax, mechanism),
    ]
    for k, attempt in enumerate(attempts):
        with pytest.raises(fl.FisherleakError, match=rf"{name}|3 outputs"):
            print(k, attempt())
