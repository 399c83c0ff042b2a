"""The kinds of file that plans and releases are kept as, and how they are written and read.

A kind is a struct (`Kept`) beside what it keeps, and a line in `KINDS`; whatever is kept is
`Keepable`.

Every file is hostile: whatever a file says is checked like a user's own input, budgets decide the
noise, sensitivities are computed from the integers that are measured, and answers are worked out
again from the measurement. What a file says of bounds and seconds is the file's own word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import msgspec

from noisewright import container
from noisewright.container import AnyKind, Header, value_digest
from noisewright.display import Fact
from noisewright.domain import Domain
from noisewright.errors import FileFormatError, refusing_unforeseen
from noisewright.workload import Workload

if TYPE_CHECKING:
    from noisewright.planning.counting import Counter

_REMEDY = "plan again"

Text = Annotated[str, msgspec.Meta(max_length=1000)]
Number = Annotated[float, msgspec.Meta(ge=0.0, le=1e200)]
"""Squares stay within floats."""


class Kept(Header, frozen=True):
    """A kind of file: its fields, and how what it holds is rebuilt from them."""

    @classmethod
    def of(cls, kept: Any) -> Self:
        """What something is kept as: what it says of every field, unless a kind knows better."""
        values = {
            field.name: _stored(field.type, getattr(kept, field.name))
            for field in msgspec.structs.fields(cls)
        }
        return cls(**values)

    def content(self) -> Any:
        """What the file holds: something `Keepable`."""
        raise NotImplementedError


def _stored(kind: object, value: object) -> object:
    """A field's value, which may be something of a kind of its own."""
    if isinstance(kind, type) and issubclass(kind, Kept):
        return kind.of(value)
    return value


class FileKind(NamedTuple):
    """Where the struct of a kind of file is, and what such a file is in words."""

    home: str
    words: str


KINDS = {
    "central-plan": FileKind(
        "planning.central.files.CentralFile", "a plan with a curator"
    ),
    "release": FileKind(
        "planning.central.files.ReleaseFile",
        "a release: answers that can be used again",
    ),
    "plans": FileKind(
        "planning.central.files.TogetherFile", "several plans under one budget"
    ),
    "local-plan": FileKind(
        "planning.local.files.LocalFile", "a plan without a curator"
    ),
    "estimate": FileKind(
        "planning.local.files.EstimateFile", "estimates from people's reports"
    ),
    "stream-plan": FileKind(
        "planning.stream_files.StreamFile", "a plan of a running count"
    ),
    "secret-running-stream": FileKind(
        "planning.stream_files.RunningFile",
        "a running stream: SECRET, as private as the data; never publish or share it",
    ),
    "stream-release": FileKind(
        "planning.stream_files.StreamReleaseFile",
        "answers of a running count so far",
    ),
    "covariance-plan": FileKind(
        "planning.rows.files.CovarianceFile", "a plan of second moments of columns"
    ),
    "covariance-release": FileKind(
        "planning.rows.files.CovarianceReleaseFile",
        "a release of second moments of columns",
    ),
    "pairs-plan": FileKind(
        "planning.rows.files.PairsFile", "a plan of all pairs of attributes"
    ),
    "pairs-release": FileKind(
        "planning.rows.files.PairsReleaseFile", "a release of all pairs of attributes"
    ),
    "values-plan": FileKind(
        "planning.found.open_files.ValuesFile",
        "a plan that tells the values of a column that nobody listed",
    ),
    "open": FileKind(
        "planning.found.open_files.OpenFile",
        "a plan that tells values nobody listed, and tables over them, under one budget",
    ),
    "open-release": FileKind(
        "planning.found.open_files.OpenReleaseFile",
        "a release over values that were told: answers that can be used again",
    ),
    "learning-plan": FileKind(
        "learn.files.LearningFile",
        "a plan to learn or to refute a class of concepts without a curator",
    ),
    "selection": FileKind(
        "learn.selection.SelectionFile",
        "a selection under way, from people's randomised bits",
    ),
}
"""Every kind by its tag; a kind is imported when a file of it is at hand."""


class Keepable(ABC):
    """What can be kept in a file of a kind of its own."""

    file_mode: ClassVar[int | None] = None
    """Who may read the file, where not everybody."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of file that this is kept as: a tag of `KINDS`."""

    @abstractmethod
    def description(self) -> dict[str, object]:
        """What `noisewright show` says of it, ready for JSON."""

    def facts(self) -> list[Fact]:
        """The same in words and with units, for whoever reads it on a screen or a page."""
        from noisewright.planning.facts import facts

        return facts(self.description())

    def save(self, path: str | Path) -> None:
        """Write it, whole or not at all; `nw.load` gives it back."""
        container.write(path, _packed(self), mode=self.file_mode)

    def to_bytes(self) -> bytes:
        """The content of the file that keeps it."""
        return container.encode(_packed(self))

    @property
    def digest(self) -> str:
        """A name for all that the file would hold."""
        return value_digest(_packed(self))

    def equipped(self, counter: Counter | None) -> Self:
        """With the engine that counts tables, where one is needed."""
        return self


def _packed(kept: Keepable) -> Kept:
    return _struct_of(kept.kind).of(kept)


def _struct_of(kind: str) -> type[Kept]:
    """The struct of a kind of file that there is."""
    module, _, name = KINDS[kind].home.rpartition(".")
    struct: type[Kept] = getattr(import_module(f"noisewright.{module}"), name)
    return struct


def load(path: str | Path, counter: Counter | None = None) -> Keepable:
    """Read a plan or a release of any kind; `counter` is what its plan counts tables with."""
    return from_bytes(container.content_of(path), counter, name=str(path))


def from_bytes(
    content: bytes,
    counter: Counter | None = None,
    kind: str | None = None,
    name: str = "what was kept",
) -> Keepable:
    """What `to_bytes` kept; of a `kind`, where only that will do."""
    struct = stored_struct(content, kind, name)
    with refusing_unforeseen(
        f"{name}: the content is incomplete or damaged; {_REMEDY}"
    ):
        kept: Keepable = struct.content()
        return kept.equipped(counter)


def stored_struct(
    content: bytes, kind: str | None = None, name: str = "the file"
) -> Kept:
    """The struct of a file's content."""
    header, tensors = container.unpacked(content, name, _REMEDY)
    told = container.understood(header, AnyKind, name, _REMEDY).kind
    if told not in KINDS or kind not in (None, told):
        raise FileFormatError(
            f"{name}: its header is not understood (its kind is {told[:40]!r}); {_REMEDY}"
        )

    return container.understood(header, _struct_of(told), name, _REMEDY, tensors)


def domain_beside(
    workload: Workload, domain: Domain | None
) -> dict[str, object] | None:
    """The domain, unless the workload holds it."""
    return None if domain is None or workload.domain else domain.to_dict()


def domain_of(workload: Workload, stored: Mapping[str, object] | None) -> Domain | None:
    """The domain again."""
    if workload.domain is not None or stored is None:
        return workload.domain
    return Domain.from_dict(stored)
