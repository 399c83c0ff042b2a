from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

from noisewright import container
from noisewright.arrays import Array, FloatArray
from noisewright.container import Header
from noisewright.errors import FileFormatError
from oracles.plan_parts import read_parts, write_parts


class Apple(Header, tag="apple"):
    weight: float
    names: tuple[str, ...] = ()
    arrays: dict[str, Array] = msgspec.field(default_factory=dict)


class Pear(Header, tag="pear"):
    count: int


@dataclass(frozen=True)
class Core:
    seeds: FloatArray
    more: tuple[FloatArray, ...] = ()


class Plum(Header, tag="plum"):
    core: Core | None


Fruit = Apple | Pear | Plum
ARRAYS = {"a": np.arange(6).reshape(2, 3), "b": np.array([1.5, -2.0])}


@pytest.mark.parametrize("arrays", [{}, ARRAYS])
def test_what_is_written_is_read(tmp_path: Path, arrays: dict) -> None:
    header = Apple(weight=1.5, names=("x",), arrays=arrays)
    container.write(tmp_path / "f.nw", header)
    again = container.read(tmp_path / "f.nw", Fruit)
    assert isinstance(again, Apple)
    assert (again.weight, again.names) == (1.5, ("x",))
    assert again.arrays.keys() == arrays.keys()
    for name in arrays:
        assert again.arrays[name].dtype == arrays[name].dtype
        np.testing.assert_array_equal(again.arrays[name], arrays[name])


def test_equal_content_is_equal_bytes() -> None:
    turned = {"b": ARRAYS["b"], "a": np.asfortranarray(ARRAYS["a"])}
    headers = [Apple(weight=2.0, arrays=arrays) for arrays in (ARRAYS, turned)]
    assert len({container.encode(header) for header in headers * 10}) == 1
    assert len({container.value_digest(header) for header in headers}) == 1


def test_arrays_are_found_wherever_they_stand_and_are_kept_once(tmp_path: Path) -> None:
    seeds = np.array([1.0, 2.0])
    core = Core(seeds, (seeds.copy(), np.array([3.0]), seeds))
    container.write(tmp_path / "f.nw", Plum(core=core))
    content, arrays = read_parts(tmp_path / "f.nw")
    assert content["core"] == {"seeds": 1, "more": [1, 0, 1]} or content["core"] == {
        "seeds": 0,
        "more": [0, 1, 0],
    }
    assert sorted(arrays) == ["0", "1"]

    again = container.read(tmp_path / "f.nw", Plum).core
    assert again is not None
    np.testing.assert_array_equal(again.seeds, seeds)
    assert [part.tolist() for part in again.more] == [[1, 2], [3], [1, 2]]


@pytest.mark.parametrize(
    "core",
    [
        {"seeds": 1, "more": []},  # holds whole numbers
        {"seeds": 2, "more": []},  # is none
        {"seeds": -1, "more": []},
        {"seeds": "0", "more": []},
        {"seeds": False, "more": []},
        {"seeds": 0.0, "more": []},
        {"seeds": None, "more": []},
        {"seeds": [0], "more": []},
        {"more": []},
        {"seeds": 0, "more": [], "most": []},
    ],
)
def test_fields_of_other_types_and_unknown_names_are_refused(
    tmp_path: Path, core: object
) -> None:
    arrays = {"0": np.array([1.0]), "1": np.array([1])}
    sound = {"kind": "plum", "core": {"seeds": 0, "more": [0]}}
    write_parts(tmp_path / "f.nw", sound, arrays)
    assert container.read(tmp_path / "f.nw", Fruit)
    write_parts(tmp_path / "f.nw", {**sound, "core": core}, arrays)
    with pytest.raises(FileFormatError):
        container.read(tmp_path / "f.nw", Fruit)


def test_every_flipped_byte_is_noticed() -> None:
    content = container.encode(Apple(weight=2.0, arrays=ARRAYS))
    for place in range(len(content)):
        forged = bytearray(content)
        forged[place] ^= 1
        with pytest.raises(FileFormatError):
            container.decode(bytes(forged), Fruit)


@pytest.mark.parametrize("length", [0, 7, 8, 40, -1])
def test_truncated_content_is_refused(length: int) -> None:
    with pytest.raises(FileFormatError):
        container.decode(
            container.encode(Apple(weight=2.0, arrays=ARRAYS))[:length], Fruit
        )


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
