"""Lower bounds on the error of any linear strategy for a family of product queries.

Cell weights b = ⊗b_i prove that no linear strategy has total variance below (tr N^½)²,
N = D_b^½ M D_b^½. Per attribute, u = √b_i and a basis of its complement turn the Gram matrix into
[[g, cᵀ], [c, H]]; attributes with c = 0 (plain counts) split off exactly. The rest (see `coupled`)
is one dense eigenproblem where it is small, or an arrow. Where it is neither, N is replaced by
something below it in the order of positive semidefinite matrices,
[[g, cᵀ], [c, H]] ⪰ diag(x, H − ccᵀ/(g − x)): every block then stands alone; `commuting` may know
better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from noisewright.central.gaussian.commuting import commuting_bound
from noisewright.central.gaussian.coupled import (
    CoupledTerms,
    Parts,
    arrow_nuclear,
    closure,
    dense,
    dimension,
    largest_tables,
    split_kind,
)
from noisewright.central.gaussian.mixed import MixedDesign
from noisewright.central.gaussian.product_families import Family, Table
from noisewright.norm.certificate import nuclear_from_gram
from noisewright.workload.base import FloatArray

DENSE_LIMIT = 1600
"""Coordinates up to which coupled attributes are one dense eigenproblem."""

CORE_LIMIT = 1000
"""Coordinates of the smaller tables up to which the largest ones are eliminated."""

_MARGIN = 1e-12  # rounding of sums and products of weights
_WORK_LIMIT = 3e10  # sum of cubed dimensions: some tens of seconds


def lower_bound(design: MixedDesign, neighbours: str = "add-remove") -> float:
    """A certified lower bound on the value of the design's family, in the same units."""
    family = design.family
    parts = [split_kind(kind.gram, design.dual[kind.group]) for kind in family.kinds]
    public = neighbours == "replace-one"
    scale = _pairs_scale(design) if public else 1.0
    joint = _joint_bound(family, parts, public)
    if joint is None:
        found = max(scale * _separate_bound(family, parts, public), commuting_bound(family, public))
    else:
        found = scale * joint
    return found * (1 - _MARGIN) / float(np.sqrt(family.queries))


def _pairs_scale(design: MixedDesign) -> float:
    """Pairs of cells weighted by b_j·b_k: their Laplacian is D_b − bbᵀ over (1 − Σb²)/2.

    So √b, the total's own direction, drops out of N, and the rest is scaled.
    """
    used = {i for block in design.family.blocks for i in block}
    alike = [float(np.sum((b / b.sum()) ** 2)) for b in design.dual]
    return float(np.sqrt(2 / (1 - np.prod([alike[design.family.groups[i]] for i in used]))))


def _joint_bound(
    family: Family, parts: Sequence[Parts], public_total: bool = False
) -> float | None:
    """Σ over interactions of plain attributes of the nuclear norm over the coupled ones."""
    counted: dict[tuple[CoupledTerms, bool], float] = defaultdict(float)
    for block, terms, multiplicity in _problems(family, parts):
        counted[terms, public_total and not block] += multiplicity
    sizes = [_eigenproblem(family, terms) for terms, _ in counted]
    if any(size is None for size in sizes):
        return None
    if sum(size**3 for size in sizes if size is not None) > _WORK_LIMIT:
        return None
    return sum(
        multiplicity * _nuclear(family, parts, terms, without_total)
        for (terms, without_total), multiplicity in counted.items()
    )


def _eigenproblem(family: Family, terms: CoupledTerms) -> int | None:
    """Dimension of the dense matrix that a problem needs; None where it is too large."""
    blocks = closure(terms)
    whole = dimension(family, blocks)
    if whole <= DENSE_LIMIT:
        return whole
    largest = largest_tables(terms)
    core = None if largest is None else whole - dimension(family, largest)
    return core if core is not None and core <= CORE_LIMIT else None


def _nuclear(
    family: Family, parts: Sequence[Parts], terms: CoupledTerms, without_total: bool
) -> float:
    blocks = [block for block in closure(terms) if block or not without_total]
    if dimension(family, blocks) <= DENSE_LIMIT:
        return nuclear_from_gram(dense(family, parts, terms, blocks)) if blocks else 0.0
    largest = largest_tables(terms)
    assert largest is not None
    return arrow_nuclear(family, parts, terms, largest, without_total)


def _problems(family: Family, parts: Sequence[Parts]) -> list[tuple[Table, CoupledTerms, float]]:
    """Interactions of plain attributes, each with the coupled terms left and its multiplicity."""
    plain = _plain_groups(family, parts)
    found: dict[Table, dict[tuple[Table, tuple[int, ...]], float]] = {}
    for pair in range(len(family.pair_block)):
        term = family.terms[family.pair_term[pair]]
        block = family.blocks[family.pair_block[pair]]
        if any(family.groups[i] not in plain for i in block):
            continue
        weight, coupled, kinds = term.weight**2, [], []
        for i, k in zip(term.attributes, family.pair_kinds[pair], strict=False):
            part = parts[int(k)]
            if family.groups[i] in plain:
                weight *= (part.level or 0.0) if i in block else part.g
            else:
                coupled.append(i)
                kinds.append(int(k))
        terms = found.setdefault(block, {})
        key = (tuple(coupled), tuple(kinds))
        terms[key] = terms.get(key, 0.0) + weight
    result = []
    for block, terms in found.items():
        multiplicity = float(np.prod([family.sizes[i] - 1.0 for i in block]))
        listed = tuple(sorted((t, k, w) for (t, k), w in terms.items()))
        result.append((block, listed, multiplicity))
    return result


def _plain_groups(family: Family, parts: Sequence[Parts]) -> set[int]:
    coupled = {kind.group for kind, p in zip(family.kinds, parts, strict=True) if p.level is None}
    return set(family.groups) - coupled


def _separate_bound(family: Family, parts: Sequence[Parts], public_total: bool = False) -> float:
    """Blocks made independent by diag(x, H − ccᵀ/(g − x)), x chosen per group on a grid."""
    best = np.zeros(len(family.group_sizes))
    value = 0.0
    for _ in range(2):
        for group in range(len(best)):
            for x in (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97):
                trial = best.copy()
                trial[group] = x
                found = _separate_value(family, parts, trial, public_total)
                if found > value:
                    value, best = found, trial
    return value


def _separate_value(
    family: Family, parts: Sequence[Parts], shares: FloatArray, public_total: bool
) -> float:
    """Σ_T tr(Σ_S …)^½ ≥ Σ_T (Σ_S (w_S Π √x Π tr H'^½)²)^½, by concavity of the square root."""
    totals, contrasts = np.empty(len(parts)), np.empty(len(parts))
    for k, (part, kind) in enumerate(zip(parts, family.kinds, strict=True)):
        if part.level is not None or not len(part.h):
            totals[k], contrasts[k] = part.g, (part.level or 0.0) * len(part.h) ** 2
            continue
        slack = part.g - float(part.c @ np.linalg.lstsq(part.h, part.c, rcond=None)[0])
        totals[k] = shares[kind.group] * max(slack, 0.0) * (1 - 1e-9)
        lowered = part.h - np.outer(part.c, part.c) / (part.g - totals[k])
        contrasts[k] = nuclear_from_gram(lowered) ** 2
    variances = family.block_variances(family.contributions(totals, contrasts))
    kept = [bool(block) or not public_total for block in family.blocks]
    return float(np.sqrt(variances[kept]).sum())
