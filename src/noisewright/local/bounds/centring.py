"""Symmetric matrices, and Gram matrices of queries less their means."""

from __future__ import annotations

from noisewright.arrays import FloatArray


def symmetrised(matrix: FloatArray) -> FloatArray:
    """The symmetric part: products are symmetric but for rounding."""
    return (matrix + matrix.T) / 2


def centred_at(gram: FloatArray, prior: FloatArray) -> FloatArray:
    """(I − π1ᵀ) M (I − 1πᵀ): the Gram matrix of W − Wπ1ᵀ."""
    mean = gram @ prior
    centred = gram - mean[:, None] - mean + float(prior @ mean)
    return symmetrised(centred)
