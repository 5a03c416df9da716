"""What an argument or option can be completed to: names of types, attributes, inputs and recorded resources.

Manifests are read as text and state is read without its key: no manifest, component or provider is executed, nothing is
decrypted. Each function takes the context of the command that is typed, and the incomplete value.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

from click.shell_completion import CompletionItem

from resource_api.model.datatypes import parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import click

    from resource_api.model.datatypes.parser import Term
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plugins.registry import Registry
    from resource_api.state.sqlite.names import RecordedName
    from resource_api.state.store import StackName

    Items = list[CompletionItem[str]]

#: A larger manifest is not read while something is typed.
_MAX_BYTES: Final = 1 << 20
#: A reference that is a key in YAML or JSON: in single or double quotes, or without.
_KEY: Final = re.compile(
    r"""^[ \t]*(?:'([A-Z]\w*\[.*\])'|"([A-Z]\w*\[[^"\\]*\])"|([A-Z]\w*\[.*\]))[ \t]*:""", re.MULTILINE
)


def references(context: click.Context, incomplete: str) -> Items:
    """Return the recorded resources of the selected stack, of the project of the manifest if that is recorded."""
    return _items((each.reference for each in _selected(context)), incomplete)


def targets(context: click.Context, incomplete: str) -> Items:
    """Return what ``references`` returns, and the resources that the manifest declares."""
    declared = _declared_references(_first_argument(context, "manifest"))
    return _items((*declared, *(each.reference for each in _selected(context))), incomplete)


def declared_references(context: click.Context, incomplete: str) -> Items:
    """Return the resources that the manifest declares."""
    return _items(_declared_references(_first_argument(context, "manifest")), incomplete)


def projects(context: click.Context, incomplete: str) -> Items:
    """Return the recorded projects."""
    return _items((name.project for name, _ in _recorded(context)), incomplete)


def stacks(context: click.Context, incomplete: str) -> Items:
    """Return the recorded stacks, and those for which there are inputs beside the manifest."""
    directory = os.path.join(os.path.dirname(_first_argument(context, "manifest")), "stacks")
    files = os.listdir(directory) if os.path.isdir(directory) else ()
    declared = (name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))
    return _items((*declared, *(name.stack for name, _ in _recorded(context))), incomplete)


def type_list(context: click.Context, incomplete: str) -> Items:
    """Return the types on the module path, for the last of several names with commas between them."""
    *before, _ = incomplete.split(",")
    return _items((",".join((*before, name)) for name in _registry(context).names()), incomplete)


def types_and_components(context: click.Context, incomplete: str) -> Items:
    """Return the types and components on the module path."""
    registry = _registry(context)
    return _items((*registry.names(), *registry.component_names()), incomplete)


def resource_names(context: click.Context, incomplete: str) -> Items:
    """Return the names of the recorded resources of the type that is given, of all projects."""
    type_name = _first_argument(context, "type_name").lower()
    found = [each.name for _, names in _recorded(context) for each in names if each.type == type_name]
    return _items((name for name in found if isinstance(name, str)), incomplete)


def attributes(context: click.Context, incomplete: str) -> Items:
    """Return the attributes that can be changed, as ``NAME=``; after it, the values of an enumeration."""
    definition = _definition(context)
    given = {text.partition("=")[0] for text in context.params.get("changes") or ()}
    offered = {
        name: attribute
        for name, attribute in definition.attributes.items()
        if attribute.kind != "read_only" and name not in given
    }
    return _assignments({name: (each.datatype.text, each.docs) for name, each in offered.items()}, incomplete)


def configuration(context: click.Context, incomplete: str) -> Items:
    """Return the configuration of the type's provider, as ``KEY=``."""
    offered = _definition(context).config.attributes
    return _assignments({name: (each.datatype.text, each.docs) for name, each in offered.items()}, incomplete)


def inputs(context: click.Context, incomplete: str) -> Items:
    """Return the inputs of the manifest, as ``NAME=``, or ``NAME=@`` for a secret, which comes from a file."""
    declared = _declared_inputs(_first_argument(context, "manifest"))
    offered = {
        name: (_input_type(each), str(each.get("docs") or "")) if isinstance(each, dict) else (str(each), "")
        for name, each in declared.items()
    }
    return _assignments({name: each for name, each in offered.items() if isinstance(name, str)}, incomplete)


def _input_type(declared: Mapping[str, Any]) -> str:
    """Return the data type of an input as text, ``Sensitive[...]`` where only another key says so."""
    written = str(declared.get("type") or "Any")
    return f"Sensitive[{written}]" if True in map(declared.get, ("sensitive", "ephemeral")) else written


def facts(_context: click.Context, incomplete: str) -> Items:
    """Return the facts of this machine; those below another one are not looked up."""
    from resource_api.system.facts import Facts

    return _items(Facts().names(), incomplete)


def commands(context: click.Context, incomplete: str) -> Items:
    """Return the commands beneath those that are given."""
    group: Any = context.find_root().command
    above = context.find_root()
    for name in context.params.get("names") or ():
        group = group.get_command(above, name)
    return _items(group.list_commands(above), incomplete) if hasattr(group, "list_commands") else []


def hosts(context: click.Context, incomplete: str) -> Items:
    """Return the groups and hosts of the inventory for the last name of a list; none of one that is a program."""
    from resource_api.fleet import inventory
    from resource_api.fleet.selection import beside
    from resource_api.model.values.errors import ManifestError

    path = context.params.get("hosts_file") or beside(_first_argument(context, "manifest"))
    if path is None or not str(path).endswith((".yaml", ".yml", ".json")):
        return []
    try:
        found = inventory.read(str(path))
    except ManifestError:
        return []
    before, comma, last = incomplete.rpartition(",")
    sign = "!" if last.startswith("!") else ""
    return _items((f"{before}{comma}{sign}{name}" for name in (*found.groups, *found.hosts)), incomplete)


def _first_argument(context: click.Context, name: str) -> str:
    """Return an argument; click has not assigned it yet where an option without its value follows."""
    return str(context.params.get(name) or next(iter(context.args), ""))


def _items(values: Iterable[str], incomplete: str) -> Items:
    return [CompletionItem(value) for value in sorted(set(values)) if value.startswith(incomplete)]


def _assignments(offered: Mapping[str, tuple[str, str]], incomplete: str) -> Items:
    """Return ``NAME=`` for each name with its data type and documentation; or the values of the name that is given."""
    name, equals, value = incomplete.partition("=")
    if equals:
        found = _enumerated(offered[name][0]) if name in offered else []
        return [CompletionItem(f"{name}={each}") for each in found if each.startswith(value)]
    return [
        CompletionItem(f"{each}=@" if "Sensitive[" in datatype else f"{each}=", help=_first_sentence(docs))
        for each, (datatype, docs) in offered.items()
        if each.startswith(incomplete)
    ]


def _first_sentence(docs: str) -> str:
    return " ".join(docs.split()).partition(". ")[0].partition("; ")[0].removesuffix(".")


def _enumerated(datatype: str) -> list[str]:
    """Return the values of the enumerations and Booleans in the expression of a data type."""

    def walk(term: Term) -> Iterator[str]:
        if term.value == "Enum":
            yield from (str(each.value) for each in term.arguments or ())
        elif term.value == "Boolean":
            yield from ("true", "false")
        else:
            for each in term.arguments or ():
                yield from walk(each)

    return list(walk(parser.read(datatype)))


# The module path


def _registry(context: click.Context) -> Registry:
    from resource_api.plugins.module_path import ModulePath
    from resource_api.plugins.registry import Registry

    given = context.params
    return Registry(ModulePath.resolve(given.get("module_path") or ()), given.get("trust_path") or ())


def _definition(context: click.Context) -> TypeDefinition:
    name = _first_argument(context, "type_name")
    return _registry(context).type(name[:1].lower() + name[1:])


# State


def _recorded(context: click.Context) -> list[tuple[StackName, list[RecordedName]]]:
    """Return each recorded stack with the names of its resources."""
    from resource_api.state.open_store import open_store
    from resource_api.state.sqlite.names import recorded

    path = getattr(open_store(context.params.get("state")), "path", None)
    return [] if path is None else list(recorded(path))


def _selected(context: click.Context) -> list[RecordedName]:
    """Return what is recorded in the selected stack: of the project that is named, or the manifest's if it has any."""
    found = {name.project: names for name, names in _recorded(context) if name.stack == context.params.get("stack")}
    if (project := context.params.get("project")) is not None:
        return found.get(project, [])
    manifest = _first_argument(context, "manifest")
    of_manifest = found.get(_project(manifest)) if manifest else None
    return of_manifest if of_manifest is not None else [each for names in found.values() for each in names]


# Manifests


def _project(manifest: str) -> str:
    """Return the project of a manifest as far as its text says it; else the stem of its file."""
    if written := re.search(r"""^(?:\{?\s*"project"|project)\s*:\s*["']?([\w.-]+)""", _text(manifest), re.MULTILINE):
        return written[1]
    return os.path.splitext(os.path.basename(manifest))[0]


def _declared_references(manifest: str) -> list[str]:
    """Return the references that stand as keys in the text of a manifest, without those that have expressions."""
    keys = _KEY.findall(_text(manifest))
    found = [single.replace("''", "'") or double or plain for single, double, plain in keys]
    return [each for each in found if "${" not in each]


def _declared_inputs(manifest: str) -> Mapping[str, Any]:
    """Return the section ``inputs`` of a manifest in YAML or JSON; one in Python is not executed and has none here."""
    if manifest.endswith(".py"):
        return {}
    text = _text(manifest)
    if manifest.endswith(".json"):
        section = json.loads(text).get("inputs")
    else:
        from resource_api.manifest import yaml_reader

        # Only this section is parsed: the rest can be long, and need not be complete yet.
        cut = re.search(r"^inputs\s*:.*\n?(?:^(?:[ \t].*|#.*)?\n?)*", text, re.MULTILINE)
        section = yaml_reader.read(cut[0].encode(), manifest).data.get("inputs") if cut else None
    return section if isinstance(section, dict) else {}


def _text(manifest: str) -> str:
    """Return the text of a manifest that is a file of reasonable size; otherwise an empty text."""
    if not os.path.isfile(manifest) or os.path.getsize(manifest) > _MAX_BYTES:
        return ""
    with open(manifest, encoding="utf-8", errors="replace") as file:
        return file.read()
