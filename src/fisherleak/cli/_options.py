"""Options that several commands have, each with its help and its completion.

Help and completion load this module and the commands: they load the rest of the library when they run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from fisherleak.cli._complete import MARKS, MODELS, OVER, PUBLIC, SHAPES, WAYS, columns, columns_to_set, offered
from fisherleak.training.defaults import DEFAULT_L2

column = functools.partial(typer.Option, metavar="COLUMN", autocompletion=columns)
"""An option that takes a column of the table."""
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="COLUMN=LOW:HIGH",
        autocompletion=columns_to_set,
        help="Least and largest possible value of a column. Its scale and centre then follow from these, and no row changes "
        "them. Without bounds they come from the rows. Repeatable.",
    ),
]
Over = Annotated[
    str,
    typer.Option(
        "--over",
        metavar="WHOSE",
        autocompletion=offered(OVER),
        help="Whose etas a release limits: any-record (any record within the bounds), or max (the rows that are there; the "
        "noise scale then reveals a little about one of them).",
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="SHAPE",
        autocompletion=offered(SHAPES),
        help="Covariance of the noise: isotropic (the same on all coefficients), hessian (costs less), or least-loss (costs "
        "least, reveals more by itself). By default the limit, the bounds and the number of rows decide.",
    ),
]
RowsPerPerson = Annotated[
    int | None,
    typer.Option(
        "--rows-per-person",
        metavar="N",
        min=1,
        help="With --person and --eta: how many rows a person may have. The limit is on all of them together.",
    ),
]
Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="CSV or Parquet file, in gzip or not; - is standard input.")
]
Target = Annotated[str | None, column("--target", help="The column that the model predicts.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="KIND",
        autocompletion=offered(MODELS),
        help="auto (default), linear, logistic, softmax, poisson or gamma.",
    ),
]
L2 = Annotated[
    float | None,
    typer.Option("--l2", metavar="X", help=f"Penalty per row on standardised coefficients (default {DEFAULT_L2:g})."),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        metavar="WHAT",
        autocompletion=offered(PUBLIC),
        help="What attackers know beside the release: nothing (default: what scaling learned is counted too), or "
        "preprocessing (the paper's assumption).",
    ),
]
Numbers = Annotated[list[str] | None, column("--number", help="Take this column as a number. Repeatable.")]
Categories = Annotated[list[str] | None, column("--category", help="Take this column as a category. Repeatable.")]
Drop = Annotated[list[str] | None, column("--drop", help="Leave this column out. Repeatable.")]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        metavar="MARK",
        autocompletion=offered(MARKS),
        help="Decimal mark of numbers written as text: . or , (by default found for each column).",
    ),
]
Na = Annotated[
    list[str] | None,
    typer.Option("--na", metavar="TEXT", help="Take this text or number as missing, in every column. Repeatable."),
]
Unite = Annotated[
    list[str] | None,
    column("--unite", help="Take texts of this column as the same if only case or blanks differ. Repeatable."),
]
KeepTotal = Annotated[bool, typer.Option("--keep-total", help="Keep a last row that looks like a total of the others.")]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--levels",
        metavar="COLUMN=a,b,c",
        autocompletion=columns_to_set,
        help="Public categories of a column, also those that no row has. A release pools others with fewer than 5 rows "
        "into '(other)'. Repeatable.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="WAY",
        autocompletion=offered(WAYS),
        help="Missing cells: impute (default: filled inside the model, and counted), or drop (rows with a missing cell).",
    ),
]
Id = Annotated[str | None, column("--id", help="Name rows by this column.")]
Person = Annotated[
    str | None,
    column("--person", help="Rows with the same value here belong to one person: people are measured, not rows."),
]
Group = Annotated[str | None, column("--group", help="Measure these groups of rows jointly.")]
HeldOut = Annotated[
    float | None, typer.Option("--held-out", metavar="SHARE", help="Share of rows kept from training, 0 to 0.9.")
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", help="Seed of the split and of simulations (default 0), never of a release's noise."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHAR", help="Delimiter of CSV fields; by default found from the header."),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", metavar="NAME", help="Encoding of CSV files (default utf-8).")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file names the columns. Required if that line reads like a row.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAMES|FILE",
        help="Names of the columns of a CSV file without a header, with commas between them, or a file that holds them.",
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        "--sheet",
        metavar="NAME|N",
        help="The sheet of a workbook, or the data frame of a file of R, by its name or counted from 1 (default: the first).",
    ),
]
Released = Annotated[
    Path | None,
    typer.Option("--released", metavar="MODEL", help="A model saved by 'fisherleak release'; TABLE is its table."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Work on a Dask cluster, without attacks: tcp://HOST:PORT, local or local:WORKERS.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Read tables that need more memory than SIZE, such as 4GB, part by part, without attacks (default: 60 % of what "
        "is free). With --cluster local: the memory that its workers share.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Attack fewer rows in fewer simulated releases, without attackers that learn.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Print every table and assumption.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Debug = Annotated[bool, typer.Option("--debug", help="On errors, show the traceback too.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]


# Options that commands have together


Form = Annotated[
    dict[str, Any],
    {
        "delimiter": (Delimiter, None),
        "encoding": (Encoding, None),
        "header": (Header, None),
        "columns": (Columns, None),
        "sheet": (Sheet, None),
    },
]
"""How a file is written, as ``source_table`` takes it."""
Reading = Annotated[
    dict[str, Any],
    {
        "number": (Numbers, None),
        "category": (Categories, None),
        "drop": (Drop, None),
        "decimal": (Decimal, None),
        "na": (Na, None),
        "unite": (Unite, None),
        "keep_total": (KeepTotal, False),
    },
]
"""How columns are read, as ``settings_from`` takes it."""


def expand_option_groups(command: Callable[..., int]) -> Callable[..., int]:
    """A command as the parser sees it: each parameter that stands for several options is all of them, in its place."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, list[str]] = {}
    seen: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        marked = getattr(hints[name], "__metadata__", ())
        together = next((each for each in marked if isinstance(each, dict)), None)
        if together is None:
            seen.append(parameter.replace(annotation=hints[name]))
            continue
        groups[name] = list(together)
        seen += [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option, (kind, default) in together.items()
        ]

    @functools.wraps(command)
    def one_by_one(*args: Any, **given: Any) -> int:
        for name, options in groups.items():
            given[name] = {option: given.pop(option) for option in options}
        return command(*args, **given)

    vars(one_by_one)["__signature__"] = inspect.Signature(seen, return_annotation=int)
    one_by_one.__annotations__ = {each.name: each.annotation for each in seen} | {"return": int}
    return one_by_one
