"""Executes one file of the module path, isolated from the rest of the process.

A file that raises, exits, prints or changes ``sys.path`` while it is loaded disables itself only. What the file must
define is checked in ``definitions``.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.machinery import SourceFileLoader
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.errors import (
    PLUGIN_FILE,
    DefinitionError,
    MissingModule,
    UntrustedCode,
    nearest,
    reason,
)
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    #: Path → the bytes of the file, and its status.
    ReadCode = Callable[[str], tuple[bytes, os.stat_result]]


#: Held while a file is executed: ``sys.stdout`` is replaced meanwhile, and a function of a provider may import code of
#: ``lib/`` in any thread.
LOCK: Final = RLock()
#: The present state of a change as it would be called if that were no word of Python.
_IS: Final = regex(r"\.is\b")
#: The directories of a module path.
_KINDS: Final = {"types", "providers", "components", "policies", "lib"}


def execute_in(module: ModuleType, path: str, builtins: Mapping[str, Any], read: ReadCode | None) -> None:
    """Execute a file in a new module; ``builtins`` replaces the built-in names of Python for this module.

    The module stays in ``sys.modules`` under its name, where tracebacks, pickles and dataclasses look it up.
    ``read`` returns what a file of code holds and its status, and raises ``UntrustedCode`` where others could have
    changed it; with None the file is trusted.
    Raise ``DefinitionError`` with the file, the line and the reason when it raises, exits, prints, or changes
    ``sys.path``, of the kind ``MissingModule`` for an import; other changes of the process are undone.
    """
    module.__file__ = path
    module.__dict__[PLUGIN_FILE] = _relative(path)
    module.__dict__["__builtins__"] = builtins
    sys.modules[module.__name__] = module
    try:
        with LOCK:
            _run(module, path, SourceFileLoader if read is None else partial(_CheckedLoader, read))
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise


def _run(module: ModuleType, path: str, loader: Callable[[str, str], SourceFileLoader]) -> None:
    search_path, path_changed = list(sys.path), False
    stdout, before = _WriteDetector(), sys.stdout
    try:
        code = loader(module.__name__, path).get_code(module.__name__)
        with process_guard.protected():
            sys.stdout = stdout
            try:
                exec(code or "", module.__dict__)  # noqa: S102 - executing a module file is what a loader does
            finally:
                path_changed = sys.path != search_path
                sys.stdout = before
    except (KeyboardInterrupt, UntrustedCode):
        raise
    except BaseException as error:
        from resource_api.manifest.python_positions import raised_at, source

        kind = MissingModule if isinstance(error, (ImportError, MissingModule)) else DefinitionError
        found = kind(f"{path}:{line_of(error, path)}: {_describe(error)}{_import_hint(error, path)}")
        found.place = path, *raised_at(error, path, source(path))
        raise found from error
    if stdout.written or path_changed:
        what = "prints" if stdout.written else "changes sys.path"
        msg = f"{path}: {what} while it is loaded; a module file must not"
        raise DefinitionError(msg)


def _root(path: str) -> str:
    """Return the directory of a module path that a file belongs to."""
    relative = _relative(path)
    return path[: -len(relative) - 1]


def _relative(path: str) -> str:
    """Return the path of a file from its directory of a module path on: ``providers/dns.py``."""
    parts = path.split("/")
    kinds = [number for number, part in enumerate(parts[:-1]) if part in _KINDS]
    return "/".join(parts[kinds[-1] :] if kinds else parts[-1:])


class _CheckedLoader(SourceFileLoader):
    """Loads a file, or its bytecode, only from bytes that no other user could have changed."""

    def __init__(self, read: ReadCode, name: str, path: str) -> None:
        """Read the file with ``read``. Raise ``UntrustedCode``, ``OSError``."""
        super().__init__(name, path)
        self._read = read
        self._source, self._status = read(path)

    def path_stats(self, path: str) -> Mapping[str, Any]:  # noqa: ARG002 - there is one file
        """Return the time and size of the file that has been read."""
        return {"mtime": self._status.st_mtime, "size": self._status.st_size}

    def get_data(self, path: str) -> bytes:
        """Return what has been read, or the bytecode. Raise ``OSError`` for bytecode that cannot be trusted either."""
        if path == self.path:
            return self._source
        try:
            return self._read(path)[0]
        except UntrustedCode as error:
            raise PermissionError(str(error)) from error


class _WriteDetector:
    """Replaces stdout while a file is executed, to detect that it prints; other threads print as before."""

    encoding = "utf-8"
    written = False

    def __init__(self) -> None:
        self._thread, self._stdout = get_ident(), sys.stdout

    def write(self, text: str) -> int:
        if get_ident() != self._thread:
            return self._stdout.write(text)
        self.written = self.written or bool(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def isatty(self) -> bool:
        return False


def line_of(error: BaseException, file: str) -> int:
    """Return the line of ``file`` that an exception came from, 1 when no frame of its traceback is in the file."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno or 1
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _import_hint(error: BaseException, path: str) -> str:
    """Return how an import is written that a file of a module path has written otherwise; empty if it is not known."""
    if type(error) is ModuleNotFoundError and error.name:
        directory, name = _root(path), error.name
        if name.startswith("resource_api.") and name.split(".")[1] in _KINDS:
            return "; a file imports modules of lib/ as 'from lib import NAME', and nothing relative to itself"
        if os.path.exists(f"{directory}/lib/{name}.py"):
            return f"; write 'from lib import {name}'"
    if type(error) is ImportError and error.name in ("types", "providers"):
        return "; types and providers cannot import each other: code that several need is in lib/"
    if type(error) is ImportError and error.name == "resource_api":
        hint = nearest(str(error).partition("'")[2].partition("'")[0], sys.modules[error.name].__all__)
        return f"; {hint}" if hint else ""
    return ""


def _describe(error: BaseException) -> str:
    if isinstance(error, DefinitionError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"exits while it is loaded (code {error.code})"
    text = reason(error, with_origin=False)
    if isinstance(error, SyntaxError) and ".is" in (error.text or "") and _IS.search(error.text or ""):
        text += "; 'is' is a word of Python: write .is_"
    return text if text.startswith(type(error).__name__) else f"{type(error).__name__}: {text}"
