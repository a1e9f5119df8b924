"""Compiled loops for norms, where they earn their place; may import ``_support`` and numba."""
