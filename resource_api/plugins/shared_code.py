"""Code that the files of one directory of the module path share: ``from lib import dns_client``.

``lib/`` lies beside ``types/`` and ``providers/``. In the files of that directory, and in the modules of its ``lib/``,
the name ``lib`` means this ``lib/`` and nothing else. Such files have an ``__import__`` of their own among their
built-in names; ``sys.path``, ``sys.meta_path`` and every name in ``sys.modules`` that other code uses stay as they are.
Each module is executed once for a registry, at its first import; another registry executes it anew.
"""

from __future__ import annotations

import builtins
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import DefinitionError, MissingModule, nearest
from resource_api.plugins.loader import LOCK, execute_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.plugins.loader import ReadCode


def builtins_with_lib(directory: str, read: ReadCode | None) -> dict[str, Any]:
    """Return the built-in names for files of a directory of the module path; ``read`` as for ``execute_in``."""
    return _Library(directory, read).builtins


class _Library:
    """The modules of one ``lib/``. A name is dotted and relative to it: ``dns.client``; empty for ``lib`` itself."""

    def __init__(self, directory: str, read: ReadCode | None) -> None:
        self._read = read
        self._root = f"{directory}/lib"
        #: The name of ``lib`` in ``sys.modules``, different for each directory.
        self._package = f"resource_api.lib@{directory}"
        self._modules: dict[str, ModuleType] = {}
        self._loading: set[str] = set()
        self.builtins = {**vars(builtins), "__import__": self._import}

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the parameters of __import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - the same
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Do what ``builtins.__import__`` does. Raise ``DefinitionError`` for what ``lib/`` does not define."""
        wanted = self._wanted(name, (globals or {}).get("__package__") or "", level)
        if wanted is None:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        # Two threads that import one module at once execute it once.
        with LOCK:
            module = self._module(wanted)
            for each in fromlist or ():
                self._require(wanted, module, each)
            return module if fromlist or level else self._module("")

    def _wanted(self, name: str, package: str, level: int) -> str | None:
        """Return the name of the module that an import statement means; None where it is not in ``lib/``."""
        if level == 0:
            head, _, rest = name.partition(".")
            return rest if head == "lib" else None
        if not package.startswith(self._package):
            return None
        around = package[len(self._package) :].split(".")[1:]
        if level > len(around) + 1:
            return None
        return ".".join([*around[: len(around) + 1 - level], *filter(None, [name])])

    def _require(self, name: str, module: ModuleType, attribute: str) -> None:
        """Check that ``from MODULE import ATTRIBUTE`` finds it, and execute it if it is a module."""
        if attribute == "*" or hasattr(module, attribute):
            return
        if hasattr(module, "__path__"):
            self._module(f"{name}.{attribute}" if name else attribute)
            return
        hint = nearest(attribute, (known for known in vars(module) if not known.startswith("_")))
        msg = f"{module.__file__} defines no '{attribute}'" + (f"; {hint}" if hint else "")
        if name in self._loading:
            msg = f"{module.__file__} has not defined '{attribute}' yet: its modules import each other in a circle"
        raise DefinitionError(msg)

    def _module(self, name: str) -> ModuleType:
        """Return a module, executed at its first import, after the packages around it."""
        if name and name not in self._modules:
            self._module(name.rpartition(".")[0])
        if name not in self._modules:
            self._load(name)
        return self._modules[name]

    def _load(self, name: str) -> None:
        base = f"{self._root}/{name.replace('.', '/')}".rstrip("/")
        is_package = os.path.isdir(base)
        path = f"{base}/__init__.py" if is_package else f"{base}.py"
        has_file = os.path.isfile(path)
        if not (has_file or is_package):
            raise MissingModule(self._unknown(name))
        module = ModuleType(f"{self._package}.{name}" if name else self._package)
        module.__package__ = module.__name__ if is_package else module.__name__.rpartition(".")[0]
        if is_package:
            module.__path__ = [base]
        self._modules[name] = module
        if has_file:
            self._execute(name, module, path)
        parent, _, last = name.rpartition(".")
        if name:
            setattr(self._modules[parent], last, module)

    def _execute(self, name: str, module: ModuleType, path: str) -> None:
        self._loading.add(name)
        try:
            execute_in(module, path, self.builtins, self._read)
        except BaseException:
            del self._modules[name]
            raise
        finally:
            self._loading.discard(name)

    def _unknown(self, name: str) -> str:
        if not name:
            return f"imports from 'lib', but there is no directory {self._root}"
        parent, _, last = name.rpartition(".")
        directory = f"{self._root}/{parent.replace('.', '/')}".rstrip("/")
        try:
            known = [entry.removesuffix(".py") for entry in os.listdir(directory)]
        except OSError:
            known = []
        hint = nearest(last, (each for each in known if not each.startswith("_")))
        return f"no module 'lib.{name}'; expected {self._root}/{name.replace('.', '/')}.py" + (
            f"; {hint}" if hint else ""
        )
