"""What a plan hands to clients in other languages: its specification and what begins a report."""

from __future__ import annotations

from typing import Any

import msgspec

from noisewright.local.randomizer.laws import Grid
from noisewright.local.randomizer.specification import Specification, decode, encode
from noisewright.local.reports.format import ReportFormat


def exported(format: ReportFormat) -> dict[str, Any]:
    """The document of `noisewright client PLAN --specification`, ready for JSON."""
    # Read back, so that what was written here is held to the rules for what anybody wrote.
    specification = decode(encode(format.specification))
    format.strategy.check_loss()
    loss = format.strategy.loss
    return {
        "format": "noisewright-client",
        "version": 1,
        "epsilon": loss.epsilon,
        "delta": loss.delta,
        "ratio": loss.ratio and [str(loss.ratio.numerator), str(loss.ratio.denominator)],
        "exact": loss.exact,
        "continuous_noise": has_continuous_noise(specification),
        "cells": str(specification.cells),
        "header": format.header.hex(),
        "digest": specification.digest,
        "specification": msgspec.json.decode(encode(specification)),
    }


def has_continuous_noise(specification: Specification) -> bool:
    """Whether some law rounds a real number, which clients in other languages do not run."""
    return any(isinstance(n, Grid) and n.law == "rounded-gaussian" for n in specification.laws)
