"""Many reports at once: the laws of `interpret`, in another order of random bytes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from local.randomizer.cases import KINDS, VECTORS, large, whole
from local.randomizer.vectors import bits_below_a_draw
from local.strategies import listed_reports
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.randomizer import batch, interpret, outcomes
from noisewright.local.randomizer.batch import Sampler, check_values
from noisewright.local.randomizer.chances import report_chances
from noisewright.local.randomizer.laws import Favour
from noisewright.local.randomizer.routers import Axes, Project, View
from noisewright.local.reports.tallies import tally_of
from oracles.privacy_oracles import SeededSource

PEOPLE = 40_000
SMALL = {name: strategy for name, strategy in KINDS.items() if strategy.outputs < 3000}
EVERY = {**KINDS, **{f"whole-{k}": s for k, s in whole().items()}, **large()}


@pytest.mark.parametrize("name", SMALL)
def test_reports_of_many_follow_the_stated_chances(name):
    """One test of fit for each kind: a false alarm is rarer than one in 10⁸ each."""
    strategy = SMALL[name]
    listed = listed_reports(strategy)
    for value in (0, strategy.size - 1):
        reports = strategy.randomize(
            np.full(PEOPLE, value), SeededSource(value + len(name))
        )
        assert reports.dtype == strategy.specification.layout.dtype
        assert strategy.collector.valid(reports).all()
        if reports.ndim == 2:
            known = {row.tobytes(): i for i, row in enumerate(listed)}
            numbers = np.array([known[row.tobytes()] for row in reports])
        else:
            numbers = reports.astype(np.int64)
        seen = np.bincount(numbers, minlength=len(listed))
        expected = PEOPLE * strategy.dense()[:, value]
        assert not seen[expected == 0].any()
        often = expected > 5
        seen = np.append(seen[often], seen[~often].sum())
        expected = np.append(expected[often], expected[~often].sum())
        fit = (seen - expected)[expected > 0] ** 2 / expected[expected > 0]
        assert fit.sum() < chi2.isf(1e-9, max(len(fit) - 1, 1))


def shown(through, cell):
    """What a view shows of a cell, by its attributes."""
    if isinstance(through, Axes):
        values = np.unravel_index(cell, through.sizes)
        kept = [through.sizes[axis] for axis in through.keep]
        place = [values[axis] for axis in through.keep]
        return int(np.ravel_multi_index(place, kept)) if kept else 0
    return cell // through.width if hasattr(through, "width") else through.table[cell]


@pytest.mark.parametrize("name", EVERY)
def test_outcomes_of_every_rank_are_the_interpreter_s(name):
    """Owned and other outcomes, what a view shows and what a vector hashes to: number by number."""
    rng = np.random.default_rng(3)
    for node in EVERY[name].specification.nodes:
        if isinstance(node, Favour):
            owner = node.owner
            ranked = outcomes.ranked_outcomes(owner)
            for own, count in ((True, owner.own), (False, owner.outcomes - owner.own)):
                cells, ranks = (
                    rng.integers(0, owner.cells, 60),
                    rng.integers(0, count, 60),
                )
                ranks[:2] = 0, count - 1
                pairs = zip(cells.tolist(), ranks.tolist(), strict=True)
                exact = [
                    interpret.outcome_of_rank(owner, v, own, rank) for v, rank in pairs
                ]
                assert ranked(cells, ranks, own).tolist() == exact
        elif isinstance(node, View):
            cells = rng.integers(0, node.through.cells, 60)
            exact = [shown(node.through, v) for v in cells.tolist()]
            assert [int(node.through.seen(v)) for v in cells.tolist()] == exact
            assert node.through.seen(cells).tolist() == exact
        elif isinstance(node, Project):
            vectors, cells = rng.integers(0, node.base**node.digits, (2, 60))
            pairs = zip(vectors.tolist(), cells.tolist(), strict=True)
            exact = [interpret.hashed(node, *pair) for pair in pairs]
            assert batch.hash_digits(node.base, vectors, cells).tolist() == exact


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_many_have_the_stated_mean_and_spread(name):
    """Two coordinates within six standard errors: false alarms below 1e-8 each."""
    strategy = VECTORS[name]
    for value in range(strategy.size):
        reports = strategy.randomize(np.full(PEOPLE, value), SeededSource(value))
        noise = reports - strategy.columns[:, value]
        deviation = strategy.law.standard_deviation
        assert (np.abs(noise.mean(axis=0)) < 6 * deviation / PEOPLE**0.5).all()
        np.testing.assert_allclose(noise.std(axis=0), deviation, rtol=0.05)


def test_bits_below_a_draw_are_only_interpreted():
    specification = bits_below_a_draw()
    for refused in (
        lambda: tally_of(specification),
        lambda: Sampler(specification).randomize([3]),
        lambda: report_chances(specification, 0, 1),
    ):
        with pytest.raises((InvalidParameter, TooLarge)):
            refused()


@pytest.mark.parametrize("values", [[-1], [5], [0.5], ["a"], [[1]], [2**63]])
def test_values_outside_the_domain_are_refused_and_never_quoted(values):
    with pytest.raises(InvalidParameter) as refusal:
        check_values(np.array(values), 5)
    assert "987" not in str(refusal.value)
