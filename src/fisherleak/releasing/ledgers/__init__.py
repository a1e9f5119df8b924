"""Releases of tables on ledgers; may import what ``releasing`` may."""
