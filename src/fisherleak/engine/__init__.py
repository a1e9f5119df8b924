"""The mathematics: losses, risk, minimiser, Jacobian, noise and norms, on arrays.

May import ``_support`` and ``rows``; knows nothing of scikit-learn, files or prose for people.
"""
