"""An argument that is unknown, or does not apply to what is asked, is refused at every entry."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import click
import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright import api
from noisewright.builder import TableQuestions
from noisewright.cli import COMMANDS, main
from noisewright.errors import InvalidParameter, NoisewrightError, refuse_given
from noisewright.local.mechanism import Search, SearchOptions
from noisewright.local.optimise.run import optimise
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.found.open_values import OpenPlan
from noisewright.planning.found.values import ValuePlan
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.rows.covariance import CovariancePlan
from noisewright.planning.together import Together

W = nw.workload("prefix:4")
BUDGET = nw.Privacy(epsilon=1)
HALVES = np.eye(4) / 2 + 1 / 8
REGION = nw.Domain([nw.Categorical("region", ["N", "S"])])
SEX = nw.Domain([nw.Categorical("sex", ["F", "M"])])
BY_REGION = nw.Workload.from_spec({"queries": [{"marginal": ["region"]}]}, REGION)
PEOPLE = {"region": ["N", "S", "N"]}

ENTRIES: list[tuple[Callable[..., Any], tuple[object, ...]]] = [
    (nw.plan, (W, BUDGET)),
    (nw.explain, (W, BUDGET)),
    (nw.Accuracy, ([nw.Target("rmse", 5)],)),
    (nw.Several, ([W, W],)),
    (nw.Sums, ("income", [[]], REGION)),
    (nw.Moments, (2,)),
    (nw.Pairs, (3,)),
    (nw.OpenQuestions, ({}, {})),
    (nw.Values, ("region",)),
    (nw.RunningCount, (4,)),
    (nw.Central, ()),
    (nw.Local, ()),
    (nw.Stream, ()),
    (nw.compare, (W, BUDGET)),
    (nw.find_bounds, (PEOPLE, ["region"], BUDGET)),
    (nw.factorize, (W,)),
    (nw.approximate_norm, (W, 0.1)),
    (nw.report, (None, "page.html")),
    (nw.load, ("p.nw",)),
    (nw.table, (PEOPLE,)),
    (nw.workload, ("prefix:4",)),
    (optimise, (W, 1.0)),
    (nw.table(PEOPLE).sum, ("income",)),
    (nw.table(PEOPLE).mean, ("income",)),
    (nw.table(PEOPLE).variance, ("income",)),
    (nw.table(PEOPLE).count().plan, (BUDGET,)),
    (nw.table(PEOPLE).count().release, (BUDGET,)),
    (nw.plan(W, BUDGET).release, (np.arange(4),)),
    (nw.plan(nw.Moments(2), BUDGET).release, (np.zeros((3, 2)),)),
]
LOCAL_ONLY: dict[str, object] = {
    "effort": "high",
    "time_limit": 3.0,
    "seed": 5,
    "target_ratio": 1.5,
    "progress": print,
    "checkpoint": "search.nw",
    "cache": "kept",
    "objective": "average",
    "prior": [0.25] * 4,
    "norm": 4.0,
    "alpha": 0.1,
    "max_error": 0.1,
    "beta": 0.1,
}


@pytest.mark.parametrize(
    ("entry", "given"), ENTRIES, ids=lambda e: getattr(e, "__name__", "")
)
def test_an_unknown_argument_is_refused_by_its_name(
    entry: Callable[..., Any], given: tuple[object, ...]
) -> None:
    with pytest.raises((NoisewrightError, TypeError), match="banana"):
        entry(*given, banana=3)


def test_no_entry_takes_arguments_that_are_not_named() -> None:
    """Whatever is exported: names are listed, or typed as the struct they are fields of."""
    entries = [
        getattr(nw, name)
        for name in nw.__all__
        if inspect.isfunction(getattr(nw, name))
    ]
    releases = [CentralPlan, OpenPlan, CovariancePlan, Together, ValuePlan]
    entries += [each.release for each in releases]
    entries += [LocalPlan.estimate, optimise]
    entries += [m for _, m in inspect.getmembers(TableQuestions, inspect.isfunction)]
    for entry in entries:
        for parameter in inspect.signature(entry).parameters.values():
            if (
                parameter.kind is parameter.VAR_KEYWORD
                and entry is not TableQuestions.by
            ):
                assert parameter.annotation == "Unpack[SearchOptions]"


def test_options_by_name_are_the_fields_of_their_struct() -> None:
    assert sorted(get_type_hints(SearchOptions)) == sorted(Search.names())
    of_both = ["people", "mechanism", "strategy"]
    assert sorted([*LOCAL_ONLY, *of_both]) == sorted(nw.Local.names())


@pytest.mark.parametrize("name", LOCAL_ONLY)
def test_options_of_the_local_model_are_none_of_the_central_one(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        nw.Central(**{name: LOCAL_ONLY[name]})  # type: ignore[arg-type]


QUESTIONS: list[tuple[Any, type[Any] | None]] = [
    (W, nw.Central),
    (nw.Several([W, W]), nw.Central),
    (nw.RunningCount(4), nw.Stream),
    (nw.OpenQuestions({}, {}), nw.Central),
    (nw.Moments(2), nw.Central),
    (nw.Pairs(3), nw.Central),
    (nw.Values("region"), None),
]


@pytest.mark.parametrize(("question", "taken"), QUESTIONS, ids=str)
def test_options_that_a_question_does_not_take_are_refused(
    question: Any, taken: type[Any] | None
) -> None:
    local = () if question is W else (nw.Local(),)
    for options in (nw.Central(), nw.Stream(), *local, "local", {"people": 50}):
        if type(options) is not taken:
            with pytest.raises(InvalidParameter, match=r"^options="):
                nw.plan(question, BUDGET, options)


@pytest.mark.parametrize("question", [each for each, _ in QUESTIONS[1:]], ids=str)
def test_what_is_for_linear_queries_is_refused_elsewhere(question: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^budget="):
        nw.plan(question, nw.Target("rmse", 5))
    with pytest.raises(InvalidParameter, match=r"^domain="):
        nw.plan(question, BUDGET, domain=REGION)


INAPPLICABLE: list[tuple[Callable[[], object], str]] = [
    (lambda: nw.plan(W, BUDGET, nw.Local(beta=0.1)), "beta"),
    (
        lambda: nw.plan(
            W, nw.Target("rmse", 5), nw.Central(strategy=np.eye(4), people=500)
        ),
        "strategy",
    ),
    (lambda: nw.plan(W, nw.Target("rmse", 5), nw.Local()), "budget"),
    (lambda: nw.plan(W, BUDGET, nw.Central(public=[np.ones(4)])), "public"),
    (
        lambda: nw.plan(W, BUDGET, nw.Central(strategy=np.eye(4), mechanism="carry")),
        "strategy",
    ),
    (lambda: nw.plan("conjunctions:40:2", BUDGET, nw.Central(error="max")), "error"),
    (
        lambda: nw.plan("conjunctions:40:2", BUDGET, nw.Central(strategy=np.eye(4))),
        "strategy",
    ),
    (lambda: nw.plan("conjunctions:40:2", BUDGET, nw.Central(people=500)), "people"),
    (lambda: nw.plan(BY_REGION, BUDGET, domain=SEX), "domain"),
    (lambda: nw.plan(BY_REGION, BUDGET, nw.Local(), domain=SEX), "domain"),
    (lambda: nw.explain(BY_REGION, BUDGET, domain=SEX), "domain"),
    (lambda: nw.explain(BY_REGION, nw.Target("rmse", 5), domain=SEX), "domain"),
    (
        lambda: nw.explain(
            W, nw.Accuracy([nw.Target("rmse", 5)], pure=True, delta=1e-9)
        ),
        "delta",
    ),
    (lambda: nw.plan(nw.Several([BY_REGION], domain=SEX), BUDGET), "domain"),
    (
        lambda: nw.plan(
            nw.Several([W, W], shares=[0.5, 0.5], importance=[1, 2]), BUDGET
        ),
        "importance",
    ),
    (lambda: nw.compare(BY_REGION, BUDGET, domain=SEX), "domain"),
    (lambda: nw.plan(nw.RunningCount(8), BUDGET, nw.Stream(band=3)), "band"),
    (lambda: nw.plan(nw.RunningCount(8), BUDGET, nw.Stream("square-root")), "kind"),
    (
        lambda: nw.plan(
            nw.RunningCount(8), nw.Privacy(rho=1), nw.Stream("square-root", band=3)
        ),
        "band",
    ),
    (lambda: nw.compare(W, BUDGET, nw.Central(strategy=np.eye(4))), "strategy"),
    (lambda: nw.compare(W, BUDGET, nw.Central(mechanism="carry")), "mechanism"),
    (lambda: nw.compare(W, BUDGET, nw.Local(strategy=HALVES)), "strategy"),
    (lambda: nw.compare(W, BUDGET, nw.Local(people=50)), "people"),
    (lambda: nw.compare(W, BUDGET, nw.Local(max_error=0.1)), "max_error"),
    (lambda: nw.compare(W, BUDGET, nw.Local(people=5)), "people"),
    (lambda: nw.plan(W, BUDGET).release(np.arange(4), again="spend"), "again"),
    (lambda: nw.plan(W, BUDGET).release(np.arange(4), dataset="people"), "ledger"),
    (lambda: nw.find_bounds(PEOPLE, ["region"], BUDGET, again="stored"), "again"),
    (lambda: optimise(W, 1.0, settings=Search(), seed=3), "seed"),
    (lambda: optimise(W, 1.0, norm=4.0), "norm"),
]


@pytest.mark.parametrize(("call", "name"), INAPPLICABLE)
def test_what_does_not_apply_is_refused_by_its_name(
    call: Callable[[], object], name: str
) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        call()
    assert name in str(refusal.value).partition(";")[0]
    assert refusal.value.rule
    assert refusal.value.remedy


@pytest.mark.parametrize("name", sorted(set(Search.names()) - {"progress"}))
@pytest.mark.parametrize("how", [{"mechanism": "hadamard"}, {"strategy": HALVES}])
def test_what_steers_a_search_is_refused_where_nothing_is_searched(
    name: str, how: dict[str, Any]
) -> None:
    with pytest.raises(InvalidParameter, match=f"^{name}=.* steers a search"):
        nw.plan(W, BUDGET, nw.Local(**how, **{name: LOCAL_ONLY[name]}))


def test_zero_is_given_and_nothing_is_not() -> None:
    refuse_given({"a": None, "b": False, "c": (), "d": "", "e": []}, "is wrong")
    for value in (0, 0.0, True, "x", [0]):
        with pytest.raises(InvalidParameter, match=r"^a="):
            refuse_given({"a": value}, "is wrong")


# --- the command line -----------------------------------------------------------------------------

CENTRAL_LINE = "plan prefix:4 --epsilon 1"
LOCAL_LINE = "plan prefix:4 --epsilon 1 --model local"
ROWS_LINE = "plan --columns a,b --radius 1 --epsilon 1"
LINES = [
    *((CENTRAL_LINE, f"--{n.replace('_', '-')} {v}") for n, v in [
        ("alpha", 0.1), ("max_error", 0.1), ("beta", 0.1), ("effort", "low"), ("time_limit", 3),
        ("seed", 0), ("target_ratio", 1.5), ("checkpoint", "f"), ("objective", "average"),
        ("norm", 4), ("values_share", 0.5), ("radius", 1), ("rows", 3),
    ]),
    (CENTRAL_LINE, "--pure"),
    ("plan prefix:4 --target-rmse 5", "--people 500"),
    ("plan prefix:4 --target-rmse 5", "--strategy s.csv"),
    ("plan prefix:4 --target-rmse 5", "--epsilon 1"),
    (LOCAL_LINE, "--target-rmse 5"),
    (LOCAL_LINE, "--target-max 5"),
    (LOCAL_LINE, "--target rmse:5"),
    (LOCAL_LINE, "--pure"),
    (LOCAL_LINE, "--error max"),
    (LOCAL_LINE, "--values-share 0.5"),
    (LOCAL_LINE, "--neighbours add-remove"),
    (LOCAL_LINE + " --mechanism hadamard", "--effort high"),
    (LOCAL_LINE + " --mechanism hadamard", "--seed 3"),
    (LOCAL_LINE, "--beta 0.1"),
    (ROWS_LINE, "--model local"),
    (ROWS_LINE, "--error max"),
    (ROWS_LINE, "--effort low"),
    (ROWS_LINE, "--seed 0"),
    (ROWS_LINE, "--explain"),
    (ROWS_LINE, "--target-rmse 5"),
    (ROWS_LINE, "--values-share 0.5"),
    ("compare prefix:4 --epsilon 1", "--effort low"),
    ("compare prefix:4 --epsilon 1", "--alpha 0.01"),
    ("compare prefix:4 --epsilon 1 --model local", "--people 500"),
    ("compare prefix:4 --epsilon 1 --model local", "--error max"),
    ("norm prefix:4 --entrywise 0.1", "--norm 2"),
    ("norm prefix:4 --entrywise 0.1", "--neighbours replace-one"),
    ("norm prefix:4", "--shift"),
    ("sums --schema s.yaml --value income --rho 0.1", "--dataset people"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "more"), LINES, ids=str)
def test_an_option_that_does_not_apply_is_refused(
    line: str, more: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(
        "attributes:\n- {name: income, kind: numeric, edges: [0, 50, 100]}\n"
    )
    (tmp_path / "s.csv").write_text("1,0,0,0\n")
    result = CliRunner().invoke(main, [*line.split(), *more.split()])
    assert result.exit_code == 2, result.output
    name = more.split()[0].lstrip("-").replace("-", "_")
    message = result.stderr.partition("\n")[0]
    assert message.startswith("error: ")
    assert name in message.partition(";")[0]
    assert "see `" not in message, "the option is known"


def test_every_command_refuses_an_unknown_option() -> None:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        result = CliRunner().invoke(main, [name, "--banana"])
        assert result.exit_code == 2
        assert "banana" in result.stderr


def test_defaults_may_be_said() -> None:
    assert (
        api.plan(W, BUDGET, nw.Central(error="rmse", mechanism="auto")).privacy
        == BUDGET
    )
    result = CliRunner().invoke(
        main, ["norm", "prefix:4", "--entrywise", "0.1", "--norm", "inf"]
    )
    assert result.exit_code == 0
    result = CliRunner().invoke(
        main, [*LOCAL_LINE.split(), "--effort", "low", "--neighbours", "replace-one"]
    )
    assert result.exit_code == 0
