"""The files that deploy the collector: their own commands, run in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from collect.collector import campaign, plan_bytes, submission
from collect.served import wait_until
from noisewright.collect.server.application import BACKLOG
from noisewright.collect.service import Settings
from noisewright.web import asset_bytes
from ports import free_port

REPOSITORY = Path(__file__).parents[2]
CONTAINERFILE = REPOSITORY / "deploy" / "Containerfile"
UNIT = REPOSITORY / "deploy" / "noisewright-collector.service"
SYSTEMD = shutil.which("systemd-analyze")


def instructions() -> list[tuple[str, str]]:
    lines = CONTAINERFILE.read_text().splitlines()
    return [
        tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")
    ]


def test_the_container_runs_as_nobody_and_copies_what_is_there():
    found = instructions()
    names = [name for name, _ in found]
    assert names.index("USER") < names.index("ENTRYPOINT")
    for name, value in found:
        if name == "COPY" and not value.startswith("--from"):
            *sources, _ = value.split()
            assert all((REPOSITORY / source).exists() for source in sources)


@pytest.mark.slow
def test_the_commands_of_the_container_make_a_collector(tmp_path):
    """Every COPY, RUN and ENTRYPOINT, with folders moved; only the base image is not tried."""

    def moved(text: str) -> str:
        return re.sub(
            r"(?<![\w.])/(source|opt/noisewright|data)\b", rf"{tmp_path}/\1", text
        )

    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
    (tmp_path / "data").mkdir()
    for name, value in instructions():
        if name == "COPY" and not value.startswith("--from"):
            *sources, target = moved(value).split()
            for source in sources:
                place = Path(target) / source if target.endswith("/") else Path(target)
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = (
                    shutil.copytree if (REPOSITORY / source).is_dir() else shutil.copy
                )
                copy(REPOSITORY / source, place)
        elif name == "RUN" and "useradd" not in value:
            subprocess.run(
                shlex.split(moved(value)), env=environment, check=True, cwd=tmp_path
            )
        elif name == "ENV":
            variable, _, setting = moved(value).partition("=")
            environment[variable] = setting
    shutil.rmtree(tmp_path / "source")  # the second stage does not have it
    plan, port = tmp_path / "travel.nw", free_port()
    plan.write_bytes(plan_bytes())
    entry = json.loads(moved(dict(instructions())["ENTRYPOINT"]))
    command = [*entry, str(plan), "--port", str(port)]
    process = subprocess.Popen(command, env=environment, cwd=tmp_path / "data")
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None
        try:
            return urlopen(f"{address}/health", timeout=10).status == 200
        except OSError:
            return False

    try:
        wait_until(answers, "the collector starts")
        body = json.dumps(submission(campaign().plan.client.randomize(1))).encode()
        assert (
            urlopen(Request(f"{address}/api/campaigns/travel/reports", body)).status
            == 201
        )
        served = urlopen(f"{address}/assets/noisewright.js").read()
        assert served == asset_bytes("noisewright.collect", "noisewright.js")
        assert b"How" in urlopen(f"{address}/campaigns/travel").read()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert (tmp_path / "data" / "collector.db").exists()


def test_the_unit_has_descriptors_for_every_connection():
    limit = int(
        re.search(r"^LimitNOFILE=(\d+)$", UNIT.read_text(), re.MULTILINE).group(1)
    )
    assert limit > Settings(database="x").connections + BACKLOG


@pytest.mark.skipif(SYSTEMD is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path):
    text = UNIT.read_text().replace("/opt/noisewright/bin/noisewright", "/bin/true")
    copy = tmp_path / UNIT.name
    copy.write_text(text)
    done = subprocess.run(
        [SYSTEMD, "verify", str(copy)], capture_output=True, text=True, check=False
    )
    mine = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert done.returncode == 0, done.stderr
    assert mine == []
