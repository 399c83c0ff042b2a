"""What is asked: workloads as implicit linear operators, their algebra and their text form."""

from noisewright.display import make_callable
from noisewright.workload.base import Workload
from noisewright.workload.forms.text import Queries, workload
from noisewright.workload.kinds.algebra import Kron, Stack, Weighted, kron, stack
from noisewright.workload.kinds.atoms import Atom, Identity, Prefix, Ranges, Total
from noisewright.workload.kinds.explicit import Explicit, Random
from noisewright.workload.kinds.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.kinds.parity import Parity

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
