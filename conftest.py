"""What examples in docstrings go on from: the objects that the example of their class makes."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest


@functools.cache
def diabetes() -> dict[str, Any]:
    """As in the examples of Leakage and the attackers."""
    import numpy as np
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import LinearRegression

    import fisherleak as fl

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = LinearRegression().fit(X, y)
    return {
        "fl": fl,
        "np": np,
        "X": X,
        "y": y,
        "model": model,
        "leak": fl.measure(model, X, y, noise=fl.Gaussian(10.0)),
        "attack": fl.attacks.WhiteBox(model, X, y, "sex", rows=range(50)),
        "membership": fl.attacks.Membership(model, X, y),
    }


@functools.cache
def audited() -> dict[str, Any]:
    """As in the examples of ModelAudit."""
    import fisherleak as fl

    known = diabetes()
    return {"found": fl.audit(known["model"], known["X"], known["y"], 20.0, max_eta=5.0, attacks=False)}


@functools.cache
def frontier() -> dict[str, Any]:
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge

    import fisherleak as fl

    X, y = load_diabetes(return_X_y=True)
    trimmed = fl.trim(Ridge(), X, y, max_eta=2.0, noise=fl.Gaussian(20.0))
    made = fl.protect(Ridge(1.0), X, y / y.std(), eta=1.0, over="max", penalties=[1.0], weightings=["none"])
    return {"frontier": made, "trimmed": trimmed}


def ledger() -> dict[str, Any]:
    """Two releases about three rows, as in the example of Ledger."""
    import numpy as np

    import fisherleak as fl

    X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 3.0, -1.0])
    leak = fl.measure(fl.minimise(X, y), X, y, noise=fl.Gaussian(10.0))
    kept = fl.Ledger(Path(tempfile.mkdtemp()) / "table.ledger.json")
    kept.add(leak)
    kept.add(leak)
    return {"X": X, "y": y, "leak": leak, "ledger": kept}


MADE = {
    "fisherleak.leakage.etas": diabetes,
    "fisherleak.leakage.leakage": diabetes,
    "fisherleak.attacks.base": diabetes,
    "fisherleak.auditing.fitted_models.model_audit": audited,
    "fisherleak.attacks.membership": diabetes,
    "fisherleak.protection.frontier.frontier": frontier,
    "fisherleak.protection.trimming": frontier,
    "fisherleak.protection.ledger.ledger": ledger,
}


@pytest.fixture(autouse=True)
def what_examples_go_on_from(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace.clear()
        for module, make in MADE.items():
            if request.node.name.startswith(f"{module}."):
                doctest_namespace.update(make())
