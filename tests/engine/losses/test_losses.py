from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cases
import fisherleak as fl
from fisherleak.engine.losses import OF_SEVERAL, Loss, check_quadratic
from fisherleak.engine.losses.multi_output import CLASS_TARGETS, ONE_AGAINST_REST, SOFTMAX

SEVERAL = [*OF_SEVERAL.values(), CLASS_TARGETS, ONE_AGAINST_REST]
LABELS = {
    "squared": (-3.0, 4.0),
    "pseudo_huber": (-3.0, 4.0),
    "logistic": (0.0, 1.0),
    "poisson": (0.0, 7.0),
    "gamma": (0.1, 5.0),
}
EVERY_LOSS = sorted(fl.LOSSES)


def test_every_loss_is_tested() -> None:
    assert set(LABELS) == set(fl.LOSSES)


@pytest.mark.parametrize("name", EVERY_LOSS)
@given(z=st.floats(-6, 6), part=st.floats(0, 1))
def test_derivatives_are_those_of_the_value(name: str, z: float, part: float) -> None:
    loss = fl.LOSSES[name]
    low, high = LABELS[name]
    y = np.array([low + part * (high - low)])
    h = 1e-5
    at = [np.array([z + k * h]) for k in (-1, 0, 1)]
    r = (loss.value(at[2], y) - loss.value(at[0], y)) / (2 * h)
    a = (loss.r(at[2], y) - loss.r(at[0], y)) / (2 * h)
    c = (loss.r(at[1], y + h) - loss.r(at[1], y - h)) / (2 * h)
    size = 1.0 + float(np.abs(loss.value(at[1], y))[0])
    np.testing.assert_allclose(loss.r(at[1], y), r, atol=1e-8 * size, rtol=1e-7)
    np.testing.assert_allclose(loss.a(at[1], y), a, atol=1e-8 * size, rtol=1e-7)
    np.testing.assert_allclose(loss.c(at[1], y), c, atol=1e-8 * size, rtol=1e-7)


def _labels(loss: Loss, count: int, K: int) -> np.ndarray:
    rng = np.random.default_rng(K)
    return rng.integers(0, K, count) * 1.0 if loss.classes else rng.normal(size=(count, K))


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("loss", SEVERAL, ids=lambda loss: f"{loss.name}-{'classes' if loss.classes else 'numbers'}")
def test_derivatives_of_several_outputs_are_those_of_the_value(loss: Loss, K: int) -> None:
    assert loss.frame is not None
    z, Q, h = np.random.default_rng(1).normal(size=(40, K)), loss.frame(K), 1e-5
    y = _labels(loss, 40, K)
    r = np.stack([(loss.value(z + h * e, y) - loss.value(z - h * e, y)) / (2 * h) for e in np.eye(K)], axis=1)
    a = np.stack([(loss.r(z + h * q, y) - loss.r(z - h * q, y)) @ Q / (2 * h) for q in Q.T], axis=2)
    np.testing.assert_allclose(loss.r(z, y), r, atol=1e-8)
    np.testing.assert_allclose(loss.a(z, y), a, atol=1e-8)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-14)
    # what lies outside the frame moves no gradient
    np.testing.assert_allclose(loss.r(z, y) @ (np.eye(K) - Q @ Q.T), 0.0, atol=1e-14)
    assert SOFTMAX.frame is not None
    in_frame = SOFTMAX.frame(K)
    by_label = Q @ loss.c(z, y)[0]  # dr/dy, for all rows alike
    for j in range(K):
        if loss.classes:
            # class 0 becomes class j: a one-hot vector moves where its sum stays, and codes of -1 and 1 move by two of theirs
            codes, moved = 2.0 if loss is CLASS_TARGETS else 1.0, np.eye(K)[j] - np.eye(K)[0]
            move = loss.r(z, np.full(40, float(j))) - loss.r(z, np.zeros(40))
            along = codes * in_frame.T @ moved
        else:
            move, along = (loss.r(z, y + h * np.eye(K)[j]) - loss.r(z, y - h * np.eye(K)[j])) / (2 * h), np.eye(K)[j]
        np.testing.assert_allclose(move, np.broadcast_to(by_label @ along, move.shape), atol=1e-8)


@pytest.mark.parametrize("far", [-1e4, -700.0, 0.0, 700.0, 1e4])
@pytest.mark.parametrize("loss", SEVERAL, ids=lambda loss: f"{loss.name}-{'classes' if loss.classes else 'numbers'}")
def test_nothing_overflows_with_several_outputs(loss: Loss, far: float) -> None:
    z, y = far * np.eye(3), _labels(loss, 3, 3)
    for function in (loss.value, loss.r, loss.a, loss.c):
        assert np.isfinite(function(z, y)).all()
    assert np.linalg.eigvalsh(loss.a(z, y)).min() >= -1e-15


def test_a_loss_of_two_outputs_from_outside_is_fitted_by_its_record() -> None:
    """Pseudo-Huber of two numbers at once is two fits."""
    X, Y = np.random.default_rng(0).normal(size=(40, 2)), np.random.default_rng(1).normal(size=(40, 2))
    one = fl.pseudo_huber(0.7)
    both = fl.Loss(
        name="two numbers",
        value=lambda z, y: one.value(z, y).sum(axis=1),
        r=one.r,
        a=lambda z, y: one.a(z, y)[:, :, None] * np.eye(2),
        c=lambda z, y: -np.eye(2)[None],
        labels=one.labels,
        frame=np.eye,
    )
    fit = fl.minimise(X, Y, loss=both, l2=0.1, intercept=True)
    for k in range(2):
        alone = fl.minimise(X, Y[:, k], loss=one, l2=0.1, intercept=True)
        np.testing.assert_allclose(fit.coef[k], alone.coef, rtol=1e-9)
        np.testing.assert_allclose(np.asarray(fit.intercept)[k], alone.intercept, rtol=1e-9)


def _two_numbers(**changed: Any) -> Loss:
    """Half the squared error of two numbers, the second of which counts nine times, as a record from outside."""
    sizes = np.array([1.0, 9.0])
    record: dict[str, Any] = {
        "name": "two numbers, one of more weight",
        "value": lambda z, y: 0.5 * ((z - y) ** 2 @ sizes),
        "r": lambda z, y: (z - y) * sizes,
        "a": lambda z, y: np.broadcast_to(np.diag(sizes), (z.shape[0], 2, 2)),
        "c": lambda z, y: -np.diag(sizes)[None],
        "labels": OF_SEVERAL["squared"].labels,
        "frame": np.eye,
        "quadratic": True,
    }
    return fl.Loss(**{**record, **changed})


def test_own_quadratic_losses_of_several_outputs_are_measured_by_their_own_curvature() -> None:
    X, Y = np.random.default_rng(0).normal(size=(40, 2)), np.random.default_rng(1).normal(size=(40, 2))
    loss = _two_numbers()
    fit = fl.minimise(X, Y, loss=loss, l2=0.1)
    label = fl.measure(fit, X, Y, fl.Gaussian(1.0)).per_example([], label=True)
    moved = []
    for j in range(2):
        higher = Y.copy()
        higher[3, j] += 1e-3
        moved.append((fl.minimise(X, higher, loss=loss, l2=0.1).theta - fit.theta) / 1e-3)
    assert label[3] == pytest.approx(np.linalg.norm(np.stack(moved), 2), rel=1e-6)
    # mechanisms that the data shape know the package's squared loss alone: of this one they would say too little
    for mechanism in (fl.Posterior(1.0), fl.ObjectivePerturbation(1.0)):
        with pytest.raises(fl.UnsupportedModelError, match="squared loss"):
            fl.measure(fit, X, Y, mechanism)
        with pytest.raises(fl.UnsupportedModelError, match="squared loss"):
            fl.release(fit, mechanism, random_state=0)


@pytest.mark.parametrize("mechanism", [fl.Posterior(1.0), fl.ObjectivePerturbation(1.0)])
def test_ridge_on_classes_is_no_model_of_several_numbers(mechanism: Any) -> None:
    from sklearn.linear_model import RidgeClassifier

    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.repeat([0, 1, 2], 20)
    with pytest.raises(fl.UnsupportedModelError, match="squared loss"):
        fl.measure(RidgeClassifier().fit(X, y), X, y, mechanism)


@pytest.mark.parametrize(
    "c",
    [
        lambda z, y: -np.eye(2)[None],  # another matrix
        lambda z, y: np.broadcast_to(-np.diag([1.0, 9.0]), (z.shape[0], 2, 2)),  # one for each row
    ],
)
def test_a_label_derivative_that_is_not_that_of_every_row_is_refused(c: Any) -> None:
    X, Y = np.random.default_rng(0).normal(size=(40, 2)), np.random.default_rng(1).normal(size=(40, 2))
    fit = fl.minimise(X, Y, loss=_two_numbers(c=c), l2=0.1)
    with pytest.raises(fl.UnsupportedModelError, match="correct c, or fit each output by itself"):
        fl.measure(fit, X, Y, fl.Gaussian(1.0))
    # of the pseudo-Huber loss c differs from row to row, and no one matrix is right
    one = fl.pseudo_huber(0.7)
    parts = {"value": lambda z, y: one.value(z, y).sum(axis=1), "r": one.r, "quadratic": False}
    both = _two_numbers(**parts, a=lambda z, y: one.a(z, y)[:, :, None] * np.eye(2), c=lambda z, y: -np.eye(2)[None])
    fit = fl.minimise(X, Y, loss=both, l2=0.1)
    with pytest.raises(fl.UnsupportedModelError, match="correct c, or fit each output by itself"):
        fl.measure(fit, X, Y, fl.Gaussian(1.0))


OWN = [(loss, 1) for loss in fl.LOSSES.values()] + [(loss, 3) for loss in SEVERAL]


@pytest.mark.parametrize(("loss", "K"), OWN, ids=lambda given: getattr(given, "name", given))
def test_what_is_said_to_be_quadratic_is_and_nothing_else(loss: Loss, K: int) -> None:
    """Curvature and label derivative at random predictors and labels, and the check that a copy from outside passes or fails."""
    rng = np.random.default_rng(0)
    z = 3.0 * rng.normal(size=(50, K) if loss.several else 50)
    y = _labels(loss, 50, K) if loss.several else rng.choice(LABELS[loss.name], 50)
    same = all(np.ptp(found, axis=0).max() < 1e-12 for found in (loss.a(z, y), loss.c(z, y)))
    assert loss.quadratic == same
    copy = dataclasses.replace(loss, name="own", quadratic=True)
    if loss.quadratic:
        check_quadratic(copy, K, z)
    else:
        with pytest.raises(
            fl.UnsupportedModelError, match=r"quadratic=True of the loss 'own' .*: leave quadratic out\.$"
        ):
            check_quadratic(copy, K, z)


@pytest.mark.parametrize("K", [1, 2])
def test_a_loss_that_is_not_quadratic_cannot_say_so(K: int) -> None:
    """One Newton step is no minimum: etas and membership were too small."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    Y = (np.random.default_rng(1).random((60, 2)) < 0.5) * 1.0
    plain = dataclasses.replace(fl.LOSSES["logistic"], name="own") if K == 1 else cases.yes_or_no(2)
    y, own = Y[:, 0] if K == 1 else Y, dataclasses.replace(plain, quadratic=True)
    with pytest.raises(fl.UnsupportedModelError, match="its a is not: leave quadratic out"):
        fl.minimise(X, y, own, l2=1e-2)
    renamed = dataclasses.replace(fl.minimise(X, y, plain, l2=1e-2), loss=own)
    with pytest.raises(fl.UnsupportedModelError, match="its a is not: leave quadratic out"):
        fl.measure(renamed, X, y, fl.Gaussian(1.0))


def test_a_label_derivative_that_depends_on_labels_is_not_quadratic() -> None:
    own = dataclasses.replace(fl.LOSSES["squared"], name="own", c=lambda z, y: -1.0 - y)
    with pytest.raises(fl.UnsupportedModelError, match="its c is not: leave quadratic out"):
        check_quadratic(own, 1, np.ones(1))
    # labels that are none of those that are tried
    far = dataclasses.replace(fl.LOSSES["squared"], name="own", labels=fl.Labels("above 1000", lambda y: y > 1000))
    check_quadratic(far, 1, np.ones(1))


@pytest.mark.parametrize("name", EVERY_LOSS)
@pytest.mark.parametrize("z", [-1e4, -700.0, -30.0, 0.0, 30.0, 700.0, 1e4])
def test_nothing_overflows_and_curvature_is_never_negative(name: str, z: float) -> None:
    loss = fl.LOSSES[name]
    y = np.array(LABELS[name])
    at = np.full(2, z)
    for function in (loss.value, loss.r, loss.a, loss.c):
        assert np.isfinite(function(at, y)).all()
    assert (loss.a(at, y) >= 0).all()


def test_logistic_keeps_digits_where_a_difference_would_lose_them() -> None:
    loss = fl.LOSSES["logistic"]
    z = np.array([40.0])
    np.testing.assert_allclose(loss.r(z, np.ones(1)), -np.exp(-40.0), rtol=1e-12)
    np.testing.assert_allclose(loss.value(z, np.ones(1)), np.exp(-40.0), rtol=1e-12)


def test_pseudo_huber_is_squared_near_zero_and_linear_far_out() -> None:
    loss = fl.pseudo_huber(2.0)
    zero = np.zeros(1)
    np.testing.assert_allclose(loss.value(np.array([1e-6]), zero), 0.5e-12, rtol=1e-9)
    np.testing.assert_allclose(loss.r(np.array([1e9]), zero), 2.0, rtol=1e-9)


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan"), float("inf")])
def test_pseudo_huber_refuses_a_bad_delta(delta: float) -> None:
    with pytest.raises(fl.InvalidInputError, match="delta must be a finite number greater than zero"):
        fl.pseudo_huber(delta)


@pytest.mark.parametrize("name", EVERY_LOSS)
def test_an_accepted_mean_has_its_linear_predictor(name: str) -> None:
    loss = fl.LOSSES[name]
    mean = 0.5 * sum(LABELS[name])
    # at the constant model r sums to zero over labels with that mean
    z = np.full(2, loss.start(np.full(2, mean), np.ones(2)))
    np.testing.assert_allclose(loss.r(z, np.full(2, mean)), 0.0, atol=1e-12)


@pytest.mark.parametrize("name", [*fl.LOSSES, "softmax"])
def test_no_other_loss_takes_the_name_of_one_that_is_known_by_it(name: str) -> None:
    """By its name a loss would be certified as the one that has it: a sharp one named squared was, 99 times too low."""
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0])
    other = dataclasses.replace(fl.pseudo_huber(0.05), name=name, value=lambda z, y: (z - y) ** 4)
    with pytest.raises(fl.InvalidInputError, match=f"has the name '{name}'.*name of its own"):
        fl.minimise(X, y, loss=other, l2=0.1)


def test_losses_by_record_are_those_by_name() -> None:
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 1.0])
    for loss in (*fl.LOSSES.values(), fl.pseudo_huber(0.3), dataclasses.replace(fl.pseudo_huber(0.3), name="sharp")):
        if not loss.labels.binary:
            assert fl.minimise(X, y, loss=loss, l2=0.1).loss == loss


def test_no_certificate_for_a_fit_whose_loss_was_renamed() -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0) / 30
    fit = fl.minimise(X, y, loss=fl.pseudo_huber(0.05), l2=0.5)
    renamed = dataclasses.replace(fit, loss=dataclasses.replace(fit.loss, name="squared"))
    bounds = {"x0": (-3, 3), "x1": (-3, 3), "label": (0, 1)}
    with pytest.raises(fl.InvalidInputError, match="has the name 'squared'"):
        fl.calibrate(fl.measure(renamed, X, y), eta=1.0, over="any-record", bounds=bounds)


@pytest.mark.parametrize("loss", [["squared"], None, 3, {"squared"}])
def test_what_is_no_loss_is_refused_by_name(loss: Any) -> None:
    with pytest.raises(fl.InvalidInputError, match=r"loss must be one of squared, .* or a fisherleak.Loss record; got"):
        fl.minimise(np.eye(3), np.arange(3.0), loss=loss)
