"""One file format for everything that is kept: safetensors under a typed JSON header.

A file holds a header, which is a `Header` struct of one of several kinds told apart by their tag,
and the arrays that it names by number. Nothing in it runs. A file may come from anybody: it is
decoded strictly (no unknown name, no other type, no missing field), and what the digest guards
against is damage, not forgery. Whoever rebuilds an object from a header checks its numbers like a
user's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np

from noisewright.arrays import Array
from noisewright.errors import FileFormatError
from noisewright.files import replacing_file

FORMAT_VERSION = 3
"""Of files: raised by whatever earlier releases would read wrongly."""
_MOST_KIND = 40  # characters of a kind that is shown: a file may say anything
_MOST_VERSION = 20  # the same of a version
_FIELD = "noisewright"
_DIGEST = "digest"
# bytes that say how long the header of a safetensors file is, and its alignment
_LENGTH = 8
_OLD_FIELDS = ("plan", "aggregate")  # headers of format version 1


class Header(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
):
    """What a file of one kind holds; every kind is one subclass with a tag."""


class AnyKind(msgspec.Struct, frozen=True):
    """The kind of a file, whichever it is."""

    kind: str


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format_version: int
    version: str
    content: msgspec.Raw


HeaderKind = TypeVar("HeaderKind", bound=Header)
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
Tensors = dict[str, Array]


# --- typed values as JSON and numbered tensors ----------------------------------------------------
#
# A struct says by the types of its fields what it holds. Numbers, texts, tuples, structs and
# dataclasses are msgspec's; an array is written as the number of a tensor, each content once.
# Rules of values stand in one place: where a value is made, in `__post_init__`.


def digest(*parts: str | bytes | Array) -> str:
    """A name for exactly these parts, in this order; arrays by type, shape and content."""
    total = hashlib.sha256()
    for part in parts:
        match part:
            case str():
                name, content = "text ", part.encode()
            case bytes():
                name, content = "bytes ", part
            case _:
                name = f"array {part.dtype.str} {part.shape} "
                content = np.ascontiguousarray(part).tobytes()
        total.update(f"{name}{len(content)}:".encode())
        total.update(content)

    return total.hexdigest()


def to_json_and_tensors(value: object) -> tuple[bytes, Tensors]:
    """JSON of a value, and the tensors that it names by number."""
    tensors: Tensors = {}
    numbers: dict[str, int] = {}

    def number_of(array: Any) -> int:
        if not isinstance(array, np.ndarray):
            raise NotImplementedError(f"{type(array).__name__} has no form in files")
        number = numbers.setdefault(digest(array), len(numbers))
        tensors[str(number)] = array
        return number

    return msgspec.json.encode(value, enc_hook=number_of, order="sorted"), tensors


def value_digest(value: object) -> str:
    """A name for a value, with the arrays in it."""
    text, tensors = to_json_and_tensors(value)
    return digest(text, *tensors.values())


def from_json_and_tensors(
    text: bytes | str | msgspec.Raw,
    tensors: Mapping[str, Array],
    kind: type | UnionType,
) -> Any:
    """The value of a type that JSON and tensors hold; raises what msgspec does, and our errors."""

    def tensor_of(field: Any, number: object) -> Array:
        # only arrays are types that msgspec does not know
        array = tensors.get(str(number)) if type(number) is int else None
        if array is None:
            raise FileFormatError("an array is missing")
        (scalar,) = get_args(get_args(field)[1])
        if scalar is not Any and array.dtype != scalar:
            rule = f"an array holds {array.dtype.name}, not {np.dtype(scalar).name}"
            raise FileFormatError(rule)

        return array

    value = msgspec.json.decode(text, type=kind, dec_hook=tensor_of)

    # Of dataclasses msgspec lets names pass that it does not know.
    understood = msgspec.to_builtins(value, enc_hook=lambda array: None)
    if _names(understood) != _names(msgspec.json.decode(text)):
        raise FileFormatError("it lacks names that it must hold, or has others")

    return value


def _names(plain: Any) -> Any:
    """The names in plain values, without what they stand for."""
    match plain:
        case dict():
            return {name: _names(part) for name, part in plain.items()}
        case list() | tuple():
            return [_names(part) for part in plain]
    return None


# --- files ----------------------------------------------------------------------------------------


def encode(header: Header) -> bytes:
    """The content of a file."""
    from safetensors.numpy import save

    from noisewright import __version__

    content, tensors = to_json_and_tensors(header)
    envelope = _Envelope(
        format_version=FORMAT_VERSION, version=__version__, content=msgspec.Raw(content)
    )
    text = msgspec.json.encode(envelope).decode()
    # Contiguous, for the format stores raw memory; one array at least, for it refuses none.
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    tensors = tensors or {"": np.zeros(1, dtype=np.int8)}

    metadata = {_FIELD: text, _DIGEST: _digest(text, tensors)}
    return _ordered(save(tensors, metadata=metadata))


def _ordered(encoded: bytes) -> bytes:
    """The same file, its header in order: the library that wrote it hashes names anew each time."""
    end = _LENGTH + int.from_bytes(encoded[:_LENGTH], "little")
    decoded = msgspec.json.decode(encoded[_LENGTH:end])
    header = msgspec.json.encode(decoded, order="sorted")
    header += b" " * (-len(header) % _LENGTH)
    return len(header).to_bytes(_LENGTH, "little") + header + encoded[end:]


def decode(
    content: bytes,
    kind: type[HeaderKind],
    name: str = "the file",
    remedy: str = "make it again",
) -> HeaderKind:
    """The header of a file's content, with its arrays."""
    header, arrays = unpacked(content, name, remedy)
    return understood(header, kind, name, remedy, arrays)


def unpacked(
    content: bytes, name: str, remedy: str
) -> tuple[msgspec.Raw, dict[str, Array]]:
    """The header of a file's content, not yet decoded, and its arrays."""
    metadata, arrays = _tensors(content, name, remedy)
    if _FIELD not in metadata:
        if any(field in metadata for field in _OLD_FIELDS):
            raise FileFormatError(f"{name}: was written before version 0.2; {remedy}")
        raise FileFormatError(f"{name}: is not a noisewright file; {remedy}")

    text = metadata[_FIELD]
    if metadata.get(_DIGEST) != _digest(text, arrays):
        raise FileFormatError(f"{name}: was damaged or edited; {remedy}")

    arrays.pop("", None)
    envelope = understood(text, _Envelope, name, remedy)
    if envelope.format_version != FORMAT_VERSION:
        raise FileFormatError(
            f"{name}: has format version {envelope.format_version}, this release reads "
            f"{FORMAT_VERSION}; use the release that wrote it ({envelope.version[:_MOST_VERSION]})"
        )

    return envelope.content, arrays


def understood(
    text: msgspec.Raw | str,
    kind: type[_Struct],
    name: str,
    remedy: str,
    tensors: Mapping[str, Array] | None = None,
) -> _Struct:
    """What a file says of itself, if it says it in this form and nothing beside."""
    try:
        if tensors is None:
            return msgspec.json.decode(text, type=kind)
        header: _Struct = from_json_and_tensors(text, tensors, kind)
        return header
    except RecursionError:
        why = "is nested too deeply"
    except (msgspec.MsgspecError, UnicodeError) as error:
        why = str(error)[:120]

    raise FileFormatError(f"{name}: its header is not understood ({why}); {remedy}")


def kind_of(path: str | Path) -> tuple[str, str]:
    """The kind of a file and the version that wrote it, by its own word; nothing else is read."""
    remedy = "give a file that noisewright wrote"
    metadata, _ = _tensors(content_of(path), str(path), remedy)
    try:
        envelope = msgspec.json.decode(metadata.get(_FIELD, ""), type=_Envelope)
        kind = msgspec.json.decode(envelope.content, type=AnyKind).kind
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        rule = "is not a noisewright file; check the path"
        raise FileFormatError(f"{path}: {rule}") from None

    return kind[:_MOST_KIND], envelope.version[:_MOST_VERSION]


def write(
    path: str | Path,
    header: Header,
    *,
    mode: int | None = None,
) -> None:
    """Write a file, whole or not at all; with a `mode`, who may read it."""
    content = encode(header)
    with replacing_file(path, mode=mode) as temporary:
        temporary.write_bytes(content)


def read(
    path: str | Path, kind: type[HeaderKind], remedy: str = "make it again"
) -> HeaderKind:
    """The header of a file, with its arrays."""
    return decode(content_of(path), kind, str(path), remedy)


def content_of(path: str | Path) -> bytes:
    """All that a file holds."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        why = "there is no such file"
    except OSError as error:
        why = f"cannot be read ({error.strerror or type(error).__name__})"

    raise FileFormatError(f"{path}: {why}; check the path")


class _TensorHeader(msgspec.Struct):
    """The one entry of safetensors' own header that is ours."""

    metadata: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


def _tensors(
    content: bytes, name: str, remedy: str
) -> tuple[dict[str, str], dict[str, Array]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
        header = msgspec.json.decode(content[_LENGTH:end], type=_TensorHeader)
    except (SafetensorError, msgspec.MsgspecError, ValueError, TypeError, KeyError):
        raise FileFormatError(
            f"{name}: is truncated, corrupt or no such file; {remedy}"
        ) from None

    return header.metadata, arrays


def _digest(text: str, arrays: Mapping[str, Array]) -> str:
    named = [part for name in sorted(arrays) for part in (name, arrays[name])]
    return digest(text, *named)
