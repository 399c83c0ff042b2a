"""Commands on files that were kept: `answer` asks a release more, `report` draws a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.plan.rows import show_regression
from noisewright.cli.shared.options import (
    FILE,
    check_output,
    check_recorded,
    json_option,
)
from noisewright.cli.shared.output import SHOWN, print_answers, print_json, progress
from noisewright.errors import require

if TYPE_CHECKING:
    from noisewright.planning.release import Release
    from noisewright.planning.rows.covariance import CovarianceRelease

_kept = click.argument("release_file", metavar="RELEASE", type=FILE)


@click.command()
@_kept
@click.argument("workload", required=False)
@click.option("--queries", type=FILE, help="Further questions in YAML.")
@click.option(
    "--regress", metavar="COLUMN", help="Least squares of it, from second moments."
)
@click.option(
    "--on", metavar="NAMES", help="With --regress: on these (all others unless told)."
)
@click.option(
    "-o", "--output", type=FILE, help="Answers: CSV, Parquet or .nwr by suffix."
)
@json_option
def answer(
    release_file: str,
    workload: str | None,
    queries: str | None,
    regress: str | None,
    on: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Answer further questions from RELEASE (.nwr): no table is read and no budget is spent.

    Whatever the measurement determines is answered with exact errors; the rest is refused.

    \b
    Examples:
      noisewright answer r.nwr --queries more.yaml -o more.csv
      noisewright answer r.nwr prefix:64
      noisewright answer moments.nwr --regress weight --on height,age
    """
    from pathlib import Path

    from noisewright.errors import InvalidParameter

    if regress is not None or on is not None:
        asked = workload or queries
        if asked is not None or regress is None:
            rule = "goes with --regress alone, and that with no other question"
            raise InvalidParameter(
                "on", on or asked, rule, "name the column to fit by --regress"
            )
        if output is not None:
            check_recorded(output, release_file)
        show_regression(moments(release_file), regress, on, output, as_json)
        return

    require(
        (workload is None) != (queries is None),
        "queries",
        queries,
        "or else a workload must be given",
        "give exactly one of the two",
    )

    if output is not None:
        check_recorded(output, release_file)

    with progress("answering"):
        answers = kept_release(release_file).answer(workload or Path(str(queries)))
        if output is not None:
            answers.write(output)

    if as_json:
        print_json({**answers.metadata, "rows": answers.to_arrow().to_pylist()})
        return

    more = len(answers) - SHOWN
    note = [
        f"{more:,} more" if more > 0 else "",
        f"written to {output}" if output else "",
    ]
    cost = "from the same measurement: nothing was spent"
    print_answers("Further answers", answers, "; ".join(filter(None, [*note, cost])))


@click.command()
@click.argument("file", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="The page, in HTML.")
@json_option
def report(file: str, output: str, as_json: bool) -> None:
    """Write a self-contained page about FILE: promise, errors, proofs, charts and answers.

    FILE is a release (.nwr, or the answers beside it), estimates, a plan before anything is spent,
    learning or a selection, or a ledger. Of a running stream that was kept, the page shows the
    answers alone: nothing of its state.
    """
    import noisewright as nw

    check_output(output, file)
    with progress("drawing"):
        nw.report(_subject(file), output)

    if as_json:
        print_json({"report": output})
    else:
        click.echo(f"written to {output}")


def _subject(path: str) -> Any:
    """What a page can be drawn of; of a stream its answers, older states too."""
    import noisewright as nw
    from noisewright import container
    from noisewright.files import is_sqlite
    from noisewright.planning.streams.files import SECRET, stored_stream

    if is_sqlite(path):
        from noisewright.ledger.book import Ledger

        return Ledger(path)

    path = _behind(path)
    if container.kind_of(path)[0] == SECRET:
        return stored_stream(path)[0]

    return nw.load(path)


def _behind(path: str) -> str:
    """The release behind answers or their record, where it was kept beside them."""
    from pathlib import Path

    from noisewright.errors import FileFormatError
    from noisewright.planning.release import kept_path, metadata_path, read_record

    answers = Path(path.removesuffix(".meta.json"))
    record = metadata_path(answers)
    kept = kept_path(answers)
    if not record.exists() or str(kept) == path:
        return path

    name = read_record(record)[-1].get("release")
    if not kept.exists() or kept_release(str(kept)).identity != name:
        raise FileFormatError(
            f"{path}: the release behind these answers is not beside them"
        )

    return str(kept)


def moments(path: str) -> CovarianceRelease:
    """The release of second moments in a file."""
    import noisewright as nw
    from noisewright.errors import InvalidParameter
    from noisewright.planning.rows.covariance import CovarianceRelease

    content = nw.load(path)
    if not isinstance(content, CovarianceRelease):
        rule = "tells no second moments of numeric columns"
        raise InvalidParameter(
            "release", path, rule, "plan with --columns and --radius"
        )

    return content


def kept_release(path: str) -> Release:
    """The release in a file; a plan is refused."""
    import noisewright as nw

    return _release_of(nw.load(path), path)


def _release_of(content: object, path: str) -> Release:
    from noisewright.errors import InvalidParameter
    from noisewright.planning.release import Release
    from noisewright.planning.rows.plan import RowRelease
    from noisewright.planning.streams.running import RunningStream, StreamRelease

    if isinstance(content, StreamRelease | RunningStream):
        rule = "is of a stream, which answers its running count alone"
        raise InvalidParameter(
            "release", path, rule, "see it by `noisewright report` or `show`"
        )

    if isinstance(content, RowRelease):
        rule = "is of columns, whose cells were not counted"
        raise InvalidParameter(
            "release", path, rule, "its figures stand in the file of answers"
        )

    if not isinstance(content, Release):
        raise InvalidParameter(
            "release",
            path,
            "is a plan, which has no answers",
            "give the .nwr file of a release",
        )

    return content
