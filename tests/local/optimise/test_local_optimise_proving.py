"""Strategy and proof in turn: neither gets worse, whatever the other says, and both can be kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noisewright.local.analysis.grams import table_gram
from noisewright.local.choose.options import Local
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.listed import MatrixStrategy
from noisewright.local.optimise.dense.growth import Growth
from noisewright.local.optimise.dense.refining import refined
from noisewright.local.optimise.dense.search import Effort, Question, search
from noisewright.local.optimise.kept import Cache
from noisewright.local.optimise.optimised import Control
from noisewright.local.optimise.proof_race import ProofRace
from noisewright.local.optimise.proving import proven
from noisewright.local.optimise.run import optimise
from noisewright.local.work import SECOND
from noisewright.planning.local import make as local_make
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload

ASKED, EPSILON = workload("prefix:4*prefix:4"), 4.0
QUICK = Growth(up_to=64, work=3 * SECOND)


@pytest.fixture(scope="module")
def rough():
    """A short descent only: a design that grows would be next to the best already."""
    gram = table_gram(ASKED).dense()
    asked = Question(gram, EPSILON, np.full(16, 1 / 16), worst_case=True)
    effort = Effort(growth=Growth(up_to=0), rows_per_cell=2, iterations=5)
    design, prior = search(asked, effort, np.random.default_rng(0), Control())
    return MatrixStrategy.from_chances(design.chances(), EPSILON, prior)


@pytest.fixture(scope="module")
def proof(rough):
    race = ProofRace.of(table_gram(ASKED), rough).proofs()
    return max((next(race) for _ in range(3)), key=lambda pair: pair[0])[1]


def test_a_proof_leads_to_a_better_strategy(rough, proof):
    gram = table_gram(ASKED)
    better = refined(gram, rough, proof, QUICK, Control())
    assert better.worst_variance(gram) < 0.9 * rough.worst_variance(gram)
    assert better.loss.epsilon <= EPSILON
    assert better.two_valued


def test_a_proof_that_says_nothing_makes_no_strategy_worse(rough, proof):
    gram, rng = table_gram(ASKED), np.random.default_rng(0)
    wrong = replace(
        proof, factor=rng.standard_normal(proof.factor.shape), prices=-proof.prices
    )
    other = refined(gram, rough, wrong, QUICK, Control())
    assert other.worst_variance(gram) <= rough.worst_variance(gram)


def test_strategy_and_proof_meet():
    gram = table_gram(ASKED)
    heard = []
    first = optimise(ASKED, EPSILON, effort="low", cache=False).strategy
    strategy, found = proven(ASKED, first, 0.0, "normal", 1.02, told=heard.append)
    assert found is not None
    ratio = strategy.worst_variance(gram) / found.variance(gram.dense(), EPSILON)
    assert 1.0 - 1e-9 <= ratio <= 1.02
    assert heard[-1] == pytest.approx(ratio)


def planned(folder):
    return local_make.plan_local(
        workload("prefix:12"), Privacy(4.0), Local(effort="normal", cache=folder)
    )


def test_what_was_found_together_is_kept_together(tmp_path, monkeypatch):
    from noisewright.local.optimise import proving

    first = planned(tmp_path)
    monkeypatch.setattr(proving, "proven", lambda *_: pytest.fail("it was kept"))
    again = planned(tmp_path)
    np.testing.assert_array_equal(again.strategy.dense(), first.strategy.dense())
    assert again.summary()["certified_ratio"] == first.summary()["certified_ratio"]


def test_a_kept_strategy_that_is_less_private_is_not_used(tmp_path):
    first = planned(tmp_path)
    (kept,) = tmp_path.glob("*.proof.safetensors")
    question = kept.name.removesuffix(".proof.safetensors")
    Cache(tmp_path).save(question, RandomizedResponse(12, 8.0), "optimised")
    again = planned(tmp_path)
    assert again.privacy.epsilon == first.privacy.epsilon == 4.0
    assert again.summary()["certified_ratio"] >= 1 - 1e-9
