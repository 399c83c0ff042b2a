"""The same reports, decoded for another guess of how people are spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.listed.matrix import check_prior
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.reading import stored
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, IndexStrategy, Settings, Strategy
from noisewright.workload.base import FloatArray


@dataclass(frozen=True, eq=False)
class Decoded(IndexStrategy):
    """A strategy with listed reports whose estimate is the best for people spread as `guess`.

    Clients do the same as before, so privacy is untouched, and estimates stay unbiased whatever
    the data are: the guess only decides for which data they are best.
    """

    inner: IndexStrategy
    guess: FloatArray

    kind = "decoded"

    def __post_init__(self) -> None:
        object.__setattr__(self, "guess", check_prior(self.guess, self.inner.size))

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return self.inner.size

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """That of the reports."""
        return self.inner.epsilon

    @property
    def prior(self) -> FloatArray:
        """The guess."""
        return self.guess

    def express(self, nodes: Nodes) -> int:
        return self.inner.express(nodes)  # the guess is the estimator's, not the client's

    def parameters(self) -> tuple[Settings, Arrays]:
        """The strategy's own parameters, and the guess."""
        settings, arrays = pack(self.inner)
        return {"strategy": settings}, {**arrays, "guess": self.guess}

    @classmethod
    def from_parameters(cls, settings: Settings, arrays: Arrays) -> Decoded:
        """The strategy that `parameters` described."""
        own = {name: array for name, array in arrays.items() if name != "guess"}
        guess = stored(arrays, "guess", np.float64, (None,))
        return cls(_listed(unpack(settings["strategy"], own)), guess)


def _listed(strategy: Strategy) -> IndexStrategy:
    if not isinstance(strategy, IndexStrategy):
        raise InvalidParameter("strategy", strategy.kind, "must have reports that can be listed")
    return strategy
