"""How often intervals hold the truth: kinds of question × steps after the noise × mechanisms.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py                 # all cases, 1,000 releases each
    OMP_NUM_THREADS=1 python benchmarks/coverage.py mean quantiles  # only these questions

`each` is how often an answer is inside its own 95 % interval and `error` the standard error of
that, `least` the same for the answer that is covered least, `all` how often all answers of a
release are inside the intervals that hold at once. `why` says what may be above 0.99.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

# what is covered does not depend on how good a plan is
os.environ["NOISEWRIGHT_EFFORT"] = "low"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from oracles.coverage import QUESTIONS, covered, mechanisms, reason, seed_of, steps

RELEASES = 1000
NAMES = ("question", "step", "mechanism", "releases", "answers")
FIGURES = ("each", "error", "least", "all")


def main() -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow([*NAMES, *FIGURES, "why"])
    for question in sys.argv[1:] or QUESTIONS:
        for mechanism in mechanisms(question):
            seed, wanted = seed_of(question, mechanism), steps(question, mechanism)
            for step, found in covered(
                question, mechanism, wanted, RELEASES, seed
            ).items():
                figures = [found.mean, found.error, found.least, found.joint]
                shown = [f"{figure:.4f}" for figure in figures]
                names = [question, step, mechanism, found.releases, found.each.shape[1]]
                writer.writerow([*names, *shown, reason(question, mechanism, step)])
                sys.stdout.flush()


if __name__ == "__main__":
    main()
