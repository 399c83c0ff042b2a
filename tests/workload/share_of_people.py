"""A toy kind of question: which share of all people is in each cell of a table.

Its only purpose is to show that a kind of question is one class and one line of the parser.
"""

from __future__ import annotations

import numpy as np

from noisewright.workload.questions.entries import KINDS
from noisewright.workload.questions.statistics import Column, Statistic


class Shares(Statistic):
    """Counts over their own total, as if that were exact."""

    kind = "share"

    def derive(self, parts, widths):
        (counts,) = parts
        whole = max(1.0, float(counts.values.sum()))
        widths = widths.each, widths.all
        column = Column.around(counts.values / whole, counts.std / whole, *widths)
        return Column(
            column.answers, np.full(len(counts.std), np.nan), column.each, column.all
        )


def read(kind, entry, domain):
    (counts,) = KINDS["marginal"]("marginal", {"marginal": entry[kind]}, domain)
    return [Shares(domain, f"share of {counts.name}", counts.table)]
