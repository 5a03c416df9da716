"""The data sources, ephemeral resources and functions of a Terraform provider, as functions of one type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.values import reveal
from resource_api.terraform import cty, schema
from resource_api.terraform.plugin_process import PluginError
from resource_api.terraform.session import ERROR, STOP_LIMIT, ProgramSession, config_value, diagnostic_text
from resource_api.terraform.types import parameters, with_field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from resource_api.model.change import Change
    from resource_api.model.type_definition import Resource
    from resource_api.provider.context import Context
    from resource_api.terraform.messages import Message
    from resource_api.terraform.schema import SchemaField


class Functions(ProgramSession):
    """Reads data sources, opens ephemeral resources, and calls functions."""

    def __init__(self) -> None:
        """Begin with nothing open."""
        super().__init__()
        #: The opened ephemeral resources: type, and private bytes of the program.
        self._opened: list[tuple[str, bytes]] = []

    def close(self) -> None:
        """Close the ephemeral resources, the last one first."""
        while self._opened:
            name, private = self._opened.pop()
            try:
                answer = self.family.process(self._key).call("close", STOP_LIMIT, type_name=name, private=private)
            except PluginError as error:
                msg = f"the Terraform provider {self.family.name}: {error}"
                raise ResourceError(msg) from error
            if errors := [diagnostic_text(row) for row in answer["diagnostics"] if row.get("severity") == ERROR]:
                raise ResourceError("; ".join(errors))

    def get(self, _context: Context, _names: Collection[Any] | None = None) -> list[Resource]:
        """Return nothing: there are no resources."""
        return []

    def set(self, context: Context, changes: Mapping[Any, Change]) -> None:
        """Change nothing."""

    def read_data_source(self, context: Context, name: str, inputs: Mapping[str, object]) -> Any:
        """Return the attributes of a data source."""
        fields = schema.fields_of_block(self.family.schema["data_source_schemas"][name]["block"])
        config = config_value(fields, inputs)
        self._call(context, "validate_data", type_name=name, config=config)
        answer = self._call(context, "data", type_name=name, config=config)
        return _result(fields, answer.get("state"))

    def open_ephemeral(self, context: Context, name: str, inputs: Mapping[str, object]) -> Any:
        """Return the attributes of an ephemeral resource, which is open until the end of the run."""
        fields = schema.fields_of_block(self.family.schema["ephemeral_resource_schemas"][name]["block"])
        config = config_value(fields, inputs)
        self._call(context, "validate_ephemeral", type_name=name, config=config)
        answer = self._call(context, "open", type_name=name, config=config)
        self._opened.append((name, answer.get("private", b"")))
        return reveal(_result(fields, answer.get("result")))

    def call_function(self, context: Context, name: str, inputs: Mapping[str, object]) -> Any:
        """Return the result of a function."""
        declared, values = self.family.schema["functions"][name], with_field_names(inputs)
        arguments = [cty.to_dynamic(kind, values.get(parameter["name"])) for parameter, kind in parameters(declared)]
        if "variadic_parameter" in declared:
            variadic, kind = list(parameters(declared))[-1]
            arguments[-1:] = [cty.to_dynamic(kind[1], value) for value in values.get(variadic["name"]) or ()]
        answer = self._answer(context, "call", name=name, arguments=arguments)
        if error := answer.get("error"):
            raise ResourceError(error.get("text", ""))
        return cty.without_nulls(cty.from_dynamic(cty.parse_type(declared["return"]["type"]), answer.get("result")))


def data_source_method(name: str) -> Callable[..., Any]:
    """Return the method of a provider that reads a data source."""
    return lambda self, context, **inputs: self.read_data_source(context, name, inputs)


def ephemeral_method(name: str) -> Callable[..., Any]:
    """Return the method of a provider that opens an ephemeral resource."""
    return lambda self, context, **inputs: self.open_ephemeral(context, name, inputs)


def function_method(name: str) -> Callable[..., Any]:
    """Return the method of a provider that calls a function."""
    return lambda self, context, **inputs: self.call_function(context, name, inputs)


def _result(fields: Mapping[str, SchemaField], state: Message | None) -> dict[str, Any]:
    """Return the attributes that a program has read, with its secrets wrapped."""
    values = cty.without_nulls(cty.from_dynamic(schema.object_type(fields), state)) or {}
    return schema.sealed(fields, values)
