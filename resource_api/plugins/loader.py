"""Finds type and provider files on the module path and executes them, each in isolation.

Files are found by path and never imported by name: a top-level package called ``types`` would break Python.
A file that raises, exits, prints or edits ``sys.path`` on import disables itself only. What the values in the
files mean is the registry's business. Paths are texts here: importing pathlib takes longer than finding the files.
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

from resource_api.model.values.errors import DefinitionError, reason
from resource_api.system import process_guard


def execute(path: str, name: str) -> ModuleType:
    """Execute a file as the module ``name`` and give it.

    Raises ``DefinitionError`` naming the file, the line and the reason when it raises, exits, prints, or changes
    ``sys.path``; other changes of the process are undone. The module stays in ``sys.modules``, so that tracebacks and
    pickles find it.
    """
    module = ModuleType(name)
    module.__file__ = path
    search_path, moved = list(sys.path), False
    sys.modules[name] = module
    printed = _Printed()
    try:
        code = SourceFileLoader(name, path).get_code(name)
        with process_guard.protected():
            sys.stdout = printed
            try:
                exec(code or "", module.__dict__)  # noqa: S102 - executing a module file is what a loader does
            finally:
                moved = sys.path != search_path
    except KeyboardInterrupt:
        sys.modules.pop(name, None)
        raise
    except BaseException as error:
        sys.modules.pop(name, None)
        msg = f"{path}:{line_of(error, path)}: {_why(error)}"
        raise DefinitionError(msg) from error
    if printed.wrote or moved:
        sys.modules.pop(name, None)
        msg = f"{path}: {'prints' if printed.wrote else 'changes sys.path'} while it is loaded; a module file must not"
        raise DefinitionError(msg)
    return module


class _Printed:
    """Stands in for stdout while a file is executed, to notice that it prints."""

    encoding = "utf-8"
    wrote = False

    def write(self, text: str) -> int:
        self.wrote = self.wrote or bool(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept."""

    def isatty(self) -> bool:
        return False


def line_of(error: BaseException, file: str) -> int:
    """Give the line of ``file`` that an exception came from, 1 when it came from nowhere in it."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno or 1
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _why(error: BaseException) -> str:
    if isinstance(error, DefinitionError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"exits while it is loaded (code {error.code})"
    text = reason(error)
    return text if text.startswith(type(error).__name__) else f"{type(error).__name__}: {text}"
