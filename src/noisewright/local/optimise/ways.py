"""Which way to a good ε-LDP strategy, and the classical ones that it must not fall behind.

Workloads that translations leave unchanged (all marginals, k-way marginals, parities; ranges up to
a hair) get orbits; ordered ones on large domains a coarse and a fine part; all others a dense
search. Whatever comes out is compared with the classical strategies on the error that was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Literal, get_args

import numpy as np

from noisewright.errors import InvalidParameter, NoisewrightError, TooLarge
from noisewright.local.composed.hierarchical import hierarchical
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.histogram.sets import RandomizedResponse, SubsetSelection
from noisewright.local.listed import MatrixStrategy
from noisewright.local.optimise.dense.cell_types import CellTypes
from noisewright.local.optimise.dense.growth import Growth
from noisewright.local.optimise.dense.search import Effort, Question
from noisewright.local.optimise.dense.search import search as search_dense
from noisewright.local.optimise.optimised import Control
from noisewright.local.optimise.orbit_search import OrbitEffort, search_orbits
from noisewright.local.optimise.ordered_search import (
    OrderedEffort,
    bins_for,
    search_ordered,
)
from noisewright.local.optimise.symmetry import SymmetricProblem
from noisewright.local.optimise.task import Task
from noisewright.local.strategy import DENSE_SIZE, Arrays, IndexStrategy, Strategy
from noisewright.local.transform.fourier import fourier
from noisewright.local.transform.hadamard import best_blocks
from noisewright.local.transform.invariants import (
    Decomposition,
    character_energies,
    decompose,
    possible_groups,
)
from noisewright.local.transform.orbits import OrbitStrategy
from noisewright.local.transform.spectrum import centred_spectrum
from noisewright.local.transform.translations import Translations
from noisewright.local.work import SECOND

Structure = Literal["auto", "dense", "translations", "ordered"]

Way = Callable[[np.random.Generator, Control, Arrays | None], Strategy]

# Bound for invariant strategies over the bound for all, up to which orbits are taken.
_NEARLY_INVARIANT = 1.01
_NEAR = 1.005  # a strategy so near its bound is left alone, by proofs too
# With fewer bins there is no coarse part to speak of.
_FEWEST_BINS = 8
# Cells up to which a dense search is tried beside orbits.
_SMALL = 40
# ε from which it is tried on twice as many.
_LITTLE_PRIVACY = 3.0
# Cells up to which errors are found by matrices: only bounds time.
_BY_MATRICES = 512
# Of the reports, for a strategy that sees every cell.
_SLIVER = 1e-5
# Cells up to which errors are found by transforms: only bounds time.
_BY_TRANSFORMS = 2**14


@dataclass(frozen=True)
class Preset:
    """What a level of effort means for each way."""

    dense: Effort
    orbits: OrbitEffort
    ordered: OrderedEffort
    dense_up_to: int
    """Largest ordered domain that gets a dense search and nothing else: there it is the best."""
    both_up_to: int
    """Largest that gets one beside the search on bins, where that ends above its bound."""


PRESETS: dict[str, Preset] = {
    "low": Preset(
        Effort(
            growth=Growth(up_to=64, work=0.5 * SECOND),
            rows_per_cell=2,
            iterations=25,
            work=5 * SECOND,
        ),
        OrbitEffort(rounds=8, patience=3, flips=15, starts=0),
        OrderedEffort(bins=32, rounds=2),
        dense_up_to=128,
        both_up_to=256,
    ),
    "normal": Preset(
        Effort(),
        OrbitEffort(),
        OrderedEffort(bins=128),
        dense_up_to=512,
        both_up_to=1024,
    ),
    "high": Preset(
        Effort(
            growth=Growth(work=45 * SECOND, reports=2**14),
            rows_per_cell=24,
            iterations=300,
            work=40 * SECOND,
        ),
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
        both_up_to=1024,
    ),
}


def preset(effort: str, structure: str) -> Preset:
    """The level of effort of this name; the structure must be one that is known."""
    if structure not in get_args(Structure):
        rule = "must be auto, dense, translations or ordered"
        raise InvalidParameter("structure", structure, rule)
    return PRESETS[effort]


def search_strategy(
    task: Task,
    preset: Preset,
    structure: str,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> Strategy:
    """The strategy that the way for this workload, or the one named, ends in."""
    if task.size == 1:
        return MatrixStrategy.from_chances(np.ones((1, 1)), task.epsilon)

    if structure in ("auto", "translations") and task.prior is None:
        symmetric = _symmetric(task, structure == "translations")
        if symmetric is not None:
            orbits = _orbits(symmetric, preset, rng, control, state)
            if (
                structure == "auto"
                and _may_gain(task, symmetric)
                and not control.expired
            ):
                return _better_dense(task, orbits, preset, rng, control)
            return orbits

    if structure in ("auto", "ordered") and task.prior is None:
        ordered = _ordered(task, preset, structure == "ordered")
        if ordered is not None:
            mixture = search_ordered(task, ordered, preset.ordered, rng, control, state)
            if (
                structure == "auto"
                and _far(task, preset, mixture)
                and not control.expired
            ):
                return _better_dense(task, mixture, preset, rng, control)

            return mixture

    if task.size > DENSE_SIZE:
        raise TooLarge(
            f"no structure was found in a workload over {task.size} cells, and a dense search "
            f"reaches {DENSE_SIZE}; use a classical mechanism, or coarsen the domain"
        )

    return _dense(task, preset, rng, control, state)


def _symmetric(task: Task, forced: bool) -> SymmetricProblem | None:
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

    if best is None or (best[0] > _NEARLY_INVARIANT and not forced):
        return None

    return best[1]


def _orbits(
    problem: SymmetricProblem,
    preset: Preset,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> Strategy:
    n = problem.group.cells
    epsilon = problem.epsilon
    if not problem.needed.any():
        # only totals are asked, and they are public
        return RandomizedResponse(n, epsilon)

    flat = problem.energies[1:]
    if float(flat.max() - flat.min()) <= 1e-9 * float(flat.max()):
        return SubsetSelection(n, epsilon)  # all cells alike: meets the bound exactly

    orbits = search_orbits(problem, preset.orbits, rng, control, state)
    return OrbitStrategy.from_patterns(
        problem.group.sizes, orbits.patterns, orbits.shares, epsilon
    )


def _may_gain(task: Task, problem: SymmetricProblem) -> bool:
    """Whether a workload that is invariant only nearly may be answered better without orbits."""
    known = decompose(task.gram, problem.group)
    if known is not None and not known.ramp:
        return False
    return task.size <= (_SMALL if task.epsilon < _LITTLE_PRIVACY else 2 * _SMALL)


def _better_dense(
    task: Task,
    other: Strategy,
    preset: Preset,
    rng: np.random.Generator,
    control: Control,
) -> Strategy:
    """A dense search beside a structured one; a checkpoint stays with that."""
    if control.met(task.value(other)):
        return other
    quiet = replace(control, snapshot=None)
    dense = _dense(task, preset, rng, quiet, None)
    control.iterations = quiet.iterations
    return min(other, dense, key=task.value)


def _ordered(task: Task, preset: Preset, forced: bool) -> Decomposition | None:
    """The workload as turning part and ramp, if it is one and large enough for bins."""
    known = decompose(task.gram, Translations((task.size,)))
    if known is None or not known.ramp:
        return None
    if bins_for(task.size, preset.ordered.bins) < _FEWEST_BINS:
        return None
    return known if forced or task.size > preset.dense_up_to else None


def _far(task: Task, preset: Preset, mixture: Strategy) -> bool:
    """Whether cells are few enough for a dense search too, and bins leave something to gain."""
    return task.size <= preset.both_up_to and task.value(mixture) > _NEAR * task.floor


def _dense(
    task: Task,
    preset: Preset,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> Strategy:
    gram = task.gram.dense()
    types = CellTypes.of(gram)
    if types.count == 1:
        return RandomizedResponse(task.size, task.epsilon)  # only totals are asked

    effort = preset.dense.within(control.limit.left, types.count)
    control.limit.cut_short |= effort != preset.dense.within(inf, types.count)
    if effort is None:
        # no step of a search fits the time
        return SubsetSelection(task.size, task.epsilon)

    asked = Question(
        types.merged_gram(gram),
        task.epsilon,
        types.merged(task.start_prior),
        task.worst_case,
    )

    def found(
        question: Question, control: Control, state: Arrays | None
    ) -> IndexStrategy:
        design, prior = search_dense(question, effort, rng, control, state)
        chances = design.chances()[:, types.of_cell]
        spread = types.spread(prior, task.start_prior)
        uneven = np.ptp(spread) >= 1e-12  # an even prior need not be stated
        return MatrixStrategy.from_chances(
            chances, task.epsilon, spread if uneven else None
        )

    strategy = found(asked, control, state)
    value = task.value(strategy)
    near = value <= _NEAR * task.floor or control.met(value)
    if task.objective != "average" or near or control.expired:
        return strategy

    # Weights settle faster where the prior moves: on 320 ordered cells at ε = 1 the design for the
    # worst case errs 2.4 % less on average than what the search for the average ends in.
    quiet = replace(control, snapshot=None)
    other = found(replace(asked, worst_case=True), quiet, None)
    control.iterations = quiet.iterations
    return min(strategy, other, key=task.value)


# --- the classics ---------------------------------------------------------------------------------


def seeing_all(task: Task, strategy: Strategy) -> Strategy:
    """The strategy, with a sliver of one that sees every cell where it misses a query.

    Queries millions of times smaller than others vanish in the Gram matrix that a search goes by.
    """
    if task.reached(strategy) or not isinstance(strategy, IndexStrategy):
        return strategy
    parts: list[IndexStrategy] = [strategy, RandomizedResponse(task.size, task.epsilon)]
    whole = Coarsening(task.size)
    return Mixture.of(parts, [whole, whole], [1.0 - _SLIVER, _SLIVER])


def never_worse(
    task: Task, strategy: Strategy, control: Control
) -> tuple[str, Strategy, float]:
    """The strategy, or the classical one that beats it: its name, itself and its error."""
    best = task.value(strategy)
    name = "optimised"
    if best <= task.floor * (1 + 1e-9) or control.met(best):
        return name, strategy, best

    for candidate, build in _classics(task, isfinite(best)).items():
        try:
            built = build()
            value = task.value(built)
        except NoisewrightError:
            continue
        if value < best * (1 - 1e-9):
            best = value
            name = candidate
            strategy = built

    return name, strategy, best


def _classics(task: Task, quick: bool) -> dict[str, Callable[[], Strategy]]:
    """Those whose error is quickly known: by matrices on small domains, in closed form on large.

    Where nothing was found yet, one that takes seconds is tried as well.
    """
    n = task.size
    epsilon = task.epsilon
    classics: dict[str, Callable[[], Strategy]] = {
        "randomized-response": lambda: RandomizedResponse(n, epsilon),
        "subset-selection": lambda: SubsetSelection(n, epsilon),
    }
    if n <= _BY_MATRICES:
        classics["hadamard"] = lambda: best_blocks(n, epsilon, task.value)

    if n <= _BY_MATRICES or n > DENSE_SIZE:
        classics["hierarchical"] = lambda: hierarchical(task.gram, epsilon)

    if n <= _BY_TRANSFORMS or not quick:
        classics["fourier"] = lambda: fourier(task.gram, epsilon)

    return classics
