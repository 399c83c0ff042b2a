"""[002]: factorization norms against the norm's p and the number of cells, with certificates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log

import numpy as np

from noisewright.norm.factorize import factorize
from noisewright.workload import workload as read
from reproductions.study import Drawing, Figure, Settings, Study, Value


def _norms(
    texts: Callable[[int], str], first: int, last: int
) -> Callable[[Study, Settings], None]:
    def compute(study: Study, settings: Settings) -> None:
        for bits in range(first, last - (2 if settings.quick else 0)):
            text = texts(bits)
            for norm in (2.0, 3.0, 4.0, 8.0, float("inf")):
                study.row(
                    {"workload": text, "n": 2**bits, "norm": norm},
                    partial(_norm, text, norm),
                )

    return compute


def _norm(text: str, norm: float) -> dict[str, Value]:
    """The norm with its certificate, and two closed bounds of [002] as p-means over queries."""
    factorization = factorize(read(text), norm=norm)
    workload = read(text)
    gram = np.asarray(workload.gram().dense(), dtype=np.float64)
    nuclear = np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None)).sum()
    schatten = nuclear / np.sqrt(len(gram) * workload.queries)
    result: dict[str, Value] = {
        "value": factorization.value,
        "lower bound": factorization.lower_bound,
        "Schatten bound": float(schatten),
    }
    if text.startswith("prefix"):
        root = np.cumprod([1.0, *((2 * j - 1) / (2 * j) for j in range(1, len(gram)))])
        result["square root"] = float((root**2).sum())

    return result


def _remarks_norms(study: Study) -> list[str]:
    gaps = [float(r["value"]) / float(r["lower bound"]) - 1 for r in study.rows]
    loose = [float(r["value"]) / float(r["Schatten bound"]) for r in study.rows]
    told = [
        f"certified to {max(gaps):.1e}",
        f"the Schatten bound is {min(loose):.4f} to {max(loose):.3f} times below",
    ]
    top = [
        (float(r["n"]), float(r["value"]))
        for r in study.rows
        if r["norm"] == float("inf")
    ]
    if len(top) > 1 and str(study.rows[0]["workload"]).startswith("prefix"):
        (a, x), (b, y) = min(top), max(top)
        told.append(
            f"γ2 grows by {(y - x) / log(b / a):.3f} for each e-fold of n; 1/π = 0.318"
        )

    return told


FIGURES = (
    Figure("prefix-lp", "[002] γ_(p) of prefix sums against n and p", ("workload", "norm"),
           _norms(lambda bits: f"prefix:{2**bits}", 3, 11), _remarks_norms,
           Drawing("n", "value", "norm", "", logarithmic=False)),
    Figure("parity-lp", "[002] γ_(p) of parities up to degree 3 against n and p",
           ("workload", "norm"), _norms(lambda bits: f"parity:{bits}:<=3", 4, 9),
           _remarks_norms, Drawing("n", "value", "norm", "", logarithmic=False)),
)  # fmt: skip
