"""Learning and selection without a curator, in simulation, beside what is proved.

    python benchmarks/learning.py agnostic    # intervals on 128 points, 15 % wrong labels, a chart
    python benchmarks/learning.py two         # two concepts that differ at one point
    python benchmarks/learning.py realizable  # monotone conjunctions over 8 bits
    python benchmarks/learning.py selection   # 200 coordinates

Reports are drawn as counts from the exact chances of the plan's clients, so that very many people
cost nothing. Everything is at ε = 1, α = 0.1, β = 0.05, with fixed seeds.
"""

from __future__ import annotations

import sys
from math import log, tanh
from pathlib import Path

import numpy as np

import noisewright as nw
from noisewright.learn.protocols import Bandit, Contest, Elimination, Runs
from noisewright.learn.selection import people_by_protocol
from noisewright.learn.simulation import arm_of_round, run_to_end

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from learn.simulated_people import decided, labelled, losses

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
PRIVACY = nw.Privacy(epsilon=1)
ALPHA, BETA, RUNS = 0.1, 0.05, 100
WHOLE = 13  # whole protocols of the bandit: half a minute of processor time each
METHODS = ["approximate factorization", "one concept each", "Laplace noise on cells"]
SLOPE = tanh(0.5)


def one_concept_each(q: np.ndarray, people: int, rng: np.random.Generator) -> int:
    """Every person is asked about one concept, by randomised response; the best is chosen."""
    each = people // len(q)
    return int(np.argmax(rng.binomial(max(1, each), (1 + SLOPE * q) / 2)))


def noisy_cells(
    given: nw.learn.ConceptClass,
    people: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> int:
    """Every person adds Laplace noise of scale 2/ε to each cell; its sums are drawn as normal."""
    cells = rng.multinomial(count, people) + rng.normal(
        0, np.sqrt(8 * count), len(people)
    )
    n = given.size
    return int(np.argmax(given.matrix @ (cells[:n] - cells[n:])))


def agnostic() -> None:
    plan = nw.plan(nw.learn.Agnostic("intervals:128", alpha=ALPHA, beta=BETA), PRIVACY)
    assert plan.answers is not None
    answers = plan.answers
    given = plan.concepts
    target = given.table[given.names.index("40 <= point <= 90")]
    people = labelled(np.full(128, 1 / 128), target, 0.15)
    loss = losses(given.table, people)
    count = given.count
    proved = {
        "approximate factorization": plan.people,
        "one concept each": int(count * log(count / BETA) / (ALPHA * SLOPE) ** 2),
    }
    print(f"people for a loss within {ALPHA} of the best, proved: {proved}")
    rng, rows = np.random.default_rng(0), []
    chances = answers.strategy.dense() @ people

    def ours(n: int) -> int:
        cells = answers.strategy.estimate(
            rng.multinomial(n, chances / chances.sum()), n
        )
        return int(np.argmax(answers.targets @ cells))

    sizes = sorted(
        {int(plan.people * f) for f in (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1, 4, 16, 64)}
    )
    for n in sizes:
        methods = {
            "approximate factorization": lambda n=n: ours(n),
            "one concept each": lambda n=n: one_concept_each(1 - 2 * loss, n, rng),
            "Laplace noise on cells": lambda n=n: noisy_cells(given, people, n, rng),
        }
        for name, choose in methods.items():
            excess = [float(loss[choose()] - loss.min()) for _ in range(RUNS)]
            within = float(np.mean(np.array(excess) <= ALPHA))
            mean = float(np.mean(excess))
            rows.append(
                {
                    "people": n,
                    "method": name,
                    "loss": loss.min() + mean,
                    "within": within,
                }
            )
            print(
                f"{n:>12,} {name:28} loss {loss.min() + mean:.4f}  within α {within:.2f}",
                flush=True,
            )
    draw(rows, plan.people)


def draw(rows: list[dict[str, object]], planned: int) -> None:
    import altair as alt

    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "people:Q",
                scale=alt.Scale(type="log"),
                title="people",
                axis=alt.Axis(format="~s", values=[10**k for k in range(3, 9)]),
            ),
            y=alt.Y(
                "loss:Q",
                title="mean loss of the concept chosen",
                scale=alt.Scale(zero=False),
            ),
            color=alt.Color(
                "method:N",
                title=None,
                scale=alt.Scale(
                    domain=METHODS, range=["#1f6feb", "#8b949e", "#d08770"]
                ),
                legend=alt.Legend(orient="top", labelLimit=0),
            ),
        )
    )
    marks = alt.InlineData(values=[{"people": planned, "text": "planned for α = 0.1"}])
    rule = (
        alt.Chart(marks).mark_rule(strokeDash=[2, 3], color="#666").encode(x="people:Q")
    )
    text = (
        alt.Chart(marks)
        .mark_text(align="left", dx=5, color="#444")
        .encode(x="people:Q", y=alt.value(12), text="text:N")
    )
    chart = (lines + rule + text).properties(
        width=560,
        height=300,
        title="Intervals on 128 points, 15 % of labels wrong, ε = 1",
    )
    PICTURES.mkdir(exist_ok=True)
    chart.save(str(PICTURES / "learning.svg"))


def two() -> None:
    table = np.ones((2, 64))
    table[1, 3] = -1
    told, untold = (
        nw.plan(nw.learn.Agnostic(table, alpha=ALPHA, beta=BETA, loss=loss), PRIVACY)
        for loss in (True, False)
    )
    ratio = told.people / untold.people
    print(
        f"two concepts that differ at one point: {told.people:,} people with their loss, "
        f"{untold.people:,} without: {ratio:.2f} times"
    )
    people, rng = np.zeros(128), np.random.default_rng(1)
    people[[0, 3]] = 0.9 - 1e-9, 0.1 + 1e-9
    wrong = np.mean(
        [decided(untold, people, untold.people, rng).concept for _ in range(RUNS)]
    )
    print(
        f"without: chooses the worse one, by just above α, in {wrong:.2f} of {RUNS} runs"
    )


def realizable() -> None:
    text = "monotone-conjunctions:8"
    asked: dict[str, nw.learn.Agnostic | nw.learn.Realizable] = {
        "realizable": nw.learn.Realizable(text, ALPHA),
        "agnostic, without its loss": nw.learn.Agnostic(text, ALPHA, loss=False),
        "agnostic": nw.learn.Agnostic(text, ALPHA),
    }
    plans = {name: nw.plan(question, PRIVACY) for name, question in asked.items()}
    learner = nw.learn.MonotoneConjunction(8, ALPHA)
    for model, together in (("sequential", 1), ("pan-private", 8)):
        settings = {"model": model, "together": together}
        oracle = nw.learn.statistical_queries(
            [], PRIVACY, size=512, queries=8, tolerance=learner.tolerance, **settings
        )
        print(f"Kearns, {model}: {oracle.people:,} people")
    base = plans["realizable"].people
    for task, plan in plans.items():
        print(
            f"{task}: {plan.people:,} people, {plan.people / base:.2f} times the realizable ones"
        )
    plan, rng = plans["realizable"], np.random.default_rng(2)
    table, missed = plan.concepts.table, 0
    for run in range(RUNS):
        people = labelled(np.full(256, 1 / 256), table[rng.integers(256)])
        if run % 2:  # most people where few concepts are told apart
            people = labelled(
                rng.dirichlet(np.full(256, 0.05)), table[rng.integers(256)]
            )
        missed += (
            losses(table, people)[decided(plan, people, plan.people, rng).concept]
            > ALPHA
        )
    print(f"realizable: loss above α in {missed} of {RUNS} runs")


def refutation() -> None:
    """Both error rates over 8 bits, people spread evenly and heaped on few points."""
    plan = nw.plan(
        nw.learn.RealizableRefutation("monotone-conjunctions:8", alpha=ALPHA), PRIVACY
    )
    rng, table = np.random.default_rng(3), plan.concepts.table
    wrong, runs = [0, 0], 5 * RUNS
    for run in range(runs):
        spread = rng.dirichlet(np.full(256, 0.05)) if run % 2 else np.full(256, 1 / 256)
        fits = labelled(spread, table[rng.integers(256)])
        wrong[0] += not decided(plan, fits, plan.people, rng).fits
        against = barely_wrong(spread, table, table[rng.integers(256)])
        wrong[1] += decided(plan, against, plan.people, rng).fits
    print(
        f"refutation over 8 bits, {plan.people:,} people: missed {wrong[0]}, mistaken {wrong[1]} "
        f"of {runs} runs each, beta {BETA}"
    )


def barely_wrong(
    spread: np.ndarray, table: np.ndarray, concept: np.ndarray
) -> np.ndarray:
    """A concept's labels with just so many wrong ones that every concept has a loss above α."""
    low, high = ALPHA, 0.5
    while high - low > 1e-4:
        middle = (low + high) / 2
        enough = losses(table, labelled(spread, concept, middle)).min() > ALPHA
        low, high = (low, middle) if enough else (middle, high)
    return labelled(spread, concept, high)


def selection() -> None:
    contest = Contest(200, 1.0, ALPHA, BETA)
    proved, runs = people_by_protocol(contest), Runs.best(contest)
    one = np.full(200, 0.45)
    one[17] += ALPHA + 1e-6
    rng = np.random.default_rng(4)
    print(f"bandit, proved: {runs}")
    for name in ("non-interactive", "elimination"):
        plan = nw.plan(
            nw.learn.LargestMean(200, alpha=ALPHA, beta=BETA, protocol=name), PRIVACY
        )
        for label, means in (
            ("one good", one),
            ("all equal", np.full(200, 0.5)),
            ("one far better", np.where(np.arange(200) == 5, 0.9, 0.5)),
        ):
            people, missed = nw.learn.simulated(plan, means, 200, rng)
            print(
                f"{name:16} {label:15} proved {proved[name]:,} asked {people:,.0f} "
                f"fails {missed:.3f}"
            )
    least = {
        "non-interactive": least_alike(contest, one, rng),
        "elimination": least_elimination(contest, one, rng),
    }
    print(f"fewest people with at most β failures on one good arm, simulated: {least}")
    bandit = nw.plan(
        nw.learn.LargestMean(200, alpha=ALPHA, beta=BETA, protocol="bandit"), PRIVACY
    )
    for rounds in (600_000, 3_000_000, 6_000_000, 12_000_000, runs.rounds):
        missed = np.mean(
            [missed_by_run(contest, one, rounds, rng) for _ in range(RUNS)]
        )
        print(f"bandit, a run of {rounds:,}, one good: misses {missed:.3f}", flush=True)
    people, missed = nw.learn.simulated(bandit, one, WHOLE, rng)
    print(
        f"bandit, whole, one good: {people:,.0f} people, misses {missed:.3f}",
        flush=True,
    )
    least_bandit(contest, one, rng)


def missed_by_run(
    contest: Contest, means: np.ndarray, rounds: int, rng: np.random.Generator
) -> bool:
    """Whether the arm of a random round of one run is further than α from the best."""
    chances = (1 - contest.slope) / 2 + contest.slope * means
    arm = arm_of_round(chances, rounds, int(rng.integers(rounds)), rng)
    return bool(means[arm] < means.max() - contest.alpha)


def least_bandit(contest: Contest, means: np.ndarray, rng: np.random.Generator) -> None:
    """Whole protocols with fewer people than is proven: what they miss in simulation."""
    for count in (2, 3, 4):
        for rounds in (300_000, 450_000, 600_000, 900_000):
            each = contest.people_each(0.2 * ALPHA, 0.2 * BETA, count - 1) // 4
            runs, missed = Runs(count, rounds, 0.8 * ALPHA, each), 0
            for _ in range(RUNS):
                state = Bandit(contest, rng.integers(rounds, size=count).tolist(), runs)
                run_to_end(state, means, rng)
                missed += bool(means[state.choice] < means.max() - ALPHA)
            print(
                f"bandit, {count} runs of {rounds:,}, {runs.people:,} people: {missed / RUNS:.3f}"
            )


def least_alike(contest: Contest, means: np.ndarray, rng: np.random.Generator) -> int:
    chances = (1 - contest.slope) / 2 + contest.slope * means
    low, high = 1, contest.people_each(ALPHA, BETA)
    while high > 1.05 * low:
        middle = (low + high) // 2
        leaders = np.argmax(rng.binomial(middle, chances, (1000, len(means))), axis=1)
        bad = float(np.mean(means[leaders] < means.max() - ALPHA)) > BETA
        low, high = (middle, high) if bad else (low, middle)
    return high * len(means)


def least_elimination(
    contest: Contest, means: np.ndarray, rng: np.random.Generator
) -> int:
    """With all checkpoints scaled down: what it asks on average where it fails in β of the runs."""
    chances = (1 - contest.slope) / 2 + contest.slope * means
    asked = 0.0
    for scale in (1.0, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2):
        people, missed = 0, 0
        for _ in range(200):
            state = Elimination(contest, scale)
            while (block := state.block()) is not None:
                state.learn(
                    block, rng.binomial(block.repeats, chances[block.coordinates])
                )
                people += block.people
            missed += bool(means[state.choice] < means.max() - ALPHA)
        if missed > 200 * BETA:
            break
        asked = people / 200
    return round(asked)


PARTS = {
    "agnostic": [agnostic],
    "two": [two],
    "realizable": [realizable, refutation],
    "selection": [selection],
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        for show in PARTS[part]:
            show()
