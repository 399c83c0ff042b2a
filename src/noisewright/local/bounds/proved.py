"""Floors with a proof of their own, checked wherever they are stated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noisewright.arrays import Array
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.cuts.proof import CutProof
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.sets.proof import SetProof
from noisewright.local.bounds.tables.proof import TripleProof
from noisewright.local.bounds.trace import LowerBound
from noisewright.workload.base import Workload

MOST_LISTED = 1024
"""Cells of a workload whose Gram matrix is written out for a proof: only bounds memory and time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProvedBound(LowerBound):
    """A floor and the proof that it was computed from."""

    proof: Proof


def proved_bound(
    workload: Workload,
    epsilon: float,
    proof: Proof,
) -> ProvedBound:
    """The floor that a proof proves for a workload, whatever the proof was found for."""
    squares = workload.gram().diagonal()[proof.cells]
    gram = table_gram(workload).dense()
    return ProvedBound(
        name=proof.kind,
        variance=proof.variance(gram, epsilon),
        mean_square=float(proof.prior @ squares),
        size=workload.size,
        queries=workload.queries,
        proof=proof,
    )


def stored_proof(arrays: Mapping[str, Array]) -> Proof:
    """The proof in a file: nothing but numbers, which are checked when used."""
    kinds: tuple[type[Proof], ...] = (CutProof, TripleProof)
    for kind in kinds:
        if kind.layout.keys() <= arrays.keys():
            return kind.of(arrays)
    return SetProof.of(arrays)
