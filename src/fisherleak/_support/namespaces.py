"""The array API standard as types: what may be asked of an array library.

An array itself is ``Any``: what users get back is an array of their own library, with that library's methods. Its
functions are listed here, so that a type checker refuses one that is not of the standard, which not every library has.
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
    outer: Function
    pinv: Function
    qr: Function
    slogdet: Function
    solve: Function
    svd: Function
    svdvals: Function
    trace: Function
    vector_norm: Function


class Namespace(Protocol):
    """An array library: its types and functions."""

    e: float
    inf: float
    nan: float
    pi: float
    linalg: LinearAlgebra

    bool: Any
    complex64: Any
    complex128: Any
    float32: Any
    float64: Any
    int8: Any
    int16: Any
    int32: Any
    int64: Any
    uint8: Any
    uint16: Any
    uint32: Any
    uint64: Any

    abs: Function
    acos: Function
    acosh: Function
    all: Function
    any: Function
    arange: Function
    argmax: Function
    argmin: Function
    argsort: Function
    asarray: Function
    asin: Function
    asinh: Function
    astype: Function
    atan: Function
    atan2: Function
    atanh: Function
    broadcast_arrays: Function
    broadcast_to: Function
    can_cast: Function
    ceil: Function
    clip: Function
    concat: Function
    cos: Function
    cosh: Function
    cumulative_sum: Function
    empty: Function
    empty_like: Function
    exp: Function
    expand_dims: Function
    expm1: Function
    eye: Function
    finfo: Function
    flip: Function
    floor: Function
    full: Function
    full_like: Function
    hypot: Function
    iinfo: Function
    isdtype: Function
    isfinite: Function
    isinf: Function
    isnan: Function
    linspace: Function
    log: Function
    log10: Function
    log1p: Function
    log2: Function
    logaddexp: Function
    logical_and: Function
    logical_not: Function
    logical_or: Function
    logical_xor: Function
    matmul: Function
    matrix_transpose: Function
    max: Function
    maximum: Function
    mean: Function
    meshgrid: Function
    min: Function
    minimum: Function
    moveaxis: Function
    negative: Function
    nonzero: Function
    ones: Function
    ones_like: Function
    permute_dims: Function
    pow: Function
    prod: Function
    repeat: Function
    reshape: Function
    result_type: Function
    roll: Function
    round: Function
    searchsorted: Function
    sign: Function
    signbit: Function
    sin: Function
    sinh: Function
    sort: Function
    sqrt: Function
    square: Function
    squeeze: Function
    stack: Function
    std: Function
    sum: Function
    take: Function
    tan: Function
    tanh: Function
    tensordot: Function
    tile: Function
    tril: Function
    triu: Function
    trunc: Function
    unique_all: Function
    unique_counts: Function
    unique_inverse: Function
    unique_values: Function
    unstack: Function
    var: Function
    vecdot: Function
    where: Function
    zeros: Function
    zeros_like: Function
