"""Plain mechanisms: equal noise on answers, cells or a tree, against dense least squares."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from noisewright.central import baselines as direct
from noisewright.central.baselines import (
    cells_strategy,
    direct_strategy,
    refuses_cells,
    refuses_direct,
    refuses_tree,
    tree_strategy,
)
from noisewright.workload import workload
from noisewright.workload.structure import terms

ADDED = "add-remove"
CASES = {
    "prefix:10": (10,),
    "ranges:9*identity:2": (9, 2),
    "prefix:7*total:3*prefix:5": (7, 3, 5),
}


def value(w: np.ndarray, a: np.ndarray, order: int) -> float:
    length = np.linalg.norm(a, ord=order, axis=0).max()
    return float(np.linalg.norm(w @ np.linalg.pinv(a)) * length / np.sqrt(len(w)))


def tree(cells: int, branches: int) -> np.ndarray:
    """Intervals of a tree, level by level."""
    rows, width = [np.eye(cells)], branches
    while True:
        starts = range(0, cells, width)
        rows.append(np.array([[float(s <= j < s + width) for j in range(cells)] for s in starts]))
        if width >= cells:
            return np.concatenate(rows)
        width *= branches


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", CASES)
def test_values_are_those_of_least_squares(text: str, order: int) -> None:
    asked, sizes = workload(text), CASES[text]
    split = terms(asked, sizes)
    w = asked.dense()
    cells = cells_strategy(split, sizes, 2, ADDED, order)
    unasked = [i for i in range(len(sizes)) if i not in split[0].attributes]
    counted = reduce(
        np.kron, [np.ones((1, n)) if i in unasked else np.eye(n) for i, n in enumerate(sizes)]
    )
    assert cells.value == pytest.approx(value(w, counted, order), rel=1e-6)
    answers = direct_strategy(split, sizes, 2, ADDED, order)
    assert answers.value == pytest.approx(value(w, w, order), rel=1e-6)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", ["prefix:10", "ranges:16", "prefix:2"])
def test_the_best_tree_is_found(text: str, order: int) -> None:
    asked = workload(text)
    found = tree_strategy(terms(asked, (asked.size,)), (asked.size,), 2, ADDED, order)
    w = asked.dense()
    expected = min(value(w, tree(asked.size, b), order) for b in direct._BRANCHES)
    assert found.value == pytest.approx(expected, rel=1e-6)


def test_products_of_trees_measure_counted_attributes_as_they_are() -> None:
    asked = workload("identity:3*prefix:9*total:2")
    found = tree_strategy(terms(asked, (3, 9, 2)), (3, 9, 2), 2, ADDED, 1)
    alone = tree_strategy(terms(workload("prefix:9"), (9,)), (9,), 2, ADDED, 1)
    assert found.value == pytest.approx(alone.value, rel=1e-6)


def test_what_does_not_suit_is_refused_in_words() -> None:
    several = terms(workload("marginals:2^3:1"), (2, 2, 2))
    assert "one product" in refuses_tree(several)
    assert "no tree" in refuses_tree(terms(workload("identity:4*total:2"), (4, 2)))
    assert "up to 2048" in refuses_tree(terms(workload("prefix:4096"), (4096,)))
    assert refuses_tree(terms(workload("prefix:4"), (4,))) is None
    assert refuses_cells(several, (2, 2, 2)) is None
    wide = (64,) * 4
    assert "too many" in refuses_cells(terms(workload("marginals:64^4:2"), wide), wide)
    assert "too many queries" in refuses_direct(terms(workload("ranges:1024"), (1024,)))
