"""``new``: write the files of a new type, component or key, from ``templates/`` or random bytes, never over others.

A type comes with a provider and a test by the compliance suite, a component with a test that rehearses it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import options
from resource_api.cli.session import subcommand
from resource_api.model.values.errors import UsageError
from resource_api.model.values.reference import TYPE_NAME, capitalize_type, type_name_problem
from resource_api.plugins.module_path import BUNDLED
from resource_api.state.encryption import keys
from resource_api.system import age
from resource_api.system.filesystem import directories, files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.cli.session import Session


@options.group(examples=("resource-api new type widget", "resource-api new key state.key"))
def new() -> None:
    """Write something new, ready to run."""


_directory = click.option("--directory", type=options.Path(file_okay=False), default=".", help="Where; default: here.")


@subcommand(new, "type", examples=("resource-api new type widget --directory modules",))
@click.argument("name")
@_directory
@click.option("--shared", is_flag=True, help="Write a module in lib/ too, which several providers can share.")
@click.option("--http", is_flag=True, help="Write a provider that asks a service with a JSON API.")
def type_(session: Session, name: str, directory: str, *, shared: bool, http: bool, **_settings: object) -> None:
    """Write types/NAME.py, providers/NAME.py and a test."""
    _show_written(session, write_type(name, Path(directory), shared=shared, http=http))


@subcommand(new, "component", examples=("resource-api new component website --directory modules",))
@click.argument("name")
@_directory
def component(session: Session, name: str, directory: str, **_settings: object) -> None:
    """Write components/NAME.py and a test."""
    _show_written(session, write_component(name, Path(directory)))


def _show_written(session: Session, paths: Sequence[Path]) -> None:
    """Print the paths of the new files."""
    written = list(map(str, paths))
    session.console.show(lambda: {"written": written}, lambda: written)


@subcommand(new, "key", examples=("resource-api new key state.key", "resource-api new key inputs.key --age"))
@click.argument("path", type=options.Path(dir_okay=False), callback=options.output_file)
@click.option("--age", "is_age", is_flag=True, help="An age identity, for --inputs-key age:PATH and --key age:PATH.")
def key(session: Session, path: str, *, is_age: bool, **_settings: object) -> None:
    """Write a new key file at PATH, that only you can read; --key file:PATH encrypts with it."""
    document: dict[str, object] = {"written": [path], "key": f"{'age' if is_age else 'file'}:{path}"}
    lines = [path]
    if is_age:
        document["recipient"] = recipient = age.create_identity(path)
        lines.append(f"recipient: {recipient}")
    else:
        keys.create_key_file(path)
    lines.append("Keep a copy elsewhere: without it what it encrypts is lost.")
    session.console.show(lambda: document, lambda: lines)


#: The longest name of a type, in characters.
LONGEST: Final = 64
TEMPLATES: Final = Path(__file__).parent.parent / "templates"
#: File to be written → its template. In both, ``sample`` stands for the name, in the spelling of the place.
_TYPE: Final = {
    "types/sample.py": "type.py.template",
    "providers/sample.py": "provider.py.template",
    "tests/test_sample.py": "test.py.template",
}
#: The same, with a provider that uses code in ``lib/``.
_SHARING_TYPE: Final = {**_TYPE, "providers/sample.py": "shared_provider.py.template"}
#: The same for resources of a service, which the provider calls over HTTP.
_HTTP_TYPE: Final = {file: f"http_{template}" for file, template in _TYPE.items()}
_LIB: Final = {"lib/json_files.py": "json_files.py.template"}
_COMPONENT: Final = {
    "components/sample.py": "component.py.template",
    "tests/test_sample.py": "component_test.py.template",
}


def write_type(name: str, directory: Path, *, shared: bool = False, http: bool = False) -> list[Path]:
    """Write ``types/NAME.py``, ``providers/NAME.py`` and ``tests/test_NAME.py`` into ``directory``; return the files.

    With ``shared``, the provider uses ``lib/json_files.py``, which is written too unless it exists; with ``http``, it
    asks a service. Raise ``UsageError`` for a name that no type can have or that a bundled type has, and when one of
    the files exists; nothing is written then.
    """
    if shared and http:
        raise UsageError("--shared and --http exclude each other")
    if not shared:
        return _write(name, directory, _HTTP_TYPE if http else _TYPE)
    has_lib = any(os.path.exists(directory / file) for file in _LIB)
    return _write(name, directory, _SHARING_TYPE if has_lib else {**_SHARING_TYPE, **_LIB})


def write_component(name: str, directory: Path) -> list[Path]:
    """Write ``components/NAME.py`` and ``tests/test_NAME.py`` into ``directory``; return the files, see ``_write``."""
    return _write(name, directory, _COMPONENT)


def _write(name: str, directory: Path, templates: Mapping[str, str]) -> list[Path]:
    """Write all files of a new type or component from ``templates``, or none; return them.

    ``templates``: file to be written → its template. Raise ``UsageError`` for a name that no type can have or that a
    bundled type has, and when one of the files exists or cannot be written: files that were written before are removed.
    """
    if reason := _refusal(name):
        raise UsageError(reason)
    paths = {directory / file.replace("sample", name): TEMPLATES / template for file, template in templates.items()}
    if existing := next(filter(os.path.lexists, paths), None):
        raise UsageError(f"{existing} exists already and is never overwritten; nothing was written")
    written: list[Path] = []
    try:
        for path, template in paths.items():
            directories.make_directory(str(path.parent), 0o777)
            files.write_new(str(path), _with_name(template.read_text(encoding="utf-8"), name).encode())
            written.append(path)
    except OSError as error:
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise UsageError(f"{error.filename or directory}: cannot be written: {error.strerror}") from error
    return written


def _refusal(name: str) -> str:
    """Return the reason why a new type or component cannot have this name, with advice, or an empty text."""
    if not TYPE_NAME.match(name):
        split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()  # AptKey: apt_key
        words = re.sub(r"[^a-z0-9]+", "_", split).strip("_0123456789")  # 2-apt.key: apt_key
        hint = f"; did you mean '{words}'?" if TYPE_NAME.match(words) else ""
        return f"'{name}' cannot be the name of a type: it takes lower case letters, digits and underscores{hint}"
    if len(name) > LONGEST:
        return f"the name of a type has at most {LONGEST} characters, this one has {len(name)}"
    if problem := type_name_problem(name):
        return f"{problem}; choose another name"
    if Path(BUNDLED, "types", f"{name}.py").exists():
        return f"'{name}' is a type that comes with the package; choose another name"
    return ""


def _with_name(text: str, name: str) -> str:
    """Return a template with "sample" replaced by the name in each spelling of it.

    For ``apt_key`` they are ``TestAptKey`` (a class), ``Apt_key`` (a reference), ``APT_KEY`` (a variable) and itself.
    """
    camel = "".join(word.capitalize() for word in name.split("_"))
    words = {"TestSample": f"Test{camel}", "Sample": capitalize_type(name), "SAMPLE": name.upper(), "sample": name}
    return re.sub("|".join(words), lambda match: words[match[0]], text)
