"""``completion``: show or install the script of a shell that completes commands, options and names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import options
from resource_api.cli.completion import script
from resource_api.cli.session import subcommand
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceAPIError, UsageError
from resource_api.system.filesystem.directories import make_directory
from resource_api.system.filesystem.files import replace

if TYPE_CHECKING:
    from resource_api.cli.session import Session

_SHELLS: Final = ("bash", "zsh", "fish")
#: The file that loads a script of bash when its command is completed for the first time.
_BASH_COMPLETION: Final = Path("/usr/share/bash-completion/bash_completion")


@options.group(examples=("resource-api completion install zsh", "resource-api completion show bash > completion.bash"))
def completion() -> None:
    """Let a shell complete commands, options and names."""


_shell = click.argument("shell", metavar="[SHELL]", type=click.Choice(_SHELLS), required=False)


@subcommand(completion, "show", examples=("resource-api completion show bash > completion.bash",))
@_shell
def show(session: Session, shell: str | None, **_settings: object) -> None:
    """Print the script of SHELL: bash, zsh or fish; without SHELL, that of your login shell."""
    name = shell or _login_shell()
    session.console.show(lambda: {"shell": name, "script": script(name)}, lambda: script(name).rstrip("\n"))


@subcommand(completion, "install", examples=("resource-api completion install zsh",))
@_shell
def install(session: Session, shell: str | None, **_settings: object) -> None:
    """Write the script to where SHELL looks for yours; without SHELL, that of your login shell."""
    name = shell or _login_shell()
    path, remark = _script_path(name)
    with errors_as(ResourceAPIError, OSError, f"cannot write {path}: "):
        make_directory(str(path.parent), 0o777)
        replace(str(path), script(name).encode(), mode=0o644)
    session.console.show(
        lambda: {"shell": name, "written": [str(path)], "remark": remark},
        lambda: [str(path), remark or "Every shell that is started from now on uses it."],
    )


def _login_shell() -> str:
    """Return the name of the user's shell, by ``$SHELL``, for a command without the argument SHELL.

    Raise ``UsageError`` for a shell for which there is no script.
    """
    name = os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        msg = f"there is no completion for {name or 'a shell that is not known'}; name one of {', '.join(_SHELLS)}"
        raise UsageError(msg)
    return name


def _script_path(shell: str) -> tuple[Path, str]:
    """Return the path of the user's completion script for a shell, and a remaining step for the user, or ""."""
    data = _home("XDG_DATA_HOME", ".local/share")
    if shell == "bash":
        path = data / "bash-completion/completions/resource-api"
        remark = f"It needs the package bash-completion, or this line in ~/.bashrc: . {path}"
        return path, "" if _BASH_COMPLETION.is_file() else remark
    if shell == "zsh":
        directory = data / "zsh/site-functions"
        remark = f"It needs this line in ~/.zshrc, before compinit: fpath=({directory} $fpath)"
        return directory / "_resource-api", remark
    return _home("XDG_CONFIG_HOME", ".config") / "fish/completions/resource-api.fish", ""


def _home(variable: str, default: str) -> Path:
    """Return the user's directory of a variable such as XDG_DATA_HOME, or its ``default`` below the home directory.

    A relative path in the variable is ignored, as the XDG standard demands. Raise ``UsageError`` without a home.
    """
    value, home = os.environ.get(variable, ""), os.path.expanduser("~")
    if value.startswith("/"):
        return Path(value)
    if not home.startswith("/"):
        raise UsageError(f"you have no home directory to write into; set HOME or {variable}")
    return Path(home, default)
