"""A table in, a few words: questions built by method calls, the same as those written in YAML.

nw.table(frame).count().by(region=["N", "S"]).mean("income", bounds=(0, 1e5)).by("region")

Every call returns a new builder. What it amounts to is a schema and a specification (`domain`,
`specification`), from which the same plan is made as from files. Whatever is declared here (keys,
bounds, bins) will be public and must come from public knowledge, never from the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from noisewright import api
from noisewright.display import Shown
from noisewright.domain import Categorical, Domain, Numeric
from noisewright.domain.attribute import Attribute
from noisewright.errors import DomainError, InvalidParameter, require
from noisewright.planning.central.options import Central
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import Workload
from noisewright.workload.questions.spec import Questions

if TYPE_CHECKING:
    from noisewright.api import Budget
    from noisewright.planning.central.options import Composition
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.counting import Source
    from noisewright.planning.release import Release
    from noisewright.planning.spending import Again, LedgerLike

Bounds = tuple[float, float]
NoValue = Literal["other", "error", "zero"]
_FINENESS = 10_000  # units of a number between its bounds, unless told


def table(
    source: Source, *, schema: Domain | str | Path | None = None
) -> TableQuestions:
    """Begin questions about a table of people: one row is one person, the privacy unit.

    `schema` declares attributes; without one, keys and bounds are declared with the questions.
    """
    if schema is None:
        return TableQuestions(source)
    domain = schema if isinstance(schema, Domain) else Domain.from_yaml(schema)
    return TableQuestions(source, tuple(domain.attributes), (), domain)


@dataclass(frozen=True, eq=False, repr=False)
class TableQuestions(Shown):
    """Questions about a table, immutable; `plan` and `release` make of them what files would."""

    source: Any = field(repr=False)  # whoever holds the builder holds the table
    attributes: tuple[Attribute, ...] = ()
    queries: tuple[Mapping[str, object], ...] = ()
    schema: Domain | None = None

    # --- questions ------------------------------------------------------------------------------

    def count(self) -> TableQuestions:
        """Numbers of people: everybody, or `.by(...)` some attributes."""
        return self._asking({"total": True})

    def sum(
        self,
        name: str,
        *,
        bounds: Bounds | None = None,
        unit: float | None = None,
        missing: NoValue = "error",
    ) -> TableQuestions:
        """Sums of a number within its `bounds`; `unit` and `missing` as in `mean`."""
        return self._of_number("sum", name, bounds, unit, missing)

    def mean(
        self,
        name: str,
        *,
        bounds: Bounds | None = None,
        unit: float | None = None,
        missing: NoValue = "error",
    ) -> TableQuestions:
        """Means of a number within its `bounds` (values are clipped to them).

        `unit` is what values are rounded to. People without a value refuse the table;
        `missing="other"` leaves them out, so that the mean is of those who have one, and
        `missing="zero"` takes them for people with zero.
        """
        return self._of_number("mean", name, bounds, unit, missing)

    def variance(
        self,
        name: str,
        *,
        bounds: Bounds | None = None,
        unit: float | None = None,
        missing: NoValue = "error",
    ) -> TableQuestions:
        """Variances of a number within its `bounds`; `unit` and `missing` as in `mean`."""
        return self._of_number("variance", name, bounds, unit, missing)

    def quantiles(
        self,
        name: str,
        at: Sequence[float] = (0.25, 0.5, 0.75),
        *,
        bounds: Bounds | None = None,
        bins: int = 100,
        missing: Literal["other", "error"] = "error",
    ) -> TableQuestions:
        """Quantiles of a number, from cumulative counts over `bins` of equal width."""
        declared = self._declaring(name, bounds, bins, missing)
        require(
            isinstance(declared._known(name), Numeric),
            "quantiles",
            name,
            "must be a numeric attribute",
        )
        return declared._asking(
            {"quantiles": name, "at": [float(level) for level in at]}
        )

    def cdf(
        self,
        name: str,
        *,
        bounds: Bounds | None = None,
        bins: int = 100,
        missing: Literal["other", "error"] = "error",
    ) -> TableQuestions:
        """Cumulative counts of an ordered attribute (`bounds` and `bins`, where not declared)."""
        return self._declaring(name, bounds, bins, missing)._asking({"cdf": name})

    def by(
        self, *groups: str | Attribute, **keys: Sequence[str | int]
    ) -> TableQuestions:
        """Ask the last question by group.

        Groups are names of declared attributes, attributes, or names with their public keys:
        `.by("sex", region=["N", "S"])`. People with other values are counted as `other`.
        """
        named = [
            Categorical(name, list(values), outside="other")
            for name, values in keys.items()
        ]
        declared = [
            group for group in (*groups, *named) if isinstance(group, Attribute)
        ]
        names = [g.name if isinstance(g, Attribute) else g for g in (*groups, *named)]
        last = dict(self._last)
        if last.pop("total", None):
            last["marginal"] = names
        elif "marginal" in last:
            last["marginal"] = [*_listed(last, "marginal"), *names]
        else:
            last["by"] = [*_listed(last, "by"), *names]

        result = self
        for attribute in declared:
            result = result._declared(attribute)

        result = replace(result, queries=(*self.queries[:-1], last))
        for name in names:
            result._known(name)

        return result

    def important(self, weight: float) -> TableQuestions:
        """How much the accuracy of the last question matters, 1 being ordinary."""
        name = "importance" if isinstance(self._last.get("weight"), str) else "weight"
        return replace(
            self, queries=(*self.queries[:-1], {**self._last, name: float(weight)})
        )

    def weighted(self, name: str, cap: float | None = None) -> TableQuestions:
        """Weigh people in the last question by a survey weight, of which `cap` counts at most."""
        bounds = None if cap is None else (0.0, cap)
        declared = self._declaring(name, bounds, 1, "error")
        last = {**self._last, "weight": name}
        if isinstance(importance := self._last.get("weight"), float):
            last["importance"] = importance
        return replace(declared, queries=(*self.queries[:-1], last))

    def named(self, name: str) -> TableQuestions:
        """A name for the table of the last question."""
        return replace(self, queries=(*self.queries[:-1], {**self._last, "name": name}))

    # --- what it amounts to -----------------------------------------------------------------------

    @property
    def specification(self) -> dict[str, object]:
        """The questions as YAML would say them."""
        return {"queries": [dict(query) for query in self.queries]}

    @property
    def domain(self) -> Domain:
        """What was declared, as a schema."""
        if not self.attributes:
            raise DomainError(
                "nothing is declared about the table; group by public keys first"
            )
        if self.schema is None:
            return Domain(self.attributes)

        boxes = [box.to_dict(self.schema) for box in self.schema.boxes]
        return Domain(self.attributes, self.schema.reviewed, boxes)

    @property
    def workload(self) -> Questions:
        """The questions over the declared attributes."""
        return Workload.from_spec(self.specification, self.domain)

    def plan(self, budget: Budget, options: Central | None = None) -> CentralPlan:
        """Plan the questions, as `nw.plan` does; no data is read and nothing is spent."""
        return api.plan(self, budget, options)

    def release(
        self,
        privacy: Privacy,
        *,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
        again: Again = "refuse",
        composition: Composition | None = None,
    ) -> Release:
        """Plan, and answer from the table; a ledger as in `plan.release`.

        Taken from a ledger, a release is one of many unless `composition` says otherwise.
        """
        if composition is None:
            adds_up = ledger is not None and privacy.kind == "approximate"
            composition = "many" if adds_up else "one"

        plan = self.plan(privacy, Central(composition=composition))
        return plan.release(self.source, ledger=ledger, dataset=dataset, again=again)

    # --- declarations -----------------------------------------------------------------------------

    @property
    def _last(self) -> Mapping[str, object]:
        require(
            self.queries, "by", None, "has no question before it", "start with .count()"
        )
        return self.queries[-1]

    def _asking(self, query: Mapping[str, object]) -> TableQuestions:
        return replace(self, queries=(*self.queries, query))

    def _of_number(
        self,
        kind: str,
        name: str,
        bounds: Bounds | None,
        unit: float | None,
        missing: NoValue,
    ) -> TableQuestions:
        declared = self._declaring(
            name, bounds, 1, "other" if missing == "zero" else missing
        )
        attribute = declared._known(name)
        if not isinstance(attribute, Numeric):
            raise InvalidParameter(
                kind, name, "must be a numeric attribute", "give bounds=(…, …)"
            )
        if attribute.lower is None or attribute.upper is None:
            raise InvalidParameter(
                kind, name, "has no bounds", "give bounds=(lower, upper)"
            )

        step = _unit(attribute.upper - attribute.lower) if unit is None else float(unit)
        said = {"missing": missing} if missing == "zero" else {}
        return declared._asking({kind: name, "unit": step, **said})

    def _declaring(
        self,
        name: str,
        bounds: Bounds | None,
        bins: int,
        missing: Literal["other", "error"],
    ) -> TableQuestions:
        """With a number between bounds; bins already declared are kept where they are finer."""
        known = next((a for a in self.attributes if a.name == name), None)
        if bounds is None:
            self._known(name)
            return self

        low, high = bounds
        if not (np.isfinite(low) and np.isfinite(high) and low < high and bins >= 1):
            rule = "must be two finite numbers, the lower first, and at least one bin"
            raise InvalidParameter(
                "bounds", bounds, rule, "bounds come from public knowledge"
            )

        if isinstance(known, Numeric) and len(known.edges) > 2:
            if (known.lower, known.upper) == (low, high):
                return self
            if bins == 1 and known.edges[0] <= low and high <= known.edges[-1]:
                return self._declared(replace(known, lower=low, upper=high))

        edges = tuple(float(edge) for edge in np.linspace(low, high, bins + 1))
        return self._declared(Numeric(name, edges, outside="clip", missing=missing))

    def _declared(self, attribute: Attribute) -> TableQuestions:
        others = {a.name: a for a in self.attributes}
        others[attribute.name] = attribute
        return replace(self, attributes=tuple(others.values()))

    def _known(self, name: str) -> Attribute | None:
        """The attribute of that name, or the one that has a level of that name."""
        for attribute in self.attributes:
            if name == attribute.name:
                return attribute
            if name in {level.name for level in attribute.coarser}:
                return None

        raise InvalidParameter(
            "attribute",
            name,
            "is not declared",
            f"give its public keys, .by({name}=[…]), its bounds=(lower, upper), or a schema",
        )

    def _facts(self) -> list[tuple[str, str]]:
        texts = []
        for query in self.queries:
            kind, what = next(iter(query.items()))
            groups = _listed(query, "marginal" if kind == "marginal" else "by")
            head = "count" if kind in ("marginal", "total") else f"{kind} of {what}"
            texts.append(head + (f" by {' × '.join(groups)}" if groups else ""))

        return [("questions", "; ".join(texts) or "none yet")]


def _listed(query: Mapping[str, object], name: str) -> list[str]:
    """The attributes that a question lists."""
    return cast("list[str]", query.get(name, []))


def _unit(width: float) -> float:
    """A power of ten of which there are some ten thousand between the bounds."""
    return float(10.0 ** floor(log10(width / _FINENESS))) if width > 0 else 1.0
