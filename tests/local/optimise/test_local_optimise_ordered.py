from __future__ import annotations

import numpy as np
import pytest

from noisewright.local.bounds.trace import lower_bound
from noisewright.local.composed.coarse_fine import (
    Bins,
    CoarseFine,
    CoarseFineInformation,
    full_spectrum,
    sandwich,
)
from noisewright.local.composed.mixture import Mixture
from noisewright.local.optimise.optimised import Control
from noisewright.local.optimise.ordered_search import (
    FineProblem,
    OrderedEffort,
    bins_for,
    search_ordered,
)
from noisewright.local.optimise.run import optimise
from noisewright.local.optimise.task import Task
from noisewright.local.storage import pack, unpack
from noisewright.local.transform.invariants import decompose
from noisewright.local.transform.translations import Translations
from noisewright.workload import workload

CASES = [("prefix:24", 6), ("ranges:15", 5), ("prefix:8+2@ranges:8+identity:8", 4)]


def centring(n):
    return np.eye(n) - 1.0 / n


def case(text, bins):
    """A random coarse and fine information, as the code holds it and as plain matrices."""
    rng = np.random.default_rng(0)
    gram = workload(text).gram()
    n = gram.size
    kept = rng.uniform(0.5, 1.5, size=n // 2 + 1)
    square = rng.normal(size=(bins + 3, bins)) @ centring(bins)
    coarse = square.T @ square
    found = sandwich(Bins(n, bins), kept, coarse, decompose(gram, Translations((n,))))
    waves = np.fft.fft(np.eye(n)) / np.sqrt(n)
    circulant = (waves.conj().T @ np.diag(full_spectrum(kept, n)) @ waves).real
    u = np.repeat(np.eye(bins), n // bins, axis=0)
    x = centring(n) @ circulant @ centring(n) + u @ coarse @ u.T
    m = centring(n) @ gram.dense() @ centring(n)
    return found, m, x, u, waves, rng


@pytest.mark.parametrize(("text", "bins"), CASES)
def test_everything_follows_from_matrices_over_bins(text, bins):
    found, m, x, u, waves, rng = case(text, bins)
    n = len(m)
    inverse = np.linalg.pinv(x, rcond=1e-12, hermitian=True)
    s = inverse @ m @ inverse
    assert found.value == pytest.approx(np.trace(m @ inverse))
    diagonal = np.diagonal(waves @ s @ waves.conj().T).real
    np.testing.assert_allclose(found.on_characters()[1:], diagonal[1:], rtol=1e-8)
    np.testing.assert_allclose(found.on_bins(), u.T @ s @ u, atol=1e-9)
    v = rng.uniform(size=n)
    shifts = np.array([np.roll(v, t) for t in range(n)])
    alone = (waves.conj().T @ np.diag(found.between) @ waves).real
    expected = np.einsum("ti,ij,tj->t", shifts, s - alone, shifts)
    np.testing.assert_allclose(found.on_translates(v), expected, atol=1e-8)
    information = CoarseFineInformation(found.inverse)
    np.testing.assert_allclose(information.matvec(np.eye(n)), x + 1.0, atol=1e-9)
    np.testing.assert_allclose(
        information.solve(information.matvec(np.eye(n))), np.eye(n), atol=1e-8
    )
    assert information.full_rank


def test_gains_are_derivatives_of_the_value():
    gram = workload("prefix:16").gram()
    group = Translations((16,))
    rng = np.random.default_rng(1)
    square = rng.normal(size=(7, 4)) @ centring(4)
    problem = FineProblem(
        group, 1.0, Bins(16, 4), 0.3 * square.T @ square, 0.7, decompose(gram, group)
    )
    eigenvalues = rng.uniform(0.5, 1.5, size=9)
    gains = problem.gains(eigenvalues) * group.counts
    for k in range(1, 9):
        ahead, behind = eigenvalues.copy(), eigenvalues.copy()
        ahead[k] += 1e-5
        behind[k] -= 1e-5
        slope = (problem.value(ahead) - problem.value(behind)) / 2e-5
        # The share of reports scales the spectrum, and so the derivative.
        assert -0.7 * gains[k] == pytest.approx(slope, rel=1e-6)
    eigenvalues[3] = 0.0
    assert problem.value(eigenvalues) == np.inf


@pytest.mark.parametrize(
    ("cells", "wanted", "bins"), [(64, 16, 16), (60, 16, 15), (13, 16, 13)]
)
def test_bins_divide_the_cells(cells, wanted, bins):
    assert bins_for(cells, wanted) == bins


@pytest.mark.parametrize("text", ["prefix:60", "ranges:60", "prefix:60+ranges:60"])
def test_mixture_is_found_and_analysed_exactly(text):
    asked = workload(text)
    gram = asked.gram()
    known = decompose(gram, Translations((60,)))
    effort = OrderedEffort(bins=12, rounds=2, reports=60 * 12)
    strategy = search_ordered(
        Task(None, gram, 1.0, "average"),
        known,
        effort,
        np.random.default_rng(0),
        Control(),
    )
    assert isinstance(strategy, CoarseFine)
    assert strategy.loss.epsilon <= strategy.epsilon
    x = Mixture.moment(strategy, strategy.prior)
    np.testing.assert_allclose(strategy.information.dense(), x, atol=1e-10)
    inverse = np.linalg.inv(x)
    expected = strategy.energy(inverse @ gram.dense() @ inverse) - gram.diagonal()
    np.testing.assert_allclose(strategy.type_variances(gram), expected, rtol=1e-7)
    assert strategy.worst_variance(gram) <= 1.3 * lower_bound(asked, 1.0).variance
    again = unpack(*pack(strategy))
    assert again.worst_variance(gram) == pytest.approx(strategy.worst_variance(gram))


def test_other_workloads_are_analysed_by_matrices():
    gram = workload("prefix:24").gram()
    known = decompose(gram, Translations((24,)))
    effort = OrderedEffort(bins=8, rounds=1, reports=24 * 8)
    strategy = search_ordered(
        Task(None, gram, 1.0, "average"),
        known,
        effort,
        np.random.default_rng(0),
        Control(),
    )
    other = workload("random:20x24:1").gram()
    inverse = np.linalg.inv(Mixture.moment(strategy, strategy.prior))
    expected = strategy.energy(inverse @ other.dense() @ inverse) - other.diagonal()
    np.testing.assert_allclose(strategy.type_variances(other), expected, rtol=1e-6)


# --- the error that counts, and sizes side by side ------------------------------------------------


def test_shares_follow_the_error_that_counts() -> None:
    gram = workload("prefix:96").gram()
    known = decompose(gram, Translations((96,)))
    effort = OrderedEffort(bins=24, rounds=2, reports=96 * 16)
    mean, worst = (
        search_ordered(
            Task(None, gram, 3.0, objective),
            known,
            effort,
            np.random.default_rng(0),
            Control(),
        )
        for objective in ("average", "worst")
    )
    assert worst.worst_variance(gram) < 0.98 * mean.worst_variance(gram)
    assert mean.average_variance(gram) < 0.98 * worst.average_variance(gram)


def test_the_objective_counts_on_many_ordered_cells() -> None:
    gram = workload("prefix:320").gram()
    worst, mean = (
        optimise(gram, 3.0, objective=objective, effort="low", cache=False)
        for objective in ("worst", "average")
    )
    assert worst.value == pytest.approx(worst.strategy.worst_variance(gram))
    assert mean.value == pytest.approx(mean.strategy.average_variance(gram))
    assert worst.value < mean.strategy.worst_variance(gram)
    assert mean.value < worst.strategy.average_variance(gram)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_no_size_falls_off_a_cliff(epsilon: float) -> None:
    """A few cells more ask for a little more: their part of the answers, and of the search."""
    few, more = (
        optimise(
            workload(f"prefix:{cells}").gram(), epsilon, effort="low", cache=False
        ).value
        for cells in (128, 136)
    )
    assert more / 136 <= 1.1 * few / 128


@pytest.mark.slow
@pytest.mark.parametrize(("few", "more"), [(256, 260), (512, 520)])
def test_no_size_falls_off_a_cliff_under_the_default_effort(
    few: int, more: int
) -> None:
    values = [
        optimise(
            workload(f"prefix:{cells}").gram(), 4.0, effort="normal", cache=False
        ).value
        for cells in (few, more)
    ]
    assert values[1] / more <= 1.05 * values[0] / few
