"""No curator: each person randomises their own report; the collector learns the workload."""

import importlib

_HOMES = {
    name: f"noisewright.local.bounds.people.{home}"
    for home, names in {
        "hard_tasks": "hard_instance hard_learning hard_realizable hard_refutation",
        "population": "assouad_bound van_trees_bound",
        "tasks": "marginal_people parity_people selection_people threshold_people",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'noisewright.local' has no attribute {name!r}")
