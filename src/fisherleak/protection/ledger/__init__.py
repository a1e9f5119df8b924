"""Ledgers: what all releases about a table told so far; may import what ``protection`` may."""
