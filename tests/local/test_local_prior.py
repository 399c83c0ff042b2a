"""Reports decoded for a guess of the data: X at any prior, and still no bias."""

from __future__ import annotations

import numpy as np
import pytest

from local.strategies import SMALL
from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.listed import Decoded
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import IndexStrategy
from noisewright.workload import workload
from oracles.privacy_oracles import SeededSource

LISTED = [
    name for name, strategy in SMALL.items() if isinstance(strategy, IndexStrategy)
]


def guess_for(size):
    guess = np.arange(1.0, size + 1) ** 2
    return guess / guess.sum()


@pytest.mark.parametrize("name", LISTED)
def test_the_best_reconstruction_for_a_prior(name):
    inner = SMALL[name]
    guess = guess_for(inner.size)
    strategy = Decoded(inner, guess)
    q = inner.dense()
    q = q[q.max(axis=1) > 0]
    x = q.T @ np.diag(1 / (q @ guess)) @ q
    np.testing.assert_allclose(strategy.information.dense(), x, atol=1e-10)
    w = workload(f"prefix:{inner.size}").dense()
    v = w @ np.linalg.pinv(x, hermitian=True) @ q.T @ np.diag(1 / (q @ guess))
    variances = (v**2).sum(axis=0) @ q - (w**2).sum(axis=0)
    analysis = Analysis(strategy, workload(f"prefix:{inner.size}"))
    np.testing.assert_allclose(analysis.type_variances, variances, rtol=1e-6, atol=1e-8)
    plain = Analysis(inner, workload(f"prefix:{inner.size}")).type_variances
    assert guess @ variances <= guess @ plain * (1 + 1e-9)
    np.testing.assert_allclose(analysis.reconstruction() @ inner.dense(), w, atol=1e-8)
    assert strategy.loss.epsilon <= strategy.epsilon


def test_storage_and_clients():
    inner = SMALL["hadamard"]
    strategy = Decoded(inner, guess_for(inner.size))
    again = unpack(*pack(strategy))
    np.testing.assert_array_equal(again.prior, strategy.prior)
    values = np.arange(50) % inner.size
    np.testing.assert_array_equal(
        again.randomize(values, SeededSource(1)),
        inner.randomize(values, SeededSource(1)),
    )
    for bad in (np.ones(3), np.zeros(inner.size)):
        with pytest.raises(InvalidParameter):
            Decoded(inner, bad)
    settings, arrays = pack(SMALL["unary"])
    with pytest.raises(InvalidParameter, match="listed"):
        unpack(
            {"kind": "decoded", "strategy": settings}, {**arrays, "guess": guess_for(6)}
        )
    with pytest.raises(FileFormatError):
        unpack({"kind": "decoded"}, {})
