"""The identity of a resource: its namevars, also from its title, its canonical name, and that no other one has it.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.provider_functions import canonical_name
from resource_api.model.values.text import show
from resource_api.model.values.values import is_secret, is_unknown

if TYPE_CHECKING:
    from resource_api.catalog.diagnostics import Diagnostics
    from resource_api.catalog.entries import ResourceTable
    from resource_api.catalog.expression_scope import Scope
    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name


def add_namevars(entry: Entry, given: dict[str, Any], diagnostics: Diagnostics) -> None:
    """Add the namevars that are not given, from the title (Puppet Resource API, "Composite namevars").

    ``given``: the declared attributes of ``entry``. A title that matches no pattern, and a namevar that is in neither,
    are reported.
    """
    definition = entry.definition
    if None not in map(given.get, definition.namevars):
        return
    if definition.title_is_name and "${" not in entry.title:
        given[definition.namevars[0]] = entry.title
        return
    captured = definition.namevars_from_title(entry.title)
    if captured is None:
        patterns = " or ".join(regex.pattern for regex in definition.title_regexes)
        diagnostics.resource_error(entry, None, f"the title matches no title pattern ({patterns})", "title")
        return
    for namevar in definition.namevars:
        if given.get(namevar) is not None:
            continue
        attribute = definition.attributes[namevar]
        if namevar in captured:
            value = captured[namevar]
            # The title has been evaluated already: its text is never an expression again.
            given[namevar] = value.replace("${", "$${") if isinstance(value, str) else value
        elif not attribute.datatype.optional and not attribute.has_default:
            diagnostics.resource_error(entry, None, f"the namevar '{namevar}' is missing", "missing_attribute")


def identify(entry: Entry, table: ResourceTable, diagnostics: Diagnostics, scope: Scope) -> None:
    """Set the canonical name of an entry and add it to ``table``; report one that is unsuitable or not the only one.

    The name is the canonical value of the namevar, or the tuple of several. Where it is made from a value that has been
    reported as invalid in ``scope``, it is not reported again.
    """
    definition, names = entry.definition, entry.definition.namevars
    name = entry.should.get(names[0]) if len(names) == 1 else tuple(map(entry.should.get, names))
    if type(name) is not str and (problem := _name_problem(name)):
        if not any(scope.uses_invalid(entry.pending.get(each)) for each in names):
            diagnostics.resource_error(entry, None, *problem)
        return
    entry.name = name
    first = table.by_name.setdefault(definition.instance, {}).setdefault(name, entry)
    if first is not entry:
        message = f"is the same resource as {first.reference} at {diagnostics.location(first)}"
        diagnostics.resource_error(entry, None, message, "duplicate")
    imported = entry.meta.lifecycle.import_
    if imported is not None and not names_entry(imported, entry, table.provider(definition.instance)):
        # The identity must not change when this line is removed again.
        declared = definition.title_of(definition.absent_row(name))
        message = f"lifecycle.import: it is declared as {show(declared)}, not {show(imported)}"
        hint = f"to import that, write {names[0]}: {show(imported)} too" if len(names) == 1 else "name it so"
        diagnostics.resource_error(entry, "lifecycle", message, "import", hint)


def names_entry(text: str, entry: Entry, tools: ProviderFunctions) -> bool:
    """Return whether a text names an entry, spelt in any way of which its canonical name is the canonical form."""
    if text in entry.own_names:
        return True
    try:
        return bool(canonical_name(tools, text) == entry.name)
    except Exception:  # noqa: BLE001 - what the provider cannot canonicalize is another name
        return False


def _name_problem(name: Name) -> tuple[str, str] | None:
    """Return why a value cannot be an identity, and the problem's code; None when it can."""
    if is_unknown(name):
        return "a namevar must be known before anything is done", "unknown"
    if is_secret(name):
        return "a namevar cannot be a secret: it is shown and recorded wherever its resource is", "secret"
    return None


def has_unsuitable_identity(entry: Entry) -> bool:
    """Return whether a namevar is missing or a secret, which has been reported."""
    identity = {name: entry.should.get(name) for name in entry.definition.namevars}
    attributes = entry.definition.attributes
    return any(
        is_secret(value) or (value is None and not attributes[name].datatype.optional)
        for name, value in identity.items()
    )
