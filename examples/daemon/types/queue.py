"""Queues of the daemon of this example."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="queue",
    version="1.0.0",
    docs="""
    Manage the queues of queued: their sections in its configuration file, which it reads again after each change.

        Queue[mail]:
          limit: 500
          pause: 5m
          consumers: [postfix]
    """,
    config={
        "file": Attribute(
            r"Pattern[/\A\/.+\z/]", "The configuration file; by default QUEUED_FILE, or /etc/queued.conf."
        ),
        "socket": Attribute(
            r"Pattern[/\A\/.+\z/]", "The control socket; by default QUEUED_SOCKET, or /run/queued.sock."
        ),
    },
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether there is such a queue.", default="present"),
        "name": Attribute(r"Pattern[/\A[a-z][a-z0-9-]*\z/]", "The name of the queue.", kind="namevar"),
        "discipline": Attribute("Enum[fifo, lifo]", "Which message is taken first.", kind="init_only", default="fifo"),
        "limit": Attribute("Optional[Integer[1]]", "The most messages that it keeps; 1000 if it was never set."),
        "pause": Attribute(
            r"Optional[Variant[Integer[0], Pattern[/\A\d{1,6} *[smh]\z/]]]",
            "Seconds until a failed message is tried again, or a text such as `5m`; 60 if it was never set.",
        ),
        "consumers": Attribute(
            r"Optional[Array[Pattern[/\A[a-z][a-z0-9-]*\z/]]]",
            "Programs that may take messages. Others in the file stay; an empty list removes all.",
        ),
        "purge": Attribute("Boolean", "Whether a deletion drops waiting messages.", kind="parameter", default=False),
        "depth": Attribute("Optional[Integer]", "How many messages wait.", kind="read_only"),
    },
    autorequires={"service": "queued"},
    features={"canonicalize", "custom_insync", "noop_handler", "refreshable", "validate"},
)
