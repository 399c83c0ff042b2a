"""Sums of a Gram matrix over blocks of neighbouring cells."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from noisewright.errors import TooLarge
from noisewright.local.strategy import IntArray
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import (
    Gram,
    IdentityGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
)

DENSE_SIZE = 4096


def block_traces(gram: Gram, width: int) -> float:
    """Σ over blocks of 1ᵀM1: the trace of the Gram matrix of block totals."""
    starts = np.arange(0, gram.size, width)
    stops = np.minimum(starts + width, gram.size)
    return float(interval_squares(gram, starts, stops).sum())


@singledispatch
def interval_squares(gram: Gram, starts: IntArray, stops: IntArray) -> FloatArray:
    """1ᵀM1 over each interval of cells [start, stop)."""
    if gram.size > DENSE_SIZE:
        raise TooLarge(f"no closed form for sums over blocks of {gram.size} cells")
    sums = np.zeros((gram.size + 1, gram.size + 1))
    np.cumsum(np.cumsum(gram.dense(), axis=0), axis=1, out=sums[1:, 1:])
    return np.asarray(sums[stops, stops] - 2 * sums[starts, stops] + sums[starts, starts])


@interval_squares.register
def _(gram: IdentityGram, starts: IntArray, stops: IntArray) -> FloatArray:
    return np.asarray(stops - starts, dtype=np.float64)


@interval_squares.register
def _(gram: OnesGram, starts: IntArray, stops: IntArray) -> FloatArray:
    return np.asarray((stops - starts).astype(np.float64) ** 2)


@interval_squares.register
def _(gram: PrefixGram, starts: IntArray, stops: IntArray) -> FloatArray:
    # Prefix sums of the block rise 1, 2, …, w inside it and stay at w after it.
    w = (stops - starts).astype(np.float64)
    return np.asarray(w * (w + 1) * (2 * w + 1) / 6 + (gram.size - stops) * w**2)


@interval_squares.register
def _(gram: RangesGram, starts: IntArray, stops: IntArray) -> FloatArray:
    # (n+1) ΣS² − (ΣS)² over the n+1 prefix sums S.
    w = (stops - starts).astype(np.float64)
    after = gram.size - stops
    squares = w * (w + 1) * (2 * w + 1) / 6 + after * w**2
    total = w * (w + 1) / 2 + after * w
    return np.asarray((gram.size + 1) * squares - total**2)


@interval_squares.register
def _(gram: ScaledGram, starts: IntArray, stops: IntArray) -> FloatArray:
    return gram.scale * interval_squares(gram.inner, starts, stops)


@interval_squares.register
def _(gram: SumGram, starts: IntArray, stops: IntArray) -> FloatArray:
    return np.asarray(sum(interval_squares(part, starts, stops) for part in gram.parts))
