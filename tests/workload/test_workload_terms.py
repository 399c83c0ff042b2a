"""Terms and quadratic forms agree with the workload's own matrix."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.errors import InvalidParameter
from noisewright.workload import workload
from noisewright.workload.quadratics import row_quadratics
from noisewright.workload.terms import terms
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
    x = np.random.default_rng(5).normal(size=sizes)
    answers = []
    for term in terms(w, sizes):
        others = tuple(i for i in range(len(sizes)) if i not in term.attributes)
        answers.append(term.answers(x.sum(axis=others).ravel()))
    np.testing.assert_allclose(np.concatenate(answers), matrix(text) @ x.ravel(), atol=1e-9)


@pytest.mark.parametrize("text", TEXTS)
def test_quadratic_forms_match_the_matrix(text: str) -> None:
    w, m = workload(text), matrix(text)
    root = np.random.default_rng(6).normal(size=(w.size, w.size))
    g = root @ root.T
    np.testing.assert_allclose(row_quadratics(w, g), np.diag(m @ g @ m.T), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", ["allmarginals:2^7", "prefix:10*identity:3*ranges:4"])
def test_quadratic_forms_of_products_in_halves(text: str) -> None:
    w = workload(text)
    root = np.random.default_rng(6).normal(size=(w.size, w.size))
    g, m = root @ root.T, w.dense()
    expected = np.einsum("ij,jk,ik->i", m, g, m, optimize=True)
    np.testing.assert_allclose(row_quadratics(w, g), expected, rtol=1e-9)


def test_a_workload_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="cells where the domain has"):
        terms(workload("prefix:8"), (3, 2))
