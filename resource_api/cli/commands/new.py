"""``new``: write the files of a new type, component or key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.cli.session import Session


@options.group(examples=("resource-api new type widget", "resource-api new key state.key"))
def new() -> None:
    """Write something new, ready to run."""


_directory = click.option("--directory", type=click.Path(file_okay=False), default=".", help="Where; default: here.")


@new.command("type", examples=("resource-api new type widget --directory modules",))
@click.argument("name")
@_directory
@click.option("--shared", is_flag=True, help="Write a module in lib/ too, which several providers can share.")
@click.option("--http", is_flag=True, help="Write a provider that asks a service with a JSON API.")
@options.common
@with_session()
def new_type(session: Session, name: str, directory: str, *, shared: bool, http: bool, **_settings: Any) -> None:
    """Write types/NAME.py, providers/NAME.py and a test."""
    from resource_api.cli import scaffold

    _show(session, scaffold.new_type(name, Path(directory), shared=shared, http=http))


@new.command("component", examples=("resource-api new component website --directory modules",))
@click.argument("name")
@_directory
@options.common
@with_session()
def new_component(session: Session, name: str, directory: str, **_settings: Any) -> None:
    """Write components/NAME.py and a test."""
    from resource_api.cli import scaffold

    _show(session, scaffold.new_component(name, Path(directory)))


def _show(session: Session, paths: Sequence[Path]) -> None:
    written = list(map(str, paths))
    session.show(lambda: {"written": written}, lambda: written)


@new.command("key", examples=("resource-api new key state.key",))
@click.argument("path", type=click.Path(dir_okay=False))
@options.common
@with_session()
def new_key(session: Session, path: str, **_settings: Any) -> None:
    """Write a new key file at PATH, that only you can read; --key file:PATH encrypts with it."""
    from resource_api.state.encryption import keys

    keys.create_key_file(path)
    session.show(
        lambda: {"written": [path], "key": f"file:{path}"},
        lambda: [path, "Keep a copy elsewhere: without it what it encrypts is lost."],
    )
