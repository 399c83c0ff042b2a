"""Private answers to the queries you ask, close to the least noise of any linear method.

Names are imported on first use, so that `import noisewright` and `noisewright --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

# what type checkers and editors see; the names below do the same at run time
if TYPE_CHECKING:
    from noisewright import learn, local
    from noisewright.api import compare, explain, find_bounds, load, plan
    from noisewright.builder import table
    from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric, Unit
    from noisewright.errors import NoisewrightError
    from noisewright.ledger.book import Ledger
    from noisewright.local.choose.options import Local
    from noisewright.norm.approximate.approximate import approximate_norm
    from noisewright.norm.approximate.marginal_norm import marginal_norm
    from noisewright.norm.factorize import Factorization, factorize
    from noisewright.planning.after.further import combine, release_quantiles
    from noisewright.planning.after.postprocess import post_process
    from noisewright.planning.central.options import Central
    from noisewright.planning.plan import Forecast, Plan
    from noisewright.planning.release import Release
    from noisewright.planning.targets import Accuracy, Target
    from noisewright.planning.together import epsilon_of
    from noisewright.privacy.promise.budget import Privacy
    from noisewright.questions import (
        Moments,
        OpenQuestions,
        Pairs,
        RunningCount,
        Several,
        Stream,
        Sums,
        Values,
    )
    from noisewright.report import report
    from noisewright.workload import Workload, workload

__version__ = "0.1.0"

_ROOMS = ("learn", "local")  # public as a whole
_HOMES = {
    name: f"noisewright.{module}"
    for module, names in {
        "api": "compare explain find_bounds load plan",
        "builder": "table",
        "domain": "Boolean Categorical Date Domain Numeric Unit",
        "errors": "NoisewrightError",
        "ledger.book": "Ledger",
        "local.choose.options": "Local",
        "norm.approximate.approximate": "approximate_norm",
        "norm.approximate.marginal_norm": "marginal_norm",
        "norm.factorize": "Factorization factorize",
        "planning.after.further": "combine release_quantiles",
        "planning.plan": "Forecast Plan",
        "planning.after.postprocess": "post_process",
        "planning.release": "Release",
        "planning.targets": "Accuracy Target",
        "planning.together": "epsilon_of",
        "planning.central.options": "Central",
        "privacy.promise.budget": "Privacy",
        "questions": "Moments OpenQuestions Pairs RunningCount Several Stream Sums Values",
        "report": "report",
        "workload": "Workload workload",
    }.items()
    for name in names.split()
}

__all__ = [
    "Accuracy",
    "Boolean",
    "Categorical",
    "Central",
    "Date",
    "Domain",
    "Factorization",
    "Forecast",
    "Ledger",
    "Local",
    "Moments",
    "NoisewrightError",
    "Numeric",
    "OpenQuestions",
    "Pairs",
    "Plan",
    "Privacy",
    "Release",
    "RunningCount",
    "Several",
    "Stream",
    "Sums",
    "Target",
    "Unit",
    "Values",
    "Workload",
    "__version__",
    "approximate_norm",
    "combine",
    "compare",
    "epsilon_of",
    "explain",
    "factorize",
    "find_bounds",
    "learn",
    "load",
    "local",
    "marginal_norm",
    "plan",
    "post_process",
    "release_quantiles",
    "report",
    "table",
    "workload",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"noisewright.{name}")
    raise AttributeError(f"module 'noisewright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
