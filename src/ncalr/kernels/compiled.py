"""The hot loops of the CPU, compiled by numba.

Every kernel takes C-contiguous blocks and fills arrays it is handed; nothing here allocates more than a few
numbers per thread. Half-precision input comes as `uint16` bits, because numba has no half type on the CPU:
`widen` turns the bits into float32 in registers (vcvtph2ps on x86), so a half-precision pool is read at half
the traffic and never copied.

`FAST` lets the compiler reorder sums (that is what vectorises them) but keeps NaN and infinity meaningful:
a kernel must hand a non-finite input on to its output, where the caller looks for it.

The plain Python bodies stay runnable (`kernel.py_func`), which is how the tests step through them.
"""

from __future__ import annotations

import math
import sys
from functools import partial, wraps

import numba
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from ncalr.kernels import OFF, openmp

FAST = {"reassoc", "contract", "arcp", "nsz"}
WIDE = 32  # entries of a row from which on whole numbers are worth their second pass
ROWS_AHEAD = 8  # without the hint, reading a row and working on the one before it do not overlap
# Python's check for division by zero would keep loops scalar; without the interpreter's lock several threads may score
njit = partial(numba.njit, error_model="numpy", nogil=True)


def parallel(fastmath):
    """A kernel on several threads that leaves torch's threads as they were.

    numba and torch share one OpenMP, and numba tells it its own number of threads at every call. Without this a
    training after a query would add its numbers up in another order than the same training before it; and torch,
    where it is imported after a query, would take numba's number for its own.
    """

    def decorate(function):
        kernel = njit(parallel=True, fastmath=fastmath, cache=True)(function)

        @wraps(function)
        def call(*args):
            openmp.check()
            torch = sys.modules.get("torch")
            shared = None if torch else openmp.library()
            before = torch.get_num_threads() if torch else shared.omp_get_max_threads() if shared else 0
            kernel(*args)
            if shared:
                shared.omp_set_num_threads(before)
            elif torch and torch.get_num_threads() != before:
                torch.set_num_threads(before)

        call.py_func = function  # type: ignore[attr-defined]
        return call

    return decorate


def widen(value):
    """Float32 from a float, or from the bits of a half-precision float."""
    if isinstance(value, np.uint16):
        return np.float32(value.view(np.float16))
    return np.float32(value)


@intrinsic
def _half_to_float(_context, bits):
    def generate(_ctx, builder, _signature, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def _float_to_bits(_context, value):
    def generate(_ctx, builder, _signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def _bits_to_float(_context, bits):
    def generate(_ctx, builder, _signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@overload(widen, inline="always")
def _widen(value):
    if value == types.uint16:
        return lambda value: _half_to_float(value)
    if value == types.float64:
        return lambda value: value
    return lambda value: np.float32(value)


def nought(value):
    """Zero in the precision that `widen` gives. A plain 0 times a float32 would be a float64 to numba."""
    return widen(value) * np.float32(0)


@overload(nought, inline="always")
def _nought(value):
    if value == types.float64:
        return lambda value: 0.0  # noqa: ARG005 (numba matches the names)
    return lambda value: np.float32(0)  # noqa: ARG005


def float_bits(value):
    """The bits of a float32 as int32."""
    return np.float32(value).view(np.int32)


def bits_float(bits):
    """The float32 with these int32 bits."""
    return np.int32(bits).view(np.float32)


@overload(float_bits, inline="always")
def _float_bits(value):
    return lambda value: _float_to_bits(np.float32(value))


@overload(bits_float, inline="always")
def _bits_float(bits):
    return lambda bits: _bits_to_float(np.int32(bits))


def prefetch_row(array, i):
    """A hint that row i will be read soon; a row that does not exist does no harm. Plain Python ignores it."""


@intrinsic
def _prefetch_line(_context, array, i, line):
    def generate(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        stride = builder.extract_value(view.strides, 0)
        offset = builder.add(builder.mul(args[1], stride), builder.mul(args[2], ir.Constant(ir.IntType(64), 64)))
        address = builder.gep(builder.bitcast(view.data, byte), [offset])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [address] + [ir.Constant(number, flag) for flag in (0, 2, 1)])  # read, to L2, data
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@overload(prefetch_row, inline="always")
def _prefetch_row(array, i):
    def lines(array, i):
        for line in range((array.shape[1] * array.itemsize + 63) // 64):
            _prefetch_line(array, np.int64(i), np.int64(line))

    return lines


# -- elementary functions the vectoriser can see through ------------------------------------------------------
# libm's log and exp are calls, and a call keeps the loop scalar. Both below are the textbook reduction
# (split off the power of two, a polynomial for the rest), within 2e-7 of the true value (4e-6 for the
# smallest exponentials), and are used only where a score needs no more than that. Their sums must not be
# reordered (adding a large number and taking it off again is what rounds), so they have flags of their own,
# which survive being inlined.


@njit(fastmath={"contract"})
def quick_log(x):
    """Natural logarithm of a positive normal float32; about -88 for 0 and for subnormals."""
    bits = float_bits(np.float32(x))
    # 0x3F3504F3 is sqrt(1/2): the mantissa lands in [sqrt(1/2), sqrt(2))
    exponent = (bits - np.int32(0x3F3504F3)) >> np.int32(23)
    mantissa = bits_float(bits - (exponent << np.int32(23)))
    t = (mantissa - np.float32(1.0)) / (mantissa + np.float32(1.0))
    s = t * t
    tail = np.float32(2.0 / 9.0) + s * np.float32(2.0 / 11.0)
    tail = np.float32(2.0 / 5.0) + s * (np.float32(2.0 / 7.0) + s * tail)
    series = t * (np.float32(2.0) + s * (np.float32(2.0 / 3.0) + s * tail))
    return series + np.float32(exponent) * np.float32(0.6931471805599453)


@njit(fastmath={"contract"})
def quick_exp(x):
    """Exponential of a float32 that is at most 0; about 1.6e-38 below -87."""
    y = max(np.float32(x), np.float32(-87.0)) * np.float32(1.4426950408889634)
    shifted = y + np.float32(12582912.0)  # 1.5 * 2**23: adding it rounds y to the nearest whole number
    whole = float_bits(shifted) - np.int32(0x4B400000)
    t = (y - (shifted - np.float32(12582912.0))) * np.float32(0.6931471805599453)
    p = np.float32(1.0 / 120.0) + t * np.float32(1.0 / 720.0)
    p = np.float32(1.0 / 6.0) + t * (np.float32(1.0 / 24.0) + t * p)
    p = np.float32(1.0) + t * (np.float32(1.0) + t * (np.float32(0.5) + t * p))
    return bits_float((whole + np.int32(127)) << np.int32(23)) * p


def log_of(x):
    """`quick_log` for float32, the library's logarithm for float64 (where 0 gives about -708, not -inf)."""
    return np.log(np.maximum(x, np.finfo(x.dtype).tiny))


def exp_of(x):
    """`quick_exp` for float32, the library's exponential for float64."""
    return np.exp(x)


@overload(log_of)
def _log_of(x):
    if x == types.float64:
        return lambda x: math.log(max(x, 2.2250738585072014e-308))
    return lambda x: quick_log(max(x, np.float32(1.1754944e-38)))


@overload(exp_of)
def _exp_of(x):
    if x == types.float64:
        return lambda x: math.exp(x)
    return lambda x: quick_exp(x)


# -- geometry -------------------------------------------------------------------------------------------------


@parallel(FAST)
def cmap(features, predictions, centre, across, along, reach, pull, out):
    """CMAP of each row from three inner products; see `ncalr.geometry.alignment`. An empty `centre` means none."""
    n, d = features.shape
    for i in prange(n):
        prefetch_row(features, i + ROWS_AHEAD)
        c = predictions[i]
        s = p = q = nought(features[i, 0])
        if centre.shape[0]:
            for j in range(d):
                v = widen(features[i, j]) - centre[j]
                s += v * across[c, j]
                p += v * along[c, j]
                q += v * v
        else:
            for j in range(d):
                v = widen(features[i, j])
                s += v * across[c, j]
                p += v * along[c, j]
                q += v * v
        a = np.float64(reach[c]) + p
        t = max(np.float64(q) - np.float64(p) * p, 0.0 * q)
        norm = math.sqrt(a * a + t)
        shortfall = t / (norm + a) if a > 0 else norm - a
        out[i] = (s - pull[c] * shortfall) / norm if norm > 0 else 0.0 * q


# -- uncertainty ----------------------------------------------------------------------------------------------
# The scores are sums of the small terms (everything but the top class), so that a saturated row keeps its
# place: 1 - max p is the sum of the other probabilities, never a difference of two numbers near 1.
# kind 0: least confidence, 1 - p1; kind 1: margin, 1 - (p1 - p2); kind 2: entropy.


def single(value):
    """Whether a row's numbers are at most single precision."""
    return np.asarray(value).dtype != np.float64


@overload(single)
def _single(value):
    answer = value != types.float64
    return lambda value: answer  # noqa: ARG005 (numba wants the same names)


@njit(fastmath=FAST)
def two_largest(row):
    """The two largest entries, equal when the largest occurs twice.

    NaN may be lost here: every caller also sums the row, and a sum keeps it.
    """
    if row.shape[0] >= WIDE and single(row[0]):
        return by_ranks(row)
    return by_four_chains(row)


@njit()
def turned(bits):
    """The bits of a negative number turned round, but for the sign: the rank of a float32, and back."""
    return np.int32(bits ^ np.int32(np.int32(bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(fastmath=FAST)
def rank_of(value):
    """A whole number that orders float32 values as they are."""
    return turned(float_bits(np.float32(value)))


@njit(fastmath=FAST)
def by_ranks(row):
    """By two passes over whole numbers: of these the compiler looks at sixteen at a time, of floats at one.

    Every int32() is needed: numba's sums and maxima of small whole numbers are wide ones.
    """
    low = np.int32(-2147483648)
    top = second = low
    for j in range(row.shape[0]):
        top = np.int32(max(top, rank_of(widen(row[j]))))
    times = np.int32(0)
    for j in range(row.shape[0]):
        rank = rank_of(widen(row[j]))
        second = np.int32(max(second, rank if rank < top else low))
        times = np.int32(times + np.int32(rank == top))
    second = top if times > 1 else second
    return bits_float(turned(top)), bits_float(turned(second))


@njit(fastmath=FAST | {"nnan"})
def by_four_chains(row):
    """By four interleaved chains: one chain of min and max waits for itself; four keep the processor busy."""
    low = nought(row[0]) - np.float32(3.0e38)
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = low
    quads = row.shape[0] // 4
    for j in range(quads):
        v0, v1 = widen(row[4 * j]), widen(row[4 * j + 1])
        v2, v3 = widen(row[4 * j + 2]), widen(row[4 * j + 3])
        b0, a0 = max(b0, min(a0, v0)), max(a0, v0)
        b1, a1 = max(b1, min(a1, v1)), max(a1, v1)
        b2, a2 = max(b2, min(a2, v2)), max(a2, v2)
        b3, a3 = max(b3, min(a3, v3)), max(a3, v3)
    for j in range(4 * quads, row.shape[0]):
        v = widen(row[j])
        b0, a0 = max(b0, min(a0, v)), max(a0, v)
    b0, a0 = max(max(b0, b1), min(a0, a1)), max(a0, a1)
    b2, a2 = max(max(b2, b3), min(a2, a3)), max(a2, a3)
    return max(a0, a2), max(max(b0, b2), min(a0, a2))


@njit(fastmath=FAST)
def sum_below(row, top):
    """The sum of the entries other than `top`, and of the absolute values of all."""
    zero = nought(row[0])
    total = whole = zero
    for j in range(row.shape[0]):
        v = widen(row[j])
        total += zero if v == top else v
        whole += abs(v)
    return total, whole


@njit(fastmath=FAST)
def no_share(total, whole):
    """0 where numbers with this sum, and this sum of absolute values, are probabilities; NaN where they are not."""
    slack = np.float32(OFF)
    return total * np.float32(0) if abs(total - 1) <= slack and abs(whole - 1) <= slack else total * np.float32(np.nan)


@njit(fastmath=FAST)
def exp_below(row, top):
    """Sum of exp(v - top) and of its product with top - v, over the entries other than `top`."""
    zero = nought(row[0])
    total = zero
    spread = zero
    for j in range(row.shape[0]):
        gap = widen(row[j]) - top
        e = exp_of(gap)
        total += e * np.float32(gap < zero)  # a select here would keep the loop scalar
        spread -= e * gap
    return total, spread


@njit()
def repeats(row, top):
    """How often `top` occurs beyond the first time."""
    times = -1
    for j in range(row.shape[0]):
        times += widen(row[j]) == top
    return times


@parallel(FAST)
def uncertainty_of_probs(probs, kind, out):
    """The score of each row of probabilities; not finite where the row is not, or is no distribution."""
    n, c = probs.shape
    for i in prange(n):
        row = probs[i]
        if kind == 2:
            entropy = total = whole = nought(row[0])
            for j in range(c):
                p = widen(row[j])
                entropy -= p * log_of(p)
                total += p
                whole += abs(p)
            out[i] = entropy + no_share(total, whole)
        else:
            top, second = two_largest(row)
            rest, whole = sum_below(row, top)
            if second == top:
                rest += top * repeats(row, top)
            rest += no_share(rest + top, whole)
            out[i] = rest + max(second, nought(row[0])) if kind == 1 else rest  # one class has no second


@parallel(FAST)
def add_sample(probs, total, doubt):
    """Add one sample of probabilities to their sum and its entropy to the sum of entropies; see BALD."""
    n, c = probs.shape
    for i in prange(n):
        entropy = share = whole = nought(probs[i, 0])
        for j in range(c):
            p = widen(probs[i, j])
            total[i, j] += p
            entropy -= p * log_of(p)
            share += p
            whole += abs(p)
        doubt[i] += entropy + no_share(share, whole)


@parallel(FAST)
def uncertainty_of_logits(logits, kind, out):
    """The same three scores from logits; not finite where the row is not."""
    for i in prange(logits.shape[0]):
        row = logits[i]
        top, second = two_largest(row)
        rest, spread = exp_below(row, top)
        if second == top:
            rest += repeats(row, top)
        if kind == 2:
            out[i] = spread / (1 + rest) + math.log1p(rest)
        elif kind == 1:
            out[i] = (rest + exp_of(second - top)) / (1 + rest) + 0 * spread  # spread is not finite if the row is not
        else:
            out[i] = rest / (1 + rest) + 0 * spread


# -- greedy selection -----------------------------------------------------------------------------------------
# These run between matrix products, and stay on one thread: the library behind NumPy's products has threads of its
# own that wait by spinning, and two thread pools on the same cores stall each other for milliseconds a call.


@njit(cache=True)
def farthest_in_block(weight, between, bound, most, picked, values):
    """Farthest-first inside a block, while its best still beats everything outside.

    `weight` holds each block item's distance to the chosen set and is updated in place; picked items get -1.
    Ties go to the first, so the caller orders the block. Fills `picked` and `values` (the distance of each pick when
    it was picked) and returns how many there are.
    """
    m = weight.shape[0]
    count = 0
    while count < most:
        best = 0
        for i in range(m):
            if weight[i] > weight[best]:
                best = i
        if weight[best] < bound or weight[best] < 0:
            break
        picked[count] = best
        values[count] = weight[best]
        count += 1
        for i in range(m):
            weight[i] = min(weight[i], between[best, i])
        weight[best] = -1
    return count


@njit(fastmath=FAST | {"nnan"}, cache=True)
def least(own, inner, out):
    """The least of own[j] - inner[i, j] in each row i."""
    n, m = inner.shape
    for i in range(n):
        low = own[0] - inner[i, 0]
        for j in range(m):
            low = min(low, own[j] - inner[i, j])
        out[i] = low


@njit()
def sink(heap):
    """Put a heap, the largest on top, in order again after its top was replaced."""
    at, end = 0, heap.shape[0]
    while 2 * at + 1 < end:
        below = 2 * at + 1
        if below + 1 < end and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= heap[at]:
            return
        heap[at], heap[below] = heap[below], heap[at]
        at = below


@parallel(set())
def nearest_squares(inner, own, others, out):
    """The least of own[i] + others[j] - 2 inner[i, j] in each row i, rising, never negative; `out` begins infinite."""
    for i in prange(inner.shape[0]):
        heap = out[i]
        for j in range(inner.shape[1]):
            square = own[i] + others[j] - (inner[i, j] + inner[i, j])
            if square < heap[0]:
                heap[0] = square
                sink(heap)
        heap.sort()
        for j in range(heap.shape[0]):
            heap[j] = max(heap[j], nought(heap[j]))


@njit()
def mix(x):
    """One round of splitmix64: a bijection of 64-bit words that leaves no visible trace of its input."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit()
def uniform(word):
    """A number between 0 and 1 from a word, never 0."""
    return (np.float64(mix(word) >> np.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def race(weight, keys, draw, at, time):
    """The front of an exponential race: items in order of weight / E, E = -log u, u from (draw, key).

    Fills `at` and `time` in falling order, -1 where there are fewer. An item comes first with probability
    proportional to its weight.
    """
    listed = at.shape[0]
    at[:] = -1
    time[:] = -1.0
    last = 0.0
    for i in range(weight.shape[0]):
        w = weight[i]
        if w > 0:
            u = uniform(keys[i] ^ draw)
            if w > last * (1.0 - u):  # -log u >= 1 - u, so nothing that could enter is left out
                reached = w / -math.log(u)
                if reached > last:
                    r = listed - 1
                    while r > 0 and time[r - 1] < reached:
                        time[r] = time[r - 1]
                        at[r] = at[r - 1]
                        r -= 1
                    time[r] = reached
                    at[r] = i
                    last = max(time[listed - 1], 0.0)


@njit(cache=True)
def waits(keys, draws, out):
    """The E of such races, one row a draw."""
    for j in range(draws.shape[0]):
        for i in range(keys.shape[0]):
            out[j, i] = -math.log(uniform(keys[i] ^ draws[j]))


@parallel(FAST)
def to_kernel(dots, row_norms, norms, scale, ball):
    """Turn inner products into kernel values, in place.

    The kernel of a squared distance s is exp(-s * scale), or, when `ball`, 1 where s * scale < 1 and else 0.
    """
    rows, n = dots.shape
    for i in prange(rows):
        for j in range(n):
            s = max(row_norms[i] + norms[j] - np.float32(2.0) * dots[i, j], np.float32(0.0)) * scale
            dots[i, j] = np.float32(s < np.float32(1.0)) if ball else quick_exp(-s)


@parallel(FAST)
def coverage_drop(kernel, slots, old, new, worth, out):
    """Sum over slots of worth * (max(0, kernel[slot, j] - old) - max(0, kernel[slot, j] - new)) for each item j."""
    n, width = kernel.shape[1], 2048
    for block in prange((n + width - 1) // width):
        start, stop = block * width, min((block + 1) * width, n)
        part = np.zeros(stop - start)
        for i in range(slots.shape[0]):
            row = kernel[slots[i], start:stop]
            share, low, high = worth[i], old[i], new[i]
            for j in range(stop - start):
                part[j] += share * (max(np.float32(0.0), row[j] - low) - max(np.float32(0.0), row[j] - high))
        out[start:stop] = part


@parallel(FAST)
def count_within(dots, row_norms, norms, row_reach, reach, diagonal, counts):
    """Turn inner products into squared distances, in place, and count those of each row that `list_within` lists.

    Row i begins at column i + diagonal, which is the item itself and counts in any case.
    """
    for i in prange(dots.shape[0]):
        first = i + diagonal
        count = np.int32(0)
        for j in range(dots.shape[1]):
            square = max(row_norms[i] + norms[j] - np.float32(2.0) * dots[i, j], np.float32(0.0))
            square = np.float32(np.inf) if j < first else np.float32(-1.0) if j == first else square
            dots[i, j] = square
            count += np.int32(square < max(row_reach[i], reach[j]))
        counts[i] = count


@parallel(FAST)
def list_within(squares, row_reach, reach, ends, rows, columns, found):
    """List the squared distances below the reach of their row or column; those of row i end at ends[i]."""
    width = 32
    for i in prange(squares.shape[0]):
        row, own = squares[i], row_reach[i]
        at = ends[i - 1] if i else 0
        left = 0
        while at < ends[i]:
            near = np.int32(0)
            if left + width <= row.shape[0]:  # most are beyond: several are looked at together
                for j in range(width):
                    near += np.int32(row[left + j] < max(own, reach[left + j]))
            else:
                near = np.int32(1)
            if near:
                for j in range(left, min(left + width, row.shape[0])):
                    if row[j] < max(own, reach[j]):
                        rows[at], columns[at], found[at] = i, j, max(row[j], np.float32(0.0))
                        at += 1
            left += width


@parallel(FAST)
def pair_squares(rows, first, second, out):
    """Squared distances of pairs of rows."""
    for p in prange(out.shape[0]):
        a, b = rows[first[p]], rows[second[p]]
        total = np.float32(0.0)
        for d in range(a.shape[0]):
            total += (a[d] - b[d]) ** 2
        out[p] = total


# -- exact sums and checks ------------------------------------------------------------------------------------


@njit(cache=True)
def exact_sums(values, table):
    """Add the sum and the sum of squares of float64 values to `table`, exactly; see `ncalr.geometry.moments`.

    Row e of the table (2048, 8) holds whole numbers for the values with exponent bits e: the signed mantissas in two
    parts of 27 bits, then the three products of the parts of the square, each in two parts again. A row is one line of
    the cache.
    """
    part = np.int64(0x7FFFFFF)
    words = values.view(np.int64)
    for i in range(words.shape[0]):
        word = words[i]
        e = (word >> 52) & 2047
        m = word & np.int64(0xFFFFFFFFFFFFF)
        if e:
            m |= np.int64(0x10000000000000)
        else:
            e = np.int64(1)  # numbers below the normal ones have the exponent of the smallest of those
        low, high = m & part, m >> 27
        sign = np.int64(1) | (word >> 63)
        table[e, 1] += sign * high
        if low:  # what came from float32 has no more than 24 bits
            table[e, 0] += sign * low
            square = low * low
            table[e, 2] += square & part
            table[e, 3] += square >> 27
            square = low * high
            table[e, 4] += square & part
            table[e, 5] += square >> 27
        square = high * high
        table[e, 6] += square & part
        table[e, 7] += square >> 27


@njit(cache=True)
def checksum(words):
    """Sum of (2 i + 1) * word i, modulo 2^64. A factor that is odd has an inverse: one changed word always shows."""
    total = np.uint64(0)
    for i in range(words.shape[0]):
        total += words[i] * np.uint64(2 * i + 1)
    return total


@parallel({"reassoc", "nsz"})
def all_finite(flat, out):
    """out[t] is 0 where thread t's share holds only finite numbers: x * 0 is 0 for those alone."""
    threads = out.shape[0]
    for t in prange(threads):
        lo = flat.shape[0] * t // threads
        hi = flat.shape[0] * (t + 1) // threads
        total = nought(flat[0])
        for i in range(lo, hi):
            total += widen(flat[i]) * nought(flat[i])
        out[t] = total


def threads() -> int:
    """How many threads the kernels run on."""
    return int(numba.get_num_threads())
