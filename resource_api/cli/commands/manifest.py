"""``validate``, ``eval``, ``facts``, ``graph``: a manifest's values and relationships, without a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from resource_api.cli import options
from resource_api.cli.commands import run_on_hosts
from resource_api.cli.session import with_session
from resource_api.model.codec import plain
from resource_api.model.values.errors import ResourceAPIError, hint
from resource_api.model.values.text import escape
from resource_api.model.values.text import show as show_value
from resource_api.model.values.values import is_unknown
from resource_api.render import graph as rendering
from resource_api.render import json as documents
from resource_api.render import text
from resource_api.render.plan import left_out_lines
from resource_api.runtime.manifest_values import expression_value
from resource_api.system.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api.catalog.compile import Catalog
    from resource_api.cli.session import Session
    from resource_api.render.graph import Form
    from resource_api.runtime.manifest_compiler import Source


@options.command(examples=("resource-api validate site.yaml",))
@options.manifest
@options.manifest_inputs
@options.state
@options.common
@options.hosted
@with_session()
def validate(session: Session, manifest: str, **_settings: object) -> int:
    """Check everything in MANIFEST that can be checked without touching the system."""
    if (code := run_on_hosts(session, "validate", manifest)) is not None:
        return code
    catalog = session.runtime.validate(session.source(manifest), session.inputs.values)
    session.console.show(
        lambda: documents.validity(catalog, session.console.warnings()),
        lambda: _validity(catalog),
    )
    return 0


def _validity(catalog: Catalog) -> Iterator[str]:
    """Yield the number of resources of a valid manifest, and what is left out of it."""
    count = len(catalog.entries)
    yield f"{catalog.manifest.file} is valid: {count} resource{'' if count == 1 else 's'}."
    yield from left_out_lines((part.name, part.why) for part in catalog.left_out.all)


@options.command(
    examples=("resource-api eval '${inputs.port}' site.yaml", "resource-api eval '${facts.os.family}'"),
)
@click.argument("expression")
@click.argument("manifest", required=False, type=click.Path())
@options.manifest_inputs
@options.state
@options.common
@with_session()
def eval(session: Session, expression: str, manifest: str | None, **_settings: object) -> None:  # noqa: A001 - its name
    """Show the value of EXPRESSION in MANIFEST; secrets are masked.

    Attributes of resources are those that are recorded. Without MANIFEST there are facts, recorded resources and
    outputs of stacks.
    """
    source = _without_manifest(session) if manifest is None else session.source(manifest)
    result = expression_value(session.runtime, source, session.inputs.values, expression)
    value = plain(result)
    if is_unknown(result):
        session.console.show(lambda: value, lambda: "(known after apply)")
    else:
        session.console.show(lambda: value, lambda: text.output(value, terminal=session.output.stdout.isatty()))


def _without_manifest(session: Session) -> Source:
    """Return an empty manifest, of the only recorded project unless one is named."""
    recorded = {name.project for name in session.runtime.store.stacks()}
    project = session.settings["project"] or (recorded.pop() if len(recorded) == 1 else "none")
    return {"project": project, "resources": {}}


@options.command(examples=("resource-api facts", "resource-api facts os.family", "resource-api facts os --json"))
@click.argument("name", required=False, shell_complete=options.complete("facts"))
@options.common
@with_session()
def facts(session: Session, name: str | None, **_settings: object) -> None:
    """Show the facts about this machine, or the one called NAME, as in ${facts.NAME}."""
    value = _all_facts() if name is None else _find_fact(name)
    if isinstance(value, dict):
        session.console.show(lambda: value, lambda: _fact_lines(value, name or ""))
    else:
        session.console.show(lambda: value, lambda: text.output(value, terminal=session.output.stdout.isatty()))


def _all_facts() -> dict[str, object]:
    facts = Facts()
    return {name: facts[name] for name in facts.names()}


def _find_fact(name: str) -> object:
    """Return the fact of a dotted name. Raise ``ResourceAPIError``, with the nearest name, for an unknown one."""
    facts = Facts()
    root, *keys = name.split(".")
    value: object = facts[root] if root in facts.names() else None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if value is not None:
        return value
    names = [facts for facts, _ in _dotted_facts(_all_facts(), "")]
    msg = f"there is no fact '{name}'{hint(name, names, 'fact')}"
    raise ResourceAPIError(msg)


def _fact_lines(facts: dict[str, object], above: str) -> Iterator[str]:
    """Yield ``os.name: Debian`` for each fact that is no mapping."""
    for name, value in _dotted_facts(facts, above):
        if not isinstance(value, dict):
            yield f"{escape(name)}: {show_value(value)}"


def _dotted_facts(facts: dict[str, object], above: str) -> Iterator[tuple[str, object]]:
    """Yield each fact by its dotted name, a mapping before its members."""
    for key, value in facts.items():
        name = f"{above}.{key}" if above else key
        yield name, value
        if isinstance(value, dict):
            yield from _dotted_facts(value, name)


_FORMS: Final = ("dot", "mermaid", "json", "html")


@options.command(
    examples=(
        "resource-api graph site.yaml --format dot > site.dot",
        "resource-api graph site.yaml --format html > site.html",
    )
)
@options.manifest
@click.option("--format", "form", type=options.Choice(_FORMS), default="dot", help="How to write it.")
@options.manifest_inputs
@options.state
@options.common
@with_session()
def graph(session: Session, manifest: str, form: Form, **_settings: object) -> None:
    """Print the relationships in MANIFEST."""
    catalog = session.runtime.compile(session.source(manifest), session.inputs.values)
    session.output.print(rendering.render(catalog, "json" if session.json else form).rstrip("\n"))
