"""Finished strategies kept by what was asked, and snapshots of runs that were interrupted.

Files are safetensors with a JSON header: arrays and plain settings, nothing that runs. A strategy
read back is checked like any other (whole-number chances, exact privacy), so that a damaged or
forged file can cost time and accuracy but never privacy.
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
from noisewright.workload.gram import Gram

CACHE_VARIABLE = "NOISEWRIGHT_CACHE"
_FORMAT = 1
_DENSE_SIZE = 4096


def default_folder() -> Path:
    """Where finished strategies are kept unless told otherwise."""
    told = os.environ.get(CACHE_VARIABLE)
    if told:
        return Path(told)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "noisewright"


def fingerprint(gram: Gram, *settings: object) -> str:
    """A name for a question: the Gram matrix to twelve digits, and everything that steers a run."""
    digest = hashlib.sha256(repr((_FORMAT, gram.size, *settings)).encode())
    if gram.size <= _DENSE_SIZE:
        seen = gram.dense()
    else:
        # Too large to be written out: its images of a few fixed vectors, and its diagonal.
        probes = np.random.default_rng(0).standard_normal((gram.size, 4))
        seen = np.column_stack([np.asarray(gram.matvec(probes)), gram.diagonal()])
    scale = float(np.abs(seen).max(initial=0.0)) or 1.0
    digest.update(np.round(seen / scale, 12).tobytes())
    digest.update(repr(round(scale, 12 - int(np.ceil(np.log10(scale))))).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Kept:
    """A strategy with the figures of the run that found it."""

    strategy: Strategy
    facts: dict[str, Any]


@dataclass(frozen=True)
class Cache:
    """A folder of finished strategies, one file per question."""

    folder: Path

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def load(self, name: str) -> Kept | None:
        """The strategy kept under this name; None if there is none that can be trusted."""
        found = read(self._path(name))
        if found is None:
            return None
        header, arrays = found
        try:
            return Kept(unpack(header["strategy"], arrays), header["facts"])
        except (NoisewrightError, KeyError, ValueError, TypeError):
            return None

    def save(self, name: str, strategy: Strategy, facts: dict[str, Any]) -> None:
        """Keep a strategy; a folder that cannot be written is no reason to fail."""
        settings, arrays = pack(strategy)
        write(self._path(name), {"strategy": settings, "facts": facts}, arrays)


@dataclass(frozen=True)
class Checkpoint:
    """One file with the state of one run."""

    path: Path
    name: str

    def load(self) -> tuple[str, Arrays] | None:
        """Stage and state of an interrupted run of the same question."""
        found = read(self.path)
        if found is None or found[0].get("question") != self.name:
            return None
        return str(found[0].get("stage")), found[1]

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
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    return header, arrays


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
