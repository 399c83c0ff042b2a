"""What a checkpoint may hold: arrays from which a search can go on, or nothing.

A checkpoint is a file like any other. A wrong state costs accuracy at worst, since the strategy
that comes out is rounded and checked exactly; but it must fit the question and be made of numbers.
"""

from __future__ import annotations

import numpy as np

from noisewright.errors import NoisewrightError
from noisewright.local.listed.matrix import check_prior
from noisewright.local.optimise.dense.design import Design
from noisewright.local.optimise.dense.starts import BoolArray
from noisewright.local.strategy import Arrays
from noisewright.workload.base import FloatArray

_LIGHTEST = 1e-30  # no search keeps less, and its inverse is still a number
_BALANCED = 1e-9
"""How far columns may be from one: what a matrix of chances may lack too."""


def saved_patterns(state: Arrays | None, cells: int, name: str = "patterns") -> BoolArray | None:
    """Subsets of cells, one a row."""
    array = None if state is None else state.get(name)
    fits = array is not None and array.dtype == np.bool_ and array.ndim == 2 and array.size
    return array if array is not None and fits and array.shape[1] == cells else None


def saved_shares(state: Arrays | None, name: str, count: int) -> FloatArray | None:
    """Positive numbers up to one."""
    array = None if state is None else state.get(name)
    if array is None or array.dtype != np.float64 or array.shape != (count,):
        return None
    inside = np.isfinite(array).all() and _LIGHTEST < array.min() <= array.max() <= 1
    return array if inside else None


def saved_prior(state: Arrays | None, cells: int) -> FloatArray | None:
    """A positive distribution."""
    array = saved_shares(state, "prior", cells)
    try:
        return None if array is None else check_prior(array, cells)
    except NoisewrightError:
        return None


def saved_design(
    state: Arrays | None, cells: int, epsilon: float, name: str = "patterns"
) -> Design | None:
    """A design whose columns sum to one."""
    patterns = saved_patterns(state, cells, name)
    weights = None if patterns is None else saved_shares(state, "weights", len(patterns))
    if patterns is None or weights is None:
        return None
    design = Design(patterns, weights, epsilon)
    return design if np.abs(design.chances().sum(axis=0) - 1.0).max() <= _BALANCED else None


def saved_descent(state: Arrays | None, cells: int) -> tuple[FloatArray, FloatArray] | None:
    """Positions between the bounds, and low chances, of the rows under descent."""
    array = None if state is None else state.get("positions")
    if array is None or array.dtype != np.float64 or array.ndim != 2 or not array.size:
        return None
    weights = saved_shares(state, "weights", len(array))
    inside = array.shape[1] == cells and bool(((array >= 0) & (array <= 1)).all())
    return (array, weights) if inside and weights is not None else None
