"""The search for good ε-LDP strategies: dense, symmetric and ordered domains."""

from noisewright.local.optimise.control import Progress
from noisewright.local.optimise.outcome import Optimised
from noisewright.local.optimise.ways import LEVELS, optimise

__all__ = ["LEVELS", "Optimised", "Progress", "optimise"]
