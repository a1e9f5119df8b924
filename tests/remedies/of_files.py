"""Refusals of files, ledgers, plans and networks, with what they advise."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak.auditing.query_log import answers_with_noise
from fisherleak.report.render import embedded
from fisherleak.tables import from_frame
from fisherleak.training.trained_model import Settings, train
from remedies.of_bounds import LINEAR, ROWS, added, kept
from remedies.of_limits import BOUNDS
from remedies.of_models import NOISE, RIDGE, C, K, X, Y, measured
from remedies.of_policies import AGE, gate
from remedies.of_tables import AUDIT, CLASSES, CODES, CSV, RELEASE, WHO, T, answered, predicted, ran
from remedies.table import Remedy, limited

pytest.importorskip("torch")

import torch
from torch import nn

N = len(T)
ETA = RELEASE.replace("--noise", "--eta")
EUROPEAN = T.assign(a=[f"{1 + k % 9},{k:03d}" for k in range(N)])


def of_columns(names: str, more: int = 0) -> fl.Leakage:
    frame = pandas.DataFrame(X, columns=list("abc"), index=[f"p{k + more}" for k in range(60)])[list(names)]
    return fl.measure(Ridge(1.0).fit(frame, Y), frame, Y, NOISE)


def without_cells(names: str) -> Any:
    with limited(**{"protection.ledger.ledger_entries.CELLS_KEPT": 10}):
        return added(of_columns(names), first=of_columns("abc"))


def two_sheets() -> bytes:
    """A workbook whose second sheet has the table."""
    held = BytesIO()
    with pandas.ExcelWriter(held) as book:
        CODES.rename(columns={"y": "z"}).to_excel(book, sheet_name="one", index=False)
        T.to_excel(book, sheet_name="two", index=False)
    return held.getvalue()


def few_features(line: str = RELEASE) -> bool:
    with limited(**{"tables.design.features.MOST_FEATURES": 1}):
        return ran(line)


def without_noise(**given: Any) -> Any:
    raw = from_frame(CLASSES)
    return answers_with_noise(
        train(raw, Settings("y")), from_frame(CLASSES.drop(columns="y")), **{"noise": None} | given
    )


def unbiased() -> Any:
    """At its minimum."""
    solved = np.linalg.solve(X.T @ X / 60 + 0.1 * np.eye(3), X.T @ Y / 60)
    linear = nn.Linear(3, 1, bias=False).double()
    linear.weight.data = torch.asarray(solved)[None, :]
    return linear


def saved_frontier(estimator: Any = None, penalties: Any = None, bounds: Any = BOUNDS, public: str = "nothing") -> Any:
    from tempfile import TemporaryDirectory

    frame = pandas.DataFrame(np.tile(X, (5, 1)), columns=["x0", "x1", "x2"])
    model = estimator or make_pipeline(StandardScaler(), Ridge())
    best = fl.protect(
        model, frame, np.resize(Y, 300), 4.0, shapes=["isotropic"], public=public, bounds=bounds, penalties=penalties
    )
    with TemporaryDirectory() as folder:
        return best.save(Path(folder) / "model.skops")


class Engine:
    """What an accountant attaches to, with an accountant of its own."""

    def __init__(self) -> None:
        self.accountant = self

    def get_optimizer_hook_fn(self, rate: float) -> Any:
        return lambda optimizer: None

    def make_private(self, **options: Any) -> str:
        return "made"


def engaged(sampling: str = "poisson", **options: Any) -> Any:
    engine = Engine()
    fl.nn.SGDAccountant(nn.Linear(3, 3).double(), nn.CrossEntropyLoss(), 0.1, 1.0, 1.0, sampling=sampling).attach(
        engine
    )
    return engine.make_private(**options)


def hooked(norm: float) -> Any:
    class Optimizer:
        max_grad_norm = norm
        noise_multiplier = 1.0

    engine = Engine()
    made = fl.nn.SGDAccountant(nn.Linear(3, 3).double(), nn.CrossEntropyLoss(), 0.1, 1.0, 1.0).watch(
        ROWS, torch.asarray(K[:20])
    )
    made.attach(engine)
    engine.get_optimizer_hook_fn(0.1)(Optimizer())
    return made


OF_FILES: list[Remedy] = [
    Remedy(
        "has rows with one field more than its header has names; that field is empty in the first rows only.",
        ran,
        {
            "t": "a,b,y\n" + "".join(f"{k}.5,{k % 7},{k % 5}.5,{'' if k < 300000 else 'x'}\n" for k in range(300010)),
            "line": RELEASE,
        },
        {"mend these rows": {"t": T}},
    ),
    Remedy(
        "names where its rows have {fields}, and",
        ran,
        {"t": CSV.replace("a,b,y", "a,b,y,z,w", 1)},
        {"name the columns with --columns and --header": {"line": f"{RELEASE} --columns a,b,y --header"}},
    ),
    Remedy(
        "its first line holds the same number more than once. Name the columns with",
        ran,
        {"t": "5,5,1\n" + CSV.split("\n", 1)[1], "line": f"{RELEASE} --header"},
        {
            "--columns": {"line": f"{RELEASE} --columns a,b,y --header"},
            "--no-header": {"line": f"{RELEASE.replace('--target y', '--target column~3')} --no-header"},
        },
    ),
    Remedy(
        "its first row reads like a person's. Put names above it",
        ran,
        {
            "name": "t.xlsx",
            "t": T.set_axis(["1.5", "2.25", "3.75"], axis=1),
            "line": RELEASE.replace("t.csv", "t.xlsx"),
        },
        {
            "Put names above it": {"t": T},
            "--no-header": {
                "line": f"{RELEASE.replace('t.csv', 't.xlsx').replace('--target y', '--target column~3')} --no-header"
            },
        },
    ),
    Remedy(
        "the first of {raw.source}. `sheet` names another:",
        ran,
        {"name": "t.xlsx", "t": two_sheets(), "line": RELEASE.replace("t.csv", "t.xlsx")},
        {"--sheet names another: 'two'": {"line": f"{RELEASE.replace('t.csv', 't.xlsx')} --sheet two"}},
    ),
    Remedy(
        "`levels` lists {count} categories, and at most",
        ran,
        {"line": f"{RELEASE} --levels site={','.join(map(str, range(10001)))}", "t": CODES},
        {
            "unite rare ones in the table": {"line": f"{RELEASE} --levels site=north,south"},
            "--drop": {"line": f"{RELEASE} --drop site"},
        },
    ),
    Remedy(
        "says whether those are classes.",
        ran,
        {"line": f"{RELEASE} --category y"},
        {"--model says": {"line": f"{RELEASE} --model linear"}},
    ),
    Remedy(
        "holds numbers, and text in too few rows.",
        ran,
        {
            "t": T.assign(a=np.where(np.arange(N) == 3, "often", np.resize(["1", "2", "3"], N))),
            "line": f"{RELEASE} --category a",
        },
        {
            "mend these cells": {"t": T.assign(a=np.resize(["1", "2", "3"], N))},
            "with --na": {"line": f"{RELEASE} --na often --category a"},
        },
    ),
    Remedy(
        "needs all rows in memory, and those of {raw.source} are read part by part",
        ran,
        {"line": f"{AUDIT} --person who --memory 1kB", "t": WHO},
        {"enough memory": {"line": f"{AUDIT} --person who"}},
    ),
    Remedy(
        "needs all rows in memory, and {design.n} rows of {design.X.shape[1]} features are read part by",
        ran,
        {"line": f"{AUDIT} --balance --memory 1kB"},
        {"leave it out": {"line": f"{AUDIT} --memory 1kB"}, "enough memory": {"line": f"{AUDIT} --balance"}},
    ),
    Remedy(
        "The table has {at} features: at most",
        few_features,
        {},
        {"Use --drop": {"line": f"{RELEASE} --drop b"}},
    ),
    Remedy(
        "--of label is for a model without noise, and a released one has noise: leave out --of, or --released.",
        answered,
        {"options": "--of label --released m.skops", "first": RELEASE},
        {"leave out --of": {"options": "--released m.skops"}, "--released": {"options": "--of label"}},
    ),
    Remedy(
        "A score or a probability needs `noise`",
        without_noise,
        {"of": "score"},
        {"A score or a probability needs `noise`": {"noise": 1.0}},
    ),
    Remedy(
        "has no number in row {int(wrong[0]) + 1}: a query without it has no answer.",
        answered,
        {"options": "--of score --noise 1", "queries": T.assign(a=T.a.where(T.index != 3, np.inf))},
        {"Leave such rows out": {"queries": T.drop(index=3)}},
    ),
    Remedy(
        "`released` cannot be given for a model of several outputs: give `noise` in its place.",
        answered,
        {
            "options": "--of score --released m.skops",
            "table": T.assign(y=np.resize(["r", "s", "t"], N)),
            "first": RELEASE,
        },
        {"give --noise in its place": {"options": "--of score --noise 1"}},
    ),
    Remedy(
        "and the model takes numbers there: write numbers.",
        predicted,
        {"queries": T.assign(a=pandas.Timestamp("2020-01-01")), "name": "q.parquet"},
        {"write numbers": {"queries": T}},
    ),
    Remedy(
        "can be read with a decimal point or with a decimal comma: say which",
        predicted,
        {"queries": EUROPEAN},
        {"--decimal .": {"options": "--decimal ."}, "--decimal ,": {"options": "--decimal ,"}},
    ),
    Remedy(
        "holds lists or records, and a category is one value: write one in each cell.",
        predicted,
        {"table": CODES, "queries": CODES.assign(site=pandas.Series([["north"]] * N)), "name": "q.parquet"},
        {"write one in each cell": {"queries": CODES}},
    ),
    Remedy(
        "records no release of this command: check it against its table in Python",
        lambda python=False: kept(
            lambda ledger: ledger.leakage(X, Y) if python else ran(f"ledger {ledger.path} t.csv")
        ),
        {},
        {"fisherleak.Ledger(path).leakage(X, y)": {"python": True}},
    ),
    Remedy(
        "A summary holds NaN or an infinite number; write null in its place.",
        embedded,
        {"value": {"eta": float("nan")}},
        {"write null in its place": {"value": {"eta": None}}},
    ),
    Remedy(
        "and was recorded without digests of single values: pass a table that has all columns.",
        without_cells,
        {"names": "a"},
        {"pass a table that has all columns": {"names": "abc"}},
    ),
    Remedy(
        "The etas of this release are past the range of numbers: no ledger records it. Use more noise.",
        lambda scale: added(measured(RIDGE, noise=fl.Gaussian(scale)), first=None),
        {"scale": 1e-200},
        {"Use more noise": {"scale": 1.0}},
    ),
    Remedy(
        "A ledger adds up matrices, and for ObjectivePerturbation of this loss only upper limits",
        lambda noise: added(fl.measure(fl.minimise(X, C, "logistic", 0.1), X, C, noise), first=None),
        {"noise": fl.ObjectivePerturbation(5.0)},
        {"fisherleak.Gaussian": {"noise": NOISE}},
    ),
    Remedy(
        "counts people by the column '{lacking[0]}', which this table lacks: pass the table with that column.",
        ran,
        {
            "first": f"{RELEASE} --person who --ledger l.json",
            "line": "release u.csv --target y --noise 9 --over max --out n.skops --ledger l.json",
            "t": WHO,
            "u_csv": T,
        },
        {
            "pass the table with that column": {
                "u_csv": WHO,
                "line": "release u.csv --target y --noise 9 --over max --out n.skops --ledger l.json --drop who",
            }
        },
    ),
    Remedy(
        "save needs counted preprocessing, and a penalty and covariance that follow from public numbers.",
        saved_frontier,
        {"penalties": [1.0]},
        {"without penalties": {"penalties": None}},
    ),
    Remedy(
        "are not declared, and the units of a model card follow from them",
        saved_frontier,
        {"bounds": {name: BOUNDS[name] for name in ("x0", "x1", "label")}},
        {"call protect with bounds={'x2': (low, high), …}": {"bounds": BOUNDS}},
    ),
    Remedy(
        "and linear has no bias: leave bias_l2 out.",
        lambda **options: fl.nn.head(unbiased(), torch.asarray(X), torch.asarray(Y), loss="squared", l2=0.1, **options),
        {"bias_l2": 0.1},
        {"leave bias_l2 out": None},
    ),
    Remedy(
        "Reconstruct searches for the most likely input under normal noise",
        lambda noise: fl.nn.Reconstruct.encoding(fl.nn.encoding(LINEAR, ROWS, noise)),
        {"noise": fl.Laplace(1.0)},
        {"measure with fisherleak.Gaussian": {"noise": NOISE}},
    ),
    Remedy(
        "in the engine; pass the same number to both.",
        hooked,
        {"norm": 0.5},
        {"pass the same number to both": {"norm": 1.0}},
    ),
    Remedy("leave it at 'flat'.", engaged, {"clipping": "per_layer"}, {"leave it at 'flat'": {"clipping": "flat"}}),
    Remedy(
        "poisson_sampling is False in the engine, and the accountant counts Poisson sampling",
        engaged,
        {"poisson_sampling": False},
        {"sampling='fixed'": None, "leave poisson_sampling at True": {"poisson_sampling": True}},
    ),
    Remedy(
        "`over`, `shape` and `rows_per_person` are for an audit that compares releases.",
        gate,
        {"policy": AGE, "options": "--over max"},
        {"leave them out": {"options": ""}},
    ),
]
