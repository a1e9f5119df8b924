"""Reads fitted scikit-learn models and the tables they were given into a fit and a perturbation map.

Only public attributes of scikit-learn are used. ``estimators`` knows the linear models, ``transformers`` the transformers
and ``flow`` what they do to columns, ``frames`` the tables; ``read`` puts them together.
"""

from fisherleak.models.frames import Table, as_table
from fisherleak.models.read import Reading, checked_model, final_estimator, read

__all__ = ["Reading", "Table", "as_table", "checked_model", "final_estimator", "read"]
