"""The frame every command stands in: quick help, safe errors, whole files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from noisewright import cli, files
from noisewright.cli.commands import show
from noisewright.errors import InvalidParameter
from noisewright.report.words.numbers import answer_digits

HEAVY = (
    "numpy",
    "scipy",
    "duckdb",
    "pandas",
    "pyarrow",
    "altair",
    "opendp",
    "rich",
    "narwhals",
)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.main, arguments)
    return result.exit_code, result.stdout, result.stderr


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys, click.testing, noisewright.cli as cli\n"
        "result = click.testing.CliRunner().invoke(cli.main, ['--help'])\n"
        "assert result.exit_code == 0 and 'schema' in result.output, result.output\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = run_python("-c", script)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_first_release_waits_for_no_library_of_statistics() -> None:
    script = (
        "import sys, numpy, noisewright as nw\n"
        "release = nw.plan('prefix:8', nw.Privacy(rho=1)).release(numpy.arange(8))\n"
        "release.intervals\n"
        "print([name for name in ('scipy.stats', 'altair', 'pandas') if name in sys.modules])"
    )
    done = run_python("-c", script)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_python_dash_m_and_version() -> None:
    done = run_python("-m", "noisewright", "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("noisewright, version ")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_listed_command_loads_and_documents_itself(name: str) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert "Usage:" in out


def fail_with(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> tuple[int, str, str]:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(show, "failing", failing, raising=False)
    monkeypatch.setitem(cli.COMMANDS, "failing", ("commands.show:failing", "Fail."))
    return run("failing")


def test_our_errors_reach_people_with_exit_code_2(monkeypatch) -> None:
    error = InvalidParameter("epsilon", -1, "must be > 0", "choose a positive number")
    code, out, err = fail_with(monkeypatch, error)
    assert (code, out) == (2, "")
    assert err == "error: epsilon=-1 must be > 0; choose a positive number\n"


def test_messages_of_engines_never_get_out(monkeypatch) -> None:
    code, out, err = fail_with(
        monkeypatch, RuntimeError("Could not convert 'Ada Lovelace'")
    )
    assert (code, out) == (1, "")
    assert "Lovelace" not in err
    assert err.startswith("error: unexpected RuntimeError")


def test_system_errors_name_the_file(monkeypatch) -> None:
    code, _, err = fail_with(monkeypatch, FileNotFoundError(2, "No such file", "x.csv"))
    assert (code, err) == (2, "error: No such file (x.csv)\n")


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "answers.csv"

    def write_half() -> None:
        with files.replacing_file(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert list(tmp_path.iterdir()) == []
    files.write_text(target, "whole é")
    with pytest.raises(RuntimeError):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]
    assert target.read_text(encoding="utf-8") == "whole é"


def test_links_are_followed_and_devices_are_kept(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_text("old")
    link.symlink_to(target)
    files.write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    files.write_text("/dev/null", "gone")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("path", [".", "absent/answers.csv", "/proc/answers.csv"])
def test_unwritable_outputs_are_refused_before_work(path: str) -> None:
    with pytest.raises(
        InvalidParameter, match=r"output=.*cannot be written.*choose another"
    ):
        files.check_writable(path)


SCHEMA = """
reviewed: true
attributes:
  - {name: "[bold]age", kind: numeric, edges: [0, 0.5, 120]}
  - {name: sex, kind: categorical, values: [F, M], outside: other}
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["norm", "prefix:16", "--norm", "2", "--norm", "inf"],
        ["norm", "prefix:16"],
        [
            "plan",
            "prefix:16*identity:3+total:16*identity:3",
            "--epsilon",
            "1",
            "--delta",
            "1e-9",
        ],
        [
            "plan",
            "prefix:8",
            "--model",
            "local",
            "--epsilon",
            "1",
            "--people",
            "200000",
        ],
        ["compare", "prefix:16*identity:4", "--rho", "0.1"],
        [
            "compare",
            "prefix:8",
            "--model",
            "local",
            "--epsilon",
            "1",
            "--effort",
            "low",
        ],
        ["schema", "show", "schema.yaml"],
    ],
    ids=" ".join,
)
def test_tables_fit_eighty_columns_and_cut_nothing(
    arguments, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    Path("schema.yaml").write_text(SCHEMA)
    code, out, _ = run(*arguments)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    labels = out.replace("…, ", "")  # a list of labels may leave out its middle
    assert "…" not in labels


def test_schema_show_and_check(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA)
    code, out, _ = run("schema", "show", str(path))
    assert code == 0
    assert "[bold]age" in out
    assert "[0, 0.5), [0.5, 120]" in out
    code, out, _ = run("schema", "show", str(path), "--json")
    assert json.loads(out)["attributes"][1]["labels"] == ["F", "M", "other"]
    code, out, _ = run("schema", "check", str(path), "--json")
    assert code == 0
    assert json.loads(out)["size"] == 6


def test_schema_check_refuses_drafts_and_faults(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA.replace("reviewed: true", "reviewed: false"))
    code, _, err = run("schema", "check", str(path))
    assert code == 2
    assert "reviewed: true" in err
    path.write_text(SCHEMA.replace("outside", "beyond"))
    code, _, err = run("schema", "check", str(path))
    assert code == 2
    assert "unknown keys beyond" in err
    code, _, err = run("schema", "check", str(tmp_path / "absent.yaml"))
    assert (code, "No such file" in err) == (2, True)


def test_schema_suggest(tmp_path: Path) -> None:
    table, draft = tmp_path / "table.csv", tmp_path / "draft.yaml"
    table.write_text("age,sex\n17,F\n44,M\n")
    code, out, _ = run("schema", "suggest", str(table))
    assert code == 0
    assert "reviewed: false" in out
    code, out, err = run("schema", "suggest", str(table), "-o", str(draft), "--json")
    assert code == 0
    assert [a["name"] for a in json.loads(out)["attributes"]] == ["age", "sex"]
    assert "review every value" in err
    assert run("schema", "show", str(draft))[0] == 0
    assert run("schema", "check", str(draft))[0] == 2
    code, _, err = run("schema", "suggest", str(table), "-o", str(tmp_path))
    assert (code, "cannot be written" in err) == (2, True)
    code, _, err = run("schema", "suggest", str(tmp_path / "absent.csv"))
    assert (code, "does not exist" in err) == (2, True)


def test_an_option_is_no_name_of_a_file() -> None:
    code, _, err = run(
        "estimate", "plan.nw", "r.parquet", "--distribution", "--non-negative"
    )
    assert code == 2
    assert "'--non-negative' is no name of a file" in err


def test_answers_are_printed_with_the_digits_that_their_errors_allow() -> None:
    assert answer_digits([5000] * 4, [149, 0.5, 0.0312, 0]) == [1, 2, 3, 1]
    # A total that the reports tell exactly, but for the rounding of its variance.
    assert answer_digits([5000.000000000001], [2.4e-06]) == [1]
