"""What is asked: workloads as implicit linear operators, their algebra and their text form."""

from noisewright.modules import make_callable
from noisewright.workload.algebra import Kron, Stack, Weighted, kron, stack
from noisewright.workload.atoms import (
    Atom,
    Explicit,
    Identity,
    Parity,
    Prefix,
    Random,
    Ranges,
    Total,
)
from noisewright.workload.base import Workload
from noisewright.workload.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.text import Queries, workload

__all__ = [
    "AllMarginals",
    "Atom",
    "Explicit",
    "Identity",
    "Kron",
    "Marginals",
    "OnAttributes",
    "Parity",
    "Prefix",
    "Queries",
    "Random",
    "Ranges",
    "Stack",
    "Total",
    "Weighted",
    "Workload",
    "kron",
    "stack",
    "workload",
]

make_callable(__name__, workload)
