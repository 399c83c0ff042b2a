"""Lower bounds on the error of any strategy for a family of product queries.

Cell weights b = ⊗b_i prove that no strategy has total variance below (tr N^½)², N = D_b^½ M D_b^½.
Per attribute, u = √b_i and a basis of its complement turn the Gram matrix into [[g, cᵀ], [c, H]];
attributes with c = 0 (plain counts) split off exactly. The rest is one dense eigenproblem where it
is small. Where it is not, N is replaced by something below it in the order of positive
semidefinite matrices, [[g, cᵀ], [c, H]] ⪰ diag(x, H − ccᵀ/(g − x)): every block then stands alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewright.central.families import Family, Table
from noisewright.central.mixed import MixedDesign
from noisewright.norm.certificate import nuclear_from_gram
from noisewright.workload.base import FloatArray

DENSE_LIMIT = 1600
_MARGIN = 1e-12  # rounding of sums and products of weights
_WORK_LIMIT = 3e10  # sum of cubed dimensions: some tens of seconds


@dataclass(frozen=True, eq=False)
class _Parts:
    """One kind in the basis (u, complement): g, c, H; `level` is h when H = hI and c = 0."""

    g: float
    c: FloatArray
    h: FloatArray
    level: float | None


def lower_bound(design: MixedDesign) -> float:
    """A certified lower bound on the value of the design's family, in the same units."""
    family = design.family
    parts = [_split(kind.gram, design.dual[kind.group]) for kind in family.kinds]
    joint = _joint_bound(family, parts)
    if joint is None:
        joint = _separate_bound(family, parts)
    return joint * (1 - _MARGIN) / float(np.sqrt(family.queries))


def _split(gram: FloatArray, weights: FloatArray) -> _Parts:
    root = np.sqrt(weights / weights.sum())
    scaled = root[:, None] * gram * root
    basis = np.linalg.qr(np.column_stack([root, np.eye(len(root))[:, 1:]]))[0]
    basis[:, 0] = root
    turned = basis.T @ scaled @ basis
    g, c, h = float(turned[0, 0]), turned[1:, 0], (turned[1:, 1:] + turned[1:, 1:].T) / 2
    level = float(h[0, 0]) if len(h) else 0.0
    flat = bool(np.abs(c).max(initial=0.0) <= 1e-12 * g)
    flat = flat and bool(np.abs(h - level * np.eye(len(h))).max(initial=0.0) <= 1e-12 * g)
    return _Parts(g, c, h, level if flat else None)


def _joint_bound(family: Family, parts: Sequence[_Parts]) -> float | None:
    """Σ over interactions of plain attributes of a dense nuclear norm over the coupled ones."""
    problems = _problems(family, parts)
    counted: dict[tuple[tuple[Table, tuple[int, ...], float], ...], float] = defaultdict(float)
    for terms, multiplicity in problems:
        counted[terms] += multiplicity
    dimensions = [_dimension(family, terms) for terms in counted]
    if max(dimensions) > DENSE_LIMIT or sum(d**3 for d in dimensions) > _WORK_LIMIT:
        return None
    return sum(
        multiplicity * nuclear_from_gram(_dense(family, parts, terms))
        for terms, multiplicity in counted.items()
    )


_Coupled = tuple[tuple[Table, tuple[int, ...], float], ...]


def _problems(family: Family, parts: Sequence[_Parts]) -> list[tuple[_Coupled, float]]:
    """For each interaction of plain attributes: the coupled terms left, and its multiplicity."""
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
        result.append((listed, multiplicity))
    return result


def _plain_groups(family: Family, parts: Sequence[_Parts]) -> set[int]:
    coupled = {kind.group for kind, p in zip(family.kinds, parts, strict=True) if p.level is None}
    return set(family.groups) - coupled


def _closure(terms: _Coupled) -> list[Table]:
    from noisewright.workload.gram import downward_closure

    return list(downward_closure([table for table, _, _ in terms]))


def _dimension(family: Family, terms: _Coupled) -> int:
    return int(sum(np.prod([family.sizes[i] - 1 for i in t]) for t in _closure(terms)))


def _dense(family: Family, parts: Sequence[_Parts], terms: _Coupled) -> FloatArray:
    """N over the interactions of coupled attributes, block by block."""
    blocks = _closure(terms)
    lengths = [int(np.prod([family.sizes[i] - 1 for i in t])) for t in blocks]
    ends = np.cumsum([0, *lengths])
    matrix = np.zeros((ends[-1], ends[-1]))
    place = {t: slice(ends[k], ends[k + 1]) for k, t in enumerate(blocks)}
    for table, kinds, weight in terms:
        inside = [t for t in blocks if set(t) <= set(table)]
        for first in inside:
            for second in inside:
                pieces = [
                    _piece(parts[k], i in first, i in second)
                    for i, k in zip(table, kinds, strict=True)
                ]
                matrix[place[first], place[second]] += weight * _kron(pieces)
    return matrix


def _kron(pieces: Sequence[FloatArray]) -> FloatArray:
    result: FloatArray = np.ones((1, 1))
    for piece in pieces:
        result = np.asarray(np.kron(result, piece), dtype=np.float64)
    return result


def _piece(part: _Parts, left: bool, right: bool) -> FloatArray:
    if left and right:
        return part.h
    if left:
        return part.c[:, None]
    return part.c[None, :] if right else np.array([[part.g]])


def _separate_bound(family: Family, parts: Sequence[_Parts]) -> float:
    """Blocks made independent by diag(x, H − ccᵀ/(g − x)), x chosen per group on a grid."""
    best = np.zeros(len(family.group_sizes))
    value = 0.0
    for _ in range(2):
        for group in range(len(best)):
            for x in (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97):
                trial = best.copy()
                trial[group] = x
                found = _separate_value(family, parts, trial)
                if found > value:
                    value, best = found, trial
    return value


def _separate_value(family: Family, parts: Sequence[_Parts], shares: FloatArray) -> float:
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
    return float(np.sqrt(variances).sum())
