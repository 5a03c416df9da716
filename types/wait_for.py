"""Waiting until something is there."""

from __future__ import annotations

from lib.wait_condition_attributes import condition_attributes
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="wait_for",
    docs="""Wait until a condition holds: a path, a line of a log, a port, a URL, a command.

    Wait_for[the database accepts connections]:
      port: 5432
      timeout: 60
      require: Service[postgresql]
    Service[postgresql]: {ensure: running}

Several conditions must hold at once. What holds already is no change. The metaparameter `timeout` replaces the limit of
300 seconds; at its end the resource fails with the condition that does not hold.
""",
    attributes={
        "name": Attribute("String[1]", "What is waited for, in words.", kind="namevar"),
        **condition_attributes(),
        "interval": Attribute(
            "Variant[Integer[1], Float[0.1]]", "Seconds between two attempts.", kind="parameter", default=1
        ),
    },
    autorequires={"file": "$path"},
    features={"imperative", "simple_get_filter", "validate"},
    timeout=300,
    verbs={"run": "waiting"},
)
