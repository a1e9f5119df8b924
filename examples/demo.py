"""What a model of diabetes progression reveals about 442 patients: measure, limit, release.

Usage: python examples/demo.py [folder]. Writes leakage.png and leakage.csv there; needs no network.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl


def main(folder: Path) -> None:
    data = load_diabetes(as_frame=True, scaled=False)
    names = {"s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "ratio", "s5": "triglycerides", "s6": "glucose"}
    table, y = data.data.rename(columns=names), data.target
    table["sex"] = np.where(table["sex"] == 1, 0.0, 1.0)
    train, test, y_train, y_test = train_test_split(table, y, test_size=0.25, random_state=0)
    model = make_pipeline(StandardScaler(), Ridge(alpha=1.0)).fit(train, y_train)

    # The age of no patient in the training data shall be known to better than ten years.
    leak = fl.measure(model, train, y_train)
    noise = fl.calibrate(leak, eta=1 / 10, attributes=["age"])
    leak = leak.with_noise(noise)
    print(leak.summary())

    scores = [fl.release(model, noise).score(test, y_test) for _ in range(50)]
    print(f"\nNoise of scale {noise.scale:.3g} on every coefficient keeps each patient's age to ± 10 years or worse.")
    print(f"R² on {len(test)} other patients: {model.score(test, y_test):.3f} before, {np.mean(scores):.3f} after.")

    folder.mkdir(parents=True, exist_ok=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    ages = leak.per_example(["age"])
    left.hist(ages, bins=30, color="C0", alpha=0.8)
    left.axvline(0.1, linestyle="--", color="C3", label="limit")
    left.set(title="What the released model reveals about each patient's age")
    left.set(xlabel="Fisher information loss η of age (1/η: least error, in years)", ylabel="patients")
    left.legend()
    least = 1 / np.max(leak.per_cell(), axis=0) / train.std().to_numpy()
    order = np.argsort(least)
    right.barh([leak.attributes[j] for j in order], least[order], color="C2")
    right.set(title="The most exposed patient, column by column")
    right.set_xlabel("least error of an unbiased attacker, in SDs of the column")
    figure.savefig(folder / "leakage.png", dpi=110)
    leak.to_frame().to_csv(folder / "leakage.csv", index_label="patient")
    print(f"\nThe picture to open: {folder / 'leakage.png'}; every patient and column: {folder / 'leakage.csv'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
