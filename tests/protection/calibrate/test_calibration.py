"""Calibration: the limit holds and is nearly reached.

Noise that keeps an attacker's accuracy: at or below what was asked, and nearly reached.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fisherleak as fl
from cases import make


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    target=st.floats(1e-6, 1e6),
    over=st.sampled_from(["max", "mean", "group", "dataset"]),
    scale=st.sampled_from([1e-8, 1.0, 1e8]),
)
def test_the_limit_holds_and_is_nearly_reached(seed: int, target: float, over: str, scale: float) -> None:
    leak = make("squared", seed, scale=scale).leak(fl.Gaussian(0.7))
    groups = np.arange(leak.n) % 3 if over == "group" else None
    noise = fl.calibrate(leak, target, over, groups=groups)
    after = leak.with_noise(noise)
    reached = {
        "max": lambda: after.per_example().max(),
        "mean": lambda: after.per_example().mean(),
        "group": lambda: max(after.by_group(groups).values()),
        "dataset": after.dataset,
    }[over]()
    assert reached <= target
    assert reached >= target * (1 - 1e-9)


def test_attributes_and_label_can_be_limited_alone() -> None:
    leak = make("logistic", 1).leak()
    noise = fl.calibrate(leak, 0.1, attributes=["x1"])
    assert leak.with_noise(noise).per_example(["x1"]).max() <= 0.1
    assert noise.scale < fl.calibrate(leak, 0.1).scale
    assert noise.scale < fl.calibrate(leak, 0.1, attributes=["x1"], label=True).scale


def test_the_shape_of_the_noise_is_kept() -> None:
    leak = make("squared", 1).leak(fl.Gaussian(1.0, np.diag([1.0, 2.0, 3.0])))
    noise = fl.calibrate(leak, 0.1)
    assert isinstance(noise, fl.Gaussian)
    np.testing.assert_array_equal(noise.shape, np.diag([1.0, 2.0, 3.0]))
    assert leak.with_noise(noise).per_example().max() <= 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eta": 0.0}, "eta must be a finite number, greater than zero; got 0.0"),
        ({"eta": float("nan")}, "eta must be a finite number"),
        ({"eta": "0.1"}, "eta must be a number"),
        (
            {"eta": 1e-320},
            r"eta must be from 1e-100 to 1e\+100, so that some noise of a finite scale meets the limit; got 9.99",
        ),
        ({"eta": 0.1, "gap": 0.5}, "gap=0.5 needs shape='least-loss'.* Leave it out"),
        ({"eta": 0.1, "gap": 0.5, "shape": "hessian"}, "gap=0.5 needs shape='least-loss'"),
        ({"eta": 9.0, "gap": 0.5, "shape": "least-loss", "over": "any-record"}, "gap=0.5 needs shape='least-loss'"),
        ({"eta": 0.1, "label": "yes"}, "label must be True or False; got 'yes'"),
        ({"eta": 0.1, "over": "any-record", "bounds": "x"}, "bounds must be a mapping .*; got str"),
        ({"eta": 0.1, "over": "any-record", "bounds": [1]}, "bounds must be a mapping .*; got list"),
        ({"eta": 0.1, "over": "worst"}, "over must be one of max, mean, group, person, dataset"),
        ({"eta": 0.1, "over": "group"}, "groups must be given with over='group'"),
        ({"eta": 0.1, "groups": [0] * 40}, "groups must be given with over='group' or over='person', and only then"),
        ({"eta": 0.1, "over": "group", "groups": [0] * 40, "label": True}, "cannot be limited by group"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.calibrate(make("squared").leak(), **arguments)


def test_nothing_to_hide_needs_no_noise() -> None:
    X = np.array([[1.0], [-1.0]])
    leak = fl.measure(fl.minimise(X, np.zeros(2)), X, np.zeros(2))
    with pytest.raises(fl.InvalidInputError, match="does not depend on these values"):
        fl.calibrate(leak, 0.1, attributes=["x0"])


def attack_of(kind: str) -> Any:
    case = make("squared", 3, n=60)
    X = case.X.copy()
    X[:, 0] = (X[:, 0] > 0.4) * 1.0 + (X[:, 0] > 1.2) * (kind == "three candidates")
    model = fl.minimise(X, case.y, l2=0.01)
    if kind == "membership":
        return fl.attacks.Membership(model, X, case.y)
    return fl.attacks.WhiteBox(model, X, case.y, 0, use_prior=kind == "prior")


KINDS = ["two candidates", "three candidates", "prior", "membership"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("over", ["max", "mean", 5])
@pytest.mark.parametrize("shaped", [False, True])
def test_the_limit_holds_and_is_nearly_reached_accuracy(kind: str, over: Any, shaped: bool) -> None:
    attack = attack_of(kind)
    shape = np.diag([1.0, 4.0, 0.5]) if shaped else None
    limit = 0.75
    noise: Any = fl.calibrate(attack, accuracy=limit, over=over, shape=shape)
    assert isinstance(noise, fl.Gaussian)

    def told(noise: Any) -> float:
        rows = np.sort(attack.accuracy(noise, over="prior") if kind == "prior" else attack.accuracy(noise))
        return float({"max": rows[-1], "mean": rows.mean(), 5: rows[-6]}[over])

    assert told(noise) <= limit
    assert told(noise) == pytest.approx(limit, abs=1e-6)
    for times in (1.5, 10.0, 1e6):
        assert told(noise.rescaled(times * noise.scale)) <= limit


@pytest.mark.parametrize("kind", KINDS)
def test_the_accuracy_that_is_limited_never_grows_with_the_noise(kind: str) -> None:
    attack = attack_of(kind)
    rows = np.stack([attack.certain_accuracy(fl.Gaussian(scale)) for scale in np.logspace(-6, 4, 40)])
    assert np.all(np.diff(rows, axis=0) <= 1e-12)


def test_membership_has_a_closed_form() -> None:
    attack = attack_of("membership")
    noise = fl.calibrate(attack, accuracy=0.6)
    mu = 2 * 0.2533471031357997  # twice the normal quantile of 0.6
    assert noise.scale == pytest.approx(float(attack.mu(fl.Gaussian(1.0)).max()) / mu, rel=1e-8)


def test_rows_that_the_model_does_not_see_do_not_count() -> None:
    case = make("squared", 3, n=60)
    X, weights = case.X.copy(), np.where(np.arange(60) == 7, 0.0, 1.0)
    X[:, 0] = (X[:, 0] > 0.4) * 1.0
    model = fl.minimise(X, case.y, l2=0.01, sample_weight=weights)
    attack: Any = fl.attacks.WhiteBox(model, X, case.y, 0, sample_weight=weights)
    assert attack.certain_accuracy(fl.Gaussian(1.0))[7] == 0.5
    noise = fl.calibrate(attack, accuracy=0.6)
    assert np.delete(attack.accuracy(noise), 7).max() == pytest.approx(0.6, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accuracy": 0.5}, "accuracy must be more than 0.5, which the attacker reaches whatever the noise; got 0.5"),
        ({"accuracy": 1.0}, "accuracy must be below 1"),
        ({"accuracy": 0.0}, "accuracy must be a finite number, greater than zero"),
        (
            {"accuracy": 0.6, "eta": 1.0},
            "eta, attributes, label, groups, bounds, gap, person, rows_per_person and random_state belong to a limit on eta",
        ),
        ({"accuracy": 0.6, "over": "dataset"}, "over must be 'max', 'mean' or a number of rows from 0 to 59"),
        ({"accuracy": 0.6, "over": 60}, "over must be 'max', 'mean' or a number of rows from 0 to 59"),
        ({"accuracy": 0.6, "shape": "least-loss"}, "shape must be a matrix or 'isotropic' for an attack"),
        (
            {"accuracy": 0.6, "gap": 0.1},
            "bounds, gap, person, rows_per_person and random_state belong to a limit on eta",
        ),
        (
            {"eta": 0.6},
            r"An attack is limited by accuracy.*; got WhiteBox without it. Write calibrate\(attack, acc",
        ),
        ({}, r"An attack is limited by accuracy.*; got WhiteBox without it. Write calibrate\(attack, acc"),
    ],
)
def test_refusals_accuracy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.calibrate(attack_of("two candidates"), **options)


def test_what_has_no_closed_form_is_refused() -> None:
    case = make("squared", 3, n=60)
    X = case.X.copy()
    X[:, 0] = np.arange(60) % 4
    attack: Any = fl.attacks.WhiteBox(fl.minimise(X, case.y, l2=0.01), X, case.y, 0)
    with pytest.raises(fl.InvalidInputError, match="up to 3 candidates; 'x0' has 4"):
        fl.calibrate(attack, accuracy=0.6)
    leak: Any = case.leak()
    with pytest.raises(fl.InvalidInputError, match="accuracy is for attacks"):
        fl.calibrate(leak, accuracy=0.6)
    with pytest.raises(fl.InvalidInputError, match="eta must be a number"):
        fl.calibrate(leak)
