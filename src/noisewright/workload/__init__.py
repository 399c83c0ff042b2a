"""What is asked: workloads as implicit linear operators, their algebra and their text form."""

import sys
from types import ModuleType
from typing import Any

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
    from_linear_operator,
)
from noisewright.workload.base import Workload
from noisewright.workload.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.text import workload

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
    "Random",
    "Ranges",
    "Stack",
    "Total",
    "Weighted",
    "Workload",
    "from_linear_operator",
    "kron",
    "stack",
    "workload",
]


class _CallableModule(ModuleType):
    """Lets `nw.workload("prefix:64")` work although `workload` is also the name of this room."""

    def __call__(self, source: Any) -> Workload:
        return workload(source)


sys.modules[__name__].__class__ = _CallableModule
