from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn


def test_a_linear_embedding_is_rebuilt_to_its_posterior_mean() -> None:
    """And the mean error over draws of the prior is the bound, which is exact here."""
    torch.manual_seed(0)
    encoder = nn.Linear(6, 4, bias=False).double()
    X = 2.0 * torch.randn(50, 6, dtype=torch.float64)
    leak = fl.nn.encoding(encoder, X, fl.Gaussian(0.4))
    done = fl.nn.Reconstruct.encoding(leak).run(prior_sd=2.0, random_state=0)
    A = encoder.weight.detach()
    clean = X @ A.T
    noisy = clean + torch.as_tensor(fl.Gaussian(0.4).draws(50, 4, np.random.default_rng(0)))
    F = A.T @ A / 0.16
    expected = noisy @ A @ torch.linalg.inv(F + torch.eye(6) / 4.0) / 0.16
    torch.testing.assert_close(done.inputs, expected, rtol=1e-5, atol=1e-6)
    assert done.bound == pytest.approx(float(torch.linalg.inv(F + torch.eye(6) / 4.0).trace() / 6))
    error = done.error
    assert abs(float(error.mean()) - done.bound) <= 4 * float(error.std()) / 50**0.5


@pytest.mark.parametrize("scale", [0.05, 0.5, 5.0])
def test_no_attack_on_an_encoder_beats_the_bound(scale: float) -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 8)).double()
    X = torch.randn(150, 6, dtype=torch.float64)
    done = fl.nn.Reconstruct.encoding(fl.nn.encoding(encoder, X, fl.Gaussian(scale))).run(random_state=1)
    assert float(done.error.mean()) >= done.bound - 3 * float(done.error.std()) / 150**0.5
    assert float(done.error.mean()) <= 1.3  # guessing the prior's mean has an error of 1
    if scale == 0.05:
        assert float(done.error.mean()) < 0.3


def test_a_gradient_is_rebuilt() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    X, y = torch.randn(40, 5, dtype=torch.float64), torch.randint(0, 3, (40,))
    attack = fl.nn.Reconstruct.gradient(model, nn.CrossEntropyLoss(), X, y, fl.Gaussian(1e-4))
    close = attack.run(random_state=0)
    assert float(close.error.median()) < 1e-4
    far = fl.nn.Reconstruct.gradient(model, nn.CrossEntropyLoss(), X, y, fl.Gaussian(1.0)).run(random_state=0)
    assert float(far.error.mean()) >= far.bound - 3 * float(far.error.std()) / 40**0.5
    # information is inverse to the variance of the noise
    torch.testing.assert_close(close.eta * 1e-4, far.eta, rtol=1e-6, atol=0)
    other: Any = fl.Laplace(1.0)
    with pytest.raises(fl.InvalidInputError, match="without `shape`"):
        fl.nn.Reconstruct.gradient(model, nn.CrossEntropyLoss(), X, y, other)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_an_input_is_rebuilt_from_a_head(loss: str) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = (X[:, 0] > 0) * 1.0
    seen = fl.nn.on(module, X)
    leak: Any = fl.measure(fl.minimise(seen.features, y, loss, 0.1, intercept=True), seen, y, fl.Gaussian(1e-7))
    attack = fl.nn.Reconstruct.last_layer(leak, [0, 5])
    with torch.no_grad():
        refitted = attack._mean(attack._truth)
    fit = leak.fits[0]
    assert fit.intercept is not None
    np.testing.assert_allclose(refitted[1].numpy(), np.append(fit.coef, fit.intercept), rtol=1e-8)
    # the derivative of the refit is the Jacobian that was measured
    J = torch.func.jacrev(attack._mean)(attack._truth)[1, :, 1]
    np.testing.assert_allclose(
        torch.linalg.matrix_norm(J, ord=2).item() / 1e-7, leak.per_example(label=False)[5], rtol=1e-6
    )
    close = attack.run(random_state=0)
    assert float(close.error.max()) < 0.05
    quiet = fl.nn.Reconstruct.last_layer(leak.with_noise(fl.Gaussian(10.0)), [0, 5]).run(
        random_state=0, limits=(-0.1, 0.1)
    )
    assert np.abs(quiet.inputs).max() <= 0.1


def classes_and_numbers(X: Any, loss: str) -> Any:
    codes = np.digitize(X[:, 0], [-0.4, 0.4])
    return codes if loss == "softmax" else np.column_stack([codes, X[:, 1] ** 2])


@pytest.mark.parametrize("loss", ["softmax", "squared"])
def test_an_input_is_rebuilt_from_a_head_of_several_outputs(loss: str) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    X = np.random.default_rng(0).normal(size=(40, 3))
    y, seen = classes_and_numbers(X, loss), fl.nn.on(module, X)
    leak: Any = fl.measure(fl.minimise(seen.features, y, loss, 0.1, intercept=True), seen, y, fl.Gaussian(1e-7))
    attack = fl.nn.Reconstruct.last_layer(leak, [0, 5])
    with torch.no_grad():
        refitted = attack._mean(attack._truth)
    np.testing.assert_allclose(refitted[1].numpy(), leak.fits[0].theta, rtol=1e-8, atol=1e-10)
    J = torch.func.jacrev(attack._mean)(attack._truth)[1, :, 1]
    whole = leak._information.written_out(leak._information.attributes, False, [5])[0]
    np.testing.assert_allclose(J.numpy(), whole, rtol=1e-6, atol=1e-8 * np.abs(whole).max())
    close = attack.run(random_state=0)
    assert float(close.error.max()) < 0.05
    np.testing.assert_allclose(close.eta, leak.per_example(label=False)[[0, 5]], rtol=1e-7)


@pytest.mark.parametrize("scale", [0.003, 0.03])
def test_no_attack_on_a_softmax_head_beats_the_bound(scale: float) -> None:
    """Rows are draws from the attacker's prior, each rebuilt from the head that was fitted with it."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
    X = np.random.default_rng(0).normal(size=(30, 2))
    y, seen = np.arange(30) % 3, fl.nn.on(module, X)  # labels that tell nothing of the inputs
    leak: Any = fl.measure(fl.minimise(seen.features, y, "softmax", 0.1), seen, y, fl.Gaussian(scale))
    done = fl.nn.Reconstruct.last_layer(leak, range(30)).run(random_state=0, steps=40)
    spread = float(done.error.std()) / 30**0.5
    assert float(done.error.mean()) >= done.bound - 3 * spread
    assert float(done.error.mean()) <= 1.3  # guessing the prior's mean has an error of 1
    assert done.bound > 0


def test_heads_that_are_not_on_the_networks_outputs_are_not_rebuilt_from() -> None:
    module, X = nn.Linear(3, 4), np.random.default_rng(0).normal(size=(40, 3))
    y, seen = classes_and_numbers(X, "softmax"), fl.nn.on(module, X)
    scaled = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(seen.features, y)
    leak: Any = fl.measure(scaled, seen, y)
    with pytest.raises(fl.UnsupportedModelError, match="as they are"):
        fl.nn.Reconstruct.last_layer(leak, [0])
    weighed = fl.minimise(seen.features, y, "softmax", 0.1, sample_weight=np.linspace(1, 2, 40))
    leak = fl.measure(weighed, seen, y)
    with pytest.raises(fl.UnsupportedModelError, match="without sample weights"):
        fl.nn.Reconstruct.last_layer(leak, [0])
    leak = fl.measure(fl.minimise(seen.features, y, "softmax", 0.1), seen, y)
    for rows in ([40], []):
        with pytest.raises(fl.InvalidInputError, match="rows must be numbers from 0 to 39"):
            fl.nn.Reconstruct.last_layer(leak, rows)


def test_bounds_of_one_value_are_those_of_scalars() -> None:
    leak = fl.nn.encoding(lambda x: 3.0 * x, np.array([[0.2]]), fl.Gaussian(0.5))
    done = fl.nn.Reconstruct.encoding(leak).run(prior_sd=2.0, limits=(-1.0, 1.0), random_state=0)
    assert done.bound == pytest.approx(fl.bounds.van_trees(6.0, prior_sd=2.0))
    assert done.minimax == pytest.approx(fl.bounds.interval_minimax(6.0, half_width=1.0))


def test_priors_are_checked() -> None:
    leak = fl.nn.encoding(nn.Flatten(), np.zeros((1, 2, 2)), fl.Gaussian(1.0))
    attack: Any = fl.nn.Reconstruct.encoding(leak)
    assert attack.run(prior_mean=np.ones((2, 2)), prior_sd=0.1, random_state=0).inputs.shape == (1, 2, 2)
    with pytest.raises(fl.InvalidInputError, match="prior_sd must be greater than zero"):
        attack.run(prior_sd=0.0)
    with pytest.raises(fl.InvalidInputError, match="limits must be"):
        attack.run(limits=(1.0, 0.0))
    with pytest.raises(
        fl.InvalidInputError, match=r"prior_mean must be a number or have the shape of one input, \(2, 2\)"
    ):
        attack.run(prior_mean=np.ones(3))


def test_noise_that_is_not_normal_is_refused() -> None:
    """The nearest input is the most likely one under normal noise alone."""
    torch.manual_seed(0)
    encoder, X = nn.Linear(3, 4).double(), torch.randn(5, 3, dtype=torch.float64)
    with pytest.raises(fl.InvalidInputError, match="under normal noise, and this is Laplace"):
        fl.nn.Reconstruct.encoding(fl.nn.encoding(encoder, X, fl.Laplace(1.0)))
    y, seen = torch.randn(5, dtype=torch.float64), fl.nn.on(encoder, X)
    leak: Any = fl.measure(fl.minimise(seen.features, y, l2=0.1), seen, y, noise=fl.Laplace(1.0))
    with pytest.raises(fl.InvalidInputError, match="under normal noise, and this is Laplace"):
        fl.nn.Reconstruct.last_layer(leak, [0])
