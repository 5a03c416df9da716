"""Commands of Ansible as resources of the type `exec`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from resource_api.convert.expressions import ValueReference, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from resource_api.convert.module_task import ModuleTask


def command_attributes(task: ModuleTask) -> dict[str, Any]:
    """Return the attributes of an `exec` for a command, with its guards. Raise ``Unconvertible``."""
    attributes = _command(task)
    directory = task.take("chdir")
    attributes |= {"cwd": directory, "input": task.take("stdin"), "user": task.user}
    if (creates := task.take("creates")) is not None:
        attributes["creates"] = _absolute(creates, directory)
    if (removes := task.take("removes")) is not None:
        path = _absolute(removes, directory)
        attributes["onlyif"] = f"test -e {path}" if attributes.get("shell") else [["test", "-e", path]]
    task.ignore("warn", "stdin_add_newline", "strip_empty_ends", "expand_argument_vars")
    return {name: value for name, value in attributes.items() if value is not None}


def _command(task: ModuleTask) -> dict[str, Any]:
    """Return the command itself; a shell runs a text of `shell` and `raw`."""
    text, words = task.take("_raw_params", "cmd"), task.take("argv")
    program = task.take("executable")
    if words is not None:
        return {"command": [str(_text(word)) for word in words] if isinstance(words, list) else words}
    if not isinstance(text, (str, ValueReference)):
        refuse("a task without a command")
    if task.task.short == "command":
        if isinstance(text, str) and "$" in text.replace("${", ""):
            refuse("a variable of the environment in a command without a shell")
        return {"command": text}
    if program is not None and program != "/bin/sh":
        return {"command": [program, "-c", text]}
    return {"command": text, "shell": True}


def _text(value: Any) -> str:
    return f"${{{value.path}}}" if isinstance(value, ValueReference) else str(value)


def _absolute(path: Any, directory: Any) -> Any:
    """Return a path below the working directory. Raise ``Unconvertible`` for one that is relative to the login's."""
    if not isinstance(path, str) or path.startswith(("/", "${")):
        return path
    if directory is None or any(character in path for character in "*?["):
        refuse(f"the relative path '{path}' or a pattern in it")
    return f"{_text(directory)}/{path}"


def command(task: ModuleTask) -> None:
    """Convert `command`, `shell` and `raw`."""
    attributes = command_attributes(task)
    words = attributes["command"]
    name = shlex.join(map(str, words)) if isinstance(words, list) else _text(words)
    task.named("exec", name, attributes)


MODULES: Final[Mapping[str, Callable[[ModuleTask], None]]] = dict.fromkeys(("command", "shell", "raw"), command)
