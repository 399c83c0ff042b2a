"""Specifications from anybody: refused, or as private as the verifier says."""

from __future__ import annotations

import copy
import json
import random
from fractions import Fraction

import pytest

from local.randomizer.cases import KINDS, VECTORS
from local.randomizer.vectors import bits_below_a_draw
from noisewright.errors import FileFormatError, InvalidParameter, TooLarge
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.randomizer import specification as room
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.randomizer.specification import decode, encode
from noisewright.local.randomizer.verify import verify
from noisewright.local.reports.format import ReportFormat, exported
from oracles import randomizer_law

MUTATED = [
    "matrix", "randomized-response", "subset-selection", "rappor", "listed-subsets", "hadamard-2",
    "fourier-ragged", "mixture", "tree", "local-hashing-2", "orbits-mixed", "orbits-flat",
    "coarse-fine", "parts", "union",
]  # fmt: skip
_EACH = 120


def documents():
    for name in MUTATED:
        yield (
            name,
            json.loads(encode(ReportFormat(KINDS[name], "meaning").specification)),
        )
    yield "vector", json.loads(encode(VECTORS["vector"].specification))
    yield "bits", json.loads(encode(bits_below_a_draw()))


def places(part, path=()):
    """Paths to everything inside a document."""
    inner = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in inner:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def mutated(document, rng):
    """A copy with one thing changed that somebody might change to learn more, or to break us."""
    result = copy.deepcopy(document)
    *path, key = rng.choice(list(places(result)))
    home = result
    for step in path:
        home = home[step]
    value = home[key]
    if rng.random() < 0.1:
        if isinstance(home, dict):
            home.pop(key) if rng.random() < 0.5 else home.update(extra=1)
        else:
            home.insert(key, copy.deepcopy(rng.choice(home)))
    elif isinstance(value, int):
        home[key] = rng.choice(
            [value + 1, value - 1, 0, -1, 1, 2 * value, 2**52, 2**70, str(value)]
        )
    elif isinstance(value, str) and value.isdigit():
        n = int(value)
        changed = [
            n + 1,
            n - 1,
            0,
            -n,
            2**64,
            2**64 - 1,
            2**63,
            n // 2,
            2**130,
            1,
            f"0{n}",
            f"{n} ",
        ]
        home[key] = str(rng.choice(changed)) if rng.random() < 0.95 else n
    elif isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        home[key] = (
            value[:at]
            + rng.choice(["A", "/", "=", "self", "\n", "é", ""])
            + value[at + 1 :]
        )
    elif isinstance(value, list) and value:
        home[key] = rng.choice(
            [value[:-1], value + value[-1:], value[::-1], [], None, value[0]]
        )
    else:
        home[key] = rng.choice([None, 7, [], "x"])
    return result


def mutants():
    rng = random.Random(20)
    for name, document in documents():
        for _ in range(_EACH):
            yield name, mutated(document, rng)


def accepted(document):
    try:
        return decode(json.dumps(document))
    except (FileFormatError, InvalidParameter):
        return None


def listable(specification):
    """Whether the oracle can write out every report under every cell."""
    kinds = {type(law).__name__ for law in specification.laws}
    bits = bool(kinds & {"Subset", "Flip"})
    size = specification.cells * specification.shapes[-1].outcomes
    cells = [shape.cells for shape in specification.shapes]
    return "Grid" not in kinds and max(cells) <= (9 if bits else 64) and size < 2**13


def test_what_is_accepted_is_as_private_as_the_verifier_says():
    checked = refused = 0
    for name, document in mutants():
        specification = accepted(document)
        if specification is None:
            refused += 1
            continue
        assert decode(encode(specification)) == specification
        promise = verify(specification)
        interpret(
            specification, specification.cells - 1
        ) if specification.cells < 2**20 else None
        if listable(specification):
            ratio = randomizer_law.worst_ratio(json.loads(encode(specification)))
            assert 1 <= ratio <= promise.ratio, (name, document)
            checked += 1
    assert checked > 100
    assert refused > 500


def changed(document, *path_and_value):
    *path, key, value = path_and_value
    result = copy.deepcopy(document)
    home = result
    for step in path:
        home = home[step]
    home[key] = value
    return result


RESPONSE = json.loads(encode(RandomizedResponse(5, 1.0).specification))
ROWS = {"by": "rows", "cells": 2, "outcomes": 4, "rows": "wDA="}
"""Cell 0 owns the first two outcomes, cell 1 the others."""
FAVOUR = changed(RESPONSE, "nodes", 0, "owner", ROWS)
WEIGH = {"op": "weigh", "cells": 2, "rows": [[str(2**61)] * 2, [str(2**61)] * 2]}


def nodes(*listed):
    return changed(RESPONSE, "nodes", list(listed))


@pytest.mark.parametrize(
    "document",
    [
        changed(RESPONSE, "version", 2),
        changed(RESPONSE, "format", "other"),
        changed(RESPONSE, "meaning", 'a"b'),
        changed(RESPONSE, "meaning", "a" * 201),
        changed(RESPONSE, "report_bytes", 0),
        changed(RESPONSE, "report_bytes", 9),
        changed(RESPONSE, "nodes", []),
        changed(RESPONSE, "nodes", 0, "threshold", str(2**64)),
        changed(RESPONSE, "nodes", 0, "threshold", "0"),
        changed(RESPONSE, "nodes", 0, "threshold", 5),
        changed(RESPONSE, "nodes", 0, "owner", "cells", 1),
        changed(RESPONSE, "nodes", 0, "owner", "cells", 257),  # beyond one byte
        changed(FAVOUR, "nodes", 0, "owner", "rows", "wHA="),  # cell 1 owns three
        changed(FAVOUR, "nodes", 0, "owner", "rows", "wDE="),  # a stray bit
        changed(FAVOUR, "nodes", 0, "owner", "rows", "8PA="),  # nothing is another's
        changed(FAVOUR, "nodes", 0, "owner", "cells", 2**52),
        nodes(RESPONSE["nodes"][0], RESPONSE["nodes"][0]),  # unused
        nodes({"op": "draw", "weights": [str(2**64)], "of": [0]}),  # itself
        nodes(RESPONSE["nodes"][0], {"op": "draw", "weights": [str(2**64)], "of": [2]}),
        nodes(RESPONSE["nodes"][0], {"op": "draw", "weights": [str(2**64 - 1)], "of": [0]}),
        nodes(WEIGH, RESPONSE["nodes"][0],
              {"op": "draw", "weights": [str(2**63)] * 2, "of": [0, 1]}),  # other cells
        nodes(changed(WEIGH, "rows", 0, 0, str(2**61 + 1))),
        nodes(changed(WEIGH, "rows", [[str(2**62), "0"], ["0", str(2**62)]])),
        nodes(changed(WEIGH, "rows", [[str(2**63)] * 2] * 2)),
        nodes(changed(WEIGH, "rows", [[str(2**62)] * 2] * 5)),  # right only modulo 2^64
        nodes(changed(WEIGH, "cells", 2**52)),
    ],
)  # fmt: skip
def test_broken_rules_are_refused(document):
    with pytest.raises(FileFormatError):
        decode(json.dumps(document))


def test_sound_ones_are_not():
    for document in (RESPONSE, FAVOUR, nodes(WEIGH)):
        assert verify(decode(json.dumps(document))).exact


def test_doubling_draws_do_not_grow_without_bound():
    listed = [RESPONSE["nodes"][0]]
    for place in range(200):
        half = [str(2**63)] * 2
        listed.append({"op": "draw", "weights": half, "of": [place, place]})
    with pytest.raises(FileFormatError, match=r"2\^53"):
        decode(json.dumps(changed(RESPONSE, "nodes", listed)))


def test_long_chains_need_no_deep_stack():
    view = {"by": "blocks", "domain": "5", "width": 1}
    listed = [RESPONSE["nodes"][0]]
    listed += [{"op": "view", "of": place, "through": view} for place in range(20_000)]
    specification = decode(json.dumps(changed(RESPONSE, "nodes", listed)))
    assert verify(specification).epsilon == 1.0
    assert len(interpret(specification, 4)) == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"x"', "\ud800", b"\xff\xfe", "[" * 100_000]
)
def test_what_is_not_json_is_refused(text):
    with pytest.raises(FileFormatError):
        decode(text)


def test_long_texts_are_refused_before_they_are_read(monkeypatch):
    specification = KINDS["matrix"].specification
    text = encode(specification)
    monkeypatch.setattr(room, "LARGEST_TEXT", len(text) - 1)
    with pytest.raises(FileFormatError, match="at most"):
        decode(text)
    with pytest.raises(TooLarge, match="mechanism"):
        encode(specification)


def test_the_digest_names_the_content_alone():
    specification = ReportFormat(KINDS["parts"], "meaning").specification
    spaced = json.dumps(json.loads(encode(specification)), indent=3, sort_keys=False)
    assert decode(spaced).digest == specification.digest
    assert (
        ReportFormat(KINDS["parts"], "other").specification.digest
        != specification.digest
    )


def test_a_plan_that_spends_more_than_it_says_is_not_exported():
    class Boastful(RandomizedResponse):
        threshold = 2**64 - 2**40

    strategy = Boastful(5, 1.0)
    assert verify(strategy.specification).ratio > Fraction(3)
    with pytest.raises(InvalidParameter, match="spend"):
        exported(ReportFormat(strategy))
