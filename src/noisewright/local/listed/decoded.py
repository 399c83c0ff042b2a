"""The same reports, decoded for another guess of how people are spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.local.listed.matrix import check_prior
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.reading import stored
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, IndexStrategy, IntArray, Settings, Strategy
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray


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

    @property
    def outputs(self) -> int:
        """Number of different reports."""
        return self.inner.outputs

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """What the clients of the strategy send."""
        return self.inner.sample(values, source)

    def valid(self, reports: Array) -> npt.NDArray[np.bool_]:
        """Reports that the strategy could have produced."""
        return self.inner.valid(reports)

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of reports `start` to `stop`."""
        return self.inner.rows(start, stop)

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
