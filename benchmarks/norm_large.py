"""Large workloads: seconds, certified gap and peak memory, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

CASES = (
    ("ranges:1024", "inf", "1e-4"),
    ("prefix:4096", "2", "5e-7"),
    ("prefix:4096", "inf", "5e-7"),
    ("ranges:4096", "2", "5e-7"),
    ("*".join(["prefix:16"] * 7 + ["identity:4"]), "2", "5e-7"),
)
SCRIPT = """
import resource, sys, time
import noisewright as nw
nw.factorize("prefix:4")
began = time.perf_counter()
found = nw.factorize(sys.argv[1], sys.argv[2], tolerance=float(sys.argv[3]))
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"{sys.argv[1][:24]:24s} norm {sys.argv[2]:3s} value {found.value:9.5f} gap {found.gap:.1e} "
      f"{seconds:8.3f} s  peak {peak:.2f} GB  {found.iterations} steps")
"""


def main() -> None:
    for case in CASES:
        subprocess.run([sys.executable, "-c", SCRIPT, *case], check=True)


if __name__ == "__main__":
    main()
