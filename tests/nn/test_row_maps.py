"""Networks as maps of rows: what is no such map is refused by name, and how inputs lie in memory does not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fisherleak as fl

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


class Centred(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Takes the mean of the batch away: rows touch each other, and one row alone is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.linear(x - x.mean(0, keepdim=True))


class Drops(nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """Draws numbers without a layer that says so."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return nn.functional.dropout(self.linear(x), 0.5, training=self.training)


def rows(n: int = 6) -> Any:
    return torch.randn(n, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("which", [[0, 0, 1], [0], [0, 1, 2]])
def test_rows_that_touch_each_other_are_refused_whatever_the_rows(which: list[int]) -> None:
    X = rows()[which]
    with pytest.raises(fl.InvalidInputError, match="mixes the rows of a batch"):
        fl.nn.encoding(Centred(), X, fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="mixes the rows of a batch"):
        fl.nn.SGDAccountant(Centred(), nn.CrossEntropyLoss(), 0.1, 1.0, 1.0).watch(X, torch.zeros(len(X)).long())


def test_chance_is_refused_in_training_and_not_in_evaluation() -> None:
    torch.manual_seed(0)
    X, y, loss = rows(), torch.arange(6) % 3, nn.CrossEntropyLoss()
    layers: tuple[Any, ...] = (nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.BatchNorm1d(4), nn.RReLU())
    for layer in layers:
        module = nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3))
        for make in (
            lambda m=module: fl.nn.encoding(m, X, fl.Gaussian(1.0)),
            lambda m=module: fl.nn.SGDAccountant(m, loss, 0.1, 1.0, 1.0),
        ):
            with pytest.raises(fl.InvalidInputError, match=f"{type(layer).__name__} differs by batch"):
                make()
        assert float(fl.nn.encoding(module.eval(), X, fl.Gaussian(1.0)).per_example().min()) > 0
    drops = Drops()
    with pytest.raises(fl.InvalidInputError, match="module is random"):
        fl.nn.encoding(drops, X, fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="module is random"):
        fl.nn.SGDAccountant(drops, loss, 0.1, 1.0, 1.0).watch(X, y)
    assert float(fl.nn.encoding(drops.eval(), X, fl.Gaussian(1.0)).per_example().min()) > 0


def test_what_is_no_map_of_rows_is_refused() -> None:
    X = rows()
    cases: list[tuple[Any, Any, str]] = [
        (lambda x: (x, x), X, "one tensor of real numbers for a batch; got tuple"),
        (lambda x: (x > 0).long(), X, r"one tensor of real numbers for a batch; got torch\.int64"),
        (lambda x: x.sum(), X, "one output for each row"),
        (lambda x: x.sum(0, keepdim=True), X, "one output for each row"),
        (torch.sqrt, -X.abs(), "not finite for the first row"),
    ]
    for module, inputs, message in cases:
        with pytest.raises(fl.InvalidInputError, match=message):
            fl.nn.encoding(module, inputs, fl.Gaussian(1.0))
    for width in (5, 40):
        root = fl.nn.encoding(
            lambda x, w=width: torch.sqrt(x.abs().sum(1, keepdim=True) * torch.ones(w)), 0 * X, fl.Gaussian(1.0)
        )
        with pytest.raises(fl.InvalidInputError, match="derivative of module is not finite"):
            root.per_example()


def test_how_inputs_lie_in_memory_does_not_matter() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    X = torch.randn(6, 2, 6, 6, dtype=torch.float64)
    expected = fl.nn.encoding(module, X, fl.Gaussian(1.0)).map()
    for other in (
        X.to(memory_format=torch.channels_last),
        X.transpose(2, 3).contiguous().transpose(2, 3),
        torch.stack([X, X], dim=-1)[..., 0],
        X.clone().requires_grad_(),
    ):
        found = fl.nn.encoding(module, other, fl.Gaussian(1.0)).map()
        assert not found.requires_grad
        torch.testing.assert_close(found, expected)
    backwards = fl.nn.encoding(module, X.numpy()[::-1], fl.Gaussian(1.0)).map()
    np.testing.assert_allclose(backwards[::-1], expected.numpy())


def test_dead_units_and_equal_inputs() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 4), nn.ReLU()).double()
    with torch.no_grad():
        module[0].bias[:3] = -100.0
        module[0].bias[3] = 100.0
    X = rows().repeat(4, 1).numpy()
    y = np.tile([0, 1, 2], 8)
    seen = fl.nn.on(module, X)
    leak: Any = fl.measure(fl.minimise(seen.features, y, "softmax", 0.1), seen, y)
    etas = leak.per_example().reshape(4, 6)
    np.testing.assert_allclose(etas, np.tile(etas[:1], (4, 1)), rtol=1e-12)
    with torch.no_grad():
        module[0].bias[3] = -100.0
    seen = fl.nn.on(module, X)
    leak = fl.measure(fl.minimise(seen.features, y, "softmax", 0.1), seen, y)
    assert leak.map().max() == 0.0
    assert leak.per_example().max() == 0.0  # features of zero: neither the input nor its label moves anything
    embedded: Any = fl.nn.encoding(module, X, fl.Gaussian(1.0))
    assert embedded.per_example().max() == 0.0
    with pytest.raises(fl.InvalidInputError, match="eta is zero without any noise"):
        fl.calibrate(embedded, eta=1.0)
