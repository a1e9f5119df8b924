"""The command line: ``fisherleak audit | release | attack | reproduce``.

Commands parse, call the library, and print. Adding one is adding a file here and a line to ``COMMANDS``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from fisherleak import __version__
from fisherleak.cli._common import emit, interruptible, status_of
from fisherleak.cli.attack import attack
from fisherleak.cli.audit import audit
from fisherleak.cli.release import release
from fisherleak.cli.reproduce import reproduce

__all__ = ["COMMANDS", "app", "main"]

COMMANDS: list[Callable[..., int]] = [audit, release, attack, reproduce]

app = typer.Typer(
    name="fisherleak",
    help="Measure, limit and equalise what a trained model reveals about the people in its training data.",
    epilog="Exit status: 0 fine; 1 the limit given with --max-eta is exceeded; 2 bad usage or bad input.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        emit(f"fisherleak {__version__}")
        raise typer.Exit(0)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


for _command in COMMANDS:
    app.command(_command.__name__)(interruptible(_command))


@cache
def _built() -> Any:
    return typer.main.get_command(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and give back its exit status; the entry point of ``fisherleak``."""
    given = list(sys.argv[1:] if argv is None else argv)
    return status_of(
        lambda: _built().main(args=given or ["--help"], prog_name="fisherleak", standalone_mode=False, obj=given)
    )
