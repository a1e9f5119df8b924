"""From a limit to a release that keeps it: calibrated noise, perturbed models, weights that level leakage, rows left out.

May import ``leakage`` and what is above it; reads no files and writes none.
"""
