"""What a central mechanism plans for, what it proposes, and how it enters the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.central.blocks.quantise import grid_bits
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import JOINT_LIMIT
from noisewright.central.mechanism import Given, Mechanism
from noisewright.domain import Domain
from noisewright.norm.kernel.factorization import without_offsets
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.solution import lifted_to_bound
from noisewright.workload import Workload
from noisewright.workload.structure import Structure, Term, terms

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class CentralProblem:
    """What a central mechanism plans for: neighbours differ in one row.

    Where several rows of a person count, `privacy` is the budget of a row, and `promise` the budget
    of the person that it follows from. `asked` is the promise that was asked for, where this one is
    stronger. `given` is what is public of the people, where errors that depend on them are to be
    told.
    """

    workload: Workload
    sizes: tuple[int, ...]
    privacy: Privacy
    norm: float
    domain: Domain | None = None
    promise: Privacy | None = None
    given: Given | None = None
    asked: Privacy | None = None
    _results: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def neighbours(self) -> str:
        """What one person may change."""
        return self.privacy.neighbours

    def under(
        self,
        privacy: Privacy,
        promise: Privacy | None,
        asked: Privacy,
    ) -> CentralProblem:
        """The same questions under a promise that is stronger than the one asked for."""
        problem = replace(self, privacy=privacy, promise=promise, asked=asked)
        problem.__dict__["structure"] = self.structure  # what is asked is read once
        return problem

    @property
    def epsilon(self) -> float:
        """ε of pure privacy; zero where none is promised."""
        return self.privacy.epsilon or 0.0

    @cached_property
    def order(self) -> int:
        """The norm of sensitivity that the noise for this budget needs."""
        return 1 if self.privacy.kind == "pure" else 2

    @cached_property
    def structure(self) -> Structure:
        """What is asked over these attributes."""
        return Structure(self.workload, self.sizes)

    @cached_property
    def terms(self) -> list[Term]:
        """The workload on marginal tables."""
        return self.structure.terms

    @cached_property
    def shifted_terms(self) -> list[Term]:
        """The same for strategies that know the total: where it is public, constants are free."""
        public = self.neighbours == "replace-one"
        return (
            terms(without_offsets(self.workload), self.sizes) if public else self.terms
        )

    @cached_property
    def single_product(self) -> bool:
        """Whether one product over attributes is asked."""
        return len(self.terms) == 1 and self.terms[0].factors is not None

    @property
    def by_tables(self) -> bool:
        """Whether every query is a product over attributes, or sees few cells."""
        return all(
            t.factors is not None or t.inner.size <= JOINT_LIMIT for t in self.terms
        )

    @property
    def counts(self) -> bool:
        """Whether only tables of counts are asked, however they are written."""
        return self.structure.counts is not None

    @cached_property
    def grid_bits(self) -> int:
        """Bits of all integer factors together with which the budget's noise can be drawn."""
        return grid_bits(calibrate(self.privacy, l2=1.0).scale)

    def once(self, compute: Callable[[CentralProblem], _Result]) -> _Result:
        """What several mechanisms start from, computed for the first of them."""
        if compute not in self._results:
            self._results[compute] = compute(self)
        result: _Result = self._results[compute]
        return result


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mechanism ready to measure, and what is known of the best linear one.

    `value` is its error per unit of noise, the p-th mean over queries of ‖R_i‖·‖A‖ before rounding
    to integers (None where noise has no unit); `bound` bounds it from below for every
    factorization (None where no bound is known). Both are for the sensitivity of `neighbours`.
    """

    mechanism: Mechanism
    value: float | None
    bound: float | None
    certificate: str
    status: str
    neighbours: str

    def __post_init__(self) -> None:
        """No proposal survives whose value contradicts its bound."""
        if self.value is not None:
            value = lifted_to_bound(
                self.value,
                self.bound or 0.0,
                f"strategy ({self.status})",
            )
            object.__setattr__(self, "value", value)

    @classmethod
    def unbounded(cls, mechanism: Mechanism, status: str) -> Proposal:
        """Noise that has no unit, which no bound on linear strategies is about."""
        neighbours = mechanism.privacy.neighbours
        return cls(
            mechanism,
            None,
            None,
            "none",
            status,
            neighbours,
        )

    @property
    def name(self) -> str:
        """What the mechanism is called."""
        return self.mechanism.name

    def named(self, name: str) -> Proposal:
        """The same of the mechanism under this name."""
        return replace(self, mechanism=self.mechanism.named(name))


Refusal = Callable[[CentralProblem], str | None]


@dataclass(frozen=True)
class CentralMechanism:
    """A named way to plan; `refuses` says in words why it cannot, or None.

    A `baseline` is planned when named and listed in comparisons, never chosen by itself. `slow`
    tells where planning takes minutes: such a mechanism comes last. One that is `biased` has errors
    that depend on the people, and is planned where something public of them is given. `least` is a
    root mean square error that no plan of it goes below, told at once; none is zero.
    """

    name: str
    summary: str
    refuses: Refusal
    plan: Callable[[CentralProblem], Proposal]
    baseline: bool = False
    slow: Callable[[CentralProblem], bool] | None = None
    biased: bool = False
    least: Callable[[CentralProblem], float] | None = None


def refuses_gaussian(problem: CentralProblem) -> str | None:
    """Why Gaussian noise does not give this privacy, or None."""
    pure = problem.order == 1
    return "Gaussian noise gives no pure privacy; give a delta or rho" if pure else None


def refuses_laplace(problem: CentralProblem) -> str | None:
    """Why Laplace noise is not for this privacy, or None."""
    pure = problem.order == 1
    return (
        None if pure else "Laplace noise is for pure privacy; leave delta and rho out"
    )


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
        value = lifted_to_bound(
            self.value, self.bound or 0.0, f"strategy ({self.status})"
        )
        object.__setattr__(self, "value", value)

    def proposal(self, problem: CentralProblem) -> Proposal:
        """The strategy under the least noise that keeps the problem's budget."""
        certificate = "none" if self.bound is None else self.certificate
        mechanism = BlockMechanism(
            self.strategy, problem.privacy, attribute_sizes=problem.sizes
        )
        return Proposal(
            mechanism,
            self.value,
            self.bound,
            certificate,
            self.status,
            self.neighbours,
        )
