"""Calibration: the limit holds and is nearly reached."""

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
        ({"eta": 1e-320}, r"eta must be from 1e-100 to 1e\+100, so that noise of a finite scale keeps it; got 9.99"),
        ({"eta": 0.1, "gap": 0.5}, "gap is for noise of least loss.*; got gap=0.5 without it. Leave it out"),
        ({"eta": 0.1, "gap": 0.5, "shape": "hessian"}, "gap is for noise of least loss"),
        ({"eta": 9.0, "gap": 0.5, "shape": "least-loss", "over": "admissible"}, "gap is for noise of least loss"),
        ({"eta": 0.1, "label": "yes"}, "label must be True or False; got 'yes'"),
        ({"eta": 0.1, "over": "admissible", "bounds": "x"}, "bounds must be a mapping .*; got str"),
        ({"eta": 0.1, "over": "admissible", "bounds": [1]}, "bounds must be a mapping .*; got list"),
        ({"eta": 0.1, "over": "worst"}, "over must be one of max, mean, group, dataset"),
        ({"eta": 0.1, "over": "group"}, "groups must be given with over='group'"),
        ({"eta": 0.1, "groups": [0] * 40}, "groups must be given with over='group', and only then"),
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
