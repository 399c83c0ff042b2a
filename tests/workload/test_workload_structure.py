"""What a workload is: attributes, terms and symmetries agree with the workload's own matrix."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from noisewright.errors import InvalidParameter
from noisewright.workload import workload
from noisewright.workload.linear.tensor import marginal_tables, walsh_hadamard
from noisewright.workload.structure import Structure, terms
from oracles.workloads import TEXTS, matrix

SIZES = {
    "marginals:2^4:2": (2, 2, 2, 2),
    "marginals:2^4:<=3": (2, 2, 2, 2),
    "marginals:3x2x4:2": (3, 2, 4),
    "allmarginals:3x1x2": (3, 1, 2),
    "prefix:3*ranges:2*identity:2": (3, 2, 2),
    "(prefix:2+identity:2)*prefix:3": (2, 3),
    "0.5@(prefix:2*identity:3)": (2, 3),
}


@pytest.mark.parametrize("text", TEXTS)
def test_terms_give_the_answers_in_order(text: str) -> None:
    w = workload(text)
    sizes = SIZES.get(text, (w.size,))
    check_terms(text, sizes)
    check_terms(text, w.structure.sizes)


def check_terms(text: str, sizes: tuple[int, ...]) -> None:
    w = workload(text)
    x = np.random.default_rng(5).normal(size=sizes)
    answers = []
    for term in terms(w, sizes):
        others = tuple(i for i in range(len(sizes)) if i not in term.attributes)
        answers.append(term.answers(x.sum(axis=others).ravel()))
    np.testing.assert_allclose(
        np.concatenate(answers), w.dense() @ x.ravel(), atol=1e-9
    )


NAMED = {
    "prefix:6": None,
    "identity:2*prefix:3": (2, 3),
    "3@allmarginals:2x3": (2, 3),
    "identity:6+marginals:2x3:1": (2, 3),
    "2@total:6+identity:2*prefix:3": (2, 3),
    "identity:6+total:6": None,
    "prefix:6+marginals:2x3:1": None,
    "identity:2*identity:3+identity:3*identity:2": None,
    "on:2x3:1:(prefix:3)+identity:2*total:3": (2, 3),
}


@pytest.mark.parametrize(("text", "sizes"), NAMED.items())
def test_attributes_are_told_by_one_rule(
    text: str, sizes: tuple[int, ...] | None
) -> None:
    w = workload(text)
    assert w.named_sizes == sizes
    assert w.structure.sizes == (sizes or (w.size,))
    assert w.structure is w.structure  # asked once
    check_terms(text, w.structure.sizes)


@pytest.mark.parametrize("text", ["identity:24", "total:24", "2@identity:24+total:24"])
def test_undivided_counts_are_tables_over_any_attributes(text: str) -> None:
    check_terms(text, (2, 3, 4))
    tables = Structure(workload(text), (2, 3, 4)).tables
    assert tables is not None
    assert {table.attributes for table in tables} <= {(), (0, 1, 2)}


@pytest.mark.parametrize(
    "text", ["allmarginals:3x2", "(2@identity:3+total:3)*identity:2"]
)
def test_counts_have_the_rows_of_the_workload_in_any_order(text: str) -> None:
    w = workload(text)
    assert w.structure.tables is None
    assert w.structure.counts is not None
    x = np.random.default_rng(0).normal(size=w.structure.sizes)
    answers = []
    for table in w.structure.counts:
        assert table.is_counts
        others = tuple(i for i in range(x.ndim) if i not in table.attributes)
        answers.append(table.answers(x.sum(axis=others).ravel()))
    np.testing.assert_allclose(
        np.sort(np.concatenate(answers)), np.sort(w.dense() @ x.ravel())
    )
    assert workload("prefix:3*identity:2").structure.counts is None


@pytest.mark.parametrize(
    "text", ["total:5", "total:2*total:3", "2@total:4+total:4", "identity:1"]
)
def test_workloads_of_totals_only(text: str) -> None:
    assert workload(text).structure.only_totals
    assert not workload(f"({text})*identity:2").structure.only_totals


def test_a_workload_of_zeros() -> None:
    assert workload(np.zeros((2, 3))).structure.zero
    assert not workload(np.eye(3)).structure.zero


AXES = [
    "identity:5",
    "parity:3:2",
    "marginals:2x3:1",
    "allmarginals:2x3",
    "total:6+marginals:2x3:1",
]


@pytest.mark.parametrize("text", AXES)
def test_shifts_along_the_axes_leave_the_gram_matrix_unchanged(text: str) -> None:
    w = workload(text)
    axes = w.invariant_axes
    assert axes is not None
    gram = w.gram().dense()
    cells = np.arange(w.size).reshape(axes)
    for axis in range(len(axes)):
        moved = np.roll(cells, 1, axis=axis).ravel()
        np.testing.assert_allclose(gram[np.ix_(moved, moved)], gram, atol=1e-12)
    assert workload("prefix:6").invariant_axes is None
    assert workload("prefix:6+identity:6").invariant_axes is None


@pytest.mark.parametrize("text", TEXTS)
def test_quadratic_forms_match_the_matrix(text: str) -> None:
    w, m = workload(text), matrix(text)
    root = np.random.default_rng(6).normal(size=(w.size, w.size))
    g = root @ root.T
    np.testing.assert_allclose(
        w.row_quadratics(g), np.diag(m @ g @ m.T), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("text", ["allmarginals:2^7", "prefix:10*identity:3*ranges:4"])
def test_quadratic_forms_of_products_in_halves(text: str) -> None:
    w = workload(text)
    root = np.random.default_rng(6).normal(size=(w.size, w.size))
    g, m = root @ root.T, w.dense()
    expected = np.einsum("ij,jk,ik->i", m, g, m, optimize=True)
    np.testing.assert_allclose(w.row_quadratics(g), expected, rtol=1e-9)


def test_a_workload_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="cells where the domain has"):
        terms(workload("prefix:8"), (3, 2))


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_marginal_tables_share_their_sums(batch: tuple[int, ...]) -> None:
    sizes = (2, 3, 1, 4)
    cells = np.random.default_rng(3).normal(size=(24, *batch))
    wanted = [own for width in range(5) for own in combinations(range(4), width)]
    tables = dict(marginal_tables(cells, sizes, [*wanted, (0, 3)]))
    assert set(tables) == set(wanted)
    for own, table in tables.items():
        others = tuple(i for i in range(4) if i not in own)
        expected = cells.reshape(*sizes, *batch).sum(axis=others)
        np.testing.assert_allclose(table, expected.reshape(-1, *batch), atol=1e-12)


def test_parities_of_bits_whose_cells_nobody_lists_are_products() -> None:
    asked = workload("parity:40:<=2")
    parts = asked.structure.terms
    assert asked.structure.sizes == (2,) * 40
    assert [part.attributes for part in parts[:2] + parts[-1:]] == [(), (0,), (38, 39)]
    assert len(parts) == asked.queries == 1 + 40 + 780


@pytest.mark.parametrize("bits", range(11))
def test_fast_transforms_of_floats_are_those_of_whole_numbers(bits: int) -> None:
    x = np.random.default_rng(bits).integers(-99, 100, size=(2**bits, 2))
    np.testing.assert_array_equal(
        walsh_hadamard(x.astype(np.float64)), walsh_hadamard(x)
    )
