"""Lower bounds for pure privacy: never above any strategy, never below what they claim to cover."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.central.gaussian.products import as_one_axis
from noisewright.central.laplace import pure_bound as room
from noisewright.central.laplace.pure_bound import nuclear_bound, pure_bound
from noisewright.central.laplace.weighted_products import L2_BOUND, laplace_product
from noisewright.norm.factorize import factorize
from noisewright.workload import Workload, workload
from noisewright.workload.structure import terms


def nuclear(matrix: np.ndarray) -> float:
    return float(np.linalg.norm(matrix, "nuc"))


def signed_groups(cells: int) -> np.ndarray:
    """Every strategy whose columns are ± unit vectors, up to the sign of the first cell."""
    found = []
    for rows, signs in product(
        product(range(cells), repeat=cells), product((-1, 1), repeat=cells - 1)
    ):
        a = np.zeros((cells, cells))
        a[rows, np.arange(cells)] = (1, *signs)
        found.append(a)
    return np.array(found)


ALL_GROUPS = signed_groups(4)


def falling(
    rng: np.random.Generator, kept: int, cells: int
) -> tuple[np.ndarray, np.ndarray]:
    scales = np.sort(rng.random(kept) ** rng.choice([0.3, 1, 3]) + 1e-3)[::-1]
    return scales, rng.normal(size=(cells, kept))


@given(seed=st.integers(0, 10_000), kept=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_no_groups_of_cells_have_a_larger_nuclear_norm(seed: int, kept: int) -> None:
    scales, vectors = falling(np.random.default_rng(seed), kept, 4)
    m = scales[:, None] * vectors.T
    largest = max(np.linalg.svd(ALL_GROUPS @ m.T, compute_uv=False).sum(axis=1))
    assert largest <= nuclear_bound(scales, vectors) * (1 + 1e-9)


@given(seed=st.integers(0, 10_000), cells=st.integers(1, 12), rows=st.integers(1, 15))
@settings(max_examples=40, deadline=None)
def test_no_strategy_has_a_larger_nuclear_norm(
    seed: int, cells: int, rows: int
) -> None:
    rng = np.random.default_rng(seed)
    scales, vectors = falling(rng, int(rng.integers(1, cells + 1)), cells)
    a = rng.normal(size=(rows, cells)) * (rng.random((rows, cells)) < rng.random())
    a /= np.maximum(np.abs(a).sum(axis=0), 1e-9)
    m = scales[:, None] * vectors.T
    assert nuclear(a @ m.T) <= nuclear_bound(scales, vectors) * (1 + 1e-9)


@given(seed=st.integers(0, 10_000), cells=st.integers(1, 8), queries=st.integers(1, 8))
@settings(max_examples=10, deadline=None)
def test_no_strategy_beats_the_bound(seed: int, cells: int, queries: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.integers(-1, 3, size=(queries, cells)).astype(float)
    w[0, 0] = 1.0
    bound = pure_bound(w.T @ w, queries)
    for rows in (
        w,
        np.eye(cells),
        np.concatenate([np.eye(cells), 3 * rng.random((2, cells))]),
    ):
        a = rows / np.maximum(np.abs(rows).sum(axis=0).max(), 1e-9)
        assert bound <= np.linalg.norm(w @ np.linalg.pinv(a)) / np.sqrt(queries) * (
            1 + 1e-9
        )
    assert bound <= laplace_product(as_one_axis(workload(w)), (cells,), 2).value * (
        1 + 1e-9
    )


@pytest.mark.parametrize("text", ["identity:7", "total:6", "prefix:1", "3@identity:4"])
def test_the_bound_is_reached_where_counts_are_optimal(text: str) -> None:
    asked = workload(text)
    counted = 3.0 if text.startswith("3@") else 1.0
    assert pure_bound(asked.gram().dense(), asked.queries) == pytest.approx(
        counted, rel=1e-6
    )


@pytest.mark.parametrize(
    "text",
    [
        "prefix:64",
        "ranges:64",
        "allmarginals:2^6",
        "marginals:2^6:2",
        "prefix:8*prefix:8",
    ],
)
def test_the_bound_is_far_above_the_one_from_l2(text: str) -> None:
    asked = workload(text)
    other = factorize(asked, norm=2, tolerance=1e-3).lower_bound
    assert pure_bound(asked.gram().dense(), asked.queries) > 1.05 * other


@pytest.mark.parametrize("cells", [9, 16, 23])
def test_averaged_cells_still_give_a_bound(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = workload(f"prefix:{cells}")
    gram = asked.gram().dense()
    best = laplace_product(as_one_axis(asked), (cells,), 2).value
    monkeypatch.setattr(room, "LARGEST", 8)
    averaging = np.zeros((8, cells))
    edges = np.linspace(0, cells, 9).astype(int)
    for block, (start, stop) in enumerate(pairwise(edges)):
        averaging[block, start:stop] = 1 / (stop - start)
    np.testing.assert_allclose(room._averaged(gram), averaging @ gram @ averaging.T)
    assert pure_bound(gram, asked.queries) <= best


def planned_bound(
    asked: Workload, sizes: tuple[int, ...], norm: float
) -> tuple[float, str]:
    planned = laplace_product(terms(asked, sizes)[0], sizes, norm)
    assert planned.bound <= planned.value
    return planned.bound, planned.certificate


def test_counted_attributes_leave_the_bound_as_it_is() -> None:
    alone = planned_bound(workload("prefix:12"), (12,), 2)
    assert (
        planned_bound(workload("identity:3*prefix:12*total:2"), (3, 12, 2), 2) == alone
    )
    assert planned_bound(workload("prefix:12"), (12,), np.inf)[0] >= alone[0]


def test_products_beyond_the_search_keep_the_bound_from_l2() -> None:
    bound, name = planned_bound(workload("prefix:40*prefix:60"), (40, 60), 2)
    assert name == L2_BOUND
    assert bound > 1
