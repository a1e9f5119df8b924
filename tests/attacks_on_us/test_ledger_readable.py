"""Whatever a ledger takes, it answers for: no release that is recorded makes every later question fail."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import fisherleak as fl

N = 40
NOISE = fl.Gaussian(0.5)


def table() -> pandas.DataFrame:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(rng.normal(size=(N, 2)), columns=["age", "dose"])
    return frame.assign(kind=rng.choice(["a", "b", "c"], N), bit=rng.integers(0, 2, N))


FRAME = table()
CHANCE = np.random.default_rng(4)
ILL = (FRAME["age"].to_numpy() + CHANCE.normal(size=N) > 0) * 1
TARGETS: dict[str, Any] = {
    "0 and 1": ILL,
    "-1 and 1": 2 * ILL - 1,
    "text": np.where(ILL == 1, "yes", "no"),
    "1 and 2": ILL + 1,
    "other classes": FRAME["bit"].to_numpy(),
    "flipped": 1 - ILL,
    "number": FRAME["age"].to_numpy() + CHANCE.normal(size=N),
    "another number": FRAME["dose"].to_numpy(),
    "count": CHANCE.poisson(2.0, N) * 1.0,
    "three classes": np.arange(N) % 3,
}
CLASSES = {"0 and 1", "-1 and 1", "text", "1 and 2", "other classes", "flipped"}
MODELS: dict[str, tuple[Any, set[str]]] = {
    "ridge": (Ridge(1.0), set(TARGETS) - {"text"}),
    "logistic": (LogisticRegression(tol=1e-10, max_iter=9999), CLASSES | {"three classes"}),
    "ridge classifier": (RidgeClassifier(1.0), CLASSES),
    "poisson": (
        PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=9999),
        {"0 and 1", "1 and 2", "other classes", "count"},
    ),
}
SCALED = ColumnTransformer([("n", StandardScaler(), ["age", "dose"]), ("k", OneHotEncoder(drop="first"), ["kind"])])
COLUMNS: dict[str, Any] = {
    "numbers": (["age", "dose"], None),
    "one": (["dose"], None),
    "another": (["age"], None),
    "kinds": (["age", "dose", "kind"], SCALED),
    "all": (["age", "dose", "kind", "bit"], SCALED),
    "ordinal": (["kind", "bit"], ColumnTransformer([("k", OrdinalEncoder(), ["kind"])], remainder="passthrough")),
}
PUBLIC = ("preprocessing", "nothing")
WAYS: dict[str, Any] = {"noise": NOISE, "posterior": fl.Posterior(0.3), "answers": None}


def release(model: str, target: str, columns: str, public: str, way: str, some: slice) -> fl.Leakage | None:
    """A release of some rows, or None where there is no such release."""
    last, targets = MODELS[model]
    names, before = COLUMNS[columns]
    if target not in targets:
        return None
    rows, y = FRAME[names].iloc[some], TARGETS[target][some]
    fitted = (last if before is None else make_pipeline(before, last)).fit(rows, y)
    noise = fl.Answers(rows.iloc[:5], NOISE) if way == "answers" else WAYS[way]
    try:
        return fl.measure(fitted, rows, y, noise=noise, public=public)
    except fl.FisherleakError:
        return None


def some_pairs(count: int) -> list[tuple[Any, Any]]:
    parts = (list(MODELS), list(TARGETS), list(COLUMNS), PUBLIC, list(WAYS), [slice(0, 30), slice(10, N), slice(0, N)])
    every = list(itertools.product(*parts))
    choose = np.random.default_rng(0)
    drawn = [(every[j], every[k]) for j, k in choose.integers(len(every), size=(count, 2)).tolist()]
    # every other pair has one target
    return [(a, (b[0], a[1], *b[2:]) if k % 2 else b) for k, (a, b) in enumerate(drawn)]


@pytest.mark.long
def test_what_is_recorded_is_answered_for_and_what_is_refused_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    """Two releases of any model, target, columns, mechanism and rows, in one ledger."""
    taken, refused = 0, 0
    for number, (first, second) in enumerate(some_pairs(80)):
        one = release(*first)
        other = None if one is None else release(*second)
        if one is None or other is None:
            continue
        ledger = fl.Ledger(tmp_path / f"{number}.json")
        try:
            ledger.add(one)
        except fl.InvalidInputError:
            assert not ledger.path.exists()
            continue
        try:
            ledger.add(other)
        except fl.InvalidInputError:
            refused += 1
            assert len(ledger.entries) == 1
            answers(ledger, [first])
        else:
            taken += 1
            answers(ledger, [first, second])
    assert taken > 5
    assert refused > 5


def answers(ledger: fl.Ledger, releases: list[Any]) -> None:
    """The whole table has an eta for every row, under a target that one of the releases had."""
    said = []
    for target in dict.fromkeys(each[1] for each in releases):
        try:
            etas = ledger.etas(FRAME, TARGETS[target])
        except fl.InvalidInputError as error:
            said.append(str(error))
            continue
        assert np.all(np.isfinite(etas))
        assert np.all(ledger.leakage(FRAME, TARGETS[target]).per_example() <= etas * (1 + 1e-9))
        assert ledger.remaining(2.0 * float(etas.max()), FRAME, TARGETS[target]) > 0
        return
    pytest.fail(f"{releases}: {said}")


def test_a_target_of_several_values_does_not_join_two_classes_over_few_shared_rows(tmp_path: Path) -> None:
    """The rows that both releases have agree by chance, and no table has two classes and more values of its label."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    number = np.concatenate([rng.normal(size=18), [0.0, 1.0], np.full(20, np.nan)])
    two = np.concatenate([np.full(18, -9), [0.0, 1.0], rng.integers(0, 2, 20)])
    early, late = slice(0, 20), slice(18, 40)
    releases = [
        fl.measure(LinearRegression().fit(X[early], number[early]), X[early], number[early], noise=NOISE),
        fl.measure(fl.minimise(X[late], two[late], "logistic", 0.1), X[late], two[late], noise=NOISE),
    ]
    ids = [range(20), range(18, 40)]
    for order in ((0, 1), (1, 0)):
        ledger = fl.Ledger(tmp_path / f"{order[0]}.json")
        ledger.add(releases[order[0]], ids=ids[order[0]])
        with pytest.raises(fl.InvalidInputError, match=r"one target|two classes"):
            ledger.add(releases[order[1]], ids=ids[order[1]])
