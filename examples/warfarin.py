"""Warfarin patients: measure, find the exposed, calibrate, release, balance.

Usage: python examples/warfarin.py [folder]. Writes the pictures of the documentation's gallery to the folder given;
downloads the IWPC table unless FISHERLEAK_DATA names a folder that has it.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl


def main(folder: Path) -> None:
    data = fl.datasets.load_iwpc()
    train, y, test, y_test = data.X, data.y, data.X_test, data.y_test
    numbers = ["age", "height", "weight"]
    categories = [name for name in data.names if name not in numbers]
    model = make_pipeline(
        make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(drop="first"), categories)),
        Ridge(alpha=1e-3 * len(train)),
    ).fit(train, y)

    print("1. Measure")
    leak = fl.measure(model, train, y, noise=fl.Gaussian(1e-3))
    print(leak.summary())
    gene = leak.per_example(["vkorc1"])
    print(f"\n2. Find the exposed: eta of vkorc1 from {gene.min():.3g} to {gene.max():.3g}; by genotype, jointly:")
    for level, eta in leak.by_group("vkorc1").items():
        print(f"   {level}: {eta:.3g}")

    print("\n3. Calibrate: no patient's vkorc1 above 1")
    noise = fl.calibrate(leak, eta=1.0, attributes=["vkorc1"])
    print(f"   {noise}")

    print("\n4. Release")
    drawn = fl.Gaussian(noise.scale)
    warnings.simplefilter("ignore", fl.SeededReleaseWarning)  # none of these is passed on
    public: dict[str, Any] = {"public": "preprocessing"}  # as it was measured
    scores = [
        fl.release(model, drawn, seed, **public).score(test, y_test) for seed in range(100)
    ]  # seeds for the page only
    print(f"   R2 on held-out patients: {model.score(test, y_test):.3f} before, {np.mean(scores):.3f} after on average")

    print("\n5. Balance")
    balanced = fl.IRFIL(model, n_iter=10, attributes=["vkorc1"]).fit(train, y)
    after = fl.measure(balanced.estimator_, train, y, fl.Gaussian(1e-3), balanced.weights_).per_example(["vkorc1"])
    history = balanced.history_
    print(f"   SD of eta relative to its mean: {history['sd'][0] / history['mean'][0]:.3f} before, "
          f"{history['sd'][-1] / history['mean'][-1]:.1e} after; "
          f"R2 {balanced.score(test, y_test):.3f}")  # fmt: skip

    folder.mkdir(parents=True, exist_ok=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    bins = np.geomspace(gene.min(), gene.max(), 50)
    for k, level in enumerate(sorted(train["vkorc1"].unique())):
        left.hist(gene[train["vkorc1"] == level], bins=bins, alpha=0.6, color=f"C{k}", label=level)
    left.set(title="What the model reveals about each patient's gene", xlabel="η of vkorc1 (noise of scale 0.001)")
    left.set_ylabel("patients")
    left.legend(title="vkorc1")
    left.set_xscale("log")
    right.set_xscale("log")
    right.hist(gene, bins=bins, alpha=0.6, label="plain")
    right.axvline(float(np.mean(after)), color="C3", label="after IRFIL, for every patient")
    right.set(title="Balanced: the same for everyone", xlabel="η of vkorc1 (noise of scale 0.001)")
    right.legend()
    figure.savefig(folder / "warfarin-balance.png", dpi=100)

    scales = np.geomspace(1e-4, 1e-1, 25)
    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    scores = [[fl.release(model, fl.Gaussian(s), k, **public).score(test, y_test) for k in range(20)] for s in scales]
    ax.semilogx(gene.max() * 1e-3 / scales, np.mean(scores, axis=1))
    ax.axvline(1.0, linestyle="--", color="C3", label="the limit of step 3")
    ax.set(xlabel="largest η of vkorc1", ylabel="R² on held-out patients", title="What the noise costs", ylim=(0, None))
    ax.legend()
    figure.savefig(folder / "warfarin-cost.png", dpi=100)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "warfarin"))
