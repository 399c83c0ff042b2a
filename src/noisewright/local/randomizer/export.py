"""What a plan hands to clients in other languages: its specification and what begins a report."""

from __future__ import annotations

from typing import Any

import msgspec

from noisewright.errors import InvalidParameter
from noisewright.local.randomizer.express import specification_of
from noisewright.local.randomizer.laws import Grid
from noisewright.local.randomizer.specification import Specification, encode
from noisewright.local.randomizer.verify import Promise, verify
from noisewright.local.reports.format import ReportFormat


def exported(format: ReportFormat) -> dict[str, Any]:
    """The document of `noisewright client PLAN --specification`, ready for JSON."""
    specification, promise = kept_promise(format)
    ratio = promise.ratio and [str(promise.ratio.numerator), str(promise.ratio.denominator)]
    return {
        "format": "noisewright-client",
        "version": 1,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "ratio": ratio,
        "exact": promise.exact,
        "continuous_noise": has_continuous_noise(specification),
        "cells": str(specification.cells),
        "header": format.header.hex(),
        "digest": specification.digest,
        "specification": msgspec.json.decode(encode(specification)),
    }


def kept_promise(format: ReportFormat) -> tuple[Specification, Promise]:
    """A plan's specification and what it spends, which is not more than the plan promised."""
    specification = specification_of(format.strategy, format.meaning)
    promise = verify(specification)
    stated = format.strategy.epsilon, format.strategy.delta
    if promise.epsilon > stated[0] or promise.delta > stated[1]:
        raise InvalidParameter(
            "epsilon",
            stated,
            f"is less than what clients spend: {promise.epsilon}, {promise.delta}",
            "plan again",
        )
    return specification, promise


def has_continuous_noise(specification: Specification) -> bool:
    """Whether some law rounds a real number, which clients in other languages do not run."""
    return any(isinstance(n, Grid) and n.law == "rounded-gaussian" for n in specification.laws)
