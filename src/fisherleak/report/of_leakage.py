"""The report of a leakage that was measured from Python, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fisherleak._support.atomic import check_file_place, written_whole
from fisherleak.auditing.measured_leakage import summary_of_leakage
from fisherleak.report.render import render

__all__ = ["write_report"]


def write_report(leakage: Any, path: Any, overwrite: bool = False, **options: Any) -> Path:
    """Written whole or not at all; options are those of ``summary_of_leakage``."""
    place = Path(path)
    check_file_place(place, overwrite)
    text = render(summary_of_leakage(leakage, **options))
    with written_whole(place.parent, [place.name]) as folder:
        (folder / place.name).write_text(text, encoding="utf-8", errors="replace")
    return place
