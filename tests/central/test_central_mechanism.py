"""The joint that central mechanisms keep: blocks, composites, accuracy that agrees with draws."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from noisewright.arrays import IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.composite import Composite
from noisewright.central.mechanism import Mechanism, Table
from noisewright.errors import InvalidParameter, OutOfReach
from noisewright.estimate.accuracy import Conditioned
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import split
from noisewright.privacy.promise.spend import Gaussian, Laplace
from noisewright.workload import workload
from noisewright.workload.questions.measures import COUNT, CentredSum
from noisewright.workload.structure import Term, terms
from oracles.privacy_oracles import SeededSource

BUDGETS = [Privacy(epsilon=1.0), Privacy(epsilon=1.0, delta=1e-6), Privacy(rho=0.5)]
HOURS = CentredSum("hours", 1.0, 0, 10)
PREFIX = terms(workload("prefix:4"), (4,))
SUMS = [Term(t.weight, t.attributes, t.inner, t.factors, HOURS) for t in PREFIX]
RNG = np.random.default_rng(5)


def cells(privacy: Privacy, content: object = COUNT) -> BlockMechanism:
    factor = np.tril(np.ones((4, 4), dtype=np.int64))
    block = Block((0,), (factor,), multiplier=64)
    return BlockMechanism(BlockStrategy((4,), (block,)), privacy, content)  # type: ignore[arg-type]


def both(privacy: Privacy) -> Composite:
    return Composite((cells(privacy), cells(privacy, HOURS)), (1.0, 3.0), privacy)


def tables(mechanism: Mechanism) -> Mapping[Table, IntArray]:
    return {table: RNG.integers(0, 50, size=4) for table in mechanism.tables}


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.kind)
def test_what_is_spent_follows_from_the_noise_and_keeps_the_budget(
    privacy: Privacy,
) -> None:
    mechanism = cells(privacy)
    (loss,) = mechanism.spend.losses
    moved = mechanism.sensitivity / mechanism.law.scale
    assert isinstance(loss, Laplace if privacy.kind == "pure" else Gaussian)
    assert (loss.ratio if isinstance(loss, Laplace) else loss.mu) == pytest.approx(
        moved
    )
    kept = mechanism.spend.promise(privacy.delta)
    stated = (
        (kept.epsilon, privacy.epsilon)
        if privacy.rho is None
        else (kept.rho, privacy.rho)
    )
    assert stated[0] == pytest.approx(stated[1], rel=1e-9)
    assert stated[0] <= stated[1] * (1 + 1e-12)


@pytest.mark.parametrize("make", [cells, both])
@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.kind)
def test_variances_covariances_and_draws_are_of_one_law(
    make: object, privacy: Privacy
) -> None:
    """Bands of six deviations over 20,000 draws: a false alarm in about 1e-8 of such tests."""
    mechanism: Mechanism = make(privacy)  # type: ignore[operator]
    wanted = PREFIX if make is cells else [*SUMS, *PREFIX]
    accuracy = mechanism.accuracy(wanted)
    everything = np.arange(len(accuracy.variance))
    covariance = accuracy.covariance(everything)
    np.testing.assert_allclose(np.diag(covariance), accuracy.variance, rtol=1e-9)
    draws = accuracy.draw(20_000, np.random.default_rng(1))
    scale = np.sqrt(np.outer(accuracy.variance, accuracy.variance))
    # A product of two Laplace errors has a fourth moment of at most 24 variances squared.
    assert (
        np.abs(draws.T @ draws / 20_000 - covariance).max()
        < 6 * np.sqrt(24 / 20_000) * scale.max()
    )


@pytest.mark.parametrize("make", [cells, both])
def test_answers_are_exact_up_to_the_noise_that_is_drawn(make: object) -> None:
    """At hardly any privacy the noise is far below one person."""
    mechanism: Mechanism = make(Privacy(rho=1e6))  # type: ignore[operator]
    counts = tables(mechanism)
    measured = mechanism.measure(counts, SeededSource(3))
    for table in mechanism.tables:
        wanted = [t for t in [*PREFIX, *SUMS] if t.measure == table.measure]
        truth = np.cumsum(counts[table])
        bound = 8 * mechanism.accuracy(wanted).std.max()
        np.testing.assert_allclose(
            mechanism.answer(measured, wanted), truth, atol=bound
        )
        assert bound < 1


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.kind)
def test_shares_keep_the_whole_budget_and_lose_next_to_nothing(
    privacy: Privacy,
) -> None:
    whole = both(privacy).spend.promise(privacy.delta)
    stated = (
        (whole.epsilon, privacy.epsilon)
        if privacy.rho is None
        else (whole.rho, privacy.rho)
    )
    assert stated[0] <= stated[1] * (1 + 1e-12)
    assert stated[0] == pytest.approx(stated[1], rel=1e-9)
    parts = split(privacy, [1.0, 3.0])
    name = "epsilon" if privacy.kind == "pure" else "rho"
    assert getattr(parts[1], name) == pytest.approx(3 * getattr(parts[0], name))


def test_another_budget_is_the_same_measurement_with_other_noise() -> None:
    mechanism = both(Privacy(rho=0.5))
    wider = mechanism.at(Privacy(rho=0.125))
    assert wider.tables == mechanism.tables
    np.testing.assert_allclose(
        wider.accuracy(PREFIX).std, 2 * mechanism.accuracy(PREFIX).std, rtol=1e-3
    )


def test_what_no_part_measures_is_out_of_reach() -> None:
    with pytest.raises(OutOfReach, match="no part"):
        Composite((cells(BUDGETS[0]),), (1.0,), BUDGETS[0]).accuracy(SUMS)
    with pytest.raises(InvalidParameter, match="measure of their own"):
        Composite((cells(BUDGETS[0]), cells(BUDGETS[0])), (1.0, 1.0), BUDGETS[0])


def test_sums_are_moved_by_the_width_of_their_bounds_or_twice_it() -> None:
    added, replaced = (
        Privacy(epsilon=1.0),
        Privacy(epsilon=1.0, neighbours="replace-one"),
    )
    assert cells(added, HOURS).sensitivity == 10 * cells(added).sensitivity
    assert cells(replaced, HOURS).sensitivity == 20 * cells(added).sensitivity
    missing = CentredSum("hours", 1.0, 5, 10, missing=True)
    assert (missing.reach, HOURS.reach) == (15, 10)


def test_conditioning_on_known_answers_is_the_best_linear_estimate() -> None:
    """Against the textbook formula on the covariance itself."""
    mechanism = cells(Privacy(rho=0.5))
    known = terms(workload("total:4"), (4,))
    inner = mechanism.accuracy([*PREFIX, *known])
    fitted = Conditioned(inner, np.array([4]), 4)
    covariance = inner.covariance(np.arange(5))
    gain = covariance[:4, 4] / covariance[4, 4]
    expected = covariance[:4, :4] - np.outer(gain, covariance[4, :4])
    np.testing.assert_allclose(fitted.covariance(np.arange(4)), expected, atol=1e-9)
    np.testing.assert_allclose(fitted.variance, np.diag(expected), atol=1e-9)
    assert fitted.variance[3] == 0  # the whole count is the known total
    answers = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    corrected = fitted.correct(answers, np.array([7.0]))
    np.testing.assert_allclose(corrected, answers[:4] + gain * 2.0)
    draws = fitted.draw(20_000, np.random.default_rng(2))
    spread = np.abs(draws.T @ draws / 20_000 - expected).max()
    assert spread < 6 * np.sqrt(3 / 20_000) * expected.max()


def test_measures_are_checked() -> None:
    with pytest.raises(InvalidParameter):
        CentredSum("hours", 0.0, 0, 1)
    with pytest.raises(InvalidParameter):
        CentredSum("hours", 1.0, 2, 1)
