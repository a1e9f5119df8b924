"""The only reader of fitted scikit-learn objects: may import ``engine`` and folders above; measures nothing, reads no files.

Only public attributes of scikit-learn are used. ``estimators`` knows the linear models, ``steps.transformers`` the transformers
and ``steps.flow`` what they do to columns, ``frames`` the tables; ``preprocessed`` walks rows through them, ``read`` puts all
together.
"""

from fisherleak.models.frames import Table, as_table
from fisherleak.models.preprocessed import Queried, checked_model, final_estimator
from fisherleak.models.read import Reading, read

__all__ = ["Queried", "Reading", "Table", "as_table", "checked_model", "final_estimator", "read"]
