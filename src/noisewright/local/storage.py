"""Strategies to and from plain settings and arrays: what plan files hold."""

from __future__ import annotations

from importlib import import_module

from noisewright.errors import FileFormatError
from noisewright.local.strategy import Arrays, Settings, Strategy

HOMES = {
    "matrix": "noisewright.local.dense:MatrixStrategy",
    "randomized-response": "noisewright.local.response:RandomizedResponse",
    "subset-selection": "noisewright.local.sets:SubsetSelection",
    "listed-subsets": "noisewright.local.sets:ListedSubsets",
    "unary": "noisewright.local.unary:UnaryEncoding",
    "hadamard": "noisewright.local.hadamard:HadamardResponse",
    "local-hashing": "noisewright.local.hashing:LocalHashing",
    "fourier": "noisewright.local.fourier:Fourier",
    "vector": "noisewright.local.vector:VectorStrategy",
    "codebook": "noisewright.local.codebook:Codebook",
    "union": "noisewright.local.union:Union",
    "parts": "noisewright.local.parts:Parts",
    "tree-mixture": "noisewright.local.hierarchical:TreeMixture",
    "mixture": "noisewright.local.mixture:Mixture",
    "decoded": "noisewright.local.prior:Decoded",
    "orbits": "noisewright.local.optimise.orbits:OrbitStrategy",
    "coarse-fine": "noisewright.local.optimise.ordered:CoarseFine",
}
"""Where the class of each kind lives; a plan file can name nothing else."""


def pack(strategy: Strategy) -> tuple[Settings, Arrays]:
    """Settings, with the kind among them, and arrays that rebuild the strategy."""
    settings, arrays = strategy.parameters()
    return {"kind": strategy.kind, **settings}, arrays


def unpack(settings: Settings, arrays: Arrays) -> Strategy:
    """The strategy that `pack` described."""
    kind = settings.get("kind")
    if kind not in HOMES:
        raise FileFormatError(f"strategy kind {kind!r} is not known to this release")
    module, name = HOMES[str(kind)].split(":")
    maker: type[Strategy] = getattr(import_module(module), name)
    try:
        return maker.from_parameters(settings, arrays)
    except (KeyError, TypeError, IndexError) as error:
        raise FileFormatError(f"the parameters of strategy {kind!r} are incomplete") from error
