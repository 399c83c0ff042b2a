"""Finished strategies kept by what was asked, and snapshots of runs that were interrupted.

Files are safetensors with a JSON header: arrays and plain settings, nothing that runs. An entry is
as hostile as a plan: it must be of a kind that a search returns, its promise follows from its
chances and its error is worked out again, so that a damaged or forged file can cost time and
accuracy but never privacy.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noisewright.errors import NoisewrightError
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, Strategy
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import (
    Gram,
    IdentityGram,
    KronGram,
    MarginalGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
    XorGram,
)

CACHE_VARIABLE = "NOISEWRIGHT_CACHE"
_FORMAT = 3

RETURNED = {
    "optimised": ("matrix", "orbits", "coarse-fine", "randomized-response", "subset-selection"),
    "randomized-response": ("randomized-response",),
    "subset-selection": ("subset-selection",),
    "hadamard": ("hadamard",),
    "hierarchical": ("mixture", "tree-mixture"),
    "fourier": ("fourier",),
}
"""What a search returns: names of mechanisms, and the kinds of strategy that each may be."""


def default_folder() -> Path:
    """Where finished strategies are kept unless told otherwise."""
    told = os.environ.get(CACHE_VARIABLE)
    if told:
        return Path(told)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "noisewright"


def fingerprint(gram: Gram, *settings: object) -> str:
    """A name for a question: the Gram matrix by its structure, and everything that steers a run."""
    digest = hashlib.sha256(repr((_FORMAT, gram.size, *settings)).encode())
    digest.update(repr(_described(gram)).encode())
    return digest.hexdigest()


def _described(gram: Gram) -> tuple[object, ...]:
    """What a Gram matrix is made of, numbers to twelve digits, so that equal questions agree."""
    name = type(gram).__name__
    if isinstance(gram, MarginalGram):
        tables = sorted((tuple(sorted(table)), weight) for table, weight in gram.weights.items())
        return name, tuple(gram.sizes), tuple(tables)
    if isinstance(gram, SumGram):
        return name, *(_described(part) for part in gram.parts)
    if isinstance(gram, KronGram):
        return name, *(_described(factor) for factor in gram.factors)
    if isinstance(gram, ScaledGram):
        return name, gram.scale, _described(gram.inner)
    if isinstance(gram, IdentityGram | OnesGram | PrefixGram | RangesGram):
        return name, gram.size
    values = gram.eigenvalues if isinstance(gram, XorGram) else gram.dense()
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    digest = hashlib.sha256(np.round(values / scale, 12).tobytes()).hexdigest()
    return name, f"{scale:.12e}", digest


@dataclass(frozen=True)
class Kept:
    """A strategy, and the name of the mechanism that it is."""

    strategy: Strategy
    mechanism: str


@dataclass(frozen=True)
class Cache:
    """A folder of finished strategies, one file per question."""

    folder: Path

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def load(self, name: str) -> Kept | None:
        """The strategy kept under this name; None if there is none that can be trusted."""
        found = read(self._path(name))
        if found is None or found[0].get("question") != name:
            return None
        header, arrays = found
        try:
            strategy = unpack(header.get("strategy", {}), arrays)
        except NoisewrightError:
            return None
        mechanism = str(header.get("mechanism"))
        return Kept(strategy, mechanism) if strategy.kind in RETURNED.get(mechanism, ()) else None

    def save(self, name: str, strategy: Strategy, mechanism: str) -> None:
        """Keep a strategy; a folder that cannot be written is no reason to fail."""
        settings, arrays = pack(strategy)
        header = {"question": name, "strategy": settings, "mechanism": mechanism}
        write(self._path(name), header, arrays)


@dataclass(frozen=True)
class Checkpoint:
    """One file with the state of one run."""

    path: Path
    name: str

    def load(self) -> Arrays | None:
        """State of an interrupted run of the same question."""
        found = read(self.path)
        return None if found is None or found[0].get("question") != self.name else found[1]

    def save(self, stage: str, arrays: Arrays) -> None:
        """Keep the state, replacing the one before."""
        write(self.path, {"question": self.name, "stage": stage}, arrays)


def read(path: Path) -> tuple[dict[str, Any], Arrays] | None:
    """Header and arrays of a file; None where it is missing or unreadable."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            header = json.loads(file.metadata()["noisewright"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return (header, arrays) if isinstance(header, dict) else None


def write(path: Path, header: dict[str, Any], arrays: Arrays) -> None:
    """Write a file whole or not at all."""
    from safetensors.numpy import save

    contents = save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        metadata={"noisewright": json.dumps(header)},
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        Path(temporary).replace(path)
    except OSError:
        return


def prior_settings(prior: FloatArray | None) -> object:
    """A prior as part of a question's name."""
    return None if prior is None else hashlib.sha256(np.round(prior, 12).tobytes()).hexdigest()
