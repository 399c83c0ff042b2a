"""One list of mechanisms: `plan`, `compare`, the tests and the docs all read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noisewright.central.gaussian import DENSE_CELLS, Planned, as_one_axis, product_strategy
from noisewright.privacy.budget import Privacy
from noisewright.workload import Workload
from noisewright.workload.terms import Term, terms


@dataclass(frozen=True)
class CentralProblem:
    """What a central mechanism plans for."""

    workload: Workload
    sizes: tuple[int, ...]
    privacy: Privacy
    norm: float

    @property
    def terms(self) -> list[Term]:
        """The workload on marginal tables."""
        return terms(self.workload, self.sizes)


@dataclass(frozen=True)
class CentralMechanism:
    """A named way to plan; `refuses` says in words why it cannot, or None."""

    name: str
    summary: str
    refuses: Callable[[CentralProblem], str | None]
    plan: Callable[[CentralProblem], Planned]


def _refuses_gaussian_strategy(problem: CentralProblem) -> str | None:
    if problem.privacy.kind == "pure":
        return "Gaussian noise gives no pure privacy; give a delta or rho"
    if len(problem.terms) == 1 and problem.terms[0].factors is not None:
        largest = max((f.size for f in problem.terms[0].factors), default=1)
    else:
        largest = problem.workload.size
    if largest > DENSE_CELLS:
        return f"a dense strategy over {largest} cells is too large (limit {DENSE_CELLS})"
    return None


def _plan_gaussian_strategy(problem: CentralProblem) -> Planned:
    asked = problem.terms
    if len(asked) == 1 and asked[0].factors is not None:
        return product_strategy(asked[0], problem.sizes, problem.norm)
    return product_strategy(as_one_axis(problem.workload), (problem.workload.size,), problem.norm)


CENTRAL: dict[str, CentralMechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        CentralMechanism(
            "gaussian-strategy",
            "optimal factorization with Gaussian noise: dense, or factor by factor",
            _refuses_gaussian_strategy,
            _plan_gaussian_strategy,
        ),
    )
}
