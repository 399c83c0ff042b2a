"""Structured operators: adjoints, columns and dense forms agree, and large ones refuse."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.norm.exact.residual_basis import residual_plan
from noisewright.norm.exact.symmetric import ResidualStrategy, helmert
from noisewright.norm.exact.tridiagonal import (
    inverse_root_diagonal,
    prefix_gram_inverse,
    ranges_gram_inverse,
)
from noisewright.workload import Identity
from noisewright.workload.linear.linear_map import LinearMap
from noisewright.workload.linear.maps import (
    Adjoint,
    BlockDiagonal,
    Dense,
    Folded,
    Invariant,
    Kronecker,
    OnTable,
    Product,
    Repeated,
    Scaled,
    Stacked,
    characters,
    uniform,
)

RNG = np.random.default_rng(5)
SMALL, OTHER = Dense(RNG.normal(size=(3, 4))), Dense(RNG.normal(size=(2, 4)))
PLAN = residual_plan((2, 3), [(0, 1), (1,)], norm=4)
OPERATORS: dict[str, LinearMap] = {
    "dense": SMALL,
    "scaled": Scaled(-2.0, SMALL),
    "identity": Identity(5),
    "kronecker": Kronecker((SMALL, Identity(2), OTHER)),
    "on table": OnTable((2, 4, 3), (1,), SMALL),
    "adjoint": Adjoint(SMALL),
    "stacked": Stacked((SMALL, OTHER)),
    "repeated": Repeated(np.array([1.0, 2.0]), (3, 2)),
    "scaled workload": Scaled(0.5, nw.workload("ranges:5")),
    "product": Product(nw.workload("prefix:4"), Adjoint(SMALL)),
    "uniform": uniform(6, 0.5),
    "folded": Folded(
        SMALL, np.array([0, 3, 3, 1, 2]), np.array([1.0, 0.5, -1.0, 0.0, 2.0])
    ),
    "block diagonal": BlockDiagonal((SMALL, Identity(2), OTHER)),
    "walsh": Invariant((2, 2, 2), RNG.random(8)),
    "fourier": Invariant((5,), np.array([1.0, 2.0, 3.0, 3.0, 2.0])),
    "residual": ResidualStrategy(PLAN),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_adjoint_dense_and_columns_agree(name: str) -> None:
    operator = OPERATORS[name]
    rows, columns = operator.shape
    matrix = operator.dense()
    assert matrix.shape == (rows, columns)
    x, y = RNG.normal(size=columns), RNG.normal(size=rows)
    np.testing.assert_allclose(operator.matvec(x), matrix @ x, atol=1e-12)
    np.testing.assert_allclose(operator.rmatvec(y), matrix.T @ y, atol=1e-12)
    several = RNG.normal(size=(columns, 3))
    np.testing.assert_allclose(operator.matvec(several), matrix @ several, atol=1e-12)
    np.testing.assert_allclose(
        operator.rmatvec(matrix @ several), matrix.T @ matrix @ several
    )
    for order in (1, 2):
        lengths = np.linalg.norm(matrix, order, axis=0)
        np.testing.assert_allclose(operator.column_norms(order), lengths, atol=1e-12)
        assert operator.sensitivity(order) == pytest.approx(lengths.max())
        distances = np.linalg.norm(
            matrix[:, :, None] - matrix[:, None, :], order, axis=0
        )
        assert operator.sensitivity(order, "replace-one") == pytest.approx(
            distances.max()
        )
    with pytest.raises(InvalidParameter, match="must be 1 or 2"):
        operator.sensitivity(3)
    with pytest.raises(InvalidParameter, match="add-remove"):
        operator.sensitivity(2, "others")


def test_characters_are_the_eigenvalues() -> None:
    for sizes in ((2, 2, 2), (5,), (3, 2)):
        operator = Invariant(sizes, np.ones(int(np.prod(sizes))))
        column = RNG.random(operator.shape[0])
        if sizes == (5,):
            column[3:] = column[[2, 1]]
        if sizes == (3, 2):
            column = column.reshape(3, 2)
            column[2] = column[1]
            column = column.ravel()
        found = Invariant(sizes, characters(sizes, column))
        np.testing.assert_allclose(found.dense()[:, 0], column, atol=1e-12)


def test_helmert_rows_are_orthonormal_contrasts() -> None:
    for size in (2, 3, 7):
        rows = helmert(size)
        np.testing.assert_allclose(rows @ rows.T, np.eye(size - 1), atol=1e-14)
        np.testing.assert_allclose(rows.sum(axis=1), 0, atol=1e-14)


def test_dense_forms_are_refused_when_large() -> None:
    with pytest.raises(TooLarge, match="more than the limit"):
        Kronecker((Identity(10**5), Identity(10**5))).dense()


@pytest.mark.parametrize(
    "problem", [prefix_gram_inverse(200), ranges_gram_inverse(200)]
)
def test_the_diagonal_of_a_tridiagonal_inverse_root(problem: object) -> None:
    b = RNG.random(200) ** 3 + 1e-6
    diagonal, off = problem._tridiagonal(b / b.sum())  # type: ignore[attr-defined]
    matrix = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
    values, vectors = np.linalg.eigh(matrix)
    exact = (vectors * vectors) @ values**-0.5
    np.testing.assert_allclose(inverse_root_diagonal(diagonal, off), exact, rtol=1e-8)
