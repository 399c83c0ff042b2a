"""Five hundred people through the real JavaScript: intervals cover the truth."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest

from collect.served import serving

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_intervals_of_500_scripted_people_cover_the_truth(tmp_path):
    """Twelve answers, each missed with chance 5 %: more than five misses have chance 10^-5."""
    rng = np.random.default_rng(4)
    transport, age = (
        rng.choice(4, 500, p=[0.2, 0.3, 0.1, 0.4]),
        rng.choice(3, 500, p=[0.2, 0.6, 0.2]),
    )
    people = np.stack([transport, age], axis=1).tolist()
    with serving(tmp_path) as served:
        address = f"{served.address}/api/campaigns/travel"
        script = Path(__file__).with_name("respondents.mjs")
        work = json.dumps({"address": address, "people": people})
        done = subprocess.run(
            [NODE, str(script)], input=work, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["statuses"] == {"accepted": 500}
        request = Request(
            f"{address}/estimates", headers={"authorization": f"Bearer {served.key}"}
        )
        figures = json.load(urlopen(request))
    truth = np.bincount(3 * transport + age, minlength=12)
    answers = figures["answers"]
    assert figures["people"] == 500
    lower, upper = np.array(answers["lower"]), np.array(answers["upper"])
    assert int(((truth < lower) | (truth > upper)).sum()) <= 5
    # Five standard errors are left by one of twelve answers with chance 10^-5; all at once at 95 %
    # would be left by one run in twenty.
    far = np.abs(np.array(answers["answer"]) - truth) / np.array(answers["std_error"])
    assert far.max() < 5
    assert (np.array(answers["lower_all"]) <= lower).all()
    assert (np.array(answers["upper_all"]) >= upper).all()
