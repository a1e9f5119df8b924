"""What is said of losses beside their derivatives, against the derivatives themselves."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.engine.losses import Loss
from fisherleak.engine.losses.loss import ReducedLoss, Traits, reduced_loss
from fisherleak.engine.losses.multi_output import ONE_AGAINST_REST, SEVERAL_NUMBERS, SOFTMAX
from fisherleak.errors import InvalidInputError
from fisherleak.leakage.compositions import with_label_unit
from fisherleak.protection.certificates.bound_for_any_record import known_traits

LABELS = {
    "squared": np.linspace(-3.0, 4.0, 15),
    "pseudo_huber": np.linspace(-3.0, 4.0, 15),
    "logistic": np.array([0.0, 1.0]),
    "poisson": np.linspace(0.0, 7.0, 15),
    "gamma": np.linspace(0.1, 5.0, 15),
}
LOSSES = [*(loss for loss in fl.LOSSES.values() if loss.traits), fl.pseudo_huber(0.3), fl.pseudo_huber(4.0)]
"""Those that state traits; a loss without them has no certificates for any record, and refuses them by name."""
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}-{loss.traits.steepest:g}")


def _grid(loss: Loss) -> tuple[np.ndarray, np.ndarray, Traits]:
    assert loss.traits is not None
    z, y = np.meshgrid(np.linspace(-9.0, 9.0, 721), LABELS[loss.name])
    return z.ravel(), y.ravel(), loss.traits


@every_loss
def test_slopes_are_those_of_the_second_derivative(loss: Loss) -> None:
    z, y, traits = _grid(loss)
    h = 1e-5
    np.testing.assert_allclose(
        traits.slope(z, y), (loss.a(z + h, y) - loss.a(z - h, y)) / (2 * h), rtol=2e-6, atol=2e-9
    )
    if loss.labels.binary:
        return  # labels between are not accepted, and none is
    np.testing.assert_allclose(
        traits.slope_by_label(z, y), (loss.a(z, y + h) - loss.a(z, y - h)) / (2 * h), rtol=2e-6, atol=2e-9
    )


@every_loss
def test_bounds_hold_and_are_reached(loss: Loss) -> None:
    z, y, traits = _grid(loss)
    a, r = loss.a(z, y), loss.r(z, y)
    steep = np.abs(traits.slope(z, y) / a)
    assert steep.max() <= traits.log_slope * (1 + 1e-12)
    assert steep.max() >= 0.99 * traits.log_slope
    assert (a <= traits.largest).all()
    assert (np.abs(r) <= traits.steepest).all()
    assert (loss.value(np.zeros_like(y), y) <= traits.of_nothing * (1 + 1e-15)).all()
    if math.isfinite(traits.largest):
        assert a.max() > 0.999 * traits.largest
    if math.isfinite(traits.steepest) and traits.steepest < 4:
        assert np.abs(r).max() > 0.99 * traits.steepest
    if traits.width is not None:
        h = 1e-3
        second = np.abs(loss.a(z + h, y) - 2 * a + loss.a(z - h, y)) / h**2
        assert (second <= traits.width * a * (1 + 1e-5) + 1e-8).all()
        assert (steep <= math.sqrt(traits.width) * (1 + 1e-12)).all()


@every_loss
def test_the_peak_and_what_derivatives_depend_on(loss: Loss) -> None:
    z, y, traits = _grid(loss)
    peak = np.clip(traits.peak, -9.0, 9.0)
    if traits.by_difference:
        # the same for all labels once z is counted from them
        np.testing.assert_allclose(loss.a(z + y, y), loss.a(z, np.zeros_like(y)), rtol=1e-12)
        np.testing.assert_allclose(loss.r(z + y, y), loss.r(z, np.zeros_like(y)), rtol=1e-9, atol=1e-12)
        assert (loss.a(z, np.zeros_like(y)) <= loss.a(np.array([peak]), np.zeros(1))).all()
        return
    assert (loss.a(z, y) <= loss.a(np.full_like(y, peak), y)).all()
    depends = bool(np.any(traits.slope_by_label(z, y) != 0))
    assert depends == traits.by_label
    assert float(loss.a(np.zeros(1), np.ones(1))[0]) == traits.at_zero
    assert traits.unit == loss.unit_curvature == bool((loss.a(z, y) == 1).all())


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_labels_that_can_be_drawn_tell_the_curvature(name: str) -> None:
    # the information of a label about z is the variance of the score; probabilities are exp(-value) up to what z leaves alone
    loss = fl.LOSSES[name]
    assert loss.traits is not None
    assert loss.traits.drawn
    labels = np.array([0.0, 1.0]) if loss.labels.binary else np.arange(80.0)
    alone = np.array([math.lgamma(y + 1) for y in labels]) if name == "poisson" else np.zeros(2)
    for z in (-1.5, 0.3, 2.0):
        at = np.full_like(labels, z)
        law = np.exp(-loss.value(at, labels) - alone)
        np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose((law * loss.r(at, labels) ** 2).sum(), loss.a(at[:1], labels[:1])[0], rtol=1e-10)
        np.testing.assert_allclose((law * labels).sum(), loss.mean(at[:1])[0], rtol=1e-10)


@pytest.mark.parametrize("name", ["squared", "gamma", "pseudo_huber"])
def test_others_are_not_drawn(name: str) -> None:
    traits = fl.LOSSES[name].traits
    assert traits is not None
    assert not traits.drawn


@pytest.mark.parametrize("part", ["value", "r", "a", "c"])
def test_traits_do_not_follow_other_functions(part: str) -> None:
    def other(z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 7.0 * np.ones_like(z)

    # a changed copy would be certified by what holds for the original
    changed: dict[str, Any] = {"name": "mine", part: other}
    mine = dataclasses.replace(fl.LOSSES["squared"], **changed)
    assert mine.traits is None
    assert not mine.unit_curvature
    with pytest.raises(InvalidInputError, match="over='any-record' supports the package's own losses only"):
        known_traits(mine)
    assert known_traits(dataclasses.replace(fl.LOSSES["squared"], name="mine")).unit


def test_traits_travel() -> None:
    for loss in LOSSES:
        there = pickle.loads(pickle.dumps(loss))  # noqa: S301 - made here
        assert there == loss
        assert there.traits == loss.traits


@every_loss
def test_traits_follow_a_label_in_another_unit(loss: Loss) -> None:
    z, y, traits = _grid(loss)
    there = with_label_unit(loss, 3.0)
    assert there.traits is not None
    assert there.unit_curvature == loss.unit_curvature
    np.testing.assert_array_equal(there.traits.slope_by_label(z, y), 3.0 * traits.slope_by_label(z, y))
    np.testing.assert_array_equal(there.traits.slope(z, y), traits.slope(z, y))


ONE = [(fl.LOSSES[name], 1) for name in ("logistic", "poisson", "gamma")]
KINDS = [*ONE, (SOFTMAX, 2), (SOFTMAX, 3), (SOFTMAX, 6), (ONE_AGAINST_REST, 4)]


@pytest.mark.parametrize(("kind", "K"), KINDS)
def test_third_and_fourth_derivatives_are_within_what_w_says(kind: Loss, K: int) -> None:
    rng = np.random.default_rng(K)
    loss = reduced_loss(kind, K, np.empty(0))
    assert loss.width is not None
    count = 4000
    z, v, u = (scale * rng.normal(size=(count, loss.outputs)) for scale in (2.0, 1.0, 1.0))
    y = rng.integers(0, max(K, 2), count) * 1.0 + (kind is fl.LOSSES["gamma"])
    h = 1e-3

    def form(at: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("nk,nkl,nl->n", a, loss.curvature(at, y), b))

    low, middle, high = (form(z + step * v, v, u) for step in (-h, 0.0, h))
    mine, theirs = np.sqrt(form(z, v, v)), np.sqrt(form(z, u, u))
    length = np.linalg.norm(v, axis=1)
    assert (np.abs(high - low) / (2 * h) <= loss.width**0.5 * length * mine * theirs * (1 + 1e-4) + 1e-7).all()
    fourth = np.abs(high - 2 * middle + low) / h**2
    assert (fourth <= loss.width * length**2 * mine * theirs * (1 + 1e-3) + 1e-6).all()


def test_nothing_is_claimed_of_other_losses() -> None:
    assert ReducedLoss(fl.pseudo_huber(0.5)).width is None
    assert reduced_loss(SEVERAL_NUMBERS, 2, np.empty(0)).width is None
