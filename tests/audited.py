from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_audits: None) -> None:
    """Attacks in passing take little time."""


@pytest.fixture(scope="session")
def people() -> Any:
    """Numbers and categories, with a number, a class, a count and a positive amount to predict."""
    rng = np.random.default_rng(3)
    n = 150
    table = pandas.DataFrame(
        {
            "age": rng.normal(50, 12, n).round(),
            "weight": rng.normal(70, 9, n).round(1),
            "city": rng.choice(["Bonn", "Genua"], n),
        }
    )
    table["income"] = 1000 * table.age + rng.normal(0, 9000, n)
    table["sick"] = np.where(table.age + rng.normal(0, 12, n) > 50, "yes", "no")
    table["visits"] = rng.poisson(np.exp(table.age / 50))
    table["cost"] = rng.gamma(2.0, np.exp(table.age / 40) / 2.0).round(2) + 0.01
    scores = np.column_stack([table.age / 12, table.weight / 9, np.full(n, 6.0)]) + rng.gumbel(size=(n, 3))
    table["ward"] = np.array(["eye", "heart", "knee"])[scores.argmax(axis=1)]
    return table


TARGETS = {"linear": "income", "logistic": "sick", "softmax": "ward", "poisson": "visits", "gamma": "cost"}
"""A target for each kind of model; a new kind wants a line here."""
COLUMNS = ["age", "weight", "city"]


@pytest.fixture(scope="session")
def table_for(people: Any) -> Any:
    """The columns and the target of a kind."""
    return lambda kind: people[[*COLUMNS, TARGETS[kind]]]


@pytest.fixture(scope="session")
def target_for() -> Any:
    return TARGETS.__getitem__
