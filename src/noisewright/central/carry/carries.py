"""Noise whose flat cores are cancelled by later draws, in whole numbers.

Row k draws d_k from a law that is flat on its core |d| <= c_k and falls like Laplace noise beyond.
What lies inside, r_k = clip(d_k, ±c_k), is dealt out, unit by unit, to rows that come later, each
unit to one of them with one sign: row l gets η_l = d_l + Σ_k g_lk(r_k). A unit of r_k moves g_k by
one unit at most, so |Δr_k| + |Δs_k| = |Δd_k| with s = d − r gives Σ|Δs_k| <= ‖Δη‖₁: the log density
−Σ|s_k|/scale changes by no more than Laplace noise of the same scale would.

Units come in packets, so that a core of millions of grid steps is dealt in a few hundred moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter
from noisewright.privacy.noise.flat_core import LARGEST_CORE, check_cores, flat_core
from noisewright.privacy.noise.source import ByteSource

MOST_PACKETS = 256
"""Packets of a core: shares of it are whole numbers of these."""


@dataclass(frozen=True, eq=False)
class Carries:
    """What every row's core is dealt out to.

    Row k has `packets[k]` packets of `sizes[k]` units. `targets[k]` are rows, and `parts[k]` how
    many packets each of them gets, with the sign that they get it with. `order` lists the rows so
    that every core is dealt to later rows only.
    """

    order: IntArray
    packets: IntArray
    sizes: IntArray
    targets: IntArray
    parts: IntArray

    def __post_init__(self) -> None:
        """Refuse, from an edited file too, all that the proof of privacy does not cover."""
        rows = len(self.order)
        arrays = (self.order, self.packets, self.sizes, self.targets, self.parts)
        shapes = [(rows,)] * 3 + [(rows, self.targets.shape[-1])] * 2
        if (
            any(a.dtype != np.int64 for a in arrays)
            or [a.shape for a in arrays] != shapes
        ):
            raise _refused("must be whole numbers, one row of them per measurement")
        if not np.array_equal(np.sort(self.order), np.arange(rows)):
            raise _refused("must have an order that names every row once")
        if (
            self.packets.min(initial=0) < 0
            or self.packets.max(initial=0) > MOST_PACKETS
        ):
            raise _refused(f"must come in 0 to {MOST_PACKETS} packets")
        if self.sizes.min(initial=1) < 1 or self.sizes.max(initial=1) > LARGEST_CORE:
            raise _refused("must have packets of 1 to 2^46 units")

        check_cores(self.cores)
        if (
            self.parts.min(initial=0) < -MOST_PACKETS
            or self.parts.max(initial=0) > MOST_PACKETS
        ):
            raise _refused("must not be larger than their core")
        if (np.abs(self.parts).sum(axis=1) > self.packets).any():
            raise _refused(
                "must not carry more than their core: then the noise is not private"
            )

        self._check_targets(rows)

    def _check_targets(self, rows: int) -> None:
        if self.targets.min(initial=0) < 0 or self.targets.max(initial=0) >= max(
            rows, 1
        ):
            raise _refused("must go to rows that are measured")

        place = np.empty(rows, dtype=np.int64)
        place[self.order] = np.arange(rows)
        if ((place[self.targets] <= place[:, None]) & (self.parts != 0)).any():
            raise _refused("must go to later rows: nothing else can be undone")

    @classmethod
    def none(cls, rows: int) -> Carries:
        """No cores at all: discrete Laplace noise."""
        zeros = np.zeros(rows, dtype=np.int64)
        empty = np.zeros((rows, 0), dtype=np.int64)
        return cls(
            np.arange(rows),
            zeros,
            zeros + 1,
            empty,
            empty,
        )

    @classmethod
    def rounded(
        cls,
        order: IntArray,
        cores: FloatArray,
        targets: IntArray,
        shares: FloatArray,
    ) -> Carries:
        """Real cores, in grid steps, and the shares of them that targets get, in whole numbers."""
        whole = np.rint(np.clip(cores, 0, LARGEST_CORE)).astype(np.int64)
        sizes = np.maximum(1, -(-whole // MOST_PACKETS))
        packets = np.rint(whole / sizes).astype(np.int64)
        parts = _dealt(np.abs(shares), packets) * np.sign(shares).astype(np.int64)
        return cls(
            order,
            packets,
            sizes,
            np.where(parts != 0, targets, 0),
            parts,
        )

    def scaled(self, ratio: float) -> Carries:
        """The same for noise so many times as large."""
        return (
            self if ratio == 1 else self.widened(self.cores.astype(np.float64) * ratio)
        )

    def widened(self, cores: FloatArray) -> Carries:
        """The same shares of other cores."""
        shares = self.parts / np.maximum(self.packets, 1)[:, None]
        return Carries.rounded(self.order, cores, self.targets, shares)

    @property
    def rows(self) -> int:
        """Number of draws."""
        return len(self.order)

    @cached_property
    def cores(self) -> IntArray:
        """Half the width of every flat core, in grid steps."""
        return self.packets * self.sizes

    @cached_property
    def cancelled(self) -> bool:
        """Whether every core is taken back in full, so that all noise together is Σ s_k."""
        return bool((self.parts.sum(axis=1) == -self.packets).all())

    @cached_property
    def dealt(self) -> IntArray:
        """Packets that every target has, with their signs, after 0, 1, 2, ... of a row were dealt.

        Of all packets those that go anywhere are told first, then, of these, those that go to all
        targets but the last, and so on: every packet goes to one target or to none.
        """
        most = int(self.packets.max(initial=0))
        until = np.cumsum(np.abs(self.parts), axis=1)
        given = np.zeros((self.rows, until.shape[1] + 1, most + 1), dtype=np.int64)
        held = np.minimum(np.arange(most + 1), self.packets[:, None])
        whole = self.packets[:, None]

        for number in range(until.shape[1] - 1, -1, -1):
            part = until[:, number, None]
            held = (2 * part * held + whole) // np.maximum(2 * whole, 1)
            whole, given[:, number + 1] = part, held

        return np.diff(given, axis=1) * np.sign(self.parts)[:, :, None]

    def carried(self, draws: IntArray) -> IntArray:
        """η from d: one column per draw of all rows."""
        noise = draws.copy()
        for row in np.flatnonzero((self.parts != 0).any(axis=1)):
            size = int(self.sizes[row])
            dealt = self.dealt[row]
            units = np.minimum(np.abs(draws[row]), self.cores[row])
            whole = units // size
            rest = units % size
            before = dealt[:, whole]
            after = dealt[:, np.minimum(whole + 1, dealt.shape[1] - 1)]
            moved = np.sign(draws[row]) * (size * before + rest * (after - before))
            for target in np.flatnonzero(self.parts[row]):
                noise[self.targets[row, target]] += moved[target]

        return noise

    def draw(
        self,
        scale: float,
        count: int,
        source: ByteSource | None = None,
    ) -> IntArray:
        """So many columns of noise, exactly; only tests and simulations pass a source."""
        cores = np.repeat(self.cores[:, None], count, axis=1)
        return self.carried(flat_core(scale, cores, source))

    def simulated(
        self,
        scale: float,
        count: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Columns of noise of the same law, for forecasts: not for releases."""
        return self.carried(self.simulated_draws(scale, count, rng)).astype(np.float64)

    def simulated_draws(
        self,
        scale: float,
        count: int,
        rng: np.random.Generator,
    ) -> IntArray:
        """What every row draws, before anything is carried."""
        width = 2 * self.cores[:, None] + 1
        tail = Tail(scale).mass
        place = rng.random((self.rows, count)) * (width + 2 * tail)
        beyond = (
            width // 2 + 1 + np.floor(scale * rng.standard_exponential(place.shape))
        )
        np.negative(beyond, out=beyond, where=place >= width + tail)
        core = np.floor(place) - width // 2

        return np.where(place < width, core, beyond).astype(np.int64)

    # --- second moments ---------------------------------------------------------------------------

    @cached_property
    def _places(self) -> IntArray:
        """For every row itself and its targets."""
        return np.concatenate([np.arange(self.rows)[:, None], self.targets], axis=1)

    @cached_property
    def paths(self) -> FloatArray:
        """For rows and places the units there after so many packets: the row's own, then dealt."""
        most = int(self.packets.max(initial=0))
        count = np.minimum(np.arange(most + 1), self.packets[:, None])
        own = np.concatenate([count[:, None], self.dealt], axis=1)
        return (own * self.sizes[:, None, None]).astype(np.float64)

    @cached_property
    def core_squares(self) -> FloatArray:
        """Σ over v = 1, ..., c of w(v) w(v)ᵀ, w what is drawn and dealt, for every row."""
        p = self.sizes.astype(np.float64)
        start = self.paths[:, :, :-1]
        step = np.diff(self.paths, axis=2) / p[:, None, None]
        first = p * (p + 1) / 2
        second = p * (p + 1) * (2 * p + 1) / 6
        moved = np.abs(step).sum(axis=1, keepdims=True) > 0
        x = start * moved
        y = step
        mixed = np.einsum("ktj,kuj->ktu", x, y)

        return np.asarray(
            p[:, None, None] * np.einsum("ktj,kuj->ktu", x, x)
            + first[:, None, None] * (mixed + mixed.transpose(0, 2, 1))
            + second[:, None, None] * np.einsum("ktj,kuj->ktu", y, y)
        )

    @cached_property
    def ends(self) -> FloatArray:
        """w(c): what a full core adds to its row and targets."""
        return self.paths[:, :, -1]

    def placed(self, blocks: FloatArray) -> sparse.csr_array:
        """One small matrix per row, over itself and its targets, added up over all rows."""
        places = self._places
        first = np.broadcast_to(places[:, :, None], blocks.shape)
        second = np.broadcast_to(places[:, None, :], blocks.shape)
        shape = (self.rows, self.rows)

        return sparse.coo_array(
            (blocks.ravel(), (first.ravel(), second.ravel())), shape
        ).tocsr()

    @cached_property
    def full_cores(self) -> sparse.csr_array:
        """Column k: what a full core of row k adds to all rows."""
        places = self._places
        columns = np.broadcast_to(np.arange(self.rows)[:, None], places.shape)
        shape = (self.rows, self.rows)
        triple = (self.ends.ravel(), (places.ravel(), columns.ravel()))
        return sparse.coo_array(triple, shape).tocsr()

    @cached_property
    def slack(self) -> sparse.csr_array:
        """Column k: how far, at most, packets are from shares, in units at every target of row k.

        Between two packets both are straight lines, so the farthest is at the end of one.
        """
        shares = self.ends / np.maximum(self.cores, 1)[:, None]
        straight = shares[:, :, None] * self.paths[:, :1]
        farthest = np.abs(self.paths - straight).max(axis=2)
        places = self._places
        columns = np.broadcast_to(np.arange(self.rows)[:, None], places.shape)
        triple = (farthest.ravel(), (places.ravel(), columns.ravel()))

        return sparse.coo_array(triple, (self.rows, self.rows)).tocsr()

    def covariance(self, scale: float) -> sparse.csr_array:
        """E ηηᵀ, exactly that of the integers drawn, where rows are independent."""
        tail = Tail(scale)
        total = 2 * self.cores + 1 + 2 * tail.mass
        ends = self.ends
        own = np.zeros_like(self.ends)
        own[:, 0] = 1.0
        cross = np.einsum("kt,ku->ktu", own, ends)
        beyond = (
            tail.mass * np.einsum("kt,ku->ktu", ends, ends)
            + tail.first * (cross + cross.transpose(0, 2, 1))
            + tail.second * np.einsum("kt,ku->ktu", own, own)
        )

        return self.placed(2 / total[:, None, None] * (self.core_squares + beyond))


@dataclass(frozen=True)
class Tail:
    """Sums over m >= 1 of q^m, m q^m and m² q^m, q = e^(-1/scale)."""

    scale: float

    @cached_property
    def q(self) -> float:
        """The ratio of one step."""
        return float(np.exp(-1 / self.scale))

    @cached_property
    def _left(self) -> float:
        return float(-np.expm1(-1 / self.scale))

    def log_beyond(self, x: FloatArray) -> FloatArray:
        """ln Σ q^m e^(xm), for |x| below 1/scale."""
        left = 1 / self.scale - x
        return -left - np.log(-np.expm1(-left))

    @property
    def mass(self) -> float:
        """Σ q^m."""
        return self.q / self._left

    @property
    def first(self) -> float:
        """Σ m q^m."""
        return self.q / self._left**2

    @property
    def second(self) -> float:
        """Σ m² q^m."""
        return self.q * (1 + self.q) / self._left**3


def _dealt(shares: FloatArray, packets: IntArray) -> IntArray:
    """Whole parts close to the shares of the packets, and never more of them than there are."""
    limit = np.minimum(np.ceil(shares.sum(axis=1) * packets - 1e-6), packets)
    exact = shares * packets[:, None]
    until = np.minimum(np.rint(np.cumsum(exact, axis=1)), limit[:, None])
    parts: IntArray = np.diff(until, axis=1, prepend=0.0).astype(np.int64)
    return parts


def _refused(rule: str) -> InvalidParameter:
    return InvalidParameter("carries", "?", rule, "plan again")
