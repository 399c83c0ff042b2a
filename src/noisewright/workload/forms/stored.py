"""Workloads as files hold them: their text where that says all, else their parts, by type."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import msgspec

from noisewright.arrays import Array
from noisewright.domain import Domain
from noisewright.workload.base import Workload
from noisewright.workload.forms.text import workload as parse
from noisewright.workload.kinds.algebra import Kron, Stack, Weighted
from noisewright.workload.kinds.conjunctions import Conjunctions
from noisewright.workload.kinds.explicit import Explicit, Random
from noisewright.workload.kinds.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.questions.spec import Questions, questions


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="form"):
    """The parts of a workload that has no text."""

    def workload(self) -> Workload:
        """The workload again, checked like a new one."""
        raise NotImplementedError


class _Questions(_Form, frozen=True, tag="questions"):
    queries: str
    domain: dict[str, Any]

    def workload(self) -> Workload:
        return questions(self.queries, Domain.from_dict(self.domain))


class _Matrix(_Form, frozen=True, tag="matrix"):
    matrix: Array
    names: tuple[str, ...] | None

    def workload(self) -> Workload:
        return Explicit(self.matrix, self.names)


class _Sparse(_Form, frozen=True, tag="sparse"):
    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]
    names: tuple[str, ...] | None

    def workload(self) -> Workload:
        from scipy.sparse import csr_array

        parts = (self.data, self.indices, self.indptr)
        return Explicit(csr_array(parts, shape=self.shape), self.names)


class _Kron(_Form, frozen=True, tag="kron"):
    factors: tuple[StoredWorkload, ...]

    def workload(self) -> Workload:
        return Kron(tuple(map(restored_workload, self.factors)))


class _Stack(_Form, frozen=True, tag="stack"):
    parts: tuple[StoredWorkload, ...]

    def workload(self) -> Workload:
        return Stack(tuple(map(restored_workload, self.parts)))


class _Weighted(_Form, frozen=True, tag="weighted"):
    weight: float
    inner: StoredWorkload

    def workload(self) -> Workload:
        return Weighted(self.weight, restored_workload(self.inner))


class _OnAttributes(_Form, frozen=True, tag="attributes"):
    sizes: tuple[int, ...]
    attributes: tuple[int, ...]
    inner: StoredWorkload

    def workload(self) -> Workload:
        return OnAttributes(self.sizes, self.attributes, restored_workload(self.inner))


class _Marginals(_Form, frozen=True, tag="marginals"):
    bases: tuple[StoredWorkload, ...]
    tables: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]

    def workload(self) -> Workload:
        bases = tuple(map(restored_workload, self.bases))
        return Marginals(bases, self.tables, self.weights)


StoredWorkload = (
    str
    | _Questions
    | _Matrix
    | _Sparse
    | _Kron
    | _Stack
    | _Weighted
    | _OnAttributes
    | _Marginals
)
"""What a file holds of a workload."""


def restored_workload(stored: StoredWorkload) -> Workload:
    """The workload that `stored_workload` described."""
    return parse(stored) if isinstance(stored, str) else stored.workload()


@singledispatch
def stored_workload(workload: Workload) -> StoredWorkload:
    """What a file holds of a workload."""
    return workload.text()


@stored_workload.register
def _stored_questions(workload: Questions) -> StoredWorkload:
    return _Questions(workload.spec, workload.domain.to_dict())


@stored_workload.register
def _stored_matrix(workload: Explicit) -> StoredWorkload:
    sparse = workload.sparse
    if sparse is None:
        return _Matrix(workload.matrix, workload.names)

    parts = sparse.data, sparse.indices, sparse.indptr
    return _Sparse(*parts, workload.shape, workload.names)


@stored_workload.register
def _stored_product(workload: Kron) -> StoredWorkload:
    return _Kron(tuple(map(stored_workload, workload.factors)))


@stored_workload.register
def _stored_stack(workload: Stack) -> StoredWorkload:
    return _Stack(tuple(map(stored_workload, workload.parts)))


@stored_workload.register
def _stored_weighted(workload: Weighted) -> StoredWorkload:
    return _Weighted(workload.weight, stored_workload(workload.inner))


@stored_workload.register
def _stored_on_attributes(workload: OnAttributes) -> StoredWorkload:
    inner = stored_workload(workload.inner)
    return _OnAttributes(workload.sizes, workload.attributes, inner)


@stored_workload.register
def _stored_marginals(workload: Marginals) -> StoredWorkload:
    bases = tuple(map(stored_workload, workload.bases))
    return _Marginals(bases, workload.tables, workload.weights)


@stored_workload.register(Random)
@stored_workload.register(AllMarginals)
@stored_workload.register(Conjunctions)
def _stored_by_name(workload: Workload) -> StoredWorkload:
    return workload.text()
