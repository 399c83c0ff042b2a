"""What counting engines share, whatever they count with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain import Domain
from noisewright.planning.counting import CellsToBytes, Counter, Source
from noisewright.workload.questions.measures import COUNT


class Engine(Counter):
    """A counting engine: what some of its answers follow from is answered once."""

    @abstractmethod
    def cells(self, source: Source, domain: Domain) -> Iterator[IntArray]:
        """The flat cell of every row, in batches and in the table's order."""

    def marginals(
        self, source: Source, domain: Domain, subsets: Sequence[tuple[str, ...]]
    ) -> list[IntArray]:
        """One flat array of counts of people per subset of attributes."""
        return self.tables(source, domain, [(subset, COUNT) for subset in subsets])

    def tallies(
        self, source: Source, domain: Domain, tally: CellsToBytes
    ) -> list[bytes]:
        return [tally(self.cells(source, domain))]

    def rows(self, source: Source, columns: Sequence[str]) -> Iterator[FloatArray]:
        from noisewright.tables.rows import numeric_rows

        return numeric_rows(source, columns)
