"""The paper's preprocessing of images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

__all__ = ["image_pipeline"]


def unit_ball(images: Any) -> NDArray[np.float64]:
    """Pixels in [0, 1], flattened, divided by the largest norm among the images given."""
    flat = np.asarray(images).reshape(len(images), -1) / 255.0
    return np.asarray(flat / np.linalg.norm(flat, axis=1).max())


def image_pipeline() -> Any:
    """Each part divided by its own largest norm, then the twenty leading principal components of the training part."""
    # Lanczos iterations to rounding: the seed decides signs only
    return make_pipeline(FunctionTransformer(unit_ball), PCA(20, svd_solver="arpack", random_state=0))
