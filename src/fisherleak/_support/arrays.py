"""The only file that looks at array namespaces; with ``rows`` the only one that knows of Dask.

Everything else computes with the functions of the array API standard on whatever ``namespace``
returns, so NumPy, array-api-strict, torch and CuPy arrays take one path. Rows may also be *lazy*: Dask arrays, whose
blocks are arrays of one of these libraries. Their namespace is that of the blocks, small arrays beside them are of that
library too, and only the verbs of ``rows`` touch the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import array_api_compat
import numpy as np
import scipy.special
from numpy.typing import NDArray
from scipy.linalg import bandwidth, get_lapack_funcs, solve_triangular

from fisherleak._support.namespaces import Array as Array
from fisherleak._support.namespaces import Namespace as Namespace
from fisherleak.errors import InvalidInputError


def is_lazy(x: Any) -> bool:
    """Whether rows are a Dask array: nothing of it is computed but by the verbs of ``rows``."""
    return bool(array_api_compat.is_dask_array(x))


def is_lazy_frame(x: Any) -> bool:
    """Whether x is a Dask table (or one column of it)."""
    return type(x).__module__.partition(".")[0] == "dask" and hasattr(x, "to_dask_array")


def _block(x: Any) -> Any:
    """An array of the kind that x is made of: an empty block of a Dask array, else x itself."""
    return x._meta if is_lazy(x) else x


def namespace(*arrays: Any) -> Namespace:
    """The one array namespace that the given arrays (or their blocks) share (``None`` is passed over)."""
    if type(arrays[0]) is np.ndarray and all(x is None or type(x) is np.ndarray for x in arrays):
        return _of_numpy()
    shared: Namespace = array_api_compat.array_namespace(*(_block(x) for x in arrays if x is not None))
    return shared


@cache
def _of_numpy() -> Namespace:
    """Asked for once: every function of small arrays begins with it."""
    found: Namespace = array_api_compat.array_namespace(np.empty(0))
    return found


def device(x: Array) -> Any:
    return array_api_compat.device(_block(x))


def on_accelerator(x: Array) -> bool:
    """Whether the values (or those of the blocks) live on a GPU or the like, where large blocks pay."""
    x = _block(x)
    if array_api_compat.is_torch_array(x):
        return bool(x.device.type != "cpu")
    return bool(array_api_compat.is_cupy_array(x))


def to_gpu(*arrays: np.ndarray[Any, Any]) -> tuple[Array, ...] | None:
    """The arrays on a GPU that torch finds; None where there is none, or no torch."""
    if find_spec("torch") is None:
        return None
    import torch

    return tuple(torch.as_tensor(x, device="cuda") for x in arrays) if torch.cuda.is_available() else None


def free_on_device(x: Array) -> int | None:
    """Bytes that are free on the GPU where x lives, those that its library keeps for later included; None elsewhere."""
    x = _block(x)
    if array_api_compat.is_torch_array(x) and x.device.type == "cuda":
        import torch

        kept = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
        return int(torch.cuda.mem_get_info(x.device)[0] + kept)
    if array_api_compat.is_cupy_array(x):
        kept = sys.modules["cupy"].get_default_memory_pool().free_bytes()
        return int(x.device.mem_info[0] + kept)
    return None


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
    if is_lazy(x) or is_lazy_frame(x):
        return _lazy_array(x, name)
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


def _lazy_array(x: Any, name: str) -> Array:
    """A Dask array or table as a Dask array of numbers, by the types that it declares."""
    if is_lazy_frame(x):
        declared = dict(x.dtypes) if x.ndim == 2 else {getattr(x, "name", None): x.dtype}
        for column, dtype in declared.items():
            if getattr(dtype, "kind", "O") not in "fiub":
                raise InvalidInputError(
                    f"{name} must hold numbers; column '{column}' has type {dtype}. Encode text and dates as numbers first."
                )
        return plain_table(x).to_dask_array()
    if getattr(x.dtype, "kind", "f") not in "fiub":
        raise InvalidInputError(
            f"{name} must hold numbers; got dtype {x.dtype}. Encode text and dates as numbers first."
        )
    return x


def plain_table(x: Any) -> Any:
    """A Dask table whose columns of numbers have NumPy's types: pandas' own would become objects."""
    declared = dict(x.dtypes) if x.ndim == 2 else {x.name: x.dtype}
    own = {c: "float64" for c, dtype in declared.items() if not isinstance(dtype, np.dtype) and dtype.kind in "fiub"}
    if not own:
        return x
    return x.astype(own) if x.ndim == 2 else x.astype("float64")


def _from_objects(x: np.ndarray, name: str, columns: Sequence[str] | None) -> np.ndarray:
    if x.ndim == 0:
        raise InvalidInputError(f"{name} must be an array or a table of numbers; got {type(x.item()).__name__}.")
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


def as_real(x: Array, xp: Namespace) -> Array:
    """The same values in float64; no copy where they are already."""
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def like(x: Any, reference: Array, xp: Namespace) -> Array:
    """A NumPy array or a list as a float64 (or integer) array beside ``reference``."""
    values = np.require(x, requirements="W")  # torch takes no array that is only read
    dtype = xp.int64 if values.dtype.kind in "iu" else xp.float64
    return xp.asarray(values, dtype=dtype, device=device(reference))


def host(x: Array) -> np.ndarray:
    """A NumPy copy (or view) of a small array."""
    if array_api_compat.is_torch_array(x):
        return np.asarray(x.detach().cpu().numpy())
    if array_api_compat.is_cupy_array(x):
        return np.asarray(x.get())
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)
    if is_lazy(x):
        raise InvalidInputError(
            "An array is a Dask array, and its values are needed in memory: call compute() on it first, if it fits."
        )
    library: Any = namespace(x)
    return np.from_dlpack(x.to_device(library.Device("CPU_DEVICE")) if hasattr(library, "Device") else x)


def row_dots(a: Array, b: Array, xp: Namespace) -> Array:
    """a_i . b_i of every row, (n,). On GPUs as a sum: some libraries make n small products of the standard's function."""
    return xp.sum(a * b, axis=1) if on_accelerator(a) else xp.vecdot(a, b)


def row_squares(a: Array, xp: Namespace) -> Array:
    """|a_i|^2 of every row, (n,). On GPUs from the norm, which reads the rows once and writes none."""
    return xp.linalg.vector_norm(a, axis=1) ** 2 if on_accelerator(a) else xp.vecdot(a, a)


def normal_cdf(x: Array) -> Array:
    """Distribution function of the standard normal, elementwise, where the values are."""
    if array_api_compat.is_torch_array(x):
        import torch

        return torch.special.ndtr(x)
    if array_api_compat.is_cupy_array(x):
        from cupyx.scipy.special import ndtr

        return ndtr(x)
    # array-api-strict, like NumPy, has its values on the host
    return like(scipy.special.ndtr(host(x)), x, namespace(x))


def triangles_of(matrix: Array) -> tuple[Array, Array] | None:
    """L and L^-1 with L L^T a symmetric matrix of NumPy, a twentieth of the cost of eigenvectors; None where it has none."""
    if not is_numpy(matrix):
        return None
    potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (matrix,))
    lower, failed = potrf(matrix, lower=1, clean=1)
    if failed:
        return None
    inverse, failed = trtri(lower, lower=1)
    return None if failed else (lower, inverse)


MIRRORED = 64
"""Lines of a triangle that are copied at a time."""


def cholesky_inverse(matrix: Array, xp: Namespace) -> Array | None:
    """The inverse of a symmetric positive definite matrix, or ``None`` where it is not one."""
    if is_numpy(matrix):
        potrf, potri = get_lapack_funcs(("potrf", "potri"), (matrix,))
        lower, info = potrf(matrix, lower=1, clean=0)
        if info == 0:
            lower, info = potri(lower, lower=1, overwrite_c=1)
        return None if info != 0 else _mirrored(lower)
    if array_api_compat.is_torch_array(matrix):
        torch: Any = xp
        lower, info = torch.linalg.cholesky_ex(matrix)
        return None if int(info) else torch.cholesky_inverse(lower)
    if array_api_compat.is_cupy_array(matrix):
        return _cupy_inverse(matrix, xp)
    try:
        lower = xp.linalg.cholesky(matrix)
    except (RuntimeError, ValueError, np.linalg.LinAlgError):
        return None
    identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix))
    inverse_lower = xp.linalg.solve(lower, identity)
    return inverse_lower.T @ inverse_lower


def _mirrored(lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """The symmetric matrix of a lower triangle, in place: a block at a time, since a transposed copy waits for memory."""
    for start in range(0, lower.shape[0], MIRRORED):
        rows = slice(start, start + MIRRORED)
        own = np.tril(lower[rows, rows])
        lower[rows, rows] = own + np.tril(own, -1).T
        lower[rows, rows.stop :] = lower[rows.stop :, rows].T
    return np.asarray(lower.T)  # LAPACK's own order is by columns


def _cupy_inverse(matrix: Array, xp: Namespace) -> Array | None:
    import cupyx
    from cupyx.scipy.linalg import solve_triangular

    try:
        with cupyx.errstate(linalg="raise"):  # by default CuPy gives back what a failed factorisation left
            lower = xp.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    inverse_lower = solve_triangular(lower, xp.eye(matrix.shape[0], dtype=matrix.dtype), lower=True)
    return inverse_lower.T @ inverse_lower


# Products and inverses with matrices that are mostly zeros: maps between frames are a diagonal and a line or two. A dense
# product takes O(p^3), which is most of the time where columns are thousands; with the few entries that there are it takes
# O(p^2). The numbers are the same to rounding.

MANY, FEW = 300, 0.02
"""Lines from which on it pays to look for zeros, and the part of entries that may be others."""


def times(few: Array, matrix: Array) -> Array:
    """The product of two matrices; by the entries of the first where these are few."""
    return by_entries(few)(matrix)


def by_entries(few: Array) -> Callable[[Array], Array]:
    """Products with a matrix from the left, by its entries where these are few: they are looked for once."""
    entries: Any = few
    if is_numpy(few) and few.shape[0] >= MANY:
        count = np.count_nonzero(few)
        if count == few.shape[0] <= few.shape[1] and np.all(np.diagonal(few) == 1):
            return lambda matrix: matrix[: few.shape[0]]
        if count <= FEW * few.size:
            from scipy.sparse import csr_array

            entries = csr_array(few)

    def product(matrix: Array) -> Array:
        if entries is few or not is_numpy(matrix) or matrix.ndim != 2:
            return few @ matrix
        return np.asarray(entries @ matrix)

    return product


def inverse_of(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of a matrix of full rank; by substitution where it is lower triangular."""
    if matrix.shape[0] < MANY or bandwidth(matrix)[1]:
        return np.asarray(np.linalg.inv(matrix))
    from scipy.linalg.lapack import dtrtri

    found: tuple[Any, int] = dtrtri(matrix, lower=1)
    if found[1]:
        raise np.linalg.LinAlgError("Singular matrix")
    return np.asarray(found[0])  # zero above the diagonal, as it was


def solver_of(matrix: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Products of columns with the inverse of a matrix of full rank; by substitution where it is triangular."""
    below, above = bandwidth(matrix)
    if below and above:
        return lambda columns: np.asarray(np.linalg.solve(matrix, columns))
    return lambda columns: np.asarray(solve_triangular(matrix, columns, lower=bool(below)))
