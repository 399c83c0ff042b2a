"""Work counted in operations, so that a search ends where it ends whatever else the machine does.

An operation is a multiply-add within a large product of matrices. What is no such product is told
in as many of them as take about as long, to a factor of two: that decides how long a search takes
on some machine, and never what it finds there. Only a time limit that somebody asked for reads a
clock (`time_limit`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

SECOND = 3e10
"""Operations that one core does in about a second: what budgets are told in."""

_TOUCHED = 6.0  # an entry read and written once: 0.2 ns where a product takes 0.033 ns
# eigenvectors: 54 ns per entry, and 0.08 ns more for each row
_TURNED = 1500.0
_TURNING = 2.4  # each
_VALUES_ALONE = 0.4  # of what eigenvectors take


def product(rows: int, inner: int, columns: int) -> float:
    """A product of matrices."""
    return float(rows) * inner * columns


def touched(entries: float) -> float:
    """One pass over entries that are looked at one by one."""
    return _TOUCHED * entries


def eigenvectors(size: int) -> float:
    """All eigenvectors of a symmetric matrix."""
    return (_TURNED + _TURNING * size) * size**2


def eigenvalues(size: int) -> float:
    """Its eigenvalues alone."""
    return _VALUES_ALONE * eigenvectors(size)


def solved(size: int, columns: int) -> float:
    """A positive definite matrix factored, and so many systems solved."""
    return 0.4 * size**3 + 2 * product(size, size, columns)


@dataclass(eq=False)
class Work:
    """Operations done, of at most so many; what is done of a part is done of the whole."""

    limit: float = inf
    done: float = 0.0
    whole: Work | None = None

    def add(self, operations: float) -> None:
        """Count what was done."""
        self.done += operations
        if self.whole is not None:
            self.whole.add(operations)

    def part(self, limit: float) -> Work:
        """A budget of its own within this one."""
        return Work(limit, whole=self)

    @property
    def left(self) -> float:
        """Operations that may still be done: of this budget, and of those that it is part of."""
        own = self.limit - self.done
        return own if self.whole is None else min(own, self.whole.left)

    @property
    def over(self) -> bool:
        """Whether all is done that may be."""
        return self.left <= 0
