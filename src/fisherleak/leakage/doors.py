"""What a leakage can ask of rooms that know of it: named here, loaded when called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["noise_made_anew", "write_page"]

PAGE, ANEW = "fisherleak.report.of_leakage", "fisherleak.protection.calibrate.remade_noise"


def write_page(leakage: Any, path: Any, **options: Any) -> Any:
    """The report of a leakage as one HTML file: ``report.of_leakage.write_report``."""
    return import_module(PAGE).write_report(leakage, path, **options)


def noise_made_anew(jacobian: Any, noise: Any, count: int) -> Any:
    """Noise that was calibrated on rows, as it is made anew without some: ``protection.made_anew.made_anew``."""
    return import_module(ANEW).made_anew(jacobian, noise, count)
