"""What an audit takes where nothing is said; imports nothing, so that it can be shown without loading the audit."""

from __future__ import annotations

DEFAULT_L2 = 1e-2
"""Penalty per row on standardised coefficients."""
DRAWS = 100
"""Noisy copies behind each point of utility."""
DELTA = 1e-5
"""At which an epsilon is said."""
EVEN_ODDS = 0.5
"""The standard deviation of one of two values at even odds, as a part of their distance."""


PUBLIC = ("nothing", "preprocessing")
"""What the attacker is taken to know of what the table taught beside the model's parameters."""
COUNTED = {
    "nothing": "Counted end to end: what the scaling of columns learned from the data is counted with the model, and no exact "
    "centre or scale is released beside it.",
    "preprocessing": "What preprocessing learned, centres and scales of numbers, is taken as public and not counted.",
}
"""What is counted, by what attackers are taken to know."""
