"""The text form of workloads: `prefix:16*prefix:16*identity:4`, `2.5@ranges:64+total:64`, …"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, NoisewrightError, did_you_mean
from noisewright.workload.base import Workload, check_domain
from noisewright.workload.forms.matrix_files import read_matrix
from noisewright.workload.kinds.algebra import Weighted, kron, stack
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.kinds.conjunctions import Conjunctions
from noisewright.workload.kinds.explicit import Explicit, Random
from noisewright.workload.kinds.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.kinds.parity import Parity

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix
    from scipy.sparse.linalg import LinearOperator

Queries: TypeAlias = (
    "Workload | str | Path | npt.ArrayLike | sparray | spmatrix | LinearOperator"
)
"""A workload, its text form, or a matrix with one row per query."""

FORMS = (
    "identity:64 total:64 prefix:64 ranges:64 marginals:2^8:3 marginals:2^8:<=3 allmarginals:2^8 "
    "allmarginals:5x7x2 parity:8:<=3 parity:8:3 conjunctions:8:2 "
    "random:100x64:1, A*B, A+B, 2.5@A, (A)"
)
MOST_ATTRIBUTES = 1000  # written as a power, as in 2^1000
_SMALLEST_ENTRY = 1e-305  # but zero: further down, floats have fewer digits
MOST_NESTED = 100  # brackets: the parser calls itself for each
_SIMPLE: dict[str, Callable[[int], Workload]] = {
    "identity": Identity,
    "total": Total,
    "prefix": Prefix,
    "ranges": Ranges,
}
_NAMES = (*_SIMPLE, "marginals", "allmarginals", "parity", "conjunctions", "random")


def workload(source: Queries) -> Workload:
    """A workload from its text form, a NumPy array, a SciPy sparse matrix or linear operator.

    A `pathlib.Path` is a file that holds a matrix (.npy, .npz, .mtx or .csv); text never is, since
    plan files hold text that anybody may have written.
    """
    if isinstance(source, Workload):
        return check_domain(source)
    if isinstance(source, Path):
        return _of_entries(Explicit(read_matrix(source)))
    if isinstance(source, str):
        return check_domain(_Parser(source).parse())

    if hasattr(source, "matmat") and hasattr(source, "rmatmat"):
        operator: Any = source
        return _of_entries(Explicit(operator @ np.eye(operator.shape[1])))

    return _of_entries(Explicit(source))


def _of_entries(given: Explicit) -> Explicit:
    """A matrix whose entries keep their digits when they are scaled."""
    entries = np.abs(given.matrix if given.sparse is None else given.sparse.data)
    held = entries[entries > 0]
    if held.size and not (
        held.min() >= _SMALLEST_ENTRY and held.max() <= 1 / _SMALLEST_ENTRY
    ):
        raise InvalidParameter(
            "workload",
            "matrix with entries that are too small or too large",
            f"must have entries of zero, or from {_SMALLEST_ENTRY:g} to {1 / _SMALLEST_ENTRY:g}",
            "count in another unit",
        )

    return given


class _Parser:
    """Recursive descent over stack `+`, product `*`, weight `@` and brackets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = re.findall(
            r"on:[^()]*:|[^\s()+*@]+(?:[eE]\+\d+(?=@))?|[()+*@]", text
        )
        self.position = self.depth = 0

    def parse(self) -> Workload:
        result = self._stack()
        if self.position != len(self.tokens):
            raise self._error(f"has an unexpected {self.tokens[self.position]!r}")

        return result

    def _peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _accept(self, token: str) -> bool:
        if self._peek() == token:
            self.position += 1
            return True

        return False

    def _stack(self) -> Workload:
        parts = [self._product()]
        while self._accept("+"):
            parts.append(self._product())

        return stack(parts) if len(parts) > 1 else parts[0]

    def _product(self) -> Workload:
        factors = [self._term()]
        while self._accept("*"):
            factors.append(self._term())

        return kron(factors) if len(factors) > 1 else factors[0]

    def _term(self) -> Workload:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise self._error(f"has brackets or weights more than {MOST_NESTED} deep")

        inner = self._inner()
        self.depth -= 1

        return inner

    def _inner(self) -> Workload:
        if self._accept("("):
            inner = self._stack()
            if not self._accept(")"):
                raise self._error("has an unclosed '('")
            return inner

        token = self._peek()
        self.position += 1
        if self._accept("@"):
            return Weighted(self._number(token), self._term())
        if token.startswith("on:"):
            return OnAttributes(*self._table(token), self._term())

        return self._atom(token)

    def _table(self, token: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        try:
            _, shape, chosen, _ = token.split(":")
            return self._sizes(shape), tuple(
                self._integer(i) for i in chosen.split(",") if i
            )
        except NoisewrightError:
            raise
        except ValueError:
            raise self._error(f"has the unknown part {token!r}") from None

    def _atom(self, token: str) -> Workload:
        name, _, rest = token.partition(":")
        fields = rest.split(":")
        try:
            if name in _SIMPLE and len(fields) == 1:
                return _SIMPLE[name](self._integer(fields[0]))
            if name == "allmarginals" and len(fields) == 1:
                return AllMarginals.of_sizes(self._sizes(fields[0]))
            if name == "marginals" and len(fields) == 2:
                ways = fields[1].removeprefix("<=")
                at_most = fields[1].startswith("<=")
                return Marginals.of_order(
                    self._sizes(fields[0]), self._integer(ways), at_most
                )
            if name == "parity" and len(fields) == 2:
                return self._parity(*fields)
            if name == "conjunctions" and len(fields) == 2:
                return Conjunctions.of(*(self._integer(field) for field in fields))
            if name == "random" and len(fields) == 2:
                queries, cells = self._sizes(fields[0])
                return Random.make(queries, cells, self._integer(fields[1]))
        except (TypeError, IndexError, OverflowError):
            pass
        except ValueError as error:
            if isinstance(error, NoisewrightError):
                raise

        meaning = "" if name in _NAMES else did_you_mean(name, _NAMES)
        raise self._error(f"has the unknown part {token!r}", meaning)

    def _parity(self, bits: str, degree: str) -> Parity:
        if degree.startswith("<="):
            low = 0
            high = self._integer(degree[2:])
        elif "-" in degree:
            low, high = (self._integer(d) for d in degree.split("-"))
        else:
            low = high = self._integer(degree)

        return Parity(self._integer(bits), low, high)

    def _sizes(self, text: str) -> tuple[int, ...]:
        if "^" in text:
            size, count = (self._integer(number) for number in text.split("^"))
            if count > MOST_ATTRIBUTES:
                raise self._error(f"has more than {MOST_ATTRIBUTES} attributes")
            return (size,) * count

        return tuple(self._integer(size) for size in text.split("x"))

    def _integer(self, text: str) -> int:
        if not re.fullmatch(r"[0-9]+", text):
            raise ValueError
        if len(text) > 40:
            raise self._error("has a number of more than 40 digits")

        return int(text)

    def _number(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self._error(
                f"has the weight {text!r}, which is not a number"
            ) from None

    def _error(self, rule: str, meaning: str = "") -> InvalidParameter:
        return InvalidParameter(
            "workload", self.text, rule, f"{meaning}write it as {FORMS}"
        )
