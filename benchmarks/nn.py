"""Noisy SGD and a last layer on MNIST, with etas of single pictures: time, and what the exact information is worth.

``python benchmarks/nn.py --out FOLDER`` trains the 26,010-parameter tanh network of the DP-SGD literature on 60,000 pictures,
batches of 600 by Poisson sampling, 1,000 steps, at three epsilons, and adds up the information about 2,000 fixed pictures at
every tenth step (an estimate of the sum); then takes etas about the pixels of all pictures of a ten-class softmax head on the
network without its last layer. ``--part`` runs one of the two. It reads MNIST from FISHERLEAK_DATA and needs no network.
Without a GPU, or with ``--small``, it runs a small version of the same. FOLDER gets ``nn.json`` and ``nn.md``, and ``nn.png``
with matplotlib.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import math
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# this file's own name must not hide a package
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from scipy.optimize import brentq  # noqa: E402
from scipy.special import log_ndtr, ndtr  # noqa: E402

import fisherleak as fl  # noqa: E402
from fisherleak.datasets import load_mnist  # noqa: E402

nn = torch.nn
DELTA = 1e-5
CLIP = 0.1
RATE = 4.0
LARGEST_EPSILON = 1000.0


@dataclass(frozen=True)
class Size:
    """How much is run."""

    rows: int
    watched: int
    steps: int
    batch: int
    every: int
    pictures: int

    @property
    def sample_rate(self) -> float:
        return self.batch / self.rows


FULL = Size(rows=60_000, watched=2_000, steps=1_000, batch=600, every=10, pictures=60_000)
SMALL = Size(rows=2_000, watched=20, steps=4, batch=40, every=2, pictures=100)


def network() -> Any:
    """26,010 parameters (Papernot et al. 2021)."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, 2), nn.Tanh(), nn.MaxPool2d(2, 1)),
        *(nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10)),
    )


def mnist(rows: int, device: str) -> tuple[Any, Any]:
    """Pictures of all ten digits, in the order of five pairs of digits shuffled by a seed."""
    parts = [(load_mnist((digit, digit + 1)), digit) for digit in range(0, 10, 2)]
    X = np.concatenate([part.X for part, _ in parts])
    y = np.concatenate([np.asarray(part.y).astype(int) + digit for part, digit in parts])
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    pictures = torch.as_tensor(X[order].reshape(-1, 1, 28, 28).astype(np.float32) / 255.0, device=device)
    return pictures, torch.as_tensor(y[order].astype(np.int64), device=device)


def epsilon_of(noise: float, size: Size) -> float:
    """By the central limit theorem of Gaussian differential privacy; close for many steps with small batches."""
    mu = size.sample_rate * math.sqrt(size.steps * math.expm1(1.0 / noise**2))

    def excess(epsilon: float) -> float:
        second = math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2)))
        return float(ndtr(-epsilon / mu + mu / 2)) - second - DELTA

    if excess(LARGEST_EPSILON) > 0:
        return LARGEST_EPSILON
    return float(brentq(excess, 0.0, LARGEST_EPSILON)) if excess(0.0) > 0 else 0.0


def noise_of(epsilon: float, size: Size) -> float:
    return float(brentq(lambda noise: epsilon_of(noise, size) - epsilon, 0.1, 50.0))


def wait(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


@dataclass(frozen=True)
class Run:
    """One training at one epsilon."""

    epsilon: float
    noise_multiplier: float
    accuracy: float
    seconds: float
    seconds_etas: float
    eta_mean: float
    eta_largest: float
    eta_by_class: list[list[float]]
    most: list[int]
    least: list[int]
    seconds_published: float | None
    published_over_exact: list[float] | None
    """Least, median and largest ratio of etas."""


def trained(epsilon: float, size: Size, X: Any, y: Any, device: str, published: bool) -> tuple[Run, Any]:
    model, loss, q = network().to(device), nn.CrossEntropyLoss(), size.sample_rate
    noise = noise_of(epsilon, size)
    options: dict[str, Any] = {"keep": "norm", "every": size.every, "batch": 1000, "random_state": 0}
    exact = fl.nn.SGDAccountant(model, loss, q, noise, CLIP, **options).watch(X, y, rows=np.arange(size.watched))
    fixed = fl.nn.SGDAccountant(model, loss, q, noise, CLIP, sampling="fixed", **options)
    fixed.watch(X, y, rows=np.arange(size.watched))
    spent = {"steps": 0.0, "exact": 0.0, "fixed": 0.0}
    generator = torch.Generator(device=device).manual_seed(0)
    for _ in range(size.steps):
        start = wait(device)
        exact.step()
        middle = wait(device)
        if published:
            fixed.step()
        last = wait(device)
        step(model, loss, X, y, size, noise, generator)
        spent["steps"] += wait(device) - last
        spent["exact"] += middle - start
        spent["fixed"] += last - middle
    etas = np.asarray(exact.per_example().cpu())
    ratio = np.asarray(fixed.per_example().cpu()) / etas if published else None
    order, labels = np.argsort(etas), np.asarray(y[: size.watched].cpu())
    with torch.no_grad():
        accuracy = float((torch.cat([model(part) for part in X.split(5000)]).argmax(dim=1) == y).double().mean())
    quartiles = (0.0, 0.25, 0.5, 0.75, 1.0)
    by_class = [np.quantile(etas[labels == k], quartiles).tolist() if (labels == k).any() else [] for k in range(10)]
    run = Run(
        epsilon,
        noise,
        accuracy,
        spent["steps"] + spent["exact"],
        spent["exact"],
        float(etas.mean()),
        float(etas.max()),
        by_class,
        order[-8:][::-1].tolist(),
        order[:8].tolist(),
        spent["fixed"] if published else None,
        None if ratio is None else [float(ratio.min()), float(np.median(ratio)), float(ratio.max())],
    )
    return run, (model, etas, labels, ratio)


def step(model: Any, loss: Any, X: Any, y: Any, size: Size, noise: float, generator: Any) -> None:
    """One step of DP-SGD, with per-example gradients by ``torch.func``."""
    chosen = torch.nonzero(torch.rand(size.rows, device=X.device, generator=generator) < size.sample_rate)[:, 0]
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def one(p: Any, x: Any, label: Any) -> Any:
        return loss(torch.func.functional_call(model, p, (x[None],)), label[None])

    gradients = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))(parameters, X[chosen], y[chosen])
    lengths = torch.sqrt(sum((g.flatten(1) ** 2).sum(dim=1) for g in gradients.values()))
    factors = torch.clip(CLIP / lengths, max=1.0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            total = torch.tensordot(factors, gradients[name], dims=1)
            noisy = total + noise * CLIP * torch.randn(p.shape, device=p.device, generator=generator)
            p -= RATE * noisy / size.batch


def features_of(X: Any, y: Any, size: Size, device: str, model: Any) -> Any:
    """The network without its last layer: as it was trained, or after a few plain steps where only this part is run."""
    if model is not None:
        return model[:-1]
    model, loss = network().to(device), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for k in range(min(200, size.rows // size.batch)):
        rows = slice(k * size.batch, (k + 1) * size.batch)
        optimizer.zero_grad()
        loss(model(X[rows]), y[rows]).backward()
        optimizer.step()
    return model[:-1]


def last_layer(network: Any, X: Any, y: Any, size: Size, device: str) -> dict[str, float]:
    """Etas about pixels of a softmax head of ten classes on a frozen network, and maps of where some pictures leak."""
    labels = y[: size.pictures]
    start = wait(device)
    seen = fl.nn.on(network, X[: size.pictures])
    fit = fl.minimise(seen.features, labels, "softmax", 1e-3, intercept=True)
    middle = wait(device)
    leak: Any = fl.measure(fit, seen, labels, fl.Gaussian(0.1))
    etas = leak.per_example()
    stop = wait(device)
    leak.map()
    mapped = wait(device)
    return {
        "pictures": float(size.pictures),
        "features_and_fit": middle - start,
        "etas": stop - middle,
        "maps": mapped - stop,
        "eta_mean": float(etas.mean()),
        "eta_largest": float(etas.max()),
    }


def versions() -> str:
    found = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy", "torch")]
    found.append(f"fisherleak {fl.__version__}")
    return f"Python {platform.python_version()}, " + ", ".join(found)


def table(runs: list[Run], head: dict[str, float] | None, size: Size, machine: str) -> str:
    lines = [f"{machine}; {versions()}; {datetime.date.today().isoformat()}"]
    if runs:
        lines += [
            f"{size.rows:,} pictures, q = {size.sample_rate:g}, {size.steps:,} steps, clip {CLIP}, etas of {size.watched:,} "
            f"pictures at one step in {size.every}; epsilon at delta {DELTA:g} by the central limit theorem",
            "",
            "| epsilon | noise multiplier | accuracy | seconds | of them etas | mean eta | largest eta | published / exact |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
    for run in runs:
        ratios = run.published_over_exact
        shown = "" if ratios is None else f"{ratios[0]:.2f} to {ratios[2]:.2f}, median {ratios[1]:.2f}"
        cells = [f"{run.epsilon:g}", f"{run.noise_multiplier:.3f}", f"{run.accuracy:.3f}", f"{run.seconds:.1f}"]
        cells += [f"{run.seconds_etas:.1f}", f"{run.eta_mean:.4g}", f"{run.eta_largest:.4g}", shown]
        lines.append(f"| {' | '.join(cells)} |")
    if head is not None:
        lines += [
            "",
            "| ten-class head, pictures | features and fit, s | etas about pixels, s | maps, s | mean eta | largest eta |",
            "| --- | --- | --- | --- | --- | --- |",
            f"| {head['pictures']:,.0f} | {head['features_and_fit']:.2f} | {head['etas']:.2f} | {head['maps']:.2f} | "
            f"{head['eta_mean']:.4g} | {head['eta_largest']:.4g} |",
        ]
    return "\n".join(lines) + "\n"


def draw(runs: list[Run], found: list[Any], X: Any, out: Path) -> None:
    """Etas by class at each epsilon, the most and least exposed pictures, and exact etas beside those by the bound."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 3.4 * (len(runs) + 1)), layout="constrained")
    rows: Any = figure.subfigures(len(runs) + 1, 1, squeeze=False)[:, 0]
    _draw_bound(
        rows[-1], next(((run, made) for run, made in zip(runs, found, strict=True) if made[3] is not None), None)
    )
    for part, run, (_, etas, labels, _) in zip(rows, runs, found, strict=False):
        left, right = part.subfigures(1, 2, width_ratios=(1.2, 1.0))
        ax = left.subplots()
        present = [k for k in range(10) if (labels == k).any()]
        ax.boxplot([etas[labels == k] for k in present], positions=present, whis=(0, 100))
        ax.set(title=f"epsilon {run.epsilon:g}", xlabel="digit", ylabel="eta along the path", yscale="log")
        cells = right.subplots(2, 8)
        for line, chosen, name in zip(cells, (run.most, run.least), ("most", "least"), strict=True):
            for cell, row in zip(line, chosen, strict=False):
                cell.imshow(X[row, 0].cpu(), cmap="gray_r")
                cell.set(xticks=[], yticks=[])
                cell.set_title(f"{etas[row]:.2g}", fontsize=7)
            line[0].set_ylabel(name, fontsize=8)
    figure.savefig(out, dpi=80)


def _draw_bound(part: Any, shown: tuple[Run, Any] | None) -> None:
    """Etas of one run by the exact information of a Poisson-sampled step, and by the bound q / s^2 that needs no integral."""
    if shown is None:
        return
    run, (_, etas, _, ratio) = shown
    left, right = part.subplots(1, 2)
    left.scatter(etas, etas * ratio, s=4, alpha=0.4)
    ends = [float(etas.min()), float((etas * ratio).max())]
    left.plot(ends, ends, linewidth=1, color="black")
    left.set(xscale="log", yscale="log", xlabel="eta, exact", ylabel="eta by the published bound")
    left.set_title(f"epsilon {run.epsilon:g}, the same run; the line is where they agree", fontsize=9)
    right.hist(ratio, bins=40)
    right.set(xlabel="bound over exact", ylabel="pictures")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epsilons", default="1,3,8")
    parser.add_argument("--small", action="store_true", help="a few pictures and steps, as without a GPU")
    parser.add_argument("--part", choices=("all", "sgd", "last-layer"), default="all")
    parser.add_argument("--steps", type=int, help="fewer steps, for a smoke test")
    parser.add_argument("--out", type=Path, help="folder for nn.json, nn.md and nn.png")
    options = parser.parse_args()
    device = options.device
    torch.backends.cudnn.allow_tf32 = False  # ten bits of mantissa are too few for products of derivatives
    size = SMALL if options.small or device == "cpu" else FULL
    size = Size(**{**asdict(size), "steps": options.steps or size.steps})
    machine = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, CPU"
    print(f"{machine}; {versions()}", flush=True)
    X, y = mnist(size.rows, device)
    runs, found, head = [], [], None
    if options.part != "last-layer":
        epsilons = [float(value) for value in options.epsilons.split(",")]
        for epsilon in epsilons:
            run, made = trained(epsilon, size, X, y, device, published=epsilon == epsilons[len(epsilons) // 2])
            print(f"epsilon {epsilon:g}: {run.seconds:.1f} s, of them etas {run.seconds_etas:.1f} s", flush=True)
            runs.append(run)
            found.append(made)
    if options.part != "sgd":
        head = last_layer(features_of(X, y, size, device, found[-1][0] if found else None), X, y, size, device)
    text = table(runs, head, size, machine)
    print(text)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "nn.md").write_text(text)
        record = {"runs": [asdict(run) for run in runs], "last_layer": head, "machine": machine, "versions": versions()}
        (options.out / "nn.json").write_text(json.dumps(record, indent=1))
        if runs and importlib.util.find_spec("matplotlib") is not None:
            draw(runs, found, X, options.out / "nn.png")


if __name__ == "__main__":
    main()
