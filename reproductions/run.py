"""Make a figure: its rows, its chart, and what agrees with the paper and what does not."""

from __future__ import annotations

from typing import Any

from noisewright.errors import unknown_name
from noisewright.files import write_text
from noisewright.report.charts import styled_chart, write_chart
from reproductions import (
    geometry_figures,
    learning_figures,
    local_figures,
    norm_figures,
)
from reproductions.study import Drawing, Row, Settings, Study

FIGURES = {
    figure.name: figure
    for paper in (local_figures, norm_figures, geometry_figures, learning_figures)
    for figure in paper.FIGURES
}


def reproduce(name: str, settings: Settings) -> dict[str, Any]:
    """Write NAME.csv, NAME.svg and NAME.txt; rows that are in the folder already are kept."""
    if name not in FIGURES:
        raise unknown_name(
            "figure", name, "is no figure that is made here", list(FIGURES)
        )

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
    points = [{**row, **_styled(str(row[drawing.lines]))} for row in known]
    numeric = all(isinstance(row[drawing.x], float | int) for row in known)
    kind = "log" if drawing.logarithmic else "linear"
    across = alt.Scale(type="log", base=2, nice=False) if numeric else alt.Undefined
    places = sorted({float(row[drawing.x]) for row in known}) if numeric else []
    ticks = (
        alt.Axis(format=",~g", values=places[:: -(-len(places) // 8)])
        if numeric
        else alt.Axis()
    )
    small = max((float(row[drawing.y]) for row in known), default=1.0) < 10
    names = list(dict.fromkeys(str(point["line"]) for point in points))
    colours = [
        _COLOURS.get(name, _OTHERS[k % len(_OTHERS)]) for k, name in enumerate(names)
    ]
    named = {_MEANING[str(point["source"])] for point in points} - {""}
    headed = alt.TitleParams(title, subtitle="; ".join(sorted(named)), anchor="start")
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=alt.OverlayMarkDef(size=22))
        .encode(
            x=alt.X(f"{drawing.x}:{'Q' if numeric else 'N'}", scale=across, axis=ticks),
            y=alt.Y(
                f"{drawing.y}:Q",
                scale=alt.Scale(type=kind, zero=False, nice=False),
                axis=alt.Axis(format="~g" if small else "~s", tickCount=5),
            ),
            color=alt.Color(
                "line:N",
                title=None,
                scale=alt.Scale(domain=names, range=colours),
                sort=names,
                legend=alt.Legend(labelLimit=0),
            ),
            strokeDash=alt.StrokeDash(
                "source:N",
                legend=None,
                scale=alt.Scale(domain=list(_DASHES), range=list(_DASHES.values())),
            ),
        )
        .properties(
            width=300, height=220, **({} if drawing.panels else {"title": headed})
        )
    )
    if not drawing.panels:
        return styled_chart(chart, "white")

    faceted = chart.facet(
        alt.Facet(f"{drawing.panels}:N", title=None, sort=None), columns=3
    )
    return styled_chart(
        faceted.resolve_scale(y="independent")
        .resolve_axis(x="independent")
        .properties(title=headed),
        "white",
    )


_DASHES = {"ours": [1, 0], "the paper's own": [5, 3], "bound": [2, 2]}
_MEANING = {
    "ours": "",
    "the paper's own": "dashed: the paper's own",
    "bound": "dotted: bounds",
}
_COLOURS = {
    "optimised": "#2158b8",
    "lower bound": "#1b2330",
    "lower bound of the paper": "#9aa6b6",
}
_OTHERS = (
    "#b4530f",
    "#17803a",
    "#8a3ab9",
    "#c0397f",
    "#8c6d1f",
    "#3a8f9e",
    "#d0632b",
    "#6b7685",
)


def _styled(name: str) -> dict[str, str]:
    """A line's own name and whose it is."""
    if name.startswith("lower bound"):
        return {"line": name, "source": "bound"}
    own = name.removesuffix(" (paper)")
    return {"line": own, "source": "ours" if own == name else "the paper's own"}
