"""Refusals about whose rows are whose, and about models that are not where a limit holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fisherleak as fl
from remedies.of_models import LEAK, NOISE, PAIRS, RIDGE, X, Y, measured
from remedies.table import Remedy

PEOPLE = measured(RIDGE, person=PAIRS)
MANY = np.random.default_rng(9).uniform(0, 1, size=(400, 1))
LABELS = (MANY[:, 0] + np.random.default_rng(10).normal(size=400) > 0.5).astype(int)
KINDS = np.column_stack([np.repeat(["a", "b", "c"], [300, 80, 20]).astype(object), MANY])
GAPS = np.where(np.arange(800).reshape(400, 2) % 40 == 0, np.nan, np.column_stack([MANY, MANY[::-1]]))
TARGET = MANY[:, 0] + np.random.default_rng(11).normal(size=400)
POLICY: dict[str, Any] = {"label": {"max_revealed": 0.99}, "require": {"public": "preprocessing"}}


def noise_of(tol: float) -> Any:
    leak = fl.measure(LogisticRegression(tol=tol).fit(MANY, LABELS), MANY, LABELS)
    return fl.calibrate(leak, 1e3, over="any-record", bounds={"x0": (0, 1)}, random_state=0)


def encoded(**limits: Any) -> Any:
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", **limits)
    model = make_pipeline(make_column_transformer((encoder, [0]), remainder="passthrough"), Ridge(1.0))
    return model.fit(KINDS, TARGET)


def gate(model: Any, X: Any) -> Any:
    return fl.audit(model, X, TARGET, 5.0, policy=POLICY, attacks=False)


def imputed(learned: Any) -> Any:
    model = make_pipeline(SimpleImputer().fit(learned), Ridge(1.0))
    model.steps[-1][1].fit(model[0].transform(GAPS), TARGET)
    return model


FLOATS = np.r_[0.5, 1e16 + 2.0 * np.arange(len(MANY) - 1)]
SITES = ["1.1", "1.10", *(f"2.{k}" for k in range(1, 10)), *(f"p{k}" for k in range(len(MANY) - 11))]


def of_ids(person: Any) -> Any:
    return fl.audit(Ridge(1.0).fit(MANY, TARGET), MANY, TARGET, 5.0, attacks=False, person=np.array(person))


OF_PEOPLE: list[Remedy] = [
    Remedy(
        "holds numbers of 16 digits or more, and is read with 15 digits: as ids some would be one.",
        of_ids,
        {"person": FLOATS},
        {"Write them as text, with a letter before each": {"person": [f"p{k}" for k in range(len(MANY))]}},
    ),
    Remedy(
        "holds ids that are different as text and the same as numbers, as 1.1 and 1.10 are.",
        of_ids,
        {"person": SITES},
        {
            "Write them as text, with a letter before each": {"person": [f"p{each}" for each in SITES]},
            "in one way for each person": {"person": ["1.1", *SITES[:1], *SITES[2:]]},
        },
    ),
    Remedy(
        "counts rows, and this leakage is about people: measure it without person=",
        lambda leak: fl.queries_until(leak, X, fl.Gaussian(1.0), eta=1.0),
        {"leak": PEOPLE},
        {"measure it without person=": {"leak": LEAK}},
    ),
    Remedy(
        "revealed is about single values, and a person may have a value in several rows",
        lambda leak: leak.revealed(),
        {"leak": PEOPLE},
        {"measure without person=": {"leak": LEAK}, "use per_cell()": PEOPLE.per_cell},
    ),
    Remedy(
        "compose needs releases about the same people: measure all with the same person=",
        lambda *, first, second: fl.compose(first, second),
        {"first": PEOPLE, "second": LEAK},
        {"measure all with the same person=": {"second": PEOPLE}},
    ),
    Remedy(
        "person is missing in some rows: name everyone, or leave these rows out and fit again.",
        lambda *, person, rows: measured(Ridge(1.0).fit(X[rows], Y[rows]), X[rows], Y[rows], person=person[rows]),
        {"person": np.array([None, None, *PAIRS[2:].tolist()], dtype=object), "rows": slice(None)},
        {"name everyone": {"person": PAIRS}, "leave these rows out and fit again": {"rows": PAIRS > 0}},
    ),
    Remedy(
        "person names the person of each row: pass rows=(X, y) too.",
        fl.release,
        {"model": encoded(), "noise": NOISE, "person": np.arange(400)},
        {"pass rows=(X, y) too": {"rows": (KINDS, TARGET)}},
    ),
    Remedy(
        "noise deviations away ({MOST_MOVED} at most): fit with a smaller tol",
        noise_of,
        {"tol": 1e-3},
        {"fit with a smaller tol, 1e-10 say": {"tol": 1e-10}},
    ),
    Remedy(
        "one row or person decides whether a category is rare.",
        gate,
        {"model": encoded(min_frequency=80), "X": KINDS},
        {
            "declare the categories with categories=… and leave min_frequency and max_categories out": {
                "model": encoded(categories=[["a", "b", "c"]]),
            },
            "other limits (min_frequency, max_categories)": {"model": encoded(min_frequency=10)},
        },
    ),
    Remedy(
        "that was fitted on other rows: a filled value can show that it was missing",
        gate,
        {"model": imputed(np.full((5, 2), -1000.0)), "X": GAPS},
        {"Fit the pipeline on the audited rows": {"model": imputed(GAPS)}},
    ),
]
