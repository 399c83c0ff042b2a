"""Selection: which of d coordinates has the largest mean, one randomised bit of each person.

A selection is asked whom to ask next and told the answer, person by person or many at once; it can
be saved in between. What is kept is the transcript of randomised bits and nothing else: everything
follows from it again, so a file cannot say more than its bits do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

import msgspec
import numpy as np
import numpy.typing as npt

from noisewright.arrays import BoolArray, ByteArray, IntArray
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    TooLarge,
    require,
)
from noisewright.learn.outcomes import Outcome, Proven
from noisewright.learn.protocols import (
    Bandit,
    Block,
    Contest,
    Elimination,
    NonInteractive,
    Protocol,
    Runs,
)
from noisewright.local.reports.format import Client, ReportFormat
from noisewright.planning.files import Kept
from noisewright.planning.plan import Plan
from noisewright.privacy.noise.source import uniform_below
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Promise, Spend

PROTOCOLS = ("non-interactive", "elimination", "bandit")
_REMEDY = "select again, or restore the file"
_MOST_AT_ONCE = 2**32  # answers of a block, which are held as bytes until it is full
_MOST_REPLAYED = 2**24  # single steps of a bandit that a file may ask for


@dataclass(frozen=True, kw_only=True)
class Selected(Outcome):
    """A coordinate, whose mean is within `alpha` of the largest with probability 1 − `beta`."""

    coordinate: int

    def _facts(self) -> list[tuple[str, str]]:
        return [("coordinate", str(self.coordinate)), *super()._facts()]


class Selection(Plan):
    """A selection under way: `ask()`, `tell(bit)`, and `result()` at any time."""

    kind = "selection"
    model = "local"

    def __init__(
        self, contest: Contest, protocol: str, picked: list[int] | None = None
    ) -> None:
        self.contest = contest
        self.protocol = protocol
        self._state = new_protocol(contest, protocol, picked)
        self._parts: list[BoolArray] = []
        self._begin()

    def _begin(self) -> None:
        """Room for the answers of the next block, none of which is there yet."""
        self._block = self._state.block()
        if self._block is not None and self._block.people > _MOST_AT_ONCE:
            raise TooLarge(
                f"{self._block.people:,} people are asked before any answer counts, more than "
                f"{_MOST_AT_ONCE:,}; raise epsilon or alpha"
            )

        self._room = np.zeros(self._block.people if self._block else 0, dtype=bool)
        self._filled = 0

    @property
    def _pending(self) -> BoolArray:
        """Answers of a block that is not full."""
        return self._room[: self._filled]

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("coordinates", f"{self.contest.coordinates:,}"),
            ("protocol", self.protocol),
            ("people", f"{self.asked:,} of at most {self.people:,}"),
        ]

    # --- what is promised ---------------------------------------------------------------------

    @property
    def privacy(self) -> Privacy:
        """What every person's answer promises, recomputed from what devices run."""
        return self.contest.response.promise

    @property
    def spend(self) -> Spend:
        """What one answer costs the person who gives it."""
        return Spend("replace-one", (Promise(self.contest.epsilon, 0.0),))

    @property
    def people(self) -> int:
        """How many people are asked at most, for its accuracy to be certain but for β."""
        return self._state.people

    @property
    def needs(self) -> dict[str, int]:
        """The most people that each protocol may ask: what is proven, not what is typical."""
        return people_by_protocol(self.contest)

    @property
    def client(self) -> Client:
        """What runs on a person's device: `client.randomize(bit)` gives the bytes to send."""
        return Client(ReportFormat(self.contest.response, "a bit of a selection"))

    def randomize(self, bits: npt.ArrayLike) -> BoolArray:
        """Randomised answers of people whose true bits, of the coordinates asked, are these."""
        held = np.asarray(bits)
        require(
            held.dtype.kind in "biu" and not ((held != 0) & (held != 1)).any(),
            "bits",
            f"{held.dtype} {held.shape}",
            "must be 0 and 1",
        )
        return self.contest.response.randomize(held.astype(np.int64).ravel()).astype(
            bool
        )

    # --- asking -------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether nobody needs to be asked any more."""
        return self._block is None

    @property
    def asked(self) -> int:
        """How many people have answered."""
        return sum(map(len, self._parts)) + self._filled

    @property
    def bits(self) -> BoolArray:
        """Every randomised bit so far, in the order in which they were asked for."""
        return np.concatenate([*self._parts, self._pending])

    @property
    def picked(self) -> list[int]:
        """The rounds that a bandit returns; none for other protocols."""
        return self._state.picked if isinstance(self._state, Bandit) else []

    def ask(self) -> int:
        """The coordinate to ask of the next person."""
        return int(self.ask_many(1)[0])

    def ask_many(self, most: int) -> IntArray:
        """The coordinates to ask of the next people, who need not wait for each other."""
        if self._block is None:
            raise InvalidParameter(
                "selection", "finished", "asks nobody", "read `result()`"
            )
        places = np.arange(self._filled, min(self._filled + most, self._block.people))
        return self._block.coordinates[places % len(self._block.coordinates)]

    def tell(self, bits: npt.ArrayLike) -> None:
        """The randomised bit of the person asked last, or those of several, in order."""
        told = np.atleast_1d(np.asarray(bits))
        if (
            told.ndim != 1
            or told.dtype.kind not in "biu"
            or ((told != 0) & (told != 1)).any()
        ):
            raise InvalidParameter(
                "bits", f"{told.dtype} {told.shape}", "must be 0 and 1"
            )

        rest = told.astype(bool)
        while len(rest):
            if self._block is None:
                raise InvalidParameter(
                    "bits", len(rest), "are more than were asked for"
                )
            part = rest[: self._block.people - self._filled]
            self._room[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            rest = rest[len(part) :]
            if self._filled == self._block.people:
                self._learn(self._block, self._room)

    def _learn(self, block: Block, bits: BoolArray) -> None:
        ones = bits.reshape(block.repeats, -1).sum(axis=0, dtype=np.int64)
        self._state.learn(block, ones)
        self._parts.append(bits)
        self._begin()

    # --- what it says -------------------------------------------------------------------------

    def result(self) -> Selected:
        """The coordinate that leads, and what is proven of it."""
        state = self._seen()
        beta = self.contest.beta
        reached = 0.0 if self.contest.coordinates == 1 else state.reached
        alpha = reached if reached < 1 else None

        warning = None
        if not self.finished:
            holds = f"within {alpha:.4g}" if alpha is not None else "nothing"
            warning = (
                f"{self.asked:,} people were asked, and up to {self.people:,} are needed for "
                f"{self.contest.alpha:g}: {holds} is proven"
            )
        elif alpha is not None:
            alpha = min(alpha, self.contest.alpha)

        return Selected(
            coordinate=state.choice,
            alpha=alpha,
            beta=beta,
            people=self.asked,
            warning=warning,
            privacy=self.privacy,
        )

    def _seen(self) -> Protocol:
        """With answers of a block that is not full, where the protocol needs no full ones."""
        block = self._block
        if block is None or not isinstance(self._state, NonInteractive):
            return self._state

        each = len(block.coordinates)
        whole = len(self._pending) // each
        seen = NonInteractive(self.contest)
        part = self._pending[: whole * each].reshape(whole, each)
        seen.learn(Block(block.coordinates, whole), part.sum(axis=0, dtype=np.int64))

        return seen

    @property
    def title(self) -> str:
        """What is selected, and how."""
        return (
            f"the largest of {self.contest.coordinates:,} coordinates ({self.protocol})"
        )

    def forecast(self) -> Proven:
        """What is proven where everybody who may be asked is."""
        return Proven(self.contest.alpha, self.contest.beta, self.people)

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        return {
            "protocol": self.protocol,
            "coordinates": self.contest.coordinates,
            "alpha": self.contest.alpha,
            "beta": self.contest.beta,
            "people": self.people,
            "answers": self.asked,
            "finished": self.finished,
            "privacy": self.privacy.to_dict(),
        }


class SelectionFile(Kept, frozen=True, tag="selection"):
    """Settings, and the bits that were answered, eight in a byte."""

    coordinates: int
    epsilon: float
    alpha: float
    beta: float
    protocol: str
    picked: Annotated[list[int], msgspec.Meta(max_length=64)]
    answers: Annotated[int, msgspec.Meta(ge=0, lt=2**40)]
    bits: ByteArray

    @classmethod
    def of(cls, selection: Selection) -> Self:
        """What was asked and answered."""
        bits = selection.bits
        contest = selection.contest
        return cls(
            coordinates=contest.coordinates,
            epsilon=contest.epsilon,
            alpha=contest.alpha,
            beta=contest.beta,
            protocol=selection.protocol,
            picked=selection.picked,
            answers=len(bits),
            bits=np.packbits(bits),
        )

    def content(self) -> Selection:
        """The selection again, by asking and telling all of it anew."""
        contest = Contest(self.coordinates, self.epsilon, self.alpha, self.beta)
        if self.protocol not in PROTOCOLS:
            raise FileFormatError(
                f"a selection has no protocol of that name; {_REMEDY}"
            )
        if self.protocol == "bandit" and self.answers > _MOST_REPLAYED:
            raise FileFormatError(
                f"a bandit of so many steps is not replayed; {_REMEDY}"
            )

        if self.bits.shape != (-(-self.answers // 8),):
            raise FileFormatError(
                f"it holds more or fewer bits than it says; {_REMEDY}"
            )

        selection = Selection(contest, self.protocol, self.picked)
        selection.tell(np.unpackbits(self.bits, count=self.answers))

        return selection


def new_protocol(
    contest: Contest, protocol: str, picked: list[int] | None = None
) -> Protocol:
    """A protocol that has asked nobody; the rounds that a bandit returns are drawn unless given."""
    if protocol == "bandit":
        runs = Runs.best(contest)
        drawn = [uniform_below(runs.rounds) for _ in range(runs.count)]
        return Bandit(contest, drawn if picked is None else picked, runs)
    return (NonInteractive if protocol == "non-interactive" else Elimination)(contest)


def people_by_protocol(contest: Contest) -> dict[str, int]:
    """The most people that each protocol may ask."""
    if contest.coordinates == 1:
        return dict.fromkeys(PROTOCOLS, 0)
    return {
        "non-interactive": NonInteractive(contest).people,
        "elimination": Elimination(contest).people,
        "bandit": Runs.best(contest).people,
    }
