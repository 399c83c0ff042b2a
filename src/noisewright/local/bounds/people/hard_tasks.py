"""Tasks turned into pairs of distributions, whose people without whom nobody does them are proved.

The pairs come from the dual witness of the task's norm [001, with the corrections of its lemmas]:
rows of the witness, their positive and their negative part, of which a share suffices that makes
answers differ by more than a protocol with error α confuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IndexArray
from noisewright.errors import NoisewrightError, require
from noisewright.local.bounds.people.hard_instances import HardInstance, Pairs
from noisewright.local.bounds.people.tasks import check_errors
from noisewright.norm.approximate.approximate import approximate_norm, boxed_norm
from noisewright.workload.forms.text import Queries
from noisewright.workload.forms.text import workload as as_workload

_TOLERANCES = (1.0, 2.0, 4.0)
"""Multiples of the error at which witnesses are taken; the one that proves most is kept.
Which one does depends on the task."""

_LARGEST_TOLERANCE = 0.9
"""Beyond one, a matrix of signs is approximated by zero, and no witness is left."""

_ABOVE = 1 + 1e-9
"""Gaps are just above what a protocol would need to miss."""

_TINY = 1e-300
"""Keeps quotients finite where a witness or a gap is zero."""


def hard_instance(
    workload: Queries,
    alpha: float,
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
) -> HardInstance:
    """Distributions on which no non-interactive protocol answers all queries within `alpha`.

    Its `.people` is certified for every ε-LDP protocol, biased or not, whose answers are all within
    α of the population's with probability 1 − β.
    """
    asked = as_workload(workload)
    matrix = asked.dense()
    _check(alpha, epsilon, beta)

    def pairs(multiple: float) -> Pairs | None:
        norm = approximate_norm(asked, multiple * alpha, shift=True, tolerance=1e-2)
        witness = norm.certificate.matrix
        used, sizes = _used(witness)
        u = 2 * witness[used] / sizes[:, None]

        gaps = (matrix[used] * u).sum(axis=1)
        u = np.sign(gaps)[:, None] * u
        first = np.maximum(u, 0.0)
        second = np.maximum(-u, 0.0)

        kept, share = _wide_enough(np.abs(gaps), alpha)
        if not len(kept):
            return None
        return Pairs(first, second, share, first, sizes, used).kept(kept)

    return _hardest(pairs, alpha, epsilon, beta, "all answers within α")


def hard_refutation(
    concepts: Queries,
    alpha: float,
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
) -> HardInstance:
    """Agnostic refutation: are labels random, or has some concept a loss of at most ½ − α?

    `concepts` is a matrix of ±1, a row per concept and a column per point.
    """
    signs = _signs(concepts)
    _check(alpha, epsilon, beta)

    def pairs(multiple: float) -> Pairs | None:
        tilted = _tilted(signs, multiple, alpha)
        return tilted and replace(tilted, first=tilted.rest, second=tilted.first)

    return _hardest(pairs, alpha, epsilon, beta, "agnostic refutation")


def hard_learning(
    concepts: Queries,
    alpha: float,
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
) -> HardInstance:
    """Agnostic learning: a hypothesis within α of the least loss, from pairs of concepts.

    Rows of the instance are the numbers of the pairs in the order of `itertools.combinations`.
    """
    signs = _signs(concepts)
    _check(alpha, epsilon, beta)

    one, other = np.triu_indices(len(signs), 1)
    differences = (signs[one] - signs[other]) / 2
    distinct = np.flatnonzero(np.abs(differences).any(axis=1))
    require(len(distinct), "concepts", signs.shape, "must hold two that differ")

    def pairs(multiple: float) -> Pairs | None:
        tilted = _tilted(differences[distinct], multiple, alpha)
        return tilted and replace(tilted, rows=distinct[tilted.rows])

    return _hardest(pairs, alpha, epsilon, beta, "agnostic learning")


def hard_realizable(
    concepts: Queries,
    alpha: float,
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
) -> HardInstance:
    """Realizable refutation: are labels those of a concept, or has every hypothesis loss > α?

    Points × labels; the witness is that of η: entries of the concept's own label within a
    tolerance of zero, of the other label at least one, rows up to a shift. The first family is
    labelled by its concept, so that no rest is common to all.
    """
    signs = _signs(concepts)
    _check(alpha, epsilon, beta)
    concept_label = np.hstack([signs > 0, signs < 0])

    def pairs(multiple: float) -> Pairs | None:
        return _labelled(concept_label, multiple, alpha)

    return _hardest(pairs, alpha, epsilon, beta, "realizable refutation")


def _labelled(concept_label: BoolArray, multiple: float, alpha: float) -> Pairs | None:
    """Families of which one is labelled by its concept."""
    points = concept_label.shape[1] // 2
    tolerance = _tolerance(multiple, alpha)
    lower = np.where(concept_label, -tolerance, 1.0)
    upper = np.where(concept_label, tolerance, np.inf)
    norm = boxed_norm(lower, upper, shift=True, tolerance=1e-2)
    witness = norm.certificate.matrix

    used, sizes = _used(witness)
    u = 2 * witness[used] / sizes[:, None]
    plus = np.maximum(u, 0.0)
    minus = np.maximum(-u, 0.0)
    gaps = np.where(concept_label[used], 0.0, plus).sum(axis=1)
    kept, share = _wide_enough(gaps, alpha)
    if not len(kept):
        return None

    # Half of each family is the other's distribution of points, labelled by the concept.
    mixed = share[:, None] * plus + (1 - share[:, None]) * minus
    by_point = mixed[:, :points] + mixed[:, points:]
    labelled = np.tile(by_point, 2) * concept_label[used]
    first = (minus + labelled) / 2
    second = (mixed + labelled) / 2
    whole = np.ones(len(used))
    alone = Pairs(first, second, whole, first, sizes, used, common=False)
    return alone.kept(kept)


def _hardest(
    pairs: Callable[[float], Pairs | None],
    alpha: float,
    epsilon: float,
    beta: float,
    task: str,
) -> HardInstance:
    """Of the pairs from witnesses at several tolerances, those that prove the most people."""
    instances: list[HardInstance] = []
    for multiple in _TOLERANCES:
        found = pairs(multiple)
        if found is not None:
            instances += found.instances(epsilon, beta, task)

    if not instances:
        raise NoisewrightError(
            f"no two distributions were found that differ by more than twice {alpha:g}; ask for a "
            f"smaller error"
        )
    return max(instances, key=lambda instance: instance.people)


def _tilted(
    matrix: FloatArray,
    multiple: float,
    alpha: float,
) -> Pairs | None:
    """Points by a witness, labelled by its signs or by the opposite; the rest at random."""
    norm = approximate_norm(matrix, _tolerance(multiple, alpha), tolerance=1e-2)
    witness = norm.certificate.matrix
    used, sizes = _used(witness)
    signed = witness[used] / sizes[:, None]

    kept, share = _wide_enough((matrix[used] * signed).sum(axis=1), alpha)
    if not len(kept):
        return None

    plus = np.maximum(signed, 0.0)
    minus = np.maximum(-signed, 0.0)
    right = np.hstack([plus, minus])
    wrong = np.hstack([minus, plus])
    even = (right + wrong) / 2
    whole = Pairs(right, wrong, share, even, sizes, used, labelled=True)
    return whole.kept(kept)


def _tolerance(multiple: float, alpha: float) -> float:
    """Entrywise, for a matrix of signs: a loss moves by half of an entry."""
    return min(2 * multiple * alpha, _LARGEST_TOLERANCE)


def _used(witness: FloatArray) -> tuple[IndexArray, FloatArray]:
    """Rows of a witness that matter, and their sizes."""
    sizes = np.abs(witness).sum(axis=1)
    largest = max(float(sizes.max(initial=0.0)), _TINY)
    used = np.flatnonzero(sizes > 1e-9 * largest)
    return used, sizes[used]


def _wide_enough(gaps: FloatArray, alpha: float) -> tuple[IndexArray, FloatArray]:
    """Pairs that differ by more than 2α, and the share of the difference that is enough."""
    needed = 2 * alpha * _ABOVE
    share = np.minimum(needed / np.maximum(gaps, _TINY), 1.0)
    return np.flatnonzero(gaps > needed), share


def _signs(concepts: Queries) -> FloatArray:
    signs = as_workload(concepts).dense()
    require(
        (np.abs(signs) == 1).all(),
        "concepts",
        f"array of shape {signs.shape}",
        "must hold only 1 and -1",
    )
    return signs


def _check(
    alpha: float,
    epsilon: float,
    beta: float,
) -> None:
    check_errors(alpha, epsilon, beta, most=0.5)
    require(alpha < 0.5, "alpha", alpha, "must lie between 0 and 0.5", "try 0.05")
