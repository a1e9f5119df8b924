"""Small problems of the squared loss within declared bounds, for noise of the rows' own shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from cases import Case, make

BOX, LABELS = (-2.5, 2.5), (-4.0, 5.0)
BOUNDS: Any = {f"x{j}": BOX for j in range(3)} | {"label": LABELS}


def problem(seed: int = 1, **options: Any) -> Case:
    case = make("squared", seed, **({"n": 120, "l2": 0.1} | options))
    return replace(case, X=np.clip(case.X, *BOX), y=np.clip(case.y, *LABELS))


def folded(X: NDArray[np.float64], y: NDArray[np.float64]) -> fl.Leakage:
    return fl.measure(make_pipeline(StandardScaler(), Ridge(10.0)).fit(X, y), X, y, public="nothing")
