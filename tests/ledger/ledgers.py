"""Ledgers and costs that the tests of this room share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisewright.ledger import limits_of
from noisewright.ledger.book import Ledger
from noisewright.planning.spending import Cost
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Gaussian, Laplace, Loss, Promise, Spend


def cost(*losses: Loss, plan: str = "plan", privacy: Privacy | None = None) -> Cost:
    """What a release of these losses costs."""
    spend = Spend("add-remove", losses)
    if privacy is None:
        gaussian = any(isinstance(loss, Gaussian) for loss in losses)
        privacy = Privacy(rho=1.0) if gaussian else Privacy(epsilon=1.0)
    return Cost(spend, privacy, plan, "a table")


def rho(amount: float) -> Gaussian:
    """Gaussian noise that keeps ρ."""
    return Gaussian((2 * amount) ** 0.5 * (1 - 1e-12))


def ledger(
    tmp_path: Path,
    budget: Privacy,
    name: str = "people",
    *,
    unit: str | None = None,
    groups: Sequence[str] = (),
    **limits: Any,
) -> Ledger:
    """A fresh ledger with one dataset, whose limits follow from what is said of them."""
    book = Ledger(tmp_path / "budget.db")
    book.create(
        name, budget, limits=limits_of(budget, **limits), unit=unit, groups=groups
    )
    return book


__all__ = ["Gaussian", "Laplace", "Promise", "cost", "ledger", "rho"]
