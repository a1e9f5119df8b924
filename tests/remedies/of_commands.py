"""Refusals of the command line, with the options that they advise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RELEASE = "release t.csv --target y --drop who --over max --out m.skops"
ANYONE = "release t.csv --target y --drop who --out m.skops --l2 10 --bounds a=-5:5 --bounds b=-5:5"

AUDIT = "audit t.csv --target y --drop who --quick"
GATE = "audit texts.csv --target y --noise 5 --held-out 0 --no-attacks --draws 2"
CODES = GATE.replace("texts.csv", "codes.csv") + " --policy members.toml"
MARKS = GATE.replace("texts.csv", "marks.csv") + " --policy comma.toml --decimal ,"


@dataclass(frozen=True)
class Line:
    """A command line that is refused, and options that its sentence prints; with a value, the line that they come to."""

    says: str
    line: str
    remedies: Mapping[str, str | None]

    @property
    def words(self) -> list[str]:
        return self.line.split()


def write_tables(folder: Path) -> None:
    """A table of six hundred rows, two of each person, and the same as other programs write it."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, 600)).round(3)
    y = np.where(a + rng.normal(size=600) > 0, "yes", "no")
    rows = [f"{a[k]},{b[k]},p{k // 2},{y[k]}" for k in range(600)]
    text = "\n".join(["a,b,who,y", *rows]) + "\n"
    (folder / "t.csv").write_text(text, encoding="utf-8")
    (folder / "semicolons.csv").write_text(text.replace(",", ";"), encoding="utf-8")
    (folder / "bare.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "there.skops").write_text("", encoding="utf-8")
    texts = [f"{a[k]},{f'n/k {k}' if k < 60 else b[k]},{y[k]}" for k in range(600)]
    (folder / "texts.csv").write_text("\n".join(["a,c,y", *texts]) + "\n", encoding="utf-8")
    codes = [f"{a[k]},{'unclear' if k == 7 else ('0x1F', '0x2A')[k % 2]},{y[k]}" for k in range(600)]
    (folder / "codes.csv").write_text("\n".join(["a,c,y", *codes]) + "\n", encoding="utf-8")
    numbers = [f"{a[k]},{'$3.5' if k == 7 else k % 9 if k < 20 else b[k]},{y[k]}" for k in range(600)]
    (folder / "marks.csv").write_text("\n".join(["a,c,y", *numbers]) + "\n", encoding="utf-8")
    members = "[membership]\nmax_right = 0.99\n"
    (folder / "comma.toml").write_text(f'{members}[require]\ndecimal = ","\n', encoding="utf-8")
    (folder / "members.toml").write_text(members, encoding="utf-8")
    (folder / "number.toml").write_text(f'{members}[columns.c]\nkind = "number"\n', encoding="utf-8")


LINES = [
    Line(
        "might be taken for something else: numbers, a category, or nothing that is used.",
        f"{GATE} --policy members.toml",
        {"--drop c": f"{GATE} --policy members.toml --drop c", "--number c": f"{GATE} --policy number.toml --number c"},
    ),
    Line(
        "might be spelt differently, or not be text",
        f"{CODES} --category c",
        {"--drop c": f"{CODES} --drop c"},
    ),
    Line(
        "might be read as other numbers, or as none",
        f"{MARKS} --number c",
        {"--drop c": f"{MARKS} --drop c"},
    ),
    Line(
        "A release needs either `eta` or `noise`",
        RELEASE,
        {"--eta": f"{RELEASE} --eta 1", "--noise": f"{RELEASE} --noise 1"},
    ),
    Line(
        "`limit` is on all releases that a ledger records",
        f"{RELEASE} --noise 1 --limit 9",
        {
            "give --ledger too": f"{RELEASE} --noise 9 --limit 99 --ledger ledger.json",
        },
    ),
    Line(
        "`shape` goes with a limit `eta`",
        f"{RELEASE} --noise 1 --shape hessian",
        {"goes with a limit --eta": f"{RELEASE} --eta 1 --shape hessian"},
    ),
    Line(
        "exists: choose another file, or allow it with `overwrite=True`.",
        f"{RELEASE.replace('m.skops', 'there.skops')} --noise 1",
        {"--overwrite": None, "choose another file": f"{RELEASE} --noise 1"},
    ),
    Line(
        "with `eta` needs `rows_per_person` too",
        "release t.csv --target y --person who --eta 5 --l2 10 --bounds a=-5:5 --bounds b=-5:5 --out m.skops",
        {
            "--rows-per-person": "release t.csv --target y --person who --eta 5 --l2 10 --bounds a=-5:5 --bounds b=-5:5 "
            "--out m.skops --rows-per-person 2",
            "--over max": None,
        },
    ),
    Line(
        "`attribute` goes with a limit `eta`: leave `attribute` out",
        f"{RELEASE} --noise 1 --attribute a",
        {"leave --attribute out": None, "give --eta": f"{RELEASE} --eta 1 --attribute a"},
    ),
    Line(
        "`balance` cannot be given with `over='any-record'`",
        f"{ANYONE} --eta 5 --balance",
        {"--over max": f"{RELEASE} --eta 5 --balance", "leave --balance out": None},
    ),
    Line(
        "--target is missing",
        "release t.csv --noise 1 --drop who --out m.skops --over max",
        {
            "name the column that the model predicts": f"{RELEASE} --noise 1",
        },
    ),
    Line(
        "use `delimiter={best}`",
        f"{RELEASE.replace('t.csv', 'semicolons.csv')} --noise 1 --delimiter ,",
        {"--delimiter ';'": f"{RELEASE.replace('t.csv', 'semicolons.csv')} --noise 1 --delimiter ;"},
    ),
    Line(
        "needs a noise to test: add --noise SIGMA",
        "audit t.csv --target y --drop who --max-eta 9 --quick --held-out 0",
        {"--noise": "audit t.csv --target y --drop who --max-eta 9 --quick --held-out 0 --noise 5"},
    ),
    Line(
        "seems to have no header: its first line reads like a row.",
        f"{RELEASE.replace('t.csv', 'bare.csv')} --noise 1",
        {"--columns": f"{RELEASE.replace('t.csv', 'bare.csv')} --noise 1 --columns a,b,who,y"},
    ),
    Line(
        "'{}' does not exist: check the name, or use - for standard input.",
        f"{RELEASE.replace('t.csv', 'T.csv.txt')} --noise 1",
        {"check the name": f"{RELEASE} --noise 1"},
    ),
    Line(
        "A board page needs a noise scale that you choose",
        f"{AUDIT} --board board.html",
        {"--noise": f"{AUDIT} --board board.html --noise 5"},
    ),
]
