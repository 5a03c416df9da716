"""``resource``: list, show or change resources of one type, without a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import with_session
from resource_api.model.codec import plain
from resource_api.model.values.errors import ManifestError, UsageError, nearest
from resource_api.model.values.reference import Reference, capitalize_type
from resource_api.model.values.values import Sensitive, reveal
from resource_api.render import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.cli.session import Session
    from resource_api.model.type_definition import Name, TypeDefinition
    from resource_api.runtime.provider_selection import SelectedProvider


@options.command(
    examples=(
        "resource-api resource user root",
        "resource-api resource group > groups.yaml",
        "resource-api resource user root shell=/bin/sh --noop",
    )
)
@click.argument("type_name", metavar="TYPE")
@click.argument("name", required=False)
@click.argument("changes", metavar="[ATTR=VALUE]...", nargs=-1)
@click.option("--provider", metavar="NAME", help="A configured provider, of --manifest or of providers.yaml.")
@click.option("--manifest", type=click.Path(), help="The manifest that declares the provider.")
@click.option(
    "--config",
    "config",
    multiple=True,
    metavar="KEY=VALUE",
    help="Configure the provider; KEY=@FILE and KEY=env:NAME read the value; repeatable.",
)
@options.manifest_inputs
@options.noop
@options.strict
@options.detailed_exitcodes
@options.provider_calls
@with_session()
def resource(session: Session, type_name: str, name: str | None, changes: tuple[str, ...], **settings: Any) -> int:
    """List resources of TYPE, show the one called NAME, or change its attributes."""
    definition = session.find_definition(session.registry.type, type_name)
    if not definition.attributes:
        msg = f"{capitalize_type(definition.name)}: its type has functions and no resources"
        raise UsageError(msg)
    selected = session.reader.select(
        definition.name,
        provider=settings["provider"],
        manifest=settings["manifest"],
        inputs=options.inputs(settings)
        if any(settings[option] for option in ("given", "input_files", "provider"))
        else None,
        config=_configuration(definition, settings["config"]) if settings["config"] else None,
    )
    if selected is not None:
        definition = session.registry.type(definition.name, selected.version).for_instance(selected.instance)
    if name is None:
        return _list(session, definition, selected)
    given = _attributes(definition, name, changes)
    identity, code = _identity(session, definition, name, given, selected), 0
    if not given.keys() <= set(definition.namevars):
        code = _change(session, definition, Reference(definition.name, name), identity, given, selected=selected)
        if code not in {0, 2}:
            return code
    _show(session, definition, _read(session, definition, identity, selected))
    return code


def _list(session: Session, definition: TypeDefinition, selected: SelectedProvider | None) -> int:
    strict = session.settings["strict"]
    rows, failures = session.reader.read(definition.name, strict=strict, selected=selected)
    _show(session, definition, rows)
    for reference, why in failures.items():
        session.log.write("err", reference, why, definition.name, reference=reference, status="failed")
    return 1 if failures else 0


def _read(
    session: Session, definition: TypeDefinition, identity: Name, selected: SelectedProvider | None
) -> list[dict[str, Any]]:
    strict = session.settings["strict"]
    return session.reader.read_all(definition.name, [identity], strict=strict, selected=selected)


def _show(session: Session, definition: TypeDefinition, rows: Sequence[dict[str, Any]]) -> None:
    session.show(lambda: _documents(definition, rows), lambda: yaml.resources(definition, rows))


def _documents(definition: TypeDefinition, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [{"title": yaml.title(definition, row), **plain(row)} for row in rows]
    return sorted(found, key=lambda each: each["title"])


def _configuration(definition: TypeDefinition, pairs: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``--config``, coerced to each data type; a secret is never on the command line.

    Raise ``UsageError``.
    """
    from resource_api.model.datatypes import coerce as coercion  # noqa: PLC0415 - only with a configuration

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            msg = f"--config {key}: write KEY=VALUE, KEY=@FILE or KEY=env:NAME"
            raise UsageError(msg)
        if (attribute := definition.config.attributes.get(key)) is None:
            hint = nearest(key, definition.config.attributes)
            msg = f"--config: unknown configuration '{key}' of {capitalize_type(definition.name)}"
            raise UsageError(f"{msg}; {hint}" if hint else msg)
        value, hidden = options.indirect_value(f"--config {key}", text)
        if attribute.datatype.sensitive and not hidden:
            how = f"write {key}=@FILE or {key}=env:NAME"
            msg = f"--config {key}: it is sensitive and cannot be given on the command line; {how}"
            raise UsageError(msg)
        try:
            coerced = coercion.coerce(attribute.datatype, value)
        except ValueError as error:
            why = f"it must be {attribute.datatype.text}" if attribute.datatype.sensitive else str(error)
            msg = f"--config {key}: {why}"
            raise UsageError(msg) from error
        found[key] = Sensitive(coerced) if attribute.datatype.sensitive else coerced
    return found


def _identity(
    session: Session,
    definition: TypeDefinition,
    title: str,
    given: Mapping[str, Any],
    selected: SelectedProvider | None,
) -> Name:
    """Return the canonical name of a title of the command line, with the namevars among the ``given`` attributes."""
    from resource_api.model.datatypes import coerce as coercion  # noqa: PLC0415 - only for a name

    named = {key: value for key, value in given.items() if key in definition.namevars}
    captured = definition.namevars_from_title(title) if len(named) < len(definition.namevars) else {}
    row = {**(captured or {}), **named}
    if len(row) != len(definition.namevars):
        missing = ", ".join(namevar for namevar in definition.namevars if namevar not in row)
        msg = f"{Reference(definition.name, title)}: the title does not hold every namevar; add {missing} as ATTR=VALUE"
        raise UsageError(msg)
    try:
        for key in row.keys() - named.keys():
            if isinstance(row[key], str):
                row[key] = coercion.coerce(definition.attributes[key].datatype, row[key])
    except ValueError as error:
        msg = f"{Reference(definition.name, title)}: {error}"
        raise UsageError(msg) from error
    canonicalize = session.reader.tools(definition.name, selected).canonicalize
    return definition.name_of(canonicalize([row])[0] if canonicalize else row)


def _change(
    session: Session,
    definition: TypeDefinition,
    reference: Reference,
    identity: Name,
    given: Mapping[str, Any],
    *,
    selected: SelectedProvider | None,
) -> int:
    """Change one resource to the ``given`` attributes; return the exit code."""
    (row,) = _read(session, definition, identity, selected)
    # An existing resource must be declared with its mandatory attributes too.
    kept = {key: reveal(row[key]) for key in definition.mandatory if row.get(key) is not None}
    body = _escaped({**kept, **given})
    manifest: dict[str, Any] = {"resources": {str(reference): body}}
    if selected is not None:
        body["provider"], manifest["providers"] = selected.name, _escaped(selected.section)
    settings = session.settings
    try:
        report = session.runtime.change(manifest, noop=settings["noop"], strict=settings["strict"])
    except ManifestError as error:
        raise ManifestError([problem._replace(file="") for problem in error.problems]) from error
    session.log.write("info", "", str(report))
    return session.exit_code(report)


def _attributes(definition: TypeDefinition, name: str, changes: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``ATTR=VALUE`` pairs, coerced to each attribute's data type. Raise ``UsageError``."""
    from resource_api.model.datatypes import coerce as coercion  # noqa: PLC0415 - only for changes

    found: dict[str, Any] = {}
    for pair in changes:
        attribute, equals, text = pair.partition("=")
        if not equals:
            msg = f"'{pair}': write ATTR=VALUE"
            raise UsageError(msg)
        if attribute not in definition.attributes:
            hint = nearest(attribute, definition.attributes)
            msg = f"{Reference(definition.name, name)}: unknown attribute '{attribute}'" + (f"; {hint}" if hint else "")
            raise UsageError(msg)
        try:
            value = coercion.coerce(definition.attributes[attribute].datatype, text)
        except ValueError as error:
            msg = f"{Reference(definition.name, name)}: {attribute}: {error}"
            raise UsageError(msg) from error
        found[attribute] = value
    return found


def _escaped(value: Any) -> Any:
    """Return a value in which ``${`` is literal."""
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, Sensitive):
        return Sensitive(_escaped(value.reveal()))
    return value.replace("${", "$${") if isinstance(value, str) else value
