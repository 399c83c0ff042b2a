"""One result: no value below its bound, a status with a sentence, a certificate with a class."""

import math
from dataclasses import replace

import pytest

from noisewright.errors import Contradiction
from noisewright.solution import SLACK, BoundClass, Certificate, Solution, Status


def test_a_value_below_its_bound_is_never_made() -> None:
    with pytest.raises(Contradiction, match="contradicts its lower bound"):
        Solution(value=1 - 2 * SLACK, lower_bound=1.0)
    for value, bound in (
        (math.nan, 0.0),
        (math.inf, 1.0),
        (1.0, math.nan),
        (1.0, -1.0),
    ):
        with pytest.raises(Contradiction):
            Solution(value=value, lower_bound=bound)
    with pytest.raises(Contradiction):
        replace(Solution(value=2.0, lower_bound=1.0), value=0.5)


def test_rounding_alone_is_lifted_to_the_bound() -> None:
    solution = Solution(value=1 - SLACK / 2, lower_bound=1.0)
    assert (solution.value, solution.gap) == (1.0, 0.0)


def test_gaps_and_ratios_follow_from_value_and_bound() -> None:
    assert Solution(value=3.0, lower_bound=2.0).gap == 0.5
    assert Solution(value=0.0).gap == 0.0
    assert Solution(value=1.0).ratio == math.inf
    assert Solution(value=1.0).bound_class is None
    proof = Certificate(name="trace", bound_class=BoundClass.UNBIASED)
    assert Solution(value=1.0, certificate=proof).bound_class is BoundClass.UNBIASED


@pytest.mark.parametrize("status", list(Status))
def test_every_status_explains_itself(status: Status) -> None:
    solution = Solution(
        value=2.0, lower_bound=1.0, status=status, iterations=7, notes=("rank 3",)
    )
    assert solution.explanation.startswith(f"{status}: ")
    assert solution.explanation.endswith("; rank 3")
    assert "{" not in solution.explanation
    assert Status(str(status)) is status
    assert solution.converged == (status not in ("iteration limit", "time limit"))
