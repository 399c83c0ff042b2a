"""The list of local mechanisms, each stated beside its family.

Planning, comparison, the tests and the documentation all read it.
"""

from __future__ import annotations

from noisewright.local.approximate import max_error
from noisewright.local.choose import by_tables
from noisewright.local.composed import hierarchical
from noisewright.local.histogram import hashing, sets, unary
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.optimise import optimised
from noisewright.local.transform import fourier, hadamard
from noisewright.local.vector import codebook, noisy_columns

MECHANISMS: dict[str, LocalMechanism] = {
    entry.name: entry
    for entry in (
        sets.RANDOMIZED_RESPONSE,
        unary.RAPPOR,
        unary.UNARY,
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
