"""Gradients of single examples in places where they are short, clipped to nothing, drowned in noise, or cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

import fisherleak as fl

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


def network(dtype: Any = None) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    X, y = torch.randn(6, 5, dtype=torch.float64), torch.arange(6) % 3
    return model.to(dtype or torch.float64), X, y


def etas(model: Any, X: Any, y: Any, rate: float = 0.1, noise: float = 1.0, clip: float = 1.0, **options: Any) -> Any:
    accountant = fl.nn.SGDAccountant(model, nn.CrossEntropyLoss(), rate, noise, clip, **options).watch(X, y)
    accountant.step()
    return accountant.per_example()


@pytest.mark.parametrize("keep", ["matrix", "norm"])
def test_dead_units_and_gradients_of_zero(keep: str) -> None:
    model, X, y = network()
    dead = nn.Sequential(model[0], nn.ReLU(), model[2])
    with torch.no_grad():
        dead[0].bias.fill_(-100.0)
    assert float(etas(dead, X, y, keep=keep).max()) == 0.0
    linear = nn.Linear(5, 1, bias=False).double()
    exact = linear(X)[:, 0].detach()
    accountant = fl.nn.SGDAccountant(
        linear, lambda out, t: 0.5 * ((out[:, 0] - t) ** 2).mean(), 1.0, 1.0, 1.0, keep=keep
    )
    accountant.watch(X, exact).step()
    # g = 0 at x, and J = x w^T
    expected = torch.linalg.vector_norm(X, dim=1) * torch.linalg.vector_norm(linear.weight.detach())
    torch.testing.assert_close(accountant.per_example(), expected, rtol=2e-3, atol=0)


def test_rates_noise_and_clips_at_their_ends() -> None:
    model, X, y = network()
    whole = etas(model, X, y, rate=1.0)
    torch.testing.assert_close(etas(model, X, y, rate=1 - 1e-9), whole, rtol=1e-6, atol=0)
    # far below the noise, information goes with the square of the rate
    short = etas(model, X, y, rate=1.0, noise=1e6)
    torch.testing.assert_close(etas(model, X, y, rate=0.01, noise=1e6), 0.01 * short, rtol=1e-5, atol=0)
    torch.testing.assert_close(short * 1e6, whole, rtol=1e-9, atol=0)
    # far above it, batches show who is in
    loud = etas(model, X, y, rate=0.01, noise=1e-6)
    torch.testing.assert_close(loud, etas(model, X, y, rate=0.01, noise=1e-6, sampling="fixed"), rtol=1e-6, atol=0)
    # only directions are left of gradients that are clipped to nothing, whatever the clip
    torch.testing.assert_close(etas(model, X, y, clip=1e-9), etas(model, X, y, clip=1e-12), rtol=1e-9, atol=0)
    one = etas(model, X[:1], y[:1], batch=1)
    torch.testing.assert_close(one, etas(model, X, y)[:1], rtol=1e-12, atol=0)
    for noise, clip in ((1.0, 1e-300), (1e200, 1.0)):
        with pytest.raises(fl.InvalidInputError, match="must lie between 1e-100 and 1e"):
            etas(model, X, y, noise=noise, clip=clip)


def test_a_network_in_float32_with_noise_outside_its_range() -> None:
    """1 / s^2 is 1e50 there, past the largest number of float32."""
    single, X, y = network(torch.float32)
    double, *_ = network()
    for clip in (1.0, 1e-25):
        found = etas(single, X, y, noise=1e-25, clip=clip, keep="norm")
        assert bool(torch.isfinite(found).all())
        torch.testing.assert_close(found, etas(double, X, y, noise=1e-25, clip=clip, keep="norm"), rtol=2e-3, atol=0)


def test_equal_examples_have_equal_etas_however_they_lie_in_memory() -> None:
    model, X, y = network()
    twice = etas(model, X[[0, 0, 1]], y[[0, 0, 1]], keep="norm")
    assert float(twice[0]) == float(twice[1])
    # products of another layout may round otherwise
    torch.testing.assert_close(etas(model, X.T.contiguous().T, y), etas(model, X, y), rtol=1e-13, atol=0)


def test_what_has_no_gradient_is_refused() -> None:
    model, X, y = network()
    with pytest.raises(fl.InvalidInputError, match=r"model or loss says: .*out of bounds"):
        etas(model, X, y + 7)
    with pytest.raises(fl.InvalidInputError, match="X must be finite"):
        etas(model, X * float("nan"), y)
    with pytest.raises(fl.InvalidInputError, match="is not finite: look at its label"):
        fl.nn.SGDAccountant(nn.Linear(5, 1), lambda out, t: ((out - t) ** 2).sum(), 0.1, 1.0, 1.0).watch(
            X, y * float("nan")
        )
    for rows, message in (
        ([9], "rows must be from 0 to 5"),
        ([1, 1], "must not repeat"),
        ([0.5], "rows must be a mask"),
    ):
        with pytest.raises(fl.InvalidInputError, match=message):
            fl.nn.SGDAccountant(model, nn.CrossEntropyLoss(), 0.1, 1.0, 1.0).watch(X, y, rows=rows)


def test_a_model_that_is_put_into_training_mode_later_is_refused_then() -> None:
    _, X, y = network()
    model = nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 3)).eval()
    accountant = fl.nn.SGDAccountant(model, nn.CrossEntropyLoss(), 0.1, 1.0, 1.0).watch(X, y)
    accountant.step()
    model.train()
    with pytest.raises(fl.InvalidInputError, match="Dropout differs by batch"):
        accountant.step()
