"""Minimisers of data in which one row is replaced, for many rows at once. May import what ``engine`` may, but its norms."""
