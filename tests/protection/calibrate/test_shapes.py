"""What ``shape=`` may be, and what is refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from cases import dense_jacobian, make


def test_the_shape_of_the_hessian_is_its_inverse() -> None:
    case = make("squared", 1)
    noise: Any = fl.calibrate(case.leak(), 0.5, shape="hessian")
    H = case.X.T @ case.X + len(case.y) * case.l2 * np.eye(3)
    np.testing.assert_allclose(noise.shape / noise.shape[0, 0], np.linalg.inv(H) / np.linalg.inv(H)[0, 0], rtol=1e-9)


def test_a_matrix_and_the_isotropic_shape_are_taken_whatever_the_noise_of_the_leakage() -> None:
    leak = make("squared", 1).leak(fl.Laplace(2.0))
    matrix = np.diag([1.0, 2.0, 3.0])
    shaped: Any = fl.calibrate(leak, 0.5, shape=matrix)
    np.testing.assert_array_equal(shaped.shape, matrix)
    assert leak.with_noise(shaped).per_example().max() == pytest.approx(0.5, rel=1e-9)
    plain: Any = fl.calibrate(leak, 0.5, shape="isotropic")
    assert isinstance(plain, fl.Gaussian)
    assert plain.shape is None
    assert isinstance(fl.calibrate(leak, 0.5), fl.Laplace)


def test_a_shape_from_public_rows_keeps_the_limit_here() -> None:
    public = make("squared", 2, n=200).leak()
    leak = make("squared", 3).leak()
    there: Any = fl.calibrate(public, 0.5, shape="least-loss")
    here: Any = fl.calibrate(leak, 0.5, shape=public)
    np.testing.assert_array_equal(here.shape, there.shape)
    assert here.gap is None
    assert leak.with_noise(here).per_example().max() == pytest.approx(0.5, rel=1e-9)


def test_an_inverse_computed_by_numpy_is_a_shape() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 12)) * 10.0 ** rng.integers(-6, 6, size=12)
    inverse = np.linalg.inv(X.T @ X)
    assert np.any(inverse != inverse.T)
    shape = fl.Gaussian(1.0, inverse).shape
    assert shape is not None
    np.testing.assert_array_equal(shape, shape.T)
    np.testing.assert_allclose(shape, inverse, rtol=1e-6)


@pytest.mark.parametrize("off", [1e-6, 0.5])
def test_a_matrix_that_is_not_symmetric_is_refused(off: float) -> None:
    with pytest.raises(fl.InvalidInputError, match="shape must be symmetric"):
        fl.Gaussian(1.0, np.array([[1.0, 0.0], [off, 1.0]]))
    with pytest.raises(fl.InvalidInputError, match="shape must be symmetric"):
        fl.Gaussian(1.0, np.array([[1e8, 0.0], [off, 1e-8]]))


@pytest.mark.parametrize("thin", [1e-17, 1e-16, 1e-14, 1e-11, 1e-6])
@pytest.mark.parametrize("units", [1.0, 1e-9])
def test_a_shape_is_refused_or_its_inverse_is_right(thin: float, units: float) -> None:
    """Against exact fractions: a shape that is singular but for rounding left etas of twice the limit."""
    case = make("squared", 1, d=2)
    turned = np.array([[0.8, 0.6], [-0.6, 0.8]]) @ np.diag([1.0, np.sqrt(thin)])
    shape = np.diag([1.0, units]) @ turned @ turned.T @ np.diag([1.0, units])
    if thin < 1e-12:
        with pytest.raises(fl.InvalidInputError, match=r"shape (is nearly singular|must be positive definite)"):
            fl.calibrate(case.leak(), 1.0, shape=shape)
        return
    noise: Any = fl.calibrate(case.leak(), 1.0, shape=shape)
    (a, b), (_, c) = [[Fraction(value) for value in row] for row in noise.shape.tolist()]
    inverse = np.array([[float(c / (a * c - b * b)), float(-b / (a * c - b * b))], [0.0, float(a / (a * c - b * b))]])
    inverse[1, 0] = inverse[0, 1]
    J = dense_jacobian(case, case.fit())
    squares = [np.linalg.eigvalsh(K.T @ inverse @ K)[-1] for K in J]
    assert np.sqrt(max(squares)) / noise.scale == pytest.approx(1.0, rel=1e-3)


def test_the_gap_goes_with_the_noise_and_is_no_part_of_it() -> None:
    noise: Any = fl.calibrate(make("squared", 1).leak(), 0.5, shape="least-loss")
    assert noise.gap == copy.deepcopy(noise).gap == noise.rescaled(2.0).gap
    assert noise == fl.Gaussian(noise.scale, noise.shape)
    assert hash(noise) == hash(fl.Gaussian(noise.scale, noise.shape))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": "least_loss"}, "shape must be one of least-loss, isotropic, hessian, a matrix, or a leakage"),
        ({"shape": np.eye(4)}, "shape must cover the 3 released parameters; got 4 rows"),
        ({"shape": "least-loss", "over": "mean"}, "limits over 'max', 'group' or 'dataset'; got over='mean'"),
        ({"shape": "least-loss", "gap": 0.0}, "gap must be a finite number, greater than zero"),
        ({"shape": "public", "over": "group", "groups": [0] * 40}, "shape from public rows cannot be limited by group"),
        ({"shape": "wider"}, "shape must come from a model with the same 3 released parameters; the public one has 4"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    leak = make("squared").leak()
    named = {"public": leak, "wider": make("squared", intercept=True).leak()}
    shape = options["shape"]
    options = options | {"shape": named.get(shape, shape) if isinstance(shape, str) else shape}
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.calibrate(leak, 0.1, **options)


def test_a_composition_has_no_shape() -> None:
    leak = make("squared").leak()
    with pytest.raises(fl.InvalidInputError, match="composition"):
        fl.calibrate(fl.compose(leak, leak), 0.1, shape="least-loss")


def test_nothing_to_hide_needs_no_noise() -> None:
    X = np.array([[1.0], [-1.0]])
    leak = fl.measure(fl.minimise(X, np.zeros(2)), X, np.zeros(2))
    with pytest.raises(fl.InvalidInputError, match="does not depend on these values"):
        fl.calibrate(leak, 0.1, attributes=["x0"], shape="least-loss")


def test_the_rows_themselves_are_not_public() -> None:
    """Their shape would be on a record, digit by digit."""
    case = make("squared", 1, n=40)
    leak, most = case.leak(), replace(case, X=case.X[:30], y=case.y[:30]).leak()
    for own in (leak, most, replace(case, X=case.X.copy()).leak()):
        with pytest.raises(
            fl.InvalidInputError, match="`shape` must come from public rows, and most of these are rows of"
        ):
            fl.calibrate(leak, 1.0, shape=own)
    rng = np.random.default_rng(0)
    few = [rng.integers(0, 2, (40, 3)).astype(float) for _ in range(2)]  # rows that many have in common
    here, there = (replace(case, X=X).leak() for X in few)
    assert fl.calibrate(here, 1.0, shape=there).scale > 0
