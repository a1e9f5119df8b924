"""Refusals of attackers, of leakages and of how models are read, with what they advise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl
from fisherleak.engine.noise import noise_from_record
from remedies.of_data import GAPPED
from remedies.of_limits import BOUNDS, for_anyone
from remedies.of_models import CODED, LEAK, NOISE, PAIRED, PAIRS, RIDGE, C, K, X, Y, attacked, fitted, measured
from remedies.of_noises import POSTERIOR, G
from remedies.of_tables import AUDIT, ran
from remedies.table import Remedy, limited, refusing
from rows.lazy import da

pytest.importorskip("torch")

import torch

FIT = fl.minimise(CODED, Y, l2=0.1)
WHITE = fl.attacks.WhiteBox
LAZY = da.from_array(X, chunks=(30, -1))
FRAME = pandas.DataFrame({"a": X[:, 0], "site": np.resize(["north", "south", "west"], 60)})


def within(call: Any, size: int | None = None, place: str = "") -> Any:
    with limited(**({} if size is None else {place: size})):
        return call()


def guess(noise: Any = None) -> Any:
    return fl.attacks.Served(fitted(Ridge(1.0), X=CODED), CODED, Y, 3).infer(fitted(Ridge(1.0), X=CODED), noise)


def of_sites(drop: Any = None) -> fl.Leakage:
    steps = make_column_transformer((OneHotEncoder(drop=drop), ["site"]), remainder="passthrough")
    return fl.measure(make_pipeline(steps, LogisticRegression(tol=1e-10)).fit(FRAME, K), FRAME, K, NOISE)


def filled(rows: Any, X: Any) -> Any:
    y = da.from_array(Y, chunks=30) if hasattr(rows, "compute") else Y
    return measured(fitted(SimpleImputer(), Ridge(1.0), X=X), rows, y)


DOSED = np.column_stack([X, np.arange(60.0)])
FIVE = np.column_stack([X, np.resize(np.arange(5), 60)])
FIVE_FIT = fl.minimise(FIVE, Y, l2=0.1)
MANY = np.tile(X, (10, 1)), np.resize(Y, 600)
SCALED = make_pipeline(StandardScaler(), Ridge(1000.0)).fit(*MANY)


def uneven() -> Any:
    model = LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, use_legacy_attributes=True).fit(X, K)
    model.C_ = np.array([0.1, 1.0, 1.0])
    return model


OF_RELEASES: list[Remedy] = [
    Remedy(
        "is numeric with {count} different values: pass the candidates that the attacker considers",
        lambda **options: WHITE(fitted(Ridge(1.0), X=DOSED), DOSED, Y, 3, **options),
        {},
        {"values=[0, 59]": {"values": [0, 59], "rows": [0, 59]}},
    ),
    Remedy(
        "groups needs rows that NumPy holds: pass X and y as NumPy arrays or a pandas table.",
        lambda table: WHITE(
            fl.minimise(table, torch.asarray(Y) if isinstance(table, torch.Tensor) else Y, l2=0.1),
            table,
            torch.asarray(Y) if isinstance(table, torch.Tensor) else Y,
            3,
            groups=PAIRS,
        ),
        {"table": torch.asarray(PAIRED)},
        {"NumPy arrays": {"table": PAIRED}, "a pandas table": {"table": pandas.DataFrame(PAIRED)}},
    ),
    Remedy(
        "rows would need {8 * total / 2 ** 30} GiB: pass fewer candidates",
        lambda **options: within(lambda: attacked(WHITE, **options), 700, "attacks.candidates.MOST_VALUES"),
        {},
        {
            "attack fewer rows with rows=": {"rows": [0, 1, 2]},
            "pass fewer candidates with values=": {"values": [0.0, 1.0], "rows": np.flatnonzero(CODED[:, 3] < 2)},
        },
    ),
    Remedy(
        "The attacker who sees answers must know the noise of the release",
        guess,
        {},
        {"noise=fisherleak.Gaussian(scale)": {"noise": fl.Gaussian(1.0)}},
    ),
    Remedy(
        "is known for models of one output only: fit one output, or use noise on the parameters",
        lambda y=K, loss="softmax", noise=None: WHITE(fl.minimise(CODED, y, loss, 0.1), CODED, y, 3).accuracy(
            noise or POSTERIOR
        ),
        {},
        {"fit one output": {"y": Y, "loss": "squared"}, "fisherleak.Gaussian": {"noise": G}},
    ),
    Remedy(
        "Moves of {self._given.shape[0]} parameters for",
        lambda **options: within(
            lambda: fl.attacks.Membership(RIDGE, X, Y, **options).simulate(G, releases=20),
            100,
            "attacks.membership.MOST_VALUES",
        ),
        {},
        {"attack fewer rows with rows=": {"rows": [0, 1]}},
    ),
    Remedy(
        "A limit on accuracy is known for normal noise and up to",
        lambda **options: WHITE(FIVE_FIT, FIVE, Y, 3, **options).certain_accuracy(G),
        {},
        {
            "Name fewer with values=": {"values": [0.0, 1.0], "rows": np.flatnonzero(FIVE[:, 3] < 2)},
            "limit eta": lambda: fl.calibrate(LEAK, 1.0),
        },
    ),
    Remedy(
        "report needs rows in memory, and these are read part by part",
        lambda rows=LAZY: fl.measure(
            fl.minimise(X, Y, l2=0.1), rows, da.from_array(Y, chunks=30) if rows is LAZY else Y, NOISE
        ).report("report.html"),
        {},
        {"`fisherleak audit` reports on such tables": lambda: ran(f"{AUDIT} --out report --memory 1MB")},
    ),
    Remedy(
        "Membership is known for Dask rows with the squared loss only",
        lambda rows=LAZY: fl.measure(
            fl.minimise(X, C, "logistic", 0.1), rows, da.from_array(C, chunks=30) if rows is LAZY else C, NOISE
        ).membership(),
        {},
        {"X.compute()": {"rows": LAZY.compute()}},
    ),
    Remedy(
        "The Hessian is near-singular (condition number",
        refusing(
            lambda near=1e-5, l2=0.0: fl.measure(
                fl.minimise(Z := np.column_stack([X, X[:, 0] + near * X[::-1, 0]]), Y, l2=l2), Z, Y, NOISE
            ).per_example(),
            fl.NearSingularWarning,
        ),
        {},
        {"Drop collinear columns": {"near": 1.0}, "use a larger l2": {"l2": 0.1}},
    ),
    Remedy(
        "noise has the covariance '{shape}', which was computed from the rows, and the record does not contain it",
        lambda noise: noise_from_record(noise.record()),
        {"noise": fl.calibrate(LEAK, 1.0, shape="hessian")},
        {"fit the model again from its rows": {"noise": NOISE}},
    ),
    Remedy(
        "values together needs matrices of {self.count} draws",
        lambda rows=range(60), draws=200: within(
            lambda: fl.measure(fl.minimise(X, C, "logistic", 0.1), X, C, fl.ObjectivePerturbation(5.0, draws=draws)).of(
                rows
            ),
            150,
            "engine.norms.averaged_over_draws.LARGEST_SET",
        ),
        {},
        {"use at most 150 draws": {"draws": 100}, "fewer rows": {"rows": range(4)}},
    ),
    Remedy(
        "with a shape of {p} x {p}, is too large to be written out",
        lambda rows=range(60): within(
            lambda: fl.measure(fl.minimise(X, Y, l2=0.1), X, Y, fl.Posterior(0.3)).fim(rows),
            1000,
            "engine.norms.shaped_rows.LARGEST",
        ),
        {},
        {
            "ask for fewer rows": {"rows": [0]},
            "use of()": lambda: fl.measure(fl.minimise(X, Y, l2=0.1), X, Y, fl.Posterior(0.3)).of(range(60)),
        },
    ),
    Remedy(
        "needs attributes that are encoded alike",
        lambda drop="first": fl.compose(of_sites(), of_sites(drop)).per_example(),
        {},
        {"use the same encoder": {"drop": None}},
    ),
    Remedy(
        "compose() of models of several outputs with models of one output is not supported",
        lambda other: fl.compose(measured(LogisticRegression(tol=1e-10).fit(X, K), y=K), other).per_example(),
        {"other": measured(LogisticRegression(tol=1e-10).fit(X, C), y=C)},
        {"Compose them apart": {"other": measured(LogisticRegression(C=0.1, tol=1e-10).fit(X, K), y=K)}},
    ),
    Remedy(
        "entries; ask for fewer rows or attributes",
        lambda rows=None, **options: within(lambda: LEAK.fim(rows, **options), 20, "leakage.etas.LARGEST_FIM"),
        {},
        {
            "ask for fewer rows": {"rows": [0, 1]},
            "attributes": {"rows": range(20), "attributes": ["x0"], "label": False},
            "use of()": lambda: LEAK.of(range(60)),
        },
    ),
    Remedy(
        "noise was calibrated with bounds for a pipeline whose scalers were counted",
        lambda public="preprocessing": measured(SCALED, *MANY, public=public).with_noise(
            for_anyone(StandardScaler(), X=MANY[0], bounds=BOUNDS)
        ),
        {},
        {"public='nothing'": None},
    ),
    Remedy(
        "y must have one dimension; got shape {y.shape}. Use y.ravel().",
        measured,
        {"model": LogisticRegression().fit(X, C), "y": C[:, None]},
        {"y.ravel()": {"y": C[:, None].ravel()}},
    ),
    Remedy(
        "LogisticRegressionCV with a C for each class is not supported",
        lambda model=None: measured(model or uneven(), y=K),
        {},
        {
            "fit LogisticRegression with one C for all of them": {
                "model": LogisticRegression(C=0.1, tol=1e-10).fit(X, K)
            }
        },
    ),
    Remedy(
        "missing values in a block of Dask rows, which an imputer filled",
        filled,
        {"rows": da.from_array(GAPPED, chunks=(30, -1)), "X": GAPPED},
        {"Compute them first": {"rows": GAPPED}, "drop these rows": {"rows": LAZY, "X": X}},
    ),
]
