"""Tables that sort people: every person is in exactly one group of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.mechanism import Table
from noisewright.errors import (
    InvalidParameter,
    OutOfReach,
    TooLarge,
    require,
)
from noisewright.workload.base import Workload
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.linear.tensor import spread
from noisewright.workload.structure import Term

MOST_CELLS = 2**16
"""Cells up to which groups of the whole domain are combined with each other."""

_MOST_ENTRIES = 2**24  # of the weights of groups in answers: 128 MB
# of a query's size: what it may differ by and still be told by the groups
_EXACT = 1e-9


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of the cells of some attributes: each cell by itself, or as `labels` say."""

    attributes: tuple[int, ...]
    cells: int
    labels: IntArray | None = None

    def __post_init__(self) -> None:
        if self.labels is None:
            return

        labels = self.labels
        require(
            labels.shape == (self.cells,) and labels.dtype == np.int64 and self.cells,
            "labels",
            labels.shape,
            "must be one whole number per cell",
        )
        if set(np.unique(labels).tolist()) != set(range(int(labels.max()) + 1)):
            raise InvalidParameter(
                "labels",
                int(labels.max()),
                "must number the groups from zero",
            )

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.cells if self.labels is None else int(self.labels.max()) + 1

    @property
    def table(self) -> Table:
        """The exact table that is read."""
        return Table(self.attributes)

    def totals(self, table: IntArray) -> IntArray:
        """People in every group, from the table."""
        if self.labels is None:
            return table.ravel()
        result = np.zeros(self.groups, dtype=np.int64)
        np.add.at(result, self.labels, table.ravel())
        return result

    def indicators(self, sizes: Sequence[int]) -> FloatArray:
        """Cells of the whole domain (columns) in each group (rows), less its share of all."""
        labels = np.arange(self.cells) if self.labels is None else self.labels
        groups = spread(labels, sizes, self.attributes)
        return np.asarray((groups == np.arange(self.groups)[:, None]) - 1 / self.groups)


def by_value(rows: FloatArray, most: int) -> list[IntArray] | None:
    """Cells sorted by what each query says of them, each sorting once; None for too many values."""
    labels: dict[bytes, IntArray] = {}
    for row in rows:
        _, first, inverse = np.unique(row, return_index=True, return_inverse=True)
        if len(first) > most:
            return None
        number = np.empty(len(first), dtype=np.int64)
        # by first appearance: names are equal
        number[np.argsort(first)] = np.arange(len(first))
        if len(first) > 1:
            grouping = np.ascontiguousarray(number[inverse.ravel()])
            labels[grouping.tobytes()] = grouping

    return list(labels.values())


@dataclass(frozen=True, eq=False)
class Reading:
    """How answers follow from the number of people and from groups less their mean.

    `variances` are those of the number of people and of the groups of each partition: a group less
    the mean has variance v(1 - 1/groups).
    """

    sizes: tuple[int, ...]
    parts: tuple[Partition, ...]
    variances: tuple[float, ...]

    def of(self, terms: Sequence[Term]) -> tuple[FloatArray, FloatArray]:
        """Weights of the number of people (a column) and of all groups in every answer."""
        queries = sum(t.queries for t in terms)
        groups = sum(part.groups for part in self.parts)
        if queries * (groups + 1) > _MOST_ENTRIES:
            raise TooLarge(
                f"{queries} answers from {groups} groups are too many for K-norm noise"
            )

        direct = [self._directly(term) for term in terms]
        pairs = [
            self._combined(term) if weights is None else weights
            for weights, term in zip(direct, terms, strict=True)
        ]
        return np.concatenate([a for a, _ in pairs]), np.vstack([b for _, b in pairs])

    @property
    def agrees(self) -> bool:
        """Whether answers that overlap agree: none do where tables are read one by one."""
        small = prod(self.sizes) <= MOST_CELLS
        return small or all(self._apart(part) for part in self.parts)

    def _directly(self, term: Term) -> tuple[FloatArray, FloatArray] | None:
        """From the term's own table, where that is measured and nothing else tells of it."""
        weights = np.zeros((term.queries, sum(part.groups for part in self.parts)))
        if not term.attributes:
            return term.weight * np.ravel(term.inner.dense()), weights

        start = 0
        for part in self.parts:
            if (
                part.labels is None
                and part.attributes == term.attributes
                and self._alone(part)
            ):
                rows = term.weight * term.inner.dense()
                weights[:, start : start + part.groups] = rows
                return rows.sum(axis=1) / part.groups, weights
            start += part.groups

        return None

    def _alone(self, part: Partition) -> bool:
        """Whether no other partition tells of the same attributes, or too many cells to combine."""
        return self._apart(part) or prod(self.sizes) > MOST_CELLS

    def _apart(self, part: Partition) -> bool:
        others = [set(p.attributes) for p in self.parts if p is not part]
        return all(other.isdisjoint(part.attributes) for other in others)

    @cached_property
    def _design(self) -> tuple[FloatArray, FloatArray]:
        """All that is measured over the cells in units of its noise, and its pseudo-inverse."""
        if prod(self.sizes) > MOST_CELLS:
            raise OutOfReach("K-norm noise answers its own tables over so many cells")

        scaled = [
            part.indicators(self.sizes) / np.sqrt(variance)
            for part, variance in zip(self.parts, self.variances[1:], strict=True)
        ]
        people = self.variances[0]
        cells = prod(self.sizes)
        if people:
            scaled.append(np.full((1, cells), 1 / np.sqrt(people)))

        design = np.vstack(scaled)
        # a public number of people: what is the same in all cells is free
        if not people:
            design = design - design.mean(axis=1, keepdims=True)

        gram = design @ design.T
        return design, np.linalg.pinv(gram, rcond=1e-12, hermitian=True)

    def _combined(self, term: Term) -> tuple[FloatArray, FloatArray]:
        """The least variance that all partitions together allow."""
        design, inverse = self._design
        whole: Workload = OnAttributes(self.sizes, term.attributes, term.inner)
        raw = (
            np.asarray(term.weight * whole.matvec(design.T), dtype=np.float64) @ inverse
        )
        groups = sum(part.groups for part in self.parts)
        scale = np.repeat(
            np.sqrt(self.variances[1:]),
            [part.groups for part in self.parts],
        )
        weights = raw[:, :groups] / scale
        if self.variances[0]:
            people = raw[:, groups] / np.sqrt(self.variances[0])
        else:
            ones = np.ones(prod(self.sizes))
            indicators = np.vstack([part.indicators(self.sizes) for part in self.parts])
            answered = weights @ indicators.mean(axis=1)
            people = term.weight * whole.matvec(ones) / len(ones) - answered

        self._check(term, whole, people, weights)
        return people, weights

    def _check(
        self,
        term: Term,
        whole: Workload,
        people: FloatArray,
        weights: FloatArray,
    ) -> None:
        """Refuse queries that the groups do not determine: they would come out wrong, not noisy."""
        probe = np.random.default_rng(0).standard_normal((prod(self.sizes), 4))
        truth = term.weight * whole.matvec(probe)
        indicators = np.vstack([part.indicators(self.sizes) for part in self.parts])
        answered = np.outer(people, probe.sum(axis=0)) + weights @ (indicators @ probe)
        size = np.abs(truth).max(initial=0.0) + np.abs(people).max(initial=0.0)
        if np.abs(truth - answered).max(initial=0.0) > _EXACT * max(size, 1e-300) * 1e3:
            raise OutOfReach(
                "the groups measured do not tell all that is asked; plan for it"
            )
