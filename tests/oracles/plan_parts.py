"""Files taken apart and put together again with a digest that fits, as a forger would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from noisewright.container import _digest


def read_parts(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content of a file's header as plain values, and its arrays."""
    data = Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    text = json.loads(data[8 : 8 + length])["__metadata__"]["noisewright"]
    arrays = load(data)
    arrays.pop("", None)
    return json.loads(text)["content"], arrays


def write_parts(path: str | Path, content: Any, arrays: dict[str, Any]) -> None:
    """A file with this content, whatever it is, and a digest that says nothing was edited."""
    from noisewright import __version__
    from noisewright.container import FORMAT_VERSION

    envelope = {
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "content": content,
    }
    text = json.dumps(envelope)
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    tensors = tensors or {"": np.zeros(1, dtype=np.int8)}
    digest = _digest(text, tensors)
    Path(path).write_bytes(
        save(tensors, metadata={"noisewright": text, "digest": digest})
    )
