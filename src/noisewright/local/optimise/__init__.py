"""The best ε-LDP strategy for a workload: dense, symmetric and ordered domains."""

from noisewright.local.optimise.control import Progress
from noisewright.local.optimise.result import Optimised
from noisewright.local.optimise.run import LEVELS, optimise

__all__ = ["LEVELS", "Optimised", "Progress", "optimise"]
