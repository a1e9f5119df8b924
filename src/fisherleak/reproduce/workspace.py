"""Data and models that several items share, each made once per run.

Also here: what an item of the reproduction is: settings, numbers, a picture, and the paper's figures beside ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from fisherleak import datasets
from fisherleak._support.namespaces import Estimator, Vector
from fisherleak.leakage.leakage import Leakage
from fisherleak.leakage.measure import measure
from fisherleak.protection.irfil.irfil import IRFIL

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Numbers = dict[str, Any]
"""Plain JSON types."""


@dataclass(frozen=True)
class Comparison:
    """One line of the page: what, ours, the paper's own number or statement, and a note.

    Notes say what the paper's recipe is expected to give where the paper shows a picture only.
    """

    what: str
    ours: str
    paper: str = ""
    note: str = ""


@dataclass(frozen=True)
class Item:
    """A table, a figure or a statement of the paper, or something beyond it.

    Parameters
    ----------
    name : str
        As on the command line; also the name of its files.
    title : str
    settings : dict
        Everything that decides the numbers, apart from the data.
    compute : callable
        Workspace -> numbers.
    compare : callable
        Numbers -> comparisons.
    draw : callable, optional
        (numbers, workspace) -> matplotlib figure.
    remark : str
        A paragraph under the title.
    beyond : bool
        Whether the paper has no such item.
    """

    name: str
    title: str
    settings: dict[str, Any]
    compute: Callable[[Workspace], Numbers]
    compare: Callable[[Numbers], list[Comparison]]
    draw: Callable[[Numbers, Workspace], Figure] | None = None
    remark: str = ""
    beyond: bool = field(default=False)


def panels(lines: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """An empty figure and its axes; matplotlib is loaded where one is drawn."""
    import matplotlib.pyplot as plt

    return plt.subplots(lines, columns, figsize=size, layout="constrained", **options)


T = TypeVar("T")

IMAGES = ("mnist", "cifar10")
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "linear": "linear", "logistic": "logistic"}
CLASSES = {"mnist": ("0", "1"), "cifar10": ("plane", "car")}
L2 = {"mnist": 8e-4, "cifar10": 8e-5}
"""Of logistic regression; linear regression has none."""
REWEIGHTINGS = 15


@dataclass(frozen=True)
class ImageModel:
    """A kind of model of two classes of images."""

    first: int
    """The label of the first class; that of the second is 1."""
    unfitted: Callable[[int, float], Any]
    """(examples, penalty) -> estimator."""


def _linear(n: int, l2: float) -> Any:
    return LinearRegression(fit_intercept=False)


def _logistic(n: int, l2: float) -> Any:
    return LogisticRegression(C=1.0 / (n * l2), solver="newton-cholesky", fit_intercept=False, tol=1e-10, max_iter=1000)


KINDS = {"linear": ImageModel(-1, _linear), "logistic": ImageModel(0, _logistic)}


@dataclass(frozen=True)
class Images:
    """Images as published, and their twenty principal components."""

    pixels: NDArray[np.uint8]
    X: Vector
    y: NDArray[np.int64]
    X_test: Vector
    y_test: NDArray[np.int64]

    def labels(self, kind: str, test: bool = False) -> NDArray[Any]:
        """-1 and 1 for linear regression, 0 and 1 for logistic."""
        y = self.y_test if test else self.y
        return np.where(y == 1, 1, KINDS[kind].first)


def next_weights(weights: Vector, eta: Vector) -> Vector:
    """One step of the paper's algorithm 1: each weight divided by its eta, with the mean restored to one."""
    return np.asarray(weights.size * (weights / eta) / np.sum(weights / eta))


class Workspace:
    """Loads and fits on first use, and remembers.

    Parameters
    ----------
    data_home : path, optional
        As for the loaders of ``fisherleak.datasets``.
    """

    def __init__(self, data_home: str | os.PathLike[str] | None = None) -> None:
        self.data_home = data_home
        self._made: dict[Any, Any] = {}

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def images(self, name: str) -> Images:
        return self._once(("images", name), lambda: self._images(name))

    def _images(self, name: str) -> Images:
        load = {"mnist": datasets.load_mnist, "cifar10": datasets.load_cifar10}[name]
        data = load(data_home=self.data_home)
        prepare = data.preprocessing.fit(data.X)
        return Images(data.X, prepare.transform(data.X), data.y, prepare.transform(data.X_test), data.y_test)

    def estimator(self, name: str, kind: str) -> Any:
        """An image model that is not fitted yet."""
        return KINDS[kind].unfitted(self.images(name).y.size, L2[name])

    def model(self, name: str, kind: str) -> Any:
        data = self.images(name)
        return self._once(("model", name, kind), lambda: self.estimator(name, kind).fit(data.X, data.labels(kind)))

    def leakage(self, name: str, kind: str) -> Leakage:
        """Of an image model, for sigma = 1."""
        data = self.images(name)
        return self._once(("leakage", name, kind), lambda: measure(self.model(name, kind), data.X, data.labels(kind)))

    def eta(self, name: str, kind: str) -> Vector:
        """Per example, label included."""
        return self._once(("eta", name, kind), lambda: np.asarray(self.leakage(name, kind).per_example()))

    def balanced(self, name: str, kind: str) -> IRFIL:
        """The same model after IRFIL."""
        data = self.images(name)
        return self._once(
            ("balanced", name, kind),
            lambda: IRFIL(self.estimator(name, kind), n_iter=REWEIGHTINGS).fit(data.X, data.labels(kind)),
        )

    def test_accuracy(self, name: str, kind: str, model: Estimator) -> float:
        """Part of the test images on the right side."""
        data = self.images(name)
        sides = model.predict(data.X_test) > (KINDS[kind].first + 1) / 2
        return float(np.mean(sides == (data.y_test == 1)))

    def image_models(self) -> Iterator[tuple[str, str]]:
        """(data, kind of model) of the four image models, in the order of Table 1."""
        return ((name, kind) for name in IMAGES for kind in KINDS)

    def iwpc(self, split: int = 0) -> Any:
        return self._once(("iwpc", split), lambda: datasets.load_iwpc(split, data_home=self.data_home))

    def adult(self) -> Any:
        return self._once("adult", lambda: datasets.load_adult(data_home=self.data_home))

    def iwpc_model(self, l2: float, split: int = 0) -> Any:
        """Linear regression of the dose on the raw table, without an intercept."""
        data = self.iwpc(split)
        last = Ridge(alpha=l2 * data.y.size, fit_intercept=False)
        return self._once(("iwpc", l2, split), lambda: make_pipeline(data.preprocessing, last).fit(data.X, data.y))

    def adult_features(self) -> tuple[Vector, list[str], Vector]:
        """The paper's 86 columns, their names, and labels -1 and 1."""

        def make() -> tuple[Vector, list[str], Vector]:
            data = self.adult()
            prepare = data.preprocessing.fit(data.X)
            return prepare.transform(data.X), prepare.get_feature_names_out().tolist(), 2.0 * data.y - 1.0

        return self._once("adult features", make)
