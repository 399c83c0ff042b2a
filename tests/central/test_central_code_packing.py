"""Packings by codes: distances against data sets written out, sizes against greedy codes."""

from __future__ import annotations

from itertools import combinations, product
from math import comb, exp, log

import numpy as np
import pytest
from scipy.linalg import hadamard

import noisewright as nw
from noisewright.central.geometry.limits.packing import (
    CodePacking,
    best_code_packing,
    binary_tables,
    log_words,
    packing_bound,
)
from noisewright.errors import InvalidParameter
from noisewright.planning.central.problems import central_problem
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload

REPLACED = Privacy(1.0, neighbours="replace-one")


def greedy(length: int, letters: int, distance: int) -> list[tuple[int, ...]]:
    """Words taken one by one while they differ enough from all before."""
    words: list[tuple[int, ...]] = []
    for word in product(range(letters), repeat=length):
        if all(
            sum(a != b for a, b in zip(word, w, strict=True)) >= distance for w in words
        ):
            words.append(word)
    return words


@pytest.mark.parametrize(
    ("length", "letters", "distance"),
    [(6, 2, 3), (8, 2, 2), (4, 3, 2), (3, 5, 3), (5, 2, 1)],
)
def test_there_are_as_many_words_as_said(length, letters, distance):
    assert exp(log_words(length, log(letters), distance)) <= len(
        greedy(length, letters, distance)
    )


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_answers_to_two_data_sets_differ_by_what_is_said(ways):
    """All of it written out: people, conjunctions of one attribute a block, and all of them."""
    order, word, apart, copies = 4, 3, 2, 3
    codewords = greedy(word, 2, apart)
    columns = (hadamard(order)[:, 1:] > 0).astype(int).T
    places = list(product(range(order - 1), repeat=ways - 1))
    changed = max(1, len(places) // 2)
    packing = CodePacking(ways, word, apart, order, len(places), changed, copies)
    functions = greedy(min(len(places), 4), len(codewords), min(changed, 2))[:12]
    sets = []
    for own in functions:
        f = [own[i % len(own)] for i in range(len(places))]
        sets.append((f, [(codewords[f[i]], s) for i, s in enumerate(places)]))
    attributes = packing.attributes

    def answers(people):
        result = np.zeros(comb(attributes, ways))
        for letters, s in people:
            row = np.concatenate([letters, *(columns[i] for i in s)])
            asked = combinations(range(attributes), ways)
            result += copies * np.array([row[list(q)].prod() for q in asked])
        return result

    for (f, one), (g, other) in combinations(sets, 2):
        differ = sum(a != b for a, b in zip(f, g, strict=True))
        if differ < changed:
            continue
        square = ((answers(one) - answers(other)) ** 2).sum()
        assert square >= packing.square - 1e-9


def test_bounds_rest_on_their_parts_alone():
    packing = CodePacking(2, 8, 2, 8, 7, 3, 2)
    assert packing.attributes == 16
    assert packing.people == 14
    assert packing.square == 4 * 2.0 * 3 * 2
    assert packing.bound(15, 1.0, 1) == 0.0
    assert packing.bound(16, 50.0, 1) == 0.0
    few = packing.bound(16, 0.01, 1)
    assert 0 < few <= np.sqrt(packing.square / comb(16, 2)) / 2
    for change in (
        {"order": 6},
        {"apart": 9},
        {"changed": 8},
        {"sequences": 8},
        {"copies": 0},
    ):
        with pytest.raises(InvalidParameter):
            CodePacking(**{**vars(packing), **change})


def test_hundreds_of_attributes_are_bounded_without_listing_a_cell():
    packing, bound = best_code_packing(200, 2, 1.0, 1, 10_000)
    assert packing.people <= 10_000
    assert packing.attributes <= 200
    assert bound == packing.bound(200, 1.0, 1) > 5
    assert best_code_packing(200, 2, 1.0, 2, 10_000)[1] < bound
    assert best_code_packing(200, 2, 1.0, 1, 20)[1] < bound


def test_tables_of_binary_attributes_are_known_by_their_form():
    assert binary_tables(workload("marginals:2^8:2")) == (8, 2)
    assert binary_tables(workload("conjunctions:9:3")) == (9, 3)
    for text in (
        "marginals:3^4:2",
        "marginals:2^5:<=2",
        "2@marginals:2^4:2",
        "prefix:8",
    ):
        assert binary_tables(workload(text)) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [("marginals:2^8:1", "k-norm"), ("conjunctions:6:2", "hardt-talwar")],
)
def test_no_plan_is_below(text, name):
    problem = central_problem(workload(text), REPLACED, nw.Central(people=1000))
    bound = packing_bound(problem)
    assert 0 < bound < nw.plan(text, REPLACED, nw.Central(mechanism=name)).achieved
