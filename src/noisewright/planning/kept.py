"""What every kind of file shares: a header that says how its content is rebuilt from arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from noisewright.container import Header
from noisewright.workload.base import Array

Arrays = Mapping[str, Array]
Text = Annotated[str, msgspec.Meta(max_length=1000)]


class Kept(Header, frozen=True):
    """A kind of file: its fields, and how what it holds is rebuilt from them and from arrays."""

    def content(self, arrays: Arrays) -> Any:
        """What the file holds."""
        raise NotImplementedError
