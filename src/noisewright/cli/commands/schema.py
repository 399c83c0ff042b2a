"""`noisewright schema`: draft, check and show the public schema of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisewright.cli.shared.options import json_option
from noisewright.cli.shared.output import print_json, print_table
from noisewright.cli.shared.sources import opened, table_argument

if TYPE_CHECKING:
    from noisewright.domain import Domain


@click.group()
def schema() -> None:
    """Draft, check and show the public schema of a table."""


@schema.command()
@table_argument()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the draft here."
)
@click.option(
    "--codes",
    multiple=True,
    help="A column of numbers that are codes; may be repeated.",
)
@click.option(
    "--numbers", multiple=True, help="A column of few numbers that are no codes."
)
@json_option
def suggest(
    tables: tuple[str, ...],
    output: Path | None,
    codes: tuple[str, ...],
    numbers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Draft a schema from TABLE, marked `reviewed: false`.

    TABLE is a CSV or Parquet file, several of them, a folder, or - for standard input.
    Whole numbers of at most twelve different values are taken for codes, which have no order: the
    draft says so beside each, and --codes and --numbers decide it.

    The draft is made by looking at the table, so it is as private as the table, and a file of it
    is readable by you alone. Replace every value and bound by one from public knowledge, then set
    `reviewed: true`.
    """
    from noisewright import files
    from noisewright.tables.suggest import suggest_schema

    if output is not None:
        files.check_writable(output)

    with opened(tables) as table:
        draft = suggest_schema(table, codes=codes, numbers=numbers)

    if as_json:
        print_json(
            draft.domain.to_dict() | {"left_out": draft.left_out, "notes": draft.notes}
        )
    elif output is None:
        click.echo(draft.to_yaml(), nl=False)

    if output is not None:
        files.write_text(output, draft.to_yaml(), mode=files.PRIVATE)
        click.echo(f"draft written to {output}; review every value in it", err=True)


@schema.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Check that FILE is a schema that plans and releases may use."""
    from noisewright.domain import Domain

    domain = Domain.from_yaml(file)
    if as_json:
        print_json(_summary(domain))
    else:
        click.echo(f"{file}: {len(domain)} attributes, {domain.size:,} cells")

    domain.require_reviewed()


@schema.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show the attributes and cells that FILE declares."""
    from noisewright.domain import Domain

    domain = Domain.from_yaml(file)
    if as_json:
        names = ("name", "kind", "size", "outside", "missing", "labels")
        details = [
            {name: getattr(attribute, name) for name in names} for attribute in domain
        ]
        print_json(_summary(domain) | {"attributes": details})
        return

    state = (
        "reviewed" if domain.reviewed else "a draft: nothing plans or releases from it"
    )
    print_table(
        f"{file} ({state})",
        ["attribute", "kind", "cells", "outside", "missing", "labels"],
        [
            (a.name, a.kind, a.size, a.outside, str(a.missing), _some(a.labels))
            for a in domain.attributes
        ],
        caption=f"{domain.size:,} cells in all",
    )


def _summary(domain: Domain) -> dict[str, object]:
    return {
        "reviewed": domain.reviewed,
        "names": domain.names,
        "shape": domain.shape,
        # as text where 64-bit readers would misread it
        "size": domain.size if domain.size < 2**53 else str(domain.size),
        "fingerprint": domain.fingerprint,
    }


def _some(labels: tuple[str, ...]) -> str:
    shown = labels if len(labels) <= 6 else (*labels[:4], "…", labels[-1])
    return ", ".join(shown)
