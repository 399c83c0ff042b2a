"""The whole job on a believable synthetic table: private answers and a report come out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisewright import api
from noisewright.arrays import FloatArray
from noisewright.demo.people import domain, people, questions
from noisewright.errors import InvalidParameter
from noisewright.files import write_table, write_text
from noisewright.privacy.promise.budget import Privacy
from noisewright.report.pages.release import release_page
from noisewright.tables.counter import DuckDBCounter
from noisewright.workload.questions.spec import Questions
from noisewright.workload.questions.spec import questions as read_questions

if TYPE_CHECKING:
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.release import Release


_FILES = (
    "people.csv",
    "schema.yaml",
    "queries.yaml",
    "plan.nw",
    "answers.csv",
    "report.html",
)


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What the demo made, and where."""

    plan: CentralPlan
    release: Release
    files: dict[str, Path]


def run(output: str | Path, privacy: Privacy) -> Demonstration:
    """Plan CDFs of age and income and all two-way tables, release them, write the report."""
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"cannot be made ({error.strerror or type(error).__name__})"
        raise InvalidParameter(
            "output", str(output), rule, "choose another folder"
        ) from None

    files = {name: folder / name for name in _FILES}
    write_table(files["people.csv"], people())
    write_text(files["schema.yaml"], domain().to_yaml())
    write_text(files["queries.yaml"], questions())
    workload = read_questions(questions(), domain())
    plan = api.plan(workload, privacy)
    plan.save(files["plan.nw"])
    released = plan.release(str(files["people.csv"]))
    released.write(files["answers.csv"])
    truth = _truth(workload, files["people.csv"])
    title = "50,000 synthetic people, answered privately"
    write_text(files["report.html"], release_page(released, truth, title))

    return Demonstration(plan, released, files)


def _truth(workload: Questions, table: Path) -> FloatArray:
    """The exact answers: allowed here alone, because these people do not exist."""
    domain = workload.domain
    terms = workload.plain_terms()
    subsets = [tuple(domain.names[i] for i in term.attributes) for term in terms]
    counted = DuckDBCounter().marginals(str(table), domain, subsets)

    pairs = zip(terms, counted, strict=True)
    answers = [term.answers(counts.astype(np.float64)) for term, counts in pairs]
    return np.concatenate(answers)
