"""Which central mechanism plans a workload: the best that applies, or all of them compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt

import numpy.typing as npt

from noisewright.central.baselines import OWN_STRATEGY, own_candidate
from noisewright.central.groups import RowBounds, in_every_group, one_group
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_gaussian,
)
from noisewright.central.registry import CENTRAL
from noisewright.domain import Domain
from noisewright.errors import (
    InvalidParameter,
    OutOfReach,
    TooLarge,
    require,
    unknown_name,
)
from noisewright.estimate.accuracy import Accuracy
from noisewright.planning.central.options import Central
from noisewright.planning.central.plan import CentralPlan, check_answerable
from noisewright.planning.central.problems import central_problems
from noisewright.planning.central.yardsticks import yardsticks
from noisewright.planning.counting import Counter
from noisewright.privacy.least_noise import least_second_moment
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import row_budget
from noisewright.stages import stage
from noisewright.workload import Workload
from noisewright.workload.questions.measures import COUNT

# no other mechanism could do visibly better: the search for one can stop
_SETTLED = 1.001
_CLOSE = 1.25  # times the lower bound: a slow search could not win more than a fifth
_DISAGREEMENT = 1.05  # the error that tables which agree with each other are worth


@dataclass(frozen=True, eq=False)
class Contender:
    """What a mechanism of the registry proposes for a problem."""

    problem: CentralProblem
    proposal: Proposal
    seconds: float = 0.0
    known_accuracy: Accuracy | None = None

    @property
    def name(self) -> str:
        """What the mechanism is called."""
        return self.proposal.name

    @cached_property
    def trial(self) -> CentralPlan:
        """The plan without what impossible cells tell, which helps all alike and takes long."""
        problem = self.problem
        return CentralPlan(
            problem.workload,
            None,
            problem.sizes,
            problem.norm,
            self.proposal,
            asked=None if problem.promise is not None else problem.asked,
            known_accuracy=self.known_accuracy,
        )

    @property
    def cost(self) -> float:
        """The error; parts that need not agree with each other must win clearly."""
        return self.achieved * (
            1.0 if self.proposal.mechanism.agrees else _DISAGREEMENT
        )

    @property
    def achieved(self) -> float:
        """The error under the budget of a row, less what bounds on rows in a group gain."""
        bounds = self.bounds
        if not bounds.grouped:
            return self.trial.achieved
        multiple = bounds.contribution(self.proposal.mechanism).multiple
        return self.trial.achieved * float(multiple / bounds.rows)

    def plan(self, seconds: float, counter: Counter | None = None) -> CentralPlan:
        """The plan to keep."""
        problem = self.problem
        proposal = self.proposal
        accuracy: Accuracy | None = self.trial.measured_accuracy
        if problem.promise is not None and self.bounds.grouped:
            own = row_budget(
                problem.promise, self.bounds.contribution(proposal.mechanism)
            )
            proposal = replace(proposal, mechanism=proposal.mechanism.at(own))
            accuracy = None

        return replace(
            self.trial,
            domain=problem.domain,
            proposal=proposal,
            promise=problem.promise,
            asked=problem.asked,
            seconds=seconds,
            counter=counter,
            known_accuracy=accuracy,
        )

    @property
    def bounds(self) -> RowBounds:
        """How many rows of a person count, in all and in every group."""
        return RowBounds.of(self.problem.domain, self.problem.sizes)


def plan_central(
    workload: Workload,
    privacy: Privacy,
    options: Central | None = None,
    domain: Domain | None = None,
    counter: Counter | None = None,
) -> CentralPlan:
    """The plan of the named mechanism, of the strategy given, or of the best that applies."""
    chosen = options or Central()
    problems = central_problems(workload, privacy, chosen, domain)
    return planned(problems, chosen, counter)[0]


def planned(
    problems: Sequence[CentralProblem],
    options: Central,
    counter: Counter | None = None,
) -> tuple[CentralPlan, Ranking]:
    """The best plan under any of these promises, and what it was chosen from."""
    began = time.perf_counter()
    ranking = _of_all(problems, options)
    plan = check_answerable(ranking.best.plan(time.perf_counter() - began, counter))
    if options.strategy is None:
        plan = _beside_yardsticks(problems[0], plan)
    return plan, ranking


def _beside_yardsticks(problem: CentralProblem, plan: CentralPlan) -> CentralPlan:
    """The plan, which says so where what is easily had is nearer to so many people."""
    nearer = [easy for easy in yardsticks(problem) if easy.achieved < plan.achieved]
    if not nearer:
        return plan

    told = ", ".join(f"{easy.name} {easy.achieved:.4g}" for easy in nearer)
    proposal = replace(
        plan.proposal, status=f"{plan.proposal.status}; err less: {told}"
    )
    return replace(plan, proposal=proposal, known_accuracy=plan.measured_accuracy)


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best contender, all that were planned, and why the others were not."""

    best: Contender
    contenders: tuple[Contender, ...]
    left_out: dict[str, str]


def _of_all(problems: Sequence[CentralProblem], options: Central) -> Ranking:
    """The best for any of the promises: the one asked for, or a stronger one with less noise."""
    first, *others = fitting(problems, options.mechanism)
    ranking = _of_one(first, options)
    for problem in others:
        ranking = _or_better(ranking, problem, options)
    return ranking


def fitting(
    problems: Sequence[CentralProblem], mechanism: str | CentralMechanism
) -> Sequence[CentralProblem]:
    """Those that are planned; where none can be, the one whose refusal says why."""
    if mechanism == "auto" and not _counts(problems[0]):
        return problems  # every measure is planned by itself
    if fitting := [problem for problem in problems if candidates(problem, mechanism)]:
        return fitting

    last = problems[-1]
    own_kind = mechanism != "auto" and _known(mechanism).refuses(
        last
    ) != refuses_gaussian(last)
    return [last] if own_kind else problems[:1]


def _of_one(problem: CentralProblem, options: Central, beat: float = inf) -> Ranking:
    """The best for one promise."""
    if options.strategy is not None:
        return _own_ranking(problem, options.strategy)
    if _counts(problem):
        return ranked_mechanisms(problem, options.mechanism, beat)

    from noisewright.planning.central.sums import by_measures

    contender = by_measures(problem, problem.workload, _named(options.mechanism))

    return Ranking(contender, (contender,), {})


def _or_better(known: Ranking, problem: CentralProblem, options: Central) -> Ranking:
    """The ranking with all for another promise: what cannot be planned for it is left out."""
    beat = known.best.cost
    try:
        if _out_of_reach(problem, known):
            raise OutOfReach(
                f"no noise for {problem.privacy.text()} is nearer, by its lower bound"
            )
        other = _of_one(problem, options, beat)
        better = check_answerable(other.best.trial).achieved and other.best.cost < beat
    except (InvalidParameter, OutOfReach, TooLarge) as error:
        entries = candidates(problem, options.mechanism)
        left_out = {entry.name: str(error) for entry in entries}
        other = Ranking(known.best, (), left_out)
        better = False

    contenders = (*known.contenders, *other.contenders)
    told = {
        name: why
        for name, why in other.left_out.items()
        if why != refuses_gaussian(problem)
    }
    names = {contender.name for contender in contenders}
    left_out = {
        n: why for n, why in {**known.left_out, **told}.items() if n not in names
    }

    return Ranking(other.best if better else known.best, contenders, left_out)


def _out_of_reach(problem: CentralProblem, known: Ranking) -> bool:
    """Whether no noise under this promise is as near as what is known for another.

    A bound on the error of linear strategies, per unit of noise, holds for any noise that does not
    depend on the data, in units of the least that the promise allows (`central.wider_bounds`).
    """
    best = known.best
    if problem.given is not None or best.bounds.grouped or not _counts(problem):
        return False
    if best.proposal.neighbours != problem.neighbours:
        return False

    least = sqrt(least_second_moment(problem.privacy)) * (best.proposal.bound or 0.0)
    return least >= best.cost


def candidates(
    problem: CentralProblem, mechanism: str | CentralMechanism
) -> list[CentralMechanism]:
    """The mechanisms that can be asked."""
    if mechanism != "auto":
        entry = _known(mechanism)
        return [] if problem.once(entry.refuses) else [entry]

    return [
        e
        for e in CENTRAL.values()
        if not e.baseline and problem.once(e.refuses) is None
    ]


def _counts(problem: CentralProblem) -> bool:
    """Whether nothing but numbers of people is asked."""
    return problem.workload.measures == (COUNT,)


def _own_ranking(problem: CentralProblem, strategy: npt.ArrayLike) -> Ranking:
    """A matrix that somebody brings, with the highest bound that our own mechanisms prove."""
    require(
        _counts(problem),
        "strategy",
        "a matrix",
        "is for counts alone",
        "plan sums and means without it",
    )

    proposal = own_candidate(problem, strategy).proposal(problem).named(OWN_STRATEGY)
    own = Contender(problem, proposal)
    ours = ranked_mechanisms(problem)
    best = _with_highest_bound(own, [own, ours.best])

    return Ranking(best, (own, *ours.contenders), ours.left_out)


def best_contender(
    problem: CentralProblem, mechanism: str | CentralMechanism = "auto"
) -> Contender:
    """The named mechanism's proposal or the best of all, with the highest bound proved."""
    return ranked_mechanisms(problem, mechanism).best


def ranked_mechanisms(
    problem: CentralProblem,
    mechanism: str | CentralMechanism = "auto",
    beat: float = inf,
) -> Ranking:
    """The named mechanism, or all that apply until one is as good as its lower bound.

    Mechanisms that are known not to go below an error to `beat` are not asked.
    """
    entries = list(CENTRAL.values()) if mechanism == "auto" else [_known(mechanism)]
    contenders: list[Contender] = []
    left_out: dict[str, str] = {}
    slow = []

    for entry in entries:
        if (reason := problem.once(entry.refuses)) is not None:
            left_out[entry.name] = reason
        elif entry.baseline and mechanism == "auto":
            left_out[entry.name] = "a yardstick, planned by name"
        elif _certified(contenders) <= _SETTLED and not entry.biased:
            left_out[entry.name] = (
                f"not asked: {contenders[-1].name} meets the lower bound"
            )
        elif (far := too_far(entry, problem, beat)) is not None:
            left_out[entry.name] = far
        elif entry.slow is not None and entry.slow(problem):
            slow.append(entry)
        else:
            contenders.append(propose(problem, entry))

    # What takes minutes comes last, and only where the others leave much to gain.
    for entry in slow:
        if not contenders or _certified(contenders) > _CLOSE:
            contenders.append(propose(problem, entry))
        else:
            left_out[entry.name] = (
                "takes minutes, and the others are near the lower bound"
            )

    if not contenders:
        text = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        name = getattr(mechanism, "name", mechanism)
        raise InvalidParameter("mechanism", name, f"cannot plan this: {text}")

    one = len(contenders) == 1
    best = (
        contenders[0] if one else min(contenders, key=lambda contender: contender.cost)
    )
    best = _with_highest_bound(best, contenders)
    if best.bounds.grouped:
        best = min([*by_groups(problem, mechanism), *contenders], key=lambda c: c.cost)

    return Ranking(best, tuple(contenders), left_out)


def too_far(
    entry: CentralMechanism, problem: CentralProblem, beat: float
) -> str | None:
    """Why a mechanism need not be asked where an error to `beat` is known, or None."""
    if entry.least is None or beat == inf or entry.least(problem) < beat:
        return None
    return "not asked: its error is known to be larger"


def by_groups(
    problem: CentralProblem, mechanism: str | CentralMechanism
) -> list[Contender]:
    """The best for one group, in all of them, where bounds on rows in a group let it gain."""
    bounds = RowBounds.of(problem.domain, problem.sizes)
    gains = bounds.grouped and problem.order == 2
    single = one_group(problem, bounds) if gains else None
    if single is None:
        return []

    best = ranked_mechanisms(single, mechanism).best
    proposal = in_every_group(best.proposal, problem, bounds)
    return [] if proposal is None else [Contender(problem, proposal.named(best.name))]


def propose(problem: CentralProblem, entry: CentralMechanism) -> Contender:
    """What an entry proposes, and how long that took."""
    stage(f"planning by {entry.name}")
    began = time.perf_counter()
    proposal = problem.once(entry.plan).named(entry.name)
    return Contender(problem, proposal, time.perf_counter() - began)


def _certified(contenders: Sequence[Contender]) -> float:
    """The smallest error so far over the highest bound that any of them proved."""
    bound = max(
        (contender.proposal.bound or 0.0 for contender in contenders), default=0.0
    )
    values = [c.proposal.value for c in contenders if c.proposal.value is not None]
    return min(values) / bound if bound and values else float("inf")


def _with_highest_bound(best: Contender, contenders: Sequence[Contender]) -> Contender:
    """The contender with the highest bound that any of those for the same problem proved.

    Noise without a unit is outside the class that these bounds limit.
    """
    chosen = best.proposal
    if chosen.mechanism.unit_noise is None:
        return best

    known = [
        c.proposal for c in contenders if c.proposal.neighbours == chosen.neighbours
    ]
    tightest = max(known, key=lambda proposal: proposal.bound or 0.0)
    if tightest is chosen or tightest.bound is None:
        return best

    # The errors are those of the same measurement.
    return replace(
        best,
        proposal=replace(
            chosen, bound=tightest.bound, certificate=tightest.certificate
        ),
        known_accuracy=best.trial.measured_accuracy,
    )


def _named(mechanism: str | CentralMechanism) -> str:
    """The name, where only mechanisms of the registry will do."""
    if isinstance(mechanism, str):
        return mechanism
    raise InvalidParameter(
        "mechanism",
        mechanism.name,
        "is for one measure alone",
        "name one of ours, or plan counts",
    )


def _known(mechanism: str | CentralMechanism) -> CentralMechanism:
    """The entry of a name; an entry that somebody brings is taken as it is."""
    if isinstance(mechanism, CentralMechanism):
        return mechanism
    if mechanism not in CENTRAL:
        raise unknown_name(
            "mechanism", mechanism, "is not a central mechanism", ["auto", *CENTRAL]
        )

    return CENTRAL[mechanism]
