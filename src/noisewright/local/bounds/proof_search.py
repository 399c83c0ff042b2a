"""What searches for stored proofs have in common: steps of a joint problem, then a proof."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from noisewright.arrays import FloatArray
from noisewright.local.bounds.joint_problem import JointProblem
from noisewright.local.bounds.proof import Proof
from noisewright.local.bounds.start import Reports
from noisewright.local.work import Work

P = TypeVar("P", bound=Proof)


@dataclass(eq=False)
class ProofSearch(ABC, Generic[P]):
    """A search from a strategy, by steps of a joint problem; `proofs` yields better and better."""

    gram: FloatArray
    epsilon: float
    reports: Reports
    work: Work = field(default_factory=Work)
    problem: JointProblem = field(init=False)
    first_proof: ClassVar[int]
    """Steps before the first proof."""
    later_proofs: ClassVar[int]
    """By what more before each of those that follow: looking after all sets takes as long as some
    steps."""

    def proofs(self, rounds: int) -> Iterator[P]:
        """The proof at hand, after more and more steps each."""
        for shown in range(rounds):
            steps = self.first_proof + shown * self.later_proofs
            for left in range(steps, 0, -1):
                self.problem.step()
                self.work.add(self.problem.operations)
                self.follow(left)
            yield self.proof()

    @abstractmethod
    def follow(self, left: int) -> None:
        """What else changes after a step, with so many left before the next proof."""

    @abstractmethod
    def proof(self) -> P:
        """What the present Φ proves."""
