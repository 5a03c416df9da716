"""Parameters of the kernel."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="sysctl",
    docs="""Manage parameters of the kernel: the value now, and the value at boot.

    Sysctl[net.ipv4.ip_forward]:
      value: 1

A resource is an entry in a file as in sysctl.d(5), and the value in the running kernel. The value is set first: one
that the kernel refuses is an error and is not written. `ensure: absent` removes the entry, and an empty file; the
kernel keeps its value until the next boot. Comments and other entries stay.

Declare values as the kernel shows them (`sysctl NAME`). Blanks and tabs are the same, and so are other spellings of
numbers that the kernel takes: `0x3` and 3, `8080,8081` and `8080-8081`. A write-only parameter counts as
set if the file has its value.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file contains the parameter.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[\w:@-]+([.\/][\w:@-]+)+\z/]",
            "The parameter: `net.ipv4.conf.eth0/100.forwarding` and `net/ipv4/conf/eth0.100/forwarding` are the same.",
            kind="namevar",
            must_be="a parameter's name such as net.ipv4.ip_forward",
        ),
        "target": Attribute(
            r"Optional[Pattern[/\A\/[^\x00-\x1f\x7f]+\z/]]",
            "The file. At boot, the last file by name counts.",
            kind="namevar",
            default="/etc/sysctl.d/99-resource-api.conf",
            must_be="an absolute path",
        ),
        "value": Attribute(
            r"Variant[Integer, Pattern[/\A[^\x00-\x20\x7f][^\x00-\x08\x0a-\x1f\x7f]*\z/]]",
            "The value: a number, or words on one line.",
            must_be="text on one line",
        ),
        "apply": Attribute(
            "Boolean", "Whether to set the value in the running kernel too.", kind="parameter", default=True
        ),
        "live": Attribute("Optional[String]", "The value in the running kernel.", kind="read_only"),
    },
    title_patterns=[{"pattern": r"(?P<name>[^ ]+) (?P<target>/[\s\S]+)\z"}, {"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"file": "$target"},
    features={"canonicalize", "custom_insync", "not_rehearsable", "preflight", "simple_get_filter"},
)
