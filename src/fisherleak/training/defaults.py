"""What an audit takes where nothing is said; imports nothing, so that it can be shown without loading the audit."""

from __future__ import annotations

DEFAULT_L2 = 1e-2
"""Penalty per row on standardised coefficients."""
DRAWS = 100
"""Noisy copies behind each point of utility."""
EVEN_ODDS = 0.5
"""The standard deviation of one of two values at even odds, as a part of their distance."""
