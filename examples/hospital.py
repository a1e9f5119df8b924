"""A made-up hospital table: visits of patients, with lab values that are missing now and then, diagnoses and dates."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

BOUNDS = {"age": (0, 110), "bmi": (10, 70), "crp": (0, 300), "creatinine": (0, 12), "stay": (0, 60)}
"""What a hospital knows of its columns without looking: for ``--bounds``."""
MOST_VISITS = 6
"""Of one patient in a year: for ``--rows-per-person``."""


def hospital(visits: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Visits of patients, 2.3 each on average and at most ``MOST_VISITS``; about 17 % are readmitted."""
    draw = np.random.default_rng(seed)
    counts = np.minimum(draw.geometric(0.42, size=visits), MOST_VISITS)
    patient = np.repeat(np.arange(visits), counts)[:visits]
    people = patient.max() + 1
    age, sex = np.clip(draw.normal(62, 17, people), 18, 99), draw.integers(0, 2, people)
    frailty, bmi = draw.normal(size=people), np.clip(draw.normal(27, 5, people), 15, 55)
    codes = np.array([f"{letter}{number:02d}" for letter in "CEIJKN" for number in range(10, 20)])
    weights = 1.0 / np.arange(1, len(codes) + 1) ** 1.1
    diagnosis = draw.choice(len(codes), size=visits, p=weights / weights.sum())
    crp = np.clip(np.exp(1.6 + 0.5 * frailty[patient] + 0.9 * draw.normal(size=visits)), 0.2, 300)
    creatinine = np.clip(
        np.exp(0.1 * frailty[patient] + 0.005 * (age[patient] - 60) + 0.25 * draw.normal(size=visits)), 0.3, 12
    )
    stay = np.clip(draw.poisson(np.exp(1.2 + 0.3 * frailty[patient])), 0, 60)
    effect = 0.6 * np.sin(np.arange(len(codes)))
    score = -2.0 + 0.035 * (age[patient] - 62) + 0.9 * (np.log(crp) - 1.6) + 0.12 * (stay - 4) + effect[diagnosis]
    table = pd.DataFrame(
        {
            "patient_id": patient + 100_001,
            "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(draw.integers(0, 366, visits)), unit="D"),
            "age": np.round(age[patient]).astype(int),
            "sex": np.where(sex[patient] == 1, "f", "m"),
            "bmi": np.round(bmi[patient] + draw.normal(0, 0.5, visits), 1),
            "diagnosis": codes[diagnosis],
            "crp": np.round(crp, 1),
            "creatinine": np.round(creatinine, 2),
            "stay": stay,
            "readmitted": (draw.random(visits) < 1 / (1 + np.exp(-score))).astype(int),
        }
    )
    table.loc[draw.random(visits) < 0.12, "crp"] = np.nan
    table.loc[draw.random(visits) < 0.08, "creatinine"] = np.nan
    table["admitted"] = table["admitted"].dt.strftime("%Y-%m-%d")
    return table


if __name__ == "__main__":
    hospital(int(sys.argv[1]) if len(sys.argv) > 1 else 3000).to_csv(sys.stdout, index=False)
