"""Minimisers without a row, or without a set of rows, of one output or of several. May import fits and the Jacobian."""
