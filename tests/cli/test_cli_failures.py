"""Every command fails in one style, also as JSON, and says what was probably meant."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright import cli
from noisewright.errors import InvalidParameter, WeakPrivacyWarning


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.main, arguments, prog_name="noisewright")
    return result.exit_code, result.stdout, result.stderr


MISTAKES = {
    "a command": (["plna"], "no such command plna; did you mean plan?"),
    "a command below another": (
        ["schema", "sugest"],
        "no such command sugest; did you mean sugg",
    ),
    "an option": (
        ["plan", "prefix:8", "--epsilonn", "1"],
        "no such option --epsilonn; did you mea",
    ),
    "an option of all": (
        ["--versoin"],
        "no such option --versoin; did you mean --version?",
    ),
    "no output": (["release", "a.nw", "b.csv"], "output must be given"),
    "no number": (
        ["plan", "prefix:8", "--epsilon", "one"],
        "invalid value for '--epsilon': 'one'",
    ),
    "a workload": (["norm", "prefx:8"], "did you mean 'prefix'?"),
    "a mechanism": (
        ["plan", "prefix:8", "--rho", "1", "--mechanism", "gausian"],
        "did you mean 'gaussian'? choose from auto, ",
    ),
    "an error": (
        ["plan", "prefix:8", "--rho", "1", "--error", "rsme"],
        "did you mean 'rmse'?",
    ),
    "a budget": (["plan", "prefix:8", "--epsilon", "-1"], "epsilon=-1.0 must be > 0"),
    "a file": (["release", "absent.nw", "absent.csv", "-o", "out.csv"], "absent.nw"),
}


@pytest.mark.parametrize(("arguments", "said"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_line_with_what_was_meant(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert said in err
    code, out, err = run(*arguments, "--json")
    document = json.loads(out)["error"]
    assert (code, err) == (2, f"error: {document['message']}\n")
    assert said in document["message"]
    assert document["kind"]
    assert list(tmp_path.iterdir()) == []


def test_the_parts_of_a_refusal_are_for_scripts_to_read() -> None:
    _, out, _ = run("plan", "prefix:8", "--epsilon", "-1", "--json")
    document = json.loads(out)["error"]
    assert (document["name"], document["rule"]) == ("epsilon", "must be > 0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mechansim": "auto"}, "mechansim"),
        ({"effort": "low"}, "effort"),
    ],
)
def test_options_of_no_curator_or_none_at_all_are_refused_by_name(
    arguments: dict[str, str], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        nw.Central(**arguments)  # type: ignore[arg-type]


def test_names_in_files_are_suggested() -> None:
    domain = nw.Domain([nw.Categorical("region", ["N", "S"])])
    with pytest.raises(InvalidParameter, match="did you mean 'region'"):
        nw.Workload.from_spec({"queries": [{"marginal": ["regoin"]}]}, domain)
    with pytest.raises(InvalidParameter, match="did you mean 'marginal'"):
        nw.Workload.from_spec({"queries": [{"margnal": ["region"]}]}, domain)


WEAK = [({"epsilon": 10}, "e^10"), ({"epsilon": 1, "delta": 1e-3}, "delta=0.001")]


@pytest.mark.parametrize(("budget", "said"), WEAK)
def test_weak_promises_are_warned_of(budget: dict[str, float], said: str) -> None:
    with pytest.warns(WeakPrivacyWarning) as caught:
        nw.plan("prefix:8", nw.Privacy(**budget))
    assert said in str(caught[0].message)
    assert caught[0].filename == __file__
    options = [
        text for name, value in budget.items() for text in (f"--{name}", str(value))
    ]
    code, _, err = run("plan", "prefix:8", *options)
    assert (code, err.startswith("warning: "), said in err) == (0, True, True)


def test_promises_just_stronger_are_not_warned_of() -> None:
    assert nw.Privacy(epsilon=9.99, delta=0.99e-3).caution is None
    assert nw.Privacy(rho=1.0).caution is None
    assert nw.Privacy(rho=5.0, delta=1e-9).caution is not None
