"""Means of eta squared over what is believed about a value beforehand. May import what ``engine`` may, but its norms."""
