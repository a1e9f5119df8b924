from __future__ import annotations

from typing import Any

import pytest

import fisherleak as fl

torch = pytest.importorskip("torch", reason="torch is not installed")


def run(noise: float) -> Any:
    """Three noisy full steps of a small model, from the same seeds."""
    torch.manual_seed(0)
    model, loss = torch.nn.Linear(3, 2).double(), torch.nn.CrossEntropyLoss()
    X, y = torch.randn(10, 3, dtype=torch.float64), torch.randint(0, 2, (10,))
    accountant = fl.nn.SGDAccountant(model, loss, 0.2, noise, 0.5).watch(X, y)
    for _ in range(3):
        accountant.step()
        with torch.no_grad():
            for p in model.parameters():
                p += 0.05 * noise * torch.randn(p.shape, dtype=p.dtype)
    return accountant


@pytest.mark.parametrize("over", ["max", "mean"])
@pytest.mark.parametrize("limit", [0.05, 5.0])
def test_the_multiplier_was_run_and_keeps_the_limit(over: str, limit: float) -> None:
    noise = fl.nn.noise_for(run, limit, over)
    etas = run(noise).per_example()
    found = float(etas.max() if over == "max" else etas.mean())
    assert 0.9 * limit <= found <= limit


def test_a_limit_that_no_run_keeps_is_an_error() -> None:
    with pytest.raises(fl.FisherleakError, match="No noise multiplier"):
        fl.nn.noise_for(run, 1e-9, rounds=1)
    with pytest.raises(fl.InvalidInputError, match="over must be one of"):
        fl.nn.noise_for(run, 1.0, "median")
