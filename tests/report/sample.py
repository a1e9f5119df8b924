"""A summary as an audit makes it, from real measurements of the diabetes data that scikit-learn carries.

Everything is measured with the library except the attacks, whose accuracies come from a seeded generator: the page's
tests need their shape and not their value.
"""

from __future__ import annotations

import functools
import platform
from copy import deepcopy
from typing import Any

import numpy as np
import sklearn
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fisherleak as fl

NAMES = {"bp": "blood pressure", "s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "ratio", "s5": "triglycerides"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "<!-- {{ 7 * 7 }} {a|b} 'quoted' & \\u2028 \u2028 年齢 é",
)


def summary() -> dict[str, Any]:
    """A fresh copy, to change at will."""
    return deepcopy(_measured())


def hostile() -> dict[str, Any]:
    """The same with markup wherever a user's text can stand."""
    return _renamed(summary())


def choices() -> dict[str, Any]:
    """The same where no noise was given, so that the page offers some."""
    made = summary()
    cost = made["tradeoff"]
    first, last, without = cost["points"][1]["scale"], cost["points"][-1]["scale"], cost["without_noise"]
    made["noise"] |= {"chosen": "default"}
    made["choices"] = [
        *({"share": share, "noise": first, "utility": without, "kept": 1.0} for share in (0.9, 0.5, 0.25, 0.1, 0.05)),
        {"share": 0.02, "noise": last, "utility": cost["baseline"] - 1.0, "kept": 0.0},
        {"share": 0.01, "noise": 1e9, "utility": None, "kept": None},
    ]
    made["prices"] = {
        "over": "any-record",
        "limits": [price for eta in (0.5, 1.0, 2.0) for price in (_price(eta, True), _price(eta, False))],
        "present": [_price(0.7, False, covariance) for covariance in ("isotropic", "hessian", "least-loss")],
        "note": "",
    }
    made["next"] |= {"eta": 1.0}
    return made


def _price(eta: float, by_rule: bool, covariance: str | None = None) -> dict[str, Any]:
    """A release at a limit; the loosest is best with isotropic noise."""
    best = covariance is None and by_rule == (eta < 2)
    known = None if covariance == "least-loss" else 0.8
    price = {
        "eta": eta,
        "covariance": covariance or ("hessian" if by_rule else "isotropic"),
        "by_rule": by_rule,
        "l2": 0.1 / eta,
        "noise": 3.0 / eta,
        "utility": 0.3 + 0.05 * eta + 0.1 * best,
        "low": 0.2,
        "high": 0.5,
        "kept": None if known is None else 0.5 + 0.1 * eta,
        "eta_present": known,
        "membership": known,
        "membership_median": known,
        "best": best,
    }
    shape = "" if by_rule else "--shape isotropic "
    return price | ({"command": f"fisherleak release a.csv {shape}--eta {eta:g} --out model.skops"} if best else {})


def many() -> dict[str, Any]:
    """The same with 40 columns, rows known by their numbers and two more attacked columns, as pixels of pictures have them."""
    made = summary()
    known = made["attributes"]
    made["attributes"] = [known[k % len(known)] | {"name": f"pixel_{k // 8}_{k % 8}"} for k in range(40)]
    made["data"] |= {"id_column": None}
    for row in made["rows"]:
        row |= {
            "row": 1000 + row["row"],
            "id": None,
            "values": None,
            "cells": [row["cells"][k % len(known)] for k in range(40)],
        }
    for point in made["tradeoff"]["points"]:
        point["attacks"] += [point["attacks"][0] | {"attribute": name} for name in ("pixel_0_1", "pixel_1_0")]
    return made


def bare() -> dict[str, Any]:
    """The same without any part that may be absent."""
    made = summary()
    made |= {
        "command": None,
        "groups": [],
        "attacks": [],
        "distinguishable": [],
        "balance": None,
        "gate": None,
        "membership": None,
        "policy": None,
    }
    made["data"] |= {"classes": None, "id_column": None, "group_column": None, "dropped": []}
    made["tradeoff"] |= {"points": [], "held_out": False}
    made["diagnostics"] |= {"finite_difference": None, "warnings": [], "seconds": {}}
    counts = np.sum([group["counts"] for group in made["eta"]["histogram"]["groups"]], axis=0).tolist()
    made["eta"]["histogram"]["groups"] = [
        {"name": "all rows", "count": sum(counts), "mean": made["eta"]["examples"]["mean"], "counts": counts}
    ]
    for row in made["rows"]:
        row |= {"id": None, "values": None}
    for attribute in made["attributes"]:
        attribute |= {"spread": None, "error_least": None, "error_typical": None, "revealed": None}
    made["people"] = {"count": 0, "share": 0.5, "measured": False}
    made["next"] = {"noise": None, "note": "Set a limit.", "command": None, "command_for": None}
    return made


@functools.cache
def _measured() -> dict[str, Any]:
    table, y = _data()
    train, test, y_train, y_test = train_test_split(table, y, test_size=0.25, random_state=0)
    numbers = [name for name in table.columns if name != "sex"]
    scaling = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(drop="first"), ["sex"]))
    model = make_pipeline(scaling, LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)).fit(train, y_train)
    noise = fl.Gaussian(0.05)
    leak = fl.measure(model, train, y_train, noise=noise)
    eta, fit = leak.per_example(), leak.fits[0]
    edges = np.histogram_bin_edges(eta, bins=24)
    above = eta > 7.0
    order = np.argsort(-eta, kind="stable")
    return {
        "schema": "fisherleak.summary/2",
        "created": "2026-01-31T12:00:00+00:00",
        "title": "diabetes: what a logistic model of progression reveals",
        "command": "fisherleak audit --target progression --id patient --noise 0.05 --max-eta 7",
        "seed": 0,
        "versions": {
            "fisherleak": fl.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "assumptions": [
            "The attacker knows every other value in the data, the model's family, its l2 and the scale of the noise.",
            "The attacker's estimates are unbiased.",
            "What the preprocessing learned from the data (means, spreads, levels) is taken as public.",
        ],
        "data": _described(table, train, test),
        "model": {
            "kind": "logistic",
            "assumed": True,
            "description": "A logistic regression on standardised numeric columns and one-hot categories",
            "l2": fit.l2,
            "parameters": 11,
            "intercept": True,
            "public": "preprocessing",
        },
        "noise": {"scale": noise.scale, "chosen": "given", "note": "Given with --noise."},
        "eta": {
            "dataset": leak.dataset(),
            "examples": _five(eta) | {"q05": float(np.quantile(eta, 0.05)), "q95": float(np.quantile(eta, 0.95))},
            "histogram": {"edges": edges.tolist(), "groups": _histograms(eta, y_train, edges)},
        },
        "rows": _rows(leak, train, order[:50]),
        "attributes": _attributes(leak, train),
        "label": {
            "name": "progression",
            "kind": "category",
            **{f"eta_{key}": _five(leak.per_label())[key] for key in ("max", "mean", "median")},
            "worst_row": int(leak.per_label().argmax()),
            "revealed": None,
        },
        "people": _people(leak, train),
        "groups": _groups(leak, y_train),
        "tradeoff": _tradeoff(model, test, y_test),
        "attacks": _attacks(),
        "distinguishable": [
            {"attribute": "sex", "rows": 331, "worst": 0.87, "q95": 0.71, "median": 0.58, "error_least": 0.32}
        ],
        "balance": _balance(model, train, y_train, test, y_test, eta),
        "gate": {
            "max_eta": 7.0,
            "exceeded": bool(above.any()),
            "count": int(above.sum()),
            "rows": [{"row": int(k), "id": _patient(train, k), "eta": float(eta[k])} for k in order if above[k]],
        },
        "policy": _policy(),
        "membership": _membership(leak, train),
        "next": {
            "noise": 0.0625,
            "note": "With noise of scale 0.0625 every rule passes.",
            "command": "fisherleak release diabetes.csv --target progression --noise 0.0625 --out model.skops",
            "command_for": ["fisherleak release diabetes.csv --target progression --noise ", " --out model.skops"],
        },
        "diagnostics": {
            "gradient": fit.gradient,
            "distance": fit.distance,
            "condition": fit.condition,
            "steps": fit.steps,
            "warnings": ["The model was moved to its minimum before it was measured."],
            "finite_difference": {
                "rows": 5,
                "largest_relative_error": 3.2e-7,
                "note": "Against models refitted with one value changed.",
            },
            "seconds": {"read": 0.02, "fit": 0.11, "measure": 0.04, "utility": 0.9},
        },
    }


def _data() -> tuple[Any, Any]:
    data = load_diabetes(as_frame=True, scaled=False)
    table = data.data.rename(columns=NAMES | {"s6": "glucose"})
    table["sex"] = np.where(table["sex"] == 1, "female", "male")
    return table, np.where(data.target > data.target.median(), "fast", "slow")


def _described(table: Any, train: Any, test: Any) -> dict[str, Any]:
    columns = [
        {
            "name": name,
            "kind": "category" if name == "sex" else "number",
            "assumed": name != "sex",
            "note": "Text, so a category." if name == "sex" else "All values are numbers.",
            "categories": 2 if name == "sex" else None,
        }
        for name in table.columns
    ]
    columns.append(
        {"name": "progression", "kind": "target", "assumed": False, "note": "Two classes: fast, slow.", "categories": 2}
    )
    columns.append({"name": "patient", "kind": "id", "assumed": False, "note": "Names rows only.", "categories": None})
    columns.append({"name": "clinic", "kind": "ignored", "assumed": True, "note": "One value only.", "categories": 1})
    return {
        "source": "diabetes.csv",
        "sha256": "9f" * 32,
        "rows_read": len(table) + 3,
        "rows_used": len(table),
        "dropped": [{"reason": "a value is missing", "count": 2}, {"reason": "the target is missing", "count": 1}],
        "target": "progression",
        "classes": ["fast", "slow"],
        "id_column": "patient",
        "group_column": None,
        "in_memory": True,
        "train_rows": len(train),
        "test_rows": len(test),
        "columns": columns,
    }


def _five(eta: Any) -> dict[str, float]:
    return {
        "mean": float(eta.mean()),
        "sd": float(eta.std(ddof=1)),
        "median": float(np.median(eta)),
        "min": float(eta.min()),
        "max": float(eta.max()),
    }


def _histograms(eta: Any, labels: Any, edges: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": str(name),
            "count": int((labels == name).sum()),
            "mean": float(eta[labels == name].mean()),
            "counts": np.histogram(eta[labels == name], bins=edges)[0].tolist(),
        }
        for name in np.unique(labels)
    ]


def _patient(train: Any, row: int) -> str:
    return f"P-{train.index[row]:04d}"


def _rows(leak: Any, train: Any, chosen: Any) -> list[dict[str, Any]]:
    eta, label, cells = leak.per_example(), leak.per_label(), leak.per_cell()
    return [
        {
            "row": int(k),
            "id": _patient(train, k),
            "eta": float(eta[k]),
            "eta_label": float(label[k]),
            "cells": [float(cell) for cell in cells[k]],
            "values": {name: str(value) for name, value in train.iloc[k].items()},
        }
        for k in chosen
    ]


def _attributes(leak: Any, train: Any) -> list[dict[str, Any]]:
    cells, whole = leak.per_cell(), leak.per_attribute()
    made = []
    for j, name in enumerate(leak.attributes):
        column, category = cells[:, j], name == "sex"
        made.append(
            {
                "name": name,
                "kind": "category" if category else "number",
                "eta_column": float(whole[j]),
                "eta_max": float(column.max()),
                "eta_mean": float(column.mean()),
                "eta_median": float(np.median(column)),
                "error_least": float(1 / column.max()),
                "error_typical": float(1 / np.median(column)),
                "spread": None if category else float(train[name].std()),
                "worst_row": int(column.argmax()),
                "revealed": None if category else _revealed(column, float(train[name].std())),
            }
        )
    return made


def _revealed(etas: Any, spread: float) -> dict[str, Any]:
    shares = (etas * spread) ** 2 / (1 + (etas * spread) ** 2)
    high, median = (float(x) for x in np.quantile(shares, [0.95, 0.5]))
    return {
        "spread": spread,
        "max": float(shares.max()),
        "q95": high,
        "median": median,
        "count": int(sum(shares > 0.5)),
    }


def _people(leak: Any, train: Any) -> dict[str, Any]:
    numbers = [name for name in leak.attributes if name != "sex"]
    cells = leak.per_cell()[:, [leak.attributes.index(name) for name in numbers]]
    above = (cells * train[numbers].std().to_numpy() > 1).any(axis=1)
    return {"count": int(above.sum()), "share": 0.5, "measured": True}


def _groups(leak: Any, labels: Any) -> list[dict[str, Any]]:
    eta = leak.per_example()
    return [
        {
            "name": str(name),
            "count": int((labels == name).sum()),
            "eta_joint": joint,
            "eta_mean": float(eta[labels == name].mean()),
            "eta_sd": float(eta[labels == name].std(ddof=1)),
            "eta_max": float(eta[labels == name].max()),
        }
        for name, joint in leak.by_group(labels).items()
    ]


def _policy() -> dict[str, Any]:
    rule: dict[str, Any] = {"rule": "rows.max_eta", "passed": False, "limit": 7.5, "value": 9.25, "count": 3}
    rule |= {"row": 12, "noise": 0.0625, "note": "The eta of a row is too large."}
    other: dict[str, Any] = {"rule": "require.public", "passed": True, "limit": "nothing", "value": "nothing"}
    other |= {"count": None, "row": None, "noise": None, "note": "As it must be."}
    return {"source": "house.toml", "sha256": "8e" * 32, "passed": False, "count": 2, "passed_count": 1} | {
        "noise": 0.0625,
        "note": "Checked for the model of 331 of 442 rows.",
        "rules": [rule, other],
    }


def _membership(leak: Any, train: Any) -> dict[str, Any]:
    mu = np.asarray(leak.membership(1e-3))
    right = norm.cdf(mu / 2)
    return {
        "accuracy_mean": float(right.mean()),
        "accuracy_max": float(right.max()),
        "notable": 0.6,
        "count": int(np.sum(right >= 0.6)),
        "false_positives": 0.01,
        "rows": [
            {
                "row": int(k),
                "id": _patient(train, k),
                "mu": float(mu[k]),
                "accuracy": float(right[k]),
                "auc": float(norm.cdf(mu[k] / np.sqrt(2))),
                "found": float(norm.cdf(norm.ppf(0.01) + mu[k])),
            }
            for k in np.argsort(-mu, kind="stable")[:20]
        ],
    }


def _tradeoff(model: Any, test: Any, y_test: Any) -> dict[str, Any]:
    points = []
    for scale in np.geomspace(0.005, 5.0, 13):
        noise = fl.Gaussian(float(scale))
        releases = [fl.release(model, noise, random_state=k, public="preprocessing") for k in range(8)]
        scores = [released.score(test, y_test) for released in releases]
        low, high = np.quantile(scores, [0.05, 0.95])
        points.append(
            {
                "scale": float(scale),
                "utility": float(np.mean(scores)),
                "low": float(low),
                "high": float(high),
                "attacks": [{"attribute": "sex", "accuracy": 0.53 + 0.45 / (1 + (scale / 0.05) ** 2)}],
            }
        )
    return {
        "metric": "accuracy",
        "label": "accuracy on held-out rows",
        "higher_is_better": True,
        "without_noise": float(model.score(test, y_test)),
        "baseline": float(np.mean(y_test == "slow")),
        "held_out": True,
        "draws": 8,
        "points": points,
    }


def _attacks() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    made = []
    for attacker, level in (("white box", 0.78), ("black box", 0.57), ("no model, other columns", 0.81)):
        accuracy = level + 0.02 * rng.normal()
        made.append(
            {
                "attacker": attacker,
                "attribute": "sex",
                "accuracy": accuracy,
                "low": accuracy - 0.03,
                "high": accuracy + 0.03,
                "baseline": 0.53,
                **({"worst": 0.97, "q95": 0.93, "median": 0.61, "found": 12} if not attacker.startswith("no") else {}),
                "method": "closed form over the noise" if attacker != "black box" else "30 draws of the noise",
                "note": f"What the {attacker} attacker knows of the row is said once.",
            }
        )
    return made


def _balance(model: Any, train: Any, y_train: Any, test: Any, y_test: Any, before: Any) -> dict[str, Any]:
    balanced = fl.IRFIL(model, n_iter=10).fit(train, y_train)
    noise = fl.Gaussian(0.05)
    leak = fl.measure(balanced.estimator_, train, y_train, noise=noise, sample_weight=balanced.weights_)
    after = leak.per_example()
    edges = np.histogram_bin_edges(np.concatenate([before, after]), bins=24)
    return {
        "iterations": 10,
        "before": {key: _five(before)[key] for key in ("mean", "sd", "max")},
        "after": {key: _five(after)[key] for key in ("mean", "sd", "max")},
        "histogram": {
            "edges": edges.tolist(),
            "before": np.histogram(before, bins=edges)[0].tolist(),
            "after": np.histogram(after, bins=edges)[0].tolist(),
        },
        "utility_before": float(model.score(test, y_test)),
        "utility_after": float(balanced.score(test, y_test)),
        "note": "The weights depend on the data too; they are held fixed here.",
    }


def _renamed(made: dict[str, Any]) -> dict[str, Any]:
    script, image, closing, odd = HOSTILE
    made |= {"title": script, "command": f"fisherleak audit {image}", "assumptions": [closing, odd]}
    made["versions"] |= {script: image}
    made["data"] |= {"source": image, "target": closing, "classes": [script, odd], "id_column": image}
    made["data"] |= {"group_column": odd, "sha256": closing}
    made["data"]["dropped"][0]["reason"] = script
    made["label"]["name"] = closing
    made["policy"] |= {"source": image, "sha256": odd, "note": closing}
    made["next"] |= {"note": closing, "command": f"fisherleak release {script}"}
    made["policy"]["rules"][0] |= {"rule": script, "note": closing}
    for k, column in enumerate(made["data"]["columns"]):
        column |= {"name": HOSTILE[k % 4] + f" {k}", "note": HOSTILE[(k + 1) % 4]}
    for k, attribute in enumerate(made["attributes"]):
        attribute["name"] = HOSTILE[k % 4] + f" {k}"
    for k, row in enumerate(made["rows"]):
        row |= {"id": HOSTILE[k % 4] + f" {k}", "values": {script: image, closing: odd}}
    for k, group in enumerate(made["groups"]):
        group["name"] = made["eta"]["histogram"]["groups"][k]["name"] = HOSTILE[k % 4]
    for k, attack in enumerate(made["attacks"]):
        attack |= {"attacker": HOSTILE[k], "attribute": HOSTILE[k + 1], "method": odd, "note": closing}
    for point in made["tradeoff"]["points"]:
        point["attacks"][0]["attribute"] = script
    made["tradeoff"]["label"] = closing
    made["model"]["description"] = made["noise"]["note"] = made["balance"]["note"] = script
    for k, row in enumerate(made["gate"]["rows"]):
        row["id"] = HOSTILE[k % 4]
    made["diagnostics"] |= {"warnings": list(HOSTILE), "seconds": {image: 1.0}}
    made["diagnostics"]["finite_difference"]["note"] = odd
    return made
