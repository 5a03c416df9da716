"""``bundle``: a manifest and its modules as one signed file, for machines that converge by themselves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from resource_api.agent import bundle_format as bundles
from resource_api.agent import trust
from resource_api.agent.trust import Untrusted
from resource_api.cli import options
from resource_api.cli.session import subcommand
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.model.values.reference import STACK_NAME
from resource_api.model.values.text import counted, escape
from resource_api.system.filesystem import files, reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from resource_api.agent.bundle_format import Bundle
    from resource_api.cli.session import Session

_bundle = click.argument("path", metavar="BUNDLE", type=options.Path(exists=True, dir_okay=False))


@options.group(
    examples=(
        "resource-api bundle make site -o site.bundle",
        "resource-api bundle sign site.bundle --key ~/.ssh/id_ed25519",
        "resource-api bundle verify site.bundle --signers signers",
    )
)
def bundle() -> None:
    """Pack a manifest and its modules, sign the bundle, verify it."""


def _command(name: str, example: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that makes a function a subcommand; an unusable file is an error of the command."""
    guarded = errors_as(ResourceError, OSError, f"{name}: ", names_file=True)
    return lambda function: subcommand(bundle, name, examples=(example,))(guarded(function))


@_command("make", "resource-api bundle make site -o site.bundle")
@click.argument("directory", metavar="DIR", type=options.Path(exists=True, file_okay=False))
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="FILE",
    type=options.Path(dir_okay=False),
    callback=options.output_file,
    help="The bundle to write.",
)
@click.option(
    "--generation",
    type=options.Integer(1, (1 << 63) - 1),
    metavar="N",
    help="Its number, which must grow; default: one more than that of FILE, if the files are others.",
)
@click.option(
    "--name",
    callback=options.checked_name,
    metavar="NAME",
    help="The subject of the bundle; machines take no other in its place. Default: the name of DIR.",
)
def make(session: Session, directory: str, out: str, **settings: Any) -> None:
    """Pack DIR, which holds a manifest and its modules, into a bundle; equal files make equal bytes.

    Directories of --module-path are packed too. Links are refused; .git, .hg, .svn and __pycache__ are left out.
    """
    # The bundle may be written into DIR: it is no part of itself.
    path = os.path.realpath(out)
    collected = bundles.collect(directory, settings["module_path"], {path, path + trust.SIGNATURE_SUFFIX})
    name = settings["name"] or os.path.basename(os.path.realpath(directory))
    if not STACK_NAME.match(name):
        raise UsageError(f"'{name}' can be no name of a bundle; give one with --name")
    before = _existing_bundle(path, out)
    bundle = _with_generation(collected._replace(name=name), before, settings["generation"])
    if before is None or bundle.raw != before.raw:
        files.write_output(out, bundle.raw, 0o644)
    session.console.show(lambda: _document(out, bundle), lambda: _line(out, bundle))


def _with_generation(bundle: Bundle, before: Bundle | None, generation: int | None) -> Bundle:
    """Return a bundle with its ``generation``, a number by which machines refuse older versions of the bundle.

    For None it is one more than the generation of the bundle ``before``, which is to be replaced, or the same if both
    bundles have equal files. Without such a bundle it is 1.
    """
    if generation is not None or before is None:
        return bundle._replace(generation=generation or 1)
    same = bundle._replace(generation=before.generation)
    return same if same.raw == before.raw else bundle._replace(generation=before.generation + 1)


def _existing_bundle(path: str, name: str) -> Bundle | None:
    """Return the bundle that the new one replaces, for the next generation; None if there is no file.

    Raise ``UsageError`` for a file that is no bundle: it may be the user's own and is not overwritten.
    """
    try:
        return bundles.read(reading.read(path, bundles.LARGEST_FILE))
    except FileNotFoundError:
        return None
    except Untrusted as error:
        raise UsageError(f"{name}: is there and is no bundle: {error}; it is not replaced") from error


@_command("sign", "resource-api bundle sign site.bundle --key ~/.ssh/id_ed25519")
@_bundle
@click.option(
    "--key",
    "signing_key",
    required=True,
    metavar="FILE",
    type=options.Path(exists=True, dir_okay=False),
    help="A private SSH key; or a public one whose private key an agent for keys has.",
)
def sign(session: Session, path: str, signing_key: str, **_settings: object) -> None:
    """Sign BUNDLE with an SSH key; the signature is the file BUNDLE.sig."""
    raw = reading.read(os.path.realpath(path), bundles.LARGEST_FILE)
    with errors_as(Untrusted, Untrusted, f"{path}: "):
        bundle = bundles.read(raw)
    files.write_output(os.path.realpath(path) + trust.SIGNATURE_SUFFIX, trust.sign(raw, signing_key), 0o644)
    session.console.show(
        lambda: _document(path, bundle), lambda: f"{escape(path)}{trust.SIGNATURE_SUFFIX}: signs {_line(path, bundle)}"
    )


@_command("verify", "resource-api bundle verify site.bundle --signers signers")
@_bundle
@click.option(
    "--signers",
    required=True,
    metavar="FILE",
    type=options.Path(exists=True, dir_okay=False),
    help="Whose signatures count: an allowed_signers file of OpenSSH.",
)
def verify(session: Session, path: str, signers: str, **settings: Any) -> None:
    """Check that one of the signers has signed BUNDLE, and that its files are those that it lists."""
    allowed = trust.check_signers(signers, settings["trust_path"])
    with errors_as(Untrusted, Untrusted, f"{path}: "):
        raw, signature = bundles.read_signed(os.path.realpath(path))
        # In the agent's order: an archive is read only after its signature is verified.
        signer = trust.verify(raw, signature, allowed)
        bundle = bundles.read(raw)
    session.console.show(
        lambda: {**_document(path, bundle), "signer": signer}, lambda: f"{_line(path, bundle)}, by {escape(signer)}"
    )


def _document(path: str, bundle: Bundle) -> dict[str, Any]:
    """Return a bundle as ``--json`` shows it."""
    return {"bundle": path, "name": bundle.name, "generation": bundle.generation, "files": sorted(bundle.files)}


def _line(path: str, bundle: Bundle) -> str:
    """Return ``site.bundle: site, generation 3, 12 files``."""
    count = len(bundle.files)
    return f"{escape(path)}: {bundle.name}, generation {bundle.generation}, {counted(count, 'file')}"
