"""Questions about a coarser level are sums of questions about the finest one."""

import numpy as np
import pytest

from noisewright.domain import Boolean, Categorical, Domain
from noisewright.errors import InvalidParameter
from noisewright.workload.questions.predicate import parse_predicate
from noisewright.workload.questions.spec import questions

DOMAIN = Domain(
    [
        Boolean("employed"),
        Categorical(
            "district",
            ["a", "b", "c"],
            levels={"region": {"North": ["a", "c"], "South": ["b"]}},
        ),
    ]
)
COUNTS = np.array([[1, 20, 300], [4000, 50000, 600000]])


def test_tables_at_two_levels_agree() -> None:
    asked = questions(
        {"queries": [{"marginal": ["region", "employed"]}, {"marginal": "region"}]},
        DOMAIN,
    )
    answers = dict(zip(asked.labels(), asked.matvec(COUNTS.ravel()), strict=True))
    assert answers == {
        "employed = false, region = North": 301,
        "employed = false, region = South": 20,
        "employed = true, region = North": 604000,
        "employed = true, region = South": 50000,
        "region = North": 604301,
        "region = South": 50020,
    }


def test_predicates_over_levels() -> None:
    predicate = parse_predicate(
        'region == "North" and employed and district != "a"', DOMAIN
    )
    assert predicate.attributes == (0, 1)
    assert predicate.mask.tolist() == [[False] * 3, [False, False, True]]
    with pytest.raises(InvalidParameter, match="the groups are North, South"):
        parse_predicate('region == "West"', DOMAIN)
    with pytest.raises(InvalidParameter, match="has no order"):
        parse_predicate('region < "West"', DOMAIN)


def test_an_attribute_and_its_level_are_not_crossed() -> None:
    with pytest.raises(InvalidParameter, match="one of its levels"):
        questions({"queries": [{"marginal": ["region", "district"]}]}, DOMAIN)


def test_a_condition_that_is_no_product_has_a_name_and_no_axes() -> None:
    entry = {"count": "employed or region == 'North'", "label": "either"}
    (statistic,) = questions({"queries": [entry]}, DOMAIN).statistics
    assert statistic.table.factors is None
    assert statistic.axes == ()
    assert statistic.labels() == ["either"]
