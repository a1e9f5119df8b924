"""The report: a plain dictionary of what was measured, and the one HTML file made from it."""

from fisherleak.report.render import render

__all__ = ["render"]
