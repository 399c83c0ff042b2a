"""Every local mechanism on a workload, the one that needs the fewest people first."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from noisewright.arrays import FloatArray
from noisewright.domain import Domain
from noisewright.errors import (
    InvalidParameter,
    NoisewrightError,
    refuse_given,
    unknown_name,
)
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.bounds.floors import even_bound
from noisewright.local.bounds.trace import LowerBound
from noisewright.local.choose.cost import ALPHA, LocalComparison
from noisewright.local.choose.options import Local
from noisewright.local.histogram.centred import check_cells
from noisewright.local.mechanism import LocalMechanism, LocalProblem, Progress
from noisewright.local.registry import MECHANISMS
from noisewright.local.time_limit import TimeLimit
from noisewright.local.vector.max_error import strategy_tails
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.base import Workload
from noisewright.workload.questions.statistics import Counts

_SETTLED = 1.001  # nearer its bound, no strategy of ε alone does visibly better


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mechanism planned for a workload, or the reason why it was not."""

    mechanism: str
    seconds: float
    analysis: Analysis | None = None
    refusal: str | None = None
    targets: FloatArray | None = None
    """What is answered in place of the queries."""
    people: int | None = None
    """Needed for the largest error that is the goal, where there is one."""

    @property
    def worst_case(self) -> float:
        """The largest variance that one person adds; infinite where it was not planned."""
        return inf if self.analysis is None else self.analysis.worst_case

    @property
    def cost(self) -> float:
        """What candidates are ranked by: people for the goal where there is one, else variance."""
        return self.worst_case if self.people is None else self.people


def candidates(
    problem: LocalProblem, mechanism: str | LocalMechanism = "auto"
) -> list[Candidate]:
    """The mechanism named, or all, refusals last.

    First is the smallest worst-case variance or, with a goal, the fewest people for it.
    """
    if mechanism != "auto":
        entry = _known(mechanism)
        steering = problem.search.steering
        if steering and not entry.searches:
            rule = f"steers a search, and {entry.name} is planned without one"
            refuse_given(steering, rule)
        return [_candidate(entry, problem, named=True)]

    own = problem.search.own_error
    entries = MECHANISMS.values()
    bound = None if own else even_bound(problem.workload, problem.epsilon)
    ranked: list[Candidate] = []

    for quick in [] if own else [m for m in entries if not m.searches]:
        ranked.append(_candidate(quick, problem))
        _tell_if_better(ranked, bound, problem)

    if not _settled(ranked, bound):
        ranked += [_candidate(m, problem) for m in entries if m.searches]

    return sorted(ranked, key=lambda candidate: candidate.cost)


def _candidate(
    mechanism: LocalMechanism, problem: LocalProblem, named: bool = False
) -> Candidate:
    began = TimeLimit()
    refusal = mechanism.refuses(problem, named)
    if refusal is None:
        try:
            analysis = Analysis(mechanism.plan(problem), problem.workload, problem.gram)
            _ = analysis.worst_case
            targets = mechanism.targets(problem)
            people = None
            if problem.goal is not None:
                tails = strategy_tails(analysis.strategy, problem.workload, targets)
                people = tails.people_for(problem.goal.error, problem.goal.beta)
            taken = began.seconds
            return Candidate(
                mechanism.name, taken, analysis, targets=targets, people=people
            )
        except NoisewrightError as error:
            if mechanism.searches and isinstance(error, InvalidParameter):
                # settings that only a search reads are wrong: nobody else would say so
                raise
            refusal = str(error)

    return Candidate(mechanism.name, began.seconds, refusal=refusal)


def _tell_if_better(
    ranked: list[Candidate], bound: LowerBound | None, problem: LocalProblem
) -> None:
    """Let the listener hear of the last candidate where it is the best: the first plans."""
    *earlier, last = (candidate.worst_case for candidate in ranked)
    listener = problem.search.progress
    if listener is None or bound is None or last >= min(earlier, default=inf):
        return

    seconds = sum(candidate.seconds for candidate in ranked)
    ratio = last / bound.variance if bound.variance > 0 else inf
    listener(Progress("first plan", 0, ratio, seconds))


def _settled(ranked: list[Candidate], bound: LowerBound | None) -> bool:
    """Whether the best so far is as good as any."""
    least = min((candidate.worst_case for candidate in ranked), default=inf)
    return bound is not None and least <= _SETTLED * bound.variance


def _known(mechanism: str | LocalMechanism) -> LocalMechanism:
    """The entry of a name; an entry that somebody brings is taken as it is."""
    if isinstance(mechanism, LocalMechanism):
        return mechanism
    if mechanism not in MECHANISMS:
        raise unknown_name(
            "mechanism", mechanism, "is not a local mechanism", ["auto", *MECHANISMS]
        )
    return MECHANISMS[mechanism]


def compare_local(
    workload: Workload,
    privacy: Privacy,
    local: Local | None = None,
    domain: Domain | None = None,
) -> list[LocalComparison]:
    """All local mechanisms, fewest people first; those that do not apply come last."""
    settings = Local() if local is None else local
    of_plans = {
        "max_error": settings.max_error,
        "people": settings.people,
        "mechanism": settings.mechanism != "auto" and settings.mechanism,
        "strategy": settings.strategy is not None and "a matrix",
    }
    refuse_given(
        of_plans,
        "is for a plan, not for a comparison",
        "give an alpha, a variance per query",
    )
    alpha = ALPHA if settings.alpha is None else settings.alpha
    workload = narrowed_workload(workload)
    checked_domain(workload, domain)
    problem = LocalProblem.of(workload, privacy, settings)
    epsilon = problem.epsilon
    bound = even_bound(workload, problem.epsilon)

    return [
        LocalComparison(c.mechanism, epsilon, seconds=c.seconds, refusal=c.refusal)
        if c.analysis is None
        else LocalComparison.of(
            c.mechanism, epsilon, c.analysis, bound, c.seconds, alpha
        )
        for c in candidates(problem)
    ]


def narrowed_workload(workload: Workload) -> Workload:
    """Questions over the attributes they ask about: what nobody asks, no report needs to hold."""
    if not workload.counts_only:
        raise InvalidParameter(
            "queries",
            [s.name for s in workload.statistics if not isinstance(s, Counts)],
            "ask for more than counts, which needs a curator",
            "ask for a histogram or CDF of the number instead",
        )

    return workload.narrowed()


def checked_domain(workload: Workload, domain: Domain | None) -> Domain | None:
    """The domain of a workload, reviewed and of its size; None where its cells have no meaning."""
    check_cells(workload.size)
    domain = workload.domain or domain
    if domain is None:
        return None

    domain.require_reviewed()
    if workload.size != domain.size:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            f"has {workload.size} cells where the domain has {domain.size}",
            "match the workload's size to the domain",
        )

    return domain
