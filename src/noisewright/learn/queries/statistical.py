"""Who answers statistical queries: one oracle per model, with the people it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, require, unknown_name
from noisewright.learn.queries.oracle import (
    Demand,
    ExactOracle,
    Listed,
    Oracle,
    Respondents,
    SequentialOracle,
)
from noisewright.learn.queries.pan_private import PanPrivateOracle
from noisewright.privacy.promise.budget import Privacy

MODELS = ("exact", "sequential", "pan-private")


def statistical_queries(
    people: npt.ArrayLike | Respondents,
    privacy: Privacy | None = None,
    *,
    size: int,
    queries: int,
    tolerance: float,
    beta: float = 0.05,
    model: str = "sequential",
    together: int = 1,
    intrusions: int = 1,
) -> Oracle:
    """An oracle for so many queries over `size` cells, each answered to within `tolerance`.

    All answers are right with probability 1 − `beta`; `.people` says how many people that takes,
    `.ask(query)` and `.ask_together(queries)` answer. `people` are cells in the order in which they
    are asked or, with `model="sequential"`, anything with `respond(question, count)` that asks
    devices. With `model="exact"` they are shares of cells, and nothing is private.

    "sequential" is local privacy: a fresh person's randomised bit at a time. "pan-private" trusts a
    curator, whose memory may be seen once; up to `together` queries that do not depend on each
    other share people. With more `intrusions` the memory is the transcript of the local protocol.
    """
    demand = Demand(queries, tolerance, beta)
    if model not in MODELS:
        raise unknown_name("model", model, "is no oracle", MODELS)

    if model == "exact" and privacy is not None:
        rule = "cannot be kept by exact answers"
        raise InvalidParameter(
            "privacy", privacy.kind, rule, "leave it out, or take another model"
        )

    for name, value in (("together", together), ("intrusions", intrusions)):
        if value != 1 and model != "pan-private":
            rule = f"is a setting of the pan-private model, and this one is {model}"
            raise InvalidParameter(name, value, rule, "leave it out")

    if together != 1 and intrusions > 1:
        rule = "shares people in a memory that is seen once"
        raise InvalidParameter(
            "together", together, rule, "leave it out, or allow one intrusion"
        )

    require(
        not isinstance(intrusions, bool)
        and int(intrusions) == intrusions
        and intrusions >= 1,
        "intrusions",
        intrusions,
        "must be a whole number >= 1",
    )

    if model == "exact":
        if len(np.asarray(people)) != size:
            raise InvalidParameter(
                "people", len(np.asarray(people)), f"must be {size} shares"
            )
        return ExactOracle(np.asarray(people), demand)

    epsilon = _pure(privacy)
    asks = hasattr(people, "respond")
    respondents: Any = people if asks else Listed(people, size)  # type: ignore[arg-type]
    if model == "sequential" or intrusions > 1:
        return SequentialOracle(respondents, size, epsilon, demand)

    if asks:
        rule = "must be cells: a curator sees them one by one"
        raise InvalidParameter("people", type(people).__name__, rule)

    return PanPrivateOracle(respondents, size, epsilon, demand, together)


def _pure(privacy: Privacy | None) -> float:
    if privacy is None or privacy.kind != "pure" or privacy.epsilon is None:
        shown = None if privacy is None else privacy.kind
        raise InvalidParameter(
            "privacy", shown, "must be pure: an epsilon alone", "Privacy(1.0)"
        )
    return privacy.epsilon
