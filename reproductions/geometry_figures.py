"""[004]: what few people allow, by regimes of their number."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from noisewright import api
from noisewright.planning.central.options import Central
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload as read
from reproductions.study import Drawing, Figure, Settings, Study, Value

_EPSILON = 1.0
_PACKING = "lower bound: any mechanism, by packing"
_BALL = "√k·diameter/(εN) (paper)"
_SKETCH = "width/√(kεN) (paper)"
_MECHANISMS = (
    "no-data", "projection", "jl", "coarse-jl", "hardt-talwar", "k-norm", "carry", "laplace-cells",
)  # fmt: skip


@lru_cache(maxsize=1)
def _errors(text: str, people: int) -> dict[str, Value]:
    """Root mean square errors of shares, by mechanism, and the packing bound."""
    privacy = Privacy(epsilon=_EPSILON, neighbours="replace-one")
    rows = api.compare(read(text), privacy, Central(people=people))
    told: dict[str, Value] = {
        row.mechanism: row.rmse / people for row in rows if row.rmse
    }
    packing = [row.packing_bound for row in rows if row.packing_bound is not None]

    return {**told, _PACKING: max(packing, default=0.0) / people}


@lru_cache(maxsize=1)
def _shape(text: str) -> tuple[int, float, float]:
    """The number of queries, the diameter of their body, and its Gaussian width by sampling."""
    matrix = read(text).dense()
    gram = matrix.T @ matrix
    squares = np.diagonal(gram)
    distances = squares[:, None] + squares[None, :] - 2 * gram
    draws = np.random.default_rng(0).normal(size=(2000, len(matrix)))

    return (
        len(matrix),
        float(np.sqrt(distances.max())),
        float((draws @ matrix).max(axis=1).mean()),
    )


def _term(text: str, people: int, name: str) -> dict[str, Value]:
    """A term of Theorem 1.1 with constant one: how it falls is the paper's, its height is not."""
    queries, diameter, width = _shape(text)
    if name == _BALL:
        return {"error": np.sqrt(queries) * diameter / (_EPSILON * people)}
    return {"error": width / float(np.sqrt(queries * _EPSILON * people))}


def _one(text: str, people: int, line: str) -> dict[str, Value]:
    return {"error": _errors(text, people).get(line, "")}


def _regimes(study: Study, settings: Settings) -> None:
    text = "parity:6:<=2" if settings.quick else "parity:8:<=3"
    for power in range(4, 12 if settings.quick else 15):
        for line in (*_MECHANISMS, _PACKING):
            key: dict[str, Value] = {"workload": text, "people": 2**power, "line": line}
            study.row(key, partial(_one, text, 2**power, line))
        for line in (_BALL, _SKETCH):
            key = {"workload": text, "people": 2**power, "line": line}
            study.row(key, partial(_term, text, 2**power, line))


def crossover(
    first: list[tuple[float, float]], second: list[tuple[float, float]]
) -> float | None:
    """Where the first curve stops to be the lower one, between points, in logarithms."""
    both = sorted(set(dict(first)) & set(dict(second)))
    gaps = [(x, np.log(dict(first)[x] / dict(second)[x])) for x in both]
    for (x, a), (y, b) in pairwise(gaps):
        if a < 0 <= b:
            return float(x * (y / x) ** (a / (a - b)))
    return None


def _remarks(study: Study) -> list[str]:
    lines = study.series("people", "error", "line")
    told = []
    for people in sorted({x for line in lines.values() for x, _ in line}):
        errors = {
            m: dict(lines[m])[people]
            for m in _MECHANISMS
            if people in dict(lines.get(m, []))
        }
        if errors:
            best = min(errors, key=lambda m: errors[m])
            told.append(f"{people:,.0f} people: {best}, {errors[best]:.4f}")

    told += [
        f"{first} is below {second} up to {place:,.0f} people"
        for first, second in (("no-data", "jl"), ("jl", "hardt-talwar"), ("jl", "laplace-cells"),
                              ("no-data", "projection"))
        if (place := crossover(lines.get(first, []), lines.get(second, []))) is not None
    ]  # fmt: skip
    theirs = crossover(lines.get(_SKETCH, []), lines.get(_BALL, []))
    told.append(
        "the paper's two terms, with constants one, cross "
        + ("nowhere here" if theirs is None else f"at {theirs:,.0f} people")
    )

    return [*told, *_against(lines)]


def _against(lines: dict[str, list[tuple[float, float]]]) -> list[str]:
    """What the sketch does beside balls, as the paper has it, and beside a fit to noisy cells."""
    sketch = dict(lines.get("jl", []))
    balls = dict(lines.get("hardt-talwar", []))
    fitted = dict(lines.get("projection", []))
    below = sum(sketch[people] < balls[people] for people in sketch if people in balls)
    above = sum(
        sketch[people] > fitted[people] for people in sketch if people in fitted
    )

    return [
        f"the sketch is below balls at {below} of {len(sketch)} numbers of people; the paper: at "
        "few people, up to constants",
        f"noise on cells and then the nearest possible answers is below the sketch at {above} of "
        f"{len(sketch)}; the paper does not compare them",
    ]


FIGURES = (
    Figure("jl", "[004] errors of shares against people: regimes of Theorem 1.1",
           ("workload", "people", "line"), _regimes, _remarks,
           Drawing("people", "error", "line", "")),
)  # fmt: skip
