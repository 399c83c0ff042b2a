"""Plan files: safetensors with a JSON header. A damaged or foreign file is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright import __version__
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.block_mechanism import BlockMechanism
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.problem import Proposal
from noisewright.domain import Domain
from noisewright.errors import FileFormatError, InvalidParameter, refusing
from noisewright.files import replacing
from noisewright.planning.fields import stored_number, stored_positive, stored_sizes, stored_text
from noisewright.privacy.budget import Privacy
from noisewright.workload.base import Array
from noisewright.workload.stored import decode_workload, encode_workload

if TYPE_CHECKING:
    from noisewright.planning.central import CentralPlan
    from noisewright.planning.local import LocalPlan

FORMAT = "noisewright-plan"
FORMAT_VERSION = 1

Reader = Callable[[Mapping[str, Any], Mapping[str, Array]], Any]
LOCAL_PREFIX = "strategy."
"""Of the names of arrays that belong to a local strategy."""

READERS: dict[str, Reader] = {}
"""How the plan of each model is rebuilt from its header and arrays; models add themselves."""


def write_plan(path: str | Path, model: str, header: Mapping[str, Any], arrays: Any) -> None:
    """Write a plan file, whole or not at all."""
    from safetensors.numpy import save

    document = {"format": FORMAT, "format_version": FORMAT_VERSION, "version": __version__}
    text = json.dumps({**document, "model": model, **header}, sort_keys=True)
    # Contiguous, for the format stores raw memory; one array at least, for it refuses none.
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    tensors.setdefault("none", np.zeros(1, dtype=np.int64))
    digest = _digest(text, tensors)
    content = save(tensors, metadata={"plan": text, "digest": digest})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def load(path: str | Path) -> Any:
    """Read a plan file of any model."""
    header, arrays = _read(Path(path))
    reader = READERS.get(str(header.get("model")))
    if reader is None:
        raise FileFormatError(f"{path}: holds a plan of an unknown model; update noisewright")
    with refusing(f"{path}: the plan is incomplete or damaged; plan again"):
        return reader(header, arrays)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise FileFormatError(f"{path}: there is no such file; check the path") from None
    except (SafetensorError, OSError, ValueError):
        raise FileFormatError(
            f"{path}: is truncated, corrupt or no plan file; make the plan again"
        ) from None
    if "plan" not in metadata:
        raise FileFormatError(f"{path}: is not a noisewright plan; give a file saved by a plan")
    if metadata.get("digest") != _digest(metadata["plan"], arrays):
        raise FileFormatError(f"{path}: was damaged or edited; make the plan again")
    with refusing(f"{path}: the header is damaged; plan again"):
        header = dict(json.loads(metadata["plan"]))
    if header.get("format") != FORMAT or header.get("format_version") != FORMAT_VERSION:
        raise FileFormatError(
            f"{path}: has format version {header.get('format_version')}, this release reads "
            f"{FORMAT_VERSION}; use the release that wrote it ({header.get('version')})"
        )
    return header, arrays


def _digest(text: str, arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def strategy_hash(strategy: BlockStrategy) -> str:
    """A digest of exactly what is measured."""
    arrays: dict[str, Array] = {}
    return _digest(json.dumps(_encode_strategy(strategy, arrays), sort_keys=True), arrays)


def _encode_strategy(strategy: BlockStrategy, arrays: dict[str, Array]) -> dict[str, Any]:
    """Blocks by parameters; a factor shared by many blocks is stored once."""
    known: dict[bytes, str] = {}
    blocks = []
    for block in strategy.blocks:
        held = [*block.factors, *([] if block.weights is None else [block.weights])]
        names = []
        for factor in held:
            key = str(factor.shape).encode() + factor.tobytes()
            if key not in known:
                known[key] = f"factor.{len(known)}"
                arrays[known[key]] = factor
            names.append(known[key])
        blocks.append([list(block.attributes), names, block.noise, block.multiplier])
    return {"sizes": list(strategy.sizes), "blocks": blocks, "separate": strategy.separate}


def _decode_strategy(stored: Mapping[str, Any], arrays: Mapping[str, Array]) -> BlockStrategy:
    blocks = []
    for attributes, names, noise, multiplier in stored["blocks"]:
        held, axes = [arrays[name] for name in names], stored_sizes(attributes)
        if any(factor.ndim != 2 or 0 in factor.shape for factor in held[: len(axes)]):
            raise FileFormatError("a factor of the plan is no matrix; plan again")
        weights = held[len(axes)] if len(held) == len(axes) + 1 else None
        if len(held) - len(axes) not in (0, 1) or type(noise) not in (int, float):
            raise FileFormatError("a block of the plan does not fit its factors; plan again")
        blocks.append(Block(axes, tuple(held[: len(axes)]), noise, multiplier, weights))
    if not blocks or type(stored["separate"]) is not bool:
        raise FileFormatError("the plan measures nothing; plan again")
    return BlockStrategy(stored_sizes(stored["sizes"]), tuple(blocks), stored["separate"])


def save_central(plan: CentralPlan, path: str | Path) -> None:
    """Write a central plan."""
    arrays: dict[str, Array] = {}
    header = {
        "workload": encode_workload(plan.workload, arrays),
        "domain": None if plan.domain is None else plan.domain.to_dict(),
        "sizes": list(plan.sizes),
        "privacy": plan.privacy.to_dict(),
        "mechanism": plan.mechanism,
        "norm": "inf" if plan.norm == np.inf else plan.norm,
        "strategy": _encode_strategy(plan.strategy, arrays),
        "unit_value": plan.planned.value,
        "unit_bound": plan.planned.bound,
        "certificate": plan.planned.certificate,
        "status": plan.planned.status,
        "bound_neighbours": plan.planned.neighbours,
        "seconds": plan.seconds,
    }
    write_plan(path, "central", header, arrays)


def _load_central(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> CentralPlan:
    from noisewright.planning.central import CentralPlan

    privacy = Privacy.from_dict(header["privacy"])
    strategy = _decode_strategy(header["strategy"], arrays)
    planned = Proposal(
        BlockMechanism(strategy, privacy),
        stored_positive(header, "unit_value"),
        None if header["unit_bound"] is None else stored_number(header, "unit_bound"),
        stored_text(header, "certificate"),
        stored_text(header, "status"),
        stored_text(header, "bound_neighbours"),
    )
    norm = inf if header["norm"] == "inf" else stored_number(header, "norm", 1.0)
    plan = CentralPlan(
        workload=decode_workload(header["workload"], arrays),
        domain=None if header["domain"] is None else Domain.from_dict(header["domain"]),
        sizes=stored_sizes(header["sizes"]),
        privacy=privacy,
        mechanism=stored_text(header, "mechanism"),
        norm=norm,
        planned=planned,
        seconds=stored_number(header, "seconds"),
    )
    cells = {plan.workload.size, prod(plan.sizes), prod(strategy.sizes)}
    cells |= set() if plan.domain is None else {plan.domain.size}
    if len(cells) > 1:
        raise FileFormatError("the plan's parts are over different cells; plan again")
    _ = plan.law  # refuses budgets for which no noise can be drawn
    return plan


READERS["central"] = _load_central


def _load_local(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> LocalPlan:
    from noisewright.local.analysis.analysis import check_alpha
    from noisewright.local.choose.cost import check_people
    from noisewright.local.storage import unpack
    from noisewright.planning.local import LocalPlan

    own = {n.removeprefix(LOCAL_PREFIX): a for n, a in arrays.items() if n.startswith(LOCAL_PREFIX)}
    people, alpha = header.get("people"), header.get("alpha")
    plan = LocalPlan(
        workload=decode_workload(header["workload"], arrays),
        domain=None if header["domain"] is None else Domain.from_dict(header["domain"]),
        mechanism=stored_text(header, "mechanism"),
        strategy=unpack(header["strategy"], own),
        seconds=stored_number(header, "seconds"),
        runners_up=tuple(_runner_up(row) for row in header["runners_up"]),
        people=None if people is None else check_people(people),
        alpha=None if alpha is None else check_alpha(stored_number(header, "alpha")),
    )
    # Files once stated a promise beside the strategy: a second truth, which may be no truth.
    stated = header.get("privacy")
    if stated is not None and Privacy.from_dict(stated) != plan.privacy:
        raise InvalidParameter(
            "privacy", stated, f"is not what the strategy keeps ({plan.privacy.text()})"
        )
    return plan


def _runner_up(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "mechanism": stored_text(row, "mechanism"),
        "sample_complexity": stored_number(row, "sample_complexity", most=inf),
    }


READERS["local"] = _load_local
