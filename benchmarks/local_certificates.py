"""How far local plans are above what no unbiased linear estimate can beat: certified ratios.

python benchmarks/local_certificates.py [--effort low|normal|high] [--kept FILE] [WORKLOAD ...]

A line per workload: the certified ratio at ε = 1, 2, 3, 4, 6, with the first letters of its proof
(trace, prior, order, tables, sets, cuts), and the processor seconds of all plans together. No
strategy and no proof is cached. With --kept, finished figures are kept in a file, one line each, so
that a run that was ended goes on where it stopped; --table prints those at hand and plans nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path

import noisewright as nw
from noisewright.planning.local.plan import LocalPlan

BUDGETS = (1.0, 2.0, 3.0, 4.0, 6.0)
NAMED = (
    "prefix:64",
    "prefix:12*identity:5",
    "prefix:8*prefix:8",
    "random:20x64:0",
    "random:8x64:0",
    "ranges:64",
    "marginals:2^6:2",
    "parity:6:<=3",
    "parity:8:<=3",
    "prefix:256",
    "prefix:16*prefix:16",
    "prefix:512",
)
SMALL = 64

Figure = dict[str, object]
Figures = dict[tuple[str, float], Figure]


def figure(text: str, epsilon: float, effort: str | None) -> Figure:
    """Plan once: normal to 64 cells and high beyond, unless told."""
    effort = effort or ("normal" if nw.workload(text).size <= SMALL else "high")
    began = time.process_time()
    plan = nw.plan(
        text, nw.Privacy(epsilon=epsilon), nw.Local(effort=effort, cache=False)
    )
    facts = plan.summary()
    names = ("certified_ratio", "certificate", "sample_complexity")
    seconds = round(time.process_time() - began, 1)
    return {
        "workload": text,
        "epsilon": epsilon,
        "effort": effort,
        "quick_ratio": _quick_ratio(plan),
        "seconds": seconds,
    } | {name: facts[name] for name in names}


def _quick_ratio(plan: LocalPlan) -> float | None:
    """The same plan against the bounds that need no search of their own."""
    from noisewright.local.bounds.floors import best_bound

    bound = best_bound(plan.workload, plan.epsilon)
    return None if bound is None else bound.ratio(plan.analysis.worst_case)


def read(path: Path | None) -> Figures:
    """Figures of earlier runs."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {(line["workload"], line["epsilon"]): line for line in lines}


def row(text: str, figures: Figures) -> str:
    """A line of the table."""
    shown = f"{text:<22}"
    for epsilon in BUDGETS:
        one = figures.get((text, epsilon))
        ratio = None if one is None else one["certified_ratio"]
        word = "" if one is None else "none"
        shown += f"{word if ratio is None else f'{ratio:.4f} ' + str(one['certificate'])[:2]:>12}"
    seconds = sum(
        float(str(one["seconds"])) for (name, _), one in figures.items() if name == text
    )
    return f"{shown}{seconds:>10.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=NAMED)
    parser.add_argument(
        "--effort", help="normal to 64 cells and high beyond, unless told"
    )
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--kept", type=Path, help="a file of figures to go on with")
    parser.add_argument("--table", action="store_true", help="print what is kept")
    arguments = parser.parse_args()
    figures = read(arguments.kept)
    heads = "".join(f"{f'ε = {epsilon:g}':>12}" for epsilon in BUDGETS)
    print(f"{'workload':<22}{heads}{'seconds':>10}")
    for text in arguments.workloads:
        for epsilon in (
            () if arguments.table else missing(text, arguments.budgets, figures)
        ):
            figures[text, epsilon] = figure(text, epsilon, arguments.effort)
            if arguments.kept is not None:
                with arguments.kept.open("a", encoding="utf-8") as file:
                    file.write(
                        json.dumps(figures[text, epsilon], ensure_ascii=False) + "\n"
                    )
        print(row(text, figures), flush=True)


def missing(text: str, budgets: Iterable[float], figures: Figures) -> list[float]:
    """Budgets without a figure."""
    return [epsilon for epsilon in budgets if (text, epsilon) not in figures]


if __name__ == "__main__":
    main()
