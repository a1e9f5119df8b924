"""From a summary to one HTML file: may import ``audit`` and the rooms above it for their records; computes nothing."""

from fisherleak.report.render import render

__all__ = ["render"]
