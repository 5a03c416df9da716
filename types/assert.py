"""Conditions that must hold before a run goes on."""

from __future__ import annotations

from lib.wait_condition_attributes import condition_attributes
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="assert",
    docs="""Fail unless a condition holds, so that dependent resources are skipped.

    Assert[this is a supported system]:
      value: ${facts.os.name}
      one_of: [Debian, Ubuntu]
      message: this manifest is for Debian and Ubuntu
    Assert[the data directory is mounted]:
      command: mountpoint -q /srv/data
      before: Package[postgresql]
    Package[postgresql]: {ensure: present}

Conditions are a value, a path, a line of a file, a port, a URL or a command; all declared ones must hold at once. An
assertion that holds is no change. A plan and `--noop` show a condition that does not hold; only an apply fails.
""",
    attributes={
        "name": Attribute("String[1]", "The condition in words.", kind="namevar"),
        "message": Attribute("Optional[String[1]]", "The error if the condition does not hold.", kind="parameter"),
        "value": Attribute("Optional[Scalar]", "The value to check, such as a fact or an input.", kind="parameter"),
        "equals": Attribute("Optional[Scalar]", "The required value.", kind="parameter"),
        "one_of": Attribute("Optional[Array[Scalar, 1]]", "The accepted values.", kind="parameter"),
        "matches": Attribute(
            "Optional[String[1]]", "A regular expression that must match in the value, as text.", kind="parameter"
        ),
        **condition_attributes(),
    },
    autorequires={"file": "$path"},
    features={"imperative", "simple_get_filter", "validate"},
    verbs={"run": "checking"},
)
