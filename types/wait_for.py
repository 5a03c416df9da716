"""Waiting for a condition."""

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

All declared conditions must hold at once. If they hold already, there is no change. After 300 seconds, or the
metaparameter `timeout`, the resource fails and names the condition.
""",
    attributes={
        "name": Attribute("String[1]", "The condition in words.", kind="namevar"),
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
