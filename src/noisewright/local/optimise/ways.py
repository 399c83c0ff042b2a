"""A good ε-LDP strategy for a workload: choose the way, run it, never do worse than the classics.

Workloads that translations leave unchanged (all marginals, k-way marginals, parities; ranges up to
a hair) get orbits; ordered ones on large domains a coarse and a fine part; all others a dense
search. Whatever comes out is compared with the classical strategies on the error that was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, NoisewrightError, OutOfReach, TooLarge
from noisewright.local.histogram.response import RandomizedResponse
from noisewright.local.histogram.sets import SubsetSelection
from noisewright.local.listed.matrix import MatrixStrategy
from noisewright.local.optimise.classics import never_worse, seeing_all
from noisewright.local.optimise.control import Control, Progress
from noisewright.local.optimise.dense.cell_types import Types
from noisewright.local.optimise.dense.query_norms import check_norm, optimise_norm
from noisewright.local.optimise.dense.search import Effort, search
from noisewright.local.optimise.kept import (
    Cache,
    Checkpoint,
    default_folder,
    fingerprint,
    prior_settings,
)
from noisewright.local.optimise.optimised import Optimised
from noisewright.local.optimise.orbits.invariants import (
    Decomposition,
    character_energies,
    decompose,
    possible_groups,
)
from noisewright.local.optimise.orbits.orbit_search import OrbitEffort, search_orbits
from noisewright.local.optimise.orbits.strategy import OrbitStrategy
from noisewright.local.optimise.orbits.symmetric_search import SymmetricProblem
from noisewright.local.optimise.orbits.translations import Translations
from noisewright.local.optimise.ordered.coarse_and_fine import (
    OrderedEffort,
    bins_for,
    search_ordered,
)
from noisewright.local.optimise.task import GramOnly, Task
from noisewright.local.strategy import DENSE_SIZE, Arrays, Strategy
from noisewright.local.transform.spectrum import centred_spectrum
from noisewright.parallel import one_thread_if_small
from noisewright.solution import SLACK, Status
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.gram import Gram

Structure = Literal["auto", "dense", "translations", "ordered"]

_NEARLY_INVARIANT = 1.01
_FEWEST_BINS = 8
_QUICK_SIZE = 16
_SMALL, _LITTLE_PRIVACY = 40, 3.0


@dataclass(frozen=True)
class Preset:
    """What a level of effort means for each way."""

    dense: Effort
    orbits: OrbitEffort
    ordered: OrderedEffort
    dense_up_to: int
    """Largest ordered domain that still gets a dense search."""


PRESETS: dict[str, Preset] = {
    "low": Preset(
        Effort(rows_per_cell=2, iterations=25, rounds=0, generate_up_to=0, seconds=5.0),
        OrbitEffort(rounds=8, patience=3, flips=15),
        OrderedEffort(bins=32, rounds=2),
        dense_up_to=128,
    ),
    "normal": Preset(Effort(), OrbitEffort(), OrderedEffort(bins=128), dense_up_to=256),
    "high": Preset(
        Effort(rows_per_cell=24, iterations=300, rounds=60, generate_up_to=160, seconds=None),
        OrbitEffort(
            rounds=300,
            patience=40,
            flips=150,
            batch_cells=2**16,
            round_cells=2**25,
            reports=2**21,
        ),
        OrderedEffort(bins=256, rounds=6, flips=60, reports=2**21),
        dense_up_to=1024,
    ),
}


LEVELS = tuple(PRESETS)
"""Names of the levels of effort."""


def optimise(
    workload: Workload | Gram | npt.ArrayLike,
    epsilon: float,
    *,
    objective: str = "worst",
    prior: npt.ArrayLike | None = None,
    query_weights: npt.ArrayLike | None = None,
    norm: float = 2.0,
    effort: str = "normal",
    structure: Structure = "auto",
    seed: int = 0,
    time_limit: float | None = None,
    target_ratio: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: str | Path | None = None,
    cache: str | Path | bool = True,
) -> Optimised:
    """Find the strategy with the smallest error on a workload at a privacy budget.

    The error is the worst case over types, the average, or the mean under a `prior`; each query's
    squared error is multiplied by its weight in `query_weights`. A `norm` other than 2 asks for the
    ℓp mean of the queries' average errors, up to the worst query (`inf`). `progress` is called
    after every iteration, `checkpoint` names a file from which an interrupted run goes on, and
    finished runs are kept in a cache folder (`cache=False` for none). The same seed gives the same
    strategy.
    """
    if check_norm(norm, objective, prior) != 2:
        if query_weights is not None:
            raise InvalidParameter("query_weights", "given", "go with norm 2", "leave out one")
        rest = {
            "objective": objective,
            "structure": structure,
            "seed": seed,
            "target_ratio": target_ratio,
            "progress": progress,
            "checkpoint": checkpoint,
            "cache": cache,
        }
        return _for_norm(workload, epsilon, norm, prior, effort, _positive(time_limit), rest)
    task = Task.of(workload, epsilon, objective, prior, query_weights)
    preset = _preset(effort, structure)
    control = Control(task.floor, _positive(time_limit), target_ratio, progress)
    steering = (task.epsilon, task.objective, effort, structure, seed, prior_settings(task.prior))
    name = fingerprint(task.gram, *steering)
    kept = Cache(default_folder() if cache is True else Path(str(cache))) if cache else None
    entry = kept.load(name) if kept is not None else None
    known = None if entry is None else _value(task, entry.strategy)
    if entry is not None and known is not None:
        return _result(task, entry.strategy, entry.mechanism, known, Status.CACHED, control)
    state = None
    if checkpoint is not None:
        saved = Checkpoint(Path(checkpoint), name)
        state = saved.load()
        control.snapshot = saved.save
    with one_thread_if_small(task.gram.size):
        way = partial(_search, task, preset, structure)
        strategy = seeing_all(task, _found(way, task, seed, control, state))
        mechanism, strategy, value = never_worse(task, strategy, control)
    if not task.keeps(strategy):
        raise NoisewrightError("the search ended in a strategy that is not private: report this")
    status = _status(value, control)
    result = _result(task, strategy, mechanism, value, status, control)
    if kept is not None and status is Status.FINISHED:
        kept.save(name, strategy, mechanism)
    return result


def _value(task: Task, strategy: Strategy) -> float | None:
    """The error of a strategy that a file holds; None where it does not do what is asked."""
    try:
        if not task.keeps(strategy) or strategy.promise.epsilon != task.epsilon:
            return None
        # Errors of queries that it does not see would be understated.
        strategy.check_reach(task.queries)
        value = task.value(strategy)
    except (NoisewrightError, np.linalg.LinAlgError, ArithmeticError):
        return None
    return value if task.floor * (1 - SLACK) <= value < np.inf else None


Way = Callable[[np.random.Generator, Control, Arrays | None], Strategy]


def _found(way: Way, task: Task, seed: int, control: Control, state: Arrays | None) -> Strategy:
    """What a search finds, from a snapshot if one is at hand and can be gone on from."""
    if state is not None:
        try:
            return way(np.random.default_rng(seed), control, state)
        except (NoisewrightError, np.linalg.LinAlgError, ArithmeticError):
            pass  # the file held anything: begin anew
    try:
        strategy = way(np.random.default_rng(seed), control, None)
        if isinstance(strategy, MatrixStrategy):
            strategy.check_reach(task.queries)
    except (np.linalg.LinAlgError, OutOfReach):
        # Where e^ε is beyond the digits of a number, a search is lost; closed forms are not.
        return SubsetSelection(task.size, task.epsilon)
    return strategy


def _for_norm(
    workload: Workload | Gram | npt.ArrayLike,
    epsilon: float,
    norm: float,
    prior: npt.ArrayLike | None,
    effort: str,
    time_limit: float | None,
    rest: dict[str, Any],
) -> Optimised:
    task = Task.of(workload, epsilon, "average", prior)
    asked = task.workload
    if isinstance(asked, GramOnly):
        raise InvalidParameter("norm", norm, "needs the queries themselves", "give the workload")
    share = None if time_limit is None else time_limit / 15
    quick = effort if asked.size <= _QUICK_SIZE else "low"

    def solve(weights: FloatArray, last: bool) -> Optimised:
        limit = None if share is None else share * (2 if last else 1)
        told = {**rest, "prior": prior, "query_weights": weights, "time_limit": limit}
        return optimise(asked, epsilon, effort=effort if last else quick, **told)

    return optimise_norm(asked, norm, task.start_prior, solve)


def _preset(effort: str, structure: str) -> Preset:
    if effort not in PRESETS:
        raise InvalidParameter("effort", effort, f"must be one of {', '.join(PRESETS)}")
    if structure not in ("auto", "dense", "translations", "ordered"):
        raise InvalidParameter(
            "structure", structure, "must be auto, dense, translations or ordered"
        )
    return PRESETS[effort]


def _positive(seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise InvalidParameter("time_limit", seconds, "must be > 0", "seconds, or None")
    return seconds


def _result(
    task: Task, strategy: Strategy, mechanism: str, value: float, status: Status, control: Control
) -> Optimised:
    if not np.isfinite(value):
        raise OutOfReach("no strategy was found that answers every query; leave the smallest out")
    return Optimised(
        strategy=strategy,
        mechanism=mechanism,
        objective=task.objective,
        value=task.unit * max(value, 0.0),
        lower_bound=task.unit * task.floor,
        certificate=task.bound if task.floor > 0 else None,
        status=status,
        iterations=control.iterations,
        seconds=control.seconds,
    )


def _status(value: float, control: Control) -> Status:
    if control.met(value):
        return Status.TARGET_REACHED
    return Status.TIME_LIMIT if control.expired else Status.FINISHED


# --- which way -----------------------------------------------------------------------------------


def _search(
    task: Task,
    preset: Preset,
    structure: str,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> Strategy:
    if task.size == 1:
        return MatrixStrategy.from_chances(np.ones((1, 1)), task.epsilon)
    if structure in ("auto", "translations") and task.prior is None:
        symmetric = _symmetric(task, structure == "translations")
        if symmetric is not None:
            orbits = _orbits(symmetric, preset, rng, control, state)
            if structure == "auto" and _may_gain(task, symmetric) and not control.expired:
                return _better_dense(task, orbits, preset, rng, control)
            return orbits
    if structure in ("auto", "ordered") and task.prior is None:
        ordered = _ordered(task, preset, structure == "ordered")
        if ordered is not None:
            return search_ordered(
                task.gram, ordered, task.epsilon, preset.ordered, rng, control, state
            )
    if task.size > DENSE_SIZE:
        raise TooLarge(
            f"no structure was found in a workload over {task.size} cells, and a dense search "
            f"reaches {DENSE_SIZE}; use a classical mechanism, or coarsen the domain"
        )
    return _dense(task, preset, rng, control, state)


def _symmetric(task: Task, told: bool) -> SymmetricProblem | None:
    """The problem over orbits, where those lose next to nothing.

    The bound for strategies that a group leaves unchanged, over the bound for all, tells the loss.
    """
    try:
        nuclear = centred_spectrum(task.gram).nuclear
    except TooLarge:
        nuclear = 0.0
    best: tuple[float, SymmetricProblem] | None = None
    for group in possible_groups(task.gram):
        energies = character_energies(task.gram, group)
        if energies is None:
            continue
        invariant = float((np.sqrt(energies) * group.counts)[1:].sum())
        loss = (invariant / nuclear) ** 2 if nuclear > 0 else 1.0
        if best is None or loss < best[0] * (1 - 1e-9):
            best = loss, SymmetricProblem(group, energies, task.epsilon)
    if best is None or (best[0] > _NEARLY_INVARIANT and not told):
        return None
    return best[1]


def _orbits(
    problem: SymmetricProblem,
    preset: Preset,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> Strategy:
    n, epsilon = problem.group.cells, problem.epsilon
    if not problem.needed.any():
        return RandomizedResponse(n, epsilon)  # only totals are asked, and they are public
    flat = problem.energies[1:]
    if float(flat.max() - flat.min()) <= 1e-9 * float(flat.max()):
        return SubsetSelection(n, epsilon)  # all cells alike: meets the bound exactly
    orbits = search_orbits(problem, preset.orbits, rng, control, state)
    return OrbitStrategy.from_patterns(problem.group.sizes, orbits.patterns, orbits.shares, epsilon)


def _may_gain(task: Task, problem: SymmetricProblem) -> bool:
    """Whether a workload that is invariant only nearly may be answered better without orbits."""
    known = decompose(task.gram, problem.group)
    if known is not None and not known.ramp:
        return False
    return task.size <= (_SMALL if task.epsilon < _LITTLE_PRIVACY else 2 * _SMALL)


def _better_dense(
    task: Task, orbits: Strategy, preset: Preset, rng: np.random.Generator, control: Control
) -> Strategy:
    """A dense search beside the orbits; a checkpoint stays with the orbits."""
    if control.met(task.value(orbits)):
        return orbits
    quiet = replace(control, snapshot=None)
    dense = _dense(task, preset, rng, quiet, None)
    control.iterations = quiet.iterations
    return min(orbits, dense, key=task.value)


def _ordered(task: Task, preset: Preset, told: bool) -> Decomposition | None:
    """The workload as turning part and ramp, if it is one and large enough for bins."""
    known = decompose(task.gram, Translations((task.size,)))
    if known is None or not known.ramp:
        return None
    if bins_for(task.size, preset.ordered.bins) < _FEWEST_BINS:
        return None
    return known if told or task.size > preset.dense_up_to else None


def _dense(
    task: Task,
    preset: Preset,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> Strategy:
    gram = task.gram.dense()
    types = Types.of(gram)
    if types.count == 1:
        return RandomizedResponse(task.size, task.epsilon)  # only totals are asked
    effort = preset.dense.within(control.remaining, types.count)
    if effort is None:
        return SubsetSelection(task.size, task.epsilon)  # no step of a search fits the time
    limited = control
    if control.time_limit is None and effort.seconds is not None:
        limited = replace(control, time_limit=effort.seconds, started=control.started)
    merged, start = types.merged_gram(gram), types.merged(task.start_prior)
    design, prior = search(
        merged, task.epsilon, start, task.worst_case, effort, rng, limited, state
    )
    control.iterations = limited.iterations
    chances = design.chances()[:, types.group]
    told = _told(types.spread(prior, task.start_prior))
    return MatrixStrategy.from_chances(chances, task.epsilon, told)


def _told(prior: FloatArray) -> FloatArray | None:
    """None for the uniform prior, which a strategy need not be told."""
    return None if np.ptp(prior) < 1e-12 else prior
