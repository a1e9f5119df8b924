"""From a summary to one HTML file: may import ``audit`` and the folders above it for their records; computes nothing."""

from fisherleak.report.render import render

__all__ = ["render"]
