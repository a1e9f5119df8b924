"""The second term: how calibrated noise moves with the data, held against differences of the whole procedure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import Case, make
from fisherleak.protection.calibrate.etas_with_noise_counted import _CountedMoves
from fisherleak.protection.calibrate.limit_terms import raw_map
from realdata import image_features

Vector = NDArray[np.float64]


def covariance(case: Case, eta: float, options: dict[str, Any]) -> Vector:
    searched = isinstance(options.get("shape"), str) and options["shape"] == "least-loss"
    noise: Any = fl.calibrate(case.leak(), eta, gap=1e-8 if searched else None, **options)
    size = case.X.shape[1] + int(case.intercept)
    return np.asarray(noise.scale**2 * (np.eye(size) if noise.shape is None else noise.shape))


def moved(case: Case, row: int, value: int, step: float) -> Case:
    X, y = case.X.copy(), case.y.copy()
    if value < X.shape[1]:
        X[row, value] += step
    else:
        y[row] += step
    return replace(case, X=X, y=y)


def by_differences(case: Case, row: int, values: list[int], eta: float, step: float, options: dict[str, Any]) -> Vector:
    """Half the traces of S^-1 dS_a S^-1 dS_b from calibrations of moved data."""
    W = np.linalg.inv(np.linalg.cholesky(covariance(case, eta, options)))
    dS = []
    for value in values:
        up, down = (covariance(moved(case, row, value, side * step), eta, options) for side in (1.0, -1.0))
        dS.append((W @ (up - down) @ W.T / (2 * step)).ravel())
    D = np.stack(dS)
    return np.asarray(0.5 * D @ D.T)


@pytest.mark.parametrize("shape", ["isotropic", "hessian", "least-loss", "matrix"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "gamma"])
def test_differences_of_the_whole_procedure(shape: str, loss: str) -> None:
    case = make(loss, 11, n=25, d=2, weighted=loss == "gamma", intercept=loss != "squared", l2=0.05)
    size = 2 + int(case.intercept)
    # labels between two classes are refused by fits, so that theirs is left out
    values = [0, 1] if loss == "logistic" else [0, 1, 2]
    options: dict[str, Any] = {"shape": np.diag(np.arange(1.0, size + 1)) if shape == "matrix" else shape}
    options["label"] = loss != "logistic"
    found = fl.counted(case.leak(), 0.7, **options, most=3)
    step = 1e-3 if shape == "least-loss" else 1e-4
    expected = by_differences(case, int(found.rows[0]), values, 0.7, step, options)
    second = np.sqrt(np.linalg.eigvalsh(expected)[-1])
    assert found.second[0] == pytest.approx(second, rel=3e-3 if shape == "least-loss" else 1e-5)
    leak = case.leak(found.noise)
    label = options["label"]
    np.testing.assert_allclose(found.first, leak.per_example(label=label)[found.rows], rtol=1e-5)
    both = np.linalg.eigvalsh(leak.fim(found.rows[:1], label=label) + expected)[-1]
    assert found.eta[0] == pytest.approx(np.sqrt(both), rel=1e-3)


@pytest.mark.parametrize("shape", ["isotropic", "least-loss"])
def test_named_attributes(shape: str) -> None:
    case = make("squared", 4, n=25, d=3, l2=0.05)
    options: dict[str, Any] = {"shape": shape, "attributes": ["x0", "x2"]}
    found = fl.counted(case.leak(), 1.0, **options, most=2)
    expected = by_differences(case, int(found.rows[0]), [0, 2], 1.0, 1e-3, options)
    assert found.second[0] == pytest.approx(np.sqrt(np.linalg.eigvalsh(expected)[-1]), rel=3e-3)


def test_the_shape_of_the_posterior_has_a_closed_form() -> None:
    """With the temperature fixed, noise like the inverse Hessian adds omega^2 (u u^T + h B), u = B x, h = x.u."""
    case = make("squared", 5, weighted=True)
    leak = case.leak()
    fit = leak.fits[0]
    U = raw_map(fit)
    moves = _CountedMoves(
        leak._information.jacobians[0],
        leak._information.attributes,
        False,
        np.asarray(np.linalg.inv(U), dtype=np.float64),
    )
    dH, _ = moves.of(3, [3])
    flat = dH.reshape(3, -1)
    B, x = np.asarray(fit.factor.inverse()), case.X[3]
    assert case.weights is not None
    expected = case.weights[3] ** 2 * (np.outer(B @ x, B @ x) + x @ B @ x * B)
    np.testing.assert_allclose(0.5 * flat @ flat.T, expected, rtol=1e-6)


def test_the_scale_counts_the_row_that_decides_and_hardly_others() -> None:
    """Isotropic noise: 2 p (d log sigma)^2; ordinary rows move the largest eta through the Hessian alone."""
    found = fl.counted(make("squared", 2, n=200).leak(), 1.0, most=5)
    assert found.first.argmax() == found.second.argmax() == 0
    assert np.all(found.second[1:] < 0.2 * found.second[0])


def test_the_second_term_does_not_depend_on_the_limit() -> None:
    leak = make("squared", 3).leak()
    one, two = (fl.counted(leak, eta, "hessian", rows=[0, 1, 2]) for eta in (1.0, 0.01))
    order = [one.rows.tolist().index(row) for row in two.rows]
    np.testing.assert_allclose(one.second[order], two.second, rtol=1e-6)
    np.testing.assert_allclose(one.first[order], 100 * two.first, rtol=1e-6)


@pytest.mark.parametrize("shape", ["isotropic", "least-loss"])
def test_copies_of_a_row_are_each_charged_with_all_of_it(shape: str) -> None:
    case = make("squared", 6, n=20)
    row = int(np.argmax(case.leak().per_example()))
    X, y = np.concatenate([case.X, case.X[[row]]]), np.append(case.y, case.y[row])
    leak = fl.measure(fl.minimise(X, y, l2=0.01), X, y)
    found = fl.counted(leak, 1.0, shape, rows=[row, 20])
    assert found.second[0] == pytest.approx(found.second[1], rel=1e-4)
    assert found.second[0] > 0.1


def test_pipelines_are_counted_in_raw_units() -> None:
    case = make("squared", 7)
    model = make_pipeline(StandardScaler(), Ridge(1.0)).fit(case.X, case.y)
    found = fl.counted(fl.measure(model, case.X, case.y), 1.0, most=2)
    assert found.first[0] == pytest.approx(1.0)
    assert np.all(found.eta >= found.first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": -1.0}, "eta must be a finite number, greater than zero"),
        ({"shape": "round"}, "shape must be one of"),
        ({"most": 0}, "most must be a whole number, one or more; got 0"),
        ({"shape": "leak"}, "takes a covariance from public rows as a matrix"),
        ({"rows": [99]}, "rows"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    leak = make("squared").leak()
    options = {"eta": 1.0} | options
    if options.get("shape") == "leak":
        options["shape"] = leak
    with pytest.raises(fl.InvalidInputError, match=message):
        fl.counted(leak, **options)


def test_folded_preprocessing_is_refused() -> None:
    case = make("squared", 7)
    model = make_pipeline(StandardScaler(), Ridge(1.0)).fit(case.X, case.y)
    with pytest.raises(fl.InvalidInputError, match="preprocessing that is public and affine"):
        fl.counted(fl.measure(model, case.X, case.y, public="nothing"), 1.0)
    wrong: Any = model
    with pytest.raises(fl.InvalidInputError, match="counted takes a leakage"):
        fl.counted(wrong, 1.0)


@pytest.mark.parametrize("copies", [1, 2])
def test_noise_for_safety_alone_is_refused(copies: int) -> None:
    """However little of it there is beside the rest."""
    X, y = np.array([[1.0, 2.0]] * copies), np.array([3.0] * copies)
    leak = fl.measure(fl.minimise(X, y, l2=0.1), X, y)
    with pytest.raises(fl.InvalidInputError, match="limits decide the noise on every parameter"):
        fl.counted(leak, 1.0, "least-loss", attributes=["x0"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("l2", "shape", "expected"),
    [
        *((1e-3, "isotropic", 2.34), (1e-2, "isotropic", 1.39), (1e-3, "hessian", 2.34)),
        *((1e-3, "least-loss", 2.08), (1e-2, "least-loss", 1.53)),
    ],
)
def test_warfarin(l2: float, shape: str, expected: float, data_folder: Any) -> None:
    data = fl.datasets.load_iwpc(data_home=data_folder)
    pieces = [data.preprocessing.fit(data.X).transform(X) for X in (data.X, data.X_test)]
    X, y = np.concatenate(pieces).astype(float), np.concatenate([data.y, data.y_test])
    found = fl.counted(fl.measure(fl.minimise(X, y, l2=l2), X, y), 1.0, shape, most=3)
    assert found.eta[0] == pytest.approx(expected, abs=0.01)


@pytest.mark.long
def test_digits(data_folder: Any) -> None:
    X, y, _, _ = image_features("mnist", data_folder)
    found = fl.counted(fl.measure(fl.minimise(X, y, "logistic", 8e-4), X, y), 1.0, most=1)
    assert found.eta[0] == pytest.approx(16.3, abs=0.05)
