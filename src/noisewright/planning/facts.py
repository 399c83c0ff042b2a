"""What is known of a plan or a release, with its words and units, for screens and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisewright.display import Fact, value_text
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.questions.statistics import PEOPLE

if TYPE_CHECKING:
    from noisewright.solution import BoundTold


_WORDS = {
    "queries": "answers",
    "size": "cells",
    "memory": "numbers of memory",
    "status": "how the search ended",
    "report_bytes": "one report",
    "certificate": "proved by",
    "seconds": "time of planning",
    "plan": "hash of the plan",
    "strategy_hash": "hash of what was measured",
    "release": "name of the release",
    "domain": "hash of the schema",
    "rmse": "root mean square error",
    "max": "largest standard error",
    "worst_rmse": "error at most, whatever the data",
    "class": "class of concepts",
    "alpha": "α",
    "beta": "β",
}
"""What facts are called by people, where that is not their name."""

_UNITS = {"worst_rmse": PEOPLE, "report_bytes": "bytes", "seconds": "s"}
"""In what facts are counted."""

_SYMBOLS = {"mu": "μ", "ratio": "ε", "epsilon": "ε", "delta": "δ"}
"""How figures of losses are written.

Of a Laplace loss the ratio of sensitivity to scale is its ε; of a Gaussian one it is recorded as μ.
"""


def facts(known: Mapping[str, object]) -> list[Fact]:
    """What is known of a plan or a release: one list for scripts, screens and pages."""
    return [
        Fact(
            name,
            value,
            _WORDS.get(name, name.replace("_", " ")),
            _UNITS.get(name, ""),
            _in_words(name, value),
        )
        for name, value in known.items()
    ]


def _in_words(name: str, value: object) -> object:
    """Promises, losses and bounds as people write them; None for what is said as it is."""
    if isinstance(value, Mapping):
        return _WRITERS[name](value) if name in _WRITERS else None
    if name == "seconds" and isinstance(value, float):
        return f"{value:.2g}"  # another run takes another time
    if name == "bounds" and isinstance(value, Sequence):
        return "; ".join(map(_bound_text, value))
    return None


def _loss_texts(spend: Mapping[str, Any]) -> list[str]:
    texts = []
    for loss in spend["losses"]:
        figures = [(symbol, loss[k]) for k, symbol in _SYMBOLS.items() if k in loss]
        text = ", ".join(f"{symbol} = {value_text(v)}" for symbol, v in figures)
        texts.append(f"{text} ({loss['loss']})")

    return texts


def _bound_text(bound: BoundTold) -> str:
    least = value_text(bound["lower_bound"])
    return f"{bound['class']}: {least} ({value_text(bound['ratio'])} ×)"


_WRITERS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "privacy": lambda stated: Privacy.from_dict(stated).text(),
    "spend": _loss_texts,
    "ledger": lambda note: None if note.get("recorded") else note.get("note"),
}
"""How a fact that is itself several is written, by its name."""
