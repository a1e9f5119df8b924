"""The array API standard as types: what is asked of an array library.

An array itself is ``Any``: what users get back is an array of their own library, with that library's methods. The
functions that are asked for are listed here, so that a type checker refuses one that is not of the standard, which not every
library has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Array = Any
"""An array of any library that follows the array API standard."""
TableLike = Any
"""Rows and columns as users have them: an array of any library, a list of rows, or a table of pandas, polars or Dask."""
VectorLike = Any
"""One value for each row: an array of any library, a list, or a column of a table."""
Estimator = Any
"""A model or transformer of scikit-learn, which has no types: fitted or not, alone or as a pipeline."""
Seed: TypeAlias = "int | np.random.Generator | None"
"""Where randomness comes from: None is the operating system."""
Vector: TypeAlias = "NDArray[np.float64]"
"""Numbers on the host: of one dimension, or of as many as the place says."""
Sums = tuple[Any, ...]
"""Small arrays that a block of rows adds to a sum, in an order of their own."""
Json = dict[str, Any]
"""A record of JSON types."""
Function = Callable[..., Any]


class LinearAlgebra(Protocol):
    """The extension ``linalg``."""

    cholesky: Function
    det: Function
    diagonal: Function
    eigh: Function
    eigvalsh: Function
    inv: Function
    matrix_norm: Function
    matrix_rank: Function
    pinv: Function
    qr: Function
    slogdet: Function
    solve: Function
    svd: Function
    vector_norm: Function


class Namespace(Protocol):
    """An array library: its types and functions."""

    inf: float
    linalg: LinearAlgebra

    bool: Any
    float32: Any
    float64: Any
    int64: Any

    abs: Function
    all: Function
    any: Function
    arange: Function
    argmax: Function
    argmin: Function
    argsort: Function
    asarray: Function
    astype: Function
    atan: Function
    broadcast_arrays: Function
    broadcast_to: Function
    clip: Function
    concat: Function
    cumulative_sum: Function
    empty: Function
    exp: Function
    expm1: Function
    eye: Function
    full_like: Function
    hypot: Function
    isdtype: Function
    isfinite: Function
    isnan: Function
    log: Function
    log1p: Function
    matmul: Function
    matrix_transpose: Function
    max: Function
    maximum: Function
    mean: Function
    min: Function
    minimum: Function
    nonzero: Function
    ones: Function
    ones_like: Function
    permute_dims: Function
    reshape: Function
    searchsorted: Function
    sign: Function
    sort: Function
    sqrt: Function
    stack: Function
    sum: Function
    take: Function
    tanh: Function
    tile: Function
    unique_counts: Function
    unique_values: Function
    vecdot: Function
    where: Function
    zeros: Function
    zeros_like: Function
