"""``fisherleak reproduce``: the paper, side by side with its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fisherleak.cli import _common as common
from fisherleak.cli import _options as flags
from fisherleak.cli._complete import items as known_items
from fisherleak.errors import FisherleakError
from fisherleak.reproduce import NAMES


def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ITEM]...", autocompletion=known_items, help=f"all (default), {', '.join(NAMES)}."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="The four data sets; downloaded if neither here nor in FISHERLEAK_DATA."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets figures, numbers and RESULTS.md.")] = Path(
        "reproduced"
    ),
    again: Annotated[bool, typer.Option("--again", help="Compute items again that are finished there.")] = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> int:
    """Compute the paper's tables, figures and statements, and set them beside the published ones.

    \b
    Examples:
      fisherleak reproduce
      fisherleak reproduce table1 figure6 --data-dir data --out results
    """
    from fisherleak.reproduce import reproduce as make

    with common.quietly(quiet, False):
        try:
            page = make(tuple(items or ("all",)), data_dir, out, again, say=_nothing if quiet else common.emit)
        except KeyboardInterrupt:
            raise FisherleakError(
                f"interrupted; what is finished is kept in '{out}', and the next run goes on."
            ) from None
    if not quiet:
        common.emit(f"The page to open: {page}")
    return 0


def _nothing(line: str) -> None:
    pass
