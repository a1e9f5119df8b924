"""Refusals of tables, of releases of tables, of predictions and answers, with what they advise."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas
from sklearn.linear_model import Ridge

import fisherleak as fl
from fisherleak.releasing.cards.signatures import card_text, sealed
from remedies.of_policies import run
from remedies.table import Remedy

RNG = np.random.default_rng(8)
N = 80
T = pandas.DataFrame(RNG.normal(size=(N, 2)).round(3), columns=["a", "b"])
T["y"] = (T.a + RNG.normal(size=N)).round(3)
CLASSES = T.assign(y=np.where(T.y > 0, "yes", "no"))
WHO = T.assign(who=np.arange(N) // 2)
MANY = pandas.concat([T] * 10)
CSV = T.to_csv(index=False)
RELEASE = "release t.csv --target y --noise 9 --out m.skops --over max"
HELD_OUT = "audit t.csv --target y --noise 9 --no-attacks --draws 2 --held-out"
AUDIT = f"{HELD_OUT} 0"
ANYONE = "release t.csv --target y --eta 8 --l2 10 --bounds a=-5:5 --bounds b=-5:5 --bounds y=-9:9 --out m.skops"
LABELS = "--target y --out answers.csv"
COMMAS = T.assign(a=[f"{1 + k % 8},{101 + 7 * k}" for k in range(N)])
"""Numbers with a comma before three digits: only the marks of another column tell what it is."""
LONG_CODES = np.resize([9 * 10**17, 9 * 10**17 + 10**12], N - 1).tolist()
CODES = T.assign(site=RNG.choice(["north", "south"], N))


def ran(line: str = RELEASE, first: str = "", then: str = "", name: str = "t.csv", **files: Any) -> bool:
    """Commands in a folder with these files: a table, text, bytes or JSON each; the first one is the table."""
    given = {"t": T} | files
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        for key, value in given.items():
            write(Path(name if key == "t" else key.replace("_", ".", 1)), value)
        for each in (first, line, then):
            for part in each.split(";") if each else ():
                run(*[word.replace("~", " ") for word in part.split()])
    return True


def write(path: Path, value: Any) -> None:
    if isinstance(value, bytes):
        path.write_bytes(value)
    elif isinstance(value, str):
        path.write_text(value, encoding="utf-8")
    elif isinstance(value, Mapping):
        path.mkdir()
        for name, part in value.items():
            write(path / name, part)
    elif path.suffix == ".parquet":
        value.to_parquet(path, index=False)
    elif path.suffix == ".xlsx":
        value.to_excel(path, index=False)
    else:
        value.to_csv(path, index=False)


def bare(rows: Any) -> str:
    return str(rows.to_csv(index=False, header=False))


def lists() -> pandas.DataFrame:
    each: list[Any] = [[k] for k in range(N)]
    return CODES.assign(site=each)


def predicted(queries: Any = T, options: str = "", table: Any = T, made: str = RELEASE, name: str = "q.csv") -> bool:
    files = {name.replace(".", "_", 1): queries}
    return ran(f"predict m.skops {name} --out p.csv {options}", first=made, t=table, **files)


def answered(options: str, queries: Any = T, table: Any = CLASSES, **more: Any) -> bool:
    target = "" if "--released" in options else "--target y"
    return ran(
        f"answers t.csv q.csv {target} {options}", t=table, q_csv=queries[[n for n in queries if n != "y"]], **more
    )


def changed(path: str = "m.skops.json", again: bool = False, change: Any = None) -> bool:
    """A release whose files were changed by someone is verified; or one that is made again."""
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        write(Path("t.csv"), T)
        run(*RELEASE.split())
        if not again:
            file = Path(path)
            file.write_bytes(change(file.read_bytes()))
        run("verify", "m.skops", passes=True)
    return True


def edited(**fields: Any) -> Any:
    """The text of a model card with other fields."""

    def change(text: bytes) -> bytes:
        card = json.loads(text)
        for name, value in fields.items():
            card[name] = value(card[name]) if callable(value) else value
        return bytes(card_text(sealed(card)))

    return change


def warned(over: str) -> Any:
    """What warns, as a refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        X, y = T[["a", "b"]].to_numpy(), T.y.to_numpy()
        leak = fl.measure(Ridge(1000.0).fit(X, y), X, y, fl.Gaussian(1.0))
        bounds: Any = {"x0": (-9.0, 9.0), "x1": (-9.0, 9.0), "label": (-9.0, 9.0)}
        try:
            return fl.calibrate(leak, 1.0, over=over, bounds=bounds)
        except FutureWarning as warning:
            raise fl.InvalidInputError(str(warning)) from None


def tampered(says: str, path: str = "m.skops.json", change: Any = None) -> Remedy:
    """A file that someone changed, and the remedy of all of them."""
    return Remedy(says, changed, {"path": path, "change": change}, {"release the model again": {"again": True}})


OF_TABLES: list[Remedy] = [
    Remedy(
        "looks like a header, and",
        ran,
        {"line": f"{RELEASE} --columns a,b,y", "t": CSV},
        {
            "--header": {"line": f"{RELEASE} --columns a,b,y --header"},
            "--no-header": {"line": f"{RELEASE} --columns a,b,y --no-header", "t": bare(T)},
        },
    ),
    Remedy(
        "is encoded in UTF-16: read it with",
        ran,
        {"t": CSV.encode("utf-16")},
        {"--encoding utf-16": {"line": f"{RELEASE} --encoding utf-16"}},
    ),
    Remedy(
        "has one column only, or an unusual delimiter: a table needs a target and another column, and",
        ran,
        {"t": CSV.replace(",", "^")},
        {"--delimiter names the delimiter": {"line": f"{RELEASE} --delimiter ^"}},
    ),
    Remedy(
        "where its header has {expected}: mend that row, or name the delimiter with",
        ran,
        {"t": CSV + "1,2,3,4\n"},
        {"mend that row": {"t": CSV + "1,2,3\n"}},
    ),
    Remedy(
        "is neither a workbook nor a file of R: leave it out.",
        ran,
        {"line": f"{RELEASE} --sheet one"},
        {"leave it out": {"line": RELEASE}},
    ),
    Remedy(
        "holds Parquet files, which have none: leave it out.",
        ran,
        {"line": f"{RELEASE.replace('t.csv', 'all')} --sheet one", "name": "all", "t": {"1.parquet": T}},
        {"leave it out": {"line": RELEASE.replace("t.csv", "all")}},
    ),
    Remedy(
        "is a device, which may have no end: name a file, or use - for standard input.",
        ran,
        {"line": RELEASE.replace("t.csv", os.devnull)},
        {"name a file": {"line": RELEASE}},
    ),
    Remedy(
        "is a damaged Parquet file ({_short(error)}): get it again, or leave it out.",
        ran,
        {
            "name": "all",
            "t": {"1.parquet": T, "2.parquet": b"PAR1" + bytes(50) + b"PAR1"},
            "line": RELEASE.replace("t.csv", "all"),
        },
        {"get it again": {"t": {"1.parquet": T, "2.parquet": T}}, "leave it out": {"t": {"1.parquet": T}}},
    ),
    Remedy(
        "is no Parquet file: give one that is, or leave it out.",
        ran,
        {"name": "all", "t": {"1.parquet": T, "2.parquet": CSV}, "line": RELEASE.replace("t.csv", "all")},
        {"give one that is": {"t": {"1.parquet": T, "2.parquet": T}}, "leave it out": {"t": {"1.parquet": T}}},
    ),
    Remedy(
        "{url} {what}: all files must have the columns of",
        ran,
        {
            "name": "all",
            "t": {"1.parquet": T, "2.parquet": T.drop(columns="b")},
            "line": RELEASE.replace("t.csv", "all"),
        },
        {"Write it again": {"t": {"1.parquet": T, "2.parquet": T}}, "leave it out": {"t": {"1.parquet": T}}},
    ),
    Remedy(
        "which has type {wanted} in {PurePosixPath(first_url).name}: write it again with the same type, or leave the file",
        ran,
        {"name": "all", "t": {"1.parquet": T, "2.parquet": T.assign(b="x")}, "line": RELEASE.replace("t.csv", "all")},
        {
            "write it again with the same type": {"t": {"1.parquet": T, "2.parquet": T}},
            "leave the file out": {"t": {"1.parquet": T}},
        },
    ),
    Remedy(
        "has no numbers: leave it out with",
        ran,
        {"t": T.assign(a="x" + T.a.astype(str)), "line": f"{RELEASE} --number a"},
        {"--drop a": {"line": f"{RELEASE} --drop a"}},
    ),
    Remedy(
        "has no values at all: leave it out with",
        ran,
        {"t": T.assign(c=np.nan), "line": f"{RELEASE} --category c"},
        {"--drop c": {"line": f"{RELEASE} --drop c"}},
    ),
    Remedy(
        "holds text:",
        ran,
        {"t": CLASSES, "line": f"{RELEASE} --model linear"},
        {"--model logistic": {"line": f"{RELEASE} --model logistic"}},
    ),
    Remedy(
        "is infinite, or too large for a number, in",
        ran,
        {"t": T.assign(a=T.a.where(T.index != 3, np.inf))},
        {"mend the value": {"t": T}, "--drop a": {"line": f"{RELEASE} --drop a"}},
    ),
    Remedy(
        "different values of text{_listed(levels)}, some of which differ in case or blanks only.",
        ran,
        {"t": CLASSES.assign(y=CLASSES.y.where(T.index > 30, CLASSES.y.str.title()))},
        {"keeps them apart": {"line": f"{RELEASE} --model softmax"}},
    ),
    Remedy(
        "are for numbers, and '{name}' is a category: use",
        ran,
        {"t": CODES, "line": f"{RELEASE} --bounds site=0:1"},
        {"use --levels": {"line": f"{RELEASE} --levels site=north,south"}},
    ),
    Remedy(
        "No column is left to predict '{target}' from:",
        ran,
        {"t": T.assign(a="p" + T.index.astype(str), b="q" + T.index.astype(str))},
        {"--category keep columns": {"line": RELEASE, "t": T}},
    ),
    Remedy(
        "has {counted.complete} complete row{'s' * (counted.complete != 1)}{why}. At least",
        ran,
        {"t": T.assign(c=np.where(T.index < 3, 1.5 + T.index, np.nan)), "line": f"{RELEASE} --missing drop"},
        {"--drop": {"line": f"{RELEASE} --missing drop --drop c"}},
    ),
    Remedy(
        "has values beyond {EXTREME}: use a larger unit.",
        ran,
        {"t": T.assign(a=T.a * 1e200)},
        {"use a larger unit": {"t": T}},
    ),
    Remedy(
        "has only values below {1 / EXTREME} in size: use a smaller unit.",
        ran,
        {"t": T.assign(a=T.a * 1e-200)},
        {"use a smaller unit": {"t": T}},
    ),
    Remedy(
        "has values outside the bounds ({low}, {high}): declare wider ones, or clip the column before.",
        ran,
        {"line": f"{RELEASE} --bounds a=-1:1"},
        {
            "declare wider ones": {"line": f"{RELEASE} --bounds a=-9:9"},
            "clip the column before": {"t": T.assign(a=T.a.clip(-1, 1))},
        },
    ),
    Remedy(
        "is not empty: choose another one, or allow it with",
        ran,
        {"line": f"{AUDIT} --out full", "first": f"{AUDIT} --out full"},
        {
            "choose another one": {"line": f"{AUDIT} --out other"},
            "--overwrite": {"line": f"{AUDIT} --out full --overwrite"},
        },
    ),
    Remedy(
        "is called {new} now: write that. The old name works until version 0.4.",
        warned,
        {"over": "admissible"},
        {"over='any-record'": None},
    ),
    Remedy(
        "`metric` is {asked}, and {words} has none: use {known}, or leave it out.",
        ran,
        {"line": f"{AUDIT} --metric auc"},
        {"use 'r2'": {"line": f"{AUDIT} --metric r2"}, "leave it out": {"line": AUDIT}},
    ),
    Remedy(
        "cannot be given with a `shape` computed from the table's rows: how it depends on the weights is not counted.",
        ran,
        {"line": f"{RELEASE.replace('--noise', '--eta')} --balance --shape hessian"},
        {"--shape isotropic": {"line": f"{RELEASE.replace('--noise', '--eta')} --balance --shape isotropic"}},
    ),
    Remedy(
        "cannot be given with `ledger`: a ledger adds up releases whose weights are fixed",
        ran,
        {"line": f"{RELEASE} --balance --ledger l.json"},
        {"Leave one of them out": {"line": f"{RELEASE} --ledger l.json"}},
    ),
    Remedy(
        "cannot be given with a limit `eta` for several classes: how the weights follow from the data",
        ran,
        {"line": f"{RELEASE.replace('--noise', '--eta')} --balance", "t": T.assign(y=np.resize(["r", "s", "t"], N))},
        {
            "Give --noise": {"line": f"{RELEASE} --balance"},
            "leave --balance out": {"line": RELEASE.replace("--noise", "--eta")},
        },
    ),
    Remedy(
        "it needs `person` and a limit `eta` for any record within the bounds",
        ran,
        {
            "line": f"{ANYONE} --rows-per-person 2",
            "t": pandas.concat([WHO.assign(who=WHO.who + N * k) for k in range(9)]),
        },
        {
            "give --person": {"line": f"{ANYONE} --rows-per-person 2 --person who"},
            "leave --rows-per-person out": {"line": ANYONE.replace("--out", "--drop who --out")},
        },
    ),
    Remedy(
        "`attribute` cannot be given with `person`: it limits the value of a column in every single row",
        ran,
        {"line": f"{RELEASE.replace('--noise', '--eta')} --attribute a --person who", "t": WHO},
        {"leave it out": {"line": f"{RELEASE.replace('--noise', '--eta')} --person who"}},
    ),
    Remedy(
        "`ledger` needs rows without missing values, and",
        ran,
        {"line": f"{RELEASE} --ledger l.json", "t": T.assign(a=T.a.where(T.index > 20))},
        {"--missing drop": {"line": f"{RELEASE} --ledger l.json --missing drop"}},
    ),
    Remedy(
        "does not use them: leave one out.",
        ran,
        {"line": f"{RELEASE.replace('--noise', '--eta')} --shape isotropic --shape-from p.csv", "p_csv": -T},
        {"leave one out": {"line": f"{RELEASE.replace('--noise', '--eta')} --shape-from p.csv"}},
    ),
    Remedy(
        "which the table lacks: leave such rows out.",
        ran,
        {
            "line": f"{RELEASE.replace('--noise', '--eta')} --shape-from p.csv",
            "t": CODES,
            "p_csv": CODES.assign(a=-T.a).replace("north", "west"),
        },
        {"leave such rows out": {"p_csv": CODES.assign(a=-T.a)}},
    ),
    Remedy(
        "Rename or add columns; the model card lists all of them under 'columns'.",
        predicted,
        {"queries": T.rename(columns={"b": "B2"})},
        {"Rename": {"queries": T}, "add columns": {"queries": T.rename(columns={"b": "B2"}).assign(b=T.b)}},
    ),
    Remedy(
        "has the name of a column that is written: rename it in",
        predicted,
        {"queries": T.assign(prediction=T.index), "options": "--id prediction"},
        {
            "rename it": {"queries": T.assign(row=T.index), "options": "--id row"},
            "--id": {"queries": T.assign(prediction=T.index, row=T.index), "options": "--id row"},
        },
    ),
    Remedy(
        "holds no number, and the model takes numbers there: write numbers, or leave the cells empty where they are",
        predicted,
        {"queries": T.assign(a="many")},
        {"write numbers": {"queries": T}},
    ),
    Remedy(
        "has an infinite value in {part.where(int(infinite[0]))}: write a number there, or leave the cell empty.",
        predicted,
        {"queries": T.assign(a=T.a.where(T.index != 3, np.inf))},
        {"write a number there": {"queries": T}},
    ),
    Remedy(
        "need --noise: an answer without noise has no limit on what it reveals. --of label draws",
        answered,
        {"options": "--of label --noise 1"},
        {
            "--of score": {"options": "--of score --noise 1"},
            "--of label draws a label instead": {"options": "--of label"},
        },
    ),
    Remedy(
        "has a category that the table lacks: a query with it has no answer. Leave such rows out.",
        answered,
        {"options": "--of score --noise 1", "table": CODES, "queries": CODES.assign(site=["west", *CODES.site[1:]])},
        {"Leave such rows out": {"queries": CODES[1:]}},
    ),
    Remedy(
        "holds whole numbers of 16 digits or more, and its other cells make it read with 15 digits.",
        ran,
        {"line": f"{RELEASE} --category code", "t": T.assign(code=[0.5, *LONG_CODES])},
        {
            "write them as text": {"t": T.assign(code=["half", *(f"c{code}" for code in LONG_CODES)])},
            "--drop code": {"line": f"{RELEASE} --drop code"},
        },
    ),
    Remedy(
        "Only columns that the model does not use show which of the two, and the model card does not name such columns",
        ran,
        {"line": RELEASE, "t": COMMAS.assign(x="1.234,5")},
        {"give --decimal": {"line": f"{RELEASE} --decimal ,"}},
    ),
    Remedy(
        "complete rows of {source} is left for training",
        ran,
        {"line": f"{HELD_OUT} 0.9", "t": T[:40].assign(y=[f"k{k // 4}" for k in range(40)])},
        {"use a smaller --held-out": {"line": f"{HELD_OUT} 0.25"}},
    ),
    Remedy(
        "`person` cannot be given here: answers are checked against single rows. Leave it out.",
        answered,
        {"options": "--of score --released m.skops", "table": WHO, "first": f"{RELEASE} --person who"},
        {"Leave it out": {"first": f"{RELEASE} --drop who"}},
    ),
    Remedy(
        "TABLE is missing: name the table that the ledger is about, or --carry-to a new ledger.",
        ran,
        {"first": f"{RELEASE} --ledger l.json", "line": "ledger l.json"},
        {"name the table that the ledger is about": {"line": "ledger l.json t.csv"}},
    ),
    Remedy(
        "The folder {folder} cannot be made: {error.strerror}. Choose another",
        ran,
        {"line": "reproduce table1 --out t.csv/there"},
        {"Choose another --out": lambda: True},
    ),
    Remedy(
        "with a value in every numeric column, and fewer have one in",
        ran,
        {"line": RELEASE, "t": T.assign(c=np.where(T.index < 8, 1.5 + T.index, np.nan))},
        {"Leave it out with --drop": {"line": f"{RELEASE} --drop c"}},
    ),
    Remedy(
        "or the name of the class reveals them. Unite it with another class in the table, or leave its rows out.",
        ran,
        {"t": CLASSES.assign(y=CLASSES.y.where(T.index > 2, "rare")), "line": f"{RELEASE} --model softmax"},
        {
            "Unite it with another class": {"t": CLASSES, "line": RELEASE},
            "leave its rows out": {"t": CLASSES[3:], "line": RELEASE},
        },
    ),
    Remedy(
        "which means something else among the bounds of a limit for any record: rename it in the table, or leave it out",
        ran,
        {"line": ANYONE.replace("a=-5:5", "label=-5:5"), "t": MANY.rename(columns={"a": "label"})},
        {
            "rename it in the table": {"line": ANYONE, "t": MANY},
            "--drop label": {"line": ANYONE.replace("--bounds a=-5:5", "--drop label")},
        },
    ),
    tampered("what no model card says there, or lacks it: it may carry other data.", change=edited(more="Ada")),
    tampered(
        "is not laid out as model cards are written: blanks, escapes or digits may carry other data.",
        change=lambda text: text + b"\n",
    ),
]
