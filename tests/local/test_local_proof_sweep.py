"""Certificates of every kind against the optimum over all strategies, and on every set of cells.

Each workload has at most eight cells, with offsets, scales and repeated rows, at a budget from 0.1
to 8. Floors that need no search, proofs as the planner finds them, the same with a part moved, and
numbers that merely have the form of a proof: none may lie above what the best strategy needs.
"""

from __future__ import annotations

import numpy as np
import pytest

from local import test_local_cut_proof as cuts
from local import test_local_set_proof as sets
from local.test_local_bound_sweep import badly_placed
from noisewright.local.analysis.grams import table_gram
from noisewright.local.bounds.floors import floors
from noisewright.local.bounds.trace import prior_bound
from noisewright.workload.kinds.explicit import Explicit
from oracles.local_optimum import optimum

TINY = 1e-9
MOST_CELLS = 8
DAMAGED, INVENTED = 3, 2


def certificates(seed):
    """Check all certificates of one workload; returns how many there were."""
    matrix, epsilon = badly_placed(seed, MOST_CELLS)
    asked, rng = Explicit(matrix), np.random.default_rng([seed, 9])
    gram, least = table_gram(asked).dense(), optimum(matrix, epsilon).above
    prior = rng.dirichlet(np.ones(asked.size))
    variances = [floor.variance for floor in floors(asked, epsilon, table_gram(asked))]
    variances.append(prior_bound(asked, epsilon, prior).variance)
    for kind in (sets, cuts):
        proofs = [kind.invented(asked.size, rng) for _ in range(INVENTED)]
        proof = kind.found(asked, epsilon)
        if proof is not None:
            proofs += [proof, *(kind.damaged(proof, rng) for _ in range(DAMAGED))]
        assert max(kind.breach(one, epsilon) for one in proofs) <= TINY
        variances += [one.variance(gram, epsilon) for one in proofs]
    assert max(variances) <= least * (1 + TINY)
    return len(variances)


@pytest.mark.parametrize("seed", range(4))
def test_no_certificate_lies_above_the_optimum(seed):
    assert certificates(1000 + seed) >= 6


@pytest.mark.slow
# where nobody is told apart there is no proof
@pytest.mark.parametrize("block", range(22))
def test_no_certificate_of_five_thousand_lies_above_the_optimum(block):
    assert sum(certificates(seed) for seed in range(20 * block, 20 * block + 20)) >= 230
