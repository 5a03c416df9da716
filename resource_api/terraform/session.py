"""Calls of a Terraform provider's program with one configuration, and the errors and warnings of its answers."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from resource_api.model.values.errors import ResourceError
from resource_api.model.values.values import reveal
from resource_api.provider.base import BaseProvider
from resource_api.terraform import cty, schema
from resource_api.terraform.plugin_process import PluginError
from resource_api.terraform.types import with_field_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.model.type_definition import Resource
    from resource_api.provider.context import Context
    from resource_api.terraform.messages import Message
    from resource_api.terraform.plugin_process import PluginProcess
    from resource_api.terraform.schema import SchemaField

#: The version of Terraform whose protocol this is, for providers that ask.
_TERRAFORM_VERSION: Final = "1.9.0"
#: The capabilities of this client.
CAPABILITIES: Final = {"write_only_attributes_allowed": True}
#: The severity of a diagnostic that is an error.
ERROR: Final = 1
#: Methods that any running program can answer, and the one that configures it.
_UNCONFIGURED: Final = frozenset(
    {"validate", "validate_data", "validate_ephemeral", "check_config", "upgrade", "configure"}
)
#: Seconds for a request to stop, and for the answer of the call that is stopped.
STOP_LIMIT: Final = 5.0
#: Seconds for a call that begins at the end of its time.
_SHORTEST_LIMIT: Final = 0.1


def config_key(config: Mapping[str, object]) -> str:
    """Return the digest of a configuration with its secrets."""
    text = json.dumps(reveal(dict(config)), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Program(Protocol):
    """The program of a provider: its schema, and its processes by configuration."""

    @property
    def name(self) -> str:
        """The name of the provider in the manifest."""

    @property
    def address(self) -> str:
        """The address of the provider, with a host; a guess where only the path of the program is declared."""

    @property
    def schema(self) -> Message:
        """The schemas of the program. Raise ``DefinitionError`` where it cannot be asked."""

    @property
    def config_fields(self) -> Mapping[str, SchemaField]:
        """The fields of the provider's configuration."""

    @property
    def identities(self) -> Mapping[str, Message]:
        """The schemas of identities by type; empty for a program without them."""

    @property
    def plans_destruction(self) -> bool:
        """Whether the provider is to plan deletions too."""

    def process(self, key: str | None = None) -> PluginProcess:
        """Return the process of a configuration; None: any that runs. Raise ``PluginError``."""

    def configure(self, key: str, call: Callable[[], object]) -> None:
        """Call ``call``, which configures the process of a configuration, unless that was done."""


class ProgramSession(BaseProvider):
    """The calls of a program, with its configuration."""

    family: ClassVar[Program]

    def __init__(self) -> None:
        """Begin without a configuration and a time limit."""
        super().__init__()
        #: None until ``configure``.
        self._configuration: Mapping[str, object] | None = None
        #: Its digest, which selects the process; None until the first call that needs a configured one.
        self._key: str | None = None
        #: The time limit of the present ``set`` by ``time.monotonic``, or None.
        self._deadline: float | None = None

    def _call(self, context: Context, method: str, **fields: object) -> Message:
        """Call the program, log its warnings, and raise ``ResourceError`` with its errors."""
        answer = self._call_unchecked(context, method, **fields)
        check_diagnostics(context, answer)
        return answer

    def _call_unchecked(self, context: Context, method: str, **fields: object) -> Message:
        """Call a method within the deadline, and configure the program before where the method needs that.

        The answer may have errors; raise ``ResourceError`` only where none comes.
        """
        if method not in _UNCONFIGURED:
            self._configure(context)
        with self._errors():
            if self._deadline is None:
                return self.family.process(self._key).call(method, None, **fields)
            return self._limited(method, max(self._deadline - time.monotonic(), _SHORTEST_LIMIT), fields)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise ``ResourceError`` with the provider's name for a failed call of its program."""
        try:
            yield
        except PluginError as error:
            msg = f"the Terraform provider {self.family.name}: {error}"
            raise ResourceError(msg) from error

    def _limited(self, method: str, seconds: float, fields: Mapping[str, object]) -> Message:
        """Call the program; ask it to stop after some seconds, and give up after five more.

        The answer of a program that stops may have the state of an object that is made half-way.
        """
        stopping = threading.Timer(seconds, self.cancel)
        stopping.start()
        try:
            return self.family.process(self._key).call(method, seconds + STOP_LIMIT, **fields)
        finally:
            stopping.cancel()

    def _configure(self, context: Context) -> None:
        """Configure the program, unless this was done: another run in this process may have ended it since.

        Raise ``ResourceError`` if it refuses, and if ``configure`` was not called though there are fields.
        """
        if self._configuration is None and self.family.config_fields:
            msg = f"the Terraform provider {self.family.name} is asked before it is configured"
            raise ResourceError(msg)
        if self._key is None:
            self._key = config_key(self._configuration or {})
        self.family.configure(self._key, partial(self._send_configuration, context))

    def _send_configuration(self, context: Context) -> None:
        """Send the configuration to the program. Raise ``ResourceError`` if it refuses it."""
        value = config_value(self.family.config_fields, self._configuration or {})
        fields = {"terraform_version": _TERRAFORM_VERSION, "config": value, "client_capabilities": CAPABILITIES}
        self._call(context, "configure", **fields)

    def _events(self, context: Context, method: str, **fields: object) -> Iterator[Message]:
        """Yield the answers of a program; log their warnings, and raise ``ResourceError`` with their errors."""
        self._configure(context)
        with self._errors():
            for event in self.family.process(self._key).stream(method, None, **fields):
                check_diagnostics(context, {"diagnostics": event.pop("diagnostic", ())})
                yield event

    def cancel(self) -> None:
        """Ask the program to give up its work; one that cannot, or has ended, is no error."""
        if self._key is not None:
            with suppress(PluginError):
                self.family.process(self._key).call("stop", STOP_LIMIT)


class Configurable(ProgramSession):
    """A provider with a configuration."""

    def check_config(self, context: Context, config: Resource) -> Resource:
        """Return the configuration after the program has checked it. Raise ``ResourceError`` with its errors."""
        self._call(context, "check_config", config=config_value(self.family.config_fields, config))
        return config

    def configure(self, context: Context, config: Mapping[str, object]) -> None:
        """Keep the configuration, and send it to its process. Raise ``ResourceError`` if that refuses it."""
        self._configuration = dict(config)
        self._configure(context)


def config_value(fields: Mapping[str, SchemaField], config: Mapping[str, object]) -> Message:
    """Return declared values as a whole configuration, with secrets in clear text."""
    declared = with_field_names(reveal(dict(config)))
    return cty.to_dynamic(schema.object_type(fields), schema.complete(fields, declared))


def check_diagnostics(context: Context, answer: Message) -> None:
    """Log the warnings of an answer. Raise ``ResourceError`` with its errors, or for a change that is deferred."""
    for row in answer.get("diagnostics", ()):
        if row.get("severity") != ERROR:
            context.warning(diagnostic_text(row))
    errors = error_texts(answer)
    if answer.get("deferred"):
        errors.append("the provider has deferred this")
    if errors:
        raise ResourceError("; ".join(errors))


def error_texts(answer: Message) -> list[str]:
    """Return the errors among the diagnostics of an answer."""
    return [diagnostic_text(row) for row in answer.get("diagnostics", ()) if row.get("severity") == ERROR]


def diagnostic_text(row: Message) -> str:
    """Return the text of a diagnostic of a program, on one line, with the path of its attribute."""
    steps = row.get("attribute", {}).get("steps", [])  # each of one field: a name or a key
    path = ".".join(str(next(iter(step.values()))) for step in steps if step)
    texts = dict.fromkeys(filter(None, (row.get("summary", ""), row.get("detail", ""))))
    return f"{path}{': ' if path else ''}{': '.join(texts)}".replace("\n", " ").strip()
