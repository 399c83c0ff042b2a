"""Replace-one neighbours: distances between columns, free shifts, weights on pairs of cells."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import Contradiction, InvalidParameter, TooLarge
from noisewright.norm.exact.residual_basis import residual_plan
from noisewright.norm.kernel.solver import solve
from noisewright.norm.replace import PairsProblem
from noisewright.workload import Marginals
from oracles.factorizations import nuclear_bound

SMALL = [
    "identity:7",
    "prefix:9",
    "ranges:7",
    "2.0@prefix:6",
    "prefix:5+total:5",
    "random:8x6:2",
    "parity:3:2",
    "on:2x3x2:0,1:(prefix:6)",
    "prefix:4*identity:3",
    "marginals:2x3x2:<=2",
    "allmarginals:2x3",
]


def differences(matrix: np.ndarray) -> np.ndarray:
    """Every difference of two columns, written out."""
    pairs = combinations(range(matrix.shape[1]), 2)
    return np.column_stack([matrix[:, j] - matrix[:, k] for j, k in pairs])


@pytest.mark.parametrize("text", SMALL)
@pytest.mark.parametrize("norm", [2.0, 4.0, math.inf])
def test_the_workload_up_to_a_shift_at_unit_distance(text: str, norm: float) -> None:
    found = nw.factorize(text, norm, neighbours="replace-one")
    matrix = found.workload.dense()
    strategy, reconstruction = found.strategy.dense(), found.reconstruction.dense()
    shifted = reconstruction @ strategy + found.offsets()[:, None]
    np.testing.assert_allclose(shifted, matrix, atol=1e-9)
    widest = np.linalg.norm(differences(strategy), axis=0).max()
    assert widest == pytest.approx(1, rel=1e-9)
    lengths = np.linalg.norm(reconstruction, axis=1)
    np.testing.assert_allclose(found.errors(), lengths, atol=1e-7)
    mean = lengths.max() if math.isinf(norm) else np.mean(lengths**norm) ** (1 / norm)
    assert found.value == pytest.approx(mean, rel=1e-9)
    assert 0 <= found.gap <= 1e-6


@pytest.mark.parametrize("text", ["prefix:9", "ranges:7", "random:8x6:2", "parity:3:2"])
@pytest.mark.parametrize("norm", [2.0, 4.0, math.inf])
def test_the_certificate_is_that_of_all_differences(text: str, norm: float) -> None:
    found = nw.factorize(text, norm, neighbours="replace-one")
    columns = differences(found.workload.dense())
    weights = found.certificate.row_weights(), found.certificate.column_weights()
    bound = nuclear_bound(columns, norm, *weights)
    assert found.lower_bound <= bound * (1 + 1e-13)
    assert found.lower_bound == pytest.approx(bound, rel=1e-7)


@pytest.mark.parametrize(
    ("sizes", "tables"),
    [
        ((2, 2, 2), [(0, 1), (1, 2), (0, 2)]),
        ((2, 3, 4), [(0, 1), (2,), (1, 2)]),
        ((1, 5), [(), (0, 1)]),
    ],
)
@pytest.mark.parametrize("norm", [2.0, 4.0, math.inf])
def test_families_of_marginals_agree_with_all_pairs(
    sizes: tuple[int, ...], tables: list, norm: float
) -> None:
    plan = residual_plan(sizes, tables, None, norm, neighbours="replace-one")
    bases = tuple(nw.workload(f"identity:{n}") for n in sizes)
    asked = Marginals(bases, tuple(tables))
    mean = 1.0 if math.isinf(norm) else asked.queries ** (-1 / norm)
    dense = solve(PairsProblem(asked), norm, tolerance=1e-7, iterations=1000)
    assert plan.value == pytest.approx(dense.upper * mean, rel=2e-6)
    assert 0 <= plan.gap <= 1e-6
    assert () not in plan.blocks


def test_pair_weights_of_a_family_prove_its_bound() -> None:
    sizes, tables = (2, 3, 2), [(0, 1), (1, 2), (0,)]
    plan = residual_plan(sizes, tables, None, math.inf, neighbours="replace-one")
    asked = Marginals(tuple(nw.workload(f"identity:{n}") for n in sizes), tuple(tables))
    cells = list(product(*(range(n) for n in sizes)))
    patterns = [
        tuple(i for i, (x, y) in enumerate(zip(u, v, strict=True)) if x != y)
        for u, v in combinations(cells, 2)
    ]
    assert plan.certificate.pairs is not None
    b = np.array([plan.certificate.pairs[p] / patterns.count(p) for p in patterns])
    a = np.repeat(plan.certificate.tables, plan.table_cells)
    bound = nuclear_bound(differences(asked.dense()), math.inf, a, b)
    assert plan.lower_bound <= bound * (1 + 1e-13)
    assert plan.lower_bound == pytest.approx(bound, rel=1e-9)


def test_totals_are_free_and_shifts_change_nothing() -> None:
    assert nw.factorize("total:9", neighbours="replace-one").value == 0
    assert nw.factorize("prefix:1", neighbours="replace-one").value == 0
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(5, 6))
    plain = nw.factorize(matrix, 4, neighbours="replace-one")
    shifted = nw.factorize(
        matrix + rng.normal(size=(5, 1)), 4, neighbours="replace-one"
    )
    assert shifted.value == pytest.approx(plain.value, rel=2e-6)


def test_never_worse_than_the_add_remove_strategy() -> None:
    for text in ("prefix:16", "ranges:12", "marginals:3^3:2"):
        add_remove = nw.factorize(text)
        columns = add_remove.strategy.dense()
        widest = np.linalg.norm(differences(columns), axis=0).max()
        replaced = nw.factorize(text, neighbours="replace-one")
        assert replaced.lower_bound <= widest * add_remove.value


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_large_products_and_families_report_their_certified_distance(
    norm: float,
) -> None:
    found = nw.factorize("identity:100*prefix:50", norm, neighbours="replace-one")
    assert 0 <= found.gap <= 0.01
    assert found.status == "certified"
    wide = nw.factorize("marginals:10^12:<=2", norm, neighbours="replace-one")
    assert 0 <= wide.gap <= 0.06


def test_the_product_bound_is_below_the_exact_value() -> None:
    from noisewright.norm.kernel.factorization import Settings
    from noisewright.norm.replace import _solve_product
    from noisewright.workload import Kron

    asked = nw.workload("prefix:5*ranges:3")
    assert isinstance(asked, Kron)
    exact = nw.factorize(asked, neighbours="replace-one")
    loose = _solve_product(asked, Settings(2.0, 1e-7, 500))
    assert loose.lower_bound <= exact.value
    assert exact.lower_bound <= loose.value
    widest = np.linalg.norm(differences(loose.strategy.dense()), axis=0).max()
    assert widest <= 1 + 1e-9


def badly_scaled(seed: int) -> np.ndarray:
    """Rows of 1 to 90,000, some columns of 1e±4, some offsets to 1e8, some rows twice or zero."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(2, 7, size=2)
    matrix = rng.normal(size=(rows, columns)) * 9e4 ** rng.uniform(0, 1, size=(rows, 1))
    if seed % 3 == 1:
        matrix = matrix * 10 ** rng.uniform(-4, 4, size=(1, columns))
    if seed % 3 == 2:
        matrix = matrix + 10 ** rng.uniform(0, 8, size=(rows, 1))
    if seed % 4 == 0:
        matrix[-1] = matrix[0] if seed % 8 == 0 else 0.0
    return matrix


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("norm", [2.0, 4.0, math.inf])
def test_badly_scaled_matrices_come_back(seed: int, norm: float) -> None:
    matrix = badly_scaled(seed)
    found = nw.factorize(matrix, norm, neighbours="replace-one")
    product = found.reconstruction.dense() @ found.strategy.dense()
    product = product + found.offsets()[:, None]
    sizes = np.ptp(matrix, axis=1) + 1e-15 * np.abs(matrix).max(axis=1)
    assert (np.abs(product - matrix).max(axis=1) <= 1e-7 * sizes).all()
    lengths = np.linalg.norm(found.reconstruction.dense(), axis=1)
    widest = np.linalg.norm(differences(found.strategy.dense()), axis=0).max()
    mean = lengths.max() if math.isinf(norm) else np.mean(lengths**norm) ** (1 / norm)
    assert found.value >= mean * widest * (1 - 1e-9)
    assert found.gap >= 0


def test_a_factorization_that_does_not_multiply_back_is_none() -> None:
    found = nw.factorize("prefix:6", neighbours="replace-one")
    other = nw.factorize("ranges:6", neighbours="replace-one")
    with pytest.raises(Contradiction, match="does not come back"):
        replace(found, strategy=other.strategy)
    with pytest.raises(Contradiction, match="contradicts its lower bound"):
        replace(found, value=found.value * (1 - 1e-6), workload=found.workload)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_entries_scale_out(scale: float) -> None:
    matrix = np.random.default_rng(4).normal(size=(4, 5))
    plain = nw.factorize(matrix, neighbours="replace-one")
    extreme = nw.factorize(scale * matrix, neighbours="replace-one")
    assert extreme.value == pytest.approx(scale * plain.value, rel=1e-6)


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match="neighbours="):
        nw.factorize("prefix:4", neighbours="both")
    with pytest.raises(TooLarge, match="replace-one"):
        nw.factorize("prefix:5000", neighbours="replace-one")
