"""Which kernels OpenBLAS runs: `python tests/kernels.py Haswell` says so, or what runs instead.

`OPENBLAS_CORETYPE` is a wish: kernels that the processor, or the library as it was built, does not
have are replaced without a word.
"""

from __future__ import annotations

import os
import subprocess
import sys

NAMES = {
    "Haswell": {"Haswell"},
    "Zen": {"Zen", "Haswell"},  # built without kernels of its own, they are Haswell's
    "SkylakeX": {"SkylakeX"},
    "Prescott": {"Prescott", "Katmai"},  # one set of kernels, under its oldest name
}
"""By what the library calls itself where it runs the kernels of a core type."""


def loaded() -> set[str]:
    """What the linear algebra of numpy and scipy runs here."""
    import numpy as np
    import scipy.linalg  # noqa: F401  # brings a library of its own
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    libraries = [
        library for library in threadpool_info() if library["user_api"] == "blas"
    ]
    return {str(library.get("architecture", "of no name")) for library in libraries}


def main() -> int:
    """Zero where every library runs the kernels of the core type that was named."""
    core = sys.argv[1]
    # read once, when the library is loaded
    if os.environ.get("OPENBLAS_CORETYPE") != core:
        wished = os.environ | {"OPENBLAS_CORETYPE": core}
        return subprocess.run(
            [sys.executable, __file__, core], env=wished, check=False
        ).returncode
    running = ", ".join(sorted(loaded()))
    if loaded() <= NAMES.get(core, {core}):
        print(f"OPENBLAS_CORETYPE={core}: {running}")
        return 0
    print(
        f"OPENBLAS_CORETYPE={core} could not be set: {running} runs here; not tested under it"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
