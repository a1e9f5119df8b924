"""From a summary to one HTML file: may import ``auditing``, ``releasing``, ``training`` and ``tables``; computes nothing."""

from fisherleak.report.render import render

__all__ = ["render"]
