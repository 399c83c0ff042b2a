"""Strategies to and from plain settings and arrays: what plan files hold."""

from __future__ import annotations

from importlib import import_module

from noisewright.errors import FileFormatError, refusing
from noisewright.local.strategy import Arrays, Settings, Strategy

HOMES = {
    "matrix": "noisewright.local.listed.matrix:MatrixStrategy",
    "randomized-response": "noisewright.local.histogram.response:RandomizedResponse",
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
    "decoded": "noisewright.local.listed.decoded:Decoded",
    "orbits": "noisewright.local.optimise.orbits.strategy:OrbitStrategy",
    "coarse-fine": "noisewright.local.optimise.ordered.coarse_fine:CoarseFine",
}
"""Where the class of each kind lives; a plan file can name nothing else."""


def pack(strategy: Strategy) -> tuple[Settings, Arrays]:
    """Settings, with the kind among them, and arrays that rebuild the strategy."""
    settings, arrays = strategy.parameters()
    return {"kind": strategy.kind, **settings}, arrays


def unpack(settings: Settings, arrays: Arrays) -> Strategy:
    """The strategy that `pack` described."""
    kind = settings.get("kind") if isinstance(settings, dict) else None
    if not isinstance(kind, str) or kind not in HOMES:
        raise FileFormatError(f"strategy kind {str(kind)[:40]!r} is not known to this release")
    module, name = HOMES[kind].split(":")
    maker: type[Strategy] = getattr(import_module(module), name)
    with refusing(f"the parameters of strategy {kind!r} are incomplete or damaged"):
        return maker.from_parameters(settings, arrays)
