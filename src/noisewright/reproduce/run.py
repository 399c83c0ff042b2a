"""Make a figure: its rows, its chart, and what agrees with the paper and what does not."""

from __future__ import annotations

from typing import Any

from noisewright.errors import unknown_name
from noisewright.files import write_text
from noisewright.report.comparison import write_chart
from noisewright.reproduce.figures import FIGURES, Drawing, Settings
from noisewright.reproduce.study import Row, Study


def reproduce(name: str, settings: Settings) -> dict[str, Any]:
    """Write NAME.csv, NAME.svg and NAME.txt; rows that are in the folder already are kept."""
    if name not in FIGURES:
        raise unknown_name("figure", name, "is no figure that is made here", list(FIGURES))
    figure = FIGURES[name]
    settings.folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-quick" if settings.quick else name
    files = {kind: settings.folder / f"{stem}.{kind}" for kind in ("csv", "svg", "txt")}
    study = Study(files["csv"], figure.keys)
    figure.compute(study, settings)
    write_chart(_chart(study.rows, figure.drawing, figure.summary), str(files["svg"]))
    remarks = figure.remarks(study)
    write_text(files["txt"], "".join(f"{remark}\n" for remark in remarks))
    paths = {kind: str(path) for kind, path in files.items()}
    return {"figure": name, "rows": len(study.rows), "remarks": remarks, "files": paths}


def _chart(rows: list[Row], drawing: Drawing, title: str) -> Any:
    import altair as alt

    known = [row for row in rows if row.get(drawing.y, "") not in ("", 0.0)]
    points = [{**row, drawing.lines: str(row[drawing.lines])} for row in known]
    numeric = all(isinstance(row[drawing.x], float | int) for row in known)
    kind = "log" if drawing.logarithmic else "linear"
    across = alt.Scale(type="log", base=2, nice=False) if numeric else alt.Undefined
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{drawing.x}:{'Q' if numeric else 'N'}", scale=across),
            y=alt.Y(f"{drawing.y}:Q", scale=alt.Scale(type=kind, zero=False, nice=False)),
            color=alt.Color(f"{drawing.lines}:N", scale=alt.Scale(scheme="tableau20")),
        )
        .properties(width=300, height=220, title="" if drawing.panels else title)
    )
    if not drawing.panels:
        return chart
    faceted = chart.facet(alt.Facet(f"{drawing.panels}:N", title=None), columns=3)
    return faceted.resolve_scale(y="independent").properties(title=title)
