"""The configuration of the resolver."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="resolver",
    docs="""Manage /etc/resolv.conf, or another file in its format: name servers, search list, options.

    Resolver[/etc/resolv.conf]:
      nameservers: [192.0.2.53, "2001:db8::53"]
      search: [example.org]
      options: [edns0, "timeout:2"]

Undeclared attributes, comments and other lines stay. A link into /run, as systemd-resolved and resolvconf make it, is
replaced by a file, because its content would be overwritten; systemd-resolved then reads the file. Undeclared values
are copied from the link's target, without comments.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "path": Attribute(
            r"Pattern[/\A\/[^\x00-\x1f\x7f]+\z/]",
            "The file.",
            kind="namevar",
            default="/etc/resolv.conf",
            must_be="an absolute path",
        ),
        "nameservers": Attribute(
            r"Optional[Array[Pattern[/\A[\h:.]+(%[\w.-]+)?\z/], 0, 3]]",
            "The addresses of the name servers, in this order; programs use at most three.",
            must_be="an IPv4 or IPv6 address",
        ),
        "search": Attribute(
            r"Optional[Array[Pattern[/\A(\.|[\w-]+(\.[\w-]+)*\.?)\z/]]]",
            "The domains for names without a dot. A line `domain` is read as a list of one.",
            must_be="a domain",
        ),
        "options": Attribute(
            r"Optional[Array[Pattern[/\A[a-z0-9-]+(:\d+)?\z/]]]",
            "The options of resolv.conf(5), such as `rotate` or `ndots:2`, in this order.",
            must_be="an option such as rotate or ndots:2",
        ),
        "managed_by": Attribute("Optional[String]", "The file in /run that the path is a link to.", kind="read_only"),
    },
    autorequires={"file": "$path"},
    features={"canonicalize", "custom_insync", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
)
