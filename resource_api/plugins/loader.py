"""Load and check the definitions in files of the module path: types, providers, components and policies.

A file that raises, exits, prints or changes ``sys.path`` while it is loaded disables itself only. In the files of a
directory and of its ``lib/``, the name ``lib`` means this ``lib/``: ``from lib import dns_client``. For that they have
an ``__import__`` of their own; ``sys.path``, ``sys.meta_path`` and every name in ``sys.modules`` that other code uses
stay unchanged. Each module is executed once for a registry, at its first import.
"""

from __future__ import annotations

import builtins
import os
import sys
from functools import partial
from importlib.machinery import SourceFileLoader
from threading import RLock, get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.attribute import Attribute
from resource_api.model.type_definition import ComponentDefinition, Function, TypeDefinition
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import (
    PLUGIN_FILE,
    DefinitionError,
    ManifestError,
    MissingModule,
    UntrustedCode,
    library_hint,
    reason,
    suggestion,
)
from resource_api.model.values.start_up import regex
from resource_api.plugins import provider_interface
from resource_api.plugins.module_path import BUNDLED, entries
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.step import Policy

    #: A component, and the function that builds one use of it.
    Component = tuple[ComponentDefinition, Callable[[object], object]]

    #: Path → the bytes of the file, and its status; raises ``UntrustedCode`` where other users could have changed it.
    ReadCode = Callable[[str], tuple[bytes, os.stat_result]]

#: Held while a file is executed: ``sys.stdout`` is replaced meanwhile, and a function of a provider may import code of
#: ``lib/`` in any thread.
LOCK: Final = RLock()
#: The present state of a change as it would be called if that were no word of Python.
_IS: Final = regex(r"\.is\b")
#: The directories of a module path.
_KINDS: Final = {"types", "providers", "components", "policies", "lib"}
_ELSEWHERE: Final = "write it into the manifest that uses the component"
#: Constants of a component that are called like a section of manifests, and are not given to COMPONENT → the remedy.
_UNREAD: Final = {
    "INPUTS": "give it to COMPONENT as inputs",
    "RESOURCES": "declare resources in build(m), with m.resource('file', '/etc/motd', ...)",
    "OUTPUTS": "declare outputs in build(m), with m.output('name', value)",
    **dict.fromkeys(("DEFAULTS", "INCLUDE", "PROVIDERS", "VALUES", "MOVED", "REMOVED", "PURGE"), _ELSEWHERE),
}


class ExecutableProvider:
    """A provider in another language: ``executable`` is the path of a program that speaks the provider protocol."""

    executable: str


class DefinitionFiles:
    """Loads files of the module path; those of one directory share the modules of its ``lib/``."""

    def __init__(self, read: ReadCode) -> None:
        """Begin without any module loaded; only the bundled files, which are trusted, are read without ``read``."""
        self._read = read
        #: Directory of the module path → its ``lib/``.
        self._libraries: dict[str, Library] = {}

    def type(self, path: str, *, first: bool = True) -> TypeDefinition:
        """Return the type that a file defines. Raise ``DefinitionError``.

        ``first``: no earlier directory of the module path has the type. The module of any other version gets a name of
        its own, so that the versions do not replace each other.
        """
        value: TypeDefinition
        if path.endswith(".json"):
            value = _type_from_json(path, self._bytes(path))
        else:
            value = _defined(path, self._execute(path, first=first), "TYPE", TypeDefinition)
        _check_name(path, "TYPE", value.name)
        return value

    def provider(self, path: str, definition: TypeDefinition, *, first: bool = True) -> builtins.type[Any]:
        """Return the provider class that a file defines. Raise ``DefinitionError`` where it does not fit its type.

        The class of an executable is a subclass of ``ExecutableProvider``. ``first``: the provider is of the first
        version of the type on the module path; those of other versions get a module name of their own.
        """
        if not path.endswith(".py"):
            return self._executable(path)
        # One of several providers is in providers/TYPE/NAME.py, a single one in providers/TYPE.py.
        in_directory = path.rsplit("/", 3)[1:3] == ["providers", definition.name]
        module = self._execute(path, first=first, deep=in_directory)
        value: builtins.type[object] = _defined(path, module, "Provider", type)
        check_interface(definition, value, f"{path}: ")
        return value

    def _executable(self, path: str) -> builtins.type[object]:
        """Return the class of a provider that is a program. Raise ``DefinitionError`` where it cannot be executed.

        The class only has the path, by which the pool of providers starts the program as a worker.
        """
        self._bytes(path)  # raises ``UntrustedCode``
        if not os.access(path, os.X_OK):
            msg = f"{path}: a provider without the ending .py is an executable, and this file cannot be executed"
            raise DefinitionError(msg)
        return type("Provider", (ExecutableProvider,), {"executable": path})

    def _bytes(self, path: str) -> bytes:
        """Return the bytes of a file. Raise ``DefinitionError``: ``UntrustedCode`` if other users could change it."""
        with errors_as(DefinitionError, OSError, f"{path}: "):
            return self._read(path)[0]

    def component(self, path: str) -> Component:
        """Return the component that a file defines, and its function ``build``.

        Raise ``DefinitionError``, also for a constant such as ``INPUTS``, which is read in manifests only: it would be
        ignored.
        """
        module = self._execute(path)
        value: ComponentDefinition = _defined(path, module, "COMPONENT", ComponentDefinition)
        _check_name(path, "COMPONENT", value.name)
        build = getattr(module, "build", None)
        if not callable(build):
            raise DefinitionError(f"{path}: defines no function build(m)")
        mappings = (value.attributes, value.outputs)  # a constant that was given to COMPONENT is read
        if unread := [name for name in _UNREAD if hasattr(module, name) and getattr(module, name) not in mappings]:
            raise DefinitionError("\n".join(self._unread(path, unread)))
        return value, build

    def _unread(self, path: str, names: Sequence[str]) -> Iterator[str]:
        """Yield a problem with its remedy for each constant of ``names`` in a component, such as ``VALUES``.

        Manifests have sections with these names, so an author may expect that they have an effect in a component too.
        """
        from resource_api.manifest.python_positions import constant_position

        raw = self._bytes(path)
        for name in names:
            line, column = constant_position(raw, name)
            yield f"{path}:{line}:{column}: {name} is not read; {_UNREAD[name]}, or give it another name"

    def policy(self, path: str) -> Policy:
        """Return the policy that a file defines. Raise ``DefinitionError``: a broken policy must not pass."""
        module = self._execute(path)
        return policy(_stem(path), path, {word: getattr(module, word, None) for word in ("resource", "plan")})

    def _execute(self, path: str, *, first: bool = True, deep: bool = False) -> ModuleType:
        """Execute a file of the module path and return its module. Raise ``DefinitionError`` as ``Library`` does.

        Its module name contains the directory unless it is the ``first`` version of a type, so that versions do not
        replace each other. ``deep``: the file is ``providers/TYPE/NAME.py``.
        """
        # /site/providers/dns/bind.py: the directory /site, the kinds providers and dns
        directory, *kinds, _ = path.rsplit("/", 3 if deep else 2)
        module = ModuleType(f"resource_api.{'.'.join(kinds)}.{_stem(path)}" + ("" if first else f"@{directory}"))
        self._library(directory).execute(module, path)
        return module

    def _library(self, directory: str) -> Library:
        """Return the ``lib/`` of a directory of the module path, the same object for all files of the directory."""
        if directory not in self._libraries:
            self._libraries[directory] = Library(directory, None if directory == BUNDLED else self._read)
        return self._libraries[directory]

    def builtins_of_manifest(self, directories: Sequence[str]) -> dict[str, object]:
        """Return the built-in names for a Python manifest: their ``import`` finds ``lib/`` of these directories."""
        libraries = [self._library(directory) for directory in directories if directory != BUNDLED]

        def import_(name: str, *arguments: Any, **keywords: Any) -> object:
            """Import for a Python manifest: ``lib`` from the first library that has the module, others as Python does.

            The module path has several directories with a ``lib/``, and a manifest belongs to none of them.
            """
            head, _, module = name.partition(".")
            if head != "lib" or not libraries:
                return builtins.__import__(name, *arguments, **keywords)
            names = arguments[2] if len(arguments) > 2 else keywords.get("fromlist")  # noqa: PLR2004 - of ``__import__``
            if not module and names:  # from lib import NAME
                module = names[0]
            having = (library for library in libraries if library.has(module.partition(".")[0]))
            library = next(having, libraries[-1])  # where none has it, the last one raises the error
            return library.builtins["__import__"](name, *arguments, **keywords)

        return {**vars(builtins), "__import__": import_}


def check_interface(definition: TypeDefinition, provider: builtins.type[object], prefix: str = "") -> None:
    """Raise ``DefinitionError`` where a provider class does not fit its type; ``prefix`` begins each line."""
    if problems := provider_interface.interface_problems(definition, provider):
        raise DefinitionError("\n".join(f"{prefix}{problem}" for problem in problems))


def by_preference(providers: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the providers of a type by name, those of the highest ``priority`` first; equals keep their order."""
    return dict(sorted(providers.items(), key=lambda pair: -getattr(pair[1], "priority", 0)))


def policy(name: str, file: str, functions: Mapping[str, object]) -> Policy:
    """Return a policy of two functions, ``resource`` and ``plan``. Raise ``DefinitionError`` for one that has neither.

    A misspelt function would otherwise be a policy that passes everything.
    """
    for word, function in functions.items():
        if function is not None and not callable(function):
            raise DefinitionError(f"{file}: '{word}' must be a function, not {type(function).__name__}")
    if not any(functions.values()):
        raise DefinitionError(f"{file}: defines neither resource(resource) nor plan(plan)")
    from resource_api.model.step import Policy  # policies are rare

    return Policy(name, file, functions["resource"], functions["plan"])  # type: ignore[arg-type] # callable, checked above


def _stem(path: str) -> str:
    """Return the name that a file must define: its own, without the ending."""
    return path.rpartition("/")[2].removesuffix(".py").removesuffix(".json")


def _defined(path: str, module: ModuleType, constant: str, expected: type[object]) -> Any:
    """Return a module's ``constant``, such as ``TYPE``. Raise ``DefinitionError`` unless it is an ``expected``."""
    value = getattr(module, constant, None)
    if value is None:
        candidates = [name for name, member in vars(module).items() if _is_candidate(member, expected, module)]
        hint = f"; rename '{candidates[0]}' to {constant}" if len(candidates) == 1 else ""
        raise DefinitionError(f"{path}: defines no {constant}{hint}")
    if not isinstance(value, expected):
        raise DefinitionError(f"{path}: {constant} must be a {expected.__name__}, not {type(value).__name__}")
    return value


def _is_candidate(value: object, expected: type[object], module: ModuleType) -> bool:
    """Return whether a value in a file may be its definition under a wrong name, which the error then mentions.

    A provider may be any class of this file with a method ``get``; imported classes and helpers do not count.
    """
    if expected is not type:
        return isinstance(value, expected)
    return isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "get")


def _check_name(path: str, constant: str, name: str) -> None:
    """Raise ``DefinitionError`` unless a definition has the name of its file."""
    if name != _stem(path):
        raise DefinitionError(f"{path}: {constant} is named '{name}' but its file is named '{_stem(path)}'")


def _type_from_json(path: str, data: bytes) -> TypeDefinition:
    """Return the type that a JSON file declares, for providers in other languages. Raise ``DefinitionError``.

    The members are the arguments of ``TypeDefinition``; only functions that compute titles cannot be written.
    """
    from resource_api.manifest import json_reader  # only for types of providers in other languages

    with errors_as(DefinitionError, ManifestError):
        document = json_reader.read(data, path).data
    fields = dict(_mapping(path, "the type", document))
    for word, part in (("attributes", Attribute), ("config", Attribute), ("functions", Function)):
        if word in fields:
            fields[word] = _members(path, word, fields[word], part)
    with errors_as(DefinitionError, (DefinitionError, TypeError), f"{path}: "):
        return TypeDefinition(**fields)


def _mapping(path: str, label: str, value: object) -> Mapping[str, Any]:
    """Return a value that must be a JSON object. Raise ``DefinitionError`` for another; ``label``: its subject."""
    if not isinstance(value, dict):
        raise DefinitionError(f"{path}: {label} must be an object, not {type(value).__name__}")
    return value


def _members(
    path: str, word: str, values: object, part: builtins.type[Attribute | Function]
) -> dict[str, Attribute | Function]:
    """Return the attributes or functions that a JSON object declares, by name.

    The members of the object have the arguments of ``part``, which is ``Attribute`` or ``Function``. ``word``: the
    object's key path in the file. Raise ``DefinitionError`` with the key path of a wrong member.
    """
    members = {}
    for name, value in _mapping(path, word, values).items():
        key_path = f"{word}.{name}"
        fields = _mapping(path, key_path, value)
        if part is Function:
            inputs = _members(path, f"{key_path}.inputs", fields.get("inputs", {}), Attribute)
            fields = {**fields, "inputs": inputs}
        with errors_as(DefinitionError, TypeError, f"{path}: {key_path}: "):
            members[name] = part(**fields)
    return members


def _run(module: ModuleType, path: str, loader: Callable[[str, str], SourceFileLoader]) -> None:
    """Execute a module file. Raise ``DefinitionError`` with the line for its exception.

    Raise it also if the file prints, which would spoil the program's JSON output, or changes ``sys.path`` for the whole
    program. ``loader`` makes the loader for a module's name and path.
    """
    search_path, path_changed = list(sys.path), False
    stdout, before = _WriteDetector(), sys.stdout
    try:
        code = loader(module.__name__, path).get_code(module.__name__)
        with process_guard.protected():
            sys.stdout = stdout
            try:
                exec(code or "", module.__dict__)  # noqa: S102 - a loader executes files
            finally:
                path_changed = sys.path != search_path
                sys.stdout = before
    except (KeyboardInterrupt, UntrustedCode):
        raise
    except BaseException as error:
        raise _load_error(error, path) from error
    if stdout.written or path_changed:
        misdeed = "prints" if stdout.written else "changes sys.path"
        raise DefinitionError(f"{path}: {misdeed} while it is loaded; a module file must not")


def _load_error(error: BaseException, path: str) -> DefinitionError:
    """Return the error for an exception of a file while it was loaded, with the position and a hint for an import."""
    from resource_api.manifest.python_positions import raised_at, source

    kind = MissingModule if isinstance(error, (ImportError, MissingModule)) else DefinitionError
    wrapped = kind(f"{path}:{line_of(error, path)}: {_describe(error)}{_import_hint(error, path)}")
    wrapped.position = path, *raised_at(error, path, source(path))
    return wrapped


def _relative(path: str) -> str:
    """Return the path of a file within its directory of the module path, for messages.

    ``/site/providers/dns.py`` becomes ``providers/dns.py``; the last directory with the name of a kind counts.
    """
    parts = path.split("/")
    kinds = [number for number, part in enumerate(parts[:-1]) if part in _KINDS]
    return "/".join(parts[kinds[-1] :] if kinds else parts[-1:])


class _CheckedLoader(SourceFileLoader):
    """Loads a file, or its bytecode, only from bytes that no other user could have changed."""

    def __init__(self, read: ReadCode, name: str, path: str) -> None:
        """Read the file at ``path`` once, by ``read``, so that exactly the checked code is executed."""
        super().__init__(name, path)
        self._read = read
        self._source, self._status = read(path)

    def path_stats(self, path: str) -> Mapping[str, object]:  # noqa: ARG002 - there is one file
        """Return the time and size of the file, with which its bytecode must agree; Python's loader calls this."""
        return {"mtime": self._status.st_mtime, "size": self._status.st_size}

    def get_data(self, path: str) -> bytes:
        """Return the source that was read and checked, or the bytecode of its cache; Python's loader calls this.

        For bytecode that other users could change raise an ``OSError``, for which Python compiles the source instead.
        """
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
        """Note that the loading file prints, and discard the text; a line of another thread is printed as before."""
        if get_ident() != self._thread:
            return self._stdout.write(text)
        self.written = self.written or bool(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def isatty(self) -> bool:
        return False


def line_of(error: BaseException, file: str, default: int = 1) -> int:
    """Return the line of ``file`` that raised an exception or called the function that did, or ``default``.

    It is the innermost frame of ``file`` in the traceback: the author can correct that line, unlike those of libraries.
    """
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno or 1
    line, trace = default, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _import_hint(error: BaseException, path: str) -> str:
    """Return a hint for an import that failed in a file of a module path, or "".

    Its author may have imported a file of ``lib/`` by another path, a missing library, another type or provider, or
    misspelt a name of ``resource_api``.
    """
    if type(error) is ModuleNotFoundError and error.name:
        directory, name = path.removesuffix(f"/{_relative(path)}"), error.name
        if name.startswith("resource_api.") and name.split(".")[1] in _KINDS:
            return "; a file imports modules of lib/ as 'from lib import NAME', and nothing relative to itself"
        return library_hint(error, directory, os.path.exists)
    if type(error) is ImportError and error.name in ("types", "providers"):
        return "; types and providers cannot import each other: code that several need is in lib/"
    if type(error) is ImportError and error.name == "resource_api":
        name = str(error).partition("'")[2].partition("'")[0]  # of: cannot import name 'Contxt' from 'resource_api'
        hint = suggestion(name, sys.modules[error.name].__all__)
        return f"; {hint}" if hint else ""
    return ""


def _describe(error: BaseException) -> str:
    """Return the message about an exception of a file that was loaded, without positions in files of this project.

    An author who writes ``change.is`` gets the hint that the attribute is ``is_``, since ``is`` is a keyword.
    """
    if isinstance(error, DefinitionError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"exits while it is loaded (code {error.code})"
    # The text of a syntax error ends in the file and the line.
    text = (isinstance(error, SyntaxError) and error.msg) or reason(error, with_origin=False)
    if isinstance(error, SyntaxError) and ".is" in (error.text or "") and _IS.search(error.text or ""):
        text += "; 'is' is a word of Python: write .is_"
    return text if text.startswith(type(error).__name__) else f"{type(error).__name__}: {text}"


class Library:
    """The modules of one ``lib/``. A name is dotted and relative to it: ``dns.client``; empty for ``lib`` itself."""

    def __init__(self, directory: str, read: ReadCode | None) -> None:
        """Import from ``lib/`` of a ``directory`` of the module path, whose files share these modules.

        ``read`` returns the bytes of a file and its status, and raises ``UntrustedCode``; None: the files are trusted.
        """
        self._loader = SourceFileLoader if read is None else partial(_CheckedLoader, read)
        self._root = f"{directory}/lib"
        #: The name of ``lib`` in ``sys.modules``, different for each directory.
        self._package = f"resource_api.lib@{directory}"
        #: The modules that were executed or are being executed, and the names of the latter.
        self._modules: dict[str, ModuleType] = {}
        self._loading: set[str] = set()
        #: The built-in names for its modules and the files beside it: their ``import`` finds ``lib``.
        self.builtins = {**vars(builtins), "__import__": self._import}

    def has(self, name: str) -> bool:
        """Return whether there is a module or package of a name; an empty one is ``lib`` itself."""
        return os.path.isdir(f"{self._root}/{name}".rstrip("/")) or os.path.isfile(f"{self._root}/{name}.py")

    def execute(self, module: ModuleType, path: str) -> None:
        """Execute a file of the directory in a new module, with these modules as its ``lib``.

        The module stays in ``sys.modules`` under its name, where tracebacks, pickles and dataclasses look it up. Raise
        ``DefinitionError`` with the file, the line and the reason when the file raises, exits, prints, or changes
        ``sys.path``, of the kind ``MissingModule`` for an import; other changes of the process are undone.
        """
        module.__file__ = path
        module.__dict__[PLUGIN_FILE] = _relative(path)
        module.__dict__["__builtins__"] = self.builtins
        sys.modules[module.__name__] = module
        try:
            with LOCK:
                _run(module, path, self._loader)
        except BaseException:
            sys.modules.pop(module.__name__, None)
            raise

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the parameters of __import__
        locals: Mapping[str, object] | None = None,  # noqa: A002 - the same
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        """Import ``lib`` or a module of it from beside the definition, others as Python does.

        Definitions get this as ``__import__``, with the same parameters: each directory of the module path has a
        ``lib`` of its own. Raise ``DefinitionError`` for names that ``lib/`` does not define.
        """
        target = self._target(name, (globals or {}).get("__package__") or "", level)
        if target is None:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        # Two threads that import one module at once execute it once.
        with LOCK:
            module = self._module(target)
            for attribute in fromlist or ():
                self._require(target, module, attribute)
            # ``import lib.dns`` binds ``lib``, and ``from lib.dns import ...`` reads from ``lib.dns``.
            return module if fromlist or level else self._module("")

    def _target(self, name: str, package: str, level: int) -> str | None:
        """Return the name in ``lib/`` that an import statement refers to, or None for a module elsewhere.

        ``level`` counts the dots of a relative import, which only modules of this ``lib/``, in ``package``, can write:
        in ``dns.client``, whose package is ``dns``, one dot refers to ``dns``, and two dots refer to ``lib`` itself.
        """
        if level == 0:
            head, _, rest = name.partition(".")
            return rest if head == "lib" else None
        if not package.startswith(self._package):
            return None
        packages = package[len(self._package) :].split(".")[1:]
        if level > len(packages) + 1:
            return None
        return ".".join([*packages[: len(packages) + 1 - level], *filter(None, [name])])

    def _require(self, name: str, module: ModuleType, attribute: str) -> None:
        """Make sure that ``from MODULE import ATTRIBUTE`` finds its attribute. Raise ``DefinitionError`` otherwise.

        The attribute of a package may be a module in it, which is then loaded. ``name`` is the module's in ``lib/``.
        """
        if attribute == "*" or hasattr(module, attribute):
            return
        if hasattr(module, "__path__"):
            self._module(f"{name}.{attribute}" if name else attribute)
            return
        hint = suggestion(attribute, (key for key in vars(module) if not key.startswith("_")))
        msg = f"{module.__file__} defines no '{attribute}'" + (f"; {hint}" if hint else "")
        if name in self._loading:
            msg = f"{module.__file__} has not defined '{attribute}' yet: its modules import each other in a circle"
        raise DefinitionError(msg)

    def _module(self, name: str) -> ModuleType:
        """Return a module of ``lib/``, executed at its first import, after the packages around it."""
        if name and name not in self._modules:
            self._module(name.rpartition(".")[0])
        if name not in self._modules:
            self._load(name)
        return self._modules[name]

    def _load(self, name: str) -> None:
        """Load a module of ``lib`` and bind it to its package, as the import system would. Raise ``MissingModule``.

        ``name``: dotted, "" for ``lib`` itself. A directory without ``__init__.py`` is a package, too.
        """
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
        self._modules[name] = module  # before it is executed, so that circular imports end
        if has_file:
            self._execute_module(name, module, path)
        parent, _, last = name.rpartition(".")
        if name:
            setattr(self._modules[parent], last, module)

    def _execute_module(self, name: str, module: ModuleType, path: str) -> None:
        """Execute a module of ``lib/``; remove one that fails from ``_modules``, so that a later import tries again."""
        self._loading.add(name)
        try:
            self.execute(module, path)
        except BaseException:
            del self._modules[name]
            raise
        finally:
            self._loading.discard(name)

    def _unknown(self, name: str) -> str:
        """Return the error for a missing module, with the file to create or the name that was meant."""
        if not name:
            return f"imports from 'lib', but there is no directory {self._root}"
        parent, _, last = name.rpartition(".")
        directory = f"{self._root}/{parent.replace('.', '/')}".rstrip("/")
        hint = suggestion(last, (entry.removesuffix(".py") for entry in entries(directory) if entry[0] != "_"))
        expected = f"{self._root}/{name.replace('.', '/')}.py"
        return f"no module 'lib.{name}'; expected {expected}" + (f"; {hint}" if hint else "")
