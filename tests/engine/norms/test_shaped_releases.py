"""Compositions with noise that the data shape: information adds up, at every granularity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fisherleak as fl
from cases import make
from copies import copies

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
