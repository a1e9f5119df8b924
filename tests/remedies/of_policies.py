"""Refusals of a policy that cannot be checked, with what they advise."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, SplineTransformer, StandardScaler

import fisherleak as fl
from fisherleak.cli import main
from remedies.of_data import GAPPED
from remedies.of_models import PAIRS, C, X, Y, fitted
from remedies.table import Remedy

RNG = np.random.default_rng(3)
PEOPLE = pandas.DataFrame(
    {
        "age": RNG.normal(50, 12, 120).round(1),
        "children": RNG.integers(0, 6, 120),
        "city": RNG.choice(["Bonn", "Genua"], 120),
    }
)
PEOPLE["y"] = (PEOPLE.age + RNG.normal(0, 9, 120)).round(2)
ENDS = {"age": "0:120", "children": "0:9", "y": "-90:200", "twin": "0:300", "town": "-9:9", "flag": "-2:4"}
ENDS |= {"a": "-6:200", "b": "-6:200", "inc": "0:100000", "crp": "0:1000"}
THREE = np.digitize(Y, [-0.5, 0.5])
SICK = PEOPLE.assign(y=np.where(PEOPLE.age + RNG.normal(0, 9, 120) > 50, 1, 0))
AGE = "[columns.age]\nmax_revealed = 0.99\n"
BOUNDED = " ".join(f"--bounds {name}={ENDS[name]}" for name in ("age", "children", "y"))
ROWS = "[rows]\nmax_eta = 9\n"
MEMBERS = "[membership]\nmax_right = 0.99\n"
EVERY = '[columns."*"]\nmax_revealed = 0.99\nmax_attack = 0.99\n'


def run(*words: str, passes: bool = False) -> None:
    """A command, in the folder where one is; what it refuses with is raised, and with ``passes`` what it finds wrong."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said if passes else io.StringIO()):
        status = main([*words])
    if status == 2 or (passes and status):
        raise fl.InvalidInputError(" ".join(said.getvalue().split()).replace("'\\''", "'"))


def gate(
    policy: str,
    *,
    table: Any = PEOPLE,
    options: str = "",
    bounded: bool = True,
    first: str = "",
    noise: str = "--noise 50",
    target: str = "--target y",
    held_out: str = "--held-out 0",
) -> str:
    """Audit a table under a policy, after the command ``first``: what is refused is raised, and else the page is given."""
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        if isinstance(table, str):
            Path("t.csv").write_text(table, encoding="utf-8")
        else:
            table.to_csv("t.csv", index=False)
        Path("policy.toml").write_text(policy, encoding="utf-8")
        if first:
            run(*first.split())
        named = [] if isinstance(table, str) or not bounded else [n for n in table if table[n].dtype.kind in "fi"]
        free = [name for name in named if name not in options.split() and not (name == "y" and set(table.y) == {0, 1})]
        ends = [word for name in free for word in ("--bounds", f"{name}={ENDS[name]}")]
        line = ["audit", "t.csv", *target.split(), "--policy", "policy.toml", *noise.split(), *ends]
        run(*line, "--no-attacks", "--draws", "2", *held_out.split(), *options.split(), "--out", "report")
        return Path("report/report.html").read_text(encoding="utf-8")


def european() -> str:
    rng = np.random.default_rng(3)
    ages, labels = np.clip(rng.normal(50, 12, 80), 18.001, 89.999), rng.integers(0, 2, 80)
    lines = [f"{age:.3f};{y}".replace(".", ",") for age, y in zip(ages, labels, strict=True)]
    return "\n".join(["age;y", *lines]) + "\n"


IN_YEARS = '[columns.age]\nmin_error = 5\nkind = "number"\n[require]\nmodel = "logistic"\n'


def amounts(odd: int = 1) -> pandas.DataFrame:
    """Thousands but for a few cells that have a decimal comma."""
    rng = np.random.default_rng(2)
    cells = [f"{v // 1000},{v % 1000:03d}" for v in rng.integers(10_000, 99_999, 80)]
    cells[:odd] = ["45,5"] * odd
    a = np.clip(rng.normal(size=80), -4, 4).round(1)
    return pandas.DataFrame({"inc": cells, "a": a, "y": np.where(a + rng.normal(size=80) > 0, "yes", "no")})


def with_total(total: bool = True) -> pandas.DataFrame:
    table = pandas.DataFrame(np.random.default_rng(0).uniform(1, 5, (30, 3)).round(2), columns=["a", "b", "y"])
    return pandas.concat([table, table.sum().round(2).to_frame().T], ignore_index=True) if total else table


def records(name: str, everywhere: bool = False) -> str:
    """JSON of which one object has one more name, or all have, with nothing in the others."""
    rows: list[dict[str, Any]] = json.loads(PEOPLE.to_json(orient="records"))
    own = [row | ({name: None} if everywhere else {}) for row in rows]
    own[7][name] = "moved away"
    return json.dumps(own)


def changed(values: Any, name: str = "flag") -> pandas.DataFrame:
    return PEOPLE.assign(**{name: values})


ENDED = "--bounds age=0:120 --bounds children=0:9 --bounds y=-90:200"


def headed(*below: str) -> str:
    """Numbers with lines between their names and them."""
    names, *rows = PEOPLE.drop(columns="city").to_csv(index=False).splitlines()
    return "\n".join([names, *below, *rows]) + "\n"


def judged(
    model: Any = None, policy: Any = None, X: Any = X, y: Any = Y, noise: Any = 5.0, **options: Any
) -> fl.ModelAudit:
    rules = policy or {"membership": {"max_right": 0.999}, "require": {"public": "preprocessing"}}
    model = fitted(Ridge(1.0), X=X, y=y) if model is None else model
    return fl.audit(model, X, y, noise, policy=rules, attacks=False, **options)


def reused(tol: float) -> Any:
    return LogisticRegression(tol=tol, solver="lbfgs", max_iter=10_000).fit(X, C)


def clipped(clip: bool) -> Any:
    step = MinMaxScaler(clip=clip).fit(X / 2)
    return make_pipeline(step, Ridge(1.0).fit(step.transform(X), Y))


def filled(strategy: str = "mean", **options: Any) -> fl.ModelAudit:
    imputer = SimpleImputer(strategy=strategy, **options)
    rules = {"columns": {"x0": {"min_error": 0.001}}, "require": {"public": "preprocessing"}}
    return judged(fitted(imputer, Ridge(1.0), X=GAPPED), rules, GAPPED)


SCALED = fitted(StandardScaler(), Ridge(1.0))
FRAME = pandas.DataFrame(X[:, :2], columns=["x0", "x1"])
FLAGS = (PEOPLE.age > PEOPLE.age.median()).astype(float)
SHAKEN = FLAGS + 1e-4 * RNG.normal(size=120)
CODED_AGES = PEOPLE.assign(age=[f"y{3 * int(age / 3)}" for age in PEOPLE.age])
LEVELS = "--levels age=" + ",".join(sorted({*CODED_AGES.age}))
SAME = PEOPLE.assign(age=np.where(np.arange(120) < 80, 50 + RNG.normal(0, 0.02, 120), PEOPLE.age))
ODD_LABEL = pandas.DataFrame({"a": RNG.normal(size=81).clip(-4, 4), "y": [20, *[0, 1, 2, 3] * 20]})
LACKING = PEOPLE.assign(crp=RNG.normal(5, 2, 120).clip(0.1, 15)).assign(crp=lambda t: t.crp.where(t.index > 3))
RELEASE = "release t.csv --target y --noise 50 --out m.skops --over max"

OF_POLICIES: list[Remedy] = [
    Remedy(
        "which the policy '{policy.source}' does not state: no rule covers the cells that it makes missing.",
        gate,
        {"policy": AGE, "options": "--na 50.0"},
        {"Leave it out": {"options": ""}, "write na = [": {"policy": AGE + '[require]\nna = ["50.0"]\n'}},
    ),
    Remedy(
        "states a kind of the target '{design.target.name}', and the kind of a target follows from the model. Write model under [require] instead.",
        gate,
        {"policy": AGE + '[columns.y]\nkind = "number"\nmax_revealed = 0.99\n'},
        {"Write model under [require]": {"policy": AGE + '[require]\nmodel = "linear"\n', "options": "--model linear"}},
    ),
    Remedy(
        "for a {stated}, and here it is a {kind}: use",
        gate,
        {"policy": '[columns.children]\nkind = "category"\nmax_attack = 0.99\n'},
        {"--category children": {"options": "--category children"}},
    ),
    Remedy(
        "An option decides that '{name}' is a {kind}, and the policy '{policy.source}' does not state it: leave",
        gate,
        {"policy": EVERY, "options": "--category children"},
        {
            "leave --category out": {"options": ""},
            'write kind = "category" under [columns."children"]': {
                "policy": EVERY + '[columns."children"]\nkind = "category"\n'
            },
        },
    ),
    Remedy(
        "the table does not show whether the marks in its numbers are decimal marks",
        gate,
        {"policy": IN_YEARS, "table": european(), "options": "--number age --bounds age=18000:90000"},
        {
            'Write decimal = "," or "." under [require] in the policy, and give the same as --decimal': {
                "policy": IN_YEARS + 'decimal = ","\n',
                "options": "--number age --bounds age=18:90 --decimal ,",
            }
        },
    ),
    Remedy(
        "whether the marks in the numbers of '{name}' are decimal marks or thousands separators. So they decide",
        gate,
        {"policy": MEMBERS, "table": amounts(), "options": "--model logistic --l2 1 --bounds inc=0:100"},
        {
            "under [require] in the policy, and give the same as --decimal": {
                "policy": MEMBERS + '[require]\ndecimal = ","\n',
                "options": "--model logistic --l2 1 --bounds inc=0:100 --decimal ,",
            }
        },
    ),
    Remedy(
        "other last rows might be taken for totals and left out, or none.",
        gate,
        {"policy": MEMBERS, "table": with_total()},
        {"take the total out of the table": {"table": with_total(False)}, "--keep-total": {"options": "--keep-total"}},
    ),
    Remedy(
        "decide how the header of {design.source} is read.",
        gate,
        {"policy": ROWS, "table": headed("years,number,euros", "years,number,euros"), "options": ENDED},
        {
            "write a name for every column into its first line, with nothing but rows below": {
                "table": headed(),
                "options": f"{ENDED} --header",
            },
        },
    ),
    Remedy(
        "has no column '{name}', and an option that names it is refused.",
        gate,
        {"policy": ROWS, "table": records("note"), "options": f"{ENDED} --drop note"},
        {
            "write 'note' into every record": {"table": records("note", everywhere=True)},
            "name it in no option": {"options": ENDED},
        },
    ),
    Remedy(
        "attacks fewer rows and lets no attacker learn, and the policy",
        gate,
        {"policy": "[attacks]\nmax_accuracy = 0.999\n", "options": "--quick"},
        {"leave --quick out": {"options": ""}},
    ),
    Remedy(
        "covers every column, and has no {fits} for '{name}', which is {what}: add {fits} to it",
        gate,
        {"policy": '[columns."*"]\nmax_revealed = 0.99\n'},
        {
            "add max_attack to it": {"policy": EVERY},
            'write a rule under [columns."city"]': {
                "policy": '[columns."*"]\nmax_revealed = 0.99\n[columns."city"]\nmax_attack = 0.9\n'
                '[columns."children"]\nmax_attack = 0.9\n'
            },
        },
    ),
    Remedy(
        "which the policy '{policy.source}' does not state: under a policy a spread comes from the policy or from the data.",
        gate,
        {"policy": AGE, "options": "--spread age=11"},
        {
            "Leave it out": {"options": ""},
            'write spread = 11.0 under [columns."age"] in the policy': {"policy": AGE + "spread = 11\n"},
        },
    ),
    Remedy(
        "If one row were removed, or had another class, other rows would be held out",
        gate,
        {
            "policy": MEMBERS,
            "first": f"{RELEASE} --held-out 0.2",
            "noise": "--released m.skops",
            "target": "",
            "held_out": "",
            "bounded": False,
        },
        {"Use --held-out 0": {"first": RELEASE}},
    ),
    Remedy(
        "has a rule for '{name}', and nothing can check it: this column",
        gate,
        {"policy": AGE + ROWS, "options": "--drop age"},
        {"Use the column in the model": {"options": ""}, "remove the rule": {"policy": ROWS}},
    ),
    Remedy(
        "has 'delta' in [membership] without max_epsilon: write that limit too, or remove delta.",
        gate,
        {"policy": "[membership]\nmax_right = 0.99\ndelta = 1e-6\n"},
        {
            "write that limit too": {"policy": "[membership]\nmax_right = 0.99\nmax_epsilon = 90\ndelta = 1e-6\n"},
            "remove delta": {"policy": MEMBERS},
        },
    ),
    Remedy(
        "applies: it has spread and kind only. Write a limit.",
        gate,
        {"policy": "[columns.age]\nspread = 12\n"},
        {"Write a limit": {"policy": AGE + "spread = 12\n"}},
    ),
    Remedy(
        "are filled with the centre of its bounds, which is far from the other values",
        gate,
        {"policy": "[columns.crp]\nmax_revealed = 0.99\n", "table": LACKING},
        {"declare bounds whose centre lies among the values": {"options": "--bounds crp=0:15", "bounded": False}},
    ),
    Remedy(
        "cannot be checked: {why}. Use max_attack or max_eta instead.",
        gate,
        {"policy": "[columns.city]\nmax_revealed = 0.9\n"},
        {"Use max_attack": {"policy": "[columns.city]\nmax_attack = 0.9\n"}},
    ),
    Remedy(
        "is a copy of '{same[0]}', or nearly, in another unit or under other names",
        gate,
        {"policy": AGE, "table": changed(2 * PEOPLE.age, "twin")},
        {"--drop twin": {"options": "--drop twin", "bounded": True, "table": changed(2 * PEOPLE.age, "twin")}},
    ),
    Remedy(
        "An attacker then guesses '{told[0]}' without the release, and max_gain of the policy",
        gate,
        {
            "policy": "[attacks]\nmax_gain = 0.5\n",
            "table": changed(np.where(RNG.random(120) < 0.05, "Genua", PEOPLE.city), "town"),
        },
        {"--drop town": {"options": "--drop town"}},
    ),
    Remedy(
        "The column would be measured as a number, without attacks",
        gate,
        {"policy": EVERY, "table": changed(SHAKEN)},
        {
            "write exactly these values": {"table": changed(SHAKEN.round())},
            'write kind = "number" under [columns."flag"]': {
                "policy": EVERY + '[columns."flag"]\nkind = "number"\nspread = 0.5\n',
                "options": "--number flag",
            },
        },
    ),
    Remedy(
        "differ in their digits only. A guess that is nearly the right number would count as wrong",
        gate,
        {"policy": EVERY, "table": CODED_AGES, "options": LEVELS},
        {
            "write the numbers alone": {"table": PEOPLE, "options": ""},
            'write kind = "category" under [columns."age"]': {
                "policy": EVERY + '[columns."age"]\nkind = "category"\n',
                "options": f"{LEVELS} --category age",
            },
        },
    ),
    Remedy(
        "values of the target '{target.name}', exactly or nearly",
        gate,
        {"policy": "[label]\nmax_revealed = 0.99\n", "table": PEOPLE.assign(y=SHAKEN)},
        {
            "write exactly these values": {
                "policy": "[label]\nmax_attack = 0.99\n",
                "table": PEOPLE.assign(y=FLAGS.astype(int)),
                "bounded": True,
            },
            'write model = "linear" under [require]': {
                "policy": '[label]\nmax_revealed = 0.99\nspread = 0.5\n[require]\nmodel = "linear"\n',
                "options": "--model linear",
            },
        },
    ),
    Remedy(
        "are the same, or nearly: the spread of the rows does not say how uncertain an outsider is.",
        gate,
        {"policy": AGE, "table": SAME},
        {'as spread under [columns."age"]': {"policy": AGE + "spread = 12\n"}},
    ),
    Remedy(
        "The labels of one {who} can decide that the model is {target.kind}, which a release shows at any noise",
        gate,
        {"policy": MEMBERS, "table": ODD_LABEL},
        {
            'write model = "linear" under [require]': {"policy": MEMBERS + '[require]\nmodel = "linear"\n'}
            | {"options": "--model linear"},
        },
    ),
    Remedy(
        "has no rules in [{section}]: write a section with a rule in it.",
        gate,
        {"policy": "[rows]\n"},
        {"write a section with a rule in it": {"policy": ROWS}},
    ),
    Remedy(
        "dots in line {k}: no key has so many parts; write a list in several lines.",
        gate,
        {"policy": f"[require]\nlist = [{', '.join(['0.5'] * 300)}]\n"},
        {
            "write a list in several lines": {
                "policy": AGE + '[require]\nna = [\n"a",\n"b"\n]\n',
                "options": "--na a --na b",
            }
        },
    ),
    Remedy(
        "use names of columns, and with --header or --no-header, --columns could replace the file's own names unnoticed.",
        gate,
        {"policy": AGE, "options": "--columns age,children,city,y --header"},
        {
            "Leave out --header and --no-header": {
                "options": f"--columns age,children,city,y {BOUNDED}",
                "table": PEOPLE.to_csv(index=False, header=False),
            },
            "write the names into the file": {"options": ""},
        },
    ),
    Remedy(
        "class_weight={own.class_weight}: weights follow from all labels, and no rule counts that.",
        lambda class_weight=None, **options: judged(
            LogisticRegression(class_weight=class_weight, tol=1e-10).fit(X, C), y=C, **options
        ),
        {"class_weight": "balanced"},
        {"Fit with class_weight=None": {"class_weight": None}},
    ),
    Remedy(
        "for a ColumnTransformer that selects columns by a function: one cell can change the type of a column",
        lambda columns: judged(
            fitted(make_column_transformer((StandardScaler(), columns)), Ridge(1.0), X=FRAME), X=FRAME
        ),
        {"columns": make_column_selector(dtype_include="number")},
        {"List the columns by name": {"columns": ["x0", "x1"]}},
    ),
    Remedy(
        "for a model that searched for its parameters: one row can change the choice",
        judged,
        {"model": RidgeCV([1.0, 2.0]).fit(X, Y)},
        {"Fit the estimator with the parameters that you choose": {"model": Ridge(1.0).fit(X, Y)}},
    ),
    Remedy(
        "a step clips some of its values, and etas say nothing of changes beyond the clip. Fit with clip=False",
        lambda clip: judged(
            clipped(clip),
            {"columns": {"x0": {"min_error": 0.001}}, "require": {"public": "preprocessing"}},
        ),
        {"clip": True},
        {"clip=False": None},
    ),
    Remedy(
        "noise deviations from its minimum ({MOST_MOVED} at most), which no rule counts.",
        lambda tol: judged(
            reused(tol), y=C, noise=0.01, policy={"rows": {"max_eta": 1e9}, "require": {"public": "preprocessing"}}
        ),
        {"tol": 1e-2},
        {"Fit with a smaller tol": {"tol": 1e-10}},
    ),
    Remedy(
        "(missing_values={step.missing_values}): no rule covers the cells that it fills.",
        lambda X, **options: judged(
            fitted(SimpleImputer(**options), Ridge(1.0), X=X),
            {"columns": {"x0": {"min_error": 0.001}}, "require": {"public": "preprocessing"}},
            X,
        ),
        {"X": np.nan_to_num(GAPPED, nan=-9.0), "missing_values": -9.0},
        {"Write such cells as missing in the table": {"X": GAPPED, "missing_values": np.nan}},
    ),
    Remedy(
        "(strategy='constant'): a filled value can show that it was missing, and no rule counts that.",
        filled,
        {"strategy": "constant", "fill_value": -99.0},
        {"Use strategy='mean'": lambda: filled("mean"), "'median'": lambda: filled("median")},
    ),
    Remedy(
        "(add_indicator=True): the model uses whether a value is missing, and no rule counts that.",
        filled,
        {"add_indicator": True},
        {"Use add_indicator=False": {"add_indicator": False}},
    ),
    Remedy(
        "in which a step of the model is not affine: etas are about small changes",
        lambda step: judged(
            fitted(step, Ridge(1.0)), {"columns": {"x0": {"min_error": 0.001}}, "require": {"public": "preprocessing"}}
        ),
        {"step": SplineTransformer(3)},
        {
            "Use affine steps such as StandardScaler": {"step": StandardScaler()},
            "clip=False for a scaler that clips": {"step": MinMaxScaler(clip=False)},
        },
    ),
    Remedy(
        "cannot be checked for a fitted model of three or more classes: rules are known for models of one output.",
        judged,
        {"model": LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, THREE), "y": THREE},
        {
            "Fit one class against all others": {
                "model": LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, THREE == 1),
                "y": THREE == 1,
            },
            "leave policy out": lambda: fl.audit(LogisticRegression().fit(X, THREE), X, THREE, 5.0, attacks=False),
        },
    ),
    Remedy(
        "cannot be checked for this model: rules are known for a",
        judged,
        {"model": RidgeClassifier().fit(X, C), "y": C},
        {"Leave policy out": lambda: fl.audit(RidgeClassifier().fit(X, C), X, C, 5.0, attacks=False)},
    ),
    Remedy(
        "cannot be checked for a fitted model with `person`: leave these rules out, or leave `person` out.",
        lambda policy, **options: judged(policy=policy, group=PAIRS % 2, **options),
        {
            "policy": {
                "groups": {"max_ratio": 9.0},
                "require": {"public": "preprocessing", "person": "person", "group": "group"},
            },
            "person": PAIRS,
        },
        {
            "leave these rules out": {
                "policy": {"rows": {"max_eta": 9.0}, "require": {"public": "preprocessing", "person": "person"}}
            }
        },
    ),
    Remedy(
        "which is no text: write it as text.",
        judged,
        {"policy": {"rows": {0: 1.0}}},
        {"write it as text": {"policy": {"rows": {"max_eta": 9.0}, "require": {"public": "preprocessing"}}}},
    ),
    Remedy(
        "group must have one value for each row; got shape {given.shape}. Pass one column.",
        lambda group: fl.audit(fitted(Ridge(1.0)), X, Y, 5.0, group=group, attacks=False),
        {"group": np.column_stack([PAIRS, PAIRS])},
        {"Pass one column": {"group": PAIRS % 2}},
    ),
    Remedy(
        "y_test has one value in all rows, and R² compares with their variance: pass more rows.",
        lambda rows: fl.audit(
            fitted(Ridge(1.0)),
            X,
            Y,
            5.0,
            X_test=X[:rows],
            y_test=np.round(Y[:rows], 0 if rows == 2 else 9) * (rows > 2),
            attacks=False,
        ),
        {"rows": 2},
        {"pass more rows": {"rows": 20}},
    ),
    Remedy(
        "X_test must be finite behind the preprocessing. Drop or fill rows that are not.",
        lambda rows: fl.audit(SCALED, X, Y, 5.0, public="nothing", X_test=rows, y_test=Y[: len(rows)], attacks=False),
        {"rows": GAPPED[:10]},
        {"Drop": {"rows": GAPPED[1:10]}, "fill rows that are not": {"rows": X[:20]}},
    ),
]
