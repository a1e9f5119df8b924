""""""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fisherleak as fl

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


def network(features: int) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, features), nn.Tanh())


def data(n: int = 90) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1, 4, 4))
    return X, (X[:, 0, 0].sum(axis=1) + rng.normal(size=n) > 0) * 1.0


def dense(module: Any, X: Any) -> Any:
    module = module.double().requires_grad_(False)
    inputs = torch.as_tensor(X)
    return np.stack([torch.func.jacrev(lambda x: module(x[None])[0])(x).reshape(-1, 16).numpy() for x in inputs])


@pytest.mark.parametrize("features", [5, 40])
@pytest.mark.parametrize("label", [True, False])
def test_etas_are_those_of_the_chained_jacobian(features: int, label: bool) -> None:
    module, (X, y) = network(features), data()
    seen = fl.nn.on(module, X)
    leak: Any = fl.measure(fl.minimise(seen.features, y, "logistic", 0.05, intercept=True), seen, y, fl.Gaussian(0.3))
    D = dense(module, X)
    inner = leak.features
    R = np.asarray(inner._information.written_out(inner._information.attributes, True, None)) / 0.3
    J = R[:, :, :-1] @ D
    J = np.concatenate([J, R[:, :, -1:]], axis=2) if label else J
    np.testing.assert_allclose(leak.per_example(label=label), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-8)
    if not label:
        np.testing.assert_allclose(leak.map(), np.linalg.norm(J, axis=1).reshape(-1, 4, 4), rtol=1e-8)
        whole = np.linalg.norm(J.transpose(1, 0, 2).reshape(J.shape[1], -1), 2)
        np.testing.assert_allclose(leak.of(label=False), whole, rtol=1e-8)


def test_the_derivative_is_that_of_a_refit() -> None:
    """Move one input, refit the head: the parameters move by J times the move."""
    module, (X, y) = network(5), data()
    seen = fl.nn.on(module, X)
    fit = fl.minimise(seen.features, y, "logistic", 0.05)
    leak: Any = fl.measure(fit, seen, y)
    direction, h, row = np.random.default_rng(1).normal(size=(4, 4)), 1e-5, 7
    moved = []
    for sign in (1, -1):
        other = X.copy()
        other[row, 0] += sign * h * direction
        moved.append(fl.minimise(fl.nn.Features(module)(other), y, "logistic", 0.05).coef)
    J = leak._information.written_out(leak._information.attributes, False, [row])[0]
    np.testing.assert_allclose(J @ direction.ravel(), (moved[0] - moved[1]) / (2 * h), rtol=1e-5, atol=1e-9)


def test_heads_of_scikit_learn_and_torch_agree_with_the_exact_minimiser() -> None:
    module, (X, y) = network(5), data()
    seen = fl.nn.on(module, X)
    exact = fl.measure(fl.minimise(seen.features, y, "logistic", 0.05, intercept=True), seen, y)
    learned = LogisticRegression(C=1 / (0.05 * len(y)), tol=1e-10, max_iter=1000).fit(seen.features, y)
    np.testing.assert_allclose(fl.measure(learned, seen, y).per_example(), exact.per_example(), rtol=1e-6)
    linear = nn.Linear(5, 1).double()
    inputs, labels = torch.as_tensor(seen.features), torch.as_tensor(y)
    optimizer = torch.optim.LBFGS(linear.parameters(), max_iter=200, tolerance_grad=1e-6)

    def objective() -> Any:
        optimizer.zero_grad()
        value = nn.functional.binary_cross_entropy_with_logits(linear(inputs)[:, 0], labels)
        value = value + 0.025 * (linear.weight**2).sum()
        value.backward()
        return value

    with pytest.raises(fl.NotAtMinimumError, match="linear is"):
        fl.nn.head(linear, seen.features, y, "logistic", 0.05)
    optimizer.step(objective)
    fit = fl.nn.head(linear, seen.features, y, "logistic", 0.05)
    np.testing.assert_allclose(fl.measure(fit, seen, y).per_example(), exact.per_example(), rtol=1e-6)


def test_tensors_in_tensors_out_and_float32_networks_behind_a_float64_head() -> None:
    module, (X, y) = network(5), data()
    arrays = fl.nn.on(module, X)
    inputs, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    tensors = fl.nn.on(module, inputs)
    assert tensors.features.dtype == torch.float64
    leaks = [
        fl.measure(fl.minimise(s.features, t, "logistic", 0.05), s, t) for s, t in ((arrays, y), (tensors, labels))
    ]
    np.testing.assert_allclose(leaks[1].per_example().numpy(), leaks[0].per_example(), rtol=1e-5)


def test_noise_regions_groups_and_digest() -> None:
    module, (X, y) = network(40), data()
    seen = fl.nn.on(fl.nn.Features(module), X)
    leak: Any = fl.measure(fl.minimise(seen.features, y, "logistic", 0.05), seen, y)
    quiet = leak.with_noise(fl.calibrate(leak, eta=0.1))
    assert 0.1 * (1 - 1e-6) < quiet.per_example().max() <= 0.1
    mask = np.zeros((1, 4, 4), dtype=bool)
    mask[0, :2, :2] = True
    np.testing.assert_allclose(leak.region(mask), leak.map(2)[:, 0, 0], rtol=1e-8)
    groups = leak.by_group(y)
    assert max(groups.values()) <= leak.dataset() * (1 + 1e-9)
    assert (leak.per_example() <= max(groups.values()) * (1 + 1e-9)).all()
    assert "a head on a frozen network" in leak.summary()
    assert leak.fim([3]).shape == (17, 17)
    np.testing.assert_allclose(leak.membership(), leak.features.membership())
    np.testing.assert_allclose(leak.per_label(), leak.features.per_label(), rtol=1e-10)
    with pytest.raises(fl.InvalidInputError, match="takes such heads only"):
        fl.compose(leak, quiet.features)


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


def test_a_row_takes_its_part_of_the_mean_penalty_with_it() -> None:
    rng = np.random.default_rng(0)
    X, y, l2 = rng.normal(size=(30, 2)), rng.normal(size=30), 0.7
    coef = np.linalg.solve(X.T @ X + 30 * l2 * np.eye(2), X.T @ y)
    linear = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
    linear.weight.data[0] = torch.as_tensor(coef)
    features = torch.as_tensor(X)
    fit = fl.nn.head(linear, features, y, loss="squared", l2=l2)
    found = np.asarray(fl.measure(fit, features, y, noise=fl.Gaussian(1.0)).membership())
    rest = [np.delete(np.arange(30), i) for i in range(30)]
    left = [np.linalg.solve(X[r].T @ X[r] + 29 * l2 * np.eye(2), X[r].T @ y[r]) for r in rest]
    np.testing.assert_allclose(found, np.linalg.norm(np.array(left) - coef, axis=1), rtol=1e-9)
