"""What a leakage can ask of rooms that know of it: named here, loaded when called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["write_page"]

PAGE = "fisherleak.report.of_leakage"


def write_page(leakage: Any, path: Any, **options: Any) -> Any:
    """The report of a leakage as one HTML file: ``report.of_leakage.write_report``."""
    return import_module(PAGE).write_report(leakage, path, **options)
