"""Pictures of the terminal at 80 columns: commands are run on data that scikit-learn carries, and shown as they print."""

from __future__ import annotations

import contextlib
import html
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH = 80
COMMANDS = {
    "audit": "fisherleak audit patients.csv --target progression --l2 0.1 --out report",
    "release": "fisherleak release patients.csv --target progression --eta 1 --out model.skops",
    "verify": "fisherleak verify model.skops",
    "failed-gate": "fisherleak audit patients.csv --target progression --noise 0.5 --max-eta 0.5",
}
"""By the name of the picture; each may use what those before it wrote."""


def printed(command: str, folder: Path) -> tuple[str, int]:
    """What a command prints on a terminal, without colours, and its exit status."""
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": str(WIDTH), "LINES": "24", "TERM": "dumb", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "fisherleak", *shlex.split(command)[1:]]
    with subprocess.Popen(  # noqa: S603 - our own commands
        words, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL
    ) as process:
        os.close(theirs)
        found = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                found += part
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", found.decode("utf-8").replace("\r\n", "\n"))
    return "\n".join(line.rsplit("\r")[-1].rstrip() for line in text.split("\n")).strip("\n"), process.returncode


def picture(command: str, text: str, status: int) -> str:
    """A command and what it printed, as a block of HTML."""
    ending = f"\n$ echo $?\n{status}" if status else ""
    said = html.escape(f"$ {command}\n{text}{ending}")
    return f'<pre class="terminal" tabindex="0" role="figure" aria-label="{html.escape(command)}">{said}</pre>\n'


def patients(folder: Path) -> None:
    """The table that the commands read."""
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    table.to_csv(folder / "patients.csv", index=False)


def write_pictures(out: Path) -> None:
    """All pictures, one file each; those that are there already are made anew."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        patients(folder)
        for name, command in COMMANDS.items():
            (out / f"{name}.html").write_text(picture(command, *printed(command, folder)), encoding="utf-8")
