"""Block strategies as matrices over all cells: the slow, obvious way."""

from __future__ import annotations

import numpy as np

from noisewright.central.blocks.strategy import BlockStrategy


def whole_matrix(strategy: BlockStrategy) -> np.ndarray:
    """All measurements over all cells, every row in units of its noise."""
    rows = []
    for block in strategy.blocks:
        full = np.ones((1, 1))
        by_axis = dict(zip(block.attributes, block.factors, strict=True))
        for i, n in enumerate(strategy.sizes):
            full = np.kron(full, by_axis.get(i, np.ones((1, n))))
        rows.append(np.asarray(block.scales).reshape(-1, 1) * full / block.noise)
    return np.concatenate(rows)
