"""Workloads as plain values and arrays, for files: structure by parameters, matrices as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noisewright.arrays import Array
from noisewright.domain import Domain
from noisewright.errors import FileFormatError
from noisewright.workload.base import Workload
from noisewright.workload.forms.text import workload as parse
from noisewright.workload.kinds.algebra import Kron, Stack, Weighted
from noisewright.workload.kinds.atoms import Explicit, Random
from noisewright.workload.kinds.conjunctions import Conjunctions
from noisewright.workload.kinds.marginals import AllMarginals, Marginals, OnAttributes
from noisewright.workload.questions.spec import Questions, questions

Arrays = dict[str, Array]


def encode_workload(workload: Workload, arrays: Arrays) -> Any:
    """Plain values for JSON; matrices go into `arrays` under names that the values refer to."""
    if isinstance(workload, Questions):
        return {"questions": workload.spec, "domain": workload.domain.to_dict()}
    if isinstance(workload, Explicit) and not isinstance(workload, Random):
        return _encode_matrix(workload, arrays)
    if isinstance(workload, Kron) and not isinstance(workload, AllMarginals):
        return {"kron": [encode_workload(f, arrays) for f in workload.factors]}
    if isinstance(workload, Stack):
        return {"stack": [encode_workload(part, arrays) for part in workload.parts]}
    if isinstance(workload, Weighted):
        return {
            "weight": workload.weight,
            "inner": encode_workload(workload.inner, arrays),
        }
    if isinstance(workload, OnAttributes):
        return {
            "sizes": list(workload.sizes),
            "attributes": list(workload.attributes),
            "inner": encode_workload(workload.inner, arrays),
        }
    if isinstance(workload, Marginals) and not isinstance(workload, Conjunctions):
        return {
            "bases": [encode_workload(base, arrays) for base in workload.bases],
            "tables": [list(table) for table in workload.tables],
            "weights": list(workload.weights),
        }

    return workload.text()


def _encode_matrix(workload: Explicit, arrays: Arrays) -> Any:
    name = f"workload.{len(arrays)}"
    names = None if workload.names is None else list(workload.names)
    if workload.sparse is None:
        arrays[name] = workload.matrix
        return {"matrix": name, "names": names}

    sparse = workload.sparse
    for part in ("data", "indices", "indptr"):
        arrays[f"{name}.{part}"] = np.asarray(getattr(sparse, part))

    return {"sparse": name, "shape": list(workload.shape), "names": names}


def decode_workload(stored: Any, arrays: Mapping[str, Array]) -> Workload:
    """Rebuild what `encode_workload` gave."""
    if isinstance(stored, str):
        return parse(stored)
    if not isinstance(stored, dict):
        raise FileFormatError("the stored workload is not understood; plan again")
    if "questions" in stored:
        return questions(stored["questions"], Domain.from_dict(stored["domain"]))
    if "matrix" in stored or "sparse" in stored:
        return _decode_matrix(stored, arrays)
    if "kron" in stored:
        return Kron(tuple(decode_workload(f, arrays) for f in stored["kron"]))
    if "stack" in stored:
        return Stack(tuple(decode_workload(part, arrays) for part in stored["stack"]))
    if "weight" in stored:
        return Weighted(stored["weight"], decode_workload(stored["inner"], arrays))

    if "attributes" in stored:
        sizes = tuple(stored["sizes"])
        attributes = tuple(stored["attributes"])
        return OnAttributes(sizes, attributes, decode_workload(stored["inner"], arrays))

    if "bases" in stored:
        return Marginals(
            tuple(decode_workload(base, arrays) for base in stored["bases"]),
            tuple(tuple(table) for table in stored["tables"]),
            tuple(stored["weights"]),
        )

    raise FileFormatError("the stored workload is of a kind this version does not know")


def _decode_matrix(stored: Mapping[str, Any], arrays: Mapping[str, Array]) -> Explicit:
    from scipy.sparse import csr_array

    names = None if stored["names"] is None else tuple(stored["names"])
    if "matrix" in stored:
        return Explicit(arrays[stored["matrix"]], names)

    parts = tuple(
        arrays[f"{stored['sparse']}.{part}"] for part in ("data", "indices", "indptr")
    )
    return Explicit(csr_array(parts, shape=tuple(stored["shape"])), names)
