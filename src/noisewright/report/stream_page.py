"""The page of a stream: its running count in its band, and what was promised for all its steps."""

from __future__ import annotations

import json
from html import escape

import numpy as np

from noisewright.errors import OutOfReach
from noisewright.planning.running import StreamRelease
from noisewright.report.charts import stream_chart
from noisewright.report.page import drawn, filled, promise

_MOST_ROWS = 200
_MOST_POINTS = 600


def stream_page(release: StreamRelease, title: str = "Private running count") -> str:
    """The page as HTML: answers alone, nothing that the stream remembers."""
    if not len(release):
        raise OutOfReach("no step of the stream was answered yet; there is nothing to draw")
    metadata = release.metadata
    changes = {"add-remove": "been left out", "replace-one": "come at another step"}
    return filled(
        title=escape(title),
        lead=escape(
            f"{len(release):,} of {metadata['steps']:,} planned steps, every one under the same"
            " promise: all that is published of this stream, now and later, would look almost the"
            f" same had any one person {changes[metadata['neighbours']]}."
        ),
        tiles=_tiles(release),
        bound="",
        charts=_chart(release),
        errors="",
        answers=_answers(release),
        metadata=escape(json.dumps(metadata, indent=2, ensure_ascii=False)),
    )


def _tiles(release: StreamRelease) -> str:
    metadata, forecast = release.metadata, release.plan.forecast()
    return drawn(
        [
            promise(metadata),
            ("running count", f"{release.answers[-1]:,.0f}", f"people, at step {len(release):,}"),
            ("error now", f"± {release.std[-1]:,.1f}", "people, standard error of the latest"),
            ("largest error", f"± {forecast.max:,.1f}", "people, of any planned step"),
        ]
    )


def _chart(release: StreamRelease) -> str:
    chosen = np.unique(np.linspace(0, len(release) - 1, _MOST_POINTS).round().astype(np.int64))
    note = f"{len(release):,} answers"
    if len(chosen) < len(release):
        note += f", {len(chosen):,} of them drawn"
    note += f", standard error {release.std.min():,.1f} to {release.std.max():,.1f} people"
    svg = stream_chart(release, chosen)
    caption = f"<b>people so far</b>{escape(note)}"
    return f'<figure style="grid-column: 1 / -1">{svg}<figcaption>{caption}</figcaption></figure>'


def _answers(release: StreamRelease) -> str:
    lower, upper = release.lower, release.upper
    steps = range(len(release) - 1, max(-1, len(release) - 1 - _MOST_ROWS), -1)
    rows = "".join(
        f"<tr><td>people so far</td><td>step {k + 1:,}</td><td>{release.answers[k]:,.1f}</td>"
        f"<td>{release.std[k]:,.1f}</td><td>{lower[k]:,.1f} … {upper[k]:,.1f}</td></tr>"
        for k in steps
    )
    more = len(release) - len(steps)
    tail = f'<p class="quiet">and {more:,} earlier ones in the file of answers.</p>' if more else ""
    return (
        "<table><thead><tr><th>count</th><th>latest first</th><th>answer</th><th>std. error</th>"
        f"<th>95 % interval</th></tr></thead><tbody>{rows}</tbody></table>{tail}"
    )
