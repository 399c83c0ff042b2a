"""Plain mechanisms: equal noise on answers, cells or a tree, against dense least squares."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from noisewright.central import baselines
from noisewright.central.problem import CentralProblem, Proposal
from noisewright.central.registry import CENTRAL
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import Workload, workload

NOISE = {1: "laplace", 2: "gaussian"}
BUDGETS = {1: Privacy(epsilon=1.0), 2: Privacy(rho=0.5)}
CASES = {
    "prefix:10": (10,),
    "ranges:9*identity:2": (9, 2),
    "prefix:7*total:3*prefix:5": (7, 3, 5),
}


def problem(asked: Workload, sizes: tuple[int, ...], order: int) -> CentralProblem:
    return CentralProblem(asked, sizes, BUDGETS[order], 2.0)


def proposal(
    suffix: str, asked: Workload, sizes: tuple[int, ...], order: int
) -> Proposal:
    return CENTRAL[NOISE[order] + suffix].plan(problem(asked, sizes, order))


def refusal(suffix: str, text: str, sizes: tuple[int, ...]) -> str | None:
    return CENTRAL["gaussian" + suffix].refuses(problem(workload(text), sizes, 2))


def value(w: np.ndarray, a: np.ndarray, order: int) -> float:
    length = np.linalg.norm(a, ord=order, axis=0).max()
    return float(np.linalg.norm(w @ np.linalg.pinv(a)) * length / np.sqrt(len(w)))


def tree(cells: int, branches: int) -> np.ndarray:
    """Intervals of a tree, level by level."""
    rows, width = [np.eye(cells)], branches
    while True:
        starts = range(0, cells, width)
        rows.append(
            np.array(
                [[float(s <= j < s + width) for j in range(cells)] for s in starts]
            )
        )
        if width >= cells:
            return np.concatenate(rows)
        width *= branches


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", CASES)
def test_values_are_those_of_least_squares(text: str, order: int) -> None:
    asked, sizes = workload(text), CASES[text]
    w = asked.dense()
    cells = proposal("-cells", asked, sizes, order)
    attributes = problem(asked, sizes, order).terms[0].attributes
    unasked = [i for i in range(len(sizes)) if i not in attributes]
    counted = reduce(
        np.kron,
        [np.ones((1, n)) if i in unasked else np.eye(n) for i, n in enumerate(sizes)],
    )
    assert cells.value == pytest.approx(value(w, counted, order), rel=1e-6)
    answers = proposal("", asked, sizes, order)
    assert answers.value == pytest.approx(value(w, w, order), rel=1e-6)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", ["prefix:10", "ranges:16", "prefix:2"])
def test_the_best_tree_is_found(text: str, order: int) -> None:
    asked = workload(text)
    best = proposal("-tree", asked, (asked.size,), order)
    w = asked.dense()
    expected = min(value(w, tree(asked.size, b), order) for b in baselines._BRANCHES)
    assert best.value == pytest.approx(expected, rel=1e-6)


def test_products_of_trees_measure_counted_attributes_as_they_are() -> None:
    asked = workload("identity:3*prefix:9*total:2")
    product = proposal("-tree", asked, (3, 9, 2), 1)
    alone = proposal("-tree", workload("prefix:9"), (9,), 1)
    assert product.value == pytest.approx(alone.value, rel=1e-6)


def test_what_does_not_suit_is_refused_in_words() -> None:
    several = ("marginals:2^3:1", (2, 2, 2))
    assert "one product" in str(refusal("-tree", *several))
    assert "no tree" in str(refusal("-tree", "identity:4*total:2", (4, 2)))
    assert "up to 2048" in str(refusal("-tree", "prefix:4096", (4096,)))
    assert refusal("-tree", "prefix:4", (4,)) is None
    assert refusal("-cells", *several) is None
    assert "too many" in str(refusal("-cells", "marginals:64^4:2", (64,) * 4))
    assert "too many queries" in str(refusal("", "ranges:1024", (1024,)))
    assert refusal("", *several) is None
    assert "several tables of counts" in str(refusal("", "prefix:3+identity:3", (3,)))
