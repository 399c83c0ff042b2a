"""Packing bounds: no mechanism of ours is below, planted ones that know the data are."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.geometry.limits.packing import (
    Packing,
    best_packing,
    gaussian_width,
)
from noisewright.errors import InvalidParameter
from noisewright.planning.central.problems import central_problem
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload

BOTH = [Privacy(1.0, neighbours="replace-one"), Privacy(0.5)]


def problem(text: str, privacy: Privacy, people: int):
    return central_problem(workload(text), privacy, nw.Central(people=people))


@pytest.mark.parametrize("privacy", BOTH, ids=lambda p: p.text())
@pytest.mark.parametrize(
    "text", ["identity:64", "parity:5:<=2", "prefix:40", "marginals:2^5:2"]
)
def test_no_plan_is_below_and_answers_that_look_at_nobody_are_not(text, privacy):
    """At the very data sets of the packing: even the best constant answer errs by the bound."""
    packing, bound = best_packing(problem(text, privacy, 30))
    assert bound > 0
    assert nw.plan(text, privacy).achieved > bound
    asked = workload(text)
    data = np.zeros((len(packing.cells), asked.size))
    data[:, 0] = 30 - packing.moved
    data[np.arange(len(data)), packing.cells] += packing.moved
    answers = asked.matvec(data.T).T
    # the best for the mean over these, so not above their worst
    constant = answers.mean(axis=0)
    worst = np.sqrt(((answers - constant) ** 2).mean(axis=1)).max()
    assert worst >= bound


def test_bounds_are_worked_out_from_the_cells_alone():
    """By hand: e_a of people, Euclidean distance √2·m, over √n, halved, times what is left."""
    asked = workload("identity:9")
    packing = Packing(np.arange(9), 2)
    expected = 2 * np.sqrt(2 / 9) / 2 * np.sqrt(1 - np.exp(2 * 0.5) / 9)
    assert packing.bound(asked, 0.5, 1) == pytest.approx(expected, rel=1e-6)
    assert packing.bound(asked, 0.5, 1) <= expected
    assert packing.bound(asked, 3.0, 1) == 0.0
    assert Packing(np.arange(9), 1).bound(workload("total:9"), 0.5, 1) == 0.0
    with pytest.raises(InvalidParameter):
        Packing(np.array([1, 1]), 2).bound(asked, 0.5, 1)
    with pytest.raises(InvalidParameter):
        Packing(np.array([1]), 2).bound(asked, 0.5, 1)


def test_one_cell_and_no_people_have_no_packing():
    assert (
        best_packing(central_problem(workload("prefix:4"), BOTH[0], nw.Central()))
        is None
    )
    assert best_packing(problem("identity:1", Privacy(1.0), 5)) is None


def test_the_width_of_the_simplex_is_the_largest_gaussian():
    """E max of n Gaussians by quadrature; an interval of 99.9 %, seed fixed."""
    from scipy.integrate import quad
    from scipy.stats import norm

    n = 30
    truth = quad(lambda z: z * n * norm.pdf(z) * norm.cdf(z) ** (n - 1), -8, 8)[0]
    width = gaussian_width(workload("identity:30"))
    assert width.lower < truth < width.upper


def test_comparisons_with_people_tell_it():
    rows = nw.compare("prefix:6", BOTH[0], nw.Central(people=40))
    told = {row.limits.packing for row in rows if row.refusal is None}
    assert told == {best_packing(problem("prefix:6", BOTH[0], 40))[1]}
    assert "packing_bound" in rows[0].to_dict()
    assert "packing_bound" not in nw.compare("prefix:6", BOTH[0])[0].to_dict()
