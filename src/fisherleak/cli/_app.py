"""The parser and its commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand

from fisherleak import __version__
from fisherleak._support.atomic import NO_KEY, NO_LEDGER, NO_MODEL, NO_POLICY, NO_TABLE, refuse_missing
from fisherleak.cli._common import emit, interruptible
from fisherleak.cli._help import ALL, EVERY, IN_A_LINE, first_words, write_options
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
