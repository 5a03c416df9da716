"""``resource``: list, show or change resources without a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from resource_api.cli import command_inputs, editor, options
from resource_api.cli.commands import LocalCall, run_on_hosts
from resource_api.cli.session import command
from resource_api.model.datatypes import from_text
from resource_api.model.values.errors import UsageError, hint
from resource_api.model.values.reference import capitalize_type
from resource_api.model.values.values import Sensitive
from resource_api.render import table, yaml_manifest
from resource_api.runtime import resource_selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.attribute import Attribute
    from resource_api.model.report import RunReport
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.runtime.configured_provider import SelectedProvider
    from resource_api.runtime.resource_selection import Listed, Rows
    from resource_api.runtime.single_resource import ResourceReader


@command(
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
@click.option("--edit", is_flag=True, help="Edit them in $VISUAL or $EDITOR, and apply the changes.")
@click.option("--provider", metavar="NAME", help="A configured provider, of --manifest or of providers.yaml.")
@click.option("--manifest", type=options.Path(), help="The manifest that declares the provider.")
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
@options.shared("strict", "detailed_exitcodes", "diff")
@options.provider_calls
@options.hosted
def resource(
    session: Session, type_name: str | None, name: str | None, changes: tuple[str, ...], **settings: object
) -> int:
    """List resources of TYPE, show the one called NAME, or change its attributes."""
    _check_options(session)
    if (code := run_on_hosts(session, "resource", type_name=type_name, name=name, changes=changes)) is not None:
        return code
    call = _Call(session, {"type_name": type_name, "name": name, "changes": changes, **settings})
    # A manifest on stdin can be read only once, which ``_Call.select`` does.
    manifest = str(settings["manifest"] or "") or None
    with session.providers_of(None if manifest == "-" else manifest):
        resources = resource_selection.find_resources(call)
    code = 0
    if resources.listed is not None:
        code = _show(session, resources.listed, resources.selected, listing=resources.is_listing)
    return code or resources.code


class _Call(LocalCall):
    """A call that this process answers, see ``resource_selection.ResourceCall``."""

    @property
    def reader(self) -> ResourceReader:
        """The reader of resources, with the types on the module path."""
        return self.session.reader

    def find_type(self, name: str) -> TypeDefinition:
        """Return the type of a name on the command line. Raise ``UsageError``."""
        return self.session.find_definition(self.session.registry.type, name)

    def select(self, definition: TypeDefinition) -> SelectedProvider | None:
        """Return the configured provider by ``--provider``, ``--manifest`` or ``--config``.

        Return None if no option selects one and the type has no configuration: its only provider is then used.
        """
        session, options = self.session, self.options
        session.warn_of_inputs()
        # Inputs are read only if they were given, or a declared provider may use them.
        has_inputs = any(options[option] for option in ("given", "input_files", "provider"))
        return session.reader.select(
            definition.name,
            provider=options["provider"],
            manifest=session.stdin_manifest() if options["manifest"] == "-" else options["manifest"],
            inputs=session.inputs.values if has_inputs else None,
            config=_configuration(definition, options["config"]) if options["config"] else None,
        )

    def secret(self, attribute: str, text: str) -> str:
        """Return the secret of ``@FILE`` or ``env:NAME``. Raise ``UsageError`` for any other text."""
        return command_inputs.secret_value(attribute, text)

    def report(self, report: RunReport) -> int:
        """Log the summary of a change and return the exit code.

        After a failure write the document of ``--json`` here: no resource is shown then, which would be that document.
        """
        self.session.log.write("info", "", str(report))
        code = self.session.exit_code(report)
        if code not in {0, 2}:  # 2: changed, with --detailed-exitcodes
            self.session.console.end_failed(report, code)
        return code


def _check_options(session: Session) -> None:
    """Raise ``UsageError`` for options that contradict each other; make ``--format json`` the same as ``--json``."""
    form = session.settings["form"]
    if form is not None and session.json and form != "json":
        raise UsageError(f"--json and --format {form} exclude each other")
    session.output.json = session.json or form == "json"
    if session.settings["edit"] and (form or session.json):
        raise UsageError("--edit shows YAML; leave out --format and --json")
    for option in ("edit", "manifest"):
        if session.settings[option] and session.settings["on"]:
            raise UsageError(f"--{option} is for this machine alone; leave out --on")
    if form == "yaml" and session.settings["on"]:
        raise UsageError("--format yaml shows a manifest of one machine; with --on write --format table, csv or json")


def _show(session: Session, listed: Listed, selected: SelectedProvider | None, *, listing: bool) -> int:
    """Show resources as a manifest or in the form of ``--format``, or edit them with ``--edit``; return the exit code.

    ``selected``: the provider of the command line, or None; the printed manifest declares it. A ``listing`` of a type
    must be applicable without a change, so resources that would be changed or refused are comments in it. A single
    resource is shown as it is.
    """
    settings = session.settings
    if settings["edit"]:
        return editor.edit_resources(session, listed, selected.section if selected is not None else {})
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
    """Return the configuration of a provider from ``--config KEY=VALUE``, coerced to each data type.

    Raise ``UsageError``, also for a secret on the command line, which other users can read.
    """
    config: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"--config {key}: write KEY=VALUE, KEY=@FILE or KEY=env:NAME")
        if (attribute := definition.config.attributes.get(key)) is None:
            near = hint(key, definition.config.attributes)
            raise UsageError(f"--config: unknown configuration '{key}' of {capitalize_type(definition.name)}{near}")
        config[key] = _config_value(attribute, f"--config {key}", text)
    return config


def _config_value(attribute: Attribute, option: str, text: str) -> object:
    """Return the value of ``--config KEY=`` for one attribute of a configuration, coerced to its data type.

    A secret is returned as ``Sensitive``, and no error shows it. ``option``: the option with the key, for errors.
    """
    datatype = attribute.datatype
    if datatype.sensitive:
        text = command_inputs.secret_value(option, text)
    elif (indirect := command_inputs.indirect_value(option, text)) is not None:
        text = indirect
    try:
        value = from_text.coerce(datatype, text, attribute.must_be)
    except ValueError as error:
        reason = f"it must be {datatype.text}" if datatype.sensitive else str(error)
        raise UsageError(f"{option}: {reason}") from error
    return Sensitive(value) if datatype.sensitive else value


def _show_documents(session: Session, listed: Listed, form: str) -> None:
    """Print resources as ``json``, ``csv`` or ``table``; on a terminal in the pager if they do not fit."""
    if session.json:
        session.output.print_json(resource_selection.documents(listed))
        return
    if form == "csv":
        lines = table.comma_separated(resource_selection.documents(listed), terminal=session.output.stdout.isatty())
    else:
        lines = _tables(listed, session.output.columns)
    session.output.print_paged(list(lines))


def _tables(listed: Listed, columns: int | None) -> Iterator[str]:
    """Yield the lines of one table for each type with resources, since types differ in their columns.

    If more than one type is listed, the type's name is above its table.
    """
    for number, (definition, rows) in enumerate(pair for pair in listed if pair[1]):
        if len(listed) > 1:
            if number:
                yield ""
            yield f"{capitalize_type(definition.name)}:"
        documents = resource_selection.documents([(definition, rows)])
        yield from table.table(_table_rows(definition, documents), columns)


def _table_rows(definition: TypeDefinition, rows: Rows) -> list[dict[str, object]]:
    """Return rows for a table, without secrets: title, namevars, other attributes, then read-only ones.

    A narrow terminal leaves out the last columns, hence the order. A single namevar has no column of its own: its value
    is the title.
    """
    namevars = definition.namevars if len(definition.namevars) > 1 else ()
    columns = [name for name in definition.attributes if name not in {*definition.namevars, *definition.sensitive}]
    read_only = definition.names_of_kind("read_only")
    writable_first = sorted(columns, key=lambda name: name in read_only)
    order = ["title", *namevars, *writable_first]
    return [{name: row.get(name) for name in order} for row in rows]
