"""Commands that spend: the tables they read, from which budget, and what became of it."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from noisewright.cli.options import Command, Option, option, option_group

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisewright.domain import Domain
    from noisewright.ledger.book import Ledger
    from noisewright.planning.central.options import Composition
    from noisewright.planning.plan import CuratorPlan
    from noisewright.planning.release import Answers
    from noisewright.planning.spending import Again
    from noisewright.privacy.promise.budget import Privacy

    Opened = str | list[str] | dict[str, object] | npt.NDArray[np.generic]


AnswersT = TypeVar("AnswersT", bound="Answers")


@dataclass
class Spending:
    """From which budget a release is taken, and what is done about what is there already.

    `told` is what is said of the budget should the command end now.
    """

    ledger: str | None = option(
        "--ledger",
        metavar="LEDGER",
        help="Take the budget from this ledger: a file, or postgresql://…",
    )
    dataset: str | None = option(
        "--dataset", help="Whose budget: NAME, NAME/GROUP, or NAME@VERSION of the data."
    )
    again: Again = option(
        "--again",
        type=click.Choice(["refuse", "stored", "spend"]),
        default="refuse",
        show_default=True,
        help="Where the ledger shows this plan released before.",
    )
    force: bool = option("--force", is_flag=True, help="Write over answers that exist.")
    dry_run: bool = option(
        "--dry-run", is_flag=True, help="Say what would be measured and spent."
    )
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
        plan: CuratorPlan[Any, AnswersT],
        table: Opened,
        output: str,
    ) -> AnswersT:
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


def spending_options(command: Command) -> Command:
    """The options of a command that spends, and every failure of it with a word on the budget."""

    @functools.wraps(command)
    def called(*, spending: Spending, **given: object) -> None:
        with spending.telling():
            command(spending=spending, **given)

    return option_group("spending", Spending, "The budget of a ledger")(called)


_READING = {"columns": "columns read", "tables": "tables counted"}


def show_dry_run(
    plan: CuratorPlan[Any, Answers], spending: Spending, as_json: bool
) -> None:
    """What would be measured and spent; nothing is read or spent."""
    from noisewright.cli.output import print_json, print_table

    cost = plan.cost
    extent = plan.extent()
    facts: dict[str, object] = {
        "dry_run": True,
        "queries": extent.answers,
        "mechanism": extent.mechanism,
        "privacy": plan.privacy.to_dict(),
        "spend": cost.spend.to_dict(),
        "noise": list(cost.noise),
    }
    rows = [
        ("answers", f"{extent.answers:,}" + " or so" * extent.assumed),
        ("mechanism", extent.mechanism),
    ]
    if extent.reads:
        facts[f"{extent.reads}_read"] = extent.number
        rows.append((_READING[extent.reads], f"{extent.number:,}"))

    rows += [("noise", noise_text(noise)) for noise in cost.noise]
    rows.append(("would spend", plan.privacy.text()))
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
    book: Ledger, dataset: str, plan: CuratorPlan[Any, Answers]
) -> tuple[float, float]:
    account, group = book.history().part(split_name(dataset))
    limits = account.created.limits
    used = account.used_of(group)
    used = used if group else account.used
    return limits.share(used), limits.share(limits.used_by(plan.spend, used) or used)


def noise_text(noise: dict[str, object]) -> str:
    """A law with its figures, for people."""
    figures = [
        f"{name} {noise[name]:.6g}"
        for name in ("scale", "sensitivity")
        if name in noise
    ]
    return ", ".join([str(noise["law"]), *figures])


def bar(share: float, width: int = 20) -> str:
    """A share of a budget as a bar; anything spent shows, and only all of it fills the bar."""
    filled = min(width, max(1 if share > 0 else 0, int(share * width + 1e-9)))
    return "█" * filled + "░" * (width - filled)


STANDARD_INPUT = "-"


def table_argument(required: bool = True) -> Option:
    """The argument TABLE, which may be repeated."""
    return click.argument(
        "tables",
        metavar="TABLE...",
        nargs=-1,
        required=required,
        type=click.Path(allow_dash=True),
    )


def plain_paths(tables: Sequence[str], domain: Domain | None) -> list[str]:
    """The paths alone, where a schema that derives people's rows has them as NAME=TABLE."""
    named = domain is not None and bool(domain.derived)
    return (
        [table.partition("=")[2] or table for table in tables]
        if named
        else list(tables)
    )


@contextmanager
def opened_tables(
    tables: Sequence[str], domain: Domain | None = None
) -> Iterator[Opened]:
    """The tables as the library takes them; standard input is held in memory under a name.

    A plan of queries in text knows no columns: its table may be the counts of its cells.
    """
    if domain is not None and domain.derived:
        yield _by_name(tables)
        return

    if list(tables).count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input (-) can be read once")

    if domain is None and len(tables) == 1 and tables[0].endswith(".npy"):
        yield _counts(tables[0])
        return

    if STANDARD_INPUT not in tables:
        yield tables[0] if len(tables) == 1 else list(tables)
        return

    with _named_input() as name:
        paths = [name if table == STANDARD_INPUT else table for table in tables]
        yield paths[0] if len(paths) == 1 else paths


def _counts(path: str) -> npt.NDArray[np.generic]:
    """The array of a file; neither its numbers nor what it is instead come to be in an error."""
    import numpy as np

    from noisewright.errors import FileFormatError

    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except FileNotFoundError:
        raise FileFormatError(f"{path}: no such file") from None
    except (ValueError, OSError, EOFError):
        raise FileFormatError(f"{path}: is no .npy file of counts") from None


def _by_name(tables: Sequence[str]) -> dict[str, object]:
    """NAME=TABLE by name; of a name that stands several times, the list of its files."""
    named: dict[str, list[str]] = {}
    for table in tables:
        name, _, path = table.partition("=")
        if not name or not path or path == STANDARD_INPUT:
            raise click.UsageError(
                "the schema derives from several tables: write NAME=TABLE"
            )
        named.setdefault(name, []).append(path)

    return {
        name: paths[0] if len(paths) == 1 else paths for name, paths in named.items()
    }


@contextmanager
def _named_input() -> Iterator[str]:
    """A path that reads what standard input held.

    On Linux it leads to memory, so that nothing of the table comes to lie on a disk; elsewhere to a
    file of the caller's alone, which is gone afterwards.
    """
    content = sys.stdin.buffer.read()
    suffix = ".parquet" if content[:4] == b"PAR1" else ".csv"
    with tempfile.TemporaryDirectory(prefix="noisewright-") as folder:
        path = Path(folder) / f"standard-input{suffix}"
        if not hasattr(os, "memfd_create"):
            path.touch(mode=0o600)
            path.write_bytes(content)
            yield str(path)
            return

        with os.fdopen(os.memfd_create("table"), "wb") as memory:
            memory.write(content)
            memory.flush()
            del content
            path.symlink_to(f"/proc/{os.getpid()}/fd/{memory.fileno()}")
            yield str(path)
