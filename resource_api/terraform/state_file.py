"""State files of Terraform and OpenTofu: their resources, their outputs, and declarations that stand for them.

Source: the state format, version 4 (OpenTofu: ``internal/states/statefile``). A resource's attributes are in the form
of its provider's schema at the time when it was written.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.manifest.read import read_file
from resource_api.model.values.error_translation import errors_as
from resource_api.model.values.values import Sensitive, escape_expressions, map_leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.model.values.document import Document
    from resource_api.terraform.schema import SchemaField

_VERSION: Final = 4
#: The local name of a provider's configuration at the end of its address: ``provider["HOST/NS/NAME"].west``.
_ALIAS: Final = re.compile(r"\]\.([\w-]+)\Z")
#: The shortest text that is taken for a reference to another resource: a shorter one may be equal by chance.
_SHORTEST: Final = 4


class StateResource(NamedTuple):
    """One resource of a state file; ``address`` is the one of Terraform, ``title`` its name here."""

    address: str
    type: str
    title: str
    #: The alias of its provider's configuration; empty for the default one.
    alias: str
    version: int
    attributes: Mapping[str, object]
    #: Private bytes of the provider, in base64.
    private: str
    tainted: bool
    #: The addresses of the resources that it depends on, without their keys.
    dependencies: Sequence[str]

    @property
    def config_address(self) -> str:
        """The address without the key of an instance, as dependencies name it."""
        return re.sub(r"\[[^\]]*\]", "", self.address)


class StateFile(NamedTuple):
    """The resources and outputs of a state file, and the addresses that are no resources for a manifest."""

    resources: Sequence[StateResource]
    outputs: Mapping[str, object]
    left_out: Sequence[str]


def read(path: str) -> StateFile:
    """Return the state file at ``path``. Raise ``ValueError`` with the path for one that is not understood."""
    with errors_as(ValueError, (OSError, ValueError), f"{path}: "):
        return parse(read_file(path)[0].decode())


def parse(text: str) -> StateFile:
    """Return the state file in a text, such as the output of ``tofu state pull``.

    Only managed resources are read: data sources are read anew by each run. Raise ``ValueError`` for an encrypted or
    older one, with the remedy.
    """
    try:
        document = json.loads(text)
        version = document["version"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise ValueError("it is no state file of Terraform; an encrypted one is read by 'tofu state pull'") from None
    if version != _VERSION:
        msg = f"it is a state file of version {version}; a command of Terraform 1.0 or later writes version {_VERSION}"
        raise ValueError(msg)
    try:
        resources, left_out = list[StateResource](), list[str]()
        for row in document.get("resources", ()):
            if row["mode"] == "managed":
                resources += _instances(row, left_out)
        outputs = {
            name: Sensitive(output["value"]) if output.get("sensitive") else output["value"]
            for name, output in document.get("outputs", {}).items()
        }
        return StateFile(resources, outputs, left_out)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is a damaged state file: {error!r}") from error


def _instances(row: Mapping[str, Any], left_out: list[str]) -> Iterator[StateResource]:
    """Yield the instances of a resource in the file, as by ``count`` or ``for_each``.

    Addresses of those that no manifest can have are added to ``left_out``.
    """
    address = f"{row['module']}.{row['type']}.{row['name']}" if "module" in row else f"{row['type']}.{row['name']}"
    alias = _ALIAS.search(row["provider"])
    for instance in row["instances"]:
        key = instance.get("index_key")
        own_address = address if key is None else f"{address}[{json.dumps(key)}]"
        # Deposed: a replaced object that is not deleted yet. Without attributes: in the form of Terraform before 0.12.
        # Of a builtin provider: `terraform_data`, which is a part of Terraform itself and of no program.
        if "deposed" in instance or "attributes" not in instance or "terraform.io/builtin" in row["provider"]:
            left_out.append(own_address)
            continue
        yield StateResource(
            own_address,
            row["type"],
            _title(row, key),
            alias[1] if alias else "",
            instance.get("schema_version", 0),
            instance["attributes"],
            instance.get("private", ""),
            instance.get("status") == "tainted",
            instance.get("dependencies", ()),
        )


def _title(row: Mapping[str, Any], key: str | int | None) -> str:
    """Return the title, unique like the address, of an instance of ``row``: ``web.0``, ``net.web.blue`` in a module."""
    # ``module.net["a"].module.db[0]`` → ``.net.a.db.0``
    modules = re.sub(r"(?:\A|\.)module\.", ".", row.get("module", "")).replace('["', ".").replace('"]', "")
    modules = re.sub(r"\[(\d+)\]", r".\1", modules)
    return ".".join(filter(None, (modules.strip("."), row["name"], None if key is None else str(key))))


class Interpolation(str):
    """The text of an expression that refers to another resource: its ``${`` is not escaped."""

    __slots__ = ()


def referring(value: object, expressions: Mapping[str, str]) -> Any:
    """Return a declared value with an ``Interpolation`` for each text that is a key of ``expressions``."""
    return map_leaves(value, lambda leaf: Interpolation(expressions[leaf]) if leaf in expressions else leaf)


def computed_texts(
    fields: Mapping[str, SchemaField], values: Mapping[str, Any], reference: str
) -> Iterator[tuple[str, str]]:
    """Yield the texts that only a resource's provider can have made, such as an id, and expressions for them.

    The import of a state file writes the expression, such as ``${Aws_vpc[main].id}`` with this resource's
    ``reference``, wherever another resource has the same text. Short texts are left out, as they may be equal by
    chance. ``id`` comes last, so that the caller's mapping from texts prefers it.
    """
    for name in sorted(fields, key=lambda name: name == "id"):
        value, field = values.get(name), fields[name]
        if field.computed and not field.sensitive and isinstance(value, str) and len(value) >= _SHORTEST:
            yield value, f"${{{reference}.{name}}}"


def declaration(reference: str, declared: Mapping[str, Any], alias: str, spelling: Mapping[str, str]) -> list[str]:
    """Return the lines of a manifest that declare a resource, without indentation of its section.

    ``declared``: attribute → value, in which an ``Interpolation`` refers to another resource. ``alias``: the
    configuration of its provider, "" for the default one. ``spelling``: attribute → its name in manifests.
    """
    lines = [f"{_text(reference)}:{'' if declared or alias else ' {}'}"]
    if alias:
        lines.append(f"  provider: {_text(alias)}")
    return [*lines, *(f"  {spelling.get(name, name)}: {_flow(value)}" for name, value in declared.items())]


def _flow(value: object) -> str:
    """Return a value in YAML's flow style, JSON; ``${`` is escaped in the state's values, not in ``Interpolation``."""
    escaped = map_leaves(
        value, lambda leaf: escape_expressions(leaf) if type(leaf) is str else leaf, escape_expressions
    )
    return json.dumps(escaped, ensure_ascii=False)


def _text(text: str) -> str:
    """Return a text quoted as in JSON, which YAML reads alike."""
    return json.dumps(str(text), ensure_ascii=False)


def with_resources(document: Document, declarations: Sequence[Sequence[str]]) -> bytes:
    """Return the text of a YAML manifest with the lines of ``declarations`` inserted into its section ``resources``.

    They come before the others; all else, comments included, stays as the user wrote it, for which the text is edited
    and not the data written anew. Raise ``ValueError`` for a section that is not written line by line.
    """
    lines = document.raw.decode().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    positions = document.heads().get("resources", {})  # reference → line and column of its key
    if positions:
        line, column = min(positions.values())
        if lines[line - 1][: column - 1].strip():
            raise ValueError("its section resources must have one resource a line, not be in braces")
        index, indent = line - 1, " " * (column - 1)
    elif (document.data or {}).get("resources"):
        raise ValueError("its section resources is not understood")
    else:  # an empty section is written anew at the end
        lines = [*(line for line in lines if not line.startswith("resources:")), "resources:\n"]
        index, indent = len(lines), "  "
    lines[index:index] = [f"{indent}{line}\n" for declared in declarations for line in declared]
    return "".join(lines).encode()
