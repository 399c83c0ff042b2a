from __future__ import annotations

import json
import signal
from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace

from noisewright.container import read, write
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.bounds.trace import lower_bound, prior_bound
from noisewright.local.histogram.sets import RandomizedResponse, SubsetSelection
from noisewright.local.listed import MatrixStrategy
from noisewright.local.mechanism import Search
from noisewright.local.optimise.dense.design import Design
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.saddle import best_saddle
from noisewright.local.optimise.kept import (
    Cache,
    Checkpoint,
    KeptStrategy,
    Snapshot,
    default_folder,
    fingerprint,
)
from noisewright.local.optimise.run import optimise
from noisewright.local.optimise.task import Task, weighted_gram
from noisewright.local.time_limit import interrupted
from noisewright.solution import Status
from noisewright.workload import workload
from noisewright.workload.linear.gram import DenseGram
from noisewright.workload.linear.tensor import mean_error
from oracles import local_matrix

QUICK = {"effort": "low", "cache": False}

SMALL = [
    "identity:9",
    "total:6",
    "prefix:9",
    "ranges:10",
    "allmarginals:2^3",
    "allmarginals:3x2",
    "marginals:2^4:2",
    "parity:3:3",
    "prefix:3*identity:3",
    "random:7x6:1",
    "random:2x6:1",
]


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("text", SMALL)
def test_every_strategy_is_exactly_private_two_valued_and_as_good_as_it_says(
    text, epsilon
):
    asked = workload(text)
    found = optimise(asked, epsilon, **QUICK)
    strategy = found.strategy
    assert strategy.loss.epsilon <= strategy.epsilon
    assert strategy.two_valued
    floor = max(lower_bound(asked, epsilon).variance, 0.0)
    assert found.lower_bound == pytest.approx(floor)
    assert (found.certificate is None) == (floor == 0.0)
    assert found.value >= found.lower_bound * (1 - 1e-9) - 1e-9
    if isinstance(strategy, MatrixStrategy):
        assert (strategy.weights.sum(axis=0) == 1 << 62).all()
    if strategy.outputs is not None and strategy.outputs < 500:
        q = strategy.dense()
        assert np.abs(q.sum(axis=0) - 1).max() < 1e-12
        if np.ptp(strategy.prior) < 1e-12 and text != "total:6":
            variances = local_matrix.type_variances(q, asked.dense())
            assert found.value == pytest.approx(variances.max(), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("text", SMALL)
def test_never_worse_than_the_classical_strategies(text, epsilon):
    gram = workload(text).gram()
    found = optimise(workload(text), epsilon, **QUICK)
    for classic in (RandomizedResponse, SubsetSelection):
        variance = classic(gram.size, epsilon).worst_variance(gram)
        assert found.value <= variance * (1 + 1e-6) + 1e-9


def test_histogram_gets_subset_selection_and_meets_the_bound():
    found = optimise(workload("identity:40"), 1.0, cache=False)
    assert isinstance(found.strategy, SubsetSelection)
    assert found.ratio == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("marginals:2^4:2", "orbits"),
        ("ranges:48", "orbits"),
        ("allmarginals:3x4", "orbits"),
        ("prefix:20", "matrix"),
        ("prefix:400", "coarse-fine"),
        ("random:9x8:1", "matrix"),
    ],
)
def test_structure_decides_the_way(text, kind):
    assert optimise(workload(text), 1.0, **QUICK).strategy.kind == kind


def test_structure_may_be_told():
    asked = workload("prefix:24")
    told = optimise(asked, 1.0, structure="ordered", **QUICK)
    assert told.strategy.kind == "coarse-fine"
    turned = optimise(asked, 1.0, structure="translations", **QUICK)
    assert turned.strategy.kind in ("orbits", "decoded", "mixture")
    assert (
        optimise(workload("ranges:12"), 1.0, structure="dense", **QUICK).strategy.kind
        == "matrix"
    )


# --- objectives -----------------------------------------------------------------------------------


def test_each_objective_is_best_at_its_own():
    asked = workload("prefix:14")
    gram = asked.gram()
    prior = np.linspace(1.0, 4.0, 14)
    prior /= prior.sum()
    hard = {"effort": "normal", "cache": False}
    worst = optimise(asked, 1.0, **hard).strategy
    average = optimise(asked, 1.0, objective="average", **hard).strategy
    given = optimise(asked, 1.0, prior=prior, **hard)

    def mean(strategy):
        return float(prior @ strategy.type_variances(gram))

    slack = 1.002
    assert worst.worst_variance(gram) <= average.worst_variance(gram) * slack
    assert average.average_variance(gram) <= worst.average_variance(gram) * slack
    assert mean(given.strategy) <= min(mean(worst), mean(average)) * slack
    assert given.objective == "prior"
    assert given.lower_bound == pytest.approx(prior_bound(asked, 1.0, prior).variance)
    assert given.certificate.name == "prior"
    assert given.ratio >= 1.0


def test_weighted_queries_and_gram_matrices_are_the_same_question():
    asked = workload("random:12x7:3")
    weights = np.linspace(0.1, 2.0, 12)
    by_weights = optimise(asked, 1.0, query_weights=weights, **QUICK)
    rows = asked.dense()
    gram = rows.T @ (rows * weights[:, None])
    np.testing.assert_allclose(weighted_gram(asked, weights).dense(), gram)
    by_gram = optimise(DenseGram(gram), 1.0, **QUICK)
    by_rows = optimise(rows * np.sqrt(weights)[:, None], 1.0, **QUICK)
    assert by_weights.value == pytest.approx(by_gram.value, rel=1e-6)
    assert by_rows.value == pytest.approx(by_gram.value, rel=1e-6)
    assert by_gram.ratio >= 1.0


def test_heavier_queries_are_answered_better():
    asked = workload("prefix:10")
    plain = optimise(asked, 1.0, objective="average", **QUICK).strategy
    weights = np.ones(10)
    weights[2] = 50.0
    tilted = optimise(
        asked, 1.0, objective="average", query_weights=weights, **QUICK
    ).strategy
    before = plain.uniform_query_variances(asked, 1)
    after = tilted.uniform_query_variances(asked, 1)
    assert after[2] < before[2]


# --- control --------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_strategy():
    asked = workload("prefix:12")
    first, second = (optimise(asked, 1.0, seed=3, **QUICK) for _ in range(2))
    assert isinstance(first.strategy, MatrixStrategy)
    np.testing.assert_array_equal(first.strategy.weights, second.strategy.weights)


def test_progress_and_target():
    seen = []
    optimise(
        workload("prefix:16"), 1.0, progress=seen.append, effort="normal", cache=False
    )
    assert {p.stage for p in seen} == {"patterns"}
    assert [p.iteration for p in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].ratio < seen[0].ratio
    stopped = optimise(
        workload("prefix:16"), 1.0, target_ratio=1.3, effort="normal", cache=False
    )
    assert stopped.status == "target reached"
    assert stopped.ratio <= 1.3
    assert stopped.iterations < len(seen)


@pytest.mark.parametrize("text", ["prefix:300", "random:50x200:1", "marginals:2^7:3"])
def test_a_time_limit_still_gives_a_valid_strategy(text):
    found = optimise(workload(text), 1.0, time_limit=0.05, cache=False)
    assert found.strategy.loss.epsilon <= found.strategy.epsilon
    assert found.value < np.inf


def test_finished_runs_are_kept_and_damage_is_noticed(tmp_path):
    asked = workload("prefix:8")
    first = optimise(asked, 1.0, effort="low", cache=tmp_path)
    again = optimise(asked, 1.0, effort="low", cache=tmp_path)
    assert (first.status, again.status) == ("finished", "cached")
    assert again.value == pytest.approx(first.value)
    (file,) = tmp_path.iterdir()
    assert optimise(asked, 1.1, effort="low", cache=tmp_path).status == "finished"
    header = read(file, KeptStrategy)
    arrays = header.arrays
    assert Cache(tmp_path).load(file.stem) is not None
    less = {**header.strategy, "epsilon": 0.9}  # than the chances spend
    write(file, replace(header, strategy=less))
    assert Cache(tmp_path).load(file.stem) is None
    document = json.loads(arrays["specification"].tobytes())
    row = document["nodes"][-1]["rows"][0]
    # more than e^ε between the two chances of a row
    row["low"] = str(int(row["low"]) - 1)
    arrays["specification"] = np.frombuffer(
        json.dumps(document).encode(), dtype=np.uint8
    )
    write(file, header)
    assert Cache(tmp_path).load(file.stem) is None
    file.write_bytes(b"not a file of ours")
    assert optimise(asked, 1.0, effort="low", cache=tmp_path).status == "finished"


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("NOISEWRIGHT_CACHE", str(tmp_path / "kept"))
    assert default_folder() == tmp_path / "kept"
    optimise(workload("prefix:6"), 1.0, effort="low")
    assert len(list((tmp_path / "kept").iterdir())) == 1
    monkeypatch.delenv("NOISEWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "noisewright"
    # A folder that cannot be made is no reason to fail.
    (tmp_path / "file").write_text("in the way")
    found = optimise(
        workload("prefix:6"), 1.0, effort="low", cache=tmp_path / "file" / "deeper"
    )
    assert found.status == "finished"


def test_fingerprints_tell_questions_apart():
    texts = [
        *SMALL,
        "2@prefix:9",
        "prefix:9+identity:9",
        "marginals:2^4:1",
        "prefix:5000",
    ]
    grams = [workload(text).gram() for text in texts]
    assert len({fingerprint(gram, 1.0) for gram in grams}) == len(texts)
    assert fingerprint(grams[0], 1.0) != fingerprint(grams[0], 1.1)
    for text, gram in zip(texts, grams, strict=True):
        assert fingerprint(workload(text).gram(), 1.0) == fingerprint(gram, 1.0)


@pytest.mark.parametrize("text", ["prefix:14", "marginals:2^4:2", "prefix:144"])
def test_an_interrupted_run_goes_on_from_its_checkpoint(text, tmp_path, monkeypatch):
    from noisewright.local.optimise import run
    from noisewright.local.optimise.optimised import Control

    monkeypatch.setattr(
        run, "Control", lambda *a, **k: Control(*a, **k, snapshot_every=0.0)
    )
    path = tmp_path / "state.safetensors"

    class Interrupted(Exception):
        pass

    def interrupt(progress):
        if progress.iteration == 12 or (
            progress.stage == "orbits" and progress.iteration == 3
        ):
            raise Interrupted

    if text == "prefix:144":
        optimise(workload(text), 1.0, checkpoint=path, **QUICK)
    else:
        with pytest.raises(Interrupted):
            optimise(workload(text), 1.0, checkpoint=path, progress=interrupt, **QUICK)
    header = read(path, Snapshot)
    assert header.stage in ("patterns", "orbits", "ordered")
    assert header.arrays
    seen = []
    found = optimise(
        workload(text), 1.0, checkpoint=path, progress=seen.append, **QUICK
    )
    fresh = optimise(workload(text), 1.0, **QUICK)
    assert found.value <= fresh.value * 1.05
    assert Checkpoint(path, "another question").load() is None


# --- bad and extreme input ------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 15.0])
@pytest.mark.parametrize(
    "text", ["identity:1", "prefix:1", "identity:2", "prefix:2", "prefix:5"]
)
def test_smallest_domains_and_extreme_budgets(text, epsilon):
    found = optimise(workload(text), epsilon, **QUICK)
    assert found.strategy.loss.epsilon <= found.strategy.epsilon
    assert np.isfinite(found.value)
    assert found.ratio >= 1 - 1e-6 or found.lower_bound <= 0


def test_zero_rows_and_rank_deficient_workloads():
    rows = np.zeros((4, 6))
    rows[1, 2] = 1.0
    rows[2, :3] = 1.0
    found = optimise(rows, 1.0, **QUICK)
    assert found.strategy.loss.epsilon <= found.strategy.epsilon
    assert np.isfinite(found.value)
    nothing = optimise(np.zeros((2, 5)), 1.0, **QUICK)
    assert nothing.value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objective", "best"),
        ("effort", "extreme"),
        ("structure", "round"),
        ("time_limit", 0.0),
        ("prior", [0.5, 0.5]),
        ("prior", [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        ("query_weights", [1.0]),
    ],
)
def test_wrong_parameters_are_named(name, value):
    with pytest.raises(InvalidParameter, match=name):
        optimise(workload("prefix:6"), 1.0, cache=False, **{name: value})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_wrong_budgets_are_refused(epsilon):
    with pytest.raises(InvalidParameter, match="epsilon"):
        optimise(workload("prefix:6"), epsilon, cache=False)


def test_large_domains_without_structure_are_refused_in_words():
    with pytest.raises(TooLarge, match="structure"):
        optimise(workload("prefix:70*identity:70"), 1.0, cache=False)


def test_tasks_know_their_value_and_floor():
    task = Task.of(workload("prefix:6"), 1.0)
    strategy = RandomizedResponse(6, 1.0)
    variances = strategy.type_variances(task.gram)
    assert task.value(strategy) == pytest.approx(variances.max())
    average = Task.of(workload("prefix:6"), 1.0, "average")
    assert average.value(strategy) == pytest.approx(variances.mean())
    with pytest.raises(InvalidParameter, match="queries"):
        Task.of(DenseGram(np.eye(3)), 1.0, query_weights=np.ones(3))
    with pytest.raises(InvalidParameter, match="queries"):
        optimise(DenseGram(np.eye(3)), 1.0, objective="average", norm=4.0, cache=False)


# --- norms of the errors of single queries --------------------------------------------------------


@pytest.mark.parametrize("norm", [1.0, 4.0, np.inf])
def test_each_norm_is_best_at_its_own(norm):
    asked = workload("random:6x6:4")
    plain = optimise(asked, 1.0, objective="average", cache=False)
    found = optimise(asked, 1.0, objective="average", norm=norm, cache=False)

    def aim(strategy):
        variances = np.maximum(strategy.uniform_query_variances(asked, 1), 0.0)
        return 6 * mean_error(variances, norm / 2)

    assert found.value == pytest.approx(aim(found.strategy))
    assert found.value <= aim(plain.strategy) * (1 + 1e-9)
    assert found.objective == f"norm {norm:g}"
    if norm >= 2:
        assert 1.0 <= found.ratio < 1.6
    else:
        assert found.ratio == np.inf


def test_the_worst_query_is_as_good_as_a_convex_program_makes_it():
    # Over all 62 patterns on six cells the worst query's variance is convex in the weights.
    asked = workload("random:5x6:2")
    w, e = asked.dense(), np.e
    sets = np.array(list(product([False, True], repeat=6)))[1:-1]
    v = 1 + (e - 1) * sets
    rng = np.random.default_rng(5)
    found = optimise(
        asked, 1.0, objective="average", norm=np.inf, effort="normal", cache=False
    )
    least = np.inf
    weights = np.ones(5) / 5
    for _ in range(120):  # multiplicative weights against exact answers, on their own
        objective = Objective(w.T @ (w * weights[:, None]), np.full(6, 1 / 6))
        design = Design(sets, np.ones(len(v)), 1.0)
        priced, _ = best_saddle(design, objective, worst_case=False, tolerance=1e-7)
        q = priced.design.chances()
        variances = np.diag(
            w @ np.linalg.pinv(q.T @ (q / q.mean(axis=1)[:, None])) @ w.T
        )
        variances = variances - (w**2).mean(axis=1)
        least = min(least, variances.max())
        weights *= np.exp(
            0.2 * (variances / variances.max() - 1) + 1e-3 * rng.normal(size=5)
        )
        weights /= weights.sum()
    assert found.value <= 5 * least * 1.01


def test_norms_are_refused_in_words():
    asked = workload("prefix:4")
    for norm, objective in ((0.5, "average"), (np.nan, "average"), (4.0, "worst")):
        with pytest.raises(InvalidParameter, match="norm"):
            optimise(asked, 1.0, norm=norm, objective=objective, cache=False)
    with pytest.raises(InvalidParameter, match="norm"):
        optimise(asked.gram(), 1.0, norm=4.0, objective="average", cache=False)
    with pytest.raises(InvalidParameter, match="query_weights"):
        optimise(asked, 1.0, norm=4.0, objective="average", query_weights=np.ones(4))


# --- robustness -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["prefix:10", "ranges:16", "allmarginals:2^4", "marginals:2^5:3", "parity:5:<=3"],
)
def test_ten_seeds_agree(text):
    effort = "normal" if text.startswith("prefix") else "low"
    found = [
        optimise(workload(text), 1.0, seed=seed, effort=effort, cache=False).value
        for seed in range(10)
    ]
    assert max(found) <= 1.02 * min(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["prefix:64", "ranges:64", "allmarginals:2^6", "marginals:2^6:3", "parity:6:<=3"],
)
def test_ten_seeds_agree_at_the_size_of_the_tables(text):
    found = [
        optimise(workload(text), 1.0, seed=seed, effort="normal", cache=False).value
        for seed in range(10)
    ]
    assert max(found) <= 1.02 * min(found)


def worst_variance(q, rows):
    scores = q / q.mean(axis=1, keepdims=True)
    reconstruction = rows @ np.linalg.pinv(q.T @ scores) @ scores.T
    return float(((reconstruction**2).sum(axis=0) @ q - (rows**2).sum(axis=0)).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize(
    "text", ["prefix:12", "ranges:12", "marginals:2^4:2", "prefix:144"]
)
def test_rows_have_two_values_and_whole_numbers_cost_nothing(text, epsilon):
    found = optimise(workload(text), epsilon, **QUICK)
    for part in getattr(found.strategy, "components", (found.strategy,)):
        q = part.dense()
        low, high = q.min(axis=1, keepdims=True), q.max(axis=1, keepdims=True)
        is_high = q > np.sqrt(low * high)
        flat = (high <= low * (1 + 1e-9))[:, 0]
        exact = np.where(is_high, low * np.exp(epsilon), low)
        exact[flat] = q[flat]
        apart = np.abs(q / exact - 1).max(axis=1) > 1e-6
        assert apart.sum() <= 1  # the row that makes every column sum to one
        rows = workload(f"prefix:{part.size}").dense()
        assert worst_variance(q, rows) <= 1.001 * worst_variance(exact[~apart], rows)


@pytest.mark.parametrize(
    "text", ["prefix:65536", "ranges:65536", "marginals:2^11:3", "random:20x1100:1"]
)
def test_a_second_is_enough_for_a_valid_strategy_at_any_size(text):
    found = optimise(workload(text), 1.0, time_limit=1.0, cache=False)
    assert found.strategy.loss.epsilon <= found.strategy.epsilon
    assert found.value < np.inf


@pytest.fixture
def interruptible():
    """Python's own answer to SIGINT: whoever started the tests in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("prefix:20", "patterns"),
        ("random:9x80:1", "descent"),
        ("parity:5:<=3", "orbits"),
    ],
)
def test_an_interruption_ends_the_search_with_the_best_so_far(text, stage, tmp_path):
    seen = []

    def interrupt(progress):
        if progress.stage == stage and stage not in seen:
            signal.raise_signal(signal.SIGINT)
        seen.append(progress.stage)

    # Designs of more than 64 types descend under low effort.
    effort = "low" if stage == "descent" else "normal"
    settings = {"effort": effort, "cache": tmp_path, "progress": interrupt}
    found = optimise(workload(text), 2.0, **settings)
    assert seen[-1] == stage
    assert seen.count(stage) <= 2  # whatever was going on ended with its step
    assert found.status is Status.TIME_LIMIT
    assert not list(tmp_path.iterdir())  # half a search is not kept for others
    assert found.value < np.inf
    assert not interrupted()
    with pytest.raises(KeyboardInterrupt):  # nothing is left of the watch
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
def test_a_second_interruption_raises():
    def interrupt(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        optimise(workload("prefix:12"), 1.0, progress=interrupt, **QUICK)
    assert not interrupted()


def test_the_environment_says_how_hard_to_search(monkeypatch):
    monkeypatch.setenv("NOISEWRIGHT_EFFORT", "high")
    assert Search.of({}).effort == "high"
    assert Search.of({"effort": "low"}).effort == "low"
    monkeypatch.delenv("NOISEWRIGHT_EFFORT")
    assert Search.of({}).effort == "normal"
