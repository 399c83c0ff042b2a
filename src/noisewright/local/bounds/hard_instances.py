"""Two families of distributions that nobody tells apart with fewer people, under local privacy.

A row v drawn from `weights` says which pair (first[v], second[v]) the data may come from; reports
are made without knowing v. What one report tells is bounded in `telling`, and so are the people
that errors of at most β both ways take on average over v, for non-interactive protocols, biased or
not. The pairs come from the dual witness of the task's norm [001, with the corrections of its
lemmas]. They need to differ by little, and the rest of each is free: it is one reference that all
pairs share, wherever the task allows it, which proves e^ε times more people than a rest of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray, IndexArray
from noisewright.display import Shown
from noisewright.errors import (
    Contradiction,
    NoisewrightError,
    require,
)
from noisewright.local.bounds import people as telling
from noisewright.local.fixedpoint import check_epsilon
from noisewright.norm.approximate.approximate import approximate_norm, boxed_norm
from noisewright.solution import BoundClass
from noisewright.workload.forms.text import Queries
from noisewright.workload.forms.text import workload as as_workload

_TOLERANCES = 1.0, 2.0, 4.0
"""Multiples of the error at which witnesses are taken; the one that proves most is kept."""

_ROUNDS = 60
_POWERS = 30
_FINEST = 1e-12
_ABOVE = 1 + 1e-9  # gaps are just above what a protocol would need to miss
_EVEN = 1e-6  # of a reference is spread over all cells, so that none is left out
_RANK = 24


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
        alone = self.weights[None, :], self.reference[None, :]
        for family in (self.first, self.second, *alone):
            if family.min() < -1e-12 or np.abs(family.sum(axis=1) - 1).max() > 1e-9:
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
        return float(np.abs(self.first - self.second).sum(axis=1).max()) / 2

    def _least_kappa(self, shares: FloatArray) -> float:
        """The same for the rows M_v/√s_v."""
        if not shares.min() > 0:
            return math.inf

        moved = (self.first - self.second) / np.sqrt(self.reference)
        gram = moved.T @ ((self.weights / shares)[:, None] * moved)
        n = len(gram)
        rounding = 8 * n**2 * np.finfo(float).eps * float(np.abs(gram).max())

        return float(np.linalg.eigvalsh(gram)[-1]) + rounding

    @cached_property
    def _kappas(self) -> tuple[float, float]:
        """Of all pairs by themselves, and of all pairs near the reference; ε is no part of it."""
        return self.kappa, self._least_kappa(self.shares)

    @property
    def information(self) -> float:
        """What one report tells at most, on average over v."""
        alone, near = self._kappas
        return min(
            telling.pair_constant(self.epsilon) * alone,
            telling.reference_constant(self.epsilon) * near,
        )

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
        self, people: int, rng: np.random.Generator, second: bool | None = None
    ) -> tuple[int, bool, np.ndarray]:
        """A row v, whether its second family is the truth (by a coin unless told), and cells."""
        v = int(rng.choice(len(self.weights), p=self.weights / self.weights.sum()))
        which = bool(rng.integers(2)) if second is None else second
        chances = (self.second if which else self.first)[v].clip(0)

        return (
            v,
            which,
            rng.choice(len(chances), size=people, p=chances / chances.sum()),
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("task", self.task),
            ("families", f"{len(self.weights):,} pairs"),
            ("people", f"{self.people:,}"),
            ("for", str(self.bound_class)),
        ]


@dataclass(frozen=True, eq=False)
class _Pairs:
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

    def kept(self, which: IndexArray) -> _Pairs:
        """Some of them."""
        names = ("first", "second", "share", "rest", "sizes", "rows")
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def instances(
        self, epsilon: float, beta: float, task: str
    ) -> Iterator[HardInstance]:
        """With a rest of their own, and with a common one."""
        share = self.share[:, None]
        moved = share * (self.first - self.second)
        settings = (check_epsilon(epsilon), beta, task)

        for common in (False, True) if self.common else (False,):
            scale = np.sqrt(1 - share) if common else 1.0
            weights, reference = reweighted(moved / scale, self.sizes)
            if self.labelled:
                reference = (reference + np.roll(reference, len(reference) // 2)) / 2

            rest = reference if common else self.rest
            which = np.flatnonzero(weights > _FINEST * weights.max())
            first, second = (
                ((1 - share) * rest + share * family)[which]
                for family in (self.first, self.second)
            )
            weights = weights[which] / weights[which].sum()
            yield HardInstance(
                first, second, weights, reference, *settings, self.rows[which]
            )


def _hardest(
    pairs: Callable[[float], _Pairs | None],
    alpha: float,
    epsilon: float,
    beta: float,
    task: str,
) -> HardInstance:
    """Of the pairs from witnesses at several tolerances, those that prove the most people."""
    told = [pairs(multiple) for multiple in _TOLERANCES]
    instances = [
        instance
        for each in told
        if each
        for instance in each.instances(epsilon, beta, task)
    ]
    if not instances:
        raise NoisewrightError(
            f"no two distributions were found that differ by more than twice {alpha:g}; ask for a "
            f"smaller error"
        )

    return max(instances, key=lambda instance: instance.people)


def _used(witness: FloatArray) -> tuple[IndexArray, FloatArray]:
    """Rows of a witness that matter, and their sizes."""
    sizes = np.abs(witness).sum(axis=1)
    used = np.flatnonzero(sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300))
    return used, sizes[used]


def _wide_enough(gaps: FloatArray, alpha: float) -> tuple[IndexArray, FloatArray]:
    """Pairs that differ by more than 2α, and the share of the difference that is enough."""
    kept = np.flatnonzero(gaps > 2 * alpha * _ABOVE)
    return kept, np.minimum(2 * alpha * _ABOVE / np.maximum(gaps, 1e-300), 1.0)


def hard_instance(
    workload: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Distributions on which no non-interactive protocol answers all queries within `alpha`.

    Its `.people` is certified for every ε-LDP protocol, biased or not, whose answers are all within
    α of the population's with probability 1 − β.
    """
    asked = as_workload(workload)
    matrix = asked.dense()
    _check(alpha, epsilon, beta)

    def pairs(multiple: float) -> _Pairs | None:
        norm = approximate_norm(asked, multiple * alpha, shift=True, tolerance=1e-2)
        used, sizes = _used(norm.certificate.matrix)
        u = norm.certificate.matrix[used] / sizes[:, None] * 2
        gaps = (matrix[used] * u).sum(axis=1)
        u = np.sign(gaps)[:, None] * u
        kept, share = _wide_enough(np.abs(gaps), alpha)
        first = np.maximum(u, 0.0)
        second = np.maximum(-u, 0.0)

        return (
            _Pairs(first, second, share, first, sizes, used).kept(kept)
            if len(kept)
            else None
        )

    return _hardest(pairs, alpha, epsilon, beta, "all answers within α")


def hard_refutation(
    concepts: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Agnostic refutation: are labels random, or has some concept a loss of at most ½ − α?

    `concepts` is a matrix of ±1, a row per concept and a column per point.
    """
    c = _signs(concepts)
    _check(alpha, epsilon, beta)

    def pairs(multiple: float) -> _Pairs | None:
        tilted = _tilted(c, min(2 * multiple * alpha, 0.9), alpha)
        return tilted and replace(tilted, first=tilted.rest, second=tilted.first)

    return _hardest(pairs, alpha, epsilon, beta, "agnostic refutation")


def hard_learning(
    concepts: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Agnostic learning: a hypothesis within α of the least loss, from pairs of concepts.

    Rows of the instance are the numbers of the pairs in the order of `itertools.combinations`.
    """
    c = _signs(concepts)
    _check(alpha, epsilon, beta)
    one, other = np.triu_indices(len(c), 1)
    differences = (c[one] - c[other]) / 2
    distinct = np.flatnonzero(np.abs(differences).any(axis=1))
    require(len(distinct), "concepts", c.shape, "must hold two that differ")

    def pairs(multiple: float) -> _Pairs | None:
        tilted = _tilted(differences[distinct], min(2 * multiple * alpha, 0.9), alpha)
        return tilted and replace(tilted, rows=distinct[tilted.rows])

    return _hardest(pairs, alpha, epsilon, beta, "agnostic learning")


def _tilted(matrix: FloatArray, level: float, alpha: float) -> _Pairs | None:
    """Points by a witness, labelled by its signs or by the opposite; the rest at random."""
    witness = approximate_norm(matrix, level, tolerance=1e-2).certificate.matrix
    used, sizes = _used(witness)
    points = np.abs(witness[used]) / sizes[:, None]
    kept, share = _wide_enough(
        (matrix[used] * witness[used] / sizes[:, None]).sum(axis=1), alpha
    )
    if not len(kept):
        return None

    signs = np.sign(witness[used])
    plus = points * (signs > 0)
    minus = points * (signs < 0)
    right = np.hstack([plus, minus])
    wrong = np.hstack([minus, plus])
    whole = _Pairs(right, wrong, share, (right + wrong) / 2, sizes, used, labelled=True)

    return whole.kept(kept)


def hard_realizable(
    concepts: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Realizable refutation: are labels those of a concept, or has every hypothesis loss > α?

    Points × labels; the witness is that of η: entries of the concept's own label within a
    tolerance of zero, of the other label at least one, rows up to a shift. The first family is
    labelled by its concept, so that no rest is common to all.
    """
    c = _signs(concepts)
    _check(alpha, epsilon, beta)
    right = np.hstack([c > 0, c < 0])

    def pairs(multiple: float) -> _Pairs | None:
        level = min(2 * multiple * alpha, 0.9)
        lower = np.where(right, -level, 1.0)
        upper = np.where(right, level, np.inf)
        witness = boxed_norm(
            lower, upper, shift=True, tolerance=1e-2
        ).certificate.matrix
        used, sizes = _used(witness)
        u = 2 * witness[used] / sizes[:, None]
        own = right[used]
        plus = np.maximum(u, 0.0)
        minus = np.maximum(-u, 0.0)
        kept, share = _wide_enough(np.where(own, 0.0, plus).sum(axis=1), alpha)
        if not len(kept):
            return None

        mixed = share[:, None] * plus + (1 - share[:, None]) * minus
        points = mixed[:, : c.shape[1]] + mixed[:, c.shape[1] :]
        labelled = np.where(own, np.hstack([points, points]), 0.0)
        first = (minus + labelled) / 2
        second = (mixed + labelled) / 2
        whole = _Pairs(
            first, second, np.ones(len(used)), first, sizes, used, common=False
        )

        return whole.kept(kept)

    return _hardest(pairs, alpha, epsilon, beta, "realizable refutation")


def reweighted(moved: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights π̂ and a reference ν for which Mᵀ Diag(π̂) M ⪯ κ·Diag(ν) with a small κ.

    For given weights the least κ is the largest tr(BY) over correlation matrices Y, found as
    Y = XXᵀ with unit rows; the weights then move to rows that these directions see less.
    """
    weights = start / start.sum()
    rank = min(_RANK, moved.shape[1])
    x = np.random.default_rng(0).standard_normal((moved.shape[1], rank))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    best = math.inf
    pair = (weights, np.ones(moved.shape[1]))

    for count in range(_ROUNDS):
        for _ in range(_POWERS):
            pulled = moved.T @ (weights[:, None] * (moved @ x))
            lengths = np.maximum(np.linalg.norm(pulled, axis=1, keepdims=True), 1e-300)
            x = np.where(lengths > 1e-300, pulled / lengths, x)

        gram = moved.T @ (weights[:, None] * moved)
        d = np.linalg.norm(gram @ x, axis=1)
        d = d + max(0.0, -float(np.linalg.eigvalsh(np.diag(d) - gram)[0]))
        if float(d.sum()) < best:
            best = float(d.sum())
            pair = (weights, d)

        seen = np.einsum("vr,vr->v", moved @ x, moved @ x)
        dearer = (seen / max(float(weights @ seen), 1e-300) - 1).clip(-3, 3)
        weights = weights * np.exp(-dearer / (1 + count / 6))
        weights /= weights.sum()

    weights, d = pair
    return weights, (1 - _EVEN) * d / d.sum() + _EVEN / len(d)


def _signs(concepts: Queries) -> FloatArray:
    c = as_workload(concepts).dense()
    require(
        (np.abs(c) == 1).all(),
        "concepts",
        f"array of shape {c.shape}",
        "must hold only 1 and -1",
    )
    return c


def _check(alpha: float, epsilon: float, beta: float) -> None:
    check_epsilon(epsilon)
    require(0 < alpha < 0.5, "alpha", alpha, "must lie between 0 and 0.5", "try 0.05")
    require(0 < beta < 0.5, "beta", beta, "must lie between 0 and 0.5", "try 0.05")
