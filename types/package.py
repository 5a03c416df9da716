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

The machine decides which one is used: apt where dpkg manages the packages, otherwise dnf where it is installed,
otherwise zypper. With apt, packages that are adjacent in a manifest are installed and removed in one transaction, and
purged in a second one; with dnf, removed in one and installed in another; with zypper, installed and removed in one.
With dnf and zypper a version is written with its release, and its epoch if that is not 0, `2:9.1.309-1.fc40`;
`name.arch` stands for `name:arch`; and rpm decides which configuration files stay. With dnf nothing can be held; with
zypper `hold` is a lock, which keeps a package also from `latest`.

Edited configuration files are kept. `latest` is the version in the package lists that the last `apt-get update` has
fetched. A virtual package cannot be managed: declare a package that provides it; the plan names them. `purged` also
removes the configuration files of a package that was removed before.

Before each transaction the program tells which other packages it would install, upgrade, downgrade or remove. The plan
shows them, and a package fails whose change would [undo another declaration](../commands.md#what-else-a-change-does).
""",
    attributes={
        "ensure": Attribute(
            f"Variant[Enum[present, absent, purged, latest], {VERSION}]",
            "`present`: installed in any version. `latest`: in the version that apt would install now. A version:"
            " exactly this one, even if it is older. `absent`: removed. `purged`: `absent` with `purge: true`.",
            default="present",
            must_be="a version",
        ),
        "name": Attribute(
            NAME,
            "The name; `name:arch` for another architecture than the machine's.",
            kind="namevar",
            must_be="a package's name",
        ),
        "mark": Attribute(
            "Optional[Enum[hold, none]]",
            "`hold`: apt leaves the package in its version and state, except for a change that is declared here;"
            " `none`: not held.",
        ),
        "purge": Attribute(
            "Boolean", "Whether a removal also removes the configuration files.", kind="parameter", default=False
        ),
        "install_options": Attribute(
            "Optional[Array[String[1]]]",
            "Options for the installing program, with apt for instance `--no-install-recommends` or"
            " `--target-release=stable`.",
            kind="parameter",
        ),
        "version": Attribute("Optional[String]", "The installed version.", kind="read_only"),
        "candidate": Attribute(
            "Optional[String]",
            "The version that apt would install now; read only for `latest`.",
            kind="read_only",
        ),
        "status": Attribute("Optional[String]", "The state of the package in dpkg's words.", kind="read_only"),
    },
    verbs={"create": "installing", "delete": "removing"},
    features={"canonicalize", "custom_insync", "preflight", "side_effects", "simple_get_filter"},
)
