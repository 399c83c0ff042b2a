"""The search for orbits: column generation by classes, automorphisms written out, cells flipped."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, log2, prod
from typing import Protocol

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IndexArray
from noisewright.local.optimise.dense.pricing import best_flips
from noisewright.local.optimise.kept import saved_patterns
from noisewright.local.optimise.optimised import Control
from noisewright.local.optimise.symmetry import (
    Orbits,
    SymmetricProblem,
    orbit_information,
)
from noisewright.local.shares import best_shares
from noisewright.local.strategy import Arrays
from noisewright.local.transform.orbits import attributes_of
from noisewright.local.transform.translations import Translations, squared_modulus

# Attributes that a random pattern of few depends on at most.
_LARGEST_JUNTA = 6
# Cells up to which flips are tried one by one: every flip looks at all cells.
_FLIPPED_CELLS = 256
# Classes of characters up to which a linear program for few orbits is solved.
_FEW_CLASSES = 24
# Of the value, for which orbits are left out.
_PRUNING_LOSS = 2e-4
# Of the value, by which orbits written out may miss averages over classes.
_WRITING_LOSS = 1e-3
# Cells up to which flips begin from three sets of patterns: only bounds time.
_SEVERAL_STARTS = 2**14
# Patterns written out: only bounds time.
_WRITTEN = 2**11
# Their cells: only bounds memory.
_WRITTEN_ENTRIES = 2**22
# Share of reports below which an orbit is not written out.
_LIGHT = 1e-4
# Cells of which a level is read: a quantile needs no more.
_SAMPLE = 2**14
# Of the value, for a step of flips to count as a gain.
_LITTLE = 3e-5
# Steps of flips without a gain, after which they end.
_PATIENCE = 6


@dataclass(frozen=True)
class OrbitEffort:
    """How hard the search tries."""

    rounds: int = 40
    patience: int = 8
    flips: int = 40
    batch_cells: int = 2**15
    round_cells: int = 2**20
    reports: int = 2**20
    """About the largest number of different reports of the strategy."""
    starts: int = 300
    """Patterns improved cell by cell in a round, where cells are few."""

    def orbits(self, cells: int) -> int:
        """Largest number of orbits over this many cells."""
        return int(np.clip(self.reports // cells, 8, 512))

    def rounds_over(self, cells: int) -> int:
        """Rounds of column generation: the first few bring most, and large ones take seconds."""
        return int(np.clip(self.round_cells // cells, 3, self.rounds))

    def batch(self, cells: int) -> int:
        """Number of patterns improved at once."""
        return int(np.clip(self.batch_cells // cells, 2, 64))


def search_orbits(
    problem: SymmetricProblem,
    effort: OrbitEffort,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None = None,
) -> Orbits:
    """Orbits of classes written out; where that costs too much, their cells flipped instead.

    `state` is what a snapshot of an earlier run held: its patterns join the first ones.
    """
    earlier = saved_patterns(state, problem.group.cells)
    generated = _generate_orbits(problem, effort, rng, control, earlier)
    written = _reweighted(problem, _written_out(problem, generated, effort, rng))
    limit = effort.orbits(problem.group.cells)
    aim = _class_value(problem, generated)
    enough = limit > len(problem.classes.sizes)
    close = problem.value(written.eigenvalues) <= aim * (1 + _WRITING_LOSS)
    if (enough and close) or control.expired:
        return written

    starts = [written]
    if problem.group.cells <= _SEVERAL_STARTS:
        few = np.argsort(-written.shares)[: max(limit // 4, 8)]
        fresh = problem.spectral_patterns(min(limit, 64), rng, 0.5)
        starts += [_uniform(problem, written.patterns[few]), _uniform(problem, fresh)]

    flipped = [flip_cells(problem, start, effort.flips, control) for start in starts]
    best = min(
        [written, *flipped], key=lambda orbits: problem.value(orbits.eigenvalues)
    )
    return _reweighted(problem, best)


def _uniform(problem: SymmetricProblem, patterns: BoolArray) -> Orbits:
    shares = np.full(len(patterns), 1.0 / len(patterns))
    return Orbits(problem.group, patterns, shares, problem.epsilon)


def _class_value(problem: SymmetricProblem, orbits: Orbits) -> float:
    """The value that all automorphisms together would reach."""
    means = orbits.shares @ problem.classes.mean(orbits.information)
    return float((problem.classes.weights / means).sum())


def _generate_orbits(
    problem: SymmetricProblem,
    effort: OrbitEffort,
    rng: np.random.Generator,
    control: Control,
    earlier: BoolArray | None = None,
) -> Orbits:
    """Column generation, eigenvalues averaged over classes of characters."""
    n = problem.group.cells
    classes = problem.classes
    batch = effort.batch(n)
    rounds = effort.rounds_over(n)
    pool = problem.spectral_patterns(batch, rng, 0.5)
    pool = np.concatenate(
        [pool, problem.ascend(pool, np.sqrt(np.abs(problem.energies)))]
    )
    pool = np.concatenate(
        [pool, _random_juntas(problem, batch, rng), _waves(problem, batch)]
    )
    if earlier is not None:
        pool = np.concatenate([pool, earlier])

    best = np.inf
    stalled = 0
    for round_ in range(rounds):
        pool = _distinct(pool)
        means = classes.mean(orbit_information(problem.group, pool, problem.epsilon))
        rows, shares, value = _pruned(means, classes.weights, effort.orbits(n))
        pool = pool[rows]
        means = means[rows]
        stalled = 0 if value < best * (1 - 1e-4) else stalled + 1
        best = min(best, value)
        control.keep("orbits", lambda pool=pool: {"patterns": pool})  # type: ignore[misc]
        done = control.step("orbits", problem.variance(value))
        if done or stalled >= effort.patience or round_ == rounds - 1:
            break

        gains = classes.spread(classes.weights / classes.sizes / (shares @ means) ** 2)
        fresh = [_proposals(problem, pool, gains, batch, rng)]
        if n <= _FLIPPED_CELLS and len(classes.sizes) <= _FEW_CLASSES and effort.starts:
            fresh.append(_flipped(problem, pool, gains, effort.starts, rng))

        pool = np.concatenate([pool, *fresh])

    return Orbits(problem.group, pool, shares, problem.epsilon)


def _waves(problem: SymmetricProblem, rows: int) -> BoolArray:
    """One character of each class, high where it is positive: what the Fourier strategy draws."""
    labels = problem.classes.labels
    _, first = np.unique(labels, return_index=True)
    chosen = first[labels[first] >= 0][:rows]
    kind = np.float64 if problem.group.binary else np.complex128
    spectra = np.zeros((len(chosen), len(labels)), dtype=kind)
    spectra[np.arange(len(chosen)), chosen] = 1.0

    return np.asarray(problem.group.backward(spectra) > 0)


def _random_juntas(
    problem: SymmetricProblem, rows: int, rng: np.random.Generator
) -> BoolArray:
    """Random patterns that depend on a few attributes only.

    Ascents keep the attributes a pattern depends on, so these find functions of low degree, which
    for k-way marginals and parities of low degree are nearly optimal and which patterns over all
    attributes never meet: at 512 cells and ε = 1, 3-way marginals go from ratio 1.2 to 1.01.
    """
    sizes = problem.group.sizes
    juntas = np.empty((rows, problem.group.cells), dtype=bool)
    for row in range(rows):
        axes = rng.choice(
            len(sizes), rng.integers(1, min(len(sizes), _LARGEST_JUNTA) + 1), False
        )
        shape = [size if axis in axes else 1 for axis, size in enumerate(sizes)]
        cells = int(np.prod(shape))
        share = 1.0 / (1.0 + np.exp(problem.epsilon))
        count = int(np.clip(rng.binomial(cells, share), 1, max(cells - 1, 1)))
        junta = np.zeros(cells, dtype=bool)
        junta[rng.permutation(cells)[:count]] = True
        juntas[row] = np.broadcast_to(junta.reshape(shape), sizes).ravel()

    return juntas


def _proposals(
    problem: SymmetricProblem,
    pool: BoolArray,
    gains: FloatArray,
    batch: int,
    rng: np.random.Generator,
) -> BoolArray:
    """Ascents from fresh random patterns of three kinds and from shaken ones of the pool."""
    n = problem.group.cells
    half = max(batch // 2, 1)
    fresh = [problem.spectral_patterns(half, rng, p) for p in (0.5, rng.uniform(0, 1))]
    if len(problem.group.sizes) > 1:
        fresh.append(_random_juntas(problem, batch, rng))

    chosen = pool[rng.permutation(len(pool))[:batch]]
    shaken = chosen ^ (rng.random(chosen.shape) < rng.uniform(min(1.0 / n, 0.05), 0.1))
    return problem.ascend(np.concatenate([*fresh, shaken]), gains)


def _flipped(
    problem: SymmetricProblem,
    pool: BoolArray,
    gains: FloatArray,
    starts: int,
    rng: np.random.Generator,
) -> BoolArray:
    """Where single flips lead from shaken patterns of the pool and from random ones, the best.

    Ascents by levels stop where a flip of one cell still gains: at 256 cells and ε = 1, parities of
    up to three go from ratio 1.039 to 1.005.
    """
    n = problem.group.cells
    epsilon = problem.epsilon
    parents = pool[rng.integers(len(pool), size=2 * starts // 3)]
    rates = 2.0 ** rng.integers(0, int(log2(n)), (len(parents), 1)) / n
    shaken = parents ^ (rng.random(parents.shape) < rates)
    share = rng.uniform(0.3, 2.0, (starts - len(parents), 1)) / (1.0 + exp(epsilon))
    random = rng.random((len(share), n)) < share
    kernel = problem.group.apply(gains / gains.max(), np.eye(n))
    begun = np.concatenate([shaken, random])
    patterns, worth = best_flips(begun, kernel, np.full(n, 1.0 / n), epsilon)

    return patterns[np.argsort(-worth)[: max(starts // 4, 1)]]


def _distinct(patterns: BoolArray) -> BoolArray:
    """The patterns without repetitions, in order of first appearance."""
    packed = np.packbits(patterns, axis=1)
    first = {row.tobytes(): index for index, row in reversed(list(enumerate(packed)))}
    return np.asarray(patterns[sorted(first.values())])


def _pruned(
    information: FloatArray, weights: FloatArray, largest: int
) -> tuple[IndexArray, FloatArray, float]:
    """Orbits worth keeping, with their best shares: as few as cost next to nothing.

    An interior method spreads shares over all equally good orbits; no more orbits than classes
    are ever needed.
    """
    shares, value = best_shares(information, weights)
    few = _few_shares(information, shares)
    if few is not None:
        rows = np.flatnonzero(few)
        return rows, few[rows], float((weights / (few @ information)).sum())

    order = np.argsort(-shares)
    order = order[shares[order] > 1e-7]
    limit = min(information.shape[1] + 1, largest)

    while limit < len(order):
        rows = np.sort(order[:limit])
        if (information[rows].max(axis=0) > 0).all():
            fewer, fewer_value = best_shares(information[rows], weights)
            if fewer_value <= value * (1 + _PRUNING_LOSS) or 2 * limit > largest:
                return rows, fewer, fewer_value
        limit *= 2

    rows = np.sort(order)
    return rows, shares[rows] / shares[rows].sum(), value


def _few_shares(information: FloatArray, shares: FloatArray) -> FloatArray | None:
    """Other shares that tell as much, on no more orbits than classes; None where those are many.

    Shares that are spread over orbits that are alike, or as good, could not be written out.
    """
    from scipy.optimize import linprog

    used = np.flatnonzero(shares > 1e-9)
    classes = information.shape[1]
    if not classes < len(used) or classes > _FEW_CLASSES:
        return None

    told = shares[used] @ information[used] / shares[used].sum()
    solved = linprog(
        np.zeros(len(used)),
        A_eq=np.vstack([(information[used] / told).T, np.ones(len(used))]),
        b_eq=np.ones(classes + 1),
        method="highs-ds",
    )
    if solved.x is None:
        return None

    few = np.zeros(len(shares))
    few[used] = np.where(solved.x > 1e-9, solved.x, 0.0)
    return np.asarray(few / few.sum()) if (few @ information > 0).all() else None


def _written_out(
    problem: SymmetricProblem,
    orbits: Orbits,
    effort: OrbitEffort,
    rng: np.random.Generator,
) -> Orbits:
    """The orbits under random automorphisms, enough to come near the averages over classes.

    A pattern of few attributes has few reports, so that many of its images fit.
    """
    aim = _class_value(problem, orbits)
    if problem.value(orbits.eigenvalues) <= aim * (1 + _WRITING_LOSS):
        return orbits

    sizes = problem.group.sizes
    n = problem.group.cells
    heavy = np.argsort(-orbits.shares)[: max(effort.orbits(n) // 4, 1)]
    heavy = heavy[orbits.shares[heavy] > _LIGHT]
    reports = sum(_reports(orbits.patterns[index].reshape(sizes)) for index in heavy)
    useful = min(_WRITTEN, 8 * int(problem.needed.sum()), _WRITTEN_ENTRIES // n)
    few = reports < n  # in sum: then it is their number that counts, not their reports
    written = max(useful if few else 0, effort.orbits(n))
    copies = max(written // len(heavy), 1)
    moved = [
        problem.automorphisms.random(orbits.patterns[heavy], rng)
        for _ in range(copies - 1)
    ]
    patterns = np.concatenate([orbits.patterns[heavy], *moved])
    shares = np.tile(orbits.shares[heavy], copies)

    return Orbits(problem.group, patterns, shares / shares.sum(), orbits.epsilon)


def _reports(pattern: BoolArray) -> int:
    """Translations that a pattern over all attributes has, those that leave it unchanged as one."""
    return prod(pattern.shape[axis] for axis in attributes_of(pattern))


def _reweighted(problem: SymmetricProblem, orbits: Orbits) -> Orbits:
    """Best shares character by character; orbits without a share are dropped."""
    needed = problem.needed
    before = problem.value(orbits.eigenvalues)
    if not np.isfinite(before):
        return orbits

    shares, _ = best_shares(orbits.information[:, needed], problem.weights[needed])
    support = shares > 1e-4 / len(shares)
    trimmed = shares[support] / shares[support].sum()
    result = Orbits(problem.group, orbits.patterns[support], trimmed, orbits.epsilon)

    return result if problem.value(result.eigenvalues) < before else orbits


# --- cells flipped ------------------------------------------------------------------------------


class EigenvalueProblem(Protocol):
    """A function of the eigenvalues of invariant information, to be made small."""

    @property
    def group(self) -> Translations: ...

    @property
    def epsilon(self) -> float: ...

    def value(self, eigenvalues: FloatArray) -> float:
        """What is made small; infinite where something needed is not seen."""
        ...

    def gains(self, eigenvalues: FloatArray) -> FloatArray:
        """Minus the derivative in each eigenvalue, per character."""
        ...

    def variance(self, value: float) -> float:
        """Variance per person at a value."""
        ...


class _State:
    """Patterns with their spectra, and the information they give together."""

    def __init__(
        self, problem: EigenvalueProblem, patterns: BoolArray, shares: FloatArray
    ) -> None:
        n = problem.group.cells
        slope = expm1(problem.epsilon)
        self.patterns = patterns
        self.spectrum: Array = problem.group.forward(patterns.astype(np.float64))
        self.mass = n + slope * patterns.sum(axis=1)
        scale = shares * (slope / self.mass) ** 2 * n
        self.eigenvalues = scale @ squared_modulus(self.spectrum)
        self.value = problem.value(self.eigenvalues)


def flip_cells(
    problem: EigenvalueProblem, orbits: Orbits, iterations: int, control: Control
) -> Orbits:
    """Improve the patterns of the orbits at fixed shares; never worse than the start.

    The gradient of Σ_χ M_χ/λ_χ in a pattern costs two transforms. The cells whose flip promises
    most are flipped together in all patterns; the number flipped grows while the value falls and
    shrinks when it does not. Every character is matched on its own here, where column generation
    would need an orbit each.
    """
    n = problem.group.cells
    state = _State(problem, orbits.patterns, orbits.shares)
    if not np.isfinite(state.value):
        return orbits

    fraction = 0.02
    idle = 0
    for _ in range(iterations):
        promise = _promise(problem, state)
        levels = _upper_levels(promise, fraction)
        moved = _State(problem, state.patterns ^ (promise > levels), orbits.shares)
        idle = idle + 1 if moved.value > state.value * (1 - _LITTLE) else 0
        if moved.value < state.value:
            state = moved
            fraction = min(1.3 * fraction, 0.5)
        else:
            fraction /= 2

        if control.step("cells", problem.variance(state.value)):
            break
        if fraction * n < 1 or idle == _PATIENCE:
            break

    return Orbits(orbits.group, state.patterns, orbits.shares, orbits.epsilon)


def _promise(problem: EigenvalueProblem, state: _State) -> FloatArray:
    """How much the flip of each cell would lower the value, to first order and up to scale."""
    slope = expm1(problem.epsilon)
    tangent = problem.group.backward(state.spectrum * problem.gains(state.eigenvalues))
    inside = np.einsum("ru,ru->r", tangent, state.patterns)
    tangent -= (slope * inside / state.mass)[:, None]
    np.negative(tangent, out=tangent, where=state.patterns)
    return tangent


def _upper_levels(promise: FloatArray, fraction: float) -> FloatArray:
    """For each row, the level above which a fraction of it lies (from a sample of cells), or 0."""
    n = promise.shape[1]
    part = promise[:, :: max(1, n // _SAMPLE)]
    count = min(max(1, int(fraction * part.shape[1])), part.shape[1] - 1)
    levels = np.partition(part, part.shape[1] - 1 - count, axis=1)[:, -1 - count]
    return np.maximum(levels, 0.0)[:, None]
