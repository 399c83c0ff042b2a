"""Private answers to the queries you ask, with the least noise that privacy allows.

Names are imported on first use, so that `import noisewright` and `noisewright --help` stay quick.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_HOMES = {
    "Boolean": "noisewright.domain",
    "Categorical": "noisewright.domain",
    "Date": "noisewright.domain",
    "Domain": "noisewright.domain",
    "Factorization": "noisewright.norm.result",
    "NoisewrightError": "noisewright.errors",
    "Numeric": "noisewright.domain",
    "Privacy": "noisewright.privacy.budget",
    "Workload": "noisewright.workload",
    "Target": "noisewright.planning.targets",
    "approximate_norm": "noisewright.norm.approximate",
    "compare": "noisewright.api",
    "factorize": "noisewright.norm.factorize",
    "load": "noisewright.api",
    "plan": "noisewright.api",
    "plan_for": "noisewright.api",
    "report": "noisewright.report",
    "workload": "noisewright.workload",
}

__all__ = ["__version__"]
__all__ += list(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'noisewright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
