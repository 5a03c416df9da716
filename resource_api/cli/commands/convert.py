"""``convert``: print the manifest of a playbook of Ansible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from resource_api.cli import options
from resource_api.cli.session import command
from resource_api.model.values.errors import UsageError
from resource_api.model.values.text import counted
from resource_api.runtime.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.cli.session import Session
    from resource_api.convert.conversion import Conversion


@command(examples=("resource-api convert playbook.yml > site.yaml", "resource-api convert playbook.yml --json"))
@click.argument("playbook", type=options.Path())
def convert(session: Session, playbook: str, **_settings: object) -> int:
    """Print a manifest that does what the Ansible PLAYBOOK does; nothing is changed.

    A comment names each task that is not converted, and the reason; the exit code is then 1.
    """
    try:
        from resource_api.convert import conversion
    except ImportError as error:
        msg = f"convert needs the Python module jinja2 (pip install 'resource-api[templates]'): {error}"
        raise UsageError(msg) from None
    converted = conversion.convert(playbook, Runtime(session.registry, state="memory:", run=session.run))
    session.console.show(lambda: _document(converted), lambda: converted.manifest.rstrip("\n"))
    if not session.json:
        for line in _summary(converted):
            session.log.write("warning" if converted.remarks else "notice", "", line)
    return int(bool(converted.remarks))


def _document(converted: Conversion) -> dict[str, object]:
    """Return the outcome of a conversion as ``--json`` shows it, with the tasks that no resource replaces."""
    remarks = [
        {"file": row.location.file, "line": row.location.line, "task": row.title, "reason": row.reason}
        for row in converted.remarks
    ]
    return {
        "manifest": converted.manifest,
        "tasks": converted.tasks,
        "resources": converted.resources,
        "modules": converted.modules,
        "not_converted": remarks,
    }


def _summary(converted: Conversion) -> Iterator[str]:
    """Yield a line for each task that was not converted, which the user must convert, and one with the counts."""
    yield from map(str, converted.remarks)
    yield (
        f"{counted(converted.tasks, 'task')}: {counted(converted.resources, 'resource')},"
        f" {converted.modules} of them by ansible_module;"
        f" not converted: {len(converted.remarks)}"
    )
