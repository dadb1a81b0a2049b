"""Libraries that Great Expectations imports at once and hardly ever uses: loaded when they are used.

Two of its expectations draw charts or test distributions; for them every process would import a
plotting library and a statistics library, a third of all that the import costs.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

DEFERRED = ("altair", "scipy.stats")


class Deferred(ModuleType):
    """Stands for a module until somebody asks it for something."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # The import system looks at the spec of every module that it finds.
        self.__spec__ = ModuleSpec(name, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)

    def _load(self) -> ModuleType:
        own = self.__name__
        if sys.modules.get(own) is self:
            del sys.modules[own]
        return import_module(own)


def defer_imports() -> None:
    """Puts stand-ins where nothing has been imported yet."""
    for name in DEFERRED:
        sys.modules.setdefault(name, Deferred(name))
