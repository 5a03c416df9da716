"""``inputs``: show the inputs of a manifest, and edit encrypted files of inputs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import options
from resource_api.cli.editor import edit_until_valid
from resource_api.cli.help import DefaultingGroup
from resource_api.cli.session import subcommand
from resource_api.manifest.input_files import located_values, reader_of, without_text
from resource_api.model.values.document import AGE
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.errors import ManifestError, ResourceAPIError, ResourceError, UsageError
from resource_api.model.values.text import counted, escape
from resource_api.model.values.text import show as show_value
from resource_api.render.columns import padded, width
from resource_api.runtime.commands import list_inputs
from resource_api.system import age
from resource_api.system.filesystem import edit as edit_file
from resource_api.system.process import core_dumps, interactive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.cli.session import Session
    from resource_api.runtime.commands import InputValue

#: The width up to which places stand in one column.
_WIDEST: Final = 60
#: Ends the name of the file with the recipients of an encrypted file.
_RECIPIENTS: Final = ".recipients"
#: The text of a new file before it is edited.
_NEW: Final = "# NAME: VALUE\n"


@click.group(
    cls=DefaultingGroup,
    default="show",
    examples=("resource-api inputs site.yaml", "resource-api inputs site.yaml --stack production"),
)
def inputs() -> None:
    """Show the inputs of a manifest, and where each is from; edit encrypted files of inputs."""


@subcommand(inputs, "show", examples=("resource-api inputs show site.yaml",))
@options.manifest
@options.manifest_inputs
@options.shared("stack")
def show_inputs(session: Session, manifest: str, **_settings: object) -> None:
    """Show the value of each input of MANIFEST, and where it is from; secrets are masked."""
    values = list_inputs(session.runtime, session.source(manifest), session.inputs.values, session.inputs.located)
    session.console.show(
        lambda: [{**value._asdict(), "place": value.place or None} for value in values], lambda: _input_lines(values)
    )


def _input_lines(values: Sequence[InputValue]) -> Iterator[str]:
    """Yield a line ``NAME: VALUE  SOURCE`` for each input; the sources are in one column.

    Values wider than ``_WIDEST`` do not count for the column, which one long value would move off the screen.
    """
    cells = [f"{escape(value.name)}: {show_value(value.value) if value.place else '(not given)'}" for value in values]
    column = max((cell_width for cell_width in map(width, cells) if cell_width <= _WIDEST), default=0)
    for cell, value in zip(cells, values, strict=True):
        yield f"{padded(cell, column)}  {escape(value.place)}".rstrip()


@subcommand(inputs, "edit", examples=("resource-api inputs edit stacks/production.yaml.age",))
@click.argument("file", type=options.Path(dir_okay=False))
@options.inputs_key
def edit(session: Session, file: str, **_settings: object) -> None:
    """Edit the encrypted FILE in $VISUAL or $EDITOR, and encrypt it again for the recipients in FILE.recipients.

    The text is in memory only. A FILE that does not exist is created.
    """
    if not file.endswith(AGE):
        raise UsageError(f"{file}: an encrypted file ends in {AGE}; another can be edited as it is")
    core_dumps.forbid()
    recipients = _recipients(session, file)
    path = os.path.abspath(file)
    with errors_as(UsageError, OSError, f"cannot read {file}: "):
        encrypted = edit_file.read_content(path)
    text = _NEW
    if encrypted is not None:
        text = session.inputs.reader.decrypt(encrypted, file).decode(errors="surrogateescape")
    edited = _edit_text(session, file, text)
    if edited is None:
        session.console.show(lambda: {"file": file, "written": False}, list)
        return
    # The encrypted file keeps its form: armoured text, or bytes.
    armoured = (encrypted or b"").startswith(age.ARMOUR)
    _replace(path, encrypted, age.encrypt(edited.encode(errors="surrogateescape"), recipients, armoured=armoured))
    _warn_of_lost_key(session, path, file)
    count = counted(len(recipients), "recipient")
    session.console.show(lambda: {"file": file, "written": True}, lambda: f"{escape(file)}: encrypted for {count}.")


def _recipients(session: Session, file: str) -> Sequence[object]:
    """Return the recipients of an encrypted file, whose keys can open it after the edit.

    Raise ``UsageError`` if there are none: nobody could open it again. Warn if other users can change them.
    """
    path = file + _RECIPIENTS
    if not os.path.lexists(path):
        advice = "write the recipients into it, one a line; the file of your key names it"
        raise UsageError(f"{path} is missing, so nobody could open {file} again: {advice}")
    if writers := session.registry.trust.who_can_change(path):
        session.log.write("warning", path, f"others can change these recipients, and read the file then: {writers}")
    if recipients := age.read_recipients(path):
        return recipients
    raise UsageError(f"{path}: there is no recipient in it")


def _edit_text(session: Session, file: str, text: str) -> str | None:
    """Let the user edit the decrypted text of a file of inputs until it is valid; return it, or None without a change.

    The text is secret: the editor's file is in a directory in memory, never on a disk, and the ``ManifestError`` for a
    mistake that the user leaves uncorrected does not quote the text.
    """

    def accept(edited: str) -> str:
        """Return the edited text. Raise ``ManifestError`` unless it is a valid file of inputs."""
        located_values(reader_of(file)(edited.encode(errors="surrogateescape"), file))
        return edited

    try:
        uneditable = errors_as(ResourceAPIError, OSError, f"{file} cannot be edited: ")
        with uneditable, interactive.memory_directory() as directory:
            path = f"{directory}/{os.path.basename(file).removesuffix(AGE)}"
            return edit_until_valid(session, "inputs edit", path, text, accept)
    except ManifestError as error:
        raise without_text(error) from None  # the text is secret


def _replace(path: str, before: bytes | None, after: bytes) -> None:
    """Replace an encrypted file's content ``before``, which was edited, by ``after``, atomically.

    Raise ``ResourceError``, also if the file has changed meanwhile: the edit must not undo that change.
    """

    def change(content: bytes) -> bytes:
        """Return the new content. Raise ``ResourceError`` if the present ``content`` is not the edited one."""
        if content != (before or b""):
            raise ResourceError(f"{path} was changed while it was edited, and is left as it is; edit it again")
        return after

    with errors_as(ResourceError, OSError, f"{path} cannot be written: "):
        edit_file.edit(path, change, mode=0o600)


def _warn_of_lost_key(session: Session, path: str, file: str) -> None:
    """Warn if the key of ``--inputs-key`` does not open the file that was just encrypted for FILE.recipients.

    The user could not edit that file again with this key.
    """
    identities = session.settings["inputs_key"]
    try:
        if identities is not None:
            identities.decrypt(edit_file.read_content(path) or b"")
    except ValueError:
        text = f"the key age:{identities.path} does not open it any more: it is not in {file}{_RECIPIENTS}"
        session.log.write("warning", file, text)
