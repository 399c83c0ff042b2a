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
from noisewright.central.carry.carries import Carries, Tail

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


@dataclass(frozen=True)
class CoreMoments:
    """Second moments of what lies inside cores of so many grid steps, and beyond."""

    cores: FloatArray
    scale: float

    @cached_property
    def _total(self) -> FloatArray:
        return 2 * self.cores + 1 + 2 * Tail(self.scale).mass

    @cached_property
    def inside(self) -> FloatArray:
        """E r²."""
        c = self.cores
        inner = c * (c + 1) * (2 * c + 1) / 6 + c**2 * Tail(self.scale).mass
        return 2 * inner / self._total

    @cached_property
    def cross(self) -> FloatArray:
        """E[sr]."""
        return 2 * self.cores * Tail(self.scale).first / self._total

    @cached_property
    def beyond(self) -> FloatArray:
        """E s²."""
        return 2 * Tail(self.scale).second / self._total

    @property
    def slopes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Derivatives of E s², E[sr] and E r² by the core."""
        c = self.cores
        tail = Tail(self.scale)
        inner = c * c + c + 1 / 6 + 2 * c * tail.mass
        return (
            -2 * self.beyond / self._total,
            2 * (tail.first - self.cross) / self._total,
            2 * (inner - self.inside) / self._total,
        )


@dataclass(frozen=True, eq=False)
class _Candidates:
    """For every row the targets tried, and the parts of C between them."""

    targets: IntArray
    usable: FloatArray
    own: FloatArray
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
        place = np.empty(rows, dtype=np.int64)
        place[order] = np.arange(rows)
        own = weights.diagonal()
        gain = 2 * np.abs(weights) - own
        gain[place[None, :] <= place[:, None]] = -np.inf
        count = min(_TARGETS, max(rows - 1, 1))
        targets = np.argpartition(-gain, count - 1, axis=1)[:, :count]
        usable = (np.take_along_axis(gain, targets, axis=1) > -np.inf).astype(
            np.float64
        )
        mixed = np.take_along_axis(weights, targets, axis=1) * usable
        square = weights[targets[:, :, None], targets[:, None, :]]
        square = square * usable[:, :, None] * usable[:, None, :]

        return cls(
            targets,
            usable,
            (own),
            mixed,
            square,
            cancelled,
        )

    def of_rows(self, rows: IntArray) -> _Candidates:
        """Of these rows only."""
        return _Candidates(
            self.targets[rows],
            self.usable[rows],
            self.own[rows],
            self.mixed[rows],
            self.square[rows],
            self.cancelled,
        )

    def quadratics(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """e_kᵀCu_k and u_kᵀCu_k."""
        linear = np.einsum("kt,kt->k", self.mixed, shares)
        image = np.einsum("ktu,ku->kt", self.square, shares)
        both = self.own + 2 * linear + np.einsum("kt,kt->k", image, shares)
        return self.own + linear, np.maximum(both, 0.0)

    def cost(self, shares: FloatArray, moments: CoreMoments) -> FloatArray:
        """The error of every row; moments may have several cores a row, one column each."""
        once, twice = self.quadratics(shares)
        own = self.own
        if moments.cores.ndim == 2:
            own = own[:, None]
            once = once[:, None]
            twice = twice[:, None]
        return moments.beyond * own + 2 * moments.cross * once + moments.inside * twice

    def taken_back(self) -> FloatArray:
        """Every core by one later row, the one that this helps most: often the best there is."""
        best = (2 * np.abs(self.mixed) - np.einsum("ktt->kt", self.square)).argmax(
            axis=1
        )
        shares = np.zeros_like(self.mixed)
        each = np.arange(len(shares))
        signs = (
            np.ones(len(shares)) if self.cancelled else np.sign(self.mixed[each, best])
        )
        shares[each, best] = -signs * self.usable[each, best]

        return shares

    def shares(self, start: FloatArray, moments: CoreMoments) -> FloatArray:
        """The best shares for given cores, by projected gradients.

        Every row has its own momentum, and loses it where it has gone too far.
        """
        lean = 1 + moments.cross / np.maximum(moments.inside, 1e-12)
        linear = lean[:, None] * self.mixed
        size = np.maximum(np.abs(self.square).sum(axis=2).max(axis=1), 1e-300)[:, None]
        now = ahead = start
        pace = np.ones((len(start), 1))

        for _ in range(_STEPS):
            gradient = np.einsum("ktu,ku->kt", self.square, ahead) + linear
            after = self._allowed(ahead - gradient / size)
            moved = after - now
            beyond = np.einsum("kt,kt->k", ahead - after, moved) > 0
            pace = np.where(beyond[:, None], 1.0, pace)
            faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
            ahead = after + (pace - 1) / faster * moved
            now = after
            pace = faster
            if np.abs(moved).max(initial=0.0) < _STILL:
                break

        return now

    def _allowed(self, points: FloatArray) -> FloatArray:
        if not self.cancelled:
            return project(points) * self.usable
        barred = np.where(self.usable > 0, -points, -1e300)
        return -onto_simplex(barred) * self.usable

    def dealt(self, core: int, moments: CoreMoments) -> FloatArray:
        """Shares of a small core, every unit in turn to whom it helps most."""
        shares = np.zeros_like(self.mixed)
        lean = 1 + moments.cross / np.maximum(moments.inside, 1e-12)
        each = np.arange(len(shares))
        step = 1 / core

        for _ in range(core):
            slope = (
                np.einsum("ktu,ku->kt", self.square, shares)
                + lean[:, None] * self.mixed
            )
            gain = slope if self.cancelled else np.abs(slope)
            change = step**2 * np.einsum("ktt->kt", self.square) - 2 * step * gain
            change = np.where(self.usable > 0, change, np.inf)
            best = change.argmin(axis=1)
            signs = (
                np.ones(len(shares)) if self.cancelled else np.sign(slope[each, best])
            )
            helps = (
                self.usable[each, best] > 0
                if self.cancelled
                else change[each, best] < 0
            )
            shares[each, best] -= helps * step * signs

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
    rows = len(weights)
    shares = candidates.taken_back()
    cores = np.full(rows, 2.0 * scale)

    for _ in range(_ROUNDS):
        shares = candidates.shares(shares, CoreMoments(cores, scale))
        cores = _line_search(candidates, shares, scale)

    cores, shares = _whole(candidates, cores, shares, scale)
    if cancelled:
        cores[order[-1]], shares[order[-1]] = 0.0, 0.0

    carries = Carries.rounded(order, cores, candidates.targets, shares)
    return float(candidates.cost(shares, CoreMoments(cores, scale)).sum()), _lean(
        carries
    )


def _line_search(
    candidates: _Candidates,
    shares: FloatArray,
    scale: float,
) -> FloatArray:
    """The best core of every row among many, then among those close to it."""
    trials = np.broadcast_to(_CORES * scale, (len(shares), len(_CORES)))
    for _ in range(2):
        costs = candidates.cost(shares, CoreMoments(trials, scale))
        best = np.take_along_axis(trials, costs.argmin(axis=1)[:, None], axis=1)
        trials = best * _CLOSER

    costs = candidates.cost(shares, CoreMoments(trials, scale))
    return np.take_along_axis(trials, costs.argmin(axis=1)[:, None], axis=1)[:, 0]


def _whole(
    candidates: _Candidates,
    cores: FloatArray,
    shares: FloatArray,
    scale: float,
) -> tuple[FloatArray, FloatArray]:
    """Cores of whole grid steps: the real ones rounded, or small ones dealt out unit by unit."""
    shares = np.where(np.abs(shares) > _NEGLIGIBLE, shares, 0.0)
    if candidates.cancelled:
        shares = shares / np.maximum(
            np.abs(shares).sum(axis=1, keepdims=True), _NEGLIGIBLE
        )

    cores = np.rint(cores)
    small = np.flatnonzero(cores <= _WIDE)
    if len(small):
        cores[small], shares[small] = _dealt(
            candidates.of_rows(small), cores[small], shares[small], scale
        )

    return cores, shares


def _dealt(
    candidates: _Candidates,
    cores: FloatArray,
    shares: FloatArray,
    scale: float,
) -> tuple[FloatArray, FloatArray]:
    """The best of these whole cores, of none, and of all cores of few steps."""
    options = [(cores, shares), (0 * cores, np.zeros_like(shares))]
    for core in range(1, _FEW + 1):
        same = np.full(len(cores), float(core))
        options.append((same, candidates.dealt(core, CoreMoments(same, scale))))

    costs = [candidates.cost(s, CoreMoments(c, scale)) for c, s in options]
    # Shares of a core of few steps are rounded: it counts only as dealt out unit by unit.
    costs[0] = np.where(cores > _FEW, costs[0], np.inf)
    best = np.argmin(costs, axis=0)
    each = np.arange(len(cores))
    widths, parts = zip(*options, strict=True)

    return np.array(widths)[best, each], np.array(parts)[best, each]


def _lean(carries: Carries) -> Carries:
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


def project(points: FloatArray) -> FloatArray:
    """The nearest points, row by row, of L1 norm one at most."""
    sizes = np.abs(points)
    outside = sizes.sum(axis=1, keepdims=True) > 1
    if not outside.any():
        return points
    return np.where(outside, np.sign(points) * onto_simplex(sizes), points)


def onto_simplex(points: FloatArray) -> FloatArray:
    """The nearest points, row by row, with non-negative entries that add up to one."""
    ranked = -np.sort(-points, axis=1)
    excess = np.cumsum(ranked, axis=1) - 1
    counts = np.arange(1, ranked.shape[1] + 1)
    last = np.maximum((ranked * counts > excess).sum(axis=1), 1)
    cut = excess[np.arange(len(last)), last - 1] / last
    return np.asarray(np.maximum(points - cut[:, None], 0.0))


def likely_orders(weights: FloatArray) -> list[IntArray]:
    """Orders of the rows worth trying: as they stand, reversed, and what matters most last."""
    each = np.arange(len(weights))
    by_weight = np.argsort(weights.diagonal(), kind="stable")
    orders = [each, each[::-1].copy(), by_weight]
    return list({order.tobytes(): order for order in orders}.values())
