"""Names and addresses of hosts in ``/etc/hosts`` and files of its format."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="host",
    docs="""
        Manage the lines of /etc/hosts, or of another file in its format.

            Host[db.example.org]:
              ip: 192.0.2.7
              host_aliases: [db]

        The title is the name of the host, the first one after the address, in any case. If more than one line has the
        same name, the first one counts, as it does for the resolver: of those with an IPv4 address where one is
        declared, with an IPv6 address where that is; `ensure: absent` removes them all. Where a line above has the
        name too, as an alias of another address, the plan names it, and the declared line is put before it. Comments,
        blank lines and other hosts stay as they are.
    """,
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file contains the host.", default="present"),
        "name": Attribute(r"Pattern[/\A[\w.-]+\z/]", "The name of the host.", kind="namevar", must_be="a host's name"),
        "target": Attribute(
            r"Optional[Pattern[/\A\/[^\x00-\x1f\x7f]+\z/]]",
            "The file.",
            kind="namevar",
            default="/etc/hosts",
            must_be="an absolute path",
        ),
        "ip": Attribute(
            r"Pattern[/\A[\h:.]+(%[\w.-]+)?\z/]", "The address, IPv4 or IPv6.", must_be="an IPv4 or IPv6 address"
        ),
        "host_aliases": Attribute(
            r"Optional[Array[Pattern[/\A[\w.-]+\z/]]]",
            "Further names, in this order; an empty list removes them.",
            must_be="a host's name",
        ),
        "comment": Attribute(
            r"Optional[Pattern[/\A[^\x00-\x08\x0a-\x1f\x7f]*\z/]]",
            "The comment after a `#` at the end of the line; an empty text removes it.",
            must_be="a comment on one line",
        ),
        "other_family": Attribute(
            "Optional[Hash[String, Data]]",
            "The first line of the name with an address of the other family, IPv4 or IPv6.",
            kind="read_only",
        ),
        "overridden": Attribute(
            "Optional[Hash[String, String]]",
            "The names for which the resolver takes a line above, and why.",
            kind="read_only",
        ),
    },
    title_patterns=[
        {"pattern": r"(?P<name>[\w.-]+) (?P<target>/[\s\S]+)\z"},
        {"pattern": r"(?P<name>[\s\S]+)\z"},
    ],
    autorequires={"file": "$target"},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
