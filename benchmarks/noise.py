"""Draws per second of the exact samplers, and their ratio to OpenDP's discrete Gaussian."""

from __future__ import annotations

import time
from collections.abc import Callable

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

from noisewright.privacy.noise.integers import discrete_laplace, rounded_gaussian

DRAWS = 1_000_000
OPENDP_DRAWS = 20_000
SCALES = (1.0, 1000.3, 1e6)


def rate(draw: Callable[[int], object], count: int) -> float:
    """Draws per second, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        draw(count)
        best = min(best, time.perf_counter() - start)
    return count / best


def opendp_sampler(law: str, scale: float) -> Callable[[int], object]:
    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if law == "laplace":
        measurement = make_laplace(integers, l1_distance(T="i64"), scale=scale)
    else:
        measurement = make_gaussian(
            integers, l2_distance(T=float), scale=scale, MO="ZeroConcentratedDivergence"
        )
    return lambda count: measurement([0] * count)


def main() -> None:
    rounded_gaussian(1.0, 1), discrete_laplace(1.0, 1)  # build the tables once
    print(f"{'law':<18}{'scale':>10}{'draws/s':>14}{'OpenDP draws/s':>17}{'ratio':>9}")
    for scale in SCALES:
        gaussian = rate(opendp_sampler("gaussian", scale), OPENDP_DRAWS)
        laplace = rate(opendp_sampler("laplace", scale), OPENDP_DRAWS)
        for name, sampler, other in (
            ("rounded-gaussian", rounded_gaussian, gaussian),
            ("discrete-laplace", discrete_laplace, laplace),
        ):
            ours = rate(lambda count, draw=sampler, s=scale: draw(s, count), DRAWS)
            print(
                f"{name:<18}{scale:>10g}{ours:>14,.0f}{other:>17,.0f}{ours / other:>9.0f}"
            )


if __name__ == "__main__":
    main()
