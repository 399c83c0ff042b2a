"""Private answers to the queries you ask, close to the least noise of any linear method.

Names are imported on first use, so that `import noisewright` and `noisewright --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers and editors see; `_HOMES` below does the same at run time
    from noisewright.api import compare, load, plan, plan_for, plan_sums, plan_together
    from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric
    from noisewright.errors import NoisewrightError
    from noisewright.norm.approximate import approximate_norm
    from noisewright.norm.factorize import Factorization, factorize
    from noisewright.planning.plan import Forecast, Plan
    from noisewright.planning.postprocess import post_process
    from noisewright.planning.release import Release
    from noisewright.planning.released_quantiles import release_quantiles
    from noisewright.planning.stream import plan_stream
    from noisewright.planning.targets import Target
    from noisewright.planning.together import epsilon_of
    from noisewright.privacy.budget import Privacy
    from noisewright.report import report
    from noisewright.workload import Workload, workload

__version__ = "0.1.0"

_HOMES = {
    "Boolean": "noisewright.domain",
    "Categorical": "noisewright.domain",
    "Date": "noisewright.domain",
    "Domain": "noisewright.domain",
    "Factorization": "noisewright.norm.factorize",
    "Forecast": "noisewright.planning.plan",
    "NoisewrightError": "noisewright.errors",
    "Numeric": "noisewright.domain",
    "Plan": "noisewright.planning.plan",
    "Privacy": "noisewright.privacy.budget",
    "Release": "noisewright.planning.release",
    "Target": "noisewright.planning.targets",
    "Workload": "noisewright.workload",
    "approximate_norm": "noisewright.norm.approximate",
    "compare": "noisewright.api",
    "epsilon_of": "noisewright.planning.together",
    "factorize": "noisewright.norm.factorize",
    "load": "noisewright.api",
    "plan": "noisewright.api",
    "plan_for": "noisewright.api",
    "plan_sums": "noisewright.api",
    "plan_together": "noisewright.api",
    "plan_stream": "noisewright.planning.stream",
    "post_process": "noisewright.planning.postprocess",
    "release_quantiles": "noisewright.planning.released_quantiles",
    "report": "noisewright.report",
    "workload": "noisewright.workload",
}

__all__ = [
    "Boolean",
    "Categorical",
    "Date",
    "Domain",
    "Factorization",
    "Forecast",
    "NoisewrightError",
    "Numeric",
    "Plan",
    "Privacy",
    "Release",
    "Target",
    "Workload",
    "__version__",
    "approximate_norm",
    "compare",
    "epsilon_of",
    "factorize",
    "load",
    "plan",
    "plan_for",
    "plan_stream",
    "plan_sums",
    "plan_together",
    "post_process",
    "release_quantiles",
    "report",
    "workload",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'noisewright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
