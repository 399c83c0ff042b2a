"""Rooms whose name is also a public function: `nw.workload("prefix:64")`, `nw.report(release)`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType


def make_callable(name: str, function: Callable[..., object]) -> None:
    """Let the module of that name be called like `function`.

    Importing a room binds its module to the package's attribute of the same name, where people
    expect the function.
    """

    class CallableModule(ModuleType):
        def __call__(self, *args: object, **options: object) -> object:
            return function(*args, **options)

    sys.modules[name].__class__ = CallableModule
