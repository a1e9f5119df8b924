"""Items beyond the paper about whole images: models of every pixel, and of all ten classes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fisherleak import datasets
from fisherleak._support.arrays import to_gpu
from fisherleak.engine.fit.minimise import minimise
from fisherleak.errors import DataError
from fisherleak.leakage.measure import measure
from fisherleak.reproduce.workspace import CLASSES, IMAGES, L2, TITLES, Comparison, Item, Numbers, Workspace, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Models of all pixels, and which of them the model reveals

OF_PIXELS = {"model": "linear on all pixels, in the unit ball", "l2": L2, "sigma": 1.0}


def _all_pixels(work: Workspace) -> Numbers:
    return {name: _maps(work, name) for name in IMAGES}


def _maps(work: Workspace, name: str) -> Numbers:
    data = work.images(name)
    flat = data.pixels.reshape(len(data.pixels), -1) / 255.0
    flat /= np.linalg.norm(flat, axis=1).max()
    labels = data.labels("linear")
    leak = measure(minimise(flat, labels, "squared", L2[name]), flat, labels)
    eta = np.asarray(leak.per_example())
    cells = np.asarray(leak.per_cell())
    worst = int(np.argmax(eta))
    shape = [*data.pixels.shape[1:3], -1]
    # colour planes of a pixel count together, by the largest
    maps = {title: cells[data.y == k].mean(axis=0) for k, title in enumerate(CLASSES[name])}
    maps["most exposed"] = cells[worst]
    return {
        "values": flat.shape[1],
        "mean": float(eta.mean()),
        "sd": float(eta.std(ddof=1)),
        "max": float(eta.max()),
        "worst": worst,
        "maps": {title: values.reshape(shape).max(axis=-1).round(8).tolist() for title, values in maps.items()},
    }


def _draw_maps(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(2, 4, (11, 5))
    for line, name in zip(axes, IMAGES, strict=True):
        found = numbers[name]
        for ax, title in zip(line, found["maps"], strict=False):
            image = ax.imshow(found["maps"][title], cmap="magma")
            figure.colorbar(image, ax=ax, shrink=0.8)
            ax.set(xticks=[], yticks=[], title="most exposed image" if title == "most exposed" else f"mean of {title}")
        pixels = work.images(name).pixels[found["worst"]]
        line[3].imshow(pixels, cmap="gray" if pixels.ndim == 2 else None)
        line[3].set(xticks=[], yticks=[], title="that image")
        line[0].set_ylabel(f"{TITLES[name]}: eta of each pixel", fontsize=8)
    return figure


def _compare_pixels(numbers: Numbers) -> list[Comparison]:
    lines = []
    for name in IMAGES:
        found = numbers[name]
        ours = f"{found['mean']:.4f} ± {found['sd']:.4f}, at most {found['max']:.4f}"
        lines.append(Comparison(f"eta of an image, {TITLES[name]}, all {found['values']} values", ours))
    return lines


EVERY_PIXEL = "Linear models of every pixel, without PCA: exact etas of each image and of each pixel of each image."

# All ten classes at once, in a softmax model

OF_DIGITS = {"model": "softmax of ten classes, without intercepts", "l2": L2, "components": 20, "sigma": 1.0}
SHOWN = 10
"""Images that are drawn, the most exposed of each data set."""
COMPONENTS, ALL = "20 components", "all values"


def _all_classes(work: Workspace) -> Numbers:
    return {name: found for name in IMAGES if (found := _ten_classes(work, name)) is not None}


def _ten_classes(work: Workspace, name: str) -> Numbers | None:
    """Figures of a data set; None for CIFAR-10 where not all of its classes are at hand."""
    load = {"mnist": datasets.load_mnist, "cifar10": datasets.load_cifar10}[name]
    try:
        data = load(range(10), data_home=work.data_home)
    except DataError:
        if name == "mnist":
            raise
        return None
    flat, test = (images.reshape(len(images), -1) / 255.0 for images in (data.X, data.X_test))
    flat, test = (each / np.linalg.norm(each, axis=1).max() for each in (flat, test))
    mean, axes = _components(flat)
    found = {COMPONENTS: _model(flat @ axes - mean @ axes, data.y, test @ axes - mean @ axes, data.y_test, L2[name])}
    there = to_gpu(flat, data.y, test)
    if there is not None:
        X, y, X_test = there
        found[ALL] = _model(X, y, X_test, data.y_test, L2[name])
    worst = found[COMPONENTS]["worst"]
    return {
        "classes": list(data.names),
        "rows": len(flat),
        "values": int(flat.shape[1]),
        "models": found,
        "images": data.X[worst].tolist(),
        "labels": data.y[worst].tolist(),
    }


def _components(flat: NDArray[np.float64]) -> tuple[Any, Any]:
    """The mean, and the twenty leading principal axes (d, 20), from the covariance: rows are many and columns few."""
    mean = flat.mean(axis=0)
    scatter = flat.T @ flat - len(flat) * np.outer(mean, mean)
    return mean, np.linalg.eigh(scatter)[1][:, :-21:-1]


def _model(X: Any, y: Any, X_test: Any, y_test: NDArray[Any], l2: float) -> Numbers:
    """Etas of a softmax model, by class, and its accuracy; arrays of NumPy or tensors."""
    fit = minimise(X, y, "softmax", l2)
    eta, codes, scores = (_here(each) for each in (measure(fit, X, y).per_example(), y, X_test @ fit.coef.T))
    return {
        "mean": float(eta.mean()),
        "sd": float(eta.std(ddof=1)),
        "max": float(eta.max()),
        "by class": [float(eta[codes == k].mean()) for k in range(10)],
        "worst": np.argsort(-eta, kind="stable")[:SHOWN].tolist(),
        "accuracy": float(np.mean(scores.argmax(axis=1) == y_test)),
    }


def _here(values: Any) -> NDArray[Any]:
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def _draw_classes(numbers: Numbers, work: Workspace) -> Figure:
    figure, axes = panels(len(numbers), 1 + SHOWN, (14, 2.2 * len(numbers)), squeeze=False)
    for line, (name, found) in zip(axes, numbers.items(), strict=True):
        for what, model in found["models"].items():
            line[0].plot(range(10), model["by class"], "o", markersize=3, label=what)
        line[0].set_xticks(range(10), found["classes"], fontsize=5, rotation=45 if name == "cifar10" else 0)
        line[0].set_title(f"{TITLES[name]}: mean eta", fontsize=7)
        line[0].tick_params(axis="y", labelsize=6)
        line[0].legend(fontsize=5)
        for ax, pixels, label in zip(line[1:], found["images"], found["labels"], strict=True):
            image = np.array(pixels, dtype=np.uint8)
            ax.imshow(image, cmap="gray" if image.ndim == 2 else None)
            ax.set(xticks=[], yticks=[])
            ax.set_title(found["classes"][label], fontsize=7)
    return figure


def _compare_ten(numbers: Numbers) -> list[Comparison]:
    lines = []
    for name, found in numbers.items():
        for what, model in found["models"].items():
            order = np.argsort(model["by class"])
            least, most = (found["classes"][int(order[k])] for k in (0, -1))
            ours = (
                f"{model['mean']:.4f} ± {model['sd']:.4f}, at most {model['max']:.4f}, {100 * model['accuracy']:.1f} % right; "
                f"by class {min(model['by class']):.4f} ({least}) to {max(model['by class']):.4f} ({most})"
            )
            lines.append(Comparison(f"eta of an image, {TITLES[name]}, ten classes, {what}", ours))
    return lines


TEN_CLASSES = (
    "Softmax models of all ten classes: exact etas of every image and its label. All values, without PCA, where there is a "
    "GPU; data sets of which not all classes are at hand are left out. Drawn are the most exposed images."
)

ITEMS = (
    Item(
        *("pixels", "All pixels: leakage maps", OF_PIXELS, _all_pixels, _compare_pixels, _draw_maps, EVERY_PIXEL),
        beyond=True,
    ),
    Item(
        *("all_digits", "All ten digits", OF_DIGITS, _all_classes, _compare_ten, _draw_classes, TEN_CLASSES),
        beyond=True,
    ),
)
