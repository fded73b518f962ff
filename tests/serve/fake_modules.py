"""Stand-ins for packages that are not installed, and the adapters that import them."""

import importlib
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def imported(adapter: str, modules: Mapping[str, Mapping[str, Any]]) -> Iterator[Any]:
    """Yield a module of `jaxgym.serve.trainers`, imported with stand-ins for other modules, by name and content."""
    name = f"jaxgym.serve.trainers.{adapter}"
    with pytest.MonkeyPatch.context() as patch:
        for module, content in modules.items():
            parts = module.split(".")
            for depth in range(1, len(parts) + 1):
                parent = ".".join(parts[:depth])
                if not isinstance(sys.modules.get(parent), _Fake):
                    patch.setitem(sys.modules, parent, _Fake(parent))
            sys.modules[module].__dict__.update(content)
        patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module(name)
        del sys.modules[name]


class _Fake(types.ModuleType):
    pass
