"""How rough a distribution is along its ordered attributes, as a quadratic form over the cells.

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
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Prefix, Ranges


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

        return np.diff(densities, order, axis=0) * float(steps) ** order


@dataclass(frozen=True, eq=False)
class Roughness:
    """The matrix K and its eigenvalues."""

    matrix: FloatArray
    eigenvalues: FloatArray

    @classmethod
    def of(cls, lines: tuple[Line, ...], order: int) -> Roughness:
        """K for differences of one order."""
        forms = [d.T @ d for d in (line.differences(order) for line in lines)]
        eigenvalues = np.zeros(1)
        for form in forms:
            own = np.maximum(np.linalg.eigvalsh(form), 0.0)
            eigenvalues = np.add.outer(eigenvalues, own).ravel()

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
    before = prod(cells[:axis])
    after = prod(cells[axis + 1 :])
    return np.kron(np.kron(np.eye(before), form), np.eye(after))
