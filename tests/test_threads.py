from __future__ import annotations

import pytest
import scipy.linalg  # noqa: F401  so that its library is counted
from threadpoolctl import threadpool_info

import noisewright as nw
from noisewright.parallel import SMALL, one_thread_if_small


def threads() -> set[int]:
    """How many threads the linear-algebra libraries may use now."""
    return {
        int(pool["num_threads"])
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }


def test_small_matrices_get_one_thread_and_large_ones_what_there_was() -> None:
    before = threads()
    with one_thread_if_small(SMALL - 1):
        assert threads() <= {1}
    assert threads() == before
    with one_thread_if_small(SMALL):
        assert threads() == before


@pytest.mark.parametrize(
    "source", ["prefix:8", "prefix:4*identity:3", "marginals:2^3:2", "total:5"]
)
def test_plans_are_made_with_any_shape_of_workload(source: str) -> None:
    before = threads()
    assert nw.plan(source, nw.Privacy(rho=1)).forecast().rmse > 0
    assert threads() == before
