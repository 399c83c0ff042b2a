"""Families of distributions that nobody tells apart with fewer people, under local privacy.

A row v drawn from `weights` says which pair (first[v], second[v]) the data may come from; reports
are made without knowing v. What one report tells is bounded in `telling`, and so are the people
that errors of at most β both ways take on average over v, for non-interactive protocols, biased or
not. Pairs need to differ by little, and the rest of each is free: it is one reference that all
pairs share, wherever the task allows it, which proves e^ε times more people than a rest of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray, IndexArray
from noisewright.display import Shown
from noisewright.errors import Contradiction
from noisewright.local.bounds.people import telling
from noisewright.local.bounds.proof import EPS
from noisewright.local.fixedpoint import check_epsilon
from noisewright.solution import BoundClass

_TINY = 1e-300
"""Keeps quotients finite where both numbers are zero."""

_LEAST_WEIGHT = 1e-12
"""Of the largest: lighter pairs are left out. 1e-9 and 1e-15 change no number of people tried."""

_EVEN_SHARE = 1e-6
"""Of a reference is spread over all cells, so that none is left out: ten times more or less change
no number of people tried."""


@dataclass(frozen=True, eq=False)
class HardInstance(Shown):
    """Families `first` and `second`, a row each per v, `weights` on v, and what telling them takes.

    Columns are the cells, for labelled tasks all points with label +1 and then with −1. `task`
    says what solves the instance: a protocol for it tells the families apart. `reference` is the
    distribution over cells that differences are measured by.
    """

    first: FloatArray
    second: FloatArray
    weights: FloatArray
    reference: FloatArray
    epsilon: float
    beta: float
    task: str
    rows: IndexArray
    """The queries, concepts or pairs of concepts that the families are about, by number."""

    def __post_init__(self) -> None:
        single = self.weights[None, :], self.reference[None, :]
        for family in (self.first, self.second, *single):
            sums = family.sum(axis=1)
            if family.min() < -1e-12 or np.abs(sums - 1).max() > 1e-9:
                raise Contradiction(
                    "a hard instance holds something that is no distribution"
                )

        if not self.reference.min() > 0 or not math.isfinite(self.kappa):
            raise Contradiction("a hard instance proves nothing")

    bound_class = BoundClass.NON_INTERACTIVE

    @cached_property
    def kappa(self) -> float:
        """The least κ with Mᵀ Diag(weights) M ⪯ κ·Diag(reference), rounding included."""
        return self._least_kappa(np.ones(len(self.weights)))

    @cached_property
    def shares(self) -> FloatArray:
        """s_v: how much of the reference both families of every pair hold."""
        held = np.minimum(self.first, self.second) / self.reference
        return np.asarray(np.clip(held.min(axis=1) - 1e-12, 0.0, 1.0))

    @cached_property
    def distance(self) -> float:
        """The largest total variation of a pair."""
        differences = np.abs(self.first - self.second)
        return float(differences.sum(axis=1).max()) / 2

    def _least_kappa(self, shares: FloatArray) -> float:
        """The same for the rows M_v/√s_v."""
        if not shares.min() > 0:
            return math.inf

        differences = (self.first - self.second) / np.sqrt(self.reference)
        weighted = (self.weights / shares)[:, None] * differences
        gram = differences.T @ weighted

        n = len(gram)
        rounding = 8 * n**2 * EPS * float(np.abs(gram).max())
        return float(np.linalg.eigvalsh(gram)[-1]) + rounding

    @cached_property
    def _kappa_near_reference(self) -> float:
        return self._least_kappa(self.shares)

    @property
    def information(self) -> float:
        """What one report tells at most, on average over v."""
        by_pairs = telling.pair_constant(self.epsilon) * self.kappa
        constant = telling.reference_constant(self.epsilon)
        return min(by_pairs, constant * self._kappa_near_reference)

    @property
    def people(self) -> int:
        """No non-interactive protocol solves the task with fewer."""
        return telling.people_to_tell(
            self.information, self.distance, self.epsilon, self.beta
        )

    def advantage(self, people: int) -> float:
        """True less false alarms, on average over v, are at most this from so many people."""
        return telling.advantage(people, self.information, self.distance, self.epsilon)

    def draw(
        self,
        people: int,
        rng: np.random.Generator,
        second: bool | None = None,
    ) -> tuple[int, bool, np.ndarray]:
        """A row v, whether its second family is the truth (by a coin unless told), and cells."""
        weights = self.weights / self.weights.sum()
        v = int(rng.choice(len(weights), p=weights))
        is_second = bool(rng.integers(2)) if second is None else second

        family = self.second if is_second else self.first
        chances = family[v].clip(0)
        chances = chances / chances.sum()
        cells = rng.choice(len(chances), size=people, p=chances)
        return v, is_second, cells

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("task", self.task),
            ("families", f"{len(self.weights):,} pairs"),
            ("people", f"{self.people:,}"),
            ("for", str(self.bound_class)),
        ]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Families of which a share of each makes the difference that a task needs; `rest` is the rest.

    `sizes` are weights to begin with. Where `common`, any one distribution may be the rest of all,
    which for `labelled` cells must hold both labels of a point alike.
    """

    first: FloatArray
    second: FloatArray
    share: FloatArray
    rest: FloatArray
    sizes: FloatArray
    rows: IndexArray
    common: bool = True
    labelled: bool = False

    def kept(self, some: IndexArray) -> Pairs:
        """Some of them."""
        names = ("first", "second", "share", "rest", "sizes", "rows")
        return replace(self, **{name: getattr(self, name)[some] for name in names})

    def instances(
        self,
        epsilon: float,
        beta: float,
        task: str,
    ) -> Iterator[HardInstance]:
        """With a rest of their own, and with a common one."""
        yield self._instance(epsilon, beta, task, common=False)
        if self.common:
            yield self._instance(epsilon, beta, task, common=True)

    def _instance(
        self,
        epsilon: float,
        beta: float,
        task: str,
        *,
        common: bool,
    ) -> HardInstance:
        share = self.share[:, None]
        differences = share * (self.first - self.second)
        if common:
            differences = differences / np.sqrt(1 - share)

        weights, reference = reweighted(differences, self.sizes)
        if self.labelled:
            other_label = np.roll(reference, len(reference) // 2)
            reference = (reference + other_label) / 2

        kept = np.flatnonzero(weights > _LEAST_WEIGHT * weights.max())
        rest = (1 - share) * (reference if common else self.rest)
        return HardInstance(
            first=(rest + share * self.first)[kept],
            second=(rest + share * self.second)[kept],
            weights=weights[kept] / weights[kept].sum(),
            reference=reference,
            epsilon=check_epsilon(epsilon),
            beta=beta,
            task=task,
            rows=self.rows[kept],
        )


@dataclass(frozen=True)
class Reweighting:
    """How weights on pairs are looked for. A certificate holds for whatever weights are found."""

    rounds: int = 60
    """Moves of the weights: half and double change no number of people on four tasks tried."""
    powers: int = 30
    """Power steps for the worst correlation matrix in a round: half proves as much there, double
    one person of 3,077 more."""
    rank: int = 24
    """Of that matrix, found as XXᵀ: half and double prove as much there."""
    largest_exponent: float = 3.0
    """By which a weight moves in a round: keeps exponentials finite where one is seen alone."""
    slowing: int = 6
    """Rounds after which moves are half as long as the first."""


_REWEIGHTING = Reweighting()


def reweighted(
    differences: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Weights π̂ and a reference ν for which Mᵀ Diag(π̂) M ⪯ κ·Diag(ν) with a small κ.

    For given weights the least κ is the largest tr(BY) over correlation matrices Y, found as
    Y = XXᵀ with unit rows; the weights then move to rows that these directions see less.
    """
    effort = _REWEIGHTING
    weights = start / start.sum()
    cells = differences.shape[1]
    rank = min(effort.rank, cells)
    x = np.random.default_rng(0).standard_normal((cells, rank))
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    best_weights = weights
    best_reference = np.ones(cells)
    least = math.inf
    for count in range(effort.rounds):
        gram = differences.T @ (weights[:, None] * differences)
        x = _worst_correlation(differences, weights, x)

        # Diag(d) is made to dominate B: its sum is a κ that these weights reach.
        d = np.linalg.norm(gram @ x, axis=1)
        short = -float(np.linalg.eigvalsh(np.diag(d) - gram)[0])
        d = d + max(0.0, short)
        if float(d.sum()) < least:
            least = float(d.sum())
            best_weights = weights
            best_reference = d

        seen = np.square(differences @ x).sum(axis=1)
        relative = seen / max(float(weights @ seen), _TINY) - 1
        limit = effort.largest_exponent
        step = relative.clip(-limit, limit) / (1 + count / effort.slowing)
        weights = weights * np.exp(-step)
        weights /= weights.sum()

    d = best_reference
    return best_weights, (1 - _EVEN_SHARE) * d / d.sum() + _EVEN_SHARE / cells


def _worst_correlation(
    differences: FloatArray,
    weights: FloatArray,
    x: FloatArray,
) -> FloatArray:
    """X with unit rows and a large tr(BXXᵀ), by power steps from the one given."""
    for _ in range(_REWEIGHTING.powers):
        image = differences.T @ (weights[:, None] * (differences @ x))
        lengths = np.maximum(np.linalg.norm(image, axis=1, keepdims=True), _TINY)
        x = np.where(lengths > _TINY, image / lengths, x)
    return x
