"""Strategies to and from plain settings and arrays: what plan files hold.

Parameters that may come from anybody: whole numbers, sizes, chances and arrays, or a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from math import prod
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    TooLarge,
    refusing_unforeseen,
    require,
)
from noisewright.local.fixedpoint import MOST_CELLS, WORD, check_epsilon, numbers
from noisewright.local.randomizer.routers import Draw, View
from noisewright.local.randomizer.specification import (
    Specification,
    Through,
    decode,
    encode,
)
from noisewright.local.strategy import Arrays, IndexStrategy, Settings, Strategy

Kind = TypeVar("Kind")

HOMES = {
    "matrix": "noisewright.local.listed:MatrixStrategy",
    "randomized-response": "noisewright.local.histogram.sets:RandomizedResponse",
    "subset-selection": "noisewright.local.histogram.sets:SubsetSelection",
    "listed-subsets": "noisewright.local.histogram.sets:ListedSubsets",
    "unary": "noisewright.local.histogram.sets:UnaryEncoding",
    "hadamard": "noisewright.local.transform.hadamard:HadamardResponse",
    "local-hashing": "noisewright.local.histogram.hashing:LocalHashing",
    "fourier": "noisewright.local.transform.fourier:Fourier",
    "vector": "noisewright.local.vector.noisy_columns:VectorStrategy",
    "codebook": "noisewright.local.vector.codebook:Codebook",
    "union": "noisewright.local.composed.union:Union",
    "parts": "noisewright.local.composed.parts:Parts",
    "tree-mixture": "noisewright.local.composed.hierarchical:TreeMixture",
    "mixture": "noisewright.local.composed.mixture:Mixture",
    "decoded": "noisewright.local.listed:Decoded",
    "orbits": "noisewright.local.transform.orbits:OrbitStrategy",
    "coarse-fine": "noisewright.local.composed.coarse_fine:CoarseFine",
}
"""Where the class of each kind lives; a plan file can name nothing else."""


SPECIFICATION = "specification"
"""The array that holds the bytes of what clients do."""


def pack(strategy: Strategy) -> tuple[Settings, Arrays]:
    """Settings and arrays that rebuild the strategy: its specification, and what is beside it."""
    settings, arrays = stored_description(strategy)
    text = np.frombuffer(encode(strategy.specification), dtype=np.uint8)
    return settings, {**arrays, SPECIFICATION: text}


def unpack(settings: Settings, arrays: Arrays) -> Strategy:
    """The strategy that `pack` described: it does what the specification says, and is private.

    A file may come from anybody. Its specification is read strictly and verified; the strategy made
    of it must write the very same one.
    """
    if SPECIFICATION not in arrays:
        raise FileFormatError(
            "the strategy has no specification of its clients; plan again"
        )

    text = stored_array(arrays, SPECIFICATION, np.uint8, (None,))
    with refusing_unforeseen("the strategy is incomplete or damaged"):
        specification = decode(text.tobytes())
        root = len(specification.nodes) - 1
        strategy = Stored(specification, root, settings, arrays).strategy()
        if strategy.specification != specification:
            raise FileFormatError(
                f"the specification is not that of a strategy of kind {strategy.kind!r}; plan again"
            )
        strategy.check_loss()

    return strategy


def stored_description(strategy: Strategy) -> tuple[Settings, Arrays]:
    """What there is beside the specification, with the kind and the stated ε."""
    settings, arrays = strategy.beside()
    return {"kind": strategy.kind, "epsilon": strategy.epsilon, **settings}, arrays


def described_parts(components: Sequence[Strategy]) -> tuple[Settings, Arrays]:
    """The same of several components: their arrays have numbered names."""
    parts = [stored_description(component) for component in components]
    arrays = {
        f"{index}.{name}": array
        for index, (_, of_part) in enumerate(parts)
        for name, array in of_part.items()
    }
    return {"components": [settings for settings, _ in parts]}, arrays


@dataclass(frozen=True, eq=False)
class Stored:
    """A node of a specification, and what a file holds beside it: a strategy is made of both."""

    specification: Specification
    index: int
    settings: Settings
    arrays: Arrays

    @property
    def cells(self) -> int:
        """Number of values that the node takes."""
        return self.specification.shapes[self.index].cells

    @property
    def epsilon(self) -> float:
        """The ε that is stated."""
        return check_epsilon(cast("float", self.settings["epsilon"]))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of values of attributes."""
        return check_sizes(self.settings["sizes"])

    def node(self, kind: type[Kind]) -> Kind:
        """The node, which must be of that kind."""
        node = self.specification.nodes[self.index]
        if not isinstance(node, kind):
            name = type(node).__name__.lower()
            raise FileFormatError(f"a client's {name} is not expected here")
        return node

    def array(
        self, name: str, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
    ) -> Array:
        """An array of the type and the shape (None: any length) that it must have."""
        return stored_array(self.arrays, name, dtype, shape)

    def drawn(self) -> tuple[tuple[int, ...], list[Shown]]:
        """What a draw leads to: chances, what each child is shown (None: all), and the child."""
        draw = self.node(Draw)
        return numbers(draw.weights), [self._shown(child) for child in draw.of]

    def _shown(self, index: int) -> Shown:
        match self.specification.nodes[index]:
            case View() as view:
                return view.through, replace(self, index=view.of)
            case _:
                return None, replace(self, index=index)

    def strategy(self, settings: object = None) -> Strategy:
        """The strategy of the kind that these settings name: the node's own, unless told."""
        told = self.settings if settings is None else settings
        named = told if isinstance(told, dict) else {}
        kind = named.get("kind")
        if not isinstance(kind, str) or kind not in HOMES:
            raise FileFormatError(
                f"strategy kind {str(kind)[:40]!r} is not known to this release"
            )

        module, name = HOMES[kind].split(":")
        maker: type[Strategy] = getattr(import_module(module), name)

        return maker.restored(replace(self, settings=named))

    def components(self, shown: Sequence[Shown]) -> tuple[IndexStrategy, ...]:
        """The strategies of the children of a draw, which files describe one by one."""
        told = plain_list("components", self.settings["components"])
        components = []

        for index, ((_, child), settings) in enumerate(zip(shown, told, strict=True)):
            prefix = f"{index}."
            arrays = {
                name.removeprefix(prefix): array
                for name, array in self.arrays.items()
                if name.startswith(prefix)
            }
            component = replace(child, arrays=arrays).strategy(settings)
            components.append(listable_strategy(component))

        return tuple(components)


Shown = tuple[Through | None, Stored]
"""What a child of a draw is shown (None: the cell as it is), and the child."""


def listable_strategy(strategy: Strategy) -> IndexStrategy:
    """A strategy whose reports can be listed; others are refused."""
    if not isinstance(strategy, IndexStrategy):
        rule = "must have reports that can be listed"
        raise InvalidParameter("strategy", strategy.kind, rule)
    return strategy


# --- reading --------------------------------------------------------------------------------------


def whole_number(
    name: str, value: object, least: int = 0, most: int = MOST_CELLS
) -> int:
    """A whole number within its range; 2.5, true and "2" are none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidParameter(name, value, "must be a whole number")
    if not least <= value <= most:
        raise InvalidParameter(name, value, f"must lie in {least}..{most}")
    return int(value)


def plain_list(name: str, value: object) -> Sequence[object]:
    """A list; text and mappings, which can be run through as well, are none."""
    if not isinstance(value, list | tuple):
        raise InvalidParameter(name, value, "must be a list")
    return value


def check_sizes(sizes: object) -> tuple[int, ...]:
    """Numbers of values of attributes whose cells can be numbered."""
    checked = tuple(
        whole_number("sizes", size, 1) for size in plain_list("sizes", sizes)
    )
    require(checked, "sizes", checked, "must name one attribute at least")
    if prod(checked) > MOST_CELLS:
        raise TooLarge(
            f"a domain of {prod(checked):.3g} cells has no whole-number types"
        )
    return checked


def check_axes(name: str, axes: Sequence[int], attributes: int) -> tuple[int, ...]:
    """Some attributes, by number: each once and in order, so that tables have one layout."""
    checked = tuple(
        whole_number(name, axis, 0, attributes - 1) for axis in plain_list(name, axes)
    )
    require(
        checked and not any(a >= b for a, b in pairwise(checked)),
        name,
        checked,
        "must be attributes in order, each once",
    )

    return checked


def check_weights(weights: Sequence[int], count: int) -> tuple[int, ...]:
    """Chances of `count` components out of 2^64: all positive, and exactly one together."""
    checked = tuple(
        whole_number("weights", weight, 1, WORD)
        for weight in plain_list("weights", weights)
    )
    require(
        len(checked) == count and sum(checked) == WORD,
        "weights",
        len(checked),
        f"must be {count} that sum to 2^64",
    )

    return checked


def stored_array(
    arrays: Mapping[str, Array],
    name: str,
    dtype: npt.DTypeLike,
    shape: tuple[int | None, ...],
) -> Array:
    """An array of a file, if it has the type and the shape (None: any length) that it must have."""
    array = arrays.get(name)
    if array is None:
        raise FileFormatError(f"the array {name!r} is missing")

    fits = len(array.shape) == len(shape) and all(
        extent in (None, length)
        for extent, length in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        raise FileFormatError(
            f"the array {name!r} holds {array.dtype} of shape {array.shape}, not "
            f"{np.dtype(dtype)} of shape {shape}"
        )

    return array
