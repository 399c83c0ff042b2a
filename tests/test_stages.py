"""Long work says what it is doing, to those who listen, and nothing of anybody."""

import numpy as np

import noisewright as nw
from noisewright.stages import listening, stage


def test_stages_are_heard_inside_and_only_there() -> None:
    heard: list[str] = []
    stage("nobody listens")
    with listening(heard.append):
        plan = nw.plan("prefix:8", nw.Privacy(rho=1))
        release = plan.release(np.full(8, 12_345))
        nw.post_process(release, non_negative=True).answers
    stage("nobody listens any more")
    assert heard[0].startswith("planning by ")
    assert any(text.startswith("factorizing 8 queries over 8 cells: gap") for text in heard)
    assert heard[-3:] == ["counting", "drawing noise", "fitting a non-negative histogram"]
    assert not any("12" in text for text in heard[-3:])
