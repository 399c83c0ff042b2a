"""Strategies to and from plain settings and arrays: what plan files hold."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from noisewright.errors import FileFormatError, refusing
from noisewright.local.randomizer.specification import Place, decode, encode
from noisewright.local.reading import stored
from noisewright.local.strategy import Arrays, Settings, Strategy

HOMES = {
    "matrix": "noisewright.local.listed:MatrixStrategy",
    "randomized-response": "noisewright.local.histogram.sets:RandomizedResponse",
    "subset-selection": "noisewright.local.histogram.sets:SubsetSelection",
    "listed-subsets": "noisewright.local.histogram.sets:ListedSubsets",
    "unary": "noisewright.local.histogram.unary:UnaryEncoding",
    "hadamard": "noisewright.local.transform.hadamard:HadamardResponse",
    "local-hashing": "noisewright.local.histogram.hashing:LocalHashing",
    "fourier": "noisewright.local.transform.fourier:Fourier",
    "vector": "noisewright.local.vector.noisy_columns:VectorStrategy",
    "codebook": "noisewright.local.vector.codebook:Codebook",
    "union": "noisewright.local.composed.union:Union",
    "parts": "noisewright.local.composed.parts:Parts",
    "tree-mixture": "noisewright.local.composed.hierarchical:TreeMixture",
    "mixture": "noisewright.local.composed.mixture:Mixture",
    "decoded": "noisewright.local.listed:Decoded",
    "orbits": "noisewright.local.transform.orbits:OrbitStrategy",
    "coarse-fine": "noisewright.local.composed.coarse_fine:CoarseFine",
}
"""Where the class of each kind lives; a plan file can name nothing else."""


SPECIFICATION = "specification"
"""The array that holds the bytes of what clients do."""


def pack(strategy: Strategy) -> tuple[Settings, Arrays]:
    """Settings and arrays that rebuild the strategy: its specification, and what is beside it."""
    settings, arrays = described(strategy)
    text = np.frombuffer(encode(strategy.specification), dtype=np.uint8)
    return settings, {**arrays, SPECIFICATION: text}


def unpack(settings: Settings, arrays: Arrays) -> Strategy:
    """The strategy that `pack` described: it does what the specification says, and is private.

    A file may come from anybody. Its specification is read strictly and verified; the strategy made
    of it must write the very same one.
    """
    if SPECIFICATION not in arrays:
        raise FileFormatError(
            "the strategy has no specification of its clients; plan again"
        )

    text = stored(arrays, SPECIFICATION, np.uint8, (None,))
    with refusing("the strategy is incomplete or damaged"):
        specification = decode(text.tobytes())
        strategy = restored(
            Place(specification, len(specification.nodes) - 1), settings, arrays
        )
        if strategy.specification != specification:
            raise FileFormatError(
                f"the specification is not that of a strategy of kind {strategy.kind!r}; plan again"
            )
        strategy.check_loss()

    return strategy


def described(strategy: Strategy) -> tuple[Settings, Arrays]:
    """What there is beside the specification, with the kind and the stated ε."""
    settings, arrays = strategy.beside()
    return {"kind": strategy.kind, "epsilon": strategy.epsilon, **settings}, arrays


def restored(place: Place, settings: Settings, arrays: Arrays) -> Strategy:
    """The strategy of the kind that the settings name, from a place of a specification."""
    kind = settings.get("kind") if isinstance(settings, dict) else None
    if not isinstance(kind, str) or kind not in HOMES:
        raise FileFormatError(
            f"strategy kind {str(kind)[:40]!r} is not known to this release"
        )

    module, name = HOMES[kind].split(":")
    maker: type[Strategy] = getattr(import_module(module), name)
    return maker.restored(place, settings, arrays)
