"""Heads of several outputs, and several heads: etas about inputs against Jacobians that are written out and refitted models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from often import often

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn
SIDE = 4


def network(features: int, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, features), nn.Tanh())


def pictures(n: int = 70, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1, SIDE, SIDE))
    return X, np.digitize(X[:, 0, 0].sum(axis=1) + rng.normal(size=n), [-1.0, 0.5, 1.5])


def derivative(module: Any, X: Any) -> Any:
    module = module.double().requires_grad_(False)
    one = torch.func.jacrev(lambda x: module(x[None])[0])
    return np.stack([one(x).reshape(-1, SIDE * SIDE).numpy() for x in torch.as_tensor(X)])


def chained(leak: Any, module: Any, X: Any) -> tuple[Any, Any]:
    """J by pixels and by the label, from the head's own Jacobian and the network's, both written out."""
    inner = leak.features
    R = np.asarray(inner._information.written_out(inner._information.attributes, True, None)) / inner._scale
    D = derivative(module, X)
    return R[:, :, : D.shape[1]] @ D, R[:, :, D.shape[1] :]


def softmax(features: Any, y: Any) -> Any:
    return fl.minimise(features, y, "softmax", 0.05, intercept=True)


def numbers(y: Any) -> Any:
    return np.random.default_rng(3).normal(size=(len(y), 3)) + y[:, None]


HEADS: dict[str, tuple[Any, Any]] = {
    "softmax": (softmax, lambda y: y),
    "softmax of text": (softmax, lambda y: np.array(["a", "b", "c", "d"])[y]),
    "several numbers": (lambda F, y: fl.minimise(F, y, "squared", 0.05, intercept=True), numbers),
    "LogisticRegression": (lambda F, y: LogisticRegression(C=0.3, tol=1e-10, max_iter=2000).fit(F, y), lambda y: y),
    "Ridge": (lambda F, y: Ridge(2.0).fit(F, y), numbers),
    "Pipeline": (lambda F, y: make_pipeline(StandardScaler(), Ridge(2.0)).fit(F, y), numbers),
}


@pytest.mark.parametrize("features", often([5, 40]))
@pytest.mark.parametrize("kind", list(HEADS))
def test_etas_are_those_of_the_chained_jacobian(kind: str, features: int) -> None:
    fit, labels = HEADS[kind]
    module, (X, codes) = network(features), pictures()
    y, seen = labels(codes), fl.nn.on(module, X)
    leak: Any = fl.measure(fit(seen.features, y), seen, y, fl.Gaussian(0.3))
    J, L = chained(leak, module, X)
    both = np.concatenate([J, L], axis=2)
    np.testing.assert_allclose(leak.per_example(), np.linalg.norm(both, 2, axis=(1, 2)), rtol=1e-8)
    np.testing.assert_allclose(leak.per_example(label=False), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-8)
    np.testing.assert_allclose(leak.per_label(), np.linalg.norm(L, 2, axis=(1, 2)), rtol=1e-8)
    np.testing.assert_allclose(leak.map(), np.linalg.norm(J, axis=1).reshape(-1, SIDE, SIDE), rtol=1e-8)
    corner = np.linalg.norm(J.reshape(*J.shape[:2], SIDE, SIDE)[:, :, :2, :2].reshape(*J.shape[:2], 4), 2, axis=(1, 2))
    np.testing.assert_allclose(leak.map(2)[:, 0, 0], corner, rtol=1e-8)
    flat = both.transpose(1, 0, 2).reshape(both.shape[1], -1)
    np.testing.assert_allclose(leak.dataset(), np.linalg.norm(flat, 2), rtol=1e-8)
    np.testing.assert_allclose(leak.fim([3]), both[3].T @ both[3], rtol=1e-7, atol=1e-9 * np.abs(both[3]).max() ** 2)
    np.testing.assert_allclose(leak.membership(1e-8), leak.features.membership(1e-8))


@pytest.mark.parametrize("kind", ["softmax", "several numbers"])
def test_the_derivative_is_that_of_a_refit(kind: str) -> None:
    fit, labels = HEADS[kind]
    module, (X, codes) = network(5), pictures()
    y, seen = labels(codes), fl.nn.on(module, X)
    leak: Any = fl.measure(fit(seen.features, y), seen, y)
    direction, h, row = np.random.default_rng(1).normal(size=(SIDE, SIDE)), 1e-5, 7
    moved = []
    for sign in (1, -1):
        other = X.copy()
        other[row, 0] += sign * h * direction
        moved.append(fit(fl.nn.Features(module)(other), y).theta)
    J = leak._information.written_out(leak._information.attributes, False, [row])[0]
    np.testing.assert_allclose(J @ direction.ravel(), (moved[0] - moved[1]) / (2 * h), rtol=1e-5, atol=1e-8)


def test_two_classes_of_softmax_are_a_logistic_model_of_half_the_width() -> None:
    """The two rows of parameters are w / 2 and -w / 2, so that etas are those of w over the root of two."""
    module, (X, codes) = network(5), pictures()
    y, seen = (codes > 1) * 1.0, fl.nn.on(module, X)
    two: Any = fl.measure(fl.minimise(seen.features, y, "softmax", 0.1, intercept=True), seen, y)
    one: Any = fl.measure(fl.minimise(seen.features, y, "logistic", 0.05, intercept=True), seen, y)
    np.testing.assert_allclose(two.map(), one.map() / 2**0.5, rtol=1e-8)


def test_values_small_against_their_terms_are_computed_without_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feature that the head hardly sees, and the network's only one that moves: squares would leave nothing of it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 3, size=30)
    for width in (3, 40):
        mix = torch.as_tensor(rng.normal(size=(3, width)))
        seen = fl.nn.on(lambda x, mix=mix: torch.tanh(x @ mix), X)
        leak: Any = fl.measure(softmax(seen.features, y), seen, y)
        found = leak.per_example(), leak.map()
        monkeypatch.setattr("fisherleak.nn.information_through_network.CANCELLED", 1e30)
        monkeypatch.setattr("fisherleak.nn.information_through_network.CANCELLED_BY_PRODUCTS", 1e30)
        np.testing.assert_allclose(leak.per_example(), found[0], rtol=1e-9)
        np.testing.assert_allclose(leak.map(), found[1], rtol=1e-9)
        monkeypatch.undo()


def test_the_way_of_a_gpu_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products with derivatives that are written out, in place of roots of small matrices."""
    module, (X, y) = network(5), pictures()
    seen = fl.nn.on(module, X)
    leak: Any = fl.measure(softmax(seen.features, y), seen, y)
    found = [leak.per_example(label=label) for label in (True, False)]
    monkeypatch.setattr("fisherleak.nn.information_through_network.on_accelerator", lambda x: True)
    for label, expected in zip((True, False), found, strict=True):
        np.testing.assert_allclose(leak.per_example(label=label), expected, rtol=1e-9)
    monkeypatch.setattr("fisherleak.nn.information_through_network.WANTED", -1.0)  # no row is settled by products
    np.testing.assert_allclose(leak.per_example(), found[0], rtol=1e-9)


def test_noise_is_calibrated_and_the_head_released() -> None:
    module, (X, y) = network(6), pictures()
    seen = fl.nn.on(module, X)
    fit = softmax(seen.features, y)
    leak: Any = fl.measure(fit, seen, y)
    noise = fl.calibrate(leak, eta=0.2)
    quiet = leak.with_noise(noise)
    assert 0.2 * (1 - 1e-6) < quiet.per_example().max() <= 0.2
    shaped = leak.with_noise(fl.Gaussian(2.0, np.diag(np.linspace(1.0, 2.0, 28))))
    J, _ = chained(shaped, module, X)
    np.testing.assert_allclose(shaped.per_example(label=False), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-8)
    with pytest.warns(fl.UncountedScaleWarning):
        noisy = fl.release(fit, noise, random_state=0)
    assert noisy.coef.shape == (4, 6)
    assert noisy.intercept.shape == (4,)
    groups = leak.by_group(y)
    assert leak.per_example().max() <= max(groups.values()) * (1 + 1e-9) <= leak.dataset() * (1 + 2e-9)


def test_noise_for_folded_scalers_is_not_released_where_they_are_public() -> None:
    module, (X, codes) = network(5), pictures()
    y, seen = numbers(codes), fl.nn.on(module, X)
    model = make_pipeline(StandardScaler(), Ridge(2.0)).fit(seen.features, y)
    leak = fl.measure(model, seen, y, public="nothing")
    noise = fl.calibrate(leak, eta=0.2)
    with pytest.raises(
        fl.InvalidInputError, match="measured with public='nothing' but release with public='preprocessing'"
    ):
        fl.release(model, noise, random_state=0, public="preprocessing")


def test_tensors_and_float32_networks() -> None:
    module, (X, y) = network(5), pictures()
    arrays = fl.nn.on(module, X)
    tensors = fl.nn.on(module, torch.as_tensor(X, dtype=torch.float32))
    etas = [
        fl.measure(softmax(s.features, t), s, t).per_example() for s, t in ((arrays, y), (tensors, torch.as_tensor(y)))
    ]
    assert etas[1].dtype == torch.float64
    np.testing.assert_allclose(etas[1].numpy(), etas[0], rtol=1e-5)


# several heads


def test_heads_on_one_network_and_on_others_add_up() -> None:
    (X, y), first, second = pictures(), network(5), network(7, seed=1)
    one, two = fl.nn.on(first, X), fl.nn.on(second, X)
    leaks: list[Any] = [
        fl.measure(softmax(one.features, y), one, y, fl.Gaussian(0.3)),
        fl.measure(LogisticRegression(C=0.3, tol=1e-10, max_iter=2000).fit(two.features, y), two, y, fl.Gaussian(2.0)),
        fl.measure(fl.minimise(one.features, y, "softmax", 0.5), one, y, fl.Gaussian(0.7)),
    ]
    parts = [chained(leak, module, X) for leak, module in zip(leaks, (first, second, first), strict=True)]
    J, L = (np.concatenate([part[k] for part in parts], axis=1) for k in (0, 1))
    both = np.concatenate([J, L], axis=2)
    ways: list[Any] = [fl.compose(*leaks), fl.compose(fl.compose(*leaks[:2]), leaks[2])]
    for whole in ways:
        np.testing.assert_allclose(whole.per_example(), np.linalg.norm(both, 2, axis=(1, 2)), rtol=1e-8)
        np.testing.assert_allclose(whole.per_example(label=False), np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-8)
        np.testing.assert_allclose(whole.per_label(), np.linalg.norm(L, 2, axis=(1, 2)), rtol=1e-8)
        np.testing.assert_allclose(whole.map(), np.linalg.norm(J, axis=1).reshape(-1, SIDE, SIDE), rtol=1e-8)
        flat = both.transpose(1, 0, 2).reshape(both.shape[1], -1)
        np.testing.assert_allclose(whole.dataset(), np.linalg.norm(flat, 2), rtol=1e-8)
        squares = sum(leak.membership(1e-8) ** 2 for leak in leaks)
        np.testing.assert_allclose(whole.membership(1e-8), squares**0.5)
        assert len(whole.fits) == 3
        assert "3 heads on frozen networks" in whole.summary()
        assert repr(whole) == "HeadLeakage(70 inputs of shape (1, 4, 4), 3 releases)"
    with pytest.raises(fl.InvalidInputError, match="a noise for each release"):
        _ = whole.noise
    with pytest.raises(fl.InvalidInputError, match="no single noise"):
        whole.with_noise(fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="features of each head"):
        _ = whole.features


@pytest.mark.parametrize("features", [5, 40])
def test_heads_of_one_output_add_up_with_labels_in_their_units(features: int) -> None:
    (X, codes), module = pictures(), network(features)
    y, seen = (codes > 1) * 1.0, fl.nn.on(module, X)
    leaks: list[Any] = [
        fl.measure(fl.minimise(seen.features, y, "logistic", 0.05), seen, y, fl.Gaussian(0.3)),
        fl.measure(fl.minimise(seen.features, 1 - 2 * y, "squared", 0.1), seen, 1 - 2 * y, fl.Gaussian(0.5)),
    ]
    parts = [chained(leak, module, X) for leak in leaks]
    both = np.concatenate(
        [np.concatenate([J, L * unit], axis=2) for (J, L), unit in zip(parts, (1, -2), strict=True)], axis=1
    )
    whole: Any = fl.compose(*leaks)
    np.testing.assert_allclose(whole.per_example(), np.linalg.norm(both, 2, axis=(1, 2)), rtol=1e-8)
    assert "per unit of the first release's" in whole.summary()


def test_heads_about_other_data_are_not_composed() -> None:
    (X, y), module = pictures(), network(5)
    seen, other = fl.nn.on(module, X), fl.nn.on(module, X + 0.1)
    leak = fl.measure(softmax(seen.features, y), seen, y)
    with pytest.raises(fl.InvalidInputError, match="the inputs of these networks differ"):
        fl.compose(leak, fl.measure(softmax(other.features, y), other, y))
    changed = np.append(y[1:], y[:1])
    with pytest.raises(fl.InvalidInputError, match="their labels y differ"):
        fl.compose(leak, fl.measure(softmax(seen.features, changed), seen, changed))
    with pytest.raises(fl.UnsupportedModelError, match="labels are vectors"):
        fl.compose(leak, fl.measure(fl.minimise(seen.features, y * 1.0, "squared", 0.1), seen, y * 1.0))
    tensors = fl.nn.on(module, torch.as_tensor(X))
    labels = torch.as_tensor(y)
    with pytest.raises(fl.InvalidInputError, match="inputs of one library"):
        fl.compose(leak, fl.measure(softmax(tensors.features, labels), tensors, labels))
    with pytest.raises(fl.InvalidInputError, match="the attributes of these inputs differ"):
        fl.compose(leak, fl.measure(softmax(seen.features, y), seen, y, attributes={"left": [0, 1]}))
    embedded: Any = fl.nn.encoding(module, X, fl.Gaussian(1.0))
    with pytest.raises(fl.InvalidInputError, match="takes such heads only"):
        fl.compose(leak, embedded)
