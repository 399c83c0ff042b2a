"""The second interpreter and verifier, in JavaScript: the same bytes and the same ε."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from local.randomizer.cases import KINDS, VECTORS, Stream, grid_of_kinds, large, whole
from local.randomizer.test_local_randomizer_hostile import accepted, mutants
from local.randomizer.vectors import PATH, document
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.randomizer.specification import decode, encode
from noisewright.local.randomizer.verify import verify
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.format import ReportFormat, exported
from noisewright.local.storage import HOMES

NODE, NPM = shutil.which("node"), shutil.which("npm")
MODULE = PATH.parents[1] / "src" / "noisewright" / "collect" / "web" / "noisewright.js"
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def run(**work):
    script = Path(__file__).with_name("run.mjs")
    done = subprocess.run(
        [NODE, str(script)],
        input=json.dumps(work),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_vectors_are_what_the_generator_gives_now():
    assert PATH.read_text() == document()
    assert PATH.stat().st_size < 300_000
    assert {strategy.kind for strategy in whole().values()} == set(HOMES)


def test_the_vectors_hold_in_python():
    for case in json.loads(PATH.read_text())["cases"]:
        specification = decode(json.dumps(case["specification"]))
        assert specification.digest == case["digest"]
        assert verify(specification).epsilon == case["epsilon"]
        for value, random, report in case["reports"]:
            source = Stream("nothing", bytes.fromhex(random))
            assert interpret(specification, int(value), source).hex() == report
            assert source.read.hex() == random


@needs_node
def test_reports_and_promises_are_the_same_on_all_vectors():
    cases = json.loads(PATH.read_text())["cases"]
    answers = run(documents=[case["specification"] for case in cases], cases=cases)
    for case, promise, reports in zip(
        cases, answers["documents"], answers["cases"], strict=True
    ):
        assert promise == {
            "epsilon": case["epsilon"],
            "ratio": case["ratio"],
            "exact": True,
        }
        expected = [[report, len(random) // 2] for _, random, report in case["reports"]]
        assert reports == expected, case["name"]


@needs_node
def test_many_more_reports_are_the_same():
    """Ten of every kind, size and budget, from other bytes than the stored ones."""
    cases = []
    listed = {
        **dict(grid_of_kinds()),
        **KINDS,
        **{f"large-{k}": s for k, s in large().items()},
    }
    for name, strategy in listed.items():
        specification = strategy.specification
        rows = []
        for index in range(10 if strategy.size < 2**18 else 3):
            source, value = (
                Stream(f"more/{name}/{index}"),
                index * 104729 % specification.cells,
            )
            report = interpret(specification, value, source)
            rows.append([str(value), source.read.hex(), report.hex()])
        cases.append(
            {"specification": json.loads(encode(specification)), "reports": rows}
        )
    answers = run(documents=[case["specification"] for case in cases], cases=cases)
    for case, promise, reports in zip(
        cases, answers["documents"], answers["cases"], strict=True
    ):
        own = verify(decode(json.dumps(case["specification"])))
        assert promise["epsilon"] == own.epsilon
        assert promise["ratio"] == [
            str(own.ratio.numerator),
            str(own.ratio.denominator),
        ]
        assert reports == [[row[2], len(row[1]) // 2] for row in case["reports"]]


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in KINDS | VECTORS if "gaussian" not in n])
def test_ten_thousand_reports_of_every_kind_are_the_same(name):
    specification = (KINDS | VECTORS)[name].specification
    rows = []
    for index in range(10_000):
        source, value = (
            Stream(f"many/{name}/{index}"),
            index * 104729 % specification.cells,
        )
        report = interpret(specification, value, source)
        rows.append([str(value), source.read.hex(), report.hex()])
    case = {"specification": json.loads(encode(specification)), "reports": rows}
    (reports,) = run(documents=[], cases=[case])["cases"]
    assert reports == [[row[2], len(row[1]) // 2] for row in rows]


def test_the_module_is_small():
    assert len(gzip.compress(MODULE.read_bytes(), 9)) <= 10_000


@pytest.mark.skipif(NPM is None, reason="npm is not installed")
def test_the_package_holds_the_module_that_browsers_are_served(tmp_path):
    package = PATH.parent / "javascript"
    for path in (*package.iterdir(), MODULE):
        copy = tmp_path / path.relative_to(PATH.parents[1])
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    command = [NPM, "pack", "--offline", "--no-update-notifier", "--loglevel=error"]
    subprocess.run(
        command, cwd=tmp_path / package.relative_to(PATH.parents[1]), check=True,
        capture_output=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    (packed,) = tmp_path.rglob("*.tgz")
    with tarfile.open(packed) as archive:
        names = set(archive.getnames())
        assert (
            archive.extractfile("package/noisewright.js").read() == MODULE.read_bytes()
        )
    assert names == {
        f"package/{n}" for n in ("noisewright.js", "package.json", "README.md")
    }


@needs_node
def test_both_refuse_the_same_specifications():
    documents = [mutant for _, mutant in mutants()]
    answers = run(documents=documents)["documents"]
    for mutant, answer in zip(documents, answers, strict=True):
        specification = accepted(mutant)
        assert ("refused" in answer) == (specification is None), (answer, mutant)
        if specification is not None:
            assert answer["epsilon"] == verify(specification).epsilon


@needs_node
def test_what_a_browser_sends_is_collected():
    names = ["hadamard-2", "subset-selection", "orbits", "vector", "union"]
    strategies = [(KINDS | VECTORS)[name] for name in names]
    formats = [ReportFormat(strategy, "meaning") for strategy in strategies]
    values = [i % 3 for i in range(30)]
    work = [{"exported": exported(format), "values": values} for format in formats]
    for format, reports in zip(formats, run(clients=work)["clients"], strict=True):
        aggregate = Aggregate(format).add([bytes.fromhex(report) for report in reports])
        assert aggregate.people == 30
        assert len(set(reports)) > 1


@needs_node
def test_gaussian_noise_and_understated_budgets_are_refused():
    gaussian = exported(ReportFormat(VECTORS["vector-gaussian"]))
    assert gaussian["continuous_noise"]
    honest = exported(ReportFormat(KINDS["hadamard-2"]))
    boastful = {**honest, "epsilon": honest["epsilon"] / 2}
    work = [{"exported": each, "values": [0]} for each in (gaussian, boastful, honest)]
    first, second, third = run(clients=work)["clients"]
    assert "Gaussian" in first["refused"]
    assert "spent" in second["refused"]
    assert len(third) == 1
