"""``resource``: list, show or change resources of one type, without a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from resource_api.cli import options
from resource_api.cli.session import Session, named
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ManifestError, UsageError, nearest
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import reveal
from resource_api.render import json as documents
from resource_api.render import yaml as yaml_writer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from resource_api.model.type_definition import Name, TypeDefinition


class Wish(NamedTuple):
    """What one resource is to be like: as it is called here, who it is, and what is given of it."""

    title: str
    identity: Name
    given: Mapping[str, Any]


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.argument("name", required=False)
@click.argument("changes", metavar="[ATTR=VALUE]...", nargs=-1)
@options.noop
@click.option(
    "--strict",
    type=click.Choice(["error", "warning", "off"]),
    default="error",
    help="How far providers are held to their word.",
)
@click.option("--detailed-exitcodes", is_flag=True, help="2: changed, 4: failures, 6: both.")
@options.stacked
@options.isolate
@options.common
def resource(type_name: str, name: str | None, changes: tuple[str, ...], **settings: Any) -> int:
    """List resources of TYPE, show the one called NAME, or change its attributes."""
    session = Session(settings)

    def work() -> int:
        definition = named(session.registry.type, type_name)
        if name is None:
            return _list(session, definition)
        given = _attributes(definition, name, changes)
        identity, code = _identity(session, definition, name, given), 0
        if not given.keys() <= set(definition.namevars):
            code = _change(session, definition, Wish(name, identity, given))
            if code not in {0, 2}:
                return code
        _show(session, definition, _read(session, definition, identity))
        return code

    return session.carry(work)


def _list(session: Session, definition: TypeDefinition) -> int:
    rows, failures = session.reader.read(definition.name, strict=session.settings["strict"])
    _show(session, definition, rows)
    for reference, why in failures.items():
        session.log.write("err", reference, why)
    return 1 if failures else 0


def _read(session: Session, definition: TypeDefinition, identity: Name) -> list[dict[str, Any]]:
    return session.reader.resources(definition.name, [identity], strict=session.settings["strict"])


def _show(session: Session, definition: TypeDefinition, rows: Sequence[dict[str, Any]]) -> None:
    if session.json:
        session.print_json(
            [
                {"title": yaml_writer.title(definition, row), **documents.plain(row)}
                for row in sorted(rows, key=lambda row: yaml_writer.title(definition, row))
            ]
        )
    else:
        session.print(yaml_writer.resources(definition, rows))


def _identity(session: Session, definition: TypeDefinition, title: str, given: Mapping[str, Any]) -> Name:
    """Give the canonical name that a title on the command line means, with the namevars ``given`` beside it."""
    from resource_api.model.datatypes import coerce as coercion  # noqa: PLC0415 - only for a name

    named = {key: value for key, value in given.items() if key in definition.namevars}
    captured = definition.namevars_from_title(title) if len(named) < len(definition.namevars) else {}
    row = {**(captured or {}), **named}
    if len(row) != len(definition.namevars):
        missing = ", ".join(namevar for namevar in definition.namevars if namevar not in row)
        msg = f"{Reference(definition.name, title)}: the title does not say every namevar; add {missing} as ATTR=VALUE"
        raise UsageError(msg)
    try:
        for key in row.keys() - named.keys():
            if isinstance(row[key], str):
                row[key] = coercion.coerce(definition.attributes[key].datatype, row[key])
    except ValueError as error:
        msg = f"{Reference(definition.name, title)}: {error}"
        raise UsageError(msg) from error
    canonicalize = session.reader.tools(definition.name).canonicalize
    return definition.name_of(canonicalize([row])[0] if canonicalize else row)


def _change(session: Session, definition: TypeDefinition, wish: Wish) -> int:
    from resource_api.render import text as render  # noqa: PLC0415 - only for changes

    (row,) = _read(session, definition, wish.identity)
    # Of what exists only what is given is needed.
    kept = {key: reveal(row[key]) for key in definition.mandatory if row.get(key) is not None}
    reference = Reference(definition.name, wish.title)
    manifest = {"resources": {str(reference): _escaped({**kept, **wish.given})}}
    wishes = {key: session.settings[key] for key in ("noop", "strict")}
    try:
        report = session.runtime.change(manifest, **wishes)
    except ManifestError as error:
        raise ManifestError([problem._replace(file="") for problem in error.problems]) from error
    session.log.write("info", "", render.report(report))
    return session.exit_code(report, detailed=session.settings["detailed_exitcodes"])


def _attributes(definition: TypeDefinition, name: str, changes: Sequence[str]) -> dict[str, Any]:
    """Read ``ATTR=VALUE`` pairs; text is coerced to each attribute's data type."""
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
    """Give a value in which nothing is read as a reference."""
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    return value.replace("${", "$${") if isinstance(value, str) else value
