"""Packages of the distribution, installed and removed by apt, dnf or zypper."""

from resource_api import Attribute, TypeDefinition

#: Excludes options, patterns, and names that end in `-`, which apt reads as a removal.
NAME = r"Pattern[/\A[A-Za-z0-9]([A-Za-z0-9+._-]*[A-Za-z0-9+._])?(:[a-z0-9-]+)?\z/]"
VERSION = r"Pattern[/\A[0-9]([A-Za-z0-9+.:~^_-]*[A-Za-z0-9+.~^_])?\z/]"

TYPE = TypeDefinition(
    name="package",
    docs="""Manage the packages of the distribution, with apt, dnf or zypper.

    Package[nginx]:
      ensure: latest
    Package[libssl3:i386]:
      ensure: 3.0.15-1~deb12u1
      mark: hold
    Package[kernel-tools]:
      implementation: dnf

The provider is auto-detected: apt if dpkg manages the packages, otherwise dnf, otherwise zypper. Adjacent packages of a
manifest are changed in one transaction; apt purges in a second one, and dnf removes in an earlier one.

With dnf and zypper a version has its release, and its epoch unless that is 0: `2:9.1.309-1.fc40`. `name.arch` is
`name:arch`, and rpm decides which configuration files stay. dnf cannot hold packages; with zypper `hold` is a lock,
also against `latest`.

Edited configuration files are kept. `latest` is the newest version in the package lists, as fetched by the last
`apt-get update`. Virtual packages cannot be managed: declare one of the packages that the plan names. `purged` also
removes configuration files of packages that were removed before.

The plan shows which other packages a transaction installs, upgrades, downgrades or removes. A package fails if its
change would [undo another declaration](../commands.md#what-else-a-change-does).
""",
    attributes={
        "ensure": Attribute(
            f"Variant[Enum[present, absent, purged, latest], {VERSION}]",
            "`present`: any version. `latest`: the version that apt would install now. A version: exactly this"
            " one, also a downgrade. `absent`: removed. `purged`: `absent` with `purge: true`.",
            default="present",
            must_be="a version",
        ),
        "name": Attribute(
            NAME, "The name; `name:arch` for another architecture.", kind="namevar", must_be="a package's name"
        ),
        "mark": Attribute(
            "Optional[Enum[hold, none]]", "`hold`: only a declared change affects the package; `none`: not held."
        ),
        "purge": Attribute(
            "Boolean", "Whether a removal also removes the configuration files.", kind="parameter", default=False
        ),
        "install_options": Attribute(
            "Optional[Array[String[1]]]",
            "Options for the installing program, such as `--no-install-recommends` for apt.",
            kind="parameter",
        ),
        "version": Attribute("Optional[String]", "The installed version.", kind="read_only"),
        "candidate": Attribute(
            "Optional[String]", "The version that apt would install now; read only for `latest`.", kind="read_only"
        ),
        "status": Attribute("Optional[String]", "The state in dpkg's words.", kind="read_only"),
    },
    verbs={"create": "installing", "delete": "removing"},
    features={"canonicalize", "custom_insync", "preflight", "side_effects", "simple_get_filter", "validate"},
)
