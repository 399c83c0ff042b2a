"""Selections in simulation: how often they miss, and whom they ask. Nothing is proven by it.

Blocks are drawn as binomial counts. A bandit asks person by person, hundreds of millions of them:
it is drawn in bursts, equal in law. The index of an arm that is not asked stays as it is, so one
arm is asked until its own falls below the next; as long as zeros alone could not bring it there, a
burst is one binomial number, and only near the next arm's index every answer is drawn.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import require
from noisewright.learn.protocols import Bandit, Contest, Protocol, moss_index
from noisewright.learn.selection import Selection, new_protocol

_FEW, _MANY = 16, 2**12  # answers that are drawn one by one, and those of one row


def simulated(
    selection: Selection, means: npt.ArrayLike, runs: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean number of people asked, and share of runs that miss, where the means are these."""
    truth = np.asarray(means, dtype=np.float64)
    contest = selection.contest
    require(
        truth.shape == (contest.coordinates,) and truth.min() >= 0 and truth.max() <= 1,
        "means",
        truth.shape,
        f"must be {contest.coordinates} shares",
    )

    people = 0
    missed = 0

    for _ in range(runs):
        state = new_protocol(contest, selection.protocol)
        people += run_to_end(state, truth, rng)
        missed += bool(truth[state.choice] < truth.max() - contest.alpha)

    return people / runs, missed / runs


def run_to_end(state: Protocol, means: FloatArray, rng: np.random.Generator) -> int:
    """Bring a protocol that has asked nobody to its end; how many people it asked."""
    chances = _chances(state.contest, means)
    people = 0
    if isinstance(state, Bandit) and state.contest.coordinates > 1:
        people += _found_arms(state, chances, rng)

    while (block := state.block()) is not None:
        state.learn(block, rng.binomial(block.repeats, chances[block.coordinates]))
        people += block.people

    return people


def _chances(contest: Contest, means: FloatArray) -> FloatArray:
    """Of a randomised bit that is one, for every coordinate."""
    return np.asarray((1 - contest.slope) / 2 + contest.slope * means)


def _found_arms(state: Bandit, chances: FloatArray, rng: np.random.Generator) -> int:
    """All runs of a bandit at once; what follows is the comparison of the arms."""
    state.candidates = [
        arm_of_round(chances, state.runs.rounds, picked, rng) for picked in state.picked
    ]
    return state.runs.count * state.runs.rounds


def arm_of_round(
    chances: FloatArray, rounds: int, picked: int, rng: np.random.Generator
) -> int:
    """The arm that a bandit of so many rounds pulls in one of them, all arms having these chances.

    What comes after that round does not matter and is not drawn.
    """
    arms = len(chances)
    if picked < arms:
        return picked

    ones = (rng.random(arms) < chances).astype(np.int64)
    asked = np.ones(arms, dtype=np.int64)
    index = moss_index(ones, asked, rounds / arms)
    done = arms
    arm = 0

    while done <= picked:
        arm = int(np.argmax(index))
        index[arm] = -np.inf
        rival = int(np.argmax(index))
        level = (
            float(np.nextafter(index[rival], -np.inf))
            if arm < rival
            else float(index[rival])
        )
        share = rounds / arms
        most = picked + 1 - done
        before = int(asked[arm])
        ones[arm], asked[arm] = _burst(
            int(ones[arm]), before, float(chances[arm]), share, level, most, rng
        )
        done += int(asked[arm]) - before
        index[arm] = _index(int(ones[arm]), int(asked[arm]), share)

    return arm


def _burst(
    ones: int,
    asked: int,
    chance: float,
    share: float,
    level: float,
    most: int,
    rng: np.random.Generator,
) -> tuple[int, int]:
    """Ones and answers of an arm after it was asked until its index is not above a level.

    Most bursts are short: the first answers are drawn one by one, further ones in rows.
    """
    last = asked + most
    size = 1

    while asked < last:
        safe = min(asked, last - asked)
        while safe >= _FEW and _index(ones, asked + safe, share) <= level:
            safe //= 4

        if safe >= _FEW:
            ones = ones + int(rng.binomial(safe, chance))
            asked = asked + safe
            size = 1
        elif size <= _FEW:
            ones = ones + (rng.random() < chance)
            asked = asked + 1
            size = size + 1
            if _index(ones, asked, share) <= level:
                break
        else:
            pulled = asked + np.arange(1, min(size, last - asked) + 1)
            won = ones + np.cumsum(rng.random(len(pulled)) < chance)
            below = moss_index(won, pulled, share) <= level
            taken = int(below.argmax()) if below.any() else len(pulled) - 1
            ones = int(won[taken])
            asked = int(pulled[taken])
            size = min(2 * size, _MANY)
            if below[taken]:
                break

    return ones, asked


def _index(ones: int, asked: int, share: float) -> float:
    """`moss_index` of one arm, which falls with every zero."""
    bonus = log(share / asked) if asked < share else 0.0
    return ones / asked + sqrt(bonus / asked)
