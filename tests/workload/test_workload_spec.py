"""Questions in YAML ask exactly what a loop over people would count."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.domain import Boolean, Categorical, Domain, Numeric
from noisewright.errors import DomainError, NoisewrightError
from noisewright.workload import Workload
from noisewright.workload.forms.stored import restored_workload, stored_workload

DOMAIN = Domain(
    [
        Numeric("age", (0, 18, 65, 100), integer=True, outside="other"),
        Categorical("sex", ("F", "M")),
        Boolean("employed"),
        Numeric("income", (0, 10, 20)),
    ]
)
PEOPLE = [
    {"age": a, "sex": s, "employed": e, "income": i}
    for a in (3, 17, 18, 40, 64, 65, 99, None)
    for s in ("F", "M")
    for e in (True, False)
    for i in (5.0, 15.0)
    if not (a == 17 and s == "M")
]


def histogram() -> np.ndarray:
    columns = {name: [person[name] for person in PEOPLE] for name in DOMAIN.names}
    return np.bincount(DOMAIN.encode(columns), minlength=DOMAIN.size)


def known(person: dict[str, object]) -> bool:
    return person["age"] is not None


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (
            'age >= 65 and sex == "F"',
            lambda p: known(p) and p["age"] >= 65 and p["sex"] == "F",
        ),
        ("age < 18", lambda p: known(p) and p["age"] < 18),
        (
            "age <= 17 or employed",
            lambda p: (known(p) and p["age"] <= 17) or p["employed"],
        ),
        ("18 <= age < 65", lambda p: known(p) and 18 <= p["age"] < 65),
        ("64 < age", lambda p: known(p) and p["age"] > 64),
        ('sex in ["F", "M"] and not employed', lambda p: not p["employed"]),
        ('sex not in ["F"]', lambda p: p["sex"] != "F"),
        (
            'sex != "F" and income >= 10',
            lambda p: p["sex"] != "F" and p["income"] >= 10,
        ),
        ("employed == true", lambda p: p["employed"]),
        ("false == employed", lambda p: not p["employed"]),
        (
            "employed != Yes and age >= 65",
            lambda p: not p["employed"] and known(p) and p["age"] > 64,
        ),
        ("employed in [true, no]", lambda p: True),
        ("not (age >= 18)", lambda p: not (known(p) and p["age"] >= 18)),
    ],
)
def test_predicates_count_what_a_loop_counts(text: str, holds) -> None:
    w = Workload.from_spec({"queries": [{"count": text}]}, DOMAIN)
    assert w.matvec(histogram())[0] == sum(bool(holds(person)) for person in PEOPLE)
    assert w.label(0) == text


def test_an_attribute_may_be_called_like_a_truth_value() -> None:
    domain = Domain([Boolean("yes"), Boolean("no")])
    both = Workload.from_spec({"queries": [{"count": "yes and not no"}]}, domain)
    assert both.dense().tolist() == [[0, 0, 1, 0]]


def test_every_kind_of_question() -> None:
    spec = """
    queries:
      - cdf: income
        by: sex
        weight: 2
      - marginal: [employed, age]
      - marginals: 1
        of: [sex, employed]
      - ranges: income
      - histogram: age
        name: ages
      - total: true
    """
    w = Workload.from_spec(spec, DOMAIN)
    x = histogram().reshape(DOMAIN.shape)
    cdf = 2 * np.cumsum(x.sum(axis=(0, 2)), axis=1).ravel()
    income = x.sum(axis=(0, 1, 2))
    expected = np.concatenate(
        [
            cdf,
            x.sum(axis=(1, 3)).ravel(),
            x.sum(axis=(0, 2, 3)),
            x.sum(axis=(0, 1, 3)),
            [income[0], income.sum(), income[1]],
            x.sum(axis=(1, 2, 3)),
            [x.sum()],
        ]
    )
    np.testing.assert_array_equal(w.matvec(histogram()), expected)
    plain = [t.weight for t in w.plain_terms()]
    assert plain == [1.0] * 7
    labels = w.labels()
    assert len(set(labels)) > w.queries - 6
    assert labels[0] == "sex = F, income up to 0–10" or labels[0].startswith(
        "sex = F, income up to"
    )
    assert labels[-1] == "total"
    assert w.names[5] == "ages"


def test_questions_survive_storage() -> None:
    w = Workload.from_spec(
        {"queries": [{"marginals": 2}, {"count": "age >= 65"}]}, DOMAIN
    )
    again = restored_workload(stored_workload(w))
    np.testing.assert_array_equal(again.dense(), w.dense())
    assert again.labels() == w.labels()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"count": "age >= 40"}, "cuts through"),
        ({"count": "height > 3"}, "height"),
        ({"count": '__import__("os")'}, "attribute"),
        ({"count": "age + 3 > 4"}, "not understood"),
        ({"count": "sex > 3"}, "no order"),
        ({"count": "sex"}, "alone"),
        ({"count": "1 < 2"}, "mention an attribute"),
        ({"count": "age >="}, "not a predicate"),
        ({"count": "sex == F"}, 'is no attribute; a value is written in quotes: "F"'),
        ({"count": 'sex in [F, "M"]'}, "'F', which is no attribute"),
        ({"count": "sex == agee"}, "did you mean 'age'"),
        ({"count": "employed == tru"}, "'tru', which is no attribute"),
        ({"count": "emplyed == true"}, "emplyed"),
        ({"count": "age >= true"}, "not boolean"),
        ({"count": "sex == true"}, "not boolean"),
        ({"count": "true"}, "mention an attribute"),
        ({"cdf": "sex"}, "no order"),
        ({"cdf": "income", "by": "income"}, "twice"),
        ({"marginal": ["sex", "sex"]}, "twice"),
        ({"marginals": 2, "of": ["sex", "age", "sex"]}, "twice"),
        ({"cdf": "income", "by": ["sex", "sex"]}, "twice"),
        ({"marginals": 9}, "between 0 and 4"),
        ({"cdf": "age", "marginal": "sex"}, "exactly one"),
        ({"histogram": "age", "colour": "red"}, "exactly one"),
        ({"histogram": "age", "weight": -1}, "weight"),
        ("age", "mapping; write KIND: …, with one of cdf, ranges"),
        ("marginal [sex, age]", r"a colon is missing: write `marginal: \[sex, age\]`"),
        ("marginal", "a colon is missing: write `marginal: …`"),
        ({"marginal": None}, "must say of what"),
    ],
)
def test_bad_questions_are_refused_with_the_rule(entry: object, message: str) -> None:
    with pytest.raises(NoisewrightError, match=message):
        Workload.from_spec({"queries": [entry]}, DOMAIN)


def test_a_draft_schema_is_refused() -> None:
    draft = Domain(DOMAIN.attributes, reviewed=False)
    with pytest.raises(DomainError, match="reviewed"):
        Workload.from_spec({"queries": [{"total": True}]}, draft)


A, B = np.indices((30, 40))


@pytest.mark.parametrize(
    ("text", "mask", "product"),
    [
        ("a in [10, 11, 12] and b == 3", np.isin(A, [10, 11, 12]) & (B == 3), True),
        ("not (a == 1 or b == 1)", (A != 1) & (B != 1), True),
        ("a == 1 or b == 1", (A == 1) | (B == 1), False),
    ],
    ids=["and", "nor", "or"],
)
def test_predicates_that_are_products_are_asked_as_one(
    text: str, mask: np.ndarray, product: bool
) -> None:
    """One person moves a count by one: measured cell by cell it would have more noise."""
    domain = Domain(
        [Categorical("a", tuple(range(30))), Categorical("b", tuple(range(40)))]
    )
    asked = Workload.from_spec({"queries": [{"count": text}]}, domain)
    table = np.random.default_rng(0).integers(0, 9, (30, 40))
    assert asked.matvec(table.ravel()) == pytest.approx(table[mask].sum())
    assert asked.labels() == [text]
    (term,) = asked.structure.terms
    assert (term.factors is not None) == product
