"""The same reports, decoded for another guess of how people are spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.listed.matrix import check_prior
from noisewright.local.randomizer.specification import Nodes, Place
from noisewright.local.reading import stored
from noisewright.local.storage import described, restored
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

    def beside(self) -> tuple[Settings, Arrays]:
        settings, arrays = described(self.inner)
        return {"strategy": settings}, {**arrays, "guess": self.guess}

    @classmethod
    def restored(cls, place: Place, settings: Settings, arrays: Arrays) -> Decoded:
        guess = stored(arrays, "guess", np.float64, (place.cells,))
        return cls(_listed(restored(place, settings["strategy"], arrays)), guess)


def _listed(strategy: Strategy) -> IndexStrategy:
    if not isinstance(strategy, IndexStrategy):
        raise InvalidParameter("strategy", strategy.kind, "must have reports that can be listed")
    return strategy
