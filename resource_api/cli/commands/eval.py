"""``eval``: what an expression of a manifest comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import given_inputs, options
from resource_api.cli.session import with_session
from resource_api.model.codec import plain
from resource_api.model.values.values import is_unknown
from resource_api.render import text
from resource_api.runtime.expression_value import expression_value

if TYPE_CHECKING:
    from resource_api.cli.session import Session
    from resource_api.runtime.manifest_compiler import Source


@options.command(
    examples=("resource-api eval '${inputs.port}' site.yaml", "resource-api eval '${facts.os.family}'"),
)
@click.argument("expression")
@click.argument("manifest", required=False, type=click.Path())
@options.manifest_inputs
@options.state
@options.common
@with_session()
def eval(session: Session, expression: str, manifest: str | None, **_settings: Any) -> None:  # noqa: A001 - its name
    """Show what EXPRESSION comes to in MANIFEST; secrets are masked.

    Attributes of resources are those that are recorded. Without MANIFEST there are facts, recorded resources and
    outputs of stacks.
    """
    source = _without_manifest(session) if manifest is None else session.source(manifest)
    found = expression_value(session.runtime, source, given_inputs.inputs(session.settings), expression)
    value = plain(found)
    if is_unknown(found):
        session.show(lambda: value, lambda: "(known after apply)")
    else:
        session.show(lambda: value, lambda: text.output(value, terminal=session.output.stdout.isatty()))


def _without_manifest(session: Session) -> Source:
    """Return an empty manifest, of the only recorded project unless one is named."""
    recorded = {name.project for name in session.runtime.store.stacks()}
    project = session.settings["project"] or (recorded.pop() if len(recorded) == 1 else "none")
    return {"project": project, "resources": {}}
