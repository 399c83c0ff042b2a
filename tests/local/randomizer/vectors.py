"""What clients in other languages are tested against: writes clients/vectors.json when run.

PYTHONPATH=src:tests python tests/local/randomizer/vectors.py
"""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from local.randomizer.cases import Stream, whole
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.randomizer.laws import Parity
from noisewright.local.randomizer.specification import Nodes, decode, encode
from noisewright.local.randomizer.verify import verify
from noisewright.local.reports.format import ReportFormat

PATH = Path(__file__).parents[3] / "clients" / "vectors.json"
_REPORTS = 12


def specifications():
    """Every kind without continuous noise, small and large, and what no strategy has."""
    for name, strategy in whole().items():
        yield name, ReportFormat(strategy, "0123abcd").specification
    yield "large-hadamard", large_hadamard()
    yield "bits-below-a-draw", bits_below_a_draw()


def large_hadamard():
    """Halves of Hadamard rows over more cells than any strategy offers."""
    nodes = Nodes()
    owner = Parity(cells=2**20 - 3, width=2**19, blocks=4)
    nodes.favour(9472756646864840604, owner)
    return replace(nodes.specification(), meaning="0123abcd")


def bits_below_a_draw():
    """A number, then bits or coordinates: a draw of every law whose report is not a number."""
    nodes = [
        {"op": "subset", "cells": 11, "size": 4, "threshold": str(2**62 + 12345)},
        {"op": "flip", "cells": 11, "own": str(2**63), "other": str(2**61 + 1)},
        {"op": "grid", "columns": [[i, -i] for i in range(11)], "law": "discrete-laplace",
         "scale": ["7", "2"]},
        {"op": "favour", "threshold": str(2**61), "owner": {"by": "self", "cells": 11}},
        {"op": "draw", "weights": [str(2**61), str(2**61), "0", str(2**62), str(2**63)],
         "of": [3, 0, 3, 1, 2]},
        {"op": "project", "cells": "100", "base": 11, "digits": 2, "of": 4},
    ]  # fmt: skip
    start = {"format": "noisewright-randomizer", "version": 1, "meaning": ""}
    return decode(json.dumps({**start, "report_bytes": 18, "nodes": nodes}))


def edges(specification):
    """First bytes at which something turns: zeros, ones, and each threshold and the word below."""
    yield from (b"", bytes(64), b"\xff" * 8)
    for node in specification.nodes[:3]:
        if hasattr(node, "threshold"):
            limit = int(node.threshold)
            yield from (limit.to_bytes(8, "little"), (limit - 1).to_bytes(8, "little"))


def vectors(name, specification):
    """[value, random bytes that are read, report] by values and edges."""
    starts = list(edges(specification))
    for index in range(max(_REPORTS, len(starts))):
        stream = Stream(
            f"{name}/{index}", starts[index] if index < len(starts) else b""
        )
        last = specification.cells - 1
        value = (0, last, index * 7919 % specification.cells)[index % 3]
        report = interpret(specification, value, stream)
        yield [str(value), stream.read.hex(), report.hex()]


def document():
    """All of it as JSON text, one case a line."""
    lines = []
    for name, specification in specifications():
        promise = verify(specification)
        case = {
            "name": name,
            "epsilon": promise.epsilon,
            "ratio": promise.ratio
            and [str(promise.ratio.numerator), str(promise.ratio.denominator)],
            "digest": specification.digest,
            "specification": json.loads(encode(specification)),
            "reports": list(vectors(name, specification)),
        }
        lines.append(json.dumps(case, separators=(",", ":")))
    return '{"format":"noisewright-vectors","cases":[\n' + ",\n".join(lines) + "\n]}\n"


if __name__ == "__main__":
    PATH.write_text(document())
