"""The parser and its commands, and their help: options in groups, those that most people need; ``--help-all`` shows all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand

from fisherleak import __version__
from fisherleak._support.atomic import NO_KEY, NO_LEDGER, NO_MODEL, NO_POLICY, NO_TABLE, refuse_missing
from fisherleak.cli._common import emit, interruptible
from fisherleak.cli._options import Debug
from fisherleak.cli.commands.answers import answers
from fisherleak.cli.commands.attack import attack
from fisherleak.cli.commands.audit import audit
from fisherleak.cli.commands.ledger import ledger
from fisherleak.cli.commands.predict import predict
from fisherleak.cli.commands.release import release
from fisherleak.cli.commands.reproduce import reproduce
from fisherleak.cli.commands.verify import verify
from fisherleak.errors import InvalidInputError

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


PATTERN = set("*?[")
COMMANDS: list[Callable[..., int]] = [audit, release, predict, verify, answers, ledger, attack, reproduce]

app = typer.Typer(
    name="fisherleak",
    help="Measure, limit and equalise what a trained model reveals about the people in its training data.",
    epilog="Exit status: 0 fine; 1 a limit given with --max-eta, --policy or --limit is exceeded, or a released model is "
    "not what its model card says; 2 bad usage or bad input.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _check_there(command: str | None, given: Mapping[str, Any]) -> None:
    """Refuse files that are not there before anything heavy is loaded; of patterns and folders, those who read them do."""
    if command == ledger.__name__:
        refuse_missing(given["file"], NO_LEDGER)
    needless = given.get("carry_to") is not None  # a table beside it is refused for another reason
    for name in () if needless else ("table", "queries", "shape_from"):
        if given.get(name) not in (None, "-") and not PATTERN & set(given[name]):
            refuse_missing(given[name], NO_TABLE)
    model = given.get("released") or (given["model"] if command in (verify.__name__, predict.__name__) else None)
    if model is not None:
        refuse_missing(model, NO_MODEL)
    kept = NO_LEDGER if command == verify.__name__ else None  # a release begins one
    for name, sentence in {"policy": NO_POLICY, "key": NO_KEY, "sign": NO_KEY, "ledger": kept}.items():
        if sentence is not None and given.get(name) is not None:
            refuse_missing(given[name], sentence)


class OnceCommand(TyperCommand):
    """A command whose options take one value each, but for those that are lists; flags may be repeated."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Count what was given, then parse."""
        if ALL in args and not ctx.resilient_parsing:
            ctx.meta[EVERY] = True
            args = ["--help"]
        if not ctx.resilient_parsing:  # not while a line is completed
            _, _, given = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(map(id, given)).items():
                self._check(next(each for each in given if id(each) == option), count)
        left = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            _check_there(self.name, ctx.params)
        return left

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """All of it where all was asked for."""
        whole, every = self.help, ctx.meta.get(EVERY)
        self.help = whole if every or whole is None else first_words(whole)
        super().format_help_text(ctx, formatter)
        self.help = whole

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """In groups."""
        write_options(self, ctx, formatter)

    @staticmethod
    def _check(option: Any, count: int) -> None:
        single = option.param_type_name == "option" and not (option.multiple or option.is_flag or option.count)
        if single and count > 1:
            raise InvalidInputError(f"{option.opts[0]} is given {count} times, and takes one value: give it once.")


def _version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:  # not while a line is completed
        emit(f"fisherleak {__version__}")
        raise typer.Exit(0)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    debug: Debug = False,
) -> None:
    pass


for _command in COMMANDS:
    app.command(_command.__name__, cls=OnceCommand, short_help=IN_A_LINE[_command.__name__])(interruptible(_command))


@cache
def parser() -> Any:
    """The parser that is built from ``app``."""
    return typer.main.get_command(app)
