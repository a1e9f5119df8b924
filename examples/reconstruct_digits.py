"""Digits rebuilt from noisy embeddings, gradients and last layers, at three levels of noise, with eta beside them.

``python examples/reconstruct_digits.py [--out picture.png]`` draws the picture of docs/networks.md from the digits that
scikit-learn carries: originals above, what an optimiser makes of the releases below. The bound on the mean squared error per
pixel is for inputs drawn from the attacker's prior, which digits are not, so the same attack runs on such draws too, and its
error stands beside the bound.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import fisherleak as fl

SHOWN = 6
DRAWN = 60
BESIDE = 40
"""Other pictures that a last layer is fitted on."""
SCALES = {"embedding": (0.02, 0.2, 2.0), "gradient": (0.001, 0.01, 0.1), "last layer": (0.001, 0.02, 0.2)}


def digits() -> tuple[Any, Any, Any]:
    """Pictures (n, 1, 8, 8) from 0 to 1 and labels, in a fixed order."""
    import torch

    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    pictures = torch.as_tensor(bunch.images[order] / 16.0)[:, None]
    return torch, pictures, torch.as_tensor(bunch.target[order])


def trained(torch: Any, pictures: Any, labels: Any) -> Any:
    """A small classifier, whose first layers are the encoder."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
    return model


def from_head(torch: Any, encoder: Any, X: Any, y: Any, beside: tuple[Any, Any], noise: Any) -> Any:
    """Pictures rebuilt from a last layer that was fitted on them, and on some others, by least squares on their classes."""
    pictures = torch.cat([X, beside[0][:BESIDE]])
    classes = torch.nn.functional.one_hot(torch.cat([y, beside[1][:BESIDE]]), 10).double()
    seen = fl.nn.on(encoder, pictures)
    leak: Any = fl.measure(fl.minimise(seen.features, classes, "squared", 1e-2), seen, classes, noise)
    return fl.nn.Reconstruct.last_layer(leak, range(len(X)))


@dataclass(frozen=True)
class Level:
    """One release at one level of noise."""

    name: str
    digits: Any
    """The digits shown, rebuilt."""
    draws: Any = None
    """Draws from the prior, rebuilt; not from last layers, each candidate for which is a fit."""

    @property
    def words(self) -> str:
        shown = f"{self.name}\nerror {float(self.digits.error.mean()):.2g}"
        if self.draws is None:
            return shown
        error = self.draws.error
        return (
            f"{shown}\nof draws {float(error.mean()):.2g} ± "
            f"{float(error.std()) / DRAWN**0.5:.1g}\nbound {self.draws.bound:.2g}"
        )


def attacked() -> tuple[Any, list[Level]]:
    """The pictures shown, and every release of them rebuilt."""
    torch, pictures, labels = digits()
    shown, others = pictures[:SHOWN], pictures[SHOWN:]
    model, loss = trained(torch, others, labels[SHOWN:]), torch.nn.CrossEntropyLoss()
    mean, sd = others.mean(dim=0), others.std(dim=0) + 0.02
    draws = mean + sd * torch.randn(DRAWN, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    attacks: dict[str, Any] = {
        "embedding": lambda X, y, noise: fl.nn.Reconstruct.encoding(fl.nn.encoding(model[:3], X, noise)),
        "gradient": lambda X, y, noise: fl.nn.Reconstruct.gradient(model, loss, X, y, noise),
        "last layer": lambda X, y, noise: from_head(torch, model[:3], X, y, (others, labels[SHOWN:]), noise),
    }
    levels = []
    for kind, make in attacks.items():
        for scale in SCALES[kind]:
            noise = fl.Gaussian(scale)
            fitted = kind == "last layer"
            steps = 100 if fitted else 300
            digit = make(shown, labels[:SHOWN], noise).run(mean, sd, limits=(0.0, 1.0), steps=steps, random_state=0)
            drawn = None if fitted else make(draws, labels[:DRAWN], noise).run(mean, sd, random_state=0)
            levels.append(Level(f"{kind}, sigma {scale:g}", digit, drawn))
    return shown, levels


def draw(shown: Any, levels: list[Level], out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.15 * SHOWN + 2.0, 1.25 * (len(levels) + 1)), layout="constrained")
    axes = figure.subplots(len(levels) + 1, SHOWN)
    for row, level in enumerate([None, *levels]):
        pictures = shown if level is None else level.digits.inputs
        for column in range(SHOWN):
            ax = axes[row, column]
            ax.imshow(pictures[column, 0], cmap="gray_r", vmin=0.0, vmax=1.0)
            ax.set(xticks=[], yticks=[])
            if level is not None:
                ax.set_title(f"η {float(level.digits.eta[column]):.3g}", fontsize=7, pad=2)
        name = "original" if level is None else level.words
        axes[row, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=7)
    figure.savefig(out, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("reconstruct-digits.png"))
    out = parser.parse_args().out
    shown, levels = attacked()
    for level in levels:
        print(f"eta {float(level.digits.eta.mean()):8.3g}  " + level.words.replace("\n", ", "))
    draw(shown, levels, out)


if __name__ == "__main__":
    main()
