"""``resource``: list, show or change resources without a manifest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import given_inputs, options
from resource_api.cli.commands import run_on_hosts
from resource_api.cli.session import with_session
from resource_api.model.datatypes import from_text
from resource_api.model.values.errors import UsageError, hint
from resource_api.model.values.reference import Reference, capitalize_type
from resource_api.model.values.values import Sensitive
from resource_api.render import yaml_manifest
from resource_api.runtime import resource_access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.options import Settings
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.resource_selection import Listed, Rows

    #: Returns the canonical name of the only resource, in a list.
    Identity = Callable[[ProviderFunctions], list[Name]]


@options.command(
    examples=(
        "resource-api resource user root",
        "resource-api resource group > groups.yaml",
        "resource-api resource user root shell=/bin/sh --noop",
        "resource-api resource user --filter 'uid >= 1000' --format table",
    )
)
@click.argument("type_name", metavar="[TYPE,...]", required=False, shell_complete=options.complete("type_list"))
@click.argument("name", required=False, shell_complete=options.complete("resource_names"))
@click.argument("changes", metavar="[ATTR=VALUE]...", nargs=-1, shell_complete=options.complete("attributes"))
@click.option("--all", "every_type", is_flag=True, help="List the resources of every type that can be listed.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="'ATTR OP VALUE'",
    help="Only these resources; OP is one of = != < <= > >= ~; repeatable.",
)
@click.option("--format", "form", type=options.Choice(["yaml", "json", "table", "csv"]), help="How to write them.")
@click.option("--edit", is_flag=True, help="Edit them in $VISUAL or $EDITOR, and apply what has been changed.")
@click.option("--provider", metavar="NAME", help="A configured provider, of --manifest or of providers.yaml.")
@click.option("--manifest", type=click.Path(), help="The manifest that declares the provider.")
@click.option(
    "--config",
    "config",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=options.complete("configuration"),
    help="Configure the provider; KEY=@FILE and KEY=env:NAME read the value; repeatable.",
)
@options.manifest_inputs
@options.noop
@options.strict
@options.detailed_exitcodes
@options.diff
@options.provider_calls
@options.hosted
@with_session()
def resource(
    session: Session, type_name: str | None, name: str | None, changes: tuple[str, ...], **settings: Any
) -> int:
    """List resources of TYPE, show the one called NAME, or change its attributes."""
    _check_form(session)
    if (code := run_on_hosts(session, "resource", type_name=type_name, name=name, changes=changes)) is not None:
        return code
    if settings["every_type"] or any(mark in (type_name or ",") for mark in ",*?"):
        return _list_types(session, type_name, several=name is None)
    definition = session.find_definition(session.registry.type, type_name or "")
    session.warn_of_inputs()
    selected = _selected_provider(session, definition)
    if selected is not None:
        definition = session.registry.type(definition.name, selected.version).for_instance(selected.instance)
    if settings["filters"]:
        from resource_api.runtime.resource_selection import filter_tests

        filter_tests(settings["filters"], [definition])  # before anything is read
    attributes: Mapping[str, object] = {}
    if name is not None:
        name, attributes = resource_access.parse_name(definition, name, changes, given_inputs.secret_value)
    if name is None or (any(mark in name for mark in "*?") and not attributes.keys() >= set(definition.namevars)):
        return _list(session, definition, selected, name, changes)
    identity, code = partial(resource_access.canonical_identity, definition, name, attributes), 0
    if not attributes.keys() <= set(definition.namevars):
        _refuse_with_changes(settings)
        code = _change(session, definition, Reference(definition.name, name), identity, attributes, selected=selected)
        if code not in {0, 2}:
            return code
    rows = _read(session, definition, identity, selected)
    return _finish(session, [(definition, rows)], None, selected) or code


def _selected_provider(session: Session, definition: TypeDefinition) -> SelectedProvider | None:
    """Return the configured provider that the options select, or None. Raise ``UsageError``."""
    settings = session.settings
    has_inputs = any(settings[option] for option in ("given", "input_files", "provider"))
    return session.reader.select(
        definition.name,
        provider=settings["provider"],
        manifest=session.stdin_manifest() if settings["manifest"] == "-" else settings["manifest"],
        inputs=session.inputs.values if has_inputs else None,
        config=_configuration(definition, settings["config"]) if settings["config"] else None,
    )


def _check_form(session: Session) -> None:
    """Raise ``UsageError`` where ``--format`` contradicts another option; ``--format json`` is ``--json``."""
    form = session.settings["form"]
    if form is not None and session.json and form != "json":
        msg = f"--json and --format {form} exclude each other"
        raise UsageError(msg)
    session.output.json = session.json or form == "json"
    if session.settings["edit"] and (form or session.json):
        msg = "--edit shows YAML; leave out --format and --json"
        raise UsageError(msg)


def _refuse_with_changes(settings: Settings) -> None:
    for option in ("filters", "edit"):
        if settings[option]:
            msg = f"--{option.removesuffix('s')} cannot be combined with ATTR=VALUE"
            raise UsageError(msg)


def _list_types(session: Session, text: str | None, *, several: bool) -> int:
    """List several types, or all that can be listed; return the exit code. Raise ``UsageError``."""
    from resource_api.runtime import resource_selection

    every_type, settings = session.settings["every_type"], session.settings
    if every_type and text is not None:
        msg = "--all lists every type; leave out TYPE, or --all"
        raise UsageError(msg)
    if option := next((name for name in ("provider", "manifest", "config") if settings[name]), None):
        msg = f"--{option} needs exactly one TYPE"
        raise UsageError(msg)
    if not several:
        msg = "NAME and ATTR=VALUE need exactly one TYPE"
        raise UsageError(msg)
    reader = session.reader
    definitions, explicit = resource_selection.find_types(reader, "*" if every_type else text or "")
    resource_selection.filter_tests(settings["filters"], definitions)
    listed, complete = resource_selection.read_types(reader, definitions, explicit, strict=settings["strict"])
    code = _finish(session, listed, None, None, listing=True)
    return code if complete else code or 1


def _list(
    session: Session,
    definition: TypeDefinition,
    selected: SelectedProvider | None,
    pattern: str | None,
    changes: Sequence[str],
) -> int:
    if changes:
        msg = f"'{pattern}' is a pattern, and ATTR=VALUE changes one resource; give {definition.namevars[0]}=NAME too"
        raise UsageError(msg)
    strict = session.settings["strict"]
    rows, failures = session.reader.read(definition.name, strict=strict, selected=selected)
    code = _finish(session, [(definition, rows)], pattern, selected, listing=True)
    for reference, error in failures.items():
        session.log.write("err", reference, error, definition.name, reference=reference, status="failed")
    return code or (1 if failures else 0)


def _read(
    session: Session, definition: TypeDefinition, identity: Identity, selected: SelectedProvider | None
) -> list[dict[str, object]]:
    """Return the only resource; one instance of its provider canonicalizes its name and reads it."""
    strict = session.settings["strict"]
    return session.reader.read_all(definition.name, identity, strict=strict, selected=selected)


def _finish(
    session: Session, listed: Listed, pattern: str | None, selected: SelectedProvider | None, *, listing: bool = False
) -> int:
    """Show the resources that the options select, or edit them; return the exit code.

    A ``listing`` can be applied without a change: resources that would be changed or refused are comments in it. One
    resource is shown as it is.
    """
    settings = session.settings
    if pattern or settings["filters"]:
        from resource_api.runtime.resource_selection import select_resources

        listed = select_resources(listed, pattern, settings["filters"])
    if settings["edit"]:
        from resource_api.cli.resource_edit import edit

        return edit(session, listed, selected.section if selected is not None else {})
    if session.json or settings["form"] not in (None, "yaml"):
        _show_documents(session, listed, settings["form"] or "json")
        return 0
    unlisted: dict[str, str] = {}
    for definition, rows in listed if listing else ():
        unlisted |= session.reader.unlisted(definition, rows, selected)
    declared = {} if selected is None else selected.declared
    session.output.print_paged(list(yaml_manifest.manifest(listed, unlisted, declared)))
    return 0


def _configuration(definition: TypeDefinition, pairs: Sequence[str]) -> dict[str, object]:
    """Return the values of ``--config``, coerced to each data type. Raise ``UsageError``, also for a visible secret."""
    config: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            msg = f"--config {key}: write KEY=VALUE, KEY=@FILE or KEY=env:NAME"
            raise UsageError(msg)
        if (attribute := definition.config.attributes.get(key)) is None:
            near = hint(key, definition.config.attributes)
            msg = f"--config: unknown configuration '{key}' of {capitalize_type(definition.name)}{near}"
            raise UsageError(msg)
        sensitive = attribute.datatype.sensitive
        value = (given_inputs.secret_value if sensitive else given_inputs.indirect_value)(f"--config {key}", text)
        try:
            coerced = from_text.coerce(attribute.datatype, text if value is None else value, attribute.must_be)
        except ValueError as error:
            reason = f"it must be {attribute.datatype.text}" if sensitive else str(error)
            msg = f"--config {key}: {reason}"
            raise UsageError(msg) from error
        config[key] = Sensitive(coerced) if sensitive else coerced
    return config


def _change(
    session: Session,
    definition: TypeDefinition,
    reference: Reference,
    identity: Identity,
    attributes: Mapping[str, object],
    *,
    selected: SelectedProvider | None,
) -> int:
    """Change the ``attributes`` of one resource; return the exit code."""
    (row,) = _read(session, definition, identity, selected)
    execution = {name: session.settings[name] for name in ("noop", "strict")}
    report = session.runtime.change_resource(definition, reference, row, attributes, selected=selected, **execution)
    session.log.write("info", "", str(report))
    code = session.exit_code(report)
    if code not in {0, 2}:
        session.console.end_failed(report, code)
    return code


def _show_documents(session: Session, listed: Listed, form: str) -> None:
    """Print resources as ``json``, ``csv`` or ``table``; on a terminal in the pager if they do not fit."""
    from resource_api.render import table
    from resource_api.runtime.resource_selection import documents

    if session.json:
        session.output.print_json(documents(listed))
        return
    if form == "csv":
        lines = table.comma_separated(documents(listed), terminal=session.output.stdout.isatty())
    else:
        tables = ((definition, _table_rows(definition, documents([(definition, rows)]))) for definition, rows in listed)
        lines = _tables(list(tables), lambda rows: table.table(rows, session.output.columns))
    session.output.print_paged(list(lines))


def _tables(listed: Listed, lay_out: Callable[[Rows], Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table for each type that has resources, with several types below its name."""
    for number, (definition, rows) in enumerate(pair for pair in listed if pair[1]):
        if len(listed) > 1:
            yield from [""] * bool(number)
            yield f"{capitalize_type(definition.name)}:"
        yield from lay_out(rows)


def _table_rows(definition: TypeDefinition, rows: Rows) -> list[dict[str, object]]:
    """Return rows with their columns in order: title, namevars, other attributes, read-only ones; without secrets."""
    namevars = definition.namevars if len(definition.namevars) > 1 else ()
    columns = [name for name in definition.attributes if name not in {*definition.namevars, *definition.sensitive}]
    read_only = definition.names_of_kind("read_only")
    order = ["title", *namevars, *sorted(columns, key=read_only.__contains__)]
    return [{name: row.get(name) for name in order} for row in rows]
