"""Columns of X that a policy would take for something else: True and False as numbers, and one with the label's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import Ridge

import fisherleak as fl

RNG = np.random.default_rng(0)
X = pandas.DataFrame({"b": RNG.integers(0, 2, 120).astype(bool), "a": RNG.normal(size=120)})
Y = pandas.Series(X.a + RNG.normal(size=120), name="y")
EVERY = {"columns": {"*": {"max_revealed": 0.99, "max_attack": 0.99}}}


def gate(table: Any, policy: Any, y: Any = Y) -> Any:
    model = Ridge().fit(table, y)
    return fl.audit(model, table, y, noise=fl.Gaussian(1.0), policy=policy, public="nothing", seed=1)


@pytest.mark.parametrize("kind", [bool, object, "boolean"])
def test_true_and_false_are_a_yes_or_no(kind: Any) -> None:
    found, plain = gate(X.astype({"b": kind}), EVERY), gate(X.astype(float), EVERY)
    assert found.passed
    assert found.rules.index.tolist() == plain.rules.index.tolist()
    assert "columns.b.max_attack" in found.rules.index
    np.testing.assert_allclose(found.rules["value"].tolist(), plain.rules["value"].tolist(), rtol=1e-9)


@pytest.mark.parametrize("y", [Y, Y.rename("label")])
def test_a_column_with_the_name_of_the_label_is_refused(y: Any) -> None:
    name = y.name
    other = X.rename(columns={"a": name}).astype(float)
    with pytest.raises(fl.InvalidInputError, match=f"X has a column '{name}', and the label is called so too"):
        gate(other, {"columns": {name: {"max_revealed": 0.99}}}, y)
    assert gate(X.astype(float), {"columns": {"a": {"max_revealed": 0.99}}}, y).passed
