"""Many explicit queries over few cells: the same optimum from Gram matrices, nothing made dense."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import noisewright as nw
from noisewright.norm.exact import explicit as tall_matrix
from noisewright.norm.exact.explicit import solve_explicit
from noisewright.norm.kernel.factorization import Settings
from noisewright.workload.kinds.explicit import Explicit


def queries(rows: int, cells: int, seed: int, density: float = 0.2) -> sp.csr_array:
    """Sparse 0/1 queries; cell 3 is in none of them, and the last query is asked twice."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((rows, cells)) < density).astype(float)
    matrix[:, 3] = 0
    matrix[:, 0] += 0.5 * rng.random(rows)
    matrix[-1] = matrix[0]
    return sp.csr_array(matrix)


@pytest.mark.parametrize("norm", [2.0, 4.0, np.inf])
@pytest.mark.parametrize("storage", [sp.csr_array, lambda matrix: matrix.toarray()])
def test_gram_matrices_find_the_optimum_of_the_full_solver(
    norm, storage, monkeypatch
) -> None:
    monkeypatch.setattr(tall_matrix, "_FEWEST_ENTRIES", 0)
    asked = Explicit(storage(queries(120, 20, seed=1)))
    settings = Settings(norm, 1e-7, 2000)
    tall, full = (
        tall_matrix.solve_tall(asked, settings),
        solve_explicit(asked, settings),
    )
    assert tall is not None
    assert tall.value == pytest.approx(full.value, rel=1e-6)
    assert tall.lower_bound == pytest.approx(full.lower_bound, rel=1e-6)
    np.testing.assert_allclose(tall.errors(), full.errors(), rtol=2e-3)
    dense = asked.dense()
    np.testing.assert_allclose(
        dense @ tall.inverse.dense() @ tall.strategy.dense(), dense, atol=1e-9
    )
    assert tall.strategy.sensitivity() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    "matrix",
    [
        # two cells that nobody tells apart
        np.repeat(np.eye(4), 4, axis=0)[:, [0, 1, 2, 3, 3]],
        np.vstack([np.eye(3)] * 3) * np.array([1, 1, 1e-9]),  # one that is hardly seen
        np.eye(6)[:, :5] * 1e200,  # squares that overflow
    ],
)
def test_what_squares_would_blur_is_solved_in_full(
    matrix: np.ndarray, monkeypatch
) -> None:
    monkeypatch.setattr(tall_matrix, "_FEWEST_ENTRIES", 0)
    with np.errstate(over="ignore"):
        assert (
            tall_matrix.solve_tall(Explicit(matrix), Settings(2.0, 1e-7, 100)) is None
        )


def test_large_sparse_queries_are_planned_and_released_without_a_dense_copy(
    monkeypatch,
) -> None:
    matrix = queries(30_000, 300, seed=2, density=0.05)

    def refuse(*_: object) -> None:
        raise AssertionError("a dense copy of all queries")

    for name in ("rows", "dense"):
        monkeypatch.setattr(Explicit, name, refuse)
    monkeypatch.setattr(sp.csr_array, "toarray", _small_only(sp.csr_array.toarray))
    plan = nw.plan(matrix, nw.Privacy(rho=1.0))
    release = plan.release(np.arange(300))
    assert plan.forecast().ratio == pytest.approx(1, abs=1e-4)
    # Each answer lies within six of its standard errors: false alarms below 2e-5 in all.
    off = np.abs(release.answers - matrix @ np.arange(300)) / release.std
    assert off.max() < 6


def _small_only(original):
    def toarray(self, *arguments, **options):
        assert np.prod(self.shape) < 300 * 30_000
        return original(self, *arguments, **options)

    return toarray


def test_a_matrix_has_one_name_sparse_and_dense() -> None:
    matrix = queries(20, 6, seed=3)
    names = {Explicit(matrix).text(), Explicit(matrix.toarray()).text()}
    changed = matrix.toarray()
    changed[2, 1] += 1e-9
    assert len(names) == 1
    assert Explicit(changed).text() not in names
    assert Explicit(-0.0 * np.eye(2)).text() == Explicit(np.zeros((2, 2))).text()
