"""Finished strategies kept by what was asked, and snapshots of runs that were interrupted.

A file is as hostile as a plan. A strategy must be of a kind that a search returns, its promise
follows from its chances and its error is worked out again; the state of a search must fit the
question and be made of numbers, and what comes out of it is rounded and checked exactly. So a
damaged or forged file can cost time and accuracy but never privacy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray
from noisewright.container import Header, digest, read, write
from noisewright.errors import NoisewrightError
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.proved import stored_proof
from noisewright.local.listed import check_prior
from noisewright.local.optimise.dense.design import Design
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, Strategy
from noisewright.workload.linear.gram import Gram

CACHE_VARIABLE = "NOISEWRIGHT_CACHE"
_FORMAT = 6  # a search of before found other strategies for the same question

RETURNED = {
    "optimised": (
        "matrix",
        "orbits",
        "coarse-fine",
        "randomized-response",
        "subset-selection",
    ),
    "randomized-response": ("randomized-response",),
    "subset-selection": ("subset-selection",),
    "hadamard": ("hadamard",),
    "hierarchical": ("decoded", "mixture", "tree-mixture"),
    "fourier": ("fourier",),
}
"""What a search returns: names of mechanisms, and the kinds of strategy that each may be."""

_LIGHTEST = 1e-30  # no search keeps less, and its inverse is still a number
_BALANCED = 1e-9
"""How far columns may be from one: what a matrix of chances may lack too."""


class KeptStrategy(Header, tag="local-strategy", frozen=True):
    """A finished strategy, and the name of the mechanism that it is."""

    question: str
    mechanism: str
    strategy: dict[str, Any]
    arrays: dict[str, Array]


class KeptProof(Header, tag="local-proof", frozen=True):
    """The proof found for a question: nothing but arrays, which are checked when used."""

    question: str
    arrays: dict[str, Array]


class Snapshot(Header, tag="local-search", frozen=True):
    """The state of a search, and how far it was."""

    question: str
    stage: str
    arrays: dict[str, Array]


def default_folder() -> Path:
    """Where finished strategies are kept unless another folder is named."""
    folder = os.environ.get(CACHE_VARIABLE)
    if folder:
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "noisewright"


def fingerprint(gram: Gram, *settings: object) -> str:
    """A name for a question: the Gram matrix by its structure, and everything that steers a run."""
    return digest(repr((_FORMAT, gram.size, _described((gram, *settings)))))


def _described(value: object) -> object:
    """What a value is made of, arrays to twelve digits, so that equal questions agree."""
    if isinstance(value, np.ndarray):
        scale = float(np.abs(value).max(initial=0.0)) or 1.0
        return f"{scale:.12e}", digest(np.round(value / scale, 12))

    if isinstance(value, Mapping):
        return tuple(sorted((tuple(sorted(key)), one) for key, one in value.items()))
    if isinstance(value, tuple):
        return tuple(map(_described, value))

    if is_dataclass(value):
        parts = (_described(getattr(value, field.name)) for field in fields(value))
        return type(value).__name__, *parts

    return value


@dataclass(frozen=True)
class Cache:
    """A folder of finished strategies, one file per question."""

    folder: Path

    def _path(self, question: str) -> Path:
        return self.folder / f"{question}.safetensors"

    def load(self, question: str) -> tuple[Strategy, str] | None:
        """The strategy kept for a question, and its mechanism; None where none can be trusted."""
        try:
            header = read(self._path(question), KeptStrategy)
            strategy = unpack(header.strategy, header.arrays)
        except NoisewrightError:
            return None

        known = header.question == question and strategy.kind in RETURNED.get(
            header.mechanism, ()
        )
        return (strategy, header.mechanism) if known else None

    def save(self, question: str, strategy: Strategy, mechanism: str) -> None:
        """Keep a strategy."""
        settings, arrays = pack(strategy)
        header = KeptStrategy(
            question=question, mechanism=mechanism, strategy=settings, arrays=arrays
        )
        _keep(self._path(question), header)

    def _proof_path(self, question: str) -> Path:
        return self.folder / f"{question}.proof.safetensors"

    def load_proof(self, question: str) -> Proof | None:
        """The proof kept for a question, whatever it proves; None where there is none."""
        with suppress(NoisewrightError):
            header = read(self._proof_path(question), KeptProof)
            return stored_proof(header.arrays) if header.question == question else None
        return None

    def save_proof(self, question: str, proof: Proof) -> None:
        """Keep a proof."""
        header = KeptProof(question=question, arrays=dict(vars(proof)))
        _keep(self._proof_path(question), header)


@dataclass(frozen=True)
class Checkpoint:
    """One file with the state of one run."""

    path: Path
    question: str

    def load(self) -> Arrays | None:
        """State of an interrupted run of the same question."""
        with suppress(NoisewrightError):
            header = read(self.path, Snapshot)
            return header.arrays if header.question == self.question else None
        return None

    def save(self, stage: str, arrays: Arrays) -> None:
        """Keep the state, replacing the one before."""
        header = Snapshot(question=self.question, stage=stage, arrays=arrays)
        _keep(self.path, header)


def _keep(path: Path, header: Header) -> None:
    """Write a file; a folder that cannot be written is no reason to fail."""
    with suppress(OSError, NoisewrightError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, header)


# --- the arrays of a state, or None where they do not fit -----------------------------------------


def saved_patterns(
    state: Arrays | None, cells: int, name: str = "patterns"
) -> BoolArray | None:
    """Subsets of cells, one a row."""
    array = None if state is None else state.get(name)
    fits = (
        array is not None and array.dtype == np.bool_ and array.ndim == 2 and array.size
    )
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
    weights = (
        None if patterns is None else saved_shares(state, "weights", len(patterns))
    )
    if patterns is None or weights is None:
        return None

    design = Design(patterns, weights, epsilon)
    return (
        design
        if np.abs(design.chances().sum(axis=0) - 1.0).max() <= _BALANCED
        else None
    )


def saved_descent(
    state: Arrays | None, cells: int
) -> tuple[FloatArray, FloatArray] | None:
    """Positions between the bounds, and low chances, of the rows under descent."""
    array = None if state is None else state.get("positions")
    if array is None or array.dtype != np.float64 or array.ndim != 2 or not array.size:
        return None
    weights = saved_shares(state, "weights", len(array))
    inside = array.shape[1] == cells and bool(((array >= 0) & (array <= 1)).all())
    return (array, weights) if inside and weights is not None else None
