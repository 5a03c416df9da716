"""Debian packages, installed and removed by apt."""

from resource_api import Attribute, TypeDefinition

#: Not an option, no pattern, and never apt's `name-`, which would remove what it is asked to install.
NAME = r"Pattern[/\A[a-z0-9]([a-z0-9+._-]*[a-z0-9+._])?(:[a-z0-9-]+)?\z/]"
VERSION = r"Pattern[/\A[0-9]([A-Za-z0-9+.:~-]*[A-Za-z0-9+.~])?\z/]"

TYPE = TypeDefinition(
    name="package",
    docs="""Manage Debian packages with apt.

    Package[nginx]:
      ensure: latest
    Package[libssl3:i386]:
      ensure: 3.0.15-1~deb12u1

Packages that stand together in a manifest are installed and removed in one apt transaction, and purged in a second.
Configuration files that somebody has changed are kept as they are. The lists of packages are those that the last
`apt-get update` has fetched; `latest` is what they offer. A virtual package cannot be managed: name what provides it.
A package that was removed before counts as absent, also where `purged` is wanted and its configuration files are left.
""",
    attributes={
        "ensure": Attribute(
            f"Variant[Enum[present, absent, purged, latest], {VERSION}]",
            "`present`: installed, in any version. `latest`: in the version that apt would install now. A version:"
            " exactly this one, older ones too. `absent`: removed. `purged`: `absent` with `purge: true`.",
            default="present",
        ),
        "name": Attribute(
            NAME, "The package's name; of another architecture than the machine's, `name:arch`.", kind="namevar"
        ),
        "purge": Attribute(
            "Boolean", "Whether removing takes the configuration files too.", kind="parameter", default=False
        ),
        "install_options": Attribute(
            "Optional[Array[String[1]]]",
            "Options for `apt-get install`, such as `--no-install-recommends` or `--target-release=stable`.",
            kind="parameter",
        ),
        "version": Attribute("Optional[String]", "The version that is installed.", kind="read_only"),
        "candidate": Attribute(
            "Optional[String]",
            "The version that apt would install now; read where `latest` is wanted.",
            kind="read_only",
        ),
        "status": Attribute("Optional[String]", "dpkg's word for the package's state.", kind="read_only"),
    },
    features={"canonicalize", "custom_insync", "simple_get_filter"},
)
