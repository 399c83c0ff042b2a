"""Strategies of integer blocks as families find them, before any budget decides their noise."""

from __future__ import annotations

from dataclasses import dataclass

from noisewright.central.blocks.block_mechanism import BlockMechanism
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.problem import Proposal
from noisewright.privacy.budget import Privacy
from noisewright.solution import settled


@dataclass(frozen=True, eq=False)
class Candidate:
    """A strategy and what is known of the best linear one, as in a `Proposal`."""

    strategy: BlockStrategy
    value: float
    bound: float | None
    certificate: str
    status: str
    neighbours: str = "add-remove"

    def __post_init__(self) -> None:
        """No candidate survives whose value contradicts its bound."""
        value = settled(self.value, self.bound or 0.0, f"strategy ({self.status})")
        object.__setattr__(self, "value", value)

    def proposal(self, privacy: Privacy) -> Proposal:
        """The strategy under the least noise that keeps `privacy`."""
        mechanism = BlockMechanism(self.strategy, privacy)
        return Proposal(
            mechanism, self.value, self.bound, self.certificate, self.status, self.neighbours
        )
