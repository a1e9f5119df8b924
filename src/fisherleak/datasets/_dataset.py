"""What every loader returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

__all__ = ["Dataset"]


@dataclass(frozen=True, repr=False)
class Dataset:
    """A data set with its training and test part.

    Attributes
    ----------
    name : str
    X, X_test : images of shape (n, height, width[, channels]), or pandas tables
    y, y_test : array of shape (n,)
    names : list of str
        Columns of a table, or the classes of images.
    """

    name: str
    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    names: list[str]
    _preprocessing: Any

    @property
    def preprocessing(self) -> Any:
        """The paper's preprocessing, as a scikit-learn transformer that is not fitted yet."""
        return clone(self._preprocessing)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {len(self.y)} training and {len(self.y_test)} test examples)"
