"""From a limit to a release that keeps it: may import ``leakage`` and the folders above it; reads no files and writes none.

Calibrated noise, perturbed models, weights that level leakage, rows left out.
"""
