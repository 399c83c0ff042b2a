"""What runs on a person's own device: a value in, one private report out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.display import Shown
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.local.randomizer.batch import check_values
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.reports.format import Bytes, ReportFormat
from noisewright.workload.base import Array


@dataclass(frozen=True, eq=False)
class Client(Shown):
    """Randomises values with the operating system's randomness; holds nothing about anybody."""

    format: ReportFormat
    domain: Domain | None = None

    def _facts(self) -> list[tuple[str, str]]:
        return [*self.format.strategy._facts(), ("report", f"{self.format.length:,} bytes")]

    def randomize(self, value: Any) -> bytes:
        """One report, ready to be sent.

        `value` is a cell's number or, where the plan has a domain, a mapping or a tuple of the
        attributes' values; text stands for the value of a single attribute.
        """
        cell = int(self._cell(value)[0])
        return self.format.header + interpret(self.format.specification, cell)

    def randomize_many(self, values: npt.ArrayLike) -> Bytes:
        """One row of bytes per cell number."""
        return self.format.encode(self.format.strategy.randomize(values))

    def _cell(self, value: Any) -> Array:
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return check_values(np.asarray([value]), self.format.strategy.size)
        if self.domain is None:
            # Never the value itself: it is a person's.
            raise InvalidParameter(
                "value", type(value).__name__, "must be the number of a cell", "plan with a domain"
            )
        if isinstance(value, Mapping):
            named = dict(value)
        else:
            listed = value if isinstance(value, tuple | list) else (value,)
            if len(listed) != len(self.domain):
                raise InvalidParameter(
                    "value",
                    f"{len(listed)} values",
                    f"must hold one for each of {', '.join(self.domain.names)}",
                )
            named = dict(zip(self.domain.names, listed, strict=True))
        return self.domain.encode({name: [item] for name, item in named.items()})
