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
