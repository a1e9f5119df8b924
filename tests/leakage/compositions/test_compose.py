"""Several releases: information adds up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fisherleak as fl
from cases import Case, dense_jacobian, flat, make


def stacked(*pairs: tuple[Any, float]) -> Any:
    return np.concatenate([dense_jacobian(case, case.fit()) / scale for case, scale in pairs], axis=1)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), d=st.integers(1, 4), weighted=st.booleans())
def test_information_adds_up_exactly(seed: int, d: int, weighted: bool) -> None:
    first = make("logistic", seed, d=d, weighted=weighted)
    second = make("logistic", seed, d=d, intercept=True, l2=0.3)
    J = stacked((first, 0.5), (second, 2.0))
    leak = fl.compose(first.leak(fl.Gaussian(0.5)), second.leak(fl.Gaussian(2.0)))
    np.testing.assert_allclose(leak.per_example(), np.linalg.svd(J, compute_uv=False)[:, 0], rtol=1e-11)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-12)
    np.testing.assert_allclose(leak.per_cell(), np.linalg.norm(J[:, :, :d], axis=1), rtol=1e-11)
    np.testing.assert_allclose(leak.per_label(), np.linalg.norm(J[:, :, d], axis=1), rtol=1e-11)
    np.testing.assert_allclose(leak.per_attribute(), [np.linalg.norm(J[:, :, j].T, 2) for j in range(d)], rtol=1e-11)
    rows = [1, 4]
    np.testing.assert_allclose(leak.fim(rows), flat(J[rows]).T @ flat(J[rows]), rtol=1e-9, atol=1e-14)


def test_never_more_than_the_root_of_squares_and_often_less() -> None:
    first, second = make("logistic", 5).leak(), make("logistic", 5, l2=3.0).leak()
    together = np.asarray(fl.compose(first, second).per_example())
    bound = np.sqrt(np.asarray(first.per_example()) ** 2 + np.asarray(second.per_example()) ** 2)
    assert (together <= bound * (1 + 1e-12)).all()
    assert (together < bound * (1 - 1e-6)).any()


def test_the_same_model_twice_is_root_two() -> None:
    leak = make("gamma", 5).leak()
    twice = fl.compose(leak, leak)
    np.testing.assert_allclose(twice.per_example(), math.sqrt(2) * leak.per_example(), rtol=1e-12)
    assert twice.dataset() == pytest.approx(math.sqrt(2) * leak.dataset(), rel=1e-12)
    np.testing.assert_allclose(fl.compose(twice, leak).per_attribute(), math.sqrt(3) * leak.per_attribute(), rtol=1e-12)
    assert "2 independent releases" in twice.summary()


def test_blocks_compose() -> None:
    attributes = [fl.Attribute("v", [0, 2])]
    first, second = make("squared", 5), make("squared", 5, l2=3.0)
    leak = fl.compose(first.leak(attributes=attributes), second.leak(attributes=attributes))
    J = stacked((first, 1.0), (second, 1.0))[:, :, [0, 2]]
    np.testing.assert_allclose(leak.per_cell()[:, 0], np.linalg.svd(J, compute_uv=False)[:, 0], rtol=1e-11)
    assert leak.of(attributes="v") == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-12)


def test_releases_may_see_the_same_attributes_through_other_features() -> None:
    """One model on the columns, one on a linear map of them; attributes are the columns of both."""
    first = make("squared", 5)
    mix = np.random.default_rng(0).normal(size=(2, 3))
    X = first.X @ mix.T
    raw = [fl.Attribute(f"x{j}", [0, 1], mix[:, j : j + 1]) for j in range(3)]
    leak = fl.compose(first.leak(), fl.measure(fl.minimise(X, first.y, l2=0.1), X, first.y, attributes=raw))
    mixed = Case(X, first.y, "squared", 0.1, None, False)
    J = np.concatenate([dense_jacobian(first, first.fit()), dense_jacobian(mixed, mixed.fit(), mix)], axis=1)
    np.testing.assert_allclose(leak.per_example(), np.linalg.svd(J, compute_uv=False)[:, 0], rtol=1e-11)
    assert leak.dataset() == pytest.approx(np.linalg.norm(flat(J), 2), rel=1e-12)


def test_what_cannot_be_composed() -> None:
    leak = make("squared", 1).leak()
    with pytest.raises(fl.InvalidInputError, match="at least one"):
        fl.compose()
    with pytest.raises(fl.InvalidInputError, match=r"same data: 40 rows .* are not 50 rows"):
        fl.compose(leak, make("squared", 1, n=50).leak())
    with pytest.raises(fl.InvalidInputError, match="values of their tables differ"):
        fl.compose(leak, make("squared", 2).leak())
    case = make("squared", 1)
    other = Case(case.X, -case.y, "squared", case.l2, None, False)
    with pytest.raises(fl.InvalidInputError, match="labels y differ"):
        fl.compose(leak, other.leak())
    assert fl.compose(leak) is leak
    both = fl.compose(leak, leak)
    with pytest.raises(fl.InvalidInputError, match="noise for each release"):
        fl.calibrate(both, 0.1)
    with pytest.raises(fl.InvalidInputError, match="no single noise"):
        both.with_noise(fl.Gaussian(1.0))


def test_a_shape_of_the_rows_own_is_not_composed() -> None:
    case = make("squared")
    leak = case.leak()
    bounds = dict.fromkeys((*leak.attributes, "label"), (-5.0, 5.0))
    shaped = leak.with_noise(fl.calibrate(leak, 1.0, "admissible", shape="hessian", bounds=bounds, random_state=0))
    assert "what it tells by itself is not in these etas" in shaped.summary()
    assert fl.compose(shaped) is shaped
    for pair in ((shaped, leak), (leak, shaped)):
        with pytest.raises(fl.InvalidInputError, match="shaped by the rows themselves"):
            fl.compose(*pair)
