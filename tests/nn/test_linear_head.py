from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


def features(n: int = 80) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, np.digitize(X[:, 0] + rng.normal(size=n), [-0.5, 0.5])


def trained(linear: Any, X: Any, y: Any, loss: Any, decay: Any) -> Any:
    """By torch's own optimiser, to about 1e-7 of the gradient."""
    inputs, labels = torch.as_tensor(X), torch.as_tensor(y)
    settings = {"max_iter": 500, "tolerance_grad": 1e-9, "tolerance_change": 1e-15, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS(linear.parameters(), **settings)

    def objective() -> Any:
        optimizer.zero_grad()
        value = loss(linear(inputs), labels) + decay(linear)
        value.backward()
        return value

    optimizer.step(objective)
    return linear


def weights_only(linear: Any) -> Any:
    return 0.5 * 0.04 * (linear.weight**2).sum()


def test_cross_entropy_with_weight_decay() -> None:
    X, y = features()
    torch.manual_seed(0)
    linear = nn.Linear(4, 3).double()
    with pytest.raises(fl.NotAtMinimumError, match="linear is"):
        fl.nn.head(linear, X, y, "softmax", 0.04)
    fit = fl.nn.head(trained(linear, X, y, nn.CrossEntropyLoss(), weights_only), X, y, "softmax", 0.04)
    exact = fl.minimise(X, y, "softmax", 0.04, intercept=True)
    np.testing.assert_allclose(fit.theta, exact.theta, atol=1e-9)
    np.testing.assert_allclose(fl.measure(fit, X, y).per_example(), fl.measure(exact, X, y).per_example(), rtol=1e-7)
    # float32, the usual way, is near enough
    single = nn.Linear(4, 3)
    single.load_state_dict(linear.state_dict())
    np.testing.assert_allclose(fl.nn.head(single, X, y, "softmax", 0.04).theta, exact.theta, atol=1e-9)


def test_weight_decay_of_an_optimiser_acts_on_the_bias_too() -> None:
    X, y = features()
    torch.manual_seed(0)
    linear = nn.Linear(4, 3).double()
    decay = 0.3

    def everything(linear: Any) -> Any:
        return 0.5 * decay * sum((p**2).sum() for p in linear.parameters())

    trained(linear, X, y, nn.CrossEntropyLoss(), everything)
    with pytest.raises(fl.NotAtMinimumError, match="linear is"):
        fl.nn.head(linear, X, y, "softmax", decay)
    fit: Any = fl.nn.head(linear, X, y, "softmax", decay, bias_l2=decay)
    np.testing.assert_allclose(fit.coef, linear.weight.detach().numpy(), atol=1e-7)
    np.testing.assert_allclose(fit.intercept, linear.bias.detach().numpy(), atol=1e-7)
    leak: Any = fl.measure(fit, X, y)
    direction, h = np.array([1.0, -2.0, 0.5, 1.0]), 1e-4
    moved = []
    for sign in (1, -1):
        other = X.copy()
        other[3] += sign * h * direction
        again = trained(nn.Linear(4, 3).double(), other, y, nn.CrossEntropyLoss(), everything)
        moved.append(fl.nn.head(again, other, y, "softmax", decay, bias_l2=decay).theta)
    J = leak._information.written_out(leak._information.attributes, False, np.array([3]))[0]
    np.testing.assert_allclose(J @ direction, (moved[0] - moved[1]) / (2 * h), rtol=1e-5, atol=1e-8)


def test_mean_squared_error_of_several_numbers() -> None:
    X, _ = features()
    Y = X @ np.random.default_rng(1).normal(size=(4, 3)) + 1.0
    torch.manual_seed(0)
    linear = trained(nn.Linear(4, 3).double(), X, Y, nn.MSELoss(), weights_only)
    l2 = 0.04 / (2 / 3)
    fit = fl.nn.head(linear, X, Y, "squared", l2)
    np.testing.assert_allclose(fit.theta, fl.minimise(X, Y, "squared", l2, intercept=True).theta, atol=1e-9)
    plain = trained(nn.Linear(4, 3, bias=False).double(), X, Y, nn.MSELoss(), weights_only)
    assert fl.nn.head(plain, X, Y, "squared", l2).intercept is None


def test_what_is_no_head_is_refused() -> None:
    X, y = features()
    binary = (y > 0) * 1.0
    cases: list[tuple[Any, Any, Any, str]] = [
        (nn.Conv2d(1, 1, 1), y, {}, "linear must be a torch.nn.Linear; got Conv2d"),
        (nn.Linear(4, 3), y, {"loss": "logistic"}, "linear has 3 outputs: loss must be one of softmax, squared"),
        (nn.Linear(4, 4), y, {"loss": "softmax"}, "all of the classes 0 to 3, as linear has 4 outputs; got 3 classes"),
        (nn.Linear(4, 2), np.ones((80, 3)), {"loss": "squared"}, "y must have 2 columns"),
        (nn.Linear(5, 3), y, {"loss": "softmax"}, "features must have 5 columns"),
        (nn.Linear(5, 1), binary, {}, "features must have 5 columns"),
        (nn.Linear(4, 1, bias=False), binary, {"bias_l2": 0.1}, "linear has no bias"),
        (nn.Linear(4, 1), binary, {"l2": -1.0}, "l2 must be"),
    ]
    for linear, labels, options, message in cases:
        with pytest.raises(fl.InvalidInputError, match=message):
            fl.nn.head(linear, X, labels, **options)
