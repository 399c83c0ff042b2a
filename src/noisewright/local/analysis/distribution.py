"""The distribution that reports make likeliest, smooth where cells are ordered: a model's answer.

With X the information of a report and x̂ the unbiased shares from N of them, ½N(p − x̂)ᵀX(p − x̂) is
their loss of likelihood to second order: what is least over the simplex is near in the reports' own
metric, where the cells' errors need not be independent. Before any report p is taken to be normal
about the even distribution with precision T = τI, and T = τI + λΔ_rᵀΔ_r where cells are ordered.
The λ and r = 1 or 2 are those with the most evidence: the chance of the reports with p integrated
out, as if it could be negative. With A = NX + τI = LLᵀ, the eigenvalues k and vectors U of
L⁻¹ΔᵀΔL⁻ᵀ, the eigenvalues κ of ΔᵀΔ, and c = UᵀL⁻¹(NXx̂ + τ/n), its logarithm is, up to a constant,

    ½ Σ log(τ + λκᵢ) − ½ Σ log(1 + λkᵢ) + ½ Σ cᵢ²/(1 + λkᵢ).

The result is biased and has no intervals. It uses statistics that the estimate keeps, and no more.

How rough a distribution is along its ordered attributes, as a quadratic form over the cells.

K = Σ_a I ⊗ … ⊗ D_aᵀD_a ⊗ … ⊗ I, where D_a takes r-th differences of the densities (shares by
width) of neighbouring cells of one ordered attribute. Cells that lie on no line, those for `other`
values and those without an end, are compared with none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.domain import Attribute, Domain, Ordered
from noisewright.errors import TooLarge
from noisewright.estimate.nearest import fit_on_simplex, project_to_total
from noisewright.local.analysis.answers import checked_people, filled_groups, median
from noisewright.local.analysis.information import (
    CentredInformation,
    DenseInformation,
    Information,
    UnformedInformation,
)
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.strategy import DENSE_SIZE, IndexStrategy, Strategy
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Prefix, Ranges

_ORDERS = 1, 2
"""First differences, for what is flat, and second ones, for what is straight."""

_TAU = 1.0
"""The chance of no distribution is more than e^½ of another's: ‖p − 1/n‖² ≤ 1. It decides alone
where reports say nothing, and makes T regular."""

_CHANCES_ENTRIES = 2**24
"""Reports times cells up to which the moment of all reports is summed: 128 MiB in doubles."""

_MULTIPLIERS = 200  # values of λ that are tried, evenly by ratio
_ZERO = 1e-12  # of the largest eigenvalue

_SHARE_OF_EVIDENCE = 0.1
"""λ over the one with the most evidence.

The evidence knows nothing of p ≥ 0, which smooths as well, nor of spikes on smooth data. With
10^4 to 10^5 people of four densities on 64 cells at ε = 0.5, 1 and 4 the whole λ erred (W1) by up
to 1.16 times the better of isotonic and clipped answers, half of it by 1.12, a fifth by 1.09, a
tenth by 1.06. On Beta(5, 2) they erred by .76 to .92, .76 to .90, .77 to .90 and .79 to .93 times.
"""


def distribution(aggregate: Aggregate, lines: tuple[Line, ...] = ()) -> FloatArray:
    """The share of people in every cell: none negative, summing to one; smooth along the lines."""
    strategy = aggregate.format.strategy
    people = checked_people(aggregate)
    information = _information(strategy)
    groups, scales = filled_groups(aggregate)
    estimates = [information.solve(strategy.score(*group)) for group in groups]
    shares = median(estimates, scales) / people
    if isinstance(information, CentredInformation) and strategy.size > DENSE_SIZE:
        # All cells are alike, and so their metric is the plain distance.
        known = people * information.contrast
        pull = known * shares + _TAU / strategy.size
        return project_to_total(pull / (known + _TAU), 1.0)

    return likely_shares(people * information.dense(), shares, lines)


def likely_shares(
    information: FloatArray, shares: FloatArray, lines: tuple[Line, ...] = ()
) -> FloatArray:
    """The likeliest shares from unbiased ones and the information NX of all reports."""
    cells = len(shares)
    metric = information + _TAU * np.eye(cells)
    pull = information @ shares + _TAU / cells

    roughnesses = [
        Roughness.of(lines, order)
        for order in _ORDERS
        if any(len(line.widths) > order for line in lines)
    ]
    smoothings = [smoothing(metric, pull, one) for one in roughnesses]
    if smoothings:
        _, form = max(smoothings, key=lambda one: one[0])
        metric = metric + _SHARE_OF_EVIDENCE * form

    return fit_on_simplex(metric, pull)


def smoothing(
    metric: FloatArray, pull: FloatArray, roughness: Roughness
) -> tuple[float, FloatArray]:
    """The most evidence that any λ has (its logarithm, up to a constant), and λΔᵀΔ."""
    from scipy.linalg import solve_triangular

    lower = np.linalg.cholesky(metric)
    half = solve_triangular(lower, roughness.matrix, lower=True)
    turned = solve_triangular(lower, half.T, lower=True)
    values, vectors = np.linalg.eigh((turned + turned.T) / 2)
    k = np.maximum(values, 0.0)
    c = vectors.T @ solve_triangular(lower, pull, lower=True)

    # From where hardly anything is smoothed to where hardly anything rough is left.
    seen = k[k > _ZERO * k[-1]]
    multipliers = np.geomspace(1e-3 / seen[-1], 1e3 / seen[0], _MULTIPLIERS)

    precision = _TAU + np.outer(multipliers, roughness.eigenvalues)
    shrunk = 1.0 + np.outer(multipliers, k)
    volume = np.log(precision).sum(axis=1) - np.log(shrunk).sum(axis=1)
    evidence = (volume + (c**2 / shrunk).sum(axis=1)) / 2

    best = int(np.argmax(evidence))

    return float(evidence[best]), multipliers[best] * roughness.matrix


def _information(strategy: Strategy) -> Information:
    """X of all reports together, whatever part of the strategy they come from."""
    information = strategy.information
    many = strategy.size > DENSE_SIZE
    if many and not isinstance(information, CentredInformation):
        raise TooLarge(
            f"a distribution over {strategy.size:.3g} cells is not fitted (limit {DENSE_SIZE}); "
            f"ask for tables, or for coarser cells"
        )
    if not isinstance(information, UnformedInformation):
        return information

    # Tables drawn at random are decoded one by one; here the reports are taken together.
    entries = strategy.size * (strategy.outputs or _CHANCES_ENTRIES)
    if not isinstance(strategy, IndexStrategy) or entries > _CHANCES_ENTRIES:
        raise TooLarge(
            f"a distribution from reports of {strategy.kind} takes long; ask for tables"
        )

    return DenseInformation(strategy.moment(strategy.prior))


# --- roughness ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """One attribute: cells from `first` on lie side by side, with these widths; others nowhere."""

    cells: int
    widths: FloatArray
    first: int = 0

    @classmethod
    def of(cls, attribute: Attribute) -> Line:
        """The cells of an attribute that have a place and a width on a line."""
        if not isinstance(attribute, Ordered):
            return cls(attribute.size, np.zeros(0))

        widths = np.diff(attribute.cuts)
        if attribute.whole:
            widths[-1] += 1  # the last cell is closed

        # Only end cells can be open, or a single number.
        inside = np.flatnonzero(np.isfinite(widths) & (widths > 0))
        first = int(inside[0]) if len(inside) else 0

        return cls(attribute.size, widths[inside], first)

    def differences(self, order: int) -> FloatArray:
        """D: differences of densities, scaled like derivatives over the whole line."""
        steps = len(self.widths)
        if steps <= order:
            return np.zeros((0, self.cells))

        densities = np.zeros((steps, self.cells))
        places = np.arange(steps)
        densities[places, self.first + places] = self.widths.mean() / self.widths
        differences = np.diff(densities, order, axis=0)

        return differences * float(steps) ** order


@dataclass(frozen=True, eq=False)
class Roughness:
    """The matrix K and its eigenvalues."""

    matrix: FloatArray
    eigenvalues: FloatArray

    @classmethod
    def of(cls, lines: tuple[Line, ...], order: int) -> Roughness:
        """K for differences of one order."""
        differences = [line.differences(order) for line in lines]
        forms = [d.T @ d for d in differences]
        eigenvalues = np.zeros(1)

        for form in forms:
            form_eigenvalues = np.maximum(np.linalg.eigvalsh(form), 0.0)
            eigenvalues = np.add.outer(eigenvalues, form_eigenvalues).ravel()

        cells = [line.cells for line in lines]
        matrix = np.zeros((len(eigenvalues),) * 2)

        for axis, form in enumerate(forms):
            matrix += _on_axis(form, cells, axis)

        return cls(matrix, eigenvalues)


def lines_of(workload: Workload, domain: Domain | None) -> tuple[Line, ...]:
    """The attributes' lines; without a domain, prefix sums and ranges say what is ordered."""
    if domain is not None:
        return tuple(Line.of(attribute) for attribute in domain)

    structure = workload.structure
    ordered = {
        axis
        for term in structure.terms
        for axis, factor in zip(term.attributes, term.factors or (), strict=False)
        if isinstance(factor, Prefix | Ranges)
    }

    return tuple(
        Line(cells, np.ones(cells if axis in ordered else 0))
        for axis, cells in enumerate(structure.sizes)
    )


def _on_axis(form: FloatArray, cells: list[int], axis: int) -> FloatArray:
    """A form on one axis, the same for all values of the others."""
    before = np.eye(prod(cells[:axis]))
    after = np.eye(prod(cells[axis + 1 :]))
    return np.kron(np.kron(before, form), after)
