"""Linear conditions on Φ, block by block, their multipliers, and one step that improves these.

A block asks for A(Φ) + slack = 0, where A(Φ) = HᵀΦH takes Φ to forms on indicators of sets, and the
slack holds E ≥ 0, entry by entry, S ⪰ 0, and terms that vanish on these sets or are never negative
there. For all blocks HHᵀ = a²I + FgFᵀ, with F the columns e and f = 1/e: cells are scaled by e.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.folding import Folding

RELAXATION = 1.6
"""Of dual steps, usual for alternating directions: 1 and 1.8 prove more on some workloads and less
on others."""


@dataclass(eq=False)
class Blocks(ABC):
    """Conditions A(Φ) + slack = 0, their multipliers, and one step that improves these."""

    slope: float
    """r = e^ε − 1."""
    scale: FloatArray
    """e."""
    folding: Folding
    duals: FloatArray
    """U."""
    gains: FloatArray = field(init=False)
    """a of every block: by how much it stretches a matrix Φ."""
    couplings: FloatArray = field(init=False)
    """g of every block."""
    excess: FloatArray = field(init=False)
    """E."""
    definite: FloatArray = field(init=False)
    """S."""

    @property
    def scales(self) -> FloatArray:
        """eeᵀ: a matrix Φ over cells times this is Φ in scaled cells."""
        return np.outer(self.scale, self.scale)

    @property
    @abstractmethod
    def operations(self) -> float:
        """Of a slack step, about."""

    @abstractmethod
    def forward(self, phi: FloatArray) -> FloatArray:
        """A(Φ)."""

    @abstractmethod
    def adjoint(self, matrices: FloatArray) -> FloatArray:
        """Aᵀ."""

    @abstractmethod
    def slack_step(self, image: FloatArray) -> FloatArray:
        """The slacks nearest to −A(Φ) − U, for A(Φ) given; returns their sum."""

    def normal(
        self,
        phi: FloatArray,
        e: FloatArray,
        f: FloatArray,
    ) -> FloatArray:
        """AᵀA within a subspace in which e and its inverse f are these.

        The sum over blocks of (a²I + FgFᵀ)Φ(a²I + FgFᵀ).
        """
        square: FloatArray = np.sum(self.gains**4) * phi
        if not e.any():
            return square

        columns = np.column_stack([e, f])
        images = columns.T @ phi
        side_couplings = np.tensordot(self.gains**2, self.couplings, 1)
        side = columns @ side_couplings @ images

        g = self.couplings
        inner = np.einsum("kij,jl,klm->im", g, images @ columns, g)
        crossed = columns @ inner @ columns.T
        return np.asarray(square + side + side.T + crossed)

    def cone_step(self, target: FloatArray) -> FloatArray:
        """E by clipping, then S by a spectrum, each the best for the other; returns E + S.

        `target` is what E + S should be the negative of.
        """
        self.excess = self.clipped(-(target + self.definite))
        self.definite = self.folding.negative_part(target + self.excess)
        return self.excess + self.definite

    @abstractmethod
    def clipped(self, short: FloatArray) -> FloatArray:
        """The E nearest to what is short."""

    def dual_step(self, residual: FloatArray) -> None:
        """Move U by what is left of the conditions."""
        self.duals += RELAXATION * residual
