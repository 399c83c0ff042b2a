"""Schemas as text: strict YAML in which nothing is guessed and nothing unknown is ignored."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from noisewright.domain.attribute import Attribute, declared_fields
from noisewright.domain.categorical import Boolean, Categorical
from noisewright.domain.levels import Level, to_members
from noisewright.domain.numeric import Numeric
from noisewright.domain.ordered import Date
from noisewright.errors import (
    DomainError,
    FileFormatError,
    NoisewrightError,
    did_you_mean,
    is_name,
    read_plain_values,
    shortened_text,
    shown_value,
)

_MOST_TEXT = 2**22
"""Characters of a text, aliases written out: it only bounds memory."""
_MOST_LEVELS = 24
"""Of lists in lists: schemas and questions have four, and the parser calls itself for each."""
_LINE = 80
"""Characters of a list that is still written in one line."""
_MOST_MAPPINGS = 10_000
"""Attributes and questions of one text: as many take two seconds to read, at 25 µs a value."""
_MOST_VALUES = 250_000
"""Values of one text, lists and mappings among them: as many take six seconds."""
_KINDS: dict[str, type[Attribute]] = {
    kind.kind: kind for kind in (Categorical, Numeric, Boolean, Date)
}


def to_dict(attributes: Sequence[Attribute], reviewed: bool) -> dict[str, object]:
    """Return a schema as plain values; in a draft every attribute says that it is one.

    So no single line that is lost makes a draft pass for a schema that people wrote.
    """
    mark = {} if reviewed else {"drafted": True}
    return {
        "reviewed": reviewed,
        "attributes": [_attribute_to_dict(a, mark) for a in attributes],
    }


def _attribute_to_dict(
    attribute: Attribute, mark: Mapping[str, bool]
) -> dict[str, object]:
    usual = attribute.usual_fields()
    declared = {
        name: value
        for name, value in declared_fields(attribute).items()
        if name not in usual or value != usual[name]
    }
    if attribute.coarser:
        declared["levels"] = _levels_to_dict(attribute)

    return {"name": attribute.name, "kind": attribute.kind, **mark, **declared}


def _levels_to_dict(attribute: Attribute) -> dict[str, dict[str, list[str]]]:
    finer = Level(attribute.name, attribute.labels, tuple(range(attribute.size)))
    documents = {}
    for level in attribute.coarser:
        members = to_members(level, finer)
        if attribute.has_other:
            del members[attribute.other]
        documents[level.name], finer = members, level

    return documents


_LISTS = {
    "attributes": "with a name and a kind",
    "impossible": "a mapping of attributes",
    "derive": "a mapping with a name and a table",
}


def from_dict(document: object) -> dict[str, Any]:
    """Read a schema: the fields of a domain, its attributes read."""
    allowed = {"reviewed", "unit", *_LISTS}
    declared = dict(_mapping(document, "the schema", {"attributes"}, allowed))
    for name, each in _LISTS.items():
        if not isinstance(declared.get(name, []), list):
            raise DomainError(f"schema: `{name}` must be a list, each {each}")

    entries: list[dict[str, object]] = declared["attributes"]
    declared["attributes"] = [_attribute_from_dict(entry) for entry in entries]
    # A schema written by hand needs no mark; one that was drafted must say that it is reviewed.
    drafted = any(entry.get("drafted", False) is not False for entry in entries)
    declared.setdefault("reviewed", not drafted)

    return declared


def _attribute_from_dict(entry: Mapping[str, object]) -> Attribute:
    where = "an attribute"
    known = isinstance(entry, Mapping)
    if known and "name" in entry:
        where = f"attribute {shown_value(entry['name'])}"

    kind = entry.get("kind") if known else None
    if not is_name(kind) or kind not in _KINDS:
        kinds = ", ".join(_KINDS)
        raise DomainError(f"schema: {where} must have a kind, one of {kinds}")

    fields = {field.name for field in dataclasses.fields(_KINDS[kind])}
    own = fields & {"values", "edges", "start", "end"}
    allowed = {"kind", "drafted", *fields}
    values = dict(_mapping(entry, where, {"name", "kind", *own}, allowed))
    del values["kind"]
    if not isinstance(values.pop("drafted", True), bool):
        raise DomainError(f"schema: {where}: `drafted` must be true or false")

    rule = f"schema: {where} has a field that is no {kind} attribute's; see the how-to"
    return read_plain_values(
        partial(_KINDS[kind], **values), partial(DomainError, rule)
    )


def _mapping(
    document: object, where: str, needed: set[str], allowed: set[str]
) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        names = ", ".join(sorted(needed))
        raise DomainError(f"schema: {where} must be a mapping with {names}")

    if unknown := [str(key) for key in document if key not in allowed]:
        raise DomainError(
            f"schema: {where} has unknown keys {shortened_text(', '.join(unknown))}; "
            f"{did_you_mean(unknown[0], allowed)}allowed are {', '.join(sorted(allowed))}"
        )
    if absent := sorted(needed - set(document)):
        raise DomainError(f"schema: {where} lacks {', '.join(absent)}")

    return document


class _Loader(yaml.SafeLoader):
    """YAML 1.2 scalars only, so that NO, on, 01 and 12:30 stay the text that was written.

    A file may come from anybody: it is refused where it is nested deeply, holds more than can be
    read in seconds, or where its aliases stand for more than a file could say, before any of it is
    built.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own design)

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._level = self._values = self._mappings = 0
        # of nodes: characters meant, and levels
        self._extents: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node:
        """Compose a node and measure what it stands for, aliases written out."""
        self._level += 1
        self._check(1, self._level)
        self._count()
        alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        assert node is not None
        self._level -= 1
        if id(node) not in self._extents:
            # of a node that is still being read
            _require(not alias, "refers to itself; write out what it means")
            self._extents[id(node)] = self._extent(node)

        size, depth = self._extents[id(node)]
        self._check(size, self._level + depth)
        return node

    def _count(self) -> None:
        self._values += 1
        self._mappings += self.check_event(yaml.MappingStartEvent)
        _require(
            self._mappings <= _MOST_MAPPINGS,
            f"has more than {_MOST_MAPPINGS:,} mappings (an attribute is one, a question too); "
            "keep the attributes that are asked about",
        )
        _require(self._values <= _MOST_VALUES, f"has more than {_MOST_VALUES:,} values")

    def _extent(self, node: yaml.Node) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1 + len(node.value), 1

        inner = [
            part
            for item in node.value
            for part in (item if type(item) is tuple else (item,))
        ]
        extents = [self._extents[id(part)] for part in inner]
        depth = max((depth for _, depth in extents), default=0)

        return 1 + sum(size for size, _ in extents), 1 + depth

    @staticmethod
    def _check(size: int, depth: int) -> None:
        _require(
            depth <= _MOST_LEVELS, f"is nested more than {_MOST_LEVELS} levels deep"
        )
        _require(size <= _MOST_TEXT, f"stands for more than {_MOST_TEXT} characters")

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        """Refuse a key given twice, of which YAML would silently keep the last."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        hashable = all(isinstance(key, Hashable) for key in keys)
        _require(hashable, "has a key that is a list or a mapping")

        repeated = {str(key) for key, times in Counter(keys).items() if times > 1}
        if repeated:
            named = shortened_text(", ".join(sorted(repeated)))
            raise DomainError(f"schema: the key {named} is given twice")

        return super().construct_mapping(node, deep)


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise FileFormatError(f"the YAML text {rule}")


class _Dumper(yaml.SafeDumper):
    """Quotes what either YAML version would read as something else than text."""

    def ignore_aliases(self, data: object) -> bool:
        # Repeated lists are written in full.
        return True


_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.inf$|\.nan$"
)
_SCALARS = {
    "null": (re.compile(r"~$|null$|$"), ["~", "n", ""]),
    "bool": (re.compile(r"true$|false$"), list("tf")),
    "int": (re.compile(r"[-+]?(0|[1-9][0-9]*)$"), list("-+0123456789")),
    "float": (
        re.compile(r"(?![-+]?0[0-9])" + f"(?:{_FLOAT.pattern})"),
        list("-+.0123456789"),
    ),
}
for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, _first)
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))


def _represent_list(dumper: _Dumper, items: list[object]) -> yaml.Node:
    """Write numbers and short lists in one line, mappings and long texts one to a line."""
    length = sum(len(str(item)) + 2 for item in items)
    kinds = set(map(type, items))
    flow = dict not in kinds and (length < _LINE or str not in kinds)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flow)


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    """Write text with line breaks and the like in escapes: in other styles some are folded away."""
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(str, _represent_text)


def load_yaml(source: str | Path) -> object:
    """Read YAML from a path, or from text that has more than one line; the text is not trusted."""
    text = str(source)
    if isinstance(source, Path) or "\n" not in text:
        text = _file_text(Path(source))

    if len(text) > _MOST_TEXT:
        raise FileFormatError(
            f"a YAML text of more than {_MOST_TEXT} characters is not read"
        )

    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except NoisewrightError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise FileFormatError(
            f"the text is not YAML{line}; check colons, indentation and quotes"
        ) from None
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        # PyYAML's own constructors fail so where a tag (`!!int x`) promises what is not there.
        raise FileFormatError(
            "the text is not YAML: a value is not what its tag says"
        ) from None


def _file_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_MOST_TEXT + 1)
    # a path with a NUL, or text that is not UTF-8
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "it is not UTF-8 text")
        raise FileFormatError(
            f"cannot read {shown_value(str(path))}: {reason}"
        ) from None


def dump_yaml(document: object) -> str:
    """Write plain values as YAML that reads back to the same values."""
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=96
    )
