"""The help of a command: options in groups, those that most people need, on one screen; ``--help-all`` shows all, in full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

ALL = "--help-all"
EVERY = "fisherleak.help-all"
"""Under this name a parser's context keeps that all was asked for."""
GROUPS = {
    "Model": ("--target", "--model", "--l2", "--attribute", "--group", "--id", "--person", "--rows-per-person"),
    "Noise and limits": (
        *("--noise", "--eta", "--over", "--shape", "--shape-from", "--max-eta", "--policy", "--ledger", "--limit"),
        *("--bounds", "--levels", "--spread", "--of", "--public", "--balance", "--carry-to", "--key"),
    ),
    "Output": (
        *("--out", "--board", "--overwrite", "--sign", "--released", "--show-values", "--data-dir", "--again"),
        *("--verbose", "--quiet", "--json", "--debug", "--help"),
    ),
    "Reading the table": (
        *("--number", "--category", "--drop", "--decimal", "--na", "--unite", "--keep-total", "--missing"),
        *("--delimiter", "--encoding", "--header", "--columns", "--sheet", "--cluster", "--memory"),
    ),
    "Utility and attacks": ("--metric", "--draws", "--held-out", "--seed", "--no-attacks", "--quick"),
}
"""Titles and the options under them, in order."""
NEEDED = {
    *("--target", "--attribute", "--person", "--noise", "--eta", "--policy", "--bounds", "--ledger", "--limit"),
    *("--key", "--out", "--board", "--released", "--again", "--verbose", "--help"),
}
"""Those that ``--help`` shows."""
OTHER = "Other"
IN_A_LINE = {
    "audit": "Measure what a model reveals, and what noise costs.",
    "release": "Train a model, add noise, save it with its model card.",
    "predict": "Predict the rows of a table with a released model.",
    "verify": "Check a released model against its model card.",
    "answers": "Measure what the answers to a log of queries reveal.",
    "ledger": "Print the eta of every row over all recorded releases.",
    "attack": "Print how often each attacker is correct.",
    "reproduce": "Compute the paper's results beside the published ones.",
}
"""Each command, as the list of commands shows it: whole at 80 columns."""


def first_words(said: str) -> str:
    """Of the help of a command, its first paragraph and its first example."""
    first, _, rest = said.partition("\n\n")
    example = re.search(r"Examples:\n\s*(.+)", rest)
    return f"{first}\n\n\b\nExample: {example[1]}" if example else first


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """Arguments, then options by group: their first sentence, or with ``--help-all`` all of their help."""
    parameters = command.get_params(context)
    arguments = [each.get_help_record(context) for each in parameters if each.param_type_name == "argument"]
    options = [each for each in parameters if each.param_type_name == "option" and each.get_help_record(context)]
    every = bool(context.meta.get(EVERY))
    shown = [each for each in options if every or NEEDED & set(each.opts)]
    _section(formatter, "Arguments", [record for record in arguments if record and every])
    for title, group in _grouped(shown):
        records = [_record(each, context, every) for each in group]
        if not every and title == "Output":
            records.append((ALL, f"Show all {len(options)} options, arguments and examples."))
        _section(formatter, title, records)


def _grouped(options: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """In the order of the table; what stands in no group is last."""
    named = {name: title for title, names in GROUPS.items() for name in names}
    places = {name: place for place, name in enumerate(named)}

    def name_of(option: Any) -> str:
        return next((name for name in option.opts if name in named), "")

    for title in (*GROUPS, OTHER):
        own = [each for each in options if named.get(name_of(each), OTHER) == title]
        yield title, sorted(own, key=lambda each: places.get(name_of(each), 0))


def _record(option: Any, context: Any, every: bool) -> tuple[str, str]:
    """An option with its help, or with the first sentence of it."""
    name, said = option.get_help_record(context)
    return name, said if every else re.split(r"(?<=.{20})(?:(?<=[.;])\s|\s\(|:\s)", said, maxsplit=1)[0].rstrip(
        ".;"
    ) + "."


def _section(formatter: Any, title: str, records: list[tuple[str, str]]) -> None:
    if records:
        with formatter.section(title):
            formatter.write_dl(records)
