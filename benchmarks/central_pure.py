"""Pure privacy: errors per unit of Laplace scale at ε = 1, bounds and seconds.

    OMP_NUM_THREADS=1 python benchmarks/central_pure.py          # root mean square, all rows
    python benchmarks/central_pure.py prefix:64 ranges:64        # only these
    python benchmarks/central_pure.py --max                      # the largest error instead

`value` is the Laplace strategy's error before rounding to integers and `measured` that of the
integers released; `reference` is the best of another tool known to us, `bound` a certified lower
bound on every linear strategy under Laplace noise, `L2` the one that Gaussian noise has too.
`carry` is the error of carry noise, which these bounds do not limit, and `c/m` over `measured`;
`seconds` are those of the strategy and of carry noise.
"""

from __future__ import annotations

import sys
import time

import noisewright as nw

PURE = nw.Privacy(epsilon=1)
DEVIATION = 2**0.5  # of Laplace noise of scale one
REFERENCE = {  # root mean square, largest
    "prefix:64": (3.763586, 4.603554),
    "prefix:256": (float("nan"),) * 2,
    "prefix:1024": (6.802995, 8.021279),
    "ranges:64": (3.926899, 5.622133),
    "ranges:256": (float("nan"),) * 2,
    "ranges:1024": (7.896205, 10.545346),
    "marginals:2^8:3": (5.656854, 5.656854),
    "allmarginals:2^8": (3.160494, 16.0),
    "prefix:16*prefix:16*identity:4": (6.613238, 9.972571),
    "identity:64": (1.0, 1.0),
}


def row(text: str, error: str, reference: float) -> None:
    began = time.perf_counter()
    plan = nw.plan(text, PURE, nw.Central(error=error, mechanism="laplace-strategy"))
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    carry = (
        nw.plan(text, PURE, nw.Central(error=error, mechanism="carry")).achieved
        / DEVIATION
    )
    more = time.perf_counter() - began
    planned = plan.proposal
    measured = plan.achieved / DEVIATION
    other = nw.factorize(text, norm=2).lower_bound
    print(
        f"{text:32s} {planned.value:9.5f} {measured:9.5f} {reference:9.5f} "
        f"{measured / reference:9.5f} {planned.bound:9.5f} "
        f"{measured / planned.bound:8.4f} {other:9.5f} {measured / other:8.4f} "
        f"{carry:9.5f} {carry / measured:7.4f} {seconds:8.2f} {more:8.2f}",
        flush=True,
    )


def main() -> None:
    largest = "--max" in sys.argv
    chosen = [text for text in sys.argv[1:] if text != "--max"] or list(REFERENCE)
    nw.plan("prefix:4", PURE)  # imports are not part of anyone's seconds
    print(f"{'workload':32s} {'value':>9s} {'measured':>9s} {'reference':>9s} {'m/ref':>9s} "
          f"{'bound':>9s} {'m/bound':>8s} {'L2':>9s} {'m/L2':>8s} "
          f"{'carry':>9s} {'c/m':>7s} {'seconds':>8s} {'carry':>8s}")  # fmt: skip
    for text in chosen:
        reference = REFERENCE.get(text, (float("nan"),) * 2)[largest]
        row(text, "max" if largest else "rmse", reference)


if __name__ == "__main__":
    main()
