"""The list of local mechanisms, each stated beside its family.

Planning, comparison, the tests and the documentation all read it.
"""

from __future__ import annotations

from noisewright.local.choose import by_tables
from noisewright.local.composed import hierarchical
from noisewright.local.histogram import hashing, sets
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.optimise import optimised
from noisewright.local.transform import fourier, hadamard
from noisewright.local.vector import codebook, max_error, noisy_columns

MECHANISMS: dict[str, LocalMechanism] = {
    entry.name: entry
    for entry in (
        sets.RANDOMIZED_RESPONSE,
        sets.RAPPOR,
        sets.UNARY,
        hadamard.ENTRY,
        sets.SUBSET_SELECTION,
        hashing.ENTRY,
        hierarchical.ENTRY,
        fourier.ENTRY,
        by_tables.ENTRY,
        noisy_columns.MATRIX_L1,
        noisy_columns.MATRIX_L2,
        codebook.ONE_BIT,
        codebook.PRIVUNIT,
        max_error.ENTRY,
        optimised.ENTRY,
    )
}
