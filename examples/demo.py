"""What a model of diabetes progression reveals about 442 patients: measure, read, limit.

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

import fisherleak as fl


def main(folder: Path) -> None:
    data = load_diabetes(as_frame=True, scaled=False)
    raw, y = data.data, data.target.to_numpy()
    deviation = raw.std()
    X = (raw - raw.mean()) / deviation
    # A change of one year, one kg/m2, ... moves a standardised column by 1 / deviation: eta is in raw units.
    attributes = [fl.Attribute(name, [j], [[1 / deviation[name]]]) for j, name in enumerate(raw.columns)]

    fit = fl.minimise(X, y, loss="squared", l2=1e-2, intercept=True)
    leak = fl.measure(fit, X, y, noise=fl.Gaussian(scale=1.0), attributes=attributes)
    print(leak.summary())

    limit = 0.1  # no year of age to be known to better than ten years
    noise = fl.calibrate(leak, eta=limit, attributes=["age"])
    print(
        f"\nTo keep every patient's age to within no less than {1 / limit:.0f} years: noise of scale {noise.scale:.3g}"
    )
    quiet = leak.with_noise(noise)

    folder.mkdir(parents=True, exist_ok=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    quiet.plot(np.where(raw["sex"] == 1, "sex = 1", "sex = 2"), ax=left)
    left.set_title("How much the model reveals about each patient")
    names = ["age", "bmi", "bp", "s6"]
    best = [1 / quiet.per_cell()[:, quiet.attributes.index(name)].max() / deviation[name] for name in names]
    right.barh(names, best, color="C2")
    right.invert_yaxis()
    right.set_xlabel(
        "least error of an unbiased attacker on the most exposed patient,\nin standard deviations of the column"
    )
    right.set_title(f"What noise of scale {noise.scale:.2g} protects")
    figure.savefig(folder / "leakage.png", dpi=110)
    quiet.to_frame().to_csv(folder / "leakage.csv", index_label="patient")
    print(f"\nThe picture: {folder / 'leakage.png'}   every patient and attribute: {folder / 'leakage.csv'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
