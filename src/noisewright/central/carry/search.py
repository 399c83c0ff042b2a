"""Which cores, and who cancels them: the best carries for rows whose errors a matrix weighs.

With C the weights of errors in the rows, η = Σ_k (s_k e_k + r_k u_k) and u_k = e_k + N_k, the error
is Σ_k [E s²·C_kk + 2 E[sr]·e_kᵀCu_k + E r²·u_kᵀCu_k]: rows separate. Each is a small quadratic
problem for the shares N_k, in the L1 ball over later rows, and a line search for its core. A target
is worth trying where taking back the whole core there would help most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.law import CoreMoments
from noisewright.estimate.nearest import project_to_total

_TARGETS = 16  # later rows that may share a core: more never helped on tables up to 4^4
_ROUNDS = 3  # of shares given cores, and cores given shares
_STEPS = 20  # of accelerated projected gradients
_CORES = np.geomspace(0.05, 80.0, 48)  # tried, in scales of the noise
_CLOSER = np.geomspace(0.85, 1.18, 16)  # around the best of these
_FEW = 8  # grid steps of a core that is dealt out unit by unit
# grid steps of a core that is only rounded: fewer are compared with small ones
_WIDE = 32
_STILL = 1e-5  # of a core: where shares move by less, they are found
_NEGLIGIBLE = 1e-3  # of a core: shares below are not worth a target


@dataclass(frozen=True, eq=False)
class _Candidates:
    """For every row k the targets tried: C_kk, and C between k and them, and among them."""

    targets: IntArray
    usable: FloatArray
    diagonal: FloatArray
    mixed: FloatArray
    square: FloatArray
    cancelled: bool

    @classmethod
    def of(
        cls,
        weights: FloatArray,
        order: IntArray,
        cancelled: bool,
    ) -> _Candidates:
        rows = len(weights)
        position = np.empty(rows, dtype=np.int64)
        position[order] = np.arange(rows)

        # What taking back a whole core there would gain: 2|C_kl| − C_ll, later rows alone.
        diagonal = weights.diagonal()
        gain = 2 * np.abs(weights) - diagonal
        gain[position[None, :] <= position[:, None]] = -np.inf
        count = min(_TARGETS, max(rows - 1, 1))
        targets = np.argpartition(-gain, count - 1, axis=1)[:, :count]

        later = np.take_along_axis(gain, targets, axis=1) > -np.inf
        usable = later.astype(np.float64)
        mixed = np.take_along_axis(weights, targets, axis=1) * usable
        square = weights[targets[:, :, None], targets[:, None, :]]
        square = square * usable[:, :, None] * usable[:, None, :]

        return cls(
            targets,
            usable,
            diagonal,
            mixed,
            square,
            cancelled,
        )

    def of_rows(self, rows: IntArray) -> _Candidates:
        """Of these rows only."""
        return _Candidates(
            self.targets[rows],
            self.usable[rows],
            self.diagonal[rows],
            self.mixed[rows],
            self.square[rows],
            self.cancelled,
        )

    @cached_property
    def _curvatures(self) -> FloatArray:
        """C_ll of every target."""
        return np.asarray(np.einsum("ktt->kt", self.square))

    def cost(
        self,
        shares: FloatArray,
        moments: CoreMoments,
    ) -> FloatArray:
        """The error of every row; moments may have several cores a row, one column each."""
        image = np.einsum("ktu,ku->kt", self.square, shares)
        linear = np.einsum("kt,kt->k", self.mixed, shares)
        quadratic = np.einsum("kt,kt->k", image, shares)

        # e_kᵀCu_k and u_kᵀCu_k.
        once = self.diagonal + linear
        twice = np.maximum(self.diagonal + 2 * linear + quadratic, 0.0)
        columns = (-1,) + (1,) * (moments.cores.ndim - 1)

        return np.asarray(
            moments.beyond * self.diagonal.reshape(columns)
            + 2 * moments.cross * once.reshape(columns)
            + moments.inside * twice.reshape(columns)
        )

    def _signs(self, slopes: FloatArray) -> FloatArray:
        """The signs that lower the error: one for all where cores are taken back in full."""
        return np.ones(len(slopes)) if self.cancelled else np.sign(slopes)

    def taken_back(self) -> FloatArray:
        """Every core by one later row, the one that this helps most: often the best there is."""
        each = np.arange(len(self.mixed))
        best = (2 * np.abs(self.mixed) - self._curvatures).argmax(axis=1)
        shares = np.zeros_like(self.mixed)
        signs = self._signs(self.mixed[each, best])
        shares[each, best] = -signs * self.usable[each, best]
        return shares

    def shares(
        self,
        start: FloatArray,
        moments: CoreMoments,
    ) -> FloatArray:
        """The best shares for given cores, by accelerated projected gradients.

        Every row has its own momentum, and loses it where it has gone too far.
        """
        linear = moments.pull[:, None] * self.mixed
        lipschitz = np.abs(self.square).sum(axis=2).max(axis=1)
        lipschitz = np.maximum(lipschitz, 1e-300)[:, None]
        shares = extrapolated = start
        momentum = np.ones((len(start), 1))

        for _ in range(_STEPS):
            gradient = np.einsum("ktu,ku->kt", self.square, extrapolated) + linear
            after = self._feasible(extrapolated - gradient / lipschitz)
            moved = after - shares

            uphill = np.einsum("kt,kt->k", extrapolated - after, moved) > 0
            momentum = np.where(uphill[:, None], 1.0, momentum)
            following = (1 + np.sqrt(1 + 4 * momentum * momentum)) / 2
            extrapolated = after + (momentum - 1) / following * moved
            shares = after
            momentum = following
            if np.abs(moved).max(initial=0.0) < _STILL:
                break

        return shares

    def _feasible(self, points: FloatArray) -> FloatArray:
        """The nearest shares: in the L1 ball or, where cores are cancelled, adding up to −1."""
        if not self.cancelled:
            return _onto_l1_ball(points) * self.usable
        barred = np.where(self.usable > 0, -points, -1e300)
        return -project_to_total(barred, 1.0) * self.usable

    def dealt(
        self,
        core: int,
        moments: CoreMoments,
    ) -> FloatArray:
        """Shares of a small core, every unit in turn to whom it helps most."""
        each = np.arange(len(self.mixed))
        linear = moments.pull[:, None] * self.mixed
        shares = np.zeros_like(self.mixed)
        unit = 1 / core

        for _ in range(core):
            slope = np.einsum("ktu,ku->kt", self.square, shares) + linear
            gain = slope if self.cancelled else np.abs(slope)
            change = unit**2 * self._curvatures - 2 * unit * gain
            change = np.where(self.usable > 0, change, np.inf)

            best = change.argmin(axis=1)
            limit = np.inf if self.cancelled else 0.0
            helps = change[each, best] < limit
            shares[each, best] -= helps * unit * self._signs(slope[each, best])

        return shares


def best_carries(
    weights: FloatArray,
    order: IntArray,
    scale: float,
    cancelled: bool = False,
) -> tuple[float, Carries]:
    """The least error Σ_kl C_kl E[η_k η_l] found, and its carries, for noise of this scale.

    With `cancelled`, every core is taken back in full, and the last row has none.
    """
    candidates = _Candidates.of(weights, order, cancelled)
    shares = candidates.taken_back()
    cores = np.full(len(weights), 2.0 * scale)

    for _ in range(_ROUNDS):
        shares = candidates.shares(shares, CoreMoments(cores, scale))
        cores = _line_search(candidates, shares, scale)

    cores, shares = _whole(candidates, cores, shares, scale)
    if cancelled:
        cores[order[-1]] = 0.0
        shares[order[-1]] = 0.0

    error = float(candidates.cost(shares, CoreMoments(cores, scale)).sum())
    carries = Carries.rounded(order, cores, candidates.targets, shares)
    return error, _without_unused(carries)


def _line_search(
    candidates: _Candidates,
    shares: FloatArray,
    scale: float,
) -> FloatArray:
    """The best core of every row among many, then among those close to it, and once more."""
    trials = np.broadcast_to(_CORES * scale, (len(shares), len(_CORES)))
    for closer in (_CLOSER, _CLOSER, np.ones(1)):
        costs = candidates.cost(shares, CoreMoments(trials, scale))
        best = np.take_along_axis(trials, costs.argmin(axis=1)[:, None], axis=1)
        trials = best * closer

    return np.asarray(trials[:, 0])


def _whole(
    candidates: _Candidates,
    cores: FloatArray,
    shares: FloatArray,
    scale: float,
) -> tuple[FloatArray, FloatArray]:
    """Cores of whole grid steps: the real ones rounded, or small ones dealt out unit by unit."""
    shares = np.where(np.abs(shares) > _NEGLIGIBLE, shares, 0.0)
    if candidates.cancelled:
        lengths = np.abs(shares).sum(axis=1, keepdims=True)
        shares = shares / np.maximum(lengths, _NEGLIGIBLE)

    cores = np.rint(cores)
    small = np.flatnonzero(cores <= _WIDE)
    if len(small):
        cores[small], shares[small] = _few_steps(
            candidates.of_rows(small),
            cores[small],
            shares[small],
            scale,
        )

    return cores, shares


def _few_steps(
    candidates: _Candidates,
    cores: FloatArray,
    shares: FloatArray,
    scale: float,
) -> tuple[FloatArray, FloatArray]:
    """The best of these whole cores, of none, and of all cores of few steps."""
    options = [
        (cores, shares),
        (0 * cores, np.zeros_like(shares)),
    ]
    for core in range(1, _FEW + 1):
        same = np.full(len(cores), float(core))
        options.append(
            (
                same,
                candidates.dealt(core, CoreMoments(same, scale)),
            )
        )

    costs = [candidates.cost(s, CoreMoments(c, scale)) for c, s in options]
    # Shares of a core of few steps are rounded: it counts only as dealt out unit by unit.
    costs[0] = np.where(cores > _FEW, costs[0], np.inf)
    best = np.argmin(costs, axis=0)
    each = np.arange(len(cores))
    widths, parts = zip(*options, strict=True)

    return np.array(widths)[best, each], np.array(parts)[best, each]


def _without_unused(carries: Carries) -> Carries:
    """Without columns of targets that no row uses."""
    rank = np.argsort(carries.parts == 0, axis=1, kind="stable")
    used = int((carries.parts != 0).sum(axis=1).max(initial=0))
    parts = np.take_along_axis(carries.parts, rank, axis=1)[:, :used]
    targets = np.take_along_axis(carries.targets, rank, axis=1)[:, :used]

    return Carries(
        carries.order,
        carries.packets,
        carries.sizes,
        targets,
        parts,
    )


def _onto_l1_ball(points: FloatArray) -> FloatArray:
    """The nearest points, row by row, of L1 norm one at most."""
    lengths = np.abs(points)
    outside = lengths.sum(axis=1, keepdims=True) > 1
    if not outside.any():
        return points

    return np.where(
        outside,
        np.sign(points) * project_to_total(lengths, 1.0),
        points,
    )


def likely_orders(weights: FloatArray) -> list[IntArray]:
    """Orders of the rows worth trying: as they stand, reversed, and what matters most last."""
    each = np.arange(len(weights))
    by_weight = np.argsort(weights.diagonal(), kind="stable")
    orders = [each, each[::-1].copy(), by_weight]
    return list({order.tobytes(): order for order in orders}.values())
