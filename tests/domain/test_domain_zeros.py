"""Structural zeros: declared combinations are left out, and nothing else is."""

import itertools

import pytest

from noisewright.domain import Boolean, Categorical, Domain, Numeric
from noisewright.errors import InvalidParameter, TooLarge

SCHEMA = """
attributes:
  - {name: age, kind: numeric, edges: [0, 15, 65, 120], integer: true, missing: other}
  - name: work
    kind: categorical
    values: [employed, student, retired]
    levels: {active: {yes: [employed, student], no: [retired]}}
  - {name: citizen, kind: boolean}
impossible:
  - {age: {below: 15}, work: [employed, retired]}
  - {age: {from: 15, below: 65}, active: ['no'], citizen: [false]}
"""


def test_cells_are_left_out_as_declared() -> None:
    domain = Domain.from_yaml(SCHEMA)
    for names in itertools.chain.from_iterable(
        itertools.permutations(domain.names, k) for k in range(4)
    ):
        marginal = [domain[name] for name in names]
        expected = []
        for labels in itertools.product(*(attribute.labels for attribute in marginal)):
            cell = dict(zip(names, labels, strict=True))
            child_at_work = cell.get("age") == "0–14" and cell.get("work") in (
                "employed",
                "retired",
            )
            other = (cell.get("age"), cell.get("work"), cell.get("citizen"))
            expected.append(
                not child_at_work and other != ("15–64", "retired", "false")
            )
        assert domain.possible(names).tolist() == expected


def test_declarations_survive_text_and_projection() -> None:
    domain = Domain.from_yaml(SCHEMA)
    assert Domain.from_yaml(domain.to_yaml()) == domain
    assert domain.fingerprint != Domain(domain.attributes).fingerprint
    pair = domain.project(["work", "age"])
    assert (
        pair.possible(["age", "work"]).tolist()
        == domain.possible(["age", "work"]).tolist()
    )
    assert domain.project(["work", "citizen"]).boxes == ()


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ({"height": [1]}, "attribute='height' is not in the domain"),
        ({"age": {"below": 20}}, "cuts through the cell"),
        ({"age": {"under": 15}}, "`from` and `below` only"),
        ({"age": {"from": 65, "below": 65}}, "holds no cell"),
        ({"work": {"below": 3}}, "only where the attribute is ordered"),
        ({"work": ["astronaut"]}, "has no declared cell"),
        ({"active": ["maybe"]}, "has no declared group"),
        ({"work": "retired"}, "must be a list of values"),
        ({}, "must map attributes to values"),
    ],
)
def test_malformed_declarations_are_refused(box, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Domain(Domain.from_yaml(SCHEMA).attributes, impossible=[box])


def test_sizes_are_guarded() -> None:
    wide = Domain([Numeric.integers(name, 0, 9999) for name in "abc"])
    with pytest.raises(TooLarge):
        wide.possible(["a", "b", "c"])
    assert Domain([Boolean("b"), Categorical("c", [1, 2])]).possible(["c"]).all()
