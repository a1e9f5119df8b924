"""The command line, ``fisherleak audit | release | …``: may import every folder but ``nn``; nobody imports it.

Commands parse, call the library, and print. Adding one is adding a file here and a line to ``COMMANDS``. Nothing is loaded
before ``main`` runs, so that whoever interrupts it sees one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fisherleak._support.lazy import lazily
from fisherleak.cli._interrupts import INTERRUPTED, heeding_interrupts

if TYPE_CHECKING:
    from fisherleak.cli._app import COMMANDS as COMMANDS
    from fisherleak.cli._app import app as app

__all__ = ["COMMANDS", "app", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and give back its exit status; the entry point of ``fisherleak``."""
    try:
        with heeding_interrupts():
            return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before the commands' own refusals are there, or after
        print(f"fisherleak: {INTERRUPTED}", file=sys.stderr)
        return 2


def _run(given: list[str]) -> int:
    from fisherleak.cli._common import status_of

    def parsed() -> object:
        from fisherleak.cli._app import parser

        return parser().main(args=given or ["--help"], prog_name="fisherleak", standalone_mode=False, obj=given)

    return status_of(parsed, debug="--debug" in given)


__getattr__, __dir__ = lazily(__name__, {"fisherleak.cli._app": ("COMMANDS", "app")})
