"""What every kind of file shares: a header that says how its content is rebuilt from arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from noisewright.arrays import Array
from noisewright.container import Header
from noisewright.domain import Domain
from noisewright.workload import Workload

Arrays = Mapping[str, Array]
Text = Annotated[str, msgspec.Meta(max_length=1000)]
Number = Annotated[float, msgspec.Meta(ge=0.0, le=1e200)]  # squares stay within floats


class Kept(Header, frozen=True):
    """A kind of file: its fields, and how what it holds is rebuilt from them and from arrays."""

    def content(self, arrays: Arrays) -> Any:
        """What the file holds."""
        raise NotImplementedError


def domain_beside(workload: Workload, domain: Domain | None) -> dict[str, Any] | None:
    """The domain, unless the workload holds it."""
    return None if domain is None or workload.domain else domain.to_dict()


def domain_of(workload: Workload, stored: Mapping[str, Any] | None) -> Domain | None:
    """The domain again."""
    if workload.domain is not None or stored is None:
        return workload.domain
    return Domain.from_dict(stored)


def inside(arrays: Arrays, prefix: str) -> dict[str, Array]:
    """The arrays of one part of a file, under the names that the part gave them."""
    return {
        n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)
    }
