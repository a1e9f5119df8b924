"""The only file that looks at array namespaces.

Everything else computes with the functions of the array API standard on whatever ``namespace``
returns, so NumPy, array-api-strict and torch arrays take one path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat
import numpy as np
from scipy.linalg import get_lapack_funcs

from fisherleak.errors import InvalidInputError

__all__ = ["Array", "as_array", "as_real", "cholesky_inverse", "device", "host", "is_numpy", "like", "namespace"]

Array = Any
"""An array of any library that follows the array API standard."""


def namespace(*arrays: Any) -> Any:
    """The one array namespace that the given arrays share (``None`` is passed over)."""
    return array_api_compat.array_namespace(*(x for x in arrays if x is not None))


def device(x: Array) -> Any:
    return array_api_compat.device(x)


def is_numpy(x: Array) -> bool:
    return bool(array_api_compat.is_numpy_array(x))


def as_array(x: Any, name: str, columns: Sequence[str] | None = None) -> Array:
    """Give back an array as it is and turn sequences and tables into NumPy; refuse what has no numbers."""
    if hasattr(x, "toarray"):
        raise InvalidInputError(
            f"{name} is a sparse {type(x).__name__}, which is not supported; pass {name}.toarray() if it fits."
        )
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidInputError(f"{name} is a masked array, which is not supported; drop the masked rows first.")
    if array_api_compat.is_torch_array(x):
        return x.detach()
    if isinstance(x, np.ndarray) or not array_api_compat.is_array_api_obj(x):
        try:
            x = np.asarray(x)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{name} must be a numeric array; got {type(x).__name__} ({error}).") from None
        if x.dtype == object:
            x = _from_objects(x, name, columns)
    if is_numpy(x) and x.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"{name} must hold numbers; got dtype {x.dtype}. Encode text and dates as numbers first."
        )
    return x


def _from_objects(x: np.ndarray, name: str, columns: Sequence[str] | None) -> np.ndarray:
    try:
        return x.astype(np.float64)
    except (TypeError, ValueError):
        where = _first_text(x, columns)
        raise InvalidInputError(
            f"{name} must hold numbers; {where} does not. Encode text and dates as numbers first."
        ) from None


def _first_text(x: np.ndarray, columns: Sequence[str] | None) -> str:
    for position in np.ndindex(*x.shape[::-1]):  # column by column
        value = x[position[::-1]]
        try:
            float(value)
        except (TypeError, ValueError):
            shown = position[0] if columns is None else f"'{columns[position[0]]}'"
            return f"{str(value)[:40]!r} in row {position[-1]}" + (f", column {shown}," if x.ndim == 2 else "")
    return "it"


def as_real(x: Array, xp: Any) -> Array:
    """The same values in float64; no copy where they are already."""
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def like(x: Any, reference: Array, xp: Any) -> Array:
    """A NumPy array or a list as a float64 (or integer) array beside ``reference``."""
    values = np.asarray(x)
    dtype = xp.int64 if values.dtype.kind in "iu" else xp.float64
    return xp.asarray(values, dtype=dtype, device=device(reference))


def host(x: Array) -> np.ndarray:
    """A NumPy copy (or view) of a small array."""
    if array_api_compat.is_torch_array(x):
        return np.asarray(x.detach().cpu().numpy())
    if array_api_compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else np.from_dlpack(x)


def cholesky_inverse(matrix: Array, xp: Any) -> Array | None:
    """The inverse of a symmetric positive definite matrix, or ``None`` where it is not one."""
    if is_numpy(matrix):
        potrf, potri = get_lapack_funcs(("potrf", "potri"), (matrix,))
        lower, info = potrf(matrix, lower=1)
        if info == 0:
            lower, info = potri(lower, lower=1)
        if info != 0:
            return None
        triangle = np.tril(lower)
        return np.asarray(triangle + np.tril(lower, -1).T)
    try:
        lower = xp.linalg.cholesky(matrix)
    except (RuntimeError, ValueError, np.linalg.LinAlgError):
        return None
    identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))
    inverse_lower = xp.linalg.solve(lower, identity)
    return inverse_lower.T @ inverse_lower
