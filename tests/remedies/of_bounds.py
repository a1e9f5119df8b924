"""Refusals of limits for any record, of ledgers and of networks, with what they advise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler

import fisherleak as fl
from remedies.of_limits import BOUNDS, protected
from remedies.of_models import LEAK, NOISE, PAIRS, RIDGE, WEIGHTS, C, K, X, Y, fitted, measured
from remedies.of_noises import shown
from remedies.table import Remedy
from rows.lazy import da

pytest.importorskip("torch")

import torch
from torch import nn

ENDS = {name: BOUNDS[name] for name in ("x0", "x1", "x2")}
OWN = fl.calibrate(LEAK, 1.0, shape="hessian")
FOLDED = fitted(StandardScaler(), Ridge(1.0))
RNG = np.random.default_rng(12)
SITES = pandas.DataFrame({"a": RNG.uniform(-1, 1, 400), "site": np.resize(["north", "south", "west"], 400)})
TARGET = np.clip(SITES.a.to_numpy() + RNG.normal(size=400), -5, 5)
FEW = SITES.assign(site=["east", "east", *SITES.site[2:]])
ENDS_OF_SITES: dict[str, Any] = {"a": (-1, 1), "label": (-5, 5)}
LINEAR = nn.Linear(3, 4).double()
ROWS = torch.asarray(X[:20])


def anyone(
    model: Any = None, X: Any = X, y: Any = Y, bounds: Any = BOUNDS, over: str = "any-record", **options: Any
) -> Any:
    """A limit for any record; with ``over``, for the rows present."""
    leak = measured(fitted(Ridge(1000.0), X=X, y=y) if model is None else model, X, y, **options)
    return fl.calibrate(leak, 1.0, over=over, **({"bounds": bounds} if over == "any-record" and bounds else {}))


def of_sites(table: Any = FEW, bounds: Any = ENDS_OF_SITES, over: str = "any-record", **encoder: Any) -> Any:
    steps = make_column_transformer((OneHotEncoder(**encoder), ["site"]), remainder="passthrough")
    model = make_pipeline(steps, Ridge(1000.0)).fit(table, TARGET)
    return anyone(model, table, TARGET, bounds, over)


def weighted(over: str = "any-record", class_weight: Any = None, sample_weight: Any = None) -> Any:
    model = LogisticRegression(C=1e-3, class_weight=class_weight, tol=1e-10).fit(X, C, sample_weight)
    return anyone(model, y=C, bounds=ENDS, over=over, sample_weight=sample_weight)


def kept(then: Callable[[fl.Ledger], Any], first: Any = LEAK) -> Any:
    """A ledger in which a release is recorded."""
    with TemporaryDirectory() as folder:
        ledger = fl.Ledger(Path(folder) / "table.ledger.json")
        if first is not None:
            ledger.add(first)
        return then(ledger)


def added(leak: Any = LEAK, limit: float | None = None, first: Any = LEAK) -> Any:
    return kept(lambda ledger: ledger.add(leak) if limit is None else ledger.add(leak, limit=limit), first)


class Sums(nn.Module):
    """A network that mixes rows, or draws numbers, or neither."""

    def __init__(self, mixes: bool = False, draws: bool = False) -> None:
        super().__init__()
        self.mixes, self.draws = mixes, draws

    def forward(self, x: Any) -> Any:
        out = LINEAR(x)
        out = out - out.mean(0) if self.mixes else out
        return out + torch.randn_like(out) if self.draws else out


def encoding(module: Any) -> Any:
    return fl.nn.encoding(module, ROWS, fl.Gaussian(1.0)).per_example()


def drops(training: bool) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double().train(training)


def accountant(keep: str = "matrix", watched: bool = True) -> fl.nn.SGDAccountant:
    made = fl.nn.SGDAccountant(nn.Linear(3, 3).double(), nn.CrossEntropyLoss(), 0.1, 1.0, 1.0, keep=keep)
    if watched:
        made.watch(ROWS, torch.asarray(K[:20]))
    return made


def resumed(saved: bool) -> Any:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        torch.manual_seed(0)
        one = accountant()
        if saved:
            one.save(path)
        else:
            path.write_bytes(b"nothing")
        return one.resume(path)


def behind(**options: Any) -> fl.Leakage:
    """A model on the features of a network, measured about what goes into that."""
    seen = fl.nn.on(LINEAR, X)
    return fl.measure(Ridge(1.0).fit(seen.features, Y), seen, Y, NOISE, **options)


def audited_behind() -> Any:
    seen = fl.nn.on(LINEAR, X)
    return fl.audit(Ridge(1.0).fit(seen.features, Y), seen, Y, NOISE, attacks=False)


def warned_of(over: str) -> Any:
    """What warns, as a refusal."""
    noise = anyone(over=over)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.UncountedScaleWarning)
        try:
            return fl.release(fitted(Ridge(1000.0)), noise)
        except fl.UncountedScaleWarning as warning:
            raise fl.InvalidInputError(str(warning)) from None


def indexed(y: Any) -> fl.Leakage:
    """A release about rows that have names."""
    frame = pandas.DataFrame(X, columns=["a", "b", "c"], index=[f"p{k}" for k in range(60)])
    return fl.measure(Ridge(1.0).fit(frame, y), frame, y, NOISE)


OF_BOUNDS: list[Remedy] = [
    Remedy(
        "Write bounds={'age': (0, 120)}, say.",
        anyone,
        {"bounds": [(-5, 5)]},
        {"bounds={'age': (0, 120)}": {"bounds": BOUNDS}},
    ),
    Remedy(
        "and with class_weight and sample_weight a row's weight changes with its label: give all of it as sample_weight",
        weighted,
        {"class_weight": {0: 1.0, 1: 1.5}, "sample_weight": WEIGHTS},
        {
            "give all of it as sample_weight": {"class_weight": None, "sample_weight": WEIGHTS * np.where(C, 1.5, 1.0)},
            "over='max'": None,
        },
    ),
    Remedy(
        "needs rows in memory, and X is a Dask array: measure X.compute(), or use",
        lambda X, over="any-record": anyone(
            fl.minimise(X, Y, l2=5.0), X, da.from_array(Y) if hasattr(X, "compute") else Y, over=over
        ),
        {"X": da.from_array(X, chunks=30)},
        {"X.compute()": {"X": X}},
    ),
    Remedy(
        "needs a model at its minimum, from which moves are bounded: measure with polish=True.",
        lambda **options: anyone(LogisticRegression(C=1e-3, tol=1e-3).fit(X, C), y=C, bounds=ENDS, **options),
        {"polish": False},
        {"polish=True": None},
    ),
    Remedy(
        "is preprocessed by a step that is not affine, so no bound holds for values that are not in the table.",
        anyone,
        {"model": fitted(PolynomialFeatures(2, include_bias=False), Ridge(1000.0))},
        {
            "over='max'": None,
            "apply the step before and measure the model on its features": {
                "model": None,
                "X": PolynomialFeatures(2, include_bias=False).fit_transform(X),
                "bounds": {f"x{j}": (-25.0, 25.0) for j in range(9)} | {"label": (-8.0, 8.0)},
            },
            "clip=False for a scaler that clips": {"model": fitted(MinMaxScaler(clip=False), Ridge(1000.0))},
        },
    ),
    Remedy(
        "with a category that is not among the declared ones: declare all of them, or pool them before the model is fitted.",
        of_sites,
        {"table": SITES, "bounds": ENDS_OF_SITES | {"site": ["north", "south"]}},
        {
            "declare all of them": {"bounds": ENDS_OF_SITES | {"site": ["north", "south", "west"]}},
            "pool them before the model is fitted": {"table": SITES.replace("west", "south")},
        },
    ),
    Remedy(
        "rows, which show who has them: declare all of them, OneHotEncoder(categories=[...]), or pool these",
        of_sites,
        {},
        {
            "OneHotEncoder(categories=[...])": {"categories": [["north", "south", "west", "east"]]},
            "min_frequency=133": {"min_frequency": 133},
        },
    ),
    Remedy(
        "must be categories that its encoder knows; got",
        of_sites,
        {"table": SITES, "bounds": ENDS_OF_SITES | {"site": ["north", "south", "west", "up"]}},
        {"Fit the encoder with categories=": {"categories": [["north", "south", "up", "west"]]}},
    ),
    Remedy(
        "A column of X cannot be read as numbers, and a step of",
        protected,
        {
            "estimator": make_pipeline(StandardScaler(), Ridge()),
            "X": np.column_stack([X.astype(object), np.where(C, "a", "b")]),
        },
        {"leave it out": {"X": X}},
    ),
    Remedy(
        "Input y contains NaN or infinity: {count} of {len(labels)} labels. Drop these rows, or fill in what is missing.",
        protected,
        {"y": np.where(np.arange(60) == 59, np.nan, Y)},
        {"Drop these rows": {"X": X[:59], "y": Y[:59]}, "fill in what is missing": {"y": Y}},
    ),
    Remedy(
        "is computed from mu, which is not known for a data-dependent covariance of the noise.",
        lambda shape: measured(RIDGE, noise=fl.calibrate(LEAK, 1.0, shape=shape)).epsilon(1e-5),
        {"shape": "hessian"},
        {"Use membership()": lambda: measured(RIDGE, noise=OWN).membership(), "shape='isotropic'": None},
    ),
    Remedy(
        "report shows rows, and this leakage is about people: fl.audit(model, X, y, noise, person=ids).report(path).",
        shown,
        {"own": measured(RIDGE, person=PAIRS)},
        {
            "fl.audit(model, X, y, noise, person=ids).report(path)": {
                "own": fl.audit(RIDGE, X, Y, NOISE, person=PAIRS, attacks=False)
            }
        },
    ),
    Remedy(
        "You measured with public='preprocessing' but release with public='nothing', which folds scalers into the model.",
        lambda public: fl.release(FOLDED, fl.calibrate(measured(FOLDED), 1.0), public=public),
        {"public": "nothing"},
        {"Use the same value for both": {"public": "preprocessing"}},
    ),
    Remedy(
        "A ledger takes releases one by one: add each leakage of a composition by itself.",
        added,
        {"leak": fl.compose(LEAK, LEAK)},
        {"add each leakage of a composition by itself": {"leak": LEAK}},
    ),
    Remedy(
        "A ledger adds up noise whose covariance is public, and this one follows from the rows themselves",
        lambda shape: added(LEAK.with_noise(fl.calibrate(LEAK, 1.0, shape=shape))),
        {"shape": "hessian"},
        {"shape='isotropic'": None},
    ),
    Remedy(
        "A ledger keeps scalers that are standard deviations only: use StandardScaler, or public='preprocessing'.",
        lambda step, **options: added(
            measured(fitted(step, Ridge(1.0)), **{"public": "nothing"} | options), first=None
        ),
        {"step": MinMaxScaler()},
        {"use StandardScaler": {"step": StandardScaler()}, "public='preprocessing'": None},
    ),
    Remedy(
        "A ledger cannot keep rows with missing values: drop or fill these rows before the model.",
        lambda rows: added(
            measured(fitted(SimpleImputer(), Ridge(1.0), X=rows, y=Y[: len(rows)]), rows, Y[: len(rows)]), first=None
        ),
        {"rows": np.where(np.arange(60)[:, None] == 59, np.nan, X)},
        {"drop": {"rows": X[:59]}, "fill these rows before the model": {"rows": X}},
    ),
    Remedy(
        "past the limit of {limit}, all releases in the ledger counted:",
        added,
        {"limit": float(LEAK.per_example().max()) * 1.1},
        {"Use more noise": {"leak": measured(RIDGE, noise=fl.Gaussian(1e3))}},
    ),
    Remedy(
        "Row {changed[0]} of X has other values, or another label, than the row of that id had",
        lambda y: kept(lambda ledger: ledger.add(indexed(y)), indexed(Y)),
        {"y": np.where(np.arange(60) == 7, 9.0, Y)},
        {"pass the rows as they were": {"y": Y}},
    ),
    Remedy(
        "X must be in memory for a ledger; it is a Dask array. Pass X.compute().",
        lambda rows: kept(lambda ledger: ledger.leakage(rows, Y)),
        {"rows": da.from_array(X)},
        {"X.compute()": {"rows": X}},
    ),
    Remedy(
        "choice must be a counted one, from Frontier.choose; got",
        lambda **options: kept(lambda ledger: ledger.add(LEAK, **options)),
        {"choice": "the first"},
        {"Leave it out": added},
    ),
    Remedy(
        "person is for tables, and X holds inputs of a network: leave it out.",
        behind,
        {"person": PAIRS},
        {"leave it out": behind},
    ),
    Remedy(
        "audit needs the rows that the model was fitted on, and these are inputs of a network:",
        audited_behind,
        {},
        {"fl.measure(model, X, y, noise).report(path)": lambda: behind().summary()},
    ),
    Remedy(
        "module is random: one row has two outputs.",
        encoding,
        {"module": Sums(draws=True)},
        {"leave out what draws numbers there": {"module": Sums()}},
    ),
    Remedy(
        "module mixes the rows of a batch: a row's output changes with the row beside it.",
        encoding,
        {"module": Sums(mixes=True)},
        {"Use layers that treat rows alone": {"module": Sums()}},
    ),
    Remedy(
        "module is in training mode, in which {busy[0]} differs by batch: call module.eval().",
        lambda training: encoding(drops(training)),
        {"training": True},
        {"call module.eval()": {"training": False}},
    ),
    Remedy(
        "No examples are watched: call watch(X, y) first.",
        lambda watched: accountant(watched=watched).per_example(),
        {"watched": False},
        {"call watch(X, y) first": {"watched": True}},
    ),
    Remedy(
        "fim needs the matrices: make the accountant with keep='matrix'.",
        lambda keep: accountant(keep).fim(),
        {"keep": "norm"},
        {"keep='matrix'": None},
    ),
    Remedy(
        "cannot be read as a saved accountant ({error}): pass a file that save() wrote.",
        resumed,
        {"saved": False},
        {"pass a file that save() wrote": {"saved": True}},
    ),
    Remedy(
        "The scale of this noise was computed from the rows present (over=",
        warned_of,
        {"over": "max"},
        {"over='any-record'": None},
    ),
]
