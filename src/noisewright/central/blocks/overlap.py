"""Whole tables measured side by side: overlapping counts combined without the domain.

Independent noise of equal variance on every cell of a table gives uncorrelated errors to its
interactions. So the best linear estimate from many tables takes every interaction T by itself: each
table S ⊇ T says it with variance ν_S²·Π_{i∈S∖T} n_i, and the estimates are weighted by precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.workload.linear.interactions import centred, subsets, table_of

Table = tuple[int, ...]
Components = dict[Table, FloatArray]


class Overlap:
    """How tables with given noise are combined, interaction by interaction."""

    def __init__(
        self,
        sizes: Sequence[int],
        tables: Sequence[Table],
        deviations: Sequence[float],
    ) -> None:
        self.sizes = tuple(sizes)
        self.tables = tuple(tables)
        precisions: dict[Table, list[tuple[int, float]]] = {}

        for number, (table, deviation) in enumerate(
            zip(tables, deviations, strict=True)
        ):
            for part in subsets(table):
                precision = 1.0 / (deviation**2 * self._cells(table, part))
                precisions.setdefault(part, []).append((number, precision))

        self.weights: dict[Table, list[tuple[int, float]]] = {}
        for part, pairs in precisions.items():
            total = sum(precision for _, precision in pairs)
            self.weights[part] = [
                (number, precision / total) for number, precision in pairs
            ]

    def _cells(self, table: Table, part: Table) -> int:
        return prod(self.sizes[i] for i in table if i not in part)

    def component_variances(self, units: Sequence[float]) -> dict[Table, float]:
        """Variance scale of every interaction when a cell of table k has variance `units[k]`."""
        return {
            part: sum(
                w**2 * units[k] * self._cells(self.tables[k], part) for k, w in pairs
            )
            for part, pairs in self.weights.items()
        }

    def components(self, measured: Sequence[Array]) -> Components:
        """The estimate of every interaction, as a table over its attributes (and a batch)."""
        result: Components = {}
        for part, pairs in self.weights.items():
            total: FloatArray = np.zeros(())
            for number, weight in pairs:
                table = self.tables[number]
                values = measured[number]
                shaped = values.reshape(
                    [self.sizes[i] for i in table] + list(values.shape[1:])
                )
                others = tuple(k for k, i in enumerate(table) if i not in part)
                total = total + weight * shaped.sum(axis=others)
            result[part] = centred(total, range(len(part)))

        return result

    def table(
        self, attributes: Table, components: Mapping[Table, FloatArray]
    ) -> FloatArray:
        """A marginal table from its interactions; what no table measures counts as zero."""
        return table_of(self.sizes, attributes, components)
