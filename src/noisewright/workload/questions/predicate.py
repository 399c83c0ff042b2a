"""Predicates over attributes: `age >= 65 and sex == "F"` becomes the set of cells it holds for.

Text is parsed as a Python expression and only comparisons of an attribute with constants, joined by
`and`, `or`, `not`, are understood; nothing is evaluated.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import starmap
from math import prod

import numpy as np

from noisewright.arrays import BoolArray
from noisewright.domain import Attribute, Domain, Level, Ordered
from noisewright.errors import (
    InvalidParameter,
    TooLarge,
    did_you_mean,
    require,
    shown_value,
)

_HELP = (
    'write it like: age >= 65 and sex == "F", 18 <= age < 65, region in '
    '["N", "S"], not employed'
)
_MOST_CELLS = 2**27  # of the attributes mentioned: a truth value for each
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
"""What an order is called when its sides change places."""


@dataclass(frozen=True)
class Predicate:
    """The attributes a predicate mentions (in the domain's order) and its cells among theirs."""

    attributes: tuple[int, ...]
    mask: BoolArray

    @property
    def sides(self) -> list[BoolArray] | None:
        """One set of values per attribute where the cells are all combinations of them."""
        axes = range(self.mask.ndim)
        others = [tuple(a for a in axes if a != axis) for axis in axes]
        sides = [np.asarray(self.mask.any(axis=other)) for other in others]
        cells = int(self.mask.sum())
        product = prod(int(side.sum()) for side in sides)

        return sides if cells and product == cells else None


def parse_predicate(text: str, domain: Domain) -> Predicate:
    """Understand `text` over the attributes of `domain`."""
    try:
        # Python's own, on its own notation
        with warnings.catch_warnings(action="ignore"):
            parsed = ast.parse(text, mode="eval")
            tree = _Truths(domain).visit(parsed.body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise InvalidParameter("count", text, "is not a predicate", _HELP) from None

    nodes = list(ast.walk(tree))
    names = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name))
    require(names, "count", text, "must mention an attribute", _HELP)

    for node in nodes:
        if isinstance(node, ast.Compare):
            _check_compared(text, node, domain)

    attributes = sorted({domain.find(name)[0] for name in names})
    cells = prod(domain.shape[i] for i in attributes)
    if cells > _MOST_CELLS:
        raise TooLarge(
            f"count={shown_value(text)} is about {cells} cells, more than {_MOST_CELLS}; "
            "mention fewer attributes"
        )

    mask = _Reader(text, domain, attributes).read(tree)
    return Predicate(tuple(attributes), mask)


def _known(domain: Domain) -> set[str]:
    """The names of attributes and of their levels."""
    levels = [level for attribute in domain for level in attribute.coarser]
    return {*domain.names, *(level.name for level in levels)}


class _Truths(ast.NodeTransformer):
    """`true`, `no` and their kin as truth values, unless an attribute has that name."""

    def __init__(self, domain: Domain) -> None:
        self.known = _known(domain)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        truth = _TRUTHS.get(node.id.lower())
        if truth is None or node.id in self.known:
            return node

        return ast.Constant(truth)


def _check_compared(text: str, node: ast.Compare, domain: Domain) -> None:
    """Refuse a value without its quotes: `region == North`."""
    known = _known(domain)
    sides = [node.left, *node.comparators]
    values = [v for side in sides for v in getattr(side, "elts", [side])]
    names = [value.id for value in values if isinstance(value, ast.Name)]
    strange = [name for name in names if name not in known]
    if strange and any(getattr(side, "id", None) in known for side in sides):
        name = strange[0]
        raise InvalidParameter(
            "count",
            text,
            f"has {name!r}, which is no attribute",
            f'{did_you_mean(name, known)}a value is written in quotes: "{name}"',
        )


class _Reader(ast.NodeVisitor):
    """Masks are tensors over the mentioned attributes, one axis each."""

    def __init__(self, text: str, domain: Domain, attributes: list[int]) -> None:
        self.text = text
        self.domain = domain
        self.attributes = attributes
        self.shape = tuple(domain.shape[i] for i in attributes)

    def read(self, node: ast.expr) -> BoolArray:
        """The cells for which an expression holds."""
        return np.asarray(self.visit(node))

    def generic_visit(self, node: ast.AST) -> BoolArray:
        raise self._error(ast.unparse(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> BoolArray:
        """`and` and `or`."""
        join = np.logical_and if type(node.op) is ast.And else np.logical_or
        masks = map(self.read, node.values)

        return np.asarray(reduce(join, masks))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> BoolArray:
        """`not`."""
        if type(node.op) is not ast.Not:
            raise self._error(ast.unparse(node))

        return ~self.read(node.operand)

    def visit_Name(self, node: ast.Name) -> BoolArray:
        """A boolean attribute alone."""
        truth = self._equal(self._boolean(node.id), True)
        return self._spread(self.domain.index(node.id), truth)

    def visit_Compare(self, node: ast.Compare) -> BoolArray:
        """Comparisons, which may be chained."""
        sides = [node.left, *node.comparators]
        triples = zip(sides, node.ops, sides[1:], strict=False)

        masks = starmap(self._pair, triples)

        return np.asarray(reduce(np.logical_and, masks))

    def _pair(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> BoolArray:
        if isinstance(right, ast.Name) and not isinstance(left, ast.Name):
            left, right = right, left
            operator = _MIRRORED.get(type(operator), type(operator))()

        if not isinstance(left, ast.Name):
            raise self._error(ast.unparse(left))

        position, level = self.domain.find(left.id)
        try:
            constant = ast.literal_eval(right)
        except ValueError:
            raise self._error(ast.unparse(right)) from None

        subject = level or self.domain.attributes[position]
        return self._spread(position, self._cells(subject, operator, constant))

    def _cells(
        self, subject: Attribute | Level, operator: ast.cmpop, constant: object
    ) -> BoolArray:
        several = constant if isinstance(constant, list | tuple | set) else None
        self._check_truths(subject, [constant] if several is None else several)
        match operator:
            case ast.Eq():
                return self._equal(subject, constant)
            case ast.NotEq():
                return ~self._equal(subject, constant)
            case ast.In() if several is not None:
                return self._among(subject, several)
            case ast.NotIn() if several is not None:
                return ~self._among(subject, several)
            case _:
                return self._ordered(subject, operator, constant)

    def _check_truths(
        self, subject: Attribute | Level, values: Iterable[object]
    ) -> None:
        truth = next((value for value in values if isinstance(value, bool)), None)
        if truth is not None and getattr(subject, "kind", "level") != "boolean":
            rule = f"compares {subject.name!r} with {str(truth).lower()}, and it is not boolean"
            raise InvalidParameter("count", self.text, rule, "write a text in quotes")

    def _among(self, subject: Attribute | Level, values: Iterable[object]) -> BoolArray:
        masks = [self._equal(subject, value) for value in values]
        return np.asarray(reduce(np.logical_or, masks))

    def _equal(self, subject: Attribute | Level, constant: object) -> BoolArray:
        if isinstance(subject, Level):
            return np.equal(subject.groups, subject.locate(constant))

        mask = np.zeros(subject.size, dtype=np.bool_)
        if isinstance(subject, Ordered):
            low = subject.cells_below(constant)
            high = subject.cells_below(constant, inclusive=True)
            mask[low:high] = True
        else:
            mask[subject.locate(constant)] = True

        return mask

    def _ordered(
        self, attribute: Attribute | Level, operator: ast.cmpop, constant: object
    ) -> BoolArray:
        if not isinstance(attribute, Ordered):
            raise InvalidParameter(
                "count",
                self.text,
                f"compares {attribute.name!r}, which has no order",
                "use == or in",
            )

        kind = type(operator)
        below = attribute.cells_below(constant, kind in (ast.LtE, ast.Gt))
        mask = np.zeros(attribute.size, dtype=np.bool_)
        if kind in (ast.Lt, ast.LtE):
            mask[:below] = True
        elif kind in (ast.Gt, ast.GtE):
            # Cells behind the declared ones hold values that have no place in the order.
            mask[below : len(attribute.declared_labels)] = True
        else:
            raise self._error(self.text)

        return mask

    def _boolean(self, name: str) -> Attribute:
        attribute = self.domain[name]
        require(
            attribute.kind == "boolean",
            "count",
            self.text,
            f"uses {name!r} alone",
            "compare it",
        )

        return attribute

    def _spread(self, attribute: int, cells: BoolArray) -> BoolArray:
        shape = [1] * len(self.attributes)
        shape[self.attributes.index(attribute)] = cells.size

        return np.broadcast_to(cells.reshape(shape), self.shape)

    def _error(self, part: str) -> InvalidParameter:
        return InvalidParameter(
            "count", self.text, f"has {part!r}, which is not understood", _HELP
        )
