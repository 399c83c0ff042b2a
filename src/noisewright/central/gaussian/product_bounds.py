"""Lower bounds on the error of any linear strategy for a family of product queries.

Cell weights b = ⊗b_i prove that no linear strategy has total variance below (tr N^½)²,
N = D_b^½ M D_b^½. Per attribute, u = √b_i and a basis of its complement turn the Gram matrix into
[[g, cᵀ], [c, H]]; attributes with c = 0 (plain counts) split off exactly.

- Coupled attributes (c ≠ 0) are one dense eigenproblem where they are few. Larger problems have the
  shape of an arrow: two largest tables never meet in a third, so the blocks of the largest tables
  are coupled to smaller ones only. With H diagonalised they are eliminated, and the trace of the
  square root follows from traces of resolvents of the few that remain.
- Where they are neither, N is replaced by something below it in the order of positive semidefinite
  matrices, [[g, cᵀ], [c, H]] ⪰ diag(x, H − ccᵀ/(g − x)): every block then stands alone.
- With b uniform N is M over the number of cells, and a sum of products of commuting matrices has
  the sums of products of their eigenvalues as its own. Counts, cumulative counts and ranges commute
  with counts; none but counts commute with totals. Terms that do not fit are left out: asking less
  is never harder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import inf, prod

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.gaussian.coupled_tables import (
    CoupledTerms,
    Parts,
    arrow_nuclear,
    dense_coupling,
    interaction_dimension,
    interactions_of_tables,
    largest_tables,
    split_kind,
)
from noisewright.central.gaussian.product_designs import (
    Family,
    MixedDesign,
    Table,
)
from noisewright.norm.kernel.certificate import nuclear_from_gram
from noisewright.workload.linear.tensor import column_kron
from noisewright.workload.structure import Term

DENSE_LIMIT = 1600
"""Coordinates up to which coupled attributes are one dense eigenproblem."""

CORE_LIMIT = 1000
"""Coordinates of the smaller tables up to which the largest ones are eliminated."""

LARGEST_GRID = 2**22
"""Products of eigenvalues of commuting terms that are all visited."""

_MARGIN = 1e-12  # rounding of sums and products of weights
_WORK_LIMIT = 3e10  # sum of cubed dimensions: some tens of seconds
# of the largest entry: products that differ by no more are the same but for rounding
_COMMUTE = 1e-12


def lower_bound(design: MixedDesign, neighbours: str = "add-remove") -> float:
    """A certified lower bound on the value of the design's family, in the same units."""
    family = design.family
    parts = [split_kind(kind.gram, design.dual[kind.group]) for kind in family.kinds]
    public = neighbours == "replace-one"
    scale = _pairs_scale(design) if public else 1.0
    joint = _joint_bound(family, parts, public)
    if joint is None:
        separate = scale * _separate_bound(family, parts, public)
        bound = max(separate, commuting_bound(family, public))
    else:
        bound = scale * joint

    return bound * (1 - _MARGIN) / float(np.sqrt(family.queries))


def _pairs_scale(design: MixedDesign) -> float:
    """Pairs of cells weighted by b_j·b_k: their Laplacian is D_b − bbᵀ over (1 − Σb²)/2.

    So √b, the total's own direction, drops out of N, and the rest is scaled.
    """
    used = {i for block in design.family.blocks for i in block}
    alike = [float(np.sum((b / b.sum()) ** 2)) for b in design.dual]
    return float(
        np.sqrt(2 / (1 - np.prod([alike[design.family.groups[i]] for i in used])))
    )


def _joint_bound(
    family: Family,
    parts: Sequence[Parts],
    public_total: bool,
) -> float | None:
    """Σ over interactions of plain attributes of the nuclear norm over the coupled ones."""
    counted: dict[tuple[CoupledTerms, bool], float] = defaultdict(float)
    for block, terms, multiplicity in _problems(family, parts):
        counted[terms, public_total and not block] += multiplicity

    if sum(_eigenproblem(family, terms) ** 3 for terms, _ in counted) > _WORK_LIMIT:
        return None

    return sum(
        multiplicity * _nuclear(family, parts, terms, without_total)
        for (terms, without_total), multiplicity in counted.items()
    )


def _eigenproblem(family: Family, terms: CoupledTerms) -> float:
    """Dimension of the dense matrix that a problem needs; infinite where it is too large."""
    whole = interaction_dimension(family, interactions_of_tables(terms))
    if whole <= DENSE_LIMIT:
        return whole
    largest = largest_tables(terms)
    core = inf if largest is None else whole - interaction_dimension(family, largest)
    return core if core <= CORE_LIMIT else inf


def _nuclear(
    family: Family,
    parts: Sequence[Parts],
    terms: CoupledTerms,
    without_total: bool,
) -> float:
    blocks = [
        block for block in interactions_of_tables(terms) if block or not without_total
    ]
    if interaction_dimension(family, blocks) <= DENSE_LIMIT:
        return (
            nuclear_from_gram(dense_coupling(family, parts, terms, blocks))
            if blocks
            else 0.0
        )

    largest = largest_tables(terms)
    assert largest is not None
    return arrow_nuclear(
        family,
        parts,
        terms,
        largest,
        without_total,
    )


def _problems(
    family: Family, parts: Sequence[Parts]
) -> list[tuple[Table, CoupledTerms, float]]:
    """Interactions of plain attributes, each with the coupled terms left and its multiplicity."""
    coupled_groups = {
        k.group for k, p in zip(family.kinds, parts, strict=True) if p.level is None
    }
    plain = set(family.groups) - coupled_groups
    weights: dict[Table, dict[tuple[Table, tuple[int, ...]], float]] = {}

    for pair in range(len(family.pair_block)):
        term = family.terms[family.pair_term[pair]]
        block = family.blocks[family.pair_block[pair]]
        if any(family.groups[i] not in plain for i in block):
            continue

        weight = term.weight**2
        coupled = []
        kinds = []

        for i, k in zip(term.attributes, family.pair_kinds[pair], strict=False):
            part = parts[int(k)]
            if family.groups[i] in plain:
                weight *= (part.level or 0.0) if i in block else part.g
            else:
                coupled.append(i)
                kinds.append(int(k))

        terms = weights.setdefault(block, {})
        key = (tuple(coupled), tuple(kinds))
        terms[key] = terms.get(key, 0.0) + weight

    return [
        (
            block,
            tuple(sorted((t, k, w) for (t, k), w in terms.items())),
            float(np.prod([family.sizes[i] - 1.0 for i in block])),
        )
        for block, terms in weights.items()
    ]


def _separate_bound(
    family: Family,
    parts: Sequence[Parts],
    public_total: bool,
) -> float:
    """Blocks made independent by diag(x, H − ccᵀ/(g − x)), x chosen per group on a grid."""
    best = np.zeros(len(family.group_sizes))
    value = 0.0
    for _ in range(2):
        for group in range(len(best)):
            for x in (
                0.02,
                0.05,
                0.1,
                0.2,
                0.35,
                0.5,
                0.65,
                0.8,
                0.9,
                0.97,
            ):
                trial = best.copy()
                trial[group] = x
                reached = _separate_value(family, parts, trial, public_total)
                if reached > value:
                    value = reached
                    best = trial

    return value


def _separate_value(
    family: Family,
    parts: Sequence[Parts],
    shares: FloatArray,
    public_total: bool,
) -> float:
    """Σ_T tr(Σ_S …)^½ ≥ Σ_T (Σ_S (w_S Π √x Π tr H'^½)²)^½, by concavity of the square root."""
    totals = np.empty(len(parts))
    contrasts = np.empty(len(parts))
    for k, (part, kind) in enumerate(zip(parts, family.kinds, strict=True)):
        if part.level is not None or not len(part.h):
            totals[k], contrasts[k] = (
                part.g,
                (part.level or 0.0) * len(part.h) ** 2,
            )
            continue
        slack = part.g - float(part.c @ np.linalg.lstsq(part.h, part.c, rcond=None)[0])
        totals[k] = shares[kind.group] * max(slack, 0.0) * (1 - 1e-9)
        lowered = part.h - np.outer(part.c, part.c) / (part.g - totals[k])
        contrasts[k] = nuclear_from_gram(lowered) ** 2

    variances = family.block_variances(family.contributions(totals, contrasts))
    counted = [bool(block) or not public_total for block in family.blocks]
    return float(np.sqrt(variances[counted]).sum())


# --- coupled attributes --------------------------------------------------------------------------


def commuting_bound(family: Family, public_total: bool = False) -> float:
    """Nuclear norm of the largest terms that commute, at even cell weights; zero if too large.

    With a public total, even weights on all pairs of cells: the direction of the total drops out,
    which takes no more than its own length, and what is left counts √2 times or more.
    """
    used = sorted({i for block in family.blocks for i in block})
    if prod(family.sizes[i] for i in used) > LARGEST_GRID:
        return 0.0

    hardest = sorted(
        family.terms,
        key=lambda t: -(t.weight**2) * t.inner.gram().trace(),
    )
    chosen: list[Term] = []
    known: dict[int, list[FloatArray]] = {i: [] for i in used}

    for term in hardest:
        grams = {i: _scaled_gram(term, i, family.sizes[i]) for i in used}
        if all(_commutes(gram, known[i]) for i, gram in grams.items()):
            chosen.append(term)
            for i, gram in grams.items():
                known[i].append(gram)

    nuclear = _commuting_nuclear(chosen, known, used)
    return (
        float(np.sqrt(2)) * (nuclear - _total_length(chosen))
        if public_total
        else nuclear
    )


def _total_length(chosen: list[Term]) -> float:
    """Length of the answers on an even histogram of one person."""
    squares = 0.0
    for term in chosen:
        parts = [float(f.gram().dense().sum()) / f.size**2 for f in term.factors or ()]
        squares += term.weight**2 * prod(parts)
    return float(np.sqrt(squares))


def _commuting_nuclear(
    chosen: list[Term],
    known: dict[int, list[FloatArray]],
    used: list[int],
) -> float:
    bases = {i: _common_eigenvectors(known[i]) for i in used}
    total = np.zeros(prod(len(basis) for basis in bases.values()))
    for number, term in enumerate(chosen):
        parts = [
            np.maximum(
                np.einsum("ie,ie->e", bases[i], known[i][number] @ bases[i]),
                0.0,
            )
            for i in used
        ]
        total += term.weight**2 * column_kron(parts)

    return float(np.sqrt(total).sum())


def _scaled_gram(
    term: Term,
    attribute: int,
    size: int,
) -> FloatArray:
    """The Gram matrix of one attribute under even cell weights."""
    if term.factors is None or attribute not in term.attributes:
        return np.full((size, size), 1.0 / size)
    return term.factors[term.attributes.index(attribute)].gram().dense() / size


def _commutes(gram: FloatArray, others: list[FloatArray]) -> bool:
    for other in others:
        product = gram @ other
        if np.abs(product - product.T).max() > _COMMUTE * np.abs(product).max():
            return False
    return True


def _common_eigenvectors(grams: list[FloatArray]) -> FloatArray:
    """Eigenvectors of a mixture in which no two matrices cancel."""
    mixture = sum(
        (1 + 0.61803 * k) * gram / np.trace(gram) for k, gram in enumerate(grams)
    )
    return np.asarray(np.linalg.eigh(mixture).eigenvectors, dtype=np.float64)
