from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from noisewright import container
from noisewright.container import Header
from noisewright.errors import FileFormatError


class Apple(Header, tag="apple"):
    weight: float
    names: tuple[str, ...] = ()


class Pear(Header, tag="pear"):
    count: int


Fruit = Apple | Pear
ARRAYS = {"a": np.arange(6).reshape(2, 3), "b": np.array([1.5, -2.0])}


@pytest.mark.parametrize("header", [Apple(weight=1.5, names=("x",)), Pear(count=3)])
@pytest.mark.parametrize("arrays", [{}, ARRAYS])
def test_what_is_written_is_read(tmp_path: Path, header: Header, arrays: dict) -> None:
    container.write(tmp_path / "f.nw", header, arrays)
    again, held = container.read(tmp_path / "f.nw", Fruit)
    assert again == header
    assert held.keys() == arrays.keys()
    for name in arrays:
        assert held[name].dtype == arrays[name].dtype
        np.testing.assert_array_equal(held[name], arrays[name])


def test_equal_content_is_equal_bytes() -> None:
    turned = {"b": ARRAYS["b"], "a": np.asfortranarray(ARRAYS["a"])}
    header = Pear(count=3)
    first, second = container.encode(header, ARRAYS), container.encode(header, turned)
    assert container.decode(first, Pear)[0] == container.decode(second, Pear)[0]
    assert _digest_of(first) == _digest_of(second)
    assert (
        len({first, second, *(container.encode(header, ARRAYS) for _ in range(20))})
        == 1
    )


def _digest_of(content: bytes) -> str:
    length = int.from_bytes(content[:8], "little")
    return msgspec.json.decode(content[8 : 8 + length])["__metadata__"]["digest"]


def test_every_flipped_byte_is_noticed() -> None:
    content = container.encode(Apple(weight=2.0), ARRAYS)
    for place in range(len(content)):
        forged = bytearray(content)
        forged[place] ^= 1
        with pytest.raises(FileFormatError):
            container.decode(bytes(forged), Fruit)


@pytest.mark.parametrize("length", [0, 7, 8, 40, -1])
def test_truncated_content_is_refused(length: int) -> None:
    with pytest.raises(FileFormatError):
        container.decode(container.encode(Pear(count=1), ARRAYS)[:length], Fruit)


def test_another_kind_is_refused() -> None:
    with pytest.raises(FileFormatError, match="not understood"):
        container.decode(container.encode(Apple(weight=1.0)), Pear)


class Loose(msgspec.Struct, tag="pear", tag_field="kind"):
    count: object
    extra: int | None = None


@pytest.mark.parametrize(
    "forged",
    [Loose("3"), Loose(1.5), Loose(None), Loose(1, extra=2), Loose([[[[1]]]])],
)
def test_decoding_is_strict(forged: Loose) -> None:
    with pytest.raises(FileFormatError):
        container.decode(container.encode(forged), Fruit)  # type: ignore[arg-type]


def test_other_files_are_refused_in_words(tmp_path: Path) -> None:
    from safetensors.numpy import save

    with pytest.raises(FileFormatError, match="no such file"):
        container.read(tmp_path / "absent", Fruit)
    with pytest.raises(FileFormatError, match="cannot be read"):
        container.read(tmp_path, Fruit)
    old = save(ARRAYS, metadata={"plan": "{}", "digest": ""})
    with pytest.raises(FileFormatError, match=r"before version 0.2; plan again"):
        container.decode(old, Fruit, remedy="plan again")
    with pytest.raises(FileFormatError, match="not a noisewright file"):
        container.decode(save(ARRAYS), Fruit)


def test_digests_tell_where_a_part_ends() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), (b"ab", "c"), (np.array([1, 2]),)]
    parts += [
        (np.array([[1], [2]]),),
        (np.array([1.0, 2.0]),),
        (np.array([1], dtype=">i8"),),
    ]
    assert len({container.digest(*each) for each in parts}) == len(parts)
