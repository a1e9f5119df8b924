"""All ten classes: the figures are those of the library, in NumPy and torch; axes are those of PCA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fisherleak as fl
from fisherleak.reproduce.whole_images import _all_classes, _compare_ten, _components, _model, _ten_classes


def images(n: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 10
    return rng.normal(size=(10, 30))[y] + rng.normal(size=(n, 30)), y


def test_axes_are_those_of_pca() -> None:
    X, _ = images()
    mean, axes = _components(X)
    found = PCA(20, svd_solver="full").fit(X)
    np.testing.assert_allclose(mean, found.mean_)
    np.testing.assert_allclose(np.abs(np.sum(axes * found.components_.T, axis=0)), 1.0, rtol=1e-8)


def test_figures_are_those_of_the_library() -> None:
    X, y = images()
    found = _model(X, y, X, y, 0.1)
    eta = np.asarray(fl.measure(fl.minimise(X, y, loss="softmax", l2=0.1), X, y).per_example())
    assert found["max"] == pytest.approx(eta.max())
    assert found["worst"][0] == eta.argmax()
    assert found["by class"][3] == pytest.approx(eta[y == 3].mean())
    assert found["accuracy"] > 0.9
    whole = {"classes": list("0123456789"), "rows": 300, "values": 30, "models": {"20 components": found}}
    (line,) = _compare_ten({"mnist": whole})
    assert f"at most {eta.max():.4f}" in line.ours


def test_tensors_give_the_same_figures() -> None:
    torch = pytest.importorskip("torch")
    X, y = images()
    here, there = _model(X, y, X, y, 0.1), _model(torch.as_tensor(X), torch.as_tensor(y), torch.as_tensor(X), y, 0.1)
    assert there["by class"] == pytest.approx(here["by class"], rel=1e-8)
    assert there["worst"] == here["worst"]


def test_digits_must_be_there_and_other_classes_may_be(tmp_path: Any) -> None:
    work: Any = type("Work", (), {"data_home": tmp_path})()
    assert _ten_classes(work, "cifar10") is None
    with pytest.raises(fl.DataError):
        _all_classes(work)
