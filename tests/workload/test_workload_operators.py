"""Every workload in the registry agrees with a matrix built by an independent oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.workload import (
    Explicit,
    Kron,
    Marginals,
    OnAttributes,
    Prefix,
    Ranges,
    workload,
)
from noisewright.workload.linear import marginal_gram as gram_module
from noisewright.workload.linear.marginal_gram import MarginalGram
from oracles.workloads import TEXTS, matrix


@pytest.fixture(params=TEXTS)
def text(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_dense_matches_the_oracle(text: str) -> None:
    np.testing.assert_array_equal(workload(text).dense(), matrix(text))


def test_products_match_the_oracle(text: str) -> None:
    w, m = workload(text), matrix(text)
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(w.size, 3)), rng.normal(size=(w.queries, 3))
    np.testing.assert_allclose(w.matvec(x), m @ x, atol=1e-9)
    np.testing.assert_allclose(w.matvec(x[:, 0]), m @ x[:, 0], atol=1e-9)
    np.testing.assert_allclose(w.rmatvec(y), m.T @ y, atol=1e-9)
    np.testing.assert_allclose(w.rmatvec(y[:, 0]), m.T @ y[:, 0], atol=1e-9)


def test_gram_matches_the_oracle(text: str) -> None:
    gram, m = workload(text).gram(), matrix(text)
    np.testing.assert_allclose(gram.dense(), m.T @ m, atol=1e-8)
    np.testing.assert_allclose(gram.diagonal(), np.diag(m.T @ m), atol=1e-8)
    assert gram.trace() == pytest.approx((m**2).sum())


@pytest.mark.parametrize("order", [1, 2])
def test_norms_and_sensitivities_match_the_oracle(text: str, order: int) -> None:
    w, m = workload(text), matrix(text)
    norms = np.linalg.norm(m, ord=order, axis=0)
    np.testing.assert_allclose(w.column_norms(order), norms, atol=1e-9)
    assert w.sensitivity(order, "add-remove") == pytest.approx(norms.max())
    pairs = np.linalg.norm(m[:, :, None] - m[:, None, :], ord=order, axis=0)
    assert w.sensitivity(order, "replace-one") == pytest.approx(pairs.max(), abs=1e-7)


def test_integers_stay_integers(text: str) -> None:
    w = workload(text)
    if "@" in text or "random" in text:
        pytest.skip("weights and explicit matrices are real")
    x = np.arange(w.size, dtype=np.int64)
    assert w.matvec(x).dtype == np.int64
    assert w.rmatvec(w.matvec(x)).dtype == np.int64


def test_text_parses_back_to_itself(text: str) -> None:
    w = workload(text)
    again = workload(w.text())
    assert again.text() == w.text()
    np.testing.assert_array_equal(again.dense(), w.dense())


def test_every_row_has_its_own_label(text: str) -> None:
    w = workload(text)
    labels = w.labels()
    assert len(labels) == w.queries
    if "+" not in text and "@" not in text:
        assert len(set(labels)) == w.queries


def test_row_blocks_are_slices_of_the_matrix(text: str) -> None:
    w, m = workload(text), matrix(text)
    for start, stop in [(0, 1), (w.queries // 2, w.queries + 5), (1, 3)]:
        np.testing.assert_allclose(w.rows(start, stop), m[start:stop])


def test_a_linear_operator_is_read_as_its_matrix(text: str) -> None:
    w = workload(text)
    operator = aslinearoperator(w.dense())
    np.testing.assert_allclose(workload(operator).dense(), w.dense())


@given(st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_range_labels_name_the_interval(n: int) -> None:
    w = Ranges(n)
    m = w.dense()
    for row in range(w.queries):
        first, last = w.span(row)
        expected = np.zeros(n)
        expected[first : last + 1] = 1
        np.testing.assert_array_equal(m[row], expected)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_mixed_tables_equal_kronecker_products(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    bases = tuple(data.draw(st.sampled_from([Prefix, Ranges]))(n) for n in sizes)
    tables = data.draw(
        st.lists(
            st.sets(st.integers(0, len(sizes) - 1)).map(lambda s: tuple(sorted(s))),
            min_size=1,
        )
    )
    weights = tuple(float(i + 1) for i in range(len(tables)))
    expected = []
    for table, weight in zip(tables, weights, strict=True):
        block = np.ones((1, 1))
        for i, base in enumerate(bases):
            block = np.kron(
                block, base.dense() if i in table else np.ones((1, base.size))
            )
        expected.append(weight * block)
    w = Marginals(bases, tuple(tables), weights)
    np.testing.assert_allclose(w.dense(), np.concatenate(expected))
    np.testing.assert_allclose(w.gram().dense(), w.dense().T @ w.dense())
    np.testing.assert_allclose(w.rmatvec(np.eye(w.queries)), w.dense().T)


def test_a_joint_query_on_two_of_three_attributes() -> None:
    inner = Explicit(np.arange(12.0).reshape(2, 6))
    w = OnAttributes((2, 4, 3), (0, 2), inner)
    expected = np.einsum(
        "qac,b->qabc", inner.matrix.reshape(2, 2, 3), np.ones(4)
    ).reshape(2, -1)
    np.testing.assert_allclose(w.dense(), expected)
    np.testing.assert_allclose(w.gram().dense(), expected.T @ expected)
    assert workload("on:2x4x3:0,2:(identity:6)").shape == (6, 24)


def test_sparse_and_dense_matrices_agree() -> None:
    m = np.random.default_rng(3).integers(-2, 3, size=(5, 7)).astype(float)
    sparse, dense = workload(csr_array(m)), workload(m)
    np.testing.assert_array_equal(sparse.dense(), dense.dense())
    np.testing.assert_allclose(sparse.gram().dense(), dense.gram().dense())
    assert sparse.sensitivity(1) == dense.sensitivity(1)


def test_a_huge_domain_is_handled_by_structure() -> None:
    w = workload("*".join(["prefix:16"] * 7 + ["identity:4"]))
    assert w.size == 4 * 16**7
    assert isinstance(w, Kron)
    assert w.sensitivity(2) == pytest.approx(16**3.5)
    with pytest.raises(TooLarge, match="dense"):
        w.dense()


@pytest.mark.parametrize(
    "bad",
    ["prefix:0", "prefix:x", "nonsense:4", "prefix:4+prefix:5", "-1@prefix:4", "(prefix:4", "",
     "marginals:2^3:4", "parity:3:5", "prefix:4)", "x@prefix:3", "prefix:4:5", "random:3x4"],
)  # fmt: skip
def test_bad_text_is_refused_with_the_rule(bad: str) -> None:
    with pytest.raises(InvalidParameter):
        workload(bad)


@pytest.mark.parametrize("bad", [np.array([[np.nan]]), np.zeros((0, 3)), np.ones(3)])
def test_bad_matrices_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(InvalidParameter):
        workload(bad)


def test_the_public_name_is_callable_before_and_after_the_room_is_imported() -> None:
    import noisewright as nw

    assert nw.workload("prefix:3").shape == (3, 3)
    assert nw.workload("prefix:4").shape == (4, 4)


@pytest.mark.parametrize(
    "text", ["marginals:3x1x2x4:2", "marginals:2^4:<=3", "marginals:2^7:3"]
)
def test_marginal_gram_is_that_of_its_rows_by_every_way(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = workload(text)
    gram, rows = w.gram(), w.dense()
    assert isinstance(gram, MarginalGram)
    expected = rows.T @ rows
    x = np.random.default_rng(3).standard_normal((w.size, 2))
    for few in (0, 10**6):
        monkeypatch.setattr(gram_module, "_FEW_TABLES", few)
        np.testing.assert_allclose(gram.matvec(x), expected @ x, atol=1e-9)
        np.testing.assert_allclose(gram.matvec(x[:, 0]), expected @ x[:, 0], atol=1e-9)
    np.testing.assert_allclose(gram.dense(), expected, atol=1e-12)
    monkeypatch.setattr(gram_module, "_MOST_ATTRIBUTES", 0)
    np.testing.assert_allclose(gram.dense(), expected, atol=1e-12)


def test_forms_of_a_gram_matrix_are_the_matrix_itself(text: str) -> None:
    gram = workload(text).gram()
    matrix = gram.dense()
    np.testing.assert_allclose(gram.normal_form().dense(), matrix, atol=1e-9)
    np.testing.assert_allclose(gram.scaled(2.5).dense(), 2.5 * matrix, atol=1e-9)
    assert not gram.scaled(0.0).dense().any()
    assert gram.mean_square() == pytest.approx(np.trace(matrix) / len(matrix))
    form = gram.identity_and_ones()
    if form is not None:
        np.testing.assert_allclose(form[0] * np.eye(len(matrix)) + form[1], matrix)


def test_histograms_and_totals_are_told_by_their_gram_matrix() -> None:
    assert workload("2@identity:5+total:5+identity:5").gram().identity_and_ones() == (
        5.0,
        1.0,
    )
    assert workload("identity:5+prefix:5").gram().identity_and_ones() is None
