"""Libraries that Great Expectations imports at once and hardly ever uses: loaded when it uses them.

Two of its expectations draw charts or test distributions; for them every process would import a
plotting library and a statistics library, a third of all that the import costs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

DEFERRED = ("altair", "scipy.stats")


class _Deferred(ModuleType):
    """Stands for a module until it is asked for something."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # The import system looks at the spec of every module that it finds.
        self.__spec__ = ModuleSpec(name, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def deferred_imports() -> Iterator[None]:
    """What is imported meanwhile gets stand-ins for what nobody has imported yet.

    Whoever imports those modules later gets the modules themselves.
    """
    for name in DEFERRED:
        sys.modules.setdefault(name, _Deferred(name))
    try:
        yield
    finally:
        for name in DEFERRED:
            if isinstance(sys.modules.get(name), _Deferred):
                del sys.modules[name]
