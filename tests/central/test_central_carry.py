"""Carry noise: private by enumeration, on few cells as good as any additive noise, exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.carry import zero_total
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.means import CoreWidths
from noisewright.central.carry.search import best_carries, likely_orders
from noisewright.central.carry.zero_total import ZeroTotal
from noisewright.errors import FileFormatError, InvalidParameter, NoisewrightError
from oracles.additive_noise import least_error
from oracles.plan_parts import read_parts, write_parts
from oracles.privacy_oracles import SeededSource

FIGURES = {  # root mean square errors at ε = 1 that were found by another program
    "prefix:8": 2.415,
    "prefix:16": 2.966,
    "prefix:64": 4.556,
    "ranges:64": 4.439,
    "marginals:2^6:2": 4.950,
    "marginals:4^4:2": 5.256,
    "marginals:2^8:3": 7.078,
    "allmarginals:2^8": 4.180,
    "ranges:16*ranges:16": 6.395,
}
PURE = nw.Privacy(epsilon=1)


def random_carries(rng: np.random.Generator, rows: int, most: int) -> Carries:
    """Any order, cores, targets and signs that are allowed."""
    order = rng.permutation(rows)
    cores = rng.integers(0, most + 1, rows).astype(float)
    targets, shares = np.zeros((rows, rows), dtype=np.int64), np.zeros((rows, rows))
    for place, row in enumerate(order):
        later = order[place + 1 :]
        if len(later):
            targets[row, : len(later)] = later
            parts = rng.dirichlet(np.full(len(later), 0.5)) * rng.choice([1.0, 0.6])
            shares[row, : len(later)] = parts * rng.choice([-1, 1], len(later))
    return Carries.rounded(order, cores, targets, shares)


def steepest(carries: Carries, reach: int) -> int:
    """By how much the log density, in units of 1/scale, changes over one step of any one row.

    All draws in a box are mapped to noise; that no two meet is what makes the density one of s.
    """
    axes = [np.arange(-reach, reach + 1)] * carries.rows
    draws = np.array(list(product(*axes)), dtype=np.int64).T
    beyond = np.abs(draws) - np.minimum(np.abs(draws), carries.cores[:, None])
    noise = carries.carried(draws)
    heights = {
        tuple(z): int(h) for z, h in zip(noise.T, beyond.sum(axis=0), strict=True)
    }
    assert len(heights) == draws.shape[1]
    largest = 0
    for z, height in heights.items():
        for row in range(carries.rows):
            other = heights.get((*z[:row], z[row] + 1, *z[row + 1 :]))
            largest = max(largest, 0 if other is None else abs(other - height))
    return largest


def forged(carries: Carries, **changes: np.ndarray) -> Carries:
    """Carries past all checks."""
    copy = object.__new__(Carries)
    copy.__dict__.update(carries.__dict__)
    for name in ("dealt", "cores", "paths"):
        copy.__dict__.pop(name, None)
    copy.__dict__.update(changes)
    return copy


@pytest.mark.parametrize("seed", range(12))
def test_no_step_costs_more_than_it_would_under_laplace_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(2, 4))
    carries = random_carries(rng, rows, 4)
    assert steepest(carries, 8 if rows == 2 else 6) == 1


@pytest.mark.parametrize("seed", range(4))
def test_packets_of_several_units_cost_no_more(seed: int) -> None:
    """Wide cores are dealt out in packets, whose units all go one way."""
    rng = np.random.default_rng(seed)
    packets, sizes = np.array([2, 1, 0]), np.array([int(rng.integers(2, 4)), 3, 1])
    parts = np.array(
        [[-1, int(rng.choice([-1, 1]))], [int(rng.choice([-1, 1])), 0], [0, 0]]
    )
    carries = Carries(
        np.arange(3), packets, sizes, np.array([[1, 2], [2, 0], [0, 0]]), parts
    )
    assert carries.cores.max() > 3
    assert steepest(carries, 8) == 1


def test_noise_that_adds_up_to_zero_hides_a_person_who_moves() -> None:
    """All outcomes in a box: who moves from one cell to another costs what two steps cost."""
    targets, parts = (
        np.array([[1, 2], [2, 0], [0, 0]]),
        np.array([[-2, -1], [-2, 0], [0, 0]]),
    )
    one = np.ones(3, dtype=np.int64)
    carries = Carries(np.arange(3), np.array([3, 2, 0]), one, targets, parts)
    first, second = (grid.ravel() for grid in np.meshgrid(*[np.arange(-14, 15)] * 2))
    beyond = [v - np.clip(v, -c, c) for v, c in ((first, 3), (second, 2))]
    draws = np.array([first, second, -(beyond[0] + beyond[1])])
    heights = np.abs(beyond[0]) + np.abs(beyond[1]) + np.abs(draws[2])
    law = dict(
        zip(
            map(tuple, carries.carried(draws).T.tolist()), heights.tolist(), strict=True
        )
    )
    assert len(law) == len(first)
    moves = [(1, -1, 0), (1, 0, -1), (0, 1, -1)]
    losses = [
        abs(height - law[other])
        for z, height in law.items()
        for move in moves
        if (other := tuple(a + b for a, b in zip(z, move, strict=True))) in law
    ]
    assert len(losses) > 1000
    assert max(losses) == 2


def test_a_core_that_is_carried_twice_is_caught_by_the_enumeration_and_refused() -> (
    None
):
    one, zero = np.array([1, 1]), np.array([[1], [0]])
    honest = Carries(np.arange(2), np.array([3, 0]), one, zero, np.array([[-3], [0]]))
    assert steepest(honest, 8) == 1
    with pytest.raises(InvalidParameter, match="not private"):
        Carries(np.arange(2), np.array([2, 0]), one, zero, np.array([[-3], [0]]))
    double = forged(honest, dealt=2 * honest.dealt)  # Σ|N| = 2
    assert steepest(double, 8) > 1
    short = honest.dealt.copy()
    short[0, 0, 2] = -3  # one unit jumps ahead: a core that is not cancelled as stated
    assert steepest(forged(honest, dealt=short), 8) > 1


@pytest.mark.parametrize(
    "change",
    [
        {"order": np.array([0, 0])},
        {"order": np.array([1, 0])},
        {"packets": np.array([-1, 0])},
        {"packets": np.array([300, 0])},
        {"sizes": np.array([0, 1])},
        {"sizes": np.array([2**45, 1])},
        {"targets": np.array([[2], [0]])},
        {"targets": np.array([[0], [0]])},
        {"parts": np.array([[-4], [0]])},
        {"parts": np.array([[np.iinfo(np.int64).min], [0]])},
        {"parts": np.array([[-1.0], [0.0]])},
    ],
    ids=str,
)
def test_carries_that_the_proof_does_not_cover_are_refused(
    change: dict[str, np.ndarray],
) -> None:
    arrays = {
        "order": np.arange(2),
        "packets": np.array([3, 0]),
        "sizes": np.array([1, 1]),
        "targets": np.array([[1], [0]]),
        "parts": np.array([[-3], [0]]),
    }
    Carries(**arrays)
    with pytest.raises(InvalidParameter, match=r"carries|cores"):
        Carries(**(arrays | change))


@pytest.mark.parametrize(
    ("cells", "epsilon", "reach"), [(2, 1.0, 14), (3, 2.0, 6), (4, 3.0, 3)]
)
def test_few_cells_have_the_least_error_of_all_additive_noise(
    cells: int, epsilon: float, reach: int
) -> None:
    gram = nw.workload(f"prefix:{cells}").gram().dense()
    errors = []
    for order in likely_orders(gram):
        _, carries = best_carries(gram, order, 1 / epsilon)
        errors.append(float((gram * carries.covariance(1 / epsilon).todense()).sum()))
    assert min(errors) == pytest.approx(least_error(gram, epsilon, reach), rel=2e-3)


@pytest.mark.parametrize("scale", [0.4, 2.0, 900.0, 1e9])
def test_second_moments_are_those_of_the_integers(scale: float) -> None:
    """Draws of the sampler, and of the simulation, within bands of seven deviations."""
    rng = np.random.default_rng(3)
    carries = random_carries(rng, 4, round(3 * scale))
    stated = carries.covariance(scale).toarray()
    count = 20_000
    for noise in (
        carries.draw(scale, count, SeededSource(1)).astype(float),
        carries.simulated(scale, count, np.random.default_rng(1)),
    ):
        size = np.sqrt(np.diag(stated))
        relative = (noise @ noise.T / count - stated) / np.outer(size, size)
        assert np.abs(relative).max() < 7 * np.sqrt(5 / count)


@pytest.mark.parametrize("text", FIGURES)
def test_errors_are_those_stated_and_below_every_laplace_strategy(text: str) -> None:
    plan = nw.plan(text, PURE, nw.Central(mechanism="carry"))
    assert plan.achieved <= 1.01 * FIGURES[text]
    assert plan.proposal.bound is None
    assert plan.lower_bound is None


@pytest.mark.parametrize(
    ("text", "largest"),
    [("prefix:8", 2.550), ("prefix:16", 3.152), ("prefix:64", 4.892)],
)
def test_largest_errors_are_planned_for_too(text: str, largest: float) -> None:
    plan = nw.plan(text, PURE, nw.Central(error="max"))
    assert plan.mechanism.name == "carry"
    assert plan.forecast().max <= 1.01 * largest


def test_widths_of_cores_descend_along_their_slopes() -> None:
    queries = nw.workload("prefix:6").dense()
    _, carries = best_carries(queries.T @ queries, np.arange(6), 64.0)
    widths = CoreWidths(queries, carries, 64.0)
    cores = 1.1 * widths.cores
    _, slopes = widths.mean(cores, 8.0)
    for place, step in enumerate(1e-6 * np.eye(6)):
        ends = [widths.mean(cores + sign * step, 8.0)[0] for sign in (-1, 1)]
        assert slopes[place] == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-5)
    covariance = carries.covariance(64.0)
    exact = np.einsum("ij,ij->i", queries @ covariance, queries)
    value, _ = widths.mean(widths.cores, 512.0)
    largest = exact.max()
    assert value == pytest.approx(
        np.log(largest * np.linalg.norm(exact / largest, 512)), rel=1e-6
    )


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_whole_people_have_less_noise_on_the_unit_lattice(epsilon: float) -> None:
    cells = nw.plan("identity:8", nw.Privacy(epsilon=epsilon))
    assert cells.mechanism.name == "carry"
    assert cells.achieved == pytest.approx(np.sqrt(0.5) / np.sinh(epsilon / 2))
    assert cells.achieved < np.sqrt(2) / epsilon


def test_it_is_the_default_where_it_is_better_and_the_strategy_stays_what_it_was() -> (
    None
):
    chosen = nw.plan("prefix:16", PURE)
    strategy = nw.plan("prefix:16", PURE, nw.Central(mechanism="laplace-strategy"))
    assert chosen.mechanism.name == "carry"
    assert strategy.mechanism.law.law == "discrete-laplace"
    assert chosen.achieved < 0.85 * strategy.achieved
    rows = {row.mechanism: row for row in nw.compare("prefix:16", PURE)}
    assert rows["carry"].rmse == pytest.approx(chosen.forecast().rmse)
    assert rows["carry"].errors == "exact"
    assert rows["carry"].lower_bound is None
    assert rows["laplace-strategy"].lower_bound > rows["carry"].rmse * 0.5


@pytest.mark.filterwarnings("ignore::noisewright.errors.WeakPrivacyWarning")
@pytest.mark.parametrize(
    ("text", "epsilon"),
    [
        ("prefix:1", 1.0),
        ("prefix:2", 1.0),
        ("total:4", 1.0),
        ("prefix:9", 1e-6),
        ("prefix:9", 20.0),
        ("prefix:64", 1e-6),
        ("prefix:2", 20.0),
    ],
)
def test_edges_are_planned_released_and_kept(
    text: str, epsilon: float, tmp_path: Path
) -> None:
    plan = nw.plan(text, nw.Privacy(epsilon=epsilon), nw.Central(mechanism="carry"))
    assert plan.spend.promise().epsilon <= epsilon
    people = np.arange(plan.workload.size)
    released = plan.release(people)
    exact = plan.workload.matvec(people)
    assert (np.abs(released.answers - exact) <= 40 * plan.standard_errors + 1e-9).all()
    plan.save(tmp_path / "plan.nw")
    again = nw.load(tmp_path / "plan.nw")
    np.testing.assert_array_equal(again.standard_errors, plan.standard_errors)


def test_a_plan_forged_to_carry_more_than_its_cores_is_refused(tmp_path: Path) -> None:
    nw.plan("prefix:8", PURE, nw.Central(mechanism="carry")).save(tmp_path / "plan.nw")
    header, arrays = read_parts(tmp_path / "plan.nw")
    (block,) = header["strategy"]["blocks"]["blocks"]
    names = {**header["strategy"]["carries"], "factor": block["factors"][0]}
    for part, forge in {
        "parts": lambda a: 2 * a,
        "packets": lambda a: a - 1,
        "targets": lambda a: a - a,
        "order": lambda a: a[::-1].copy(),
        "sizes": lambda a: a[:-1],
        "factor": lambda a: a.astype(float),
    }.items():
        name = str(names[part])
        wrong = {**arrays, name: forge(arrays[name])}
        write_parts(tmp_path / "forged.nw", header, wrong)
        with pytest.raises(NoisewrightError):
            nw.load(tmp_path / "forged.nw")
    lost = str(names["parts"])
    missing = {name: array for name, array in arrays.items() if name != lost}
    write_parts(tmp_path / "forged.nw", header, missing)
    with pytest.raises(FileFormatError):
        nw.load(tmp_path / "forged.nw")
    # A column of length three costs three: the noise follows from the integers, whatever is said.
    longer = {**arrays, name: 3 * arrays[name]}
    write_parts(tmp_path / "forged.nw", header, longer)
    heavy = nw.load(tmp_path / "forged.nw")
    assert heavy.mechanism.scale == pytest.approx(
        3 * heavy.mechanism.measured.strategy.blocks[0].multiplier
    )
    assert heavy.spend.promise().epsilon <= 1


def test_what_is_proved_of_tails_is_above_what_is_drawn() -> None:
    plan = nw.plan("prefix:6", PURE, nw.Central(mechanism="carry"))
    errors = (
        np.abs(plan.accuracy.draw(200_000, np.random.default_rng(2)))
        / plan.accuracy.std
    )
    for alarm in (1e-2, 1e-3, 1e-4):
        bound = plan.accuracy.tail(alarm)
        assert (errors > bound).mean(axis=0).max() <= 2 * alarm * 1.1
        assert bound < 3 * np.quantile(errors, 1 - alarm)


REPLACED = nw.Privacy(epsilon=1, neighbours="replace-one")


@pytest.mark.parametrize("scale", [0.6, 2.5])
def test_moments_of_noise_that_adds_up_to_zero_are_those_of_its_enumeration(
    scale: float,
) -> None:
    order, one = np.arange(3), np.ones(3, dtype=np.int64)
    targets, parts = (
        np.array([[1, 2], [2, 0], [0, 0]]),
        np.array([[-2, -1], [-2, 0], [0, 0]]),
    )
    carries = Carries(order, np.array([3, 2, 0]), one, targets, parts)
    reach = 3 + round(16 * scale)
    axis = np.arange(-reach, reach + 1)
    first, second = (grid.ravel() for grid in np.meshgrid(axis, axis, indexing="ij"))
    beyond = [v - np.clip(v, -c, c) for v, c in ((first, 3), (second, 2))]
    draws = np.array([first, second, -(beyond[0] + beyond[1])])
    noise = carries.carried(draws)
    assert not noise.sum(axis=0).any()
    heights = np.abs(beyond[0]) + np.abs(beyond[1]) + np.abs(draws[2])
    chances = np.exp(-heights / scale)
    chances /= chances.sum()
    exact = (noise * chances) @ noise.T
    total = ZeroTotal(carries, scale)
    np.testing.assert_allclose(total.covariance, exact, atol=1e-5 * exact.max())
    # A trial is kept with the chance of the last row's tail, given the first two rows' draws.
    cores = carries.cores[:, None]
    of_rows = np.exp(
        -np.abs(draws - np.clip(draws, -cores, cores))[:2].sum(axis=0) / scale
    )
    kept = of_rows * np.exp(-np.abs(draws[2]) / scale)
    assert total.accepted == pytest.approx(kept.sum() / of_rows.sum(), rel=1e-5)
    drawn = np.array([total.draw(SeededSource(seed)) for seed in range(1000)])
    assert not drawn.sum(axis=1).any()
    assert (
        np.abs(drawn.T @ drawn / 1000 - exact).max()
        < 8 * np.sqrt(5 / 1000) * exact.max()
    )


@pytest.mark.parametrize("scale", [0.6, 2.5])
def test_noise_that_adds_up_to_zero_is_kept_as_often_as_it_has_to_be(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law of what is drawn, by enumeration of all draws on a grid and all chances.

    Samplers give every value once; each weighs what the law has at the scale it was asked at. The
    noise has to hide a change of two rows, of equal size and opposite sign, at that scale.
    """
    order, one = np.arange(3), np.ones(3, dtype=np.int64)
    targets, parts = (
        np.array([[1, 2], [2, 0], [0, 0]]),
        np.array([[-2, 0], [-1, 0], [0, 0]]),
    )
    carries = Carries(order, np.array([2, 1, 0]), one, targets, parts)
    total = ZeroTotal(carries, scale)

    reach = 7
    axis = np.arange(-reach, reach + 1)
    grid = np.array(
        [side.ravel() for side in np.meshgrid(axis, axis, [0], indexing="ij")]
    )
    asked: set[float] = set()

    def every_draw(at: float, cores: np.ndarray, source: object) -> np.ndarray:
        asked.add(at)
        assert (cores == carries.cores[:, None]).all()
        return grid.copy()

    def chance_of(value: int) -> Callable[..., np.ndarray]:
        def geometric(at: float, count: int, source: object) -> np.ndarray:
            asked.add(at)
            return np.full(count, value)

        return geometric

    monkeypatch.setattr(zero_total, "flat_core", every_draw)
    law: dict[tuple[int, ...], float] = {}
    for value in range(2 * reach + 1):
        monkeypatch.setattr(zero_total, "geometric", chance_of(value))
        # No last row is farther out than the largest value, which stands for all above it.
        chance = np.exp(-value / scale) * (1 - np.exp(-1 / scale) * (value < 2 * reach))
        for draw in total.trials(grid.shape[1]).T:
            beyond = np.maximum(np.abs(draw[:2]) - carries.cores[:2], 0).sum()
            noise = tuple(carries.carried(draw[:, None])[:, 0].tolist())
            law[noise] = law.get(noise, 0.0) + chance * np.exp(-beyond / scale)

    assert asked == {scale}
    # every draw is kept for some chance, and tells itself apart
    assert len(law) == grid.shape[1]
    pairs = 0
    for noise, weight in law.items():
        for change in ((1, -1, 0), (1, 0, -1), (0, 1, -1), (-2, 1, 1)):
            moved = law.get(tuple(np.add(noise, change).tolist()))
            if moved is not None:
                pairs += 1
                assert (
                    abs(np.log(moved / weight)) <= np.abs(change).sum() / scale + 1e-9
                )
    assert pairs > 500
    # Not only as private: as near as that law allows, e^(-Σ|s|/scale) over all three rows.
    for draw in grid.T:
        own = draw - np.clip(draw, -carries.cores, carries.cores)
        own[2] = draw[2] = -own[:2].sum()
        noise = tuple(carries.carried(draw[:, None])[:, 0].tolist())
        assert law[noise] == pytest.approx(np.exp(-np.abs(own).sum() / scale))


REPLACED_FIGURES = {  # by another program, as above
    "prefix:64": 6.137,
    "ranges:64": 6.886,
    "marginals:2^8:3": 13.46,
    "allmarginals:2^8": 7.992,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", REPLACED_FIGURES)
def test_more_replaced_people_have_the_errors_stated(text: str) -> None:
    assert nw.plan(text, REPLACED).achieved <= 1.01 * REPLACED_FIGURES[text]


@pytest.mark.parametrize(("text", "error"), [("prefix:8", 2.680), ("prefix:16", 3.653)])
def test_replaced_people_have_the_errors_stated_and_their_number_exactly(
    text: str, error: float, tmp_path: Path
) -> None:
    plan = nw.plan(text, REPLACED)
    assert plan.mechanism.name == "carry"
    assert plan.achieved <= 1.01 * error
    assert plan.standard_errors[-1] == 0
    people = np.arange(plan.workload.size)
    assert plan.release(people).answers[-1] == people.sum()
    plan.save(tmp_path / "plan.nw")
    np.testing.assert_array_equal(
        nw.load(tmp_path / "plan.nw").standard_errors, plan.standard_errors
    )
    # The same noise protects nobody who may be absent: under add-remove it is drawn freely.
    free = plan.at(nw.Privacy(epsilon=1))
    assert not free.mechanism.closed
    assert free.accuracy.std[-1] > 0
    with pytest.raises(InvalidParameter, match="closed"):
        replace(free.mechanism, closed=True)


def test_what_is_proved_of_replaced_people_is_above_what_is_drawn() -> None:
    plan = nw.plan("prefix:6", REPLACED, nw.Central(mechanism="carry"))
    errors = (
        plan.accuracy.draw(50_000, np.random.default_rng(1))[:, :-1]
        / plan.accuracy.std[:-1]
    )
    assert np.abs(errors).max() < plan.accuracy.multiplier(1 - 1e-6)
