"""``validate``, ``eval``, ``facts``, ``graph``: a manifest's values and relationships, without a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.commands import show_document
from resource_api.cli.session import command
from resource_api.manifest.read import STDIN
from resource_api.model.codec import plain
from resource_api.model.values.values import is_unknown
from resource_api.render import graph as rendering
from resource_api.render import text
from resource_api.render.plan import left_out_lines
from resource_api.runtime import commands
from resource_api.runtime.commands import expression_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from resource_api.cli.session import Session
    from resource_api.render.graph import Form
    from resource_api.runtime.manifest_compiler import Source


@command(examples=("resource-api validate site.yaml",))
@options.manifest
@options.manifest_inputs
@options.state
@options.hosted_reading
def validate(session: Session, manifest: str, **_settings: object) -> int:
    """Check everything in MANIFEST that can be checked without touching the system."""
    file = STDIN if manifest == "-" else manifest

    def lines(document: Mapping[str, Any]) -> Iterator[str]:
        yield f"{file} is {text.valid(document)}"
        yield from left_out_lines((part["reference"], part["why"]) for part in document["left_out"])

    return show_document(session, "validate", commands.validate, lines)


@command(examples=("resource-api eval '${inputs.port}' site.yaml", "resource-api eval '${facts.os.family}'"))
@click.argument("expression")
@click.argument("manifest", required=False, type=options.Path())
@options.manifest_inputs
@options.state
def eval(session: Session, expression: str, manifest: str | None, **_settings: object) -> None:  # noqa: A001 - its name
    """Show the value of EXPRESSION in MANIFEST; secrets are masked.

    Attributes of resources are those that are recorded. Without MANIFEST there are facts, recorded resources and
    outputs of stacks.
    """
    source = _empty_manifest(session) if manifest is None else session.source(manifest)
    result = expression_value(session.runtime, source, session.inputs.values, expression)
    value, terminal = plain(result), session.output.stdout.isatty()
    line = "(known after apply)" if is_unknown(result) else text.output(value, terminal=terminal)
    session.console.show(lambda: value, lambda: line)


def _empty_manifest(session: Session) -> Source:
    """Return an empty manifest for an expression without one; its project selects the recorded resources to read.

    The project is that of ``--project``, or the only one in state. With several in state, no resource can be read.
    """
    recorded = {name.project for name in session.runtime.store.stacks()}
    project = session.settings["project"] or (recorded.pop() if len(recorded) == 1 else "none")
    return {"project": project, "resources": {}}


@command(examples=("resource-api facts", "resource-api facts os.family", "resource-api facts os --on web"))
@click.argument("name", required=False, shell_complete=options.complete("facts"))
@options.hosted_reading
def facts(session: Session, name: str | None, **_settings: object) -> int:
    """Show the facts about this machine, or the one called NAME, as in ${facts.NAME}."""

    def lines(value: object) -> str | Iterable[str]:
        if isinstance(value, dict):
            return text.facts(value, name or "")
        return text.output(value, terminal=session.output.stdout.isatty())

    return show_document(session, "facts", commands.facts, lines, name=name)


@command(
    examples=(
        "resource-api graph site.yaml --format dot > site.dot",
        "resource-api graph site.yaml --format html > site.html",
    )
)
@options.manifest
@click.option(
    "--format", "form", type=options.Choice(("dot", "mermaid", "json", "html")), default="dot", help="How to write it."
)
@options.manifest_inputs
@options.state
def graph(session: Session, manifest: str, form: Form, **_settings: object) -> None:
    """Print the relationships in MANIFEST."""
    catalog = session.runtime.compile(session.source(manifest), session.inputs.values)
    session.output.print(rendering.render(catalog, "json" if session.json else form).rstrip("\n"))
