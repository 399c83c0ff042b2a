"""One search, from what is asked to a strategy, its error and what no strategy goes below."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf, isnan
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, NoisewrightError, OutOfReach, require
from noisewright.local.analysis.grams import without_offsets
from noisewright.local.histogram.sets import SubsetSelection
from noisewright.local.listed import MatrixStrategy
from noisewright.local.mechanism import Search, SearchOptions
from noisewright.local.optimise.kept import (
    Cache,
    Checkpoint,
    default_folder,
    fingerprint,
)
from noisewright.local.optimise.optimised import Control, Optimised
from noisewright.local.optimise.task import LOST, Task
from noisewright.local.optimise.ways import (
    Structure,
    Way,
    never_worse,
    preset,
    search_strategy,
    seeing_all,
)
from noisewright.local.strategy import Arrays, Strategy
from noisewright.local.time_limit import TimeLimit, keeping_the_best
from noisewright.parallel import one_thread_if_small
from noisewright.solution import Status
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram
from noisewright.workload.linear.tensor import mean_error

# Cells up to which rounds of another norm search as hard as was asked.
_QUICK_SIZE = 16
# Of weights and strategy in turn.
_ROUNDS = 12
# Of the largest weight or variance: a query that weighs nothing would not be answered.
_LEAST = 1e-6


@keeping_the_best()
def optimise(
    workload: Workload | Gram | npt.ArrayLike,
    epsilon: float,
    *,
    query_weights: npt.ArrayLike | None = None,
    structure: Structure = "auto",
    settings: Search | None = None,
    limit: TimeLimit | None = None,
    **options: Unpack[SearchOptions],
) -> Optimised:
    """Find the strategy with the smallest error on a workload at a privacy budget.

    `settings` is a `Search`, or its fields are given by name: the error is the worst case over
    types, the average, or the mean under a prior, or an ℓp mean of the queries' average errors, up
    to the worst query. Each query's squared error is multiplied by its weight in `query_weights`.
    The same seed gives the same strategy, however busy the machine, unless a `time_limit` cuts the
    search short; a `limit` is one that began before.
    """
    chosen = Search.of(options, settings)
    effort = preset(chosen.effort, structure)
    if _norm(chosen) != 2:
        require(
            query_weights is None,
            "query_weights",
            "given",
            "go with norm 2",
            "leave out one",
        )
        return _for_norm(workload, epsilon, structure, chosen, limit or TimeLimit())

    task = Task.of(workload, epsilon, chosen.objective, chosen.prior, query_weights)
    limit = limit or TimeLimit(chosen.time_limit)
    control = Control(task.floor, limit, chosen.target_ratio, chosen.progress)
    steering = (
        task.epsilon,
        task.objective,
        chosen.effort,
        structure,
        int(chosen.seed),
        task.prior,
    )
    question = fingerprint(task.gram, *steering)
    folder = default_folder() if chosen.cache is True else Path(str(chosen.cache))
    cache = Cache(folder) if chosen.cache else None
    entry = None if cache is None else cache.load(question)
    value = None if entry is None else task.kept_value(entry[0])
    if entry is not None and value is not None:
        return _result(task, *entry, value, Status.CACHED, control)

    state = None
    if chosen.checkpoint is not None:
        checkpoint = Checkpoint(Path(chosen.checkpoint), question)
        state = checkpoint.load()
        control.snapshot = checkpoint.save

    with one_thread_if_small(task.gram.size):
        way = partial(search_strategy, task, effort, structure)
        strategy = seeing_all(task, _searched(way, task, chosen.seed, control, state))
        mechanism, strategy, value = never_worse(task, strategy, control)

    if not task.keeps(strategy):
        raise NoisewrightError(
            "the search ended in a strategy that is not private: report this"
        )

    status = Status.TIME_LIMIT if limit.cut_short else Status.FINISHED
    status = Status.TARGET_REACHED if control.met(value) else status
    result = _result(task, strategy, mechanism, value, status, control)
    if cache is not None and status is Status.FINISHED:
        cache.save(question, strategy, mechanism)

    return result


def _searched(
    way: Way, task: Task, seed: int, control: Control, state: Arrays | None
) -> Strategy:
    """What a search ends in, from a snapshot if one is at hand and can be gone on from."""
    if state is not None:
        try:
            return way(np.random.default_rng(seed), control, state)
        except LOST:
            pass  # the file held anything: begin anew

    try:
        strategy = way(np.random.default_rng(seed), control, None)
        if isinstance(strategy, MatrixStrategy):
            strategy.check_reach(task.queries)
    except (np.linalg.LinAlgError, OutOfReach):
        # Where e^ε is beyond the digits of a number, a search is lost; closed forms are not.
        return SubsetSelection(task.size, task.epsilon)

    return strategy


def _result(
    task: Task,
    strategy: Strategy,
    mechanism: str,
    value: float,
    status: Status,
    control: Control,
) -> Optimised:
    if not np.isfinite(value):
        raise OutOfReach(
            "no strategy was found that answers every query; leave the smallest out"
        )
    return Optimised(
        strategy=strategy,
        mechanism=mechanism,
        objective=task.objective,
        value=task.unit * max(value, 0.0),
        lower_bound=task.unit * task.floor,
        certificate=task.certificate,
        status=status,
        iterations=control.iterations,
        seconds=control.seconds,
    )


# --- ℓp means of the errors of single queries -----------------------------------------------------
#
# With v_i the variance of query i, the aim is q·(mean v^{p/2})^{2/p}: for p = 2 the total variance,
# for p = ∞ the worst query. Its minimum over strategies is that of Σ w_i v_i at weights w_i ∝
# v_i^{p/2−1}, so weights and strategy are found in turn. By Hölder's inequality Σ w_i v_i is at
# most the aim for all weights of dual mean one, so for p ≥ 2 their lower bounds bound it too.


def _norm(chosen: Search) -> float:
    """Refuse exponents below one, and the worst case over people with any but two."""
    norm = chosen.norm
    require(
        not isnan(norm) and norm >= 1,
        "norm",
        norm,
        "must be >= 1",
        "2 is the mean square, inf the worst",
    )
    require(
        norm == 2 or chosen.objective != "worst" or chosen.prior is not None,
        "norm",
        norm,
        "is about average errors",
        "add objective='average' or a prior",
    )

    return float(norm)


def _for_norm(
    workload: Workload | Gram | npt.ArrayLike,
    epsilon: float,
    structure: Structure,
    chosen: Search,
    whole: TimeLimit,
) -> Optimised:
    """The best strategy met while weights and strategy are found in turn."""
    task = Task.of(workload, epsilon, "average", chosen.prior)
    queries = task.workload
    norm = chosen.norm
    if queries is None:
        raise InvalidParameter(
            "norm", norm, "needs the queries themselves", "give the workload"
        )

    limit = None if chosen.time_limit is None else chosen.time_limit / 15
    effort = chosen.effort if queries.size <= _QUICK_SIZE else "low"
    quick = replace(chosen, norm=2.0, time_limit=limit, effort=effort)
    weights = np.ones(queries.queries)
    plain = without_offsets(queries)
    met: list[tuple[float, FloatArray, Optimised]] = []

    for step in range(_ROUNDS + 1):
        if step == _ROUNDS:  # once more, as hard as was asked, where it was best
            quick = replace(quick, time_limit=limit and 2 * limit, effort=chosen.effort)
            weights = min(met, key=lambda one: one[0])[1]

        result = optimise(
            queries, epsilon, query_weights=weights, structure=structure, settings=quick
        )
        whole.cut_short |= result.status is Status.TIME_LIMIT
        variances = np.maximum(
            result.strategy.query_variances(plain, task.start_prior), 0.0
        )
        met.append((queries.queries * mean_error(variances, norm / 2), weights, result))
        weights = _answered(weights, variances, norm, step)

    value, _, best = min(met, key=lambda one: one[0])
    highest = max(
        (result for _, _, result in met), key=lambda result: result.lower_bound
    )
    known = norm >= 2

    return replace(
        best,
        value=value,
        lower_bound=highest.lower_bound if known else 0.0,
        certificate=highest.certificate if known else None,
        objective=f"norm {norm:g}",
        status=Status.TIME_LIMIT if whole.cut_short else best.status,
    )


def _answered(
    weights: FloatArray, variances: FloatArray, norm: float, step: int
) -> FloatArray:
    """The next weights: the fixed point is v^{p/2−1}; large exponents are approached in steps."""
    v = np.maximum(variances / max(float(variances.max()), 1e-300), _LEAST)
    if norm < 2:
        raw = v ** (norm / 2 - 1)
        return np.asarray(raw / raw.mean())

    raw = (
        weights * v ** (4 / (4 + step))
        if norm == inf
        else (weights * v) ** (1 - 2 / norm)
    )
    return _dual_weights(np.maximum(raw, _LEAST * raw.max()), norm)


def _dual_weights(weights: FloatArray, norm: float) -> FloatArray:
    """Weights scaled so that Σ w_i v_i never exceeds the ℓp aim (p ≥ 2)."""
    r = norm / 2
    dual = 1.0
    if r != inf:
        dual = inf if r == 1 else r / (r - 1)
    return np.asarray(weights / mean_error(weights, dual))
