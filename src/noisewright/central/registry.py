"""One list of mechanisms: `plan`, `compare`, the tests and the docs all read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.central.baselines import (
    cells_strategy,
    direct_strategy,
    refuses_cells,
    refuses_direct,
    refuses_tree,
    tree_strategy,
)
from noisewright.central.blocks.grid import grid_bits
from noisewright.central.blocks.variance import JOINT_LIMIT, unit_error
from noisewright.central.gaussian.product_families import compile_family
from noisewright.central.gaussian.products import (
    DENSE_CELLS,
    Planned,
    as_one_axis,
    product_strategy,
    replaced_product,
)
from noisewright.central.gaussian.replaced import PAIR_CELLS
from noisewright.central.gaussian.residual import (
    Certified,
    as_counts,
    certified_design,
    interaction_strategy,
    is_counts,
)
from noisewright.central.gaussian.shared import refuses_shared, shared_basis
from noisewright.central.gaussian.unions import (
    LARGEST_PRODUCT,
    bounding_product,
    cells_of,
    refuses_union,
    split_strategy,
)
from noisewright.central.laplace.laplace_replaced import MOST_CELLS, replaced_laplace
from noisewright.central.laplace.laplace_tables import laplace_tables
from noisewright.central.laplace.weighted_products import laplace_product
from noisewright.domain import Domain
from noisewright.norm.factorization import without_offsets
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.noise import SCALE_LIMIT
from noisewright.workload import Explicit, Workload
from noisewright.workload.terms import Term, terms

_DENSE_QUICK = {2.0: 1024}  # cells of a dense strategy that is found in seconds, by norm
_DENSE_QUICK_OTHERWISE = 400
_MANY_FACTORS = 4  # products of more have too few bits per factor; interactions may be exact
_FEW_ENTRIES = 2**20  # of a workload that is written out to see what it asks for
_SMALL_DOMAIN = 512  # cells up to which whole tables and a dense strategy are both tried


@dataclass(frozen=True)
class CentralProblem:
    """What a central mechanism plans for."""

    workload: Workload
    sizes: tuple[int, ...]
    privacy: Privacy
    norm: float
    domain: Domain | None = None

    @cached_property
    def terms(self) -> list[Term]:
        """The workload on marginal tables."""
        return terms(self.workload, self.sizes)

    @cached_property
    def shifted_terms(self) -> list[Term]:
        """The same for strategies that know the total: where it is public, constants are free."""
        public = self.privacy.neighbours == "replace-one"
        return terms(without_offsets(self.workload), self.sizes) if public else self.terms

    @cached_property
    def counts(self) -> bool:
        """Whether only tables of counts are asked, however they are written."""
        return as_counts(self.terms) is not None

    @property
    def zero(self) -> bool:
        """Whether every answer is zero, whatever the data."""
        return isinstance(self.workload, Explicit) and not self.workload.column_norms(1).any()

    @property
    def only_totals(self) -> bool:
        """Whether nothing but the number of people is asked."""
        if self.workload.queries * self.workload.size <= _FEW_ENTRIES:
            return not np.ptp(self.workload.dense(), axis=1).any()
        tables = as_counts(self.terms)
        return tables is not None and not any(
            self.sizes[i] > 1 for table in tables for i in table.attributes
        )

    @cached_property
    def certified(self) -> Certified:
        """The design that several mechanisms start from, and its bound; found once."""
        _, sizes, norm, neighbours = _asked(self)
        return certified_design(self.shifted_terms, sizes, norm, neighbours, self.grid_bits)

    @cached_property
    def grid_bits(self) -> int:
        """Bits of all integer factors together with which the budget's noise can be drawn."""
        return grid_bits(calibrate(self.privacy, l2=1.0).scale)


@dataclass(frozen=True)
class CentralMechanism:
    """A named way to plan; `refuses` says in words why it cannot, or None.

    A `baseline` is planned when named and listed in comparisons, never chosen by itself. `slow`
    tells where planning takes minutes.
    """

    name: str
    summary: str
    refuses: Callable[[CentralProblem], str | None]
    plan: Callable[[CentralProblem], Planned]
    baseline: bool = False
    slow: Callable[[CentralProblem], bool] = lambda _: False


def _refuses_gaussian(problem: CentralProblem) -> str | None:
    pure = problem.privacy.kind == "pure"
    return "Gaussian noise gives no pure privacy; give a delta or rho" if pure else None


def _refuses_laplace(problem: CentralProblem) -> str | None:
    pure = problem.privacy.kind == "pure"
    return None if pure else "Laplace noise is for pure privacy; leave delta and rho out"


def _refuses_gaussian_strategy(problem: CentralProblem) -> str | None:
    if reason := _refuses_gaussian(problem):
        return reason
    if len(problem.terms) == 1 and problem.terms[0].factors is not None:
        largest = max((f.size for f in problem.terms[0].factors), default=1)
    else:
        largest = problem.workload.size
    if largest > DENSE_CELLS:
        return f"a dense strategy over {largest} cells is too large (limit {DENSE_CELLS})"
    return None


def _slow_dense(problem: CentralProblem) -> bool:
    """All cells of several terms together: hundreds of large eigenproblems."""
    if len(problem.terms) == 1 and problem.terms[0].factors is not None:
        return False
    return problem.workload.size > _DENSE_QUICK.get(problem.norm, _DENSE_QUICK_OTHERWISE)


def _plan_gaussian_strategy(problem: CentralProblem) -> Planned:
    asked, sizes = problem.terms, problem.sizes
    replaced = problem.privacy.neighbours == "replace-one"
    few = replaced and problem.workload.size <= PAIR_CELLS
    if few or len(asked) > 1 or asked[0].factors is None:
        asked, sizes = [as_one_axis(problem.workload)], (problem.workload.size,)
    if replaced:
        return replaced_product(asked[0], sizes, problem.norm, problem.grid_bits)
    return product_strategy(asked[0], sizes, problem.norm, problem.grid_bits)


def _by_tables(problem: CentralProblem) -> bool:
    """Whether every query is a product over attributes, or sees few cells."""
    return all(t.factors is not None or t.inner.size <= JOINT_LIMIT for t in problem.terms)


def _refuses_residual(problem: CentralProblem) -> str | None:
    if reason := _refuses_gaussian(problem):
        return reason
    if not _by_tables(problem):
        return f"some queries are no product over attributes and see over {JOINT_LIMIT} cells"
    if problem.privacy.neighbours == "replace-one":  # the total is public, whatever the product
        return None
    if len(problem.sizes) < 2:
        return "there is one attribute only; a dense strategy is the best linear one"
    if _single_product(problem):
        return "of a single product the best linear strategy is found factor by factor"
    return None


def _single_product(problem: CentralProblem) -> bool:
    """Whether one product is asked whose factors can all be measured finely enough."""
    asked = problem.terms
    if len(asked) > 1 or asked[0].factors is None:
        return False
    if is_counts(asked):
        return max((f.size for f in asked[0].factors), default=1) <= DENSE_CELLS
    return not problem.counts and len(asked[0].attributes) < _MANY_FACTORS


def _plan_residual(problem: CentralProblem) -> Planned:
    known = None if problem.counts else problem.certified
    neighbours = problem.privacy.neighbours
    return interaction_strategy(
        problem.shifted_terms, problem.sizes, problem.norm, known, neighbours
    )


def _refuses_union(problem: CentralProblem) -> str | None:
    return _refuses_gaussian(problem) or refuses_union(problem.terms, problem.sizes)


def _refuses_shared(problem: CentralProblem) -> str | None:
    if reason := _refuses_union(problem):
        return reason
    if problem.privacy.neighbours != "add-remove":
        return "rows of different weights are planned for add-remove neighbours only"
    if problem.counts:
        return "for tables of counts interactions are the best linear strategy"
    return refuses_shared(compile_family(problem.sizes, problem.terms), problem.norm)


def _plan_shared(problem: CentralProblem) -> Planned:
    found = problem.certified
    norm, bits = problem.norm, problem.grid_bits
    return shared_basis(problem.terms, found.design, norm, found.bound, bits)


def _refuses_split(problem: CentralProblem) -> str | None:
    if reason := _refuses_union(problem):
        return reason
    largest = max((f.size for t in problem.terms for f in t.factors or ()), default=1)
    if largest > DENSE_CELLS:
        return f"a dense strategy over {largest} cells is too large (limit {DENSE_CELLS})"
    return None


def _refuses_product(problem: CentralProblem) -> str | None:
    if reason := _refuses_split(problem):
        return reason
    cells = cells_of(problem.terms, problem.sizes)
    if cells > LARGEST_PRODUCT:
        return f"one product would measure {cells} cells (limit {LARGEST_PRODUCT})"
    return None


def _refuses_laplace_strategy(problem: CentralProblem) -> str | None:
    if reason := _refuses_laplace(problem):
        return reason
    asked = problem.terms
    if len(asked) == 1 and asked[0].factors is not None:
        largest = max((f.size for f in asked[0].factors), default=1)
    elif not _by_tables(problem) or len(problem.sizes) == 1:
        largest = problem.workload.size
    else:
        return None
    if largest > DENSE_CELLS:
        return f"a dense strategy over {largest} cells is too large (limit {DENSE_CELLS})"
    return None


def _largest_sensitivity(problem: CentralProblem) -> float:
    """Grid steps that one neighbour may move the measurements: more needs too much noise."""
    assert problem.privacy.epsilon is not None
    doubled = 1 if problem.privacy.neighbours == "add-remove" else 2
    return SCALE_LIMIT * problem.privacy.epsilon / doubled


def _plan_laplace_strategy(problem: CentralProblem) -> Planned:
    options = _laplace_options(problem)
    if problem.privacy.neighbours == "replace-one":
        options = [_replaced(problem, planned) for planned in options]
        if 1 < problem.workload.size <= MOST_CELLS:
            exact = (
                without_offsets(problem.workload),
                problem.sizes,
                problem.norm,
                _largest_sensitivity(problem),
            )
            options.append(replaced_laplace(*exact))
    best = min(options, key=lambda planned: planned.unit_value)
    known = max(options, key=lambda planned: planned.unit_bound or 0.0)
    return replace(best, unit_bound=known.unit_bound, certificate=known.certificate)


def _replaced(problem: CentralProblem, planned: Planned) -> Planned:
    """A plan for added people, valued for replaced ones; its bound does not hold for them."""
    joint = planned.strategy.sizes != problem.sizes
    asked = [as_one_axis(problem.workload)] if joint else problem.terms
    value = unit_error(planned.strategy, asked, problem.norm, 1, "replace-one")
    told = "planned for added people, under the sensitivity of replaced ones"
    return Planned(planned.strategy, value, None, "none", told, "replace-one")


def _laplace_options(problem: CentralProblem) -> list[Planned]:
    asked, norm = problem.terms, problem.norm
    largest = _largest_sensitivity(problem)
    added = problem.privacy.neighbours == "add-remove"
    whole = as_one_axis(problem.workload), (problem.workload.size,), norm, largest, added
    options = []
    if len(asked) == 1 and asked[0].factors is not None:
        product = laplace_product(asked[0], problem.sizes, norm, largest, added)
        if not problem.counts or product.unit_value <= 1.001 * (product.unit_bound or 0.0):
            return [product]
        options.append(product)
    elif problem.workload.size <= _SMALL_DOMAIN:
        options.append(laplace_product(*whole))
    if len(problem.sizes) > 1 and _by_tables(problem):
        options.append(laplace_tables(asked, problem.sizes, norm))
    return options or [laplace_product(*whole)]


def _asked(problem: CentralProblem) -> tuple[list[Term], tuple[int, ...], float, str]:
    return problem.terms, problem.sizes, problem.norm, problem.privacy.neighbours


def _baselines(
    noise: str, order: int, refuses: Callable[[CentralProblem], str | None]
) -> list[CentralMechanism]:
    """Equal noise on every answer, every cell, or every interval of a tree."""
    title = noise.capitalize()
    ways: list[tuple[str, str, Callable[[CentralProblem], str | None], Callable[..., Planned]]] = [
        ("", "answer", lambda p: refuses_direct(p.terms), direct_strategy),
        ("-cells", "cell", lambda p: refuses_cells(p.terms, p.sizes), cells_strategy),
        ("-tree", "interval of a tree", lambda p: refuses_tree(p.terms), tree_strategy),
    ]

    def entry(
        suffix: str,
        what: str,
        unfit: Callable[[CentralProblem], str | None],
        strategy: Callable[..., Planned],
    ) -> CentralMechanism:
        return CentralMechanism(
            noise + suffix,
            f"the same {title} noise on every {what}",
            lambda problem: refuses(problem) or unfit(problem),
            lambda problem: strategy(*_asked(problem), order),
            baseline=True,
        )

    return [entry(*way) for way in ways]


CENTRAL: dict[str, CentralMechanism] = {
    mechanism.name: mechanism
    for mechanism in (
        CentralMechanism(
            "residual",
            "tables over many attributes: independent noise on every interaction",
            _refuses_residual,
            _plan_residual,
        ),
        CentralMechanism(
            "gaussian-strategy",
            "best linear strategy for Gaussian noise: dense, or factor by factor",
            _refuses_gaussian_strategy,
            _plan_gaussian_strategy,
            slow=_slow_dense,
        ),
        CentralMechanism(
            "shared-basis",
            "unions of products: one basis, every row of it with noise of its own",
            _refuses_shared,
            _plan_shared,
        ),
        CentralMechanism(
            "split",
            "unions of products: every part its own best strategy and share of the budget",
            _refuses_split,
            lambda problem: split_strategy(*_asked(problem), problem.grid_bits),
        ),
        CentralMechanism(
            "product",
            "unions of products: one product strategy for everything asked",
            _refuses_product,
            lambda problem: bounding_product(*_asked(problem), problem.grid_bits),
        ),
        CentralMechanism(
            "laplace-strategy",
            "pure privacy: cells, sums and whole tables with optimised weights",
            _refuses_laplace_strategy,
            _plan_laplace_strategy,
        ),
        *_baselines("gaussian", 2, _refuses_gaussian),
        *_baselines("laplace", 1, _refuses_laplace),
    )
}
