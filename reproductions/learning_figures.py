"""[000] and [001]: people for thresholds within a largest error, and for learning, by size."""

from __future__ import annotations

from functools import partial
from math import log, tanh

from noisewright import api
from noisewright.learn.concept_classes import concepts
from noisewright.learn.questions import Agnostic, Realizable
from noisewright.local.bounds.people.hard_tasks import hard_instance, hard_learning
from noisewright.local.choose.options import Local
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload as read
from reproductions.study import Drawing, Figure, Settings, Study, Value, slope

_ALPHA = 0.1
_BETA = 0.05
_EPSILON = 1.0
_PRIVACY = Privacy(epsilon=_EPSILON)
_PROTOCOL = "lower bound: any non-interactive protocol"


def _planned(size: int) -> dict[str, Value]:
    options = Local(effort="low", max_error=_ALPHA, beta=_BETA)
    plan = api.plan(f"prefix:{size}", _PRIVACY, options)
    return {
        "people": plan.people_for_max_error(_ALPHA),
        "mechanism": plan.mechanism.name,
    }


def _one_each(size: int) -> dict[str, Value]:
    """Each person is asked about one threshold by a randomised bit; Hoeffding for all of them."""
    return {
        "people": size
        * log(2 * size / _BETA)
        / (2 * (_ALPHA * tanh(_EPSILON / 2)) ** 2)
    }


def _thresholds_bound(size: int) -> dict[str, Value]:
    hard = hard_instance(read(f"prefix:{size}"), _ALPHA, epsilon=_EPSILON, beta=_BETA)
    return {"people": hard.people}


def _thresholds(study: Study, settings: Settings) -> None:
    lines = {
        "planned": _planned,
        "one threshold a person": _one_each,
        _PROTOCOL: _thresholds_bound,
    }
    for bits in range(2, 5 if settings.quick else 8):
        for line, compute in lines.items():
            study.row({"n": 2**bits, "line": line}, partial(compute, 2**bits))


def _remarks_thresholds(study: Study) -> list[str]:
    lines = study.series("n", "people", "line")
    told = [
        f"{name}: people grow as n^{slope(points):.2f}"
        for name, points in lines.items()
    ]
    planned = [(log(n), people) for n, people in lines.get("planned", [])]

    return [
        *told,
        f"planned: as (log n)^{slope(planned):.2f}; the paper: γ2² log n, that is (log n)^3, where "
        "asking one threshold a person needs n log n",
    ]


def _learnt(question: Agnostic | Realizable) -> dict[str, Value]:
    plan = api.plan(question, _PRIVACY)
    return {"people": plan.people, "protocol": str(plan.protocol)}


def _one_concept_each(text: str) -> dict[str, Value]:
    """The best concept, without its loss, where equal groups are asked about one concept each.

    By a randomised bit, with Hoeffding's bound for the difference of any two groups.
    """
    count = concepts(text).count
    return {"people": count * log(count / _BETA) / (_ALPHA * tanh(_EPSILON / 2)) ** 2}


def _learning_bound(text: str) -> dict[str, Value]:
    hard = hard_learning(concepts(text).matrix, _ALPHA, epsilon=_EPSILON, beta=_BETA)
    return {"people": hard.people}


def _learning(study: Study, settings: Settings) -> None:
    most = 4 if settings.quick else 6
    classes = [
        ("thresholds", f"thresholds:{2**bits}", 2**bits) for bits in range(2, most + 1)
    ]
    classes += [
        ("parities", f"parities:{bits}", 2**bits) for bits in range(2, most + 1)
    ]

    for name, text, size in classes:
        lines = {
            "agnostic": partial(_learnt, Agnostic(text, _ALPHA, _BETA)),
            "agnostic, without its loss": partial(
                _learnt, Agnostic(text, _ALPHA, _BETA, loss=False)
            ),
            "realizable": partial(_learnt, Realizable(text, _ALPHA, _BETA)),
            "one concept a person": partial(_one_concept_each, text),
            _PROTOCOL: partial(_learning_bound, text),
        }
        for line, compute in lines.items():
            study.row({"class": name, "n": size, "line": line}, compute)


def _remarks_learning(study: Study) -> list[str]:
    told = []
    for name in dict.fromkeys(str(row["class"]) for row in study.rows):
        lines = study.series("n", "people", "line", **{"class": name})
        grown = ", ".join(
            f"{line} n^{slope(points):.2f}" for line, points in lines.items()
        )
        told.append(f"{name}, people by number of points n: {grown}")

    return [
        *told,
        "the papers: thresholds need a power of log n, parities n (exponential in their bits)",
    ]


FIGURES = (
    Figure("thresholds-local", "[000] people for all thresholds within 0.1, without a curator",
           ("n", "line"), _thresholds, _remarks_thresholds, Drawing("n", "people", "line", "")),
    Figure("learning", "[001] people for learning thresholds and parities, without a curator",
           ("class", "n", "line"), _learning, _remarks_learning,
           Drawing("n", "people", "line", "class")),
)  # fmt: skip
