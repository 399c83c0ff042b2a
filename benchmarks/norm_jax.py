"""prefix:1024 at norm 2 against jax-privacy's dense optimiser.

Needs the `benchmarks` extra. Prints both times, both errors and the ratio.
"""

from __future__ import annotations

import time

import jax
import numpy as np
from jax_privacy.matrix_factorization import dense

import noisewright as nw

CELLS = 1024


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    began = time.perf_counter()
    strategy = np.asarray(dense.optimize(CELLS))
    jax_seconds = time.perf_counter() - began
    matrix = np.tril(np.ones((CELLS, CELLS)))
    rows = np.linalg.norm(matrix @ np.linalg.inv(strategy), axis=1)
    jax_error = float(np.sqrt(np.mean(rows**2)) * np.linalg.norm(strategy, axis=0).max())
    found = nw.factorize(f"prefix:{CELLS}")
    print(f"jax-privacy: {jax_seconds:.2f} s, rmse {jax_error:.6f}")
    print(f"noisewright: {found.seconds:.2f} s, rmse {found.value:.6f}, gap {found.gap:.1e}")
    print(f"ratio: {jax_seconds / found.seconds:.0f} times faster")


if __name__ == "__main__":
    main()
