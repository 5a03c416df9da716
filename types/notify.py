"""Messages in the log of a run."""

from __future__ import annotations

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="notify",
    docs="""Write a message into the log of a run.

    Notify[deployed]:
      message: deployed on ${facts.networking.hostname}
      refreshonly: true
      subscribe: Package[app]
    Package[app]: {ensure: present}

Without `refreshonly`, every run writes the message, which counts as a change, as in Puppet. The metaparameter
`loglevel` sets the level of a message of one line. A message that contains a secret is written as `<sensitive>`.
""",
    attributes={
        "name": Attribute("String[1]", "The name; also the message, unless `message` is declared.", kind="namevar"),
        "message": Attribute(
            "Optional[Variant[String[1], Numeric, Boolean, Array[Data], Hash[String, Data]]]",
            "The message; lists and mappings are written as JSON.",
            kind="parameter",
        ),
        "refreshonly": Attribute(
            "Boolean", "Whether to write it only when another resource notifies it.", kind="parameter", default=False
        ),
    },
    features={"imperative", "refreshable", "simple_get_filter"},
)
