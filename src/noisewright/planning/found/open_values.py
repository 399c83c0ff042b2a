"""Attributes that no schema lists, within one plan: their values are told first, then tables.

`kind: open` declares such an attribute. A share of the budget selects its values by optimal
partition selection; what is left measures the tables that are asked, over the values told and
`other`. Both are one spend and one entry of a ledger, reserved before anything is drawn: what the
tables may spend is fixed beforehand, whichever values are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from noisewright.domain import Domain, Unit
from noisewright.domain.schema import load_yaml
from noisewright.domain.unit import read_unit
from noisewright.errors import DomainError, InvalidParameter, NoisewrightError, require
from noisewright.planning.central.choose import plan_central
from noisewright.planning.central.options import Central
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.counting import Counter, Source
from noisewright.planning.found.values import ValuePlan
from noisewright.planning.plan import CuratorPlan, Extent, Forecast
from noisewright.planning.release import Release
from noisewright.planning.spending import (
    Spending,
)
from noisewright.privacy.exact.rounding import float_below
from noisewright.privacy.noise.gaussian import gaussian_ratio
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Gaussian, Spend
from noisewright.stages import stage
from noisewright.workload.questions.spec import questions

OPEN = "open"
SHARE = 0.25
"""Of the budget, by which values are told unless said otherwise; tables have the rest."""
_ASSUMED = 20  # values of every open attribute, for a forecast


@dataclass(frozen=True, eq=False)
class Held:
    """How many people hold which value of every open attribute, and where tables are counted."""

    values: Mapping[str, Mapping[str, int]]
    data: Source
    engine: Counter


@dataclass(frozen=True, eq=False, repr=False)
class OpenPlan(CuratorPlan[Held, Release]):
    """Which values are told and which tables are measured over them, under one budget.

    `schema` and `queries` are as in YAML; `share` of ε and of δ goes to the values.
    """

    schema: Mapping[str, object]
    queries: Mapping[str, object]
    privacy: Privacy
    share: float = SHARE
    error: str = "rmse"
    counter: Counter | None = None

    kind = "open"
    release_kind = "open-release"

    def __post_init__(self) -> None:
        require(self.open_names, "schema", OPEN, "declares no attribute of that kind")
        require(
            isinstance(self.share, float) and 0 < self.share < 1,
            "share",
            self.share,
            "must lie between 0 and 1",
            "0.25",
        )

        _ = self.value_plans  # refuses pure and concentrated privacy with the reason
        require(
            not self.schema.get("derive"),
            "schema",
            OPEN,
            "is not for attributes that are derived",
            "list their values",
        )

        self.check_spend(self.assumed(2).spend)

    @cached_property
    def open_names(self) -> tuple[str, ...]:
        """The attributes whose values are told first."""
        return tuple(
            str(entry["name"])
            for entry in _entries(self.schema)
            if entry["kind"] == OPEN
        )

    @property
    def unit(self) -> Unit | None:
        """Whose rows are whose."""
        return read_unit(self.schema.get("unit"))

    @cached_property
    def value_plans(self) -> tuple[ValuePlan, ...]:
        """One selection of values for every open attribute."""
        part = Fraction(self.share) / len(self.open_names)
        budget = self.privacy
        if budget.kind == "approximate":
            budget = _part(budget, part)
        return tuple(ValuePlan(name, budget, self.unit) for name in self.open_names)

    @cached_property
    def rest(self) -> Privacy:
        """What is left for the tables."""
        return _part(self.privacy, 1 - Fraction(self.share))

    @cached_property
    def spend(self) -> Spend:
        """What one release costs, whichever values are told."""
        values = [plan.spend.losses[0] for plan in self.value_plans]
        assert self.rest.epsilon is not None
        assert self.rest.delta is not None
        tables = Gaussian(gaussian_ratio(self.rest.epsilon, self.rest.delta))
        return Spend("add-remove", (*values, tables))

    @property
    def title(self) -> str:
        """What is told, and measured over it."""
        return f"values of {', '.join(self.open_names)}, and tables over them"

    def domain(self, values: Mapping[str, Sequence[str]]) -> Domain:
        """The schema with these values listed, and `other` for all the rest."""
        attributes = [
            entry
            if entry["kind"] != OPEN
            else _listed(str(entry["name"]), values[str(entry["name"])])
            for entry in _entries(self.schema)
        ]
        return Domain.from_dict({**self.schema, "attributes": attributes})

    def over(self, values: Mapping[str, Sequence[str]]) -> CentralPlan:
        """The plan of the tables where these values were told.

        Its noise is Gaussian, as is reserved for it before any value is told.
        """
        domain = self.domain(values)
        asked = questions(self.queries, domain)
        options = Central(self.error, composition="many")
        return plan_central(asked, self.rest, options, domain, self.counter)

    def told(
        self, tables: CentralPlan, values: Mapping[str, Sequence[str]]
    ) -> OpenTables:
        """A plan of tables as that of the values told; refused where it is of others."""
        own = {field.name: getattr(tables, field.name) for field in fields(CentralPlan)}
        listed = {name: tuple(told) for name, told in values.items()}
        return OpenTables(**own, selection=self, values=listed)

    def check_spend(self, tables: Spend) -> None:
        """Refuse tables that would spend another kind of noise, or more, than is reserved."""
        reserved = self.spend.losses[-1]
        assert isinstance(reserved, Gaussian)

        plain = all(isinstance(loss, Gaussian) for loss in tables.losses)
        if not plain or tables.mu > reserved.mu:
            raise NoisewrightError(
                "the tables would spend more than is reserved for them"
            )

    def chance(self, people: int) -> float:
        """The probability that a value which so many people hold is told."""
        return self.value_plans[0].chance(people)

    def assumed(self, values: int = _ASSUMED) -> CentralPlan:
        """The plan of the tables where so many values of every open attribute are told."""
        return self.over(_placeholders(self.open_names, values))

    def forecast(self, values: int = _ASSUMED) -> Forecast:
        """Errors of the tables where so many values of every open attribute are told."""
        return self.assumed(values).forecast()

    def extent(self) -> Extent:
        """That of the tables, as many values as are assumed."""
        return self.assumed().extent()._replace(assumed=True)

    def chances(self) -> dict[int, float]:
        """The fraction of values that appear, by how many people hold each: all that matters."""
        last = self.value_plans[0].selection.certain
        between = [max(1, round(last * part / 8)) for part in range(1, 8)]
        people = sorted({1, last, *between})
        return {count: self.chance(count) for count in people}

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on; errors are for a number of values that is assumed."""
        forecast = self.forecast()
        values = self.value_plans[0].summary()
        people = {
            name: values[name] for name in values if name.startswith("people_for")
        }

        return {
            "mechanism": "partition-selection + tables",
            "open": list(self.open_names),
            "privacy": self.privacy.to_dict(),
            "values_privacy": self.value_plans[0].privacy.to_dict(),
            "tables_privacy": self.rest.to_dict(),
            "person": self.value_plans[0].person,
            **people,
            "chances": {str(count): chance for count, chance in self.chances().items()},
            "assumed_values": _ASSUMED,
            "rmse": forecast.rmse,
            "max": forecast.max,
        }

    def exact(self, data: Source, counter: Counter | None = None) -> Held:
        """Who holds which value; tables over those told are counted when they are known.

        The table is read twice, so a stream is refused.
        """
        engine = self.engine(counter)
        if isinstance(data, Iterator) or type(data).__name__ == "RecordBatchReader":
            rule = "is read twice: first for values, then for tables"
            raise InvalidParameter(
                "table", type(data).__name__, rule, "read it into a table"
            )

        stage("counting who holds which value")
        held = {name: engine.values(data, name, self.unit) for name in self.open_names}
        return Held(held, data, engine)

    def noisy(
        self,
        exact: Held,
        spending: Spending | None = None,
        source: ByteSource | None = None,
    ) -> Release:
        """Tell values, then measure tables over them: both are one spending."""
        values = {
            plan.column: plan.noisy(exact.values[plan.column], source=source).values
            for plan in self.value_plans
        }
        if empty := [name for name, told in values.items() if not told]:
            raise DomainError(
                f"no value of {', '.join(empty)} is held by enough people to be told, so that"
                " there is no table to measure; the budget of the selection is spent"
            )

        tables = self.told(self.over(values), values)
        counts = tables.exact(exact.data, exact.engine)
        return tables.noisy(counts, spending, source)

    def counting_sql(self, data: Source, counter: Counter | None = None) -> str:
        """What the engine would run: for values, then for tables, over two values made up."""
        engine = self.engine(counter)
        parts = [
            engine.explain_values(data, name, self.unit) for name in self.open_names
        ]
        tables = self.assumed(2).counting_sql(data, engine)

        return ";\n\n".join(
            [*parts, f"-- over the values told, here two made up\n{tables}"]
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [("open", ", ".join(self.open_names)), ("privacy", self.privacy.text())]


@dataclass(frozen=True, eq=False, repr=False)
class OpenTables(CentralPlan):
    """Tables over values that were told; what it promises and costs is telling them as well."""

    selection: OpenPlan = field(kw_only=True)
    values: Mapping[str, tuple[str, ...]] = field(kw_only=True)

    release_kind = "open-release"

    def __post_init__(self) -> None:
        """Whatever a file says, the tables are those of the values told, within the budget."""
        super().__post_init__()
        selection = self.selection
        require(
            set(self.values) == set(selection.open_names) and all(self.values.values()),
            "values",
            sorted(self.values),
            "are not of the open attributes",
        )

        require(
            self.domain == selection.domain(self.values)
            and self.calibrated == selection.rest,
            "tables",
            self.mechanism.name,
            "are not those of the values told",
            "plan again",
        )

        selection.check_spend(super().spend)

    @property
    def privacy(self) -> Privacy:
        """The budget of values and tables together."""
        return self.selection.privacy

    @property
    def spend(self) -> Spend:
        """What telling values and measuring tables cost together."""
        return self.selection.spend

    def record(self) -> dict[str, object]:
        """What is spent and how, with how many values were told."""
        return {
            **super().record(),
            "open": {name: len(own) for name, own in self.values.items()},
            "tables_privacy": self.calibrated.to_dict(),
        }

    def check_usable(self) -> None:
        """The values told belong to the release that they were drawn for."""
        raise InvalidParameter(
            "plan",
            "tables over values told",
            "is of one release",
            "release the plan of values",
        )


def plain_document(
    name: str, source: str | Path | Mapping[str, object]
) -> dict[str, object]:
    """Plain values as they are, or from YAML: its text, or a path to it."""
    read = source if isinstance(source, Mapping) else load_yaml(source)
    if not isinstance(read, Mapping):
        raise InvalidParameter(name, type(read).__name__, "must be a mapping")
    return dict(read)


def declares_open(schema: Mapping[str, object]) -> bool:
    """Whether some attribute of a schema, as it is written, is open."""
    entries = schema.get("attributes")
    listed = entries if isinstance(entries, list) else []
    return any(
        isinstance(entry, Mapping) and entry.get("kind") == OPEN for entry in listed
    )


def _entries(schema: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The attributes that a schema declares; an open one has a name and nothing else."""
    entries = schema.get("attributes")
    if not isinstance(entries, list) or not all(
        isinstance(entry, Mapping) and isinstance(entry.get("kind"), str)
        for entry in entries
    ):
        raise DomainError(
            "schema: `attributes` must be a list, each with a name and a kind"
        )

    for entry in entries:
        if entry["kind"] == OPEN and (
            set(entry) != {"name", "kind"} or not entry["name"]
        ):
            raise DomainError(
                "schema: an open attribute has a name and no values of its own"
            )

    return entries


def _listed(name: str, values: Sequence[str]) -> dict[str, object]:
    label = "other"
    while label in values:
        label = f"({label})"
    return {"name": name, "kind": "categorical", "values": list(values), "outside": "other",
            "other": label}  # fmt: skip


def _placeholders(names: Sequence[str], count: int) -> dict[str, list[str]]:
    return {name: [f"value {i}" for i in range(count)] for name in names}


def _part(privacy: Privacy, share: Fraction) -> Privacy:
    """A part of ε and of δ; parts add up to no more than the whole."""
    assert privacy.epsilon is not None
    assert privacy.delta is not None

    epsilon = float_below(Fraction(privacy.epsilon) * share)
    delta = float_below(Fraction(privacy.delta) * share)
    return Privacy(epsilon=epsilon, delta=delta, neighbours=privacy.neighbours)
