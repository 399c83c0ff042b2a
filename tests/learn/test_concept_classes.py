"""Concept classes: text, matrices and predicates say what they should, and nothing else does."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from noisewright.errors import InvalidParameter, NoisewrightError, TooLarge
from noisewright.learn import concepts
from noisewright.learn.concept_classes import label_signs


@pytest.mark.parametrize(
    ("text", "count", "size"),
    [
        ("thresholds:5", 6, 5),
        ("intervals:128", 8257, 128),
        ("parities:8", 256, 256),
        ("conjunctions:8", 6561, 256),
        ("monotone-conjunctions:8", 256, 256),
    ],
)
def test_classes_have_the_concepts_that_their_names_say(
    text: str, count: int, size: int
) -> None:
    given = concepts(text)
    assert (given.count, given.size, given.text) == (count, size, text)
    assert given.distinct() is given
    assert len(set(given.names)) == count


def test_text_means_what_is_defined() -> None:
    bits = list(product((0, 1), repeat=3))
    monotone = {tuple(all(p[k] for k in s) for p in bits) for s in _subsets(3)}
    assert {
        tuple(row > 0) for row in concepts("monotone-conjunctions:3").table
    } == monotone
    odd = {tuple(sum(p[k] for k in s) % 2 == 1 for p in bits) for s in _subsets(3)}
    assert {tuple(row > 0) for row in concepts("parities:3").table} == odd
    literals = {
        tuple(all(w is None or p[k] == w for k, w in enumerate(wanted)) for p in bits)
        for wanted in product((None, 0, 1), repeat=3)
    }
    assert {tuple(row > 0) for row in concepts("conjunctions:3").table} == literals
    inside = {
        tuple(a <= x <= b for x in range(4)) for a in range(4) for b in range(-1, 4)
    }
    assert {tuple(row > 0) for row in concepts("intervals:4").table} == inside


def _subsets(bits: int) -> list[list[int]]:
    return [[k for k in range(bits) if s >> k & 1] for s in range(2**bits)]


def test_predicates_and_matrices_are_classes() -> None:
    def large(x: int) -> bool:
        return x > 3

    given = concepts([large, lambda x: x % 2], points=[2, 5, 7])
    assert given.table.tolist() == [[-1, 1, 1], [-1, 1, 1]]
    assert given.names == ("large", "concept 1")
    assert given.distinct().count == 1
    assert given.columns([7, 2]).tolist() == [2, 0]
    assert concepts([[True, False]]).table.tolist() == [[1, -1]]


def test_losses_are_shares_of_mislabelled_people() -> None:
    given = concepts("thresholds:3")
    told = given.losses([0, 1, 2, 2], [1, 1, -1, 1])
    by_hand = [
        np.mean([c != b for c, b in zip(row[[0, 1, 2, 2]], [1, 1, -1, 1], strict=True)])
        for row in given.table
    ]
    assert told == pytest.approx(by_hand)


@pytest.mark.parametrize(
    "source",
    [
        [],
        np.zeros((0, 3)),
        np.zeros((2, 0)),
        [[1, 0]],
        [[1.0, np.nan]],
        "threshold:5",
        "thresholds:",
        "thresholds:0",
        "thresholds:-3",
        "thresholds:1e3",
        [lambda x: True],
        "parities:²",
    ],
    ids=lambda source: source if isinstance(source, str) else None,
)
def test_what_is_no_class_is_refused(source: object) -> None:
    with pytest.raises(NoisewrightError):
        concepts(source)


@pytest.mark.parametrize(
    "text", ["intervals:5000", "parities:40", "conjunctions:99999"]
)
def test_classes_too_large_to_write_out_are_refused(text: str) -> None:
    with pytest.raises(TooLarge):
        concepts(text)


def test_people_who_do_not_fit_are_refused_without_their_values() -> None:
    given = concepts([lambda x: True], points=["secret", "open"])
    with pytest.raises(InvalidParameter) as error:
        given.columns(["open", "hidden-value"])
    assert "hidden-value" not in str(error.value)
    for labels in ([0, 1], ["a"], [[1]], [2.0], [np.nan]):
        with pytest.raises(InvalidParameter):
            label_signs(labels)


def test_a_point_that_equals_nothing_is_no_point() -> None:
    with pytest.raises(InvalidParameter, match="all different"):
        concepts([lambda point: point > 0], points=[float("nan"), 1.0])
