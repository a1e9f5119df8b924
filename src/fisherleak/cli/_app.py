"""The parser and its commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from fisherleak import __version__
from fisherleak.cli._common import emit, interruptible
from fisherleak.cli._flags import Debug
from fisherleak.cli._once import OnceCommand
from fisherleak.cli.commands.answers import answers
from fisherleak.cli.commands.attack import attack
from fisherleak.cli.commands.audit import audit
from fisherleak.cli.commands.ledger import ledger
from fisherleak.cli.commands.release import release
from fisherleak.cli.commands.reproduce import reproduce
from fisherleak.cli.commands.verify import verify

__all__ = ["COMMANDS", "app", "parser"]

COMMANDS: list[Callable[..., int]] = [audit, release, answers, ledger, verify, attack, reproduce]

app = typer.Typer(
    name="fisherleak",
    help="Measure, limit and equalise what a trained model reveals about the people in its training data.",
    epilog="Exit status: 0 fine; 1 a limit given with --max-eta, --policy or --limit is exceeded, or a released model is "
    "not what its card says; 2 bad usage or bad input.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    app.command(_command.__name__, cls=OnceCommand)(interruptible(_command))


@cache
def parser() -> Any:
    """The parser that is built from ``app``."""
    return typer.main.get_command(app)
