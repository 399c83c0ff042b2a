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

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.central.carry.law import Tail
from noisewright.errors import InvalidParameter
from noisewright.privacy.noise.flat_core import (
    LARGEST_CORE,
    check_cores,
    flat_core,
)
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
        arrays = (
            self.order,
            self.packets,
            self.sizes,
            self.targets,
            self.parts,
        )
        shapes = [(rows,)] * 3 + [(rows, *self.targets.shape[1:])] * 2
        check_carries(
            self.targets.ndim == 2
            and all(array.dtype == np.int64 for array in arrays)
            and [array.shape for array in arrays] == shapes,
            "must be whole numbers, one row of them per measurement",
        )
        check_carries(
            np.array_equal(np.sort(self.order), np.arange(rows)),
            "must have an order that names every row once",
        )
        check_carries(
            _within(self.packets, 0, MOST_PACKETS),
            f"must come in 0 to {MOST_PACKETS} packets",
        )
        check_carries(
            _within(self.sizes, 1, LARGEST_CORE),
            "must have packets of 1 to 2^46 units",
        )
        check_cores(self.cores)
        self._check_parts(rows)

    def _check_parts(self, rows: int) -> None:
        check_carries(
            _within(self.parts, -MOST_PACKETS, MOST_PACKETS),
            "must not be larger than their core",
        )
        check_carries(
            (np.abs(self.parts).sum(axis=1) <= self.packets).all(),
            "must not carry more than their core: then the noise is not private",
        )
        check_carries(
            _within(self.targets, 0, max(rows, 1) - 1),
            "must go to rows that are measured",
        )

        position = np.empty(rows, dtype=np.int64)
        position[self.order] = np.arange(rows)
        later = position[self.targets] > position[:, None]
        check_carries(
            (later | (self.parts == 0)).all(),
            "must go to later rows: nothing else can be undone",
        )

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
        cores: Array,
        targets: IntArray,
        shares: FloatArray,
    ) -> Carries:
        """Real cores, in grid steps, and the shares of them that targets get, in whole numbers."""
        whole = np.rint(np.clip(cores, 0, LARGEST_CORE)).astype(np.int64)
        sizes = np.maximum(1, -(-whole // MOST_PACKETS))
        packets = np.rint(whole / sizes).astype(np.int64)

        signs = np.sign(shares).astype(np.int64)
        parts = _whole_parts(np.abs(shares), packets) * signs

        return cls(
            order,
            packets,
            sizes,
            np.where(parts != 0, targets, 0),
            parts,
        )

    def scaled(self, ratio: float) -> Carries:
        """The same for noise so many times as large."""
        return self if ratio == 1 else self.with_cores(self.cores * ratio)

    def with_cores(self, cores: Array) -> Carries:
        """The same shares of other cores."""
        shares = self.parts / np.maximum(self.packets, 1)[:, None]
        return Carries.rounded(self.order, cores, self.targets, shares)

    @property
    def rows(self) -> int:
        """Number of draws."""
        return len(self.order)

    @cached_property
    def cores(self) -> IntArray:
        """c: half the width of every flat core, in grid steps."""
        return self.packets * self.sizes

    @cached_property
    def cancelled(self) -> bool:
        """Whether every core is taken back in full, so that all noise together is Σ s_k."""
        return bool((self.parts.sum(axis=1) == -self.packets).all())

    # --- draws ------------------------------------------------------------------------------------

    @cached_property
    def dealt(self) -> IntArray:
        """Packets that every target has, with their signs, after 0, 1, 2, ... of a row were dealt.

        Of all packets those that go anywhere are told first, then, of these, those that go to all
        targets but the last, and so on: every packet goes to one target or to none.
        """
        most = int(self.packets.max(initial=0))
        until = np.cumsum(np.abs(self.parts), axis=1)
        given = np.zeros(
            (self.rows, until.shape[1] + 1, most + 1),
            dtype=np.int64,
        )
        held = np.minimum(np.arange(most + 1), self.packets[:, None])
        whole = self.packets[:, None]

        for target in range(until.shape[1] - 1, -1, -1):
            part = until[:, target, None]
            # part/whole of what is held, rounded half up
            held = (2 * part * held + whole) // np.maximum(2 * whole, 1)
            given[:, target + 1] = held
            whole = part

        return np.diff(given, axis=1) * np.sign(self.parts)[:, :, None]

    def carried(self, draws: IntArray) -> IntArray:
        """η from d: one column per draw of all rows."""
        noise = draws.copy()
        for row in np.flatnonzero((self.parts != 0).any(axis=1)):
            size = int(self.sizes[row])
            inside = np.minimum(np.abs(draws[row]), self.cores[row])
            whole, rest = np.divmod(inside, size)

            dealt = self.dealt[row]
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
        core = np.floor(place) - width // 2

        excess = np.floor(scale * rng.standard_exponential(place.shape))
        beyond = width // 2 + 1 + excess
        np.negative(beyond, out=beyond, where=place >= width + tail)

        return np.where(place < width, core, beyond).astype(np.int64)

    # --- second moments ---------------------------------------------------------------------------

    @cached_property
    def _places(self) -> IntArray:
        """For every row itself and its targets."""
        return np.concatenate([np.arange(self.rows)[:, None], self.targets], axis=1)

    @cached_property
    def paths(self) -> FloatArray:
        """w: the units at every place after so many packets, drawn by the row and dealt by it."""
        most = int(self.packets.max(initial=0))
        drawn = np.minimum(np.arange(most + 1), self.packets[:, None])
        packets = np.concatenate([drawn[:, None], self.dealt], axis=1)
        return (packets * self.sizes[:, None, None]).astype(np.float64)

    @cached_property
    def core_squares(self) -> FloatArray:
        """Σ over v = 1, ..., c of w(v) w(v)ᵀ for every row.

        Between two packets w(v) = x + y·i is a straight line in i = 1, ..., p, p the packet's size.
        """
        p = self.sizes.astype(np.float64)[:, None, None]
        y = np.diff(self.paths, axis=2) / p
        moves = np.abs(y).sum(axis=1, keepdims=True) > 0
        x = self.paths[:, :, :-1] * moves

        # Σ i and Σ i² over a packet.
        first = p * (p + 1) / 2
        second = p * (p + 1) * (2 * p + 1) / 6
        mixed = np.einsum("ktj,kuj->ktu", x, y)
        squares = p * np.einsum("ktj,kuj->ktu", x, x)
        squares = squares + first * (mixed + mixed.transpose(0, 2, 1))

        return np.asarray(squares + second * np.einsum("ktj,kuj->ktu", y, y))

    @cached_property
    def ends(self) -> FloatArray:
        """w(c): what a full core adds to its row and targets."""
        return self.paths[:, :, -1]

    def beyond_squares(
        self,
        second: FloatArray | float,
        first: FloatArray | float,
        mass: FloatArray | float,
    ) -> FloatArray:
        """Σ v vᵀ over draws beyond the core, v = w(c) + m·e, from Σ m², Σ m and Σ 1 over these.

        e is the row itself, the first of its places.
        """
        ends = self.ends
        once = np.asarray(first)[..., None] * ends
        squares = np.einsum("kt,ku->ktu", ends, ends)
        squares *= np.asarray(mass)[..., None, None]
        squares[:, 0, :] += once
        squares[:, :, 0] += once
        squares[:, 0, 0] += second

        return np.asarray(squares)

    def placed(self, blocks: FloatArray) -> sparse.csr_array:
        """One small matrix per row, over itself and its targets, added up over all rows."""
        first = np.broadcast_to(self._places[:, :, None], blocks.shape)
        second = np.broadcast_to(self._places[:, None, :], blocks.shape)
        return self._gathered(blocks, first, second)

    def _columns(self, values: FloatArray) -> sparse.csr_array:
        """Column k: the values of row k at its places."""
        rows = np.arange(self.rows)[:, None]
        return self._gathered(
            values,
            self._places,
            np.broadcast_to(rows, values.shape),
        )

    def _gathered(
        self,
        values: FloatArray,
        first: IntArray,
        second: IntArray,
    ) -> sparse.csr_array:
        places = (first.ravel(), second.ravel())
        shape = (self.rows, self.rows)
        return sparse.coo_array((values.ravel(), places), shape).tocsr()

    @cached_property
    def full_cores(self) -> sparse.csr_array:
        """Column k: what a full core of row k adds to all rows."""
        return self._columns(self.ends)

    @cached_property
    def slack(self) -> sparse.csr_array:
        """Column k: how far, at most, packets are from shares, in units at every target of row k.

        Between two packets both are straight lines, so the farthest is at the end of one.
        """
        shares = self.ends / np.maximum(self.cores, 1)[:, None]
        straight = shares[:, :, None] * self.paths[:, :1]
        return self._columns(np.abs(self.paths - straight).max(axis=2))

    def covariance(self, scale: float) -> sparse.csr_array:
        """E ηηᵀ, exactly that of the integers drawn, where rows are independent."""
        tail = Tail(scale)
        beyond = self.beyond_squares(tail.second, tail.first, tail.mass)
        weights = 2 / tail.total(self.cores)
        return self.placed(weights[:, None, None] * (self.core_squares + beyond))


def _whole_parts(
    shares: FloatArray,
    packets: IntArray,
) -> IntArray:
    """Whole parts close to the shares of the packets, and never more of them than there are."""
    limit = np.minimum(np.ceil(shares.sum(axis=1) * packets - 1e-6), packets)
    exact = shares * packets[:, None]
    until = np.minimum(np.rint(np.cumsum(exact, axis=1)), limit[:, None])
    parts: IntArray = np.diff(until, axis=1, prepend=0.0).astype(np.int64)
    return parts


def _within(
    values: IntArray,
    least: int,
    most: int,
) -> bool:
    return bool((values >= least).all() and (values <= most).all())


def check_carries(holds: object, rule: str) -> None:
    """Refuse carries that are none."""
    if not holds:
        raise InvalidParameter("carries", "?", rule, "plan again")
