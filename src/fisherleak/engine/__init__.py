"""The mathematics, on arrays: may import ``_support`` and ``rows``; no scikit-learn, no files, no prose for people.

Losses, risk, minimiser, Jacobian, noise, norms, and what a release tells as a value (``information``).
"""
