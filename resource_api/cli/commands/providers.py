"""``providers``: list the Terraform providers of a manifest, lock their versions, and print their schemas."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, cast

import click

from resource_api.cli import options
from resource_api.cli.session import subcommand
from resource_api.model.values.errors import UsageError, hint
from resource_api.model.values.text import escape
from resource_api.render.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from resource_api.cli.session import Session
    from resource_api.terraform.programs import ProviderProgram


@options.group(examples=("resource-api providers list site.yaml", "resource-api providers lock site.yaml"))
def providers() -> None:
    """List the Terraform providers of a manifest, lock their versions, print their schemas."""


@subcommand(providers, "list", examples=("resource-api providers list site.yaml",))
@options.manifest
@options.manifest_inputs
def list_(session: Session, manifest: str, **_settings: object) -> None:
    """List the Terraform providers of MANIFEST: version and program of each."""
    programs = _programs(session, manifest)
    session.console.show(
        lambda: [_document(program) for program in programs],
        lambda: table(
            [{name: value or "-" for name, value in _document(program).items()} for program in programs], None
        ),
        f"{manifest} declares no Terraform provider",
    )


def _terraform() -> ModuleType:
    """Return the module about Terraform providers, whose libraries are optional.

    Raise ``UsageError`` with advice if the extra ``terraform`` of the package is not installed.
    """
    try:
        from resource_api.runtime import terraform_providers
    except ImportError as error:
        msg = f"programs of Terraform providers cannot be used here: {error}; pip install 'resource-api[terraform]'"
        raise UsageError(msg) from error
    return terraform_providers


def _programs(session: Session, manifest: str) -> Sequence[ProviderProgram]:
    """Return the programs of a manifest's Terraform providers. Raise ``UsageError``, ``ManifestError``."""
    programs = _terraform().programs(session.runtime, session.source(manifest), session.inputs.values)
    return cast("Sequence[ProviderProgram]", programs)


def _document(program: ProviderProgram) -> dict[str, object]:
    """Return a provider's program as ``--json`` shows it."""
    source = None if program.address is None else str(program.address)
    return {"name": program.name, "source": source, "version": program.version or None, "path": program.path}


@subcommand(providers, "lock", examples=("resource-api providers lock site.yaml",))
@options.manifest
@options.manifest_inputs
def lock(session: Session, manifest: str, **_settings: object) -> None:
    """Write providers.lock beside MANIFEST: the newest version that fits, and the hash of its files.

    From then on only these files are executed for a provider with 'source'.
    """
    path, locked = _terraform().lock(session.runtime, session.source(manifest), session.inputs.values)
    rows = [{"source": str(address), **provider._asdict()} for address, provider in locked.items()]
    remark = "" if locked else "; only a provider with 'source' is locked, and the manifest declares none"
    session.console.show(
        lambda: {"file": path, "providers": rows},
        lambda: [
            *(f"{address} {provider.version}" for address, provider in locked.items()),
            f"{escape(os.path.relpath(path))}: {len(locked)} locked{remark}.",
        ],
    )


@subcommand(providers, "schema", examples=("resource-api providers schema site.yaml vsphere",))
@options.manifest
@click.argument("name", shell_complete=options.complete("programs"))
@options.manifest_inputs
def schema(session: Session, manifest: str, name: str, **_settings: object) -> None:
    """Print the schemas of the provider NAME of MANIFEST, as 'terraform providers schema -json' does."""
    programs = {program.name: program for program in _programs(session, manifest)}
    if name not in programs:
        raise UsageError(f"{manifest} declares no Terraform provider '{name}'{hint(name, programs)}")
    program = programs[name]
    title = name if program.address is None else str(program.address)
    session.output.print(json.dumps(_terraform().schema(program, title), indent=2))
