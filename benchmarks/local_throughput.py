"""Reports a second in the local model, and beside the libraries people use today.

    pip install 'noisewright[benchmarks]'
    python benchmarks/local_throughput.py

Ten million people over 1,024 cells at ε = 1 (one million where a report is a bit per cell): seconds
to randomise, and to aggregate and estimate. Then pure-ldp and multi-freq-ldpy on the mechanisms
that they have, in the same run: people per second from values to estimates, and the mean squared
error of a cell per person, which is the variance of one person's contribution.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from noisewright.local.analysis.analysis import Analysis
from noisewright.local.composed.hierarchical import hierarchical
from noisewright.local.composed.union import union
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.sets import (
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from noisewright.local.strategy import Strategy
from noisewright.local.transform.fourier import fourier
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.vector.codebook import one_bit, privunit
from noisewright.workload import Workload, workload

CELLS, EPSILON = 1024, 1.0
MANY, FEWER = 10_000_000, 1_000_000


def ours() -> dict[str, tuple[Strategy, Workload]]:
    """Every mechanism whose reports have a constant size, and those with a bit per cell."""
    histogram, prefix = workload(f"identity:{CELLS}"), workload(f"prefix:{CELLS}")
    pairs = workload("marginals:2^10:2")
    return {
        "randomized-response": (RandomizedResponse(CELLS, EPSILON), histogram),
        # as pure-ldp at ε ≤ 1
        "hadamard": (HadamardResponse(CELLS, EPSILON, parts=1), histogram),
        "local-hashing": (LocalHashing(CELLS, EPSILON), histogram),
        "hierarchical": (hierarchical(prefix.gram(), EPSILON), prefix),
        "fourier": (fourier(prefix.gram(), EPSILON), prefix),
        "union": (union(pairs.gram(), EPSILON), pairs),
        "one-bit": (one_bit(prefix, EPSILON), prefix),
        "privunit": (privunit(prefix, EPSILON), prefix),
        "unary": (UnaryEncoding(CELLS, EPSILON), histogram),
        "rappor": (UnaryEncoding(CELLS, EPSILON, symmetric=True), histogram),
        "subset-selection": (SubsetSelection(CELLS, EPSILON), histogram),
    }


def run_ours(strategy: Strategy, asked: Workload, people: int) -> tuple[float, float]:
    """Seconds to randomise, and to aggregate and estimate."""
    values = np.random.default_rng(0).integers(0, CELLS, people)
    began = time.perf_counter()
    reports = strategy.randomize(values)
    randomised = time.perf_counter() - began
    began = time.perf_counter()
    strategy.answers(asked, strategy.collector.tally(reports), people)
    return randomised, time.perf_counter() - began


def table_of_ours() -> dict[str, float]:
    print(
        f"{'mechanism':22}{'people':>12}{'randomise s':>13}{'estimate s':>12}{'people/s':>12}"
    )
    rates = {}
    for name, (strategy, asked) in ours().items():
        people = MANY if strategy.specification.layout.width == 1 else FEWER
        run_ours(strategy, asked, 1000)  # tables and factors are made once per plan
        randomised, estimated = run_ours(strategy, asked, people)
        rates[name] = people / (randomised + estimated)
        print(
            f"{name:22}{people:12,}{randomised:13.2f}{estimated:12.2f}{rates[name]:12,.0f}"
        )
    return rates


# --- peers: each takes cells and returns estimated counts -------------------------------------


def _pure_ldp(client: Any, server: Any) -> Callable[[Any], Any]:
    def run(values: Any) -> Any:
        for value in values:
            server.aggregate(client.privatise(int(value) + 1))
        return np.asarray(
            server.estimate_all(range(1, CELLS + 1), suppress_warnings=True)
        )

    return run


def pure_ldp_peers() -> dict[str, Callable[[Any], Any]]:
    from pure_ldp.frequency_oracles import (
        DEClient,
        DEServer,
        HadamardResponseClient,
        HadamardResponseServer,
        LHClient,
        LHServer,
        UEClient,
        UEServer,
    )

    args = (EPSILON, CELLS)
    hadamard = HadamardResponseServer(*args)
    return {
        "randomized-response": _pure_ldp(DEClient(*args), DEServer(*args)),
        "unary": _pure_ldp(
            UEClient(*args, use_oue=True), UEServer(*args, use_oue=True)
        ),
        "rappor": _pure_ldp(UEClient(*args), UEServer(*args)),
        "local-hashing": _pure_ldp(
            LHClient(*args, use_olh=True), LHServer(*args, use_olh=True)
        ),
        "hadamard": _pure_ldp(
            HadamardResponseClient(*args, hadamard.get_hash_funcs()), hadamard
        ),
    }


def multi_freq_peers() -> dict[str, Callable[[Any], Any]]:
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    def collected(client: Callable[..., Any]) -> Callable[[Any], list[Any]]:
        return lambda values: [client(int(v), CELLS, EPSILON) for v in values]

    e = math.exp(EPSILON)

    def support(counts: Any, p: float, q: float, people: int) -> Any:
        # their own estimate, before it is made positive
        return (counts - people * q) / (p - q)

    def grr(values: Any) -> Any:
        reports = collected(GRR.GRR_Client)(values)
        p = e / (e + CELLS - 1)
        counts = np.bincount(reports, minlength=CELLS)
        return support(counts, p, (1 - p) / (CELLS - 1), len(values))

    def ue(values: Any) -> Any:
        counts = np.sum(collected(UE.UE_Client)(values), axis=0)
        return support(counts, 0.5, 1 / (e + 1), len(values))

    def ss(values: Any) -> Any:
        reports = collected(SS.SS_Client)(values)
        d = len(reports[0])
        p = d * e / (d * e + CELLS - d)
        counts = np.bincount(np.concatenate(reports), minlength=CELLS)
        return support(counts, p, (d - p) / (CELLS - 1), len(values))

    def lh(values: Any) -> Any:
        reports = collected(LH.LH_Client)(values)
        return LH.LH_Aggregator_MI(reports, CELLS, EPSILON) * len(values)

    return {
        "randomized-response": grr,
        "unary": ue,
        "subset-selection": ss,
        "local-hashing": lh,
    }


PEOPLE = {"local-hashing": 1000}
CLIPPED = ("multi-freq-ldpy", "local-hashing")


def measured(run: Callable[[Any], Any], people: int) -> tuple[float, float]:
    """People per second, and squared error of a cell per person."""
    values = np.random.default_rng(1).integers(0, CELLS, people)
    run(values[:20])  # compiled and warm
    began = time.perf_counter()
    estimate = run(values)
    seconds = time.perf_counter() - began
    truth = np.bincount(values, minlength=CELLS)
    return people / seconds, float(np.mean((estimate - truth) ** 2) / people)


def table_of_peers(rates: dict[str, float]) -> None:
    try:
        libraries = {"pure-ldp": pure_ldp_peers, "multi-freq-ldpy": multi_freq_peers}
        made = {library: make() for library, make in libraries.items()}
    except ImportError as missing:
        print(
            f"\npeers are not installed ({missing.name}); pip install 'noisewright[benchmarks]'"
        )
        return
    strategies = ours()
    print(
        f"\n{'mechanism':22}{'library':18}{'people/s':>10}{'ours/theirs':>13}"
        f"{'their error':>13}{'our variance':>14}"
    )
    identity = workload(f"identity:{CELLS}")
    for library, runs in made.items():
        for name, run in runs.items():
            rate, error = measured(run, PEOPLE.get(name, 5000))
            variance = Analysis(strategies[name][0], identity).average_case / CELLS
            # multi-freq-ldpy gives hashing estimates only after making them positive.
            shown = "-" if (library, name) == CLIPPED else f"{error:.4f}"
            print(
                f"{name:22}{library:18}{rate:10,.0f}{rates[name] / rate:13,.0f}"
                f"{shown:>13}{variance:14.4f}"
            )


if __name__ == "__main__":
    if "--quick" in sys.argv:
        MANY, FEWER = 1_000_000, 100_000
    table_of_peers(table_of_ours())
