"""Options and words of every command that spends: from which budget, onto what, and what became."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.shared.options import Command, Option, gathered

if TYPE_CHECKING:
    from noisewright.cli.shared.sources import Opened
    from noisewright.ledger.book import Ledger
    from noisewright.planning.budgets.spending import Again
    from noisewright.planning.central.choice.problems import Composition
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.found.open_values import OpenPlan
    from noisewright.planning.rows.plan import RowsPlanned
    from noisewright.privacy.promise.budget import Privacy


@dataclass
class Spending:
    """From which budget a release is taken, and what is done about what is there already.

    `told` is what is said of the budget should the command end now.
    """

    ledger: str | None
    dataset: str | None
    again: Again
    force: bool
    dry_run: bool
    told: str = field(default="nothing was spent", init=False)

    @property
    def book(self) -> Ledger | None:
        """The ledger, where one is given."""
        if self.ledger is None:
            return None
        from noisewright.ledger.book import Ledger

        return Ledger(self.ledger)

    def check_free(self, *outputs: str | Path) -> None:
        """Refuse to write over answers, which cost budget, unless told to."""
        from noisewright.errors import InvalidParameter

        for output in outputs:
            if not self.force and Path(output).is_file():
                raise InvalidParameter(
                    "output",
                    str(output),
                    "exists",
                    "choose another path, or add --force",
                )

    def release(
        self,
        plan: CentralPlan | OpenPlan | RowsPlanned,
        table: Opened,
        output: str,
    ) -> Any:
        """The release, taken from the budget of the dataset where there is a ledger."""
        release = plan.release(
            table, ledger=self.book, dataset=self.dataset, again=self.again
        )
        self.told = f"the budget was spent, and {output} may hold the answers"
        if release.ledger is not None:
            self.told = (
                f"the budget was spent (entry {release.ledger.entry} of the ledger); --again stored"
                " writes the same answers at no cost"
            )

        return release

    def composition(self, privacy: Privacy) -> Composition:
        """Whether budgets add up in ρ or μ where this is taken from: then a release is of many."""
        if self.book is None or self.dataset is None or privacy.kind != "approximate":
            return "one"
        rule = self.book.show(split_name(self.dataset))["budget"]["rule"]
        return "one" if rule == "sum" else "many"

    def tell_left(self) -> None:
        """Say what the ledger still admits of the dataset."""
        from noisewright.ledger.standing import left_text

        if self.book is not None and self.dataset is not None:
            left = self.book.show(split_name(self.dataset))["left"]
            click.echo(f"left of {split_name(self.dataset)}: {left_text(left)}")

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let every failure say whether budget was spent."""
        try:
            yield
        except (click.exceptions.Exit, click.ClickException):
            raise
        except BaseException as error:
            if not getattr(error, "__notes__", None) and self.told not in str(error):
                error.add_note(self.told)
            raise


def split_name(dataset: str) -> str:
    """The name of a dataset without a version."""
    return dataset.partition("@")[0]


_OPTIONS: tuple[Option, ...] = (
    click.option(
        "--ledger", metavar="LEDGER",
        help="Take the budget from this ledger: a file, or postgresql://…",
    ),
    click.option("--dataset", help="Whose budget: NAME, NAME/GROUP, or NAME@VERSION of the data."),
    click.option(
        "--again", type=click.Choice(["refuse", "stored", "spend"]), default="refuse",
        show_default=True, help="Where the ledger shows this plan released before.",
    ),
    click.option("--force", is_flag=True, help="Write over answers that exist."),
    click.option("--dry-run", is_flag=True, help="Say what would be measured and spent."),
)  # fmt: skip


def spending_options(command: Command) -> Command:
    """The options of a command that spends, and every failure of it with a word on the budget."""

    @functools.wraps(command)
    def called(*, spending: Spending, **given: object) -> None:
        with spending.telling():
            command(spending=spending, **given)

    return gathered("spending", Spending, _OPTIONS)(called)


def show_dry_run(
    plan: CentralPlan | OpenPlan | RowsPlanned, spending: Spending, as_json: bool
) -> None:
    """What would be measured and spent; nothing is read or spent."""
    from noisewright.cli.shared.output import print_json, print_table
    from noisewright.planning.found.open_values import OpenPlan
    from noisewright.planning.rows.plan import RowPlan

    cost = plan.cost
    form: Any = plan.assumed() if isinstance(plan, OpenPlan) else plan
    columns = isinstance(plan, RowPlan)
    read = len(form.columns) if columns else len(form.method.tables)
    answers = len(form.forecast().std) if columns else form.queries
    facts: dict[str, Any] = {
        "dry_run": True,
        "queries": answers,
        "mechanism": form.mechanism,
        "privacy": plan.privacy.to_dict(),
        "spend": cost.spend.to_dict(),
        "noise": list(cost.noise),
        "columns_read" if columns else "tables_read": read,
    }
    rows = [
        ("answers", f"{answers:,}" + " or so" * (form is not plan)),
        ("mechanism", form.mechanism),
        ("columns read" if columns else "tables counted", f"{read:,}"),
        *(("noise", noise_text(noise)) for noise in cost.noise),
        ("would spend", plan.privacy.text()),
    ]
    book = spending.book
    if book is not None and spending.dataset is not None:
        book.check(spending.dataset, cost, spending.again)
        before, after = _shares(book, spending.dataset, plan)
        facts |= {
            "dataset": spending.dataset,
            "share_before": before,
            "share_after": after,
        }
        rows.append(
            ("of the dataset", f"{bar(after)} {before:.1%} spent now, {after:.1%} then")
        )

    if as_json:
        print_json(facts)
    else:
        print_table("Dry run: nothing was read, nothing was spent", ["", ""], rows)


def _shares(
    book: Ledger, dataset: str, plan: CentralPlan | OpenPlan | RowsPlanned
) -> tuple[float, float]:
    account, group = book.history().part(split_name(dataset))
    limits = account.created.limits
    used = account.used_of(group)
    used = used if group else account.used
    return limits.share(used), limits.share(limits.used_by(plan.spend, used) or used)


def noise_text(noise: dict[str, Any]) -> str:
    """A law with its figures, for people."""
    figures = [
        f"{name} {noise[name]:.6g}"
        for name in ("scale", "sensitivity")
        if name in noise
    ]
    return ", ".join([noise["law"], *figures])


def bar(share: float, width: int = 20) -> str:
    """A share of a budget as a bar; anything spent shows, and only all of it fills the bar."""
    filled = min(width, max(1 if share > 0 else 0, int(share * width + 1e-9)))
    return "█" * filled + "░" * (width - filled)
