"""Refusals of fits, mechanisms, networks, ledgers, choices and files that are met seldom, with what they advise."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak._support.arrays import host
from fisherleak.releasing.table_model import limited_columns
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train
from remedies.of_bounds import ENDS, LINEAR
from remedies.of_files import of_columns, saved_frontier
from remedies.of_limits import BOUNDS, GAPS, protected
from remedies.of_models import LEAK, NOISE, RIDGE, C, X, Y, fitted, measured
from remedies.of_noises import TWO, reweighted
from remedies.of_policies import judged
from remedies.of_tables import RELEASE, T, ran
from remedies.table import Remedy, limited, refusing
from rows.lazy import da

pytest.importorskip("torch")


LAZY = da.from_array(X, chunks=(30, -1))
SEEN = fl.nn.on(LINEAR, X)
HEAD = Ridge(1.0).fit(SEEN.features, Y)
RNG = np.random.default_rng(0)
RARE = np.column_stack([RNG.normal(size=(400, 2)), np.arange(400) < 4])
"""With a column that marks a few rows whose labels are all equal."""
SELDOM = np.where(np.arange(400) < 4, 1, RNG.random(400) < 1 / (1 + np.exp(-RARE[:, 0])))
SMALL = fl.minimise(X, Y, l2=10.0)
HEAVY = Ridge(600.0).fit(X, Y)
HEAVY_NAMED = Ridge(600.0).fit(pandas.DataFrame(X, columns=["a", "b", "c"]), Y)
ANSWERS = fl.Answers(X[:4], fl.Gaussian(1.0))


def behind(**options: Any) -> fl.Leakage:
    return fl.measure(HEAD, SEEN, Y, NOISE, **options)


def with_bounds(shape: str, model: Any = None) -> Any:
    return fl.calibrate(fl.measure(model or SMALL, X, Y), 20.0, "any-record", shape=shape, bounds=BOUNDS)


def noisy(scale: float) -> Any:
    return LEAK.with_noise(fl.Gaussian(scale))


def saved_classes(**options: Any) -> Any:
    frame = pandas.DataFrame(np.tile(X, (5, 1)), columns=["x0", "x1", "x2"])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-10, **options))
    best = fl.protect(model, frame, np.resize(C, 300), 9.0, shapes=["isotropic"], public="nothing", bounds=ENDS)
    with TemporaryDirectory() as folder:
        return best.save(Path(folder) / "model.skops")


def tilted(scale: float = 30.0, l2: float = 0.01) -> Any:
    with limited(**{"engine.mechanisms.perturbed_minimisers.MOST_STEPS": 3}):
        by = fl.ObjectivePerturbation(scale, draws=100)
        return fl.measure(fl.minimise(X, C, "logistic", l2), X, C, by).per_example()


def steps(l2: float = 0.01, **options: Any) -> Any:
    with limited(**{"protection.irfil.even_weights.MOST_STEPS": 2}):
        return reweighted(Ridge(l2), **options)


def renamed(count: int, carry: bool = False) -> Any:
    """A release in a ledger, and another of the same rows, of which some have other ids."""
    frame = pandas.DataFrame(X, columns=["a", "b", "c"], index=[f"p{k}" for k in range(60)])
    other = frame.set_axis([f"q{k}" if k < count else f"p{k}" for k in range(60)])
    with TemporaryDirectory() as folder:
        ledger = fl.Ledger(Path(folder) / "table.ledger.json")
        ledger.add(fl.measure(HEAVY_NAMED, frame, Y, NOISE))
        ledger = ledger.carry_to(Path(folder) / "next.ledger.json") if carry else ledger
        return ledger.add(fl.measure(HEAVY_NAMED, other, Y, NOISE))


def carried(first: str = "abc", names: str = "abc", more: int = 0) -> Any:
    """A release in a ledger that goes on from another's totals."""
    with TemporaryDirectory() as folder:
        before = fl.Ledger(Path(folder) / "before.ledger.json")
        before.add(of_columns(first))
        return before.carry_to(Path(folder) / "after.ledger.json").add(of_columns(names, more))


def small_card(name: str, drop: bool = False) -> Any:
    with limited(**{"releasing.cards.signatures.MOST_BYTES": 4000}):
        return ran(f"{RELEASE} --drop {name}" if drop else RELEASE, t=T.rename(columns={"a": name}))


def in_folder(a: Any) -> Any:
    with TemporaryDirectory() as folder:
        T.assign(a=a).to_parquet(Path(folder) / "one.parquet", index=False)
        return fl.read_parquet_folder(f"{folder}/*.parquet").compute()


def workbook(names: Any) -> bytes:
    from openpyxl import Workbook

    book, held = Workbook(), BytesIO()
    for row in [*names, *T.to_numpy().tolist()]:
        book.active.append(row)
    book.save(held)
    return held.getvalue()


def by_rule(**options: Any) -> Any:
    return fl.PrivateRelease(Ridge(600.0), bounds=BOUNDS, **options).fit(X, Y)


OF_OTHERS: list[Remedy] = [
    Remedy(
        "its values are needed in memory: call compute() on it first",
        host,
        {"x": LAZY},
        {"call compute() on it first": lambda: host(LAZY.compute())},
    ),
    Remedy(
        "public='nothing' needs rows in memory, and X is a Dask array: pass X.compute()",
        lambda X=LAZY, public="nothing": fl.measure(
            make_pipeline(StandardScaler(), Ridge(1.0)).fit(LAZY.compute(), Y), X, Y, NOISE, public=public
        ).per_example(),
        {},
        {"pass X.compute()": {"X": LAZY.compute()}, "public='preprocessing'": None},
    ),
    Remedy(
        "Gradients of a scikit-learn model are measured about the columns of its table: leave attributes out.",
        lambda **options: fl.gradients(RIDGE, X, Y, NOISE, **options),
        {"attributes": ["a", "b", "c"]},
        {"leave attributes out": None},
    ),
    Remedy(
        "needs to know how queries become features",
        lambda leak: leak.with_noise(ANSWERS).per_example(),
        {"leak": fl.gradients(SMALL, X, Y, NOISE)},
        {"pass a leakage of rows from fisherleak.measure": {"leak": fl.measure(SMALL, X, Y, NOISE)}},
    ),
    Remedy(
        "the attributes of these inputs differ. Pass the same to measure().",
        lambda attributes: fl.compose(behind(), behind(attributes=attributes)),
        {"attributes": {"left": [0, 1]}},
        {"Pass the same to measure()": {"attributes": None}},
    ),
    Remedy(
        "in {rounds} runs: raise start.",
        lambda start: fl.nn.noise_for(noisy, 0.1, start=start, rounds=1),
        {"start": 1e-3},
        {"raise start": {"start": 1e3}},
    ),
    Remedy(
        "and these etas are off by up to",
        refusing(
            lambda tol=1e-4, polish=False: measured(
                LogisticRegression(C=1e6, tol=tol, max_iter=9999).fit(RARE, SELDOM), RARE, SELDOM, polish=polish
            )
        ),
        {},
        {
            "Leave polish=False out": lambda: measured(
                LogisticRegression(C=1e6).fit(RARE, SELDOM), RARE, SELDOM, public="preprocessing"
            ),
            "fit with a smaller tol": {"tol": 1e-10},
        },
    ),
    Remedy(
        "is not supported on {type(y).__name__} labels: pass class_weight as a dict.",
        lambda weight: measured(
            fitted(LogisticRegression(class_weight=weight, tol=1e-10), y=C), *map(da.from_array, (X, C))
        ),
        {"weight": "balanced"},
        {"pass class_weight as a dict": {"weight": {0: 1.0, 1: 2.0}}},
    ),
    Remedy(
        "outputs is not supported here: fit one model per output.",
        lambda y: measured(Ridge(1.0).fit(X, y), y=Y),
        {"y": TWO},
        {"fit one model per output": {"y": Y}},
    ),
    Remedy(
        "noise has a covariance that was computed from the rows, and a released Fit would show it",
        lambda model=None, shape="hessian": fl.release(model or SMALL, with_bounds(shape)),
        {},
        {
            "release a model of scikit-learn": lambda: fl.release(HEAVY, with_bounds("hessian", HEAVY)),
            "use another `shape`": {"shape": "isotropic"},
        },
    ),
    Remedy(
        "This release is drawn with random_state: noise that can be drawn again protects nothing.",
        refusing(lambda **options: fl.release(RIDGE, NOISE, **options)),
        {"random_state": 0},
        {"leave random_state out of a release that is passed on": {"random_state": None}},
    ),
    Remedy(
        "learns what it fills gaps of column '{name}' with, and no bound for any record is known for that",
        lambda bounds: protected(
            make_pipeline(SimpleImputer(), Ridge(10.0)), GAPS, over="any-record", bounds=bounds, public="nothing"
        ),
        {"bounds": {name: BOUNDS[name] for name in ("x1", "x2", "label")}},
        {"declare bounds={'x0': (low, high), …}": {"bounds": BOUNDS}},
    ),
    Remedy(
        "`attribute` names no column: name one, or leave it out to limit whole rows.",
        lambda attribute: [limited_columns(attribute)],
        {"attribute": ()},
        {"name one": {"attribute": "a"}, "leave it out": {"attribute": None}},
    ),
    Remedy(
        "and intercepts of one output are free: leave it out.",
        lambda **options: train(from_frame(T), Settings("y", **options)),
        {"intercept_l2": 1.0},
        {"leave it out": lambda: train(from_frame(T), Settings("y"))},
    ),
    Remedy(
        "and a model with a model card fills them with the centre of its bounds",
        lambda step: saved_frontier(make_pipeline(step, StandardScaler(), Ridge())),
        {"step": SimpleImputer(strategy="constant", fill_value=1.0)},
        {"Use SimpleImputer()": {"step": SimpleImputer()}},
    ),
    Remedy(
        "cannot be on a model card yet: leave {wrong[0]} at its default.",
        lambda **options: saved_classes(**options),
        {"class_weight": {0: 1.0, 1: 1.5}},
        {"leave class_weight at its default": lambda: saved_classes()},
    ),
    Remedy(
        "an audit of its table would leave out {what}. Leave the same out of X, and fit the model again.",
        judged,
        {"X": np.column_stack([X, np.ones(60)])},
        {"Leave the same out of X, and fit the model again": {"X": X}},
    ),
    Remedy(
        "was not found in {MOST_STEPS} Newton steps. Use a smaller scale, or a larger l2.",
        tilted,
        {"scale": 30.0},
        {"Use a smaller scale": {"scale": 0.01}, "a larger l2": {"l2": 300.0}},
    ),
    Remedy(
        "found no parameters for its weights: use a larger penalty",
        steps,
        {"account": "end-to-end"},
        {"use a larger penalty": {"l2": 1e5}, "account='weights-fixed'": None},
    ),
    Remedy(
        "rows have values that a recorded release had under other ids: use the ids of the recorded releases.",
        renamed,
        {"count": 40},
        {"use the ids of the recorded releases": {"count": 0}, "made with `carry_to`": {"carry": True}},
    ),
    Remedy(
        "have ids that no release of the ledger had, row {new[0]} of X first.",
        carried,
        {"first": "abc", "names": "ab", "more": 1},
        {
            "Keep the column": {"names": "abc"},
            "use the ids of the recorded releases": {"more": 0},
            "leave these rows out": {"more": 0},
        },
    ),
    Remedy(
        "of texts for missing cells there are at most {MOST_MISSING}",
        lambda name: ran(t=T.rename(columns={"a": name})),
        {"name": "a" * 1001},
        {"shorten this name": {"name": "a" * 1000}},
    ),
    Remedy(
        "lists and records, are read. Shorten names of columns and categories",
        small_card,
        {"name": "a" * 900},
        {
            "Shorten names of columns": {"name": "a"},
            "leave columns out with --drop": lambda: small_card("a" * 900, True),
        },
    ),
    Remedy(
        "numbers must be finite. Drop or fill such rows first.",
        in_folder,
        {"a": T.a.where(T.index != 3)},
        {"Drop": {"a": T.a}, "fill such rows first": {"a": T.a.where(T.index != 3).fillna(0.0)}},
    ),
    Remedy(
        "has a first row with names missing, and nothing shows whether the row below it is a person's",
        lambda rows: ran(RELEASE.replace("t.csv", "t.xlsx"), name="t.xlsx", t=workbook(rows)),
        {"rows": [["a", None, "y"], ["low", "high", "yes"]]},
        {
            "write one row of names": {"rows": [["a", "b", "y"]]},
        },
    ),
    Remedy(
        "This release may be no better than the baseline.",
        refusing(lambda **options: by_rule(**options)),
        {"eta": 0.01},
        {"use a larger eta": {"eta": 1e4}},
    ),
]
