"""What ``other_tools.py`` has done by other packages, in their environment: ``python their_side.py TASK GIVEN.npz FOUND.npz``.

Nothing of fisherleak is imported here: arrays come and go by file.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import warnings
from typing import Any

import numpy as np

PACKAGES = ("diffprivlib", "adversarial-robustness-toolbox", "scikit-learn", "numpy")


def versions(given: Any) -> dict[str, Any]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    print(json.dumps(found))
    return {}


def logistic(given: Any) -> dict[str, Any]:
    """Differentially private logistic regressions: (epsilons, draws, parameters)."""
    model = importlib.import_module("diffprivlib.models").LogisticRegression
    found = [
        [
            model(
                epsilon=e, data_norm=float(given["norm"]), C=float(given["C"]), tol=1e-7, max_iter=3000, random_state=s
            )
            for s in range(int(given["draws"]))
        ]
        for e in given["epsilons"].tolist()
    ]
    fits = [[one.fit(given["X"], given["y"]) for one in line] for line in found]
    return {"parameters": [[np.append(one.coef_, one.intercept_) for one in line] for line in fits]}


def linear(given: Any) -> dict[str, Any]:
    """Differentially private linear regressions without an intercept: (epsilons, draws, parameters)."""
    model = importlib.import_module("diffprivlib.models").LinearRegression
    box, labels = (given["low"], given["high"]), tuple(given["label"].tolist())
    made = [
        [
            model(epsilon=e, bounds_X=box, bounds_y=labels, fit_intercept=False, random_state=int(given["seed"]) + s)
            for s in range(int(given["draws"]))
        ]
        for e in given["epsilons"].tolist()
    ]
    return {"parameters": [[one.fit(given["X"], given["y"]).coef_ for one in line] for line in made]}


def members(given: Any) -> dict[str, Any]:
    """Shares of members and of others that a learned black-box attack names rightly: (models, 2)."""
    attack = importlib.import_module("art.attacks.inference.membership_inference").MembershipInferenceBlackBox
    wrap = importlib.import_module("art.estimators.classification").SklearnClassifier
    plain = importlib.import_module("sklearn.linear_model").LogisticRegression
    X, y, Z, t = (given[name] for name in ("X", "y", "Z", "t"))
    half = len(y) // 2
    rates = []
    for parameters in given["parameters"]:
        np.random.seed(0)  # noqa: NPY002 - ART draws from the global state
        model = plain().fit(X[:100], y[:100])
        model.coef_, model.intercept_ = parameters[None, :-1], parameters[-1:]
        one = attack(wrap(model), attack_model_type="rf")
        one.fit(X[:half], y[:half], Z[:half], t[:half])
        inside, outside = one.infer(X[half:], y[half:]), one.infer(Z[half:], t[half:])
        rates.append((float(np.mean(inside)), float(1 - np.mean(outside))))
    return {"rates": rates}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    task, source, target = sys.argv[1:]
    with np.load(source) as arrays:
        np.savez(
            target, **{"versions": versions, "logistic": logistic, "linear": linear, "members": members}[task](arrays)
        )
