"""Peak memory of writing a large release: in parts, and as one table with all of its text.

Run from the repository's root: `python benchmarks/large_result.py [ANSWERS]`. Each way runs in a
process of its own, since a peak never falls.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import noisewright as nw
from noisewright.domain import Categorical, Domain
from noisewright.files import write_table

WAYS = ("nothing", "parts", "one table")


def released(answers: int) -> nw.Release:
    """A table of three attributes with about so many cells, released."""
    size = round(answers ** (1 / 3))
    names = [f"an ordinary label {i}" for i in range(size)]
    domain = Domain([Categorical(name, names) for name in ("first", "second", "third")])
    questions = {"queries": [{"marginal": ["first", "second", "third"]}]}
    asked = nw.Workload.from_spec(questions, domain)
    plan = nw.plan(asked, nw.Privacy(rho=0.1), nw.Central(mechanism="gaussian"))
    release = plan.release(np.zeros(domain.size, dtype=np.int64))
    _ = release.intervals
    return release


def one(way: str, answers: int) -> None:
    """Write in one way and print the peak in MB."""
    release = released(answers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.parquet"
        if way == "parts":
            release.write(path)
        elif way == "one table":
            write_table(path, release.to_arrow())
        size = path.stat().st_size / 2**20 if path.exists() else 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{len(release)} {peak:.0f} {size:.0f}")


def main() -> None:
    answers = sys.argv[1] if len(sys.argv) > 1 else "5000000"
    if len(sys.argv) > 2:
        one(sys.argv[2], int(answers))
        return
    print("written as   answers      peak MB   above the release MB   file MB")
    before = 0.0
    for way in WAYS:
        run = subprocess.run(
            [sys.executable, __file__, answers, way],
            capture_output=True,
            text=True,
            check=True,
        )
        count, peak, size = map(float, run.stdout.split())
        before = before or peak
        print(
            f"{way:10} {count:12,.0f} {peak:10,.0f} {peak - before:16,.0f} {size:14,.0f}"
        )


if __name__ == "__main__":
    main()
