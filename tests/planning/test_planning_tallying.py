"""Reports drawn and added up where rows are: the same law as reports that are sent one by one."""

import math

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.domain import Categorical, Domain
from noisewright.errors import DomainError
from noisewright.local.reports.aggregate import Aggregate
from noisewright.planning.local.reading import Tallying
from noisewright.tables.counter import DuckDBCounter

DOMAIN = Domain(
    [Categorical("answer", ["a", "b", "c"]), Categorical("sex", ["F", "M"])]
)
COUNTS = np.array([4000, 3000, 2000, 1000, 500, 9500])


def people() -> pa.Table:
    cells = np.repeat(np.arange(6), COUNTS)
    return pa.table(
        {
            "answer": np.array(["a", "b", "c"])[cells // 2],
            "sex": np.array(["F", "M"])[cells % 2],
        }
    )


def plan() -> nw.Plan:
    return nw.plan(
        "identity:6",
        nw.Privacy(epsilon=2),
        nw.Local(mechanism="randomized-response"),
        domain=DOMAIN,
    )


def test_every_row_is_one_report_and_answers_are_unbiased() -> None:
    made = plan()
    aggregate = made.tally_table(people())
    assert aggregate.people == COUNTS.sum()
    answers = made.estimate(aggregate)
    # Six normal errors: none passes six deviations but with chance below 1e-7.
    assert (np.abs(answers.answers - COUNTS) <= 6 * answers.std).all()


class Halves(DuckDBCounter):
    """An engine of two parts, as a cluster has many."""

    def tallies(self, source, domain, tally):
        batches = list(self.cells(source, domain))
        whole = np.concatenate(batches)
        return [tally([part]) for part in (whole[::2], whole[1::2])]


def test_parts_are_merged_and_checked() -> None:
    made = plan()
    aggregate = made.tally_table(people(), counter=Halves())
    assert aggregate.people == COUNTS.sum()
    assert aggregate.total.sum() == COUNTS.sum()

    class Forged(DuckDBCounter):
        def tallies(self, source, domain, tally):
            other = nw.plan("identity:6", nw.Privacy(epsilon=1), nw.Local())
            return [other.aggregate().to_bytes()]

    with pytest.raises(nw.NoisewrightError):
        made.tally_table(people(), counter=Forged())


def test_what_is_refused_is_refused_without_a_cell() -> None:
    table = pa.table({"answer": ["a", "Ada"], "sex": ["F", "M"]})
    with pytest.raises(DomainError, match="refuses") as caught:
        plan().tally_table(table)
    assert "Ada" not in str(caught.value)


def test_what_travels_is_a_plan_and_an_aggregate() -> None:
    made = plan()
    content = Tallying(made.to_bytes())([np.zeros(1000, dtype=np.int64)])
    aggregate = Aggregate.from_bytes(content, made.format)
    truthful = aggregate.total[0] / 1000
    stays = math.exp(2) / (math.exp(2) + 5)
    assert abs(truthful - stays) < 6 * math.sqrt(stays * (1 - stays) / 1000)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_spark_draws_and_adds_up_on_its_executors() -> None:
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parent.parent / "tables"))
    from tables import servers

    with servers.spark() as engine:
        made = plan()
        frame = engine.put(people().slice(0, 9000)).repartition(3)
        aggregate = made.tally_table(frame)
        assert aggregate.people == 9000
        refused = engine.put(pa.table({"answer": ["a", "Ada"], "sex": ["F", "M"]}))
        with pytest.raises(DomainError, match="refuses"):
            made.tally_table(refused)
