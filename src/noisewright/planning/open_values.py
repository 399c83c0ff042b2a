"""Attributes that no schema lists, within one plan: their values are told first, then tables.

`kind: open` declares such an attribute. A share of the budget selects its values by optimal
partition selection; what is left measures the tables that are asked, over the values told and
`other`. Both are one spend and one entry of a ledger, reserved before anything is drawn: what the
tables may spend is fixed beforehand, whichever values are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewright.display import Shown
from noisewright.domain import Domain, Unit
from noisewright.domain.schema import load_yaml
from noisewright.domain.unit import read_unit
from noisewright.errors import DomainError, InvalidParameter, NoisewrightError
from noisewright.planning.central import CentralPlan
from noisewright.planning.choice import error_norm, plan_central
from noisewright.planning.counting import Counter, Source
from noisewright.planning.plan import Forecast
from noisewright.planning.release import Release, fresh_name, recorded
from noisewright.planning.spending import (
    UNRECORDED,
    Again,
    Cost,
    LedgerLike,
    LedgerNote,
    Reservation,
    purse_of,
)
from noisewright.planning.values import ReleasedValues, ValuePlan
from noisewright.privacy.budget import Privacy
from noisewright.privacy.gaussian import gaussian_ratio
from noisewright.privacy.rounding import float_below
from noisewright.privacy.spend import Gaussian, Spend
from noisewright.workload.spec import questions

if TYPE_CHECKING:
    import pandas as pd

OPEN = "open"
SHARE = 0.25
_ASSUMED = 20  # values of every open attribute, for a forecast


@dataclass(frozen=True, eq=False, repr=False)
class OpenPlan(Shown):
    """Which values are told and which tables are measured over them, under one budget.

    `schema` and `queries` are as in YAML; `share` of ε and of δ goes to the values.
    """

    schema: Mapping[str, Any]
    queries: Mapping[str, Any]
    privacy: Privacy
    share: float = SHARE
    error: str = "rmse"
    counter: Counter | None = None

    def __post_init__(self) -> None:
        if not self.open_names:
            raise InvalidParameter("schema", OPEN, "declares no attribute of that kind")
        if not isinstance(self.share, float) or not 0 < self.share < 1:
            raise InvalidParameter("share", self.share, "must lie between 0 and 1", "0.25")
        _ = self.value_plans  # refuses pure and concentrated privacy with the reason
        self._check_spend(self.over(_placeholders(self.open_names, 2)))

    @cached_property
    def open_names(self) -> tuple[str, ...]:
        """The attributes whose values are told first."""
        return tuple(entry["name"] for entry in _entries(self.schema) if entry["kind"] == OPEN)

    @property
    def unit(self) -> Unit | None:
        """Whose rows are whose."""
        return read_unit(self.schema.get("unit"))

    @property
    def model(self) -> str:
        """Who adds the noise."""
        return "central"

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
    def cost(self) -> Cost:
        """What a ledger is told of a release."""
        from noisewright.planning.plan_files import plan_digest

        title = f"values of {', '.join(self.open_names)}, and tables over them"
        return Cost(self.spend, self.privacy, plan_digest(self), title, unit=self.unit)

    def domain(self, values: Mapping[str, Sequence[str]]) -> Domain:
        """The schema with these values listed, and `other` for all the rest."""
        attributes = [
            entry if entry["kind"] != OPEN else _listed(entry["name"], values[entry["name"]])
            for entry in _entries(self.schema)
        ]
        return Domain.from_dict({**self.schema, "attributes": attributes})

    def over(self, values: Mapping[str, Sequence[str]]) -> CentralPlan:
        """The plan of the tables where these values were told."""
        domain = self.domain(values)
        asked = questions(self.queries, domain)
        norm = error_norm(self.error)
        return plan_central(asked, self.rest, norm, "auto", domain, self.counter)

    def _check_spend(self, tables: CentralPlan) -> None:
        """Refuse tables that would spend another kind of noise, or more, than is reserved."""
        reserved = self.spend.losses[-1]
        assert isinstance(reserved, Gaussian)
        plain = all(isinstance(loss, Gaussian) for loss in tables.spend.losses)
        if not plain or tables.spend.mu > reserved.mu:
            raise NoisewrightError("the tables would spend more than is reserved for them")

    def chance(self, people: int) -> float:
        """The probability that a value which so many people hold is told."""
        return self.value_plans[0].chance(people)

    def forecast(self, values: int = _ASSUMED) -> Forecast:
        """Errors of the tables where so many values of every open attribute are told."""
        return self.over(_placeholders(self.open_names, values)).forecast()

    def summary(self) -> dict[str, Any]:
        """The figures scripts rely on; errors are for a number of values that is assumed."""
        forecast = self.forecast()
        values = self.value_plans[0].summary()
        people = {name: values[name] for name in values if name.startswith("people_for")}
        return {
            "mechanism": "partition-selection + tables",
            "open": list(self.open_names),
            "privacy": self.privacy.to_dict(),
            "values_privacy": self.value_plans[0].privacy.to_dict(),
            "tables_privacy": self.rest.to_dict(),
            "person": self.value_plans[0].person,
            **people,
            "assumed_values": _ASSUMED,
            "rmse": forecast.rmse,
            "max": forecast.max,
        }

    def release(
        self,
        data: Source,
        *,
        counter: Counter | None = None,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
        again: Again = "refuse",
    ) -> OpenRelease:
        """Tell values, then measure tables over them; each call spends the whole budget.

        The table is read twice, so a stream is refused. With a `ledger`, all of it is reserved
        before anything is drawn, and no answers are kept.
        """
        engine = counter or self.counter
        if engine is None:
            raise InvalidParameter("counter", None, "must be given to count a table")
        if isinstance(data, Iterator) or type(data).__name__ == "RecordBatchReader":
            rule = "is read twice: first for values, then for tables"
            raise InvalidParameter("table", type(data).__name__, rule, "read it into a table")
        purse = purse_of(ledger, dataset, again)
        if purse is not None:
            purse.check(self.cost)
        held = [engine.values(data, name, self.unit) for name in self.open_names]

        def make(reservation: Reservation | None) -> OpenRelease:
            told = tuple(p.select(h) for p, h in zip(self.value_plans, held, strict=True))
            known = {v.plan.column: v.values for v in told}
            if empty := [name for name, values in known.items() if not values]:
                raise DomainError(
                    f"no value of {', '.join(empty)} is held by enough people to be told, so that"
                    " there is no table to measure; the budget of the selection is spent"
                )
            tables = self.over(known)
            self._check_spend(tables)
            note = None if reservation is None else reservation.note
            name = fresh_name() if reservation is None else reservation.identity
            return OpenRelease(self, told, tables.release(data, counter=engine), name, note)

        return make(None) if purse is None else purse.spend(self.cost, make)

    def save(self, path: str | Path) -> None:
        """Write the plan, whole or not at all."""
        from noisewright.planning.plan_files import save

        save(self, path)

    def _facts(self) -> list[tuple[str, str]]:
        return [("open", ", ".join(self.open_names)), ("privacy", self.privacy.text())]


@dataclass(frozen=True, eq=False, repr=False)
class OpenRelease(Shown):
    """Values that were told, and answers over them; `metadata` says what both cost together."""

    plan: OpenPlan
    values: tuple[ReleasedValues, ...]
    release: Release
    identity: str
    note: LedgerNote | None = None

    def to_pandas(self) -> pd.DataFrame:
        """The answers, one a row."""
        return self.release.to_pandas()

    @property
    def metadata(self) -> dict[str, Any]:
        """What was spent and how, ready for JSON: the tables' own record with the whole spend."""
        own = {k: v for k, v in self.release.metadata.items() if k not in ("statement", "ledger")}
        return {
            **own,
            "privacy": self.plan.privacy.to_dict(),
            "spend": self.plan.spend.to_dict(),
            "release": self.identity,
            "open": {v.plan.column: len(v.values) for v in self.values},
            "tables_privacy": self.plan.rest.to_dict(),
            "ledger": UNRECORDED if self.note is None else self.note.to_dict(),
        }

    def write(self, path: str | Path, *, excel: bool = False) -> Path:
        """Write the answers (Parquet or CSV by suffix) and the record of what they cost."""
        from noisewright.files import write_table

        table = self.release.to_arrow()
        write = lambda file: write_table(file, table, excel=excel)  # noqa: E731
        return recorded(Path(path), self.metadata, write)

    def _facts(self) -> list[tuple[str, str]]:
        told = ", ".join(f"{v.plan.column} ({len(v.values):,})" for v in self.values)
        return [("values", told), ("answers", f"{len(self.release):,}")]


def plan_open(
    queries: str | Path | Mapping[str, Any],
    schema: str | Path | Mapping[str, Any],
    privacy: Privacy,
    *,
    share: float = SHARE,
    error: str = "rmse",
    counter: Counter | None = None,
) -> OpenPlan:
    """Plan values and tables over them, from YAML (text or a path) or plain values."""
    return OpenPlan(
        _document("schema", schema), _document("queries", queries), privacy, share, error, counter
    )


def _document(name: str, source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    document = source if isinstance(source, Mapping) else load_yaml(source)
    if not isinstance(document, Mapping):
        raise InvalidParameter(name, type(document).__name__, "must be a mapping")
    return dict(document)


def _entries(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The attributes that a schema declares; an open one has a name and nothing else."""
    entries = schema.get("attributes")
    if not isinstance(entries, list) or not all(
        isinstance(entry, Mapping) and isinstance(entry.get("kind"), str) for entry in entries
    ):
        raise DomainError("schema: `attributes` must be a list, each with a name and a kind")
    for entry in entries:
        if entry["kind"] == OPEN and (set(entry) != {"name", "kind"} or not entry["name"]):
            raise DomainError("schema: an open attribute has a name and no values of its own")
    return entries


def _listed(name: str, values: Sequence[str]) -> dict[str, Any]:
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
    epsilon, delta = (float_below(Fraction(v) * share) for v in (privacy.epsilon, privacy.delta))
    return Privacy(epsilon=epsilon, delta=delta, neighbours=privacy.neighbours)
