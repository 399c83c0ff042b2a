"""A sharper bound for any noise under pure ε, from cells taken two by two.

With cell weights b and X = D_b^-½ (D_b^½ M D_b^½)^½ D_b^-½ the Gram matrix is M = X D_b X. Let z be
noise of any law on the cells, up to what the answers do not see. For a group B of cells the vector
y = X_BB⁻¹ (Xz)_B moves by a unit vector when a person joins a cell of B: it is private noise on B
alone. So E zᵀMz = Σ_B E yᵀQ_By ≥ Σ_B v(Q_B), where Q_B = X_BB D_B X_BB and v(Q) is the least E yᵀQy
of noise on a few numbers that hides a change of one in any of them. Cells one by one give the bound
by factorizations; two by two it is some percent higher, for any mechanism on its worst data too.

For two numbers v is bounded from below by linear programs:

- Noise that hides a change of one at ε hides a change of m at mε: v_ε ≥ m²·v_{mε}.
- Noise rounded at random, without bias, to a lattice of step 1/s is as private, and its E yᵀQy
  grows by tr Q/(4s²) at most. That lattice falls apart into s² shifted copies of the whole numbers,
  and noise on it into mixtures: v is at least the least over copies, less tr Q/(4s²).
- On one copy the dual of the program has multipliers x ≥ 0 on steps from a point to a neighbour,
  and proves the least over all points t of Q(t) + Σ out(t) − e^ε Σ in(t). Multipliers in a box
  leave points beyond it as they are, and those cost more anyway. Whatever the solver returns, the
  bound is that least value, computed here.
- v is superadditive: Q ⪰ Σ c_i Q_i implies v(Q) ≥ Σ c_i v(Q_i): a few programs serve many groups.
  It is as much for two numbers swapped, and Q ⪯ cQ_i implies v(Q) ≤ c·v(Q_i): so it is known about
  how much more programs could prove, and they are solved until that is little.
- With t = Q_12/Q_11 we have Q ⪰ Q_11·(1, t)(1, t)ᵀ, and y_1 + t·y_2 moves by one when a person
  joins the first cell: v(Q) ≥ Q_11·V, V the least second moment of noise on one number.

Added and removed people only: a replaced one moves two groups.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import ceil, exp, expm1

import numpy as np

from noisewright.arrays import FloatArray, IntArray

_WIDE = 0.75  # least ε of a program: smaller ones are reached in steps of several
_FINE = 4  # steps of the lattice to one
# groups for which programs are solved, .15 s each; the others follow from these
_MOST_PROGRAMS = 12
_UNPROVED = 5e-3  # share of the whole that more programs might add, at which they end
_MIXTURES = 33  # of two known forms: their shares are a 32nd apart
_LOST = 2.0**-40  # of sums and products of some hundred numbers of like size
# of a determinant, relative to the numbers that it is the difference of
_ROUNDING = 1e-15
_CONDITION = 1e-7  # largest share that rounding of the eigenvectors may take


def grouped_bound(
    gram: FloatArray,
    weights: FloatArray,
    epsilon: float,
) -> float | None:
    """At most E zᵀMz of any noise that is ε-private for added people; None where it would round.

    Any positive `weights` of the cells give a bound; those of the best factorization a good one.
    """
    m = max(1, ceil(_WIDE / epsilon))
    weights = np.maximum(weights, 1e-9 * weights.max())
    root = np.sqrt(weights / weights.sum())
    values, vectors = np.linalg.eigh(root[:, None] * gram * root)
    seen = values > 1e-12 * values[-1]
    lost = 64 * len(gram) * np.finfo(np.float64).eps * values[-1] / values[seen].min()
    if lost > _CONDITION:
        return None

    x = (
        (vectors[:, seen] * np.sqrt(values[seen]))
        @ vectors[:, seen].T
        / root[:, None]
        / root
    )
    total = _least_of_forms(_forms(x, root**2), m * epsilon) if len(gram) > 1 else 0.0
    if len(gram) % 2:
        total += _alone(m * epsilon) * float((x[-1, -1] * root[-1]) ** 2)

    return float(m * m * total * (1 - lost - _LOST))


def _forms(x: FloatArray, b: FloatArray) -> FloatArray:
    """Q_B of neighbouring cells."""
    first = np.arange(0, len(b) - 1, 2)
    pairs = np.stack([first, first + 1], axis=1)
    inner = x[pairs[:, :, None], pairs[:, None, :]]
    return inner @ (b[pairs][:, :, None] * inner)


def _alone(epsilon: float) -> float:
    """V, the least second moment of noise on one number."""
    return 2 * exp(-epsilon) / expm1(-epsilon) ** 2 * (1 - _LOST)


def _least_of_forms(forms: FloatArray, epsilon: float) -> float:
    """Σ_B v(Q_B), from programs for some forms and mixtures of their results for the others.

    The next program is for the form of which most is unknown. That does not hang on the order of
    forms that are equal but for rounding, as any choice by rank would.
    """
    sizes = np.trace(forms, axis1=1, axis2=2)
    asked = sizes > 1e-12 * sizes.max()  # of the others nothing is asked
    sizes, shapes = (
        sizes[asked],
        _oriented(forms[asked] / sizes[asked][:, None, None]),
    )

    single = _alone(epsilon)
    proved = single * shapes[:, 0, 0]
    at_most = np.full(len(shapes), single)  # noise on each number of its own
    known: list[tuple[FloatArray, float]] = []

    for _ in range(min(_MOST_PROGRAMS, len(shapes))):
        unknown = sizes * np.maximum(at_most - proved, 0.0)
        if float(unknown.sum()) <= _UNPROVED * float(sizes @ proved):
            break

        pick = int(unknown.argmax())
        shape = shapes[pick]
        value = max(least_pair(shape, epsilon), single * float(shape[0, 0]))
        known += [(shape, value), (shape[::-1, ::-1], value)]

        mixtures = _mixtures(known)
        proved = np.array([_mixed(each, mixtures, single) for each in shapes])
        at_most = np.minimum(at_most, value * _largest_ratios(shapes, shape))
        at_most[pick] = 0.0  # by programs

    return float(sizes @ proved)


def _oriented(shapes: FloatArray) -> FloatArray:
    """The heavier number of each form first."""
    swapped = shapes[:, 1, 1] > shapes[:, 0, 0]
    return np.where(swapped[:, None, None], shapes[:, ::-1, ::-1], shapes)


def _largest_ratios(forms: FloatArray, other: FloatArray) -> FloatArray:
    """The least c with Q ⪯ c times another form, for each form Q."""
    size = float(_determinant(other))
    if size <= 0:
        return np.full(len(forms), np.inf)

    turned = np.array([[other[1, 1], -other[0, 1]], [-other[1, 0], other[0, 0]]]) / size
    half = np.einsum("ij,kji->k", turned, forms) / 2
    return np.asarray(
        half + np.sqrt(np.maximum(half**2 - _determinant(forms) / size, 0.0))
    )


def _mixtures(
    known: list[tuple[FloatArray, float]],
) -> tuple[FloatArray, FloatArray]:
    """Forms between any two known ones, and what is proved of them."""
    share = np.linspace(0, 1, _MIXTURES)
    ends = [(one, other) for k, one in enumerate(known) for other in known[k:]]
    forms = [
        share[:, None, None] * p[0] + (1 - share)[:, None, None] * q[0] for p, q in ends
    ]

    return np.concatenate(forms), np.concatenate(
        [share * p[1] + (1 - share) * q[1] for p, q in ends]
    )


def _mixed(
    form: FloatArray,
    mixtures: tuple[FloatArray, FloatArray],
    single: float,
) -> float:
    """The most that mixtures of two known forms prove of another, and what is left over of it."""
    others, least = mixtures
    by_diagonal = single * float(np.diagonal(form).max())
    padded = form + 1e-12 * np.eye(2)
    if _determinant(padded) <= 0:  # of numbers that are told apart by rounding alone
        return by_diagonal

    scale = (1 - 1e-9) / _largest_ratios(others, padded)
    rest = form - scale[:, None, None] * others
    first = rest[:, 0, 0]
    second = rest[:, 1, 1]
    rounding = _ROUNDING * float(np.trace(form)) * (first + second)
    fits = (first > 0) & (second > 0) & (_determinant(rest) >= rounding)
    # What is left is not negative, so it holds a number that either person moves by one.
    spare = single * np.maximum(first, second)

    return max(by_diagonal, float(np.where(fits, scale * least + spare, 0.0).max()))


def _determinant(forms: FloatArray) -> FloatArray:
    """Of matrices of two rows."""
    return forms[..., 0, 0] * forms[..., 1, 1] - forms[..., 0, 1] * forms[..., 1, 0]


def least_pair(form: FloatArray, epsilon: float) -> float:
    """At most v(Q) of a form on two numbers, from programs at all offsets of the lattice."""
    key = tuple(float(entry) for entry in form[np.triu_indices(2)])
    return _least_pair(key, epsilon)


@lru_cache(maxsize=256)
def _least_pair(key: tuple[float, ...], epsilon: float) -> float:
    form = np.array([[key[0], key[1]], [key[1], key[2]]])
    steps = [(k - _FINE if 2 * k > _FINE else k) / _FINE for k in range(_FINE)]
    offsets = [
        a
        for a in product(steps, repeat=2)
        if a >= tuple(-x % 1 - (-x % 1 > 0.5) for x in a)
    ]
    least = min(proved_pair(form, epsilon, np.array(a)) for a in offsets)

    return max(0.0, least - float(np.trace(form)) / (4 * _FINE**2)) * (1 - _LOST)


def proved_pair(
    form: FloatArray,
    epsilon: float,
    offset: FloatArray,
) -> float:
    """At most the least E yᵀQy of noise on offset + ℤ² that hides a change of one in either."""
    reach = ceil(9 / epsilon) + 2
    points = np.arange(-reach, reach + 1)
    y, z = np.meshgrid(points + offset[0], points + offset[1], indexing="ij")
    cost = form[0, 0] * y**2 + 2 * form[0, 1] * y * z + form[1, 1] * z**2
    steps = _steps(len(points))
    multipliers = _multipliers(cost.ravel(), steps, epsilon)
    ratio = exp(epsilon) * (1 + 2.0**-50)
    # From here on only the multipliers are taken over, and they are not negative.
    out = np.bincount(steps[0], multipliers, cost.size)
    into = np.bincount(steps[1], multipliers, cost.size)
    inside = cost.ravel() + out - ratio * into
    lost = _LOST * float((cost.ravel() + out + ratio * into).max()) * 2.0**-8
    beyond = (reach + 0.5) ** 2 * float(np.linalg.det(form) / np.diagonal(form).max())

    return max(0.0, min(float(inside.min()) - lost, beyond))


def _steps(side: int) -> tuple[IntArray, IntArray]:
    """Both ends of every step between neighbours on a square of points."""
    number = np.arange(side * side).reshape(side, side)
    ends = [(number[:-1], number[1:]), (number[:, :-1], number[:, 1:])]
    ends += [(second, first) for first, second in ends]
    first, second = (np.concatenate([pair[k].ravel() for pair in ends]) for k in (0, 1))
    return first, second


def _multipliers(
    cost: FloatArray,
    steps: tuple[IntArray, IntArray],
    epsilon: float,
) -> FloatArray:
    """The solver's dual: a proposal, whatever it is."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    rows = np.arange(len(steps[0]))
    entries = np.concatenate([np.ones(len(rows)), np.full(len(rows), -exp(epsilon))])
    places = np.concatenate([rows, rows]), np.concatenate(steps)
    private = csr_matrix((entries, places), shape=(len(rows), cost.size))
    whole = np.ones((1, cost.size))
    solved = linprog(  # type: ignore[call-overload]  # sparse rows are taken too
        cost,
        private,
        np.zeros(len(rows)),
        whole,
        [1.0],
        method="highs-ds",
    )
    if solved.ineqlin is None or solved.ineqlin.marginals is None:
        return np.zeros(len(rows))

    return np.asarray(np.maximum(-solved.ineqlin.marginals, 0.0), dtype=np.float64)
