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

_PASS_PER_ENTRY = 6.0
"""Operations for an entry that is read and written once: 0.2 ns where a product takes 0.033 ns."""

_EIGEN_PER_ENTRY = 1500.0
"""Operations for each entry of a matrix whose eigenvectors are found: 50 ns at `SECOND`."""

_EIGEN_PER_ENTRY_AND_ROW = 2.4
"""So many more per entry for each row of the matrix: 0.08 ns.

From 64 to 1,024 rows one shared core took about 94 ns, and 0.12 ns for each row.
"""

_EIGENVALUES_SHARE = 0.4
"""What eigenvalues alone take of that: 0.33 to 0.48 from 1,024 rows down to 64."""

_FACTOR_SHARE = 0.4
"""A Cholesky factor in products of its size: a sixth of the multiply-adds, at a lower pace.

0.26 to 0.67 were measured from 128 to 1,024 rows.
"""

_SOLVES_SHARE = 2.0
"""Both triangular solves in products of that shape: as many multiply-adds, at half the pace.

1.1 to 3.2 were measured from 128 to 1,024 rows.
"""


def product(rows: int, inner: int, columns: int) -> float:
    """A product of matrices."""
    return float(rows) * inner * columns


def pass_over(entries: float) -> float:
    """One pass over entries that are looked at one by one."""
    return _PASS_PER_ENTRY * entries


def eigenvectors(size: int) -> float:
    """All eigenvectors of a symmetric matrix."""
    return (_EIGEN_PER_ENTRY + _EIGEN_PER_ENTRY_AND_ROW * size) * size**2


def eigenvalues(size: int) -> float:
    """Its eigenvalues alone."""
    return _EIGENVALUES_SHARE * eigenvectors(size)


def solve(size: int, columns: int) -> float:
    """A positive definite matrix factored, and so many systems solved."""
    return _FACTOR_SHARE * size**3 + _SOLVES_SHARE * product(size, size, columns)


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
        remaining = self.limit - self.done
        return remaining if self.whole is None else min(remaining, self.whole.left)

    @property
    def over(self) -> bool:
        """Whether all is done that may be."""
        return self.left <= 0
