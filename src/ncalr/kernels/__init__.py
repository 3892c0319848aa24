"""Where arithmetic runs, and the one place that decides it.

    choose(device, arrays)   Host     NumPy and compiled loops; memory-mapped and half-precision arrays as they are
                             Device   torch, on a GPU or (where numba is missing) on the CPU

Both are `Backend`s: the same few operations, on NumPy arrays or on torch tensors. Code above this folder is
written once, against `backend.xp` (NumPy or torch: only functions that both have) and the methods below.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from ncalr.errors import BadInput, MissingExtra
from ncalr.kernels import openmp  # noqa: F401 (keeps OpenMP usable in forked processes, from here on)

OFF = 0.02
"""How far from 1 the sum of probabilities may be: those in half precision are rounded."""
Array = Any
"""A NumPy array or a torch tensor."""
Rows = Any
"""A slice, or an array of positions."""


class CmapTable(NamedTuple):
    """What a CMAP pass needs to know of the classes; `ncalr.geometry.alignment` fills it."""

    centre: Array | None  # (d,) subtracted from every feature
    across: Array  # (c, d)
    along: Array  # (c, d)
    reach: Array  # (c,)
    pull: Array  # (c,)


class Backend(Protocol):
    """The operations that differ between the CPU and a GPU."""

    @property
    def xp(self) -> Any:
        """NumPy or torch."""

    @property
    def held_bytes(self) -> int:
        """Up to this size, what every pick looks at is kept; beyond, it is made anew for each pick."""

    @property
    def chunk_bytes(self) -> int:
        """How much of a pool array is worth handling at once."""

    @property
    def block_rows(self) -> int:
        """How many items farthest-first looks at together, to begin with."""

    def block(self, array: Array, rows: Rows) -> Array:
        """These rows as a contiguous array of this backend, in their own precision; a view where possible."""

    def asarray(self, array: Array, dtype: str | None = None) -> Array:
        """The array on this backend; `dtype` is a NumPy name such as 'float32'."""

    def hold(self, array: Array) -> Array:
        """The array where random access to its rows is quick: as it is on the CPU, on the GPU for a GPU."""

    def wide(self, array: Array) -> Array:
        """At least float32, for matrix products."""

    def numpy(self, array: Array) -> Any:
        """A NumPy array of the same values."""

    def cmap(self, features: Array, predictions: Array, table: CmapTable) -> Array:
        """CMAP of each row; see `ncalr.geometry.cmap`."""

    def uncertainty(self, outputs: Array, kind: str, logits: bool) -> Array:
        """'least_confidence', 'margin' or 'entropy' of each row, higher where the model knows less.

        Not finite where the row is not, or where probabilities are none.
        """

    def top(self, values: Array, m: int) -> tuple[Any, Any]:
        """Positions (NumPy integers) of all that are larger than the m-th largest, and of all that equal it."""

    def least(self, own: Array, inner: Array) -> Array:
        """The least of own_j - inner_ij in each row i."""

    def nearest_squares(self, inner: Array, own: Array, others: Array, count: int) -> Array:
        """The `count` least of own_i + others_j - 2 inner_ij in each row i, rising, those below 0 as 0 (n, count)."""

    def flips(self, log: Array) -> Array:
        """How often each column changes from one row to the next; rows (n,) in a list or an array (t, n)."""

    def sum_by(self, rows: Array, groups: Any, count: int) -> Array:
        """Sum of the rows (n, d) of each group 0..count-1, (count, d)."""

    def add_sample(self, probs: Array, total: Array, doubt: Array) -> None:
        """Add probabilities (n, c) to their sum and each row's entropy to the sum of entropies, in place.

        An entropy is not finite where the row is no distribution.
        """

    def argmax(self, outputs: Array) -> Array:
        """The position of the largest entry of each row."""

    def farthest_in_block(self, weight: Array, between: Array, bound: float, most: int) -> tuple[Any, Any]:
        """Positions picked farthest-first inside a block and the distance of each, as NumPy arrays."""

    def race(self, weight: Array, keys: Array, draw: int, listed: int) -> tuple[Any, Any]:
        """The first `listed` of an exponential race and their times, as NumPy arrays."""

    def words(self, words: Any) -> Array:
        """Unsigned 64-bit words (a NumPy array) on this backend, as `race` and `waits` take them."""

    def waits(self, keys: Array, draws: Array) -> Array:
        """The exponential numbers behind such races, (draws, items): an item's time is its weight over its number."""

    def to_kernel(self, dots: Array, row_norms: Array, norms: Array, scale: float, ball: bool) -> Array:
        """Kernel values from inner products, in place: exp(-s * scale) of the squared distance s, or s * scale < 1."""

    def coverage_drop(self, kernel: Array, slots: Any, old: Array, new: Array, worth: Array) -> Array:
        """Sum over rows i in `slots` of worth_i * (max(0, kernel_ij - old_i) - max(0, kernel_ij - new_i)), each j.

        What the gain of j loses where the items i are covered better; with infinite `new_i`, the gain itself.
        """

    def pairs_within(
        self, dots: Array, row_norms: Array, norms: Array, row_reach: Array, reach: Array, diagonal: int
    ) -> tuple[Any, Any, Any]:
        """Rows, columns and squared distances (NumPy) of the pairs nearer than the reach of one, from inner products.

        The column of row i is the same item at i + diagonal: listed in any case, with 0, and the first of its row.
        `reach` is a squared distance. The inner products may be overwritten.
        """

    def pair_squares(self, rows: Array, first: Any, second: Any) -> Array:
        """Squared distances of the pairs of rows (first[p], second[p])."""

    def is_finite(self, array: Array) -> bool:
        """Whether every number of a contiguous array of this backend is finite."""


def is_torch(array: object) -> bool:
    """Whether it is a torch tensor, without importing torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def to_numpy(array: Any, name: str = "array") -> Any:
    """Return a NumPy array of the same values, without a copy where possible; `name` is what errors call it."""
    if type(array) is np.ndarray:
        return array
    try:
        if is_torch(array):
            check_tensor(array, name)
            array = array.detach().cpu()
            array = (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()
        check_entries(array, name)
        return np.asarray(array)
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # whatever an object of another package raises
        cause = "its rows have different lengths" if "inhomogeneous" in str(error) else _first_line(error)
        raise BadInput(
            f"`{name}` must be an array or a list of numbers or texts, got {type(array).__name__} ({cause}). "
            "Pass a NumPy array."
        ) from error


def as_kind(numbers: Any, kind: Any) -> Any:
    """Return whole numbers in the kind of those that they are compared with; NumPy compares int64 and uint64 as floats.

    Where that kind does not hold all of them, they become Python's numbers, which are compared exactly as well.
    """
    if numbers.dtype == kind or not {numbers.dtype.kind, kind.kind} <= {"i", "u"}:
        return numbers
    limits = np.iinfo(kind)
    fit = not len(numbers) or (int(numbers.min()) >= limits.min and int(numbers.max()) <= limits.max)
    return numbers.astype(kind if fit else object)


def check_tensor(tensor: Any, name: str) -> None:
    """Raise for a tensor whose values cannot be read in place: sparse, nested, quantised, or on the meta device."""
    if tensor.device.type == "meta":
        raise BadInput(f"`{name}` is on torch's meta device, which keeps no values. Compute it on cpu or cuda.")
    if tensor.is_nested or tensor.is_quantized or str(tensor.layout) != "torch.strided":
        kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else "sparse"
        dense = "dequantize" if tensor.is_quantized else "to_dense"
        pad = "torch.nested.to_padded_tensor" if tensor.is_nested else f"{name}.{dense}()"
        raise BadInput(f"`{name}` must be a dense tensor, got a {kind} one. Pass the result of {pad}.")


def check_entries(array: Any, name: str) -> None:
    """Raise for an array with entries that are not stored (sparse) or not valid (masked)."""
    if hasattr(array, "toarray"):
        raise BadInput(f"`{name}` must be a dense array, got a sparse {type(array).__name__}. Pass {name}.toarray().")
    if np.ma.is_masked(array):
        count = np.ma.getmaskarray(array).sum()
        raise BadInput(f"`{name}` has {count} masked values. Fill them, or drop those items.")


def _first_line(error: Exception) -> str:
    """Return the kind of an error and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


@cache
def triton_module(name: str) -> Any:
    """`ncalr.kernels.triton_NAME`, kernels for a GPU; None where there is no Triton."""
    if importlib.util.find_spec("triton") is None:
        return None
    return importlib.import_module(f"ncalr.kernels.triton_{name}")


def choose(device: Any = None, arrays: Iterable[object] = ()) -> Backend:
    """The backend for `device`; without one, where the first GPU tensor among `arrays` lives, or the CPU."""
    if device is None:
        device = next((a.device for a in arrays if is_torch(a) and a.device.type != "cpu"), "cpu")  # type: ignore[attr-defined]
    if str(device) == "cpu" and importlib.util.find_spec("numba") is not None:
        from ncalr.kernels.host import Host

        return Host()
    if importlib.util.find_spec("torch") is None:
        what = "numba" if str(device) == "cpu" else "torch"
        raise MissingExtra(f"device {str(device)!r} needs {what}: pip install 'ncalr[torch]'")
    import torch

    from ncalr.kernels.device import Device

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        cause = str(error).strip().splitlines()[0].split(". ")[0]
        cause = "there is no such kind; cpu and cuda are" if cause.startswith("Expected one of") else cause
        raise BadInput(f"device {str(device)!r} cannot be used here ({cause}); choose cpu, or name no device") from None
    return Device(torch.device(device))
