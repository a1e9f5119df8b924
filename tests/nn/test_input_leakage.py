from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fisherleak as fl
from fisherleak.nn.heads import Whitening
from fisherleak.nn.row_maps import derivatives

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


def network(outputs: int = 40) -> Any:
    """A small convolutional encoder of 6 x 6 pictures of one channel."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, outputs), nn.Tanh()]
    return nn.Sequential(*layers)


def pictures(n: int = 5) -> Any:
    return torch.randn(n, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def dense(module: Any, X: Any) -> Any:
    """D_i written out by torch's own way, (n, k, 36)."""
    module = module.double()
    return torch.stack([torch.func.jacrev(lambda x: module(x[None])[0])(x.double()).reshape(-1, 36) for x in X])


@pytest.mark.parametrize("outputs", [3, 40])
def test_eta_is_the_norm_of_the_derivative_over_the_scale(outputs: int) -> None:
    module, X = network(outputs), pictures()
    leak = fl.nn.encoding(module, X, fl.Gaussian(0.5))
    expected = torch.linalg.matrix_norm(dense(module, X), ord=2) / 0.5
    torch.testing.assert_close(leak.per_example(), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("outputs", [3, 40])
def test_noise_with_a_shape_whitens_the_derivative(outputs: int) -> None:
    module, X = network(outputs), pictures()
    root = np.random.default_rng(0).normal(size=(outputs, outputs))
    noise = fl.Gaussian(2.0, root @ root.T + np.eye(outputs))
    W = torch.as_tensor(noise.unit_information_root(outputs))
    expected = torch.linalg.matrix_norm(W @ dense(module, X), ord=2) / 2.0
    leak = fl.nn.encoding(module, X, fl.Gaussian(1.0)).with_noise(noise)
    torch.testing.assert_close(leak.per_example(), expected, rtol=1e-9, atol=0)


def test_releases_of_many_values_are_decided_on_the_side_of_the_outputs() -> None:
    """R of shape (q, k) with q far above k, as a head of several classes has."""
    module, X = network(3), pictures()
    R = torch.as_tensor(np.random.default_rng(0).normal(size=(1, 20, 3)))
    through = replace(fl.nn.encoding(module, X, fl.Gaussian(1.0))._information, after=Whitening(R))
    expected = torch.linalg.matrix_norm(R @ dense(module, X), ord=2)
    torch.testing.assert_close(through.example_norms(through.attributes, False), expected, rtol=1e-9, atol=0)


def test_maps_are_norms_of_the_columns_of_patches() -> None:
    module, X = network(), pictures()
    leak = fl.nn.encoding(module, X, fl.Gaussian(0.5))
    D = dense(module, X).reshape(5, 40, 6, 6) / 0.5
    torch.testing.assert_close(leak.map(), torch.linalg.vector_norm(D, dim=1), rtol=1e-10, atol=0)
    coarse = leak.map(patch=4)  # the patches at the far edge are smaller
    assert coarse.shape == (5, 2, 2)
    far = torch.linalg.matrix_norm(D[:, :, 4:, :4].reshape(5, 40, -1), ord=2)
    torch.testing.assert_close(coarse[:, 1, 0], far, rtol=1e-9, atol=0)
    mask = np.zeros((1, 6, 6), dtype=bool)
    mask[0, 4:, :4] = True
    torch.testing.assert_close(leak.region(mask), far, rtol=1e-9, atol=0)


def test_channels_of_a_patch_go_together() -> None:
    X = np.random.default_rng(0).normal(size=(2, 3, 4, 4))
    leak = fl.nn.encoding(nn.Flatten(), X, fl.Gaussian(1.0))
    np.testing.assert_allclose(leak.map(), np.ones((2, 4, 4)), rtol=1e-12)
    assert leak.map(2).shape == (2, 2, 2)


def test_inputs_are_released_one_by_one() -> None:
    leak = fl.nn.encoding(network(), pictures(), fl.Gaussian(0.5))
    etas = leak.per_example().numpy()
    assert leak.dataset() == etas.max()
    assert leak.of([1, 3]) == etas[[1, 3]].max()
    assert leak.by_group(["a", "b", "a", "b", "b"]) == {"a": etas[[0, 2]].max(), "b": etas[[1, 3, 4]].max()}
    F = leak.fim([0, 1], ["x0", "x7"])
    assert F.shape == (4, 4)
    assert (F[:2, 2:] == 0).all()
    np.testing.assert_allclose(np.linalg.eigvalsh(leak.fim([2]).numpy())[-1] ** 0.5, etas[2], rtol=1e-10)


@pytest.mark.parametrize("outputs", [3, 40])
@pytest.mark.parametrize("over", ["max", "mean"])
def test_calibrated_noise_keeps_the_limit(outputs: int, over: str) -> None:
    leak = fl.nn.encoding(network(outputs), pictures(), fl.Gaussian(1.0))
    quiet = leak.with_noise(fl.calibrate(leak, eta=0.1, over=over))
    found = float(quiet.per_example().max() if over == "max" else quiet.per_example().mean())
    assert 0.1 * (1 - 1e-8) < found <= 0.1


def test_the_certificate_is_above_a_norm_that_is_too_small() -> None:
    leak = fl.nn.encoding(network(), pictures(), fl.Gaussian(1.0))
    true = float(leak.per_example()[0])
    attributes = leak._information.attributes
    for claimed in (true, 0.9 * true):
        assert true <= leak._information.certain(attributes, False, 0, claimed) <= true * (1 + 1e-9)


def test_results_are_of_the_kind_of_the_inputs() -> None:
    X = pictures()
    array = fl.nn.encoding(network(), X.numpy(), fl.Gaussian(1.0)).per_example()
    assert isinstance(array, np.ndarray)
    np.testing.assert_array_equal(array, fl.nn.encoding(network(), X, fl.Gaussian(1.0)).per_example().numpy())


def test_the_network_is_left_as_it_was() -> None:
    module = network()
    fl.nn.encoding(module, pictures(), fl.Gaussian(1.0)).per_example()
    assert all(p.dtype == torch.float32 and p.requires_grad and p.grad is None for p in module.parameters())


def test_attention_has_products_too() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    X = torch.randn(2, 5, 8)
    leak = fl.nn.encoding(layer, X, fl.Gaussian(1.0))
    module = layer.double().requires_grad_(False)
    with derivatives():
        J = torch.func.jacrev(lambda x: module(x[None])[0])(X[0].double()).reshape(40, 40)
    np.testing.assert_allclose(float(leak.per_example()[0]), float(torch.linalg.matrix_norm(J, ord=2)), rtol=1e-9)


def test_the_digest_says_what_holds() -> None:
    leak = fl.nn.encoding(network(), pictures(), fl.Gaussian(1.0))
    assert "an embedding with noise Gaussian(scale=1.0)" in leak.summary()
    assert "first order" in leak.summary()
    assert repr(leak) == "Encoded(5 inputs of shape (1, 6, 6), Gaussian(scale=1.0))"


def test_what_cannot_be_measured_is_refused() -> None:
    X = pictures()
    with pytest.raises(fl.InvalidInputError, match="Dropout differs by batch"):
        fl.nn.encoding(nn.Sequential(nn.Flatten(), nn.Dropout(0.5)), X, fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="mixes the rows"):
        fl.nn.encoding(lambda x: x.flatten(1) - x.flatten(1).mean(0), X, fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="X must be finite"):
        fl.nn.encoding(network(), X * float("nan"), fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="module must be a torch module"):
        fl.nn.encoding(3, X, fl.Gaussian(1.0))
    leak = fl.nn.encoding(network(), X, fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="patch must be a whole number"):
        leak.map(0)
    with pytest.raises(fl.InvalidInputError, match="no label"):
        leak.per_label()
    with pytest.raises(fl.InvalidInputError, match="mask must be true somewhere"):
        leak.region(np.zeros((6, 6)))
    with pytest.raises(fl.InvalidInputError, match="membership"):
        leak.membership()
