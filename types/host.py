"""Names and addresses of hosts in ``/etc/hosts`` and files of its format."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="host",
    docs="""
        Manage the lines of /etc/hosts, or of another file in its format.

            Host[db.example.org]:
              ip: 192.0.2.7
              host_aliases: [db]

        The title is the name of the host, the first one after the address. If several lines have it, the first one
        counts, as for the resolver, separately for IPv4 and IPv6; `ensure: absent` removes them all. If an earlier line
        has the name as an alias of another address, the plan names it, and the declared line is put before it. Comments
        and other hosts stay.
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
        "ip": Attribute(r"Pattern[/\A[\h:.]+(%[\w.-]+)?\z/]", "The address.", must_be="an IPv4 or IPv6 address"),
        "host_aliases": Attribute(
            r"Optional[Array[Pattern[/\A[\w.-]+\z/]]]",
            "More names, in this order; an empty list removes them.",
            must_be="a host's name",
        ),
        "comment": Attribute(
            r"Optional[Pattern[/\A[^\x00-\x08\x0a-\x1f\x7f]*\z/]]",
            "The comment after `#`; an empty text removes it.",
            must_be="a comment on one line",
        ),
        "other_family": Attribute(
            "Optional[Hash[String, Data]]",
            "The first line of the name in the other family, IPv4 or IPv6.",
            kind="read_only",
        ),
        "overridden": Attribute(
            "Optional[Hash[String, String]]", "Names for which an earlier line counts, and why.", kind="read_only"
        ),
    },
    title_patterns=[{"pattern": r"(?P<name>[\w.-]+) (?P<target>/[\s\S]+)\z"}, {"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"file": "$target"},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
