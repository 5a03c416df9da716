"""``new``: write what a new type or a new key needs, ready to use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable


@click.group()
def new() -> None:
    """Write something new, ready to run."""


_directory = click.option("--directory", type=click.Path(file_okay=False), default=".", help="Where; default: here.")


@new.command("type")
@click.argument("name")
@_directory
@options.common
def new_type(name: str, directory: str, **settings: Any) -> int:
    """Write types/NAME.py, providers/NAME.py and a test."""
    from resource_api.cli import scaffold  # noqa: PLC0415 - only for this command

    return _write(settings, lambda: scaffold.new_type(name, Path(directory)))


@new.command("component")
@click.argument("name")
@_directory
@options.common
def new_component(name: str, directory: str, **settings: Any) -> int:
    """Write components/NAME.py."""
    from resource_api.cli import scaffold  # noqa: PLC0415 - only for this command

    return _write(settings, lambda: scaffold.new_component(name, Path(directory)))


def _write(settings: dict[str, Any], make: Callable[[], list[Path]]) -> int:
    session = Session(settings)

    def work() -> int:
        written = [str(path) for path in make()]
        if session.json:
            session.print_json({"written": written})
        else:
            session.print(written)
        return 0

    return session.carry(work)


@new.command("key")
@click.argument("path", type=click.Path(dir_okay=False))
@options.common
def new_key(path: str, **settings: Any) -> int:
    """Write a new key file at PATH, that only you can read; --key file:PATH encrypts with it."""
    session = Session(settings)

    def work() -> int:
        from resource_api.state.encryption import keys  # noqa: PLC0415 - only for this command

        keys.create_key_file(path)
        if session.json:
            session.print_json({"written": [path], "key": f"file:{path}"})
        else:
            session.print([path, "Keep a copy elsewhere: without it what it encrypts is lost."])
        return 0

    return session.carry(work)
