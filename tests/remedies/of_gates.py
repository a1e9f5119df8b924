"""Refusals of a policy by what a release of the table would show, with what they advise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import fisherleak as fl
from fisherleak._support.grids import public_units
from fisherleak.auditing.policy import policy as policies
from remedies.of_models import X, fitted
from remedies.of_policies import AGE, EVERY, MEMBERS, PEOPLE, SICK, gate
from remedies.table import Remedy

CITY = "[columns.city]\nmax_attack = 0.99\n"
CHILDREN = '[columns.children]\nkind = "number"\nspread = 1\n'
IN_GROUPS = '[groups]\nmax_eta_joint = 1000\n[require]\ngroup = "city"\n'
WIDE = "--bounds age=0:120 --bounds children=0:9"
LABEL = "[label]\nmax_attack = 0.99\n"
LATE = PEOPLE.assign(y=["n/k"] * 12 + [*map(str, PEOPLE.y[12:])])
"""A target of numbers but for one cell in ten."""
RARELY = PEOPLE.assign(y=np.where(np.arange(120) < 5, "yes", "no"))
EDGE = PEOPLE.assign(city=np.where(np.arange(120) < 5, "Kiel", PEOPLE.city))
"""Of one category as few rows as it takes to be named."""
SAME = PEOPLE.assign(children=np.where(np.arange(120) < 5, np.arange(1, 121), 0))
GROUPS = pandas.DataFrame(np.random.default_rng(7).normal(size=(600, 2)).round(3), columns=["a", "b"])
GROUPS["y"] = (GROUPS.a + np.random.default_rng(8).normal(size=600)).round(3)
GROUPS = GROUPS.assign(
    city=[f"z{k}" if k >= 550 else f"w{k % 4}" for k in range(600)], b=GROUPS.b.where(GROUPS.index < 550)
)
"""Rows of many small groups lack a value, and are left out."""
LACKING: list[Any] = [*["x"] * 3, "z", *["x"] * 76, *[None] * 40]
LACKED = PEOPLE.assign(note=LACKING, twin=[1.5] * 80 + [*PEOPLE.age[80:]])
"""A category that one row makes one of two values, and a number that varies only in rows that lack it."""
THREE = PEOPLE.assign(y=np.arange(120) % 3)
NAMES = pandas.DataFrame(X, columns=["a", "b", "c"])
CLOSE = fitted(StandardScaler(), Ridge(1.0), X=NAMES)


def known(checked: bool) -> str:
    """An audit under a policy whose rule has a key that nothing judges, or of one that is."""
    rule = policies.SECTIONS["rows"]["max_eta"]
    rules = "[rows]\nmax_eta = 9\n"
    if not checked:
        rules += "max_odd = 9\n"
        policies.SECTIONS["rows"]["max_odd"] = rule  # type: ignore[index]
    try:
        return gate(rules)
    finally:
        policies.SECTIONS["rows"].pop("max_odd", None)  # type: ignore[attr-defined]


def standardised(declared: bool = False) -> fl.ModelAudit:
    """A model behind a scaler whose centre is next to an edge of its grid, under a policy."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    centre, scale = public_units(float(frame.a.mean()), float(frame.a.std(ddof=0)))
    frame["a"] += (round(centre / scale) + 0.5) * scale - frame.a.mean() + 1e-4
    y = pandas.Series(frame.a + rng.normal(size=400), name="y")
    model = fitted(StandardScaler(), Ridge(1.0), X=frame, y=y)
    noise: Any = fl.Gaussian(1.0)
    if declared:
        bounds: Any = {"a": (-6.0, 6.0), "b": (-6.0, 6.0), "label": (-9.0, 9.0)}
        noise = fl.calibrate(fl.measure(model, frame, y, public="nothing"), 3.0, over="any-record", bounds=bounds)
    policy = {"columns": {"a": {"min_error": 0.01}}}
    return fl.audit(model, frame, y, noise, policy=policy, public="nothing", attacks=False)


OF_GATES: list[Remedy] = [
    Remedy(
        "might be read as something else: numbers, text or dates.",
        gate,
        {"policy": MEMBERS, "table": LATE},
        {
            "mend the cells that are written in another way": {"table": PEOPLE},
            "name what stands for a missing value with --na": {
                "policy": MEMBERS + '[require]\nna = ["n/k"]\n',
                "options": "--na n/k",
            },
        },
    ),
    Remedy(
        "gives the target '{target.name}' another kind than its values suggest",
        gate,
        {"policy": EVERY, "table": THREE, "options": f"{WIDE} --bounds y=-9:9 --model linear", "bounded": False},
        {
            "leave --model out": {"options": WIDE},
            'write model = "linear" under [require]': {
                "policy": EVERY + '[label]\nspread = 0.5\nmax_revealed = 0.99\n[require]\nmodel = "linear"\n'
            },
        },
    ),
    Remedy(
        "without declared bounds. Another value of one {who}",
        gate,
        {"policy": AGE, "bounded": False},
        {"with --bounds age=LOW:HIGH": {"options": "--bounds age=0:120"}},
    ),
    Remedy(
        "which of its categories a release names. That reveals the value however large the noise is.",
        gate,
        {"policy": CITY, "table": EDGE},
        {"Declare all categories with --levels": {"options": "--levels city=Bonn,Genua,Kiel"}},
    ),
    Remedy(
        "and nearly all rows have the same value",
        gate,
        {
            "policy": EVERY + CHILDREN,
            "table": SAME,
            "options": f"{WIDE} --bounds y=-90:200 --number children",
            "bounded": False,
        },
        {
            "leave the column out with --drop children, and its own rules out of the policy": {
                "policy": EVERY,
                "options": "--bounds age=0:120 --bounds y=-90:200 --drop children",
            }
        },
    ),
    Remedy(
        "without declared bounds: another value of one row can change the public centre or scale, which reveals that value "
        "however large the noise is. Use noise of",
        standardised,
        {},
        {"Use noise of fl.calibrate(leak, eta=…, over='any-record', bounds={'a': (low, high)})": {"declared": True}},
    ),
    Remedy(
        "and one class of it is rare.",
        gate,
        {"policy": LABEL, "table": RARELY},
        {
            "Unite it with another class in the table": {
                "table": PEOPLE.assign(y=np.where(PEOPLE.age > 50, "yes", "no"))
            },
            "leave its rows out": {"table": SICK.assign(y=SICK.y)},
        },
    ),
    Remedy(
        "cannot be checked: {why}, or leave these rules out.",
        gate,
        {"policy": AGE, "noise": "--eta 5"},
        {
            "Choose a scale and give it with --noise": {"noise": "--noise 50"},
            "leave these rules out": {"policy": "[rows]\nmax_eta = 9\n"},
        },
    ),
    Remedy(
        "The rule {} of the policy '{}' cannot be checked. Leave it out.",
        known,
        {"checked": False},
        {"Leave it out": {"checked": True}},
    ),
    Remedy(
        "A release has no groups and would use that column differently",
        gate,
        {"policy": IN_GROUPS, "table": GROUPS, "options": "--group city --missing drop"},
        {
            "Leave --group out": {"policy": "[rows]\nmax_eta = 99\n", "options": "--missing drop"},
            "--category city": {"options": "--group city --missing drop --category city"},
        },
    ),
    Remedy(
        "were left out before it was known that the model does not use such a column",
        gate,
        {"policy": MEMBERS, "table": LACKED, "bounded": False, "options": f"{WIDE} --bounds y=-90:200 --missing drop"},
        {"give --drop note": {"options": f"{WIDE} --bounds y=-90:200 --missing drop --drop note"}},
    ),
]
