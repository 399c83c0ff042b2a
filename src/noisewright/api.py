"""The front door: planning with the default counting engine handed in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from noisewright.domain import Domain
from noisewright.planning import make, store
from noisewright.privacy.budget import Privacy
from noisewright.workload import Workload


def plan(
    queries: Workload | str | Any,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    mechanism: str = "auto",
    domain: Domain | None = None,
) -> Any:
    """Plan answers to `queries` under `privacy`; nothing touches data until the plan is released.

    `queries` is a workload, its text form, or a matrix with one row per query. `error` is what to
    make small: "rmse", "max" or an exponent between 2 and infinity. With a `domain` (or questions
    that carry one), a plan can be released from a table of people; without one, from a histogram.
    """
    made = make.plan(queries, privacy, model=model, error=error, mechanism=mechanism, domain=domain)
    return _equipped(made)


def load(path: str | Path) -> Any:
    """Read a plan saved by `plan.save`."""
    return _equipped(store.load(path))


def _equipped(made: Any) -> Any:
    from noisewright.tables.engine import DuckDBCounter

    return replace(made, counter=DuckDBCounter())
