"""The registry of workloads that every test runs over, each with a plain, slow matrix."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np


def identity(n: int) -> np.ndarray:
    return np.array([[float(u == i) for u in range(n)] for i in range(n)])


def total(n: int) -> np.ndarray:
    return np.ones((1, n))


def prefix(n: int) -> np.ndarray:
    return np.array([[float(u <= i) for u in range(n)] for i in range(n)])


def ranges(n: int) -> np.ndarray:
    return np.array(
        [[float(a <= u <= b) for u in range(n)] for a in range(n) for b in range(a, n)]
    )


def marginals(sizes: tuple[int, ...], orders: tuple[int, ...]) -> np.ndarray:
    cells = list(product(*(range(n) for n in sizes)))
    rows = []
    for order in orders:
        for table in combinations(range(len(sizes)), order):
            for values in product(*(range(sizes[i]) for i in table)):
                wanted = dict(zip(table, values, strict=True))
                rows.append(
                    [float(all(c[i] == v for i, v in wanted.items())) for c in cells]
                )
    return np.array(rows)


def all_marginals(sizes: tuple[int, ...]) -> np.ndarray:
    cells = list(product(*(range(n) for n in sizes)))
    patterns = product(*(["*", *range(n)] for n in sizes))
    return np.array(
        [
            [
                float(all(p in ("*", v) for p, v in zip(pattern, c, strict=True)))
                for c in cells
            ]
            for pattern in patterns
        ]
    )


def parity(bits: int, degrees: tuple[int, ...]) -> np.ndarray:
    cells = list(product((0, 1), repeat=bits))
    return np.array(
        [
            [float((-1) ** sum(c[i] for i in chosen)) for c in cells]
            for degree in degrees
            for chosen in combinations(range(bits), degree)
        ]
    )


def conjunctions(bits: int, ways: int) -> np.ndarray:
    cells = list(product((0, 1), repeat=bits))
    sets = combinations(range(bits), ways)
    return np.array([[float(all(c[i] for i in own)) for c in cells] for own in sets])


def random(queries: int, cells: int, seed: int) -> np.ndarray:
    return (
        np.random.default_rng(seed).integers(0, 2, size=(queries, cells)).astype(float)
    )


REGISTRY: dict[str, np.ndarray] = {
    "identity:7": identity(7),
    "identity:1": identity(1),
    "total:5": total(5),
    "prefix:9": prefix(9),
    "prefix:1": prefix(1),
    "ranges:8": ranges(8),
    "ranges:11": ranges(11),
    "marginals:2^4:2": marginals((2,) * 4, (2,)),
    "marginals:2^4:<=3": marginals((2,) * 4, (0, 1, 2, 3)),
    "marginals:3x2x4:2": marginals((3, 2, 4), (2,)),
    "allmarginals:2^3": all_marginals((2,) * 3),
    "allmarginals:3x1x2": all_marginals((3, 1, 2)),
    "parity:4:<=2": parity(4, (0, 1, 2)),
    "parity:4:3": parity(4, (3,)),
    "conjunctions:4:2": conjunctions(4, 2),
    "conjunctions:5:3": conjunctions(5, 3),
    "random:6x8:3": random(6, 8, 3),
    "prefix:3*ranges:2*identity:2": np.kron(np.kron(prefix(3), ranges(2)), identity(2)),
    "prefix:6+total:6": np.concatenate([prefix(6), total(6)]),
    "2.5@prefix:4+identity:4": np.concatenate([2.5 * prefix(4), identity(4)]),
    "(prefix:2+identity:2)*prefix:3": np.kron(
        np.concatenate([prefix(2), identity(2)]), prefix(3)
    ),
    "0.5@(prefix:2*identity:3)": 0.5 * np.kron(prefix(2), identity(3)),
}
TEXTS = list(REGISTRY)


def matrix(text: str) -> np.ndarray:
    """The matrix that a registered text stands for."""
    return REGISTRY[text]
