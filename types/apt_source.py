"""Repositories from which apt installs packages."""

from __future__ import annotations

from resource_api import Attribute, TypeDefinition

WORD = r"Pattern[/\A[^\s[:cntrl:]#-][^\s[:cntrl:]]*\z/]"
KEY_BLOCK = r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n[\n -~]+"

TYPE = TypeDefinition(
    name="apt_source",
    docs="""Manage the repositories of apt, each a file of its own in /etc/apt/sources.list.d.

    Apt_source[example]:
      uris: [https://apt.example.org/debian]
      suites: [stable]
      components: [main]
      signed_by: /etc/apt/keyrings/example.asc
      before: Package[example]
    Package[example]: {ensure: present}

The title is the name of the file, without `.sources`. Before a file is written, apt checks all repositories, and
`apt-get update` fetches the lists of this one. The resource fails, and the file stays, if the repository cannot be
reached, its signature is wrong, or another file has it with other options. Packages of the repository can be installed
in the same run.

If another file has the same repository, the plan names it. To take it over, remove that file first:
`File[/etc/apt/sources.list.d/example.list]: {ensure: absent, before: Apt_source[example]}`. Comments and undeclared
fields stay. Files with several repositories, and `.list` files, are neither read nor changed; manage them with `file`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[\w-][\w.-]*\z/]",
            "The name of the file.",
            kind="namevar",
            must_be="the name of a file, of letters, digits, '_', '-' and '.'",
        ),
        "types": Attribute(
            "Optional[Array[Enum[deb, 'deb-src'], 1]]", "Packages, source packages, or both; `deb` in a new file."
        ),
        "uris": Attribute(f"Array[{WORD}, 1]", "The addresses of the repository.", must_be="a URI without blanks"),
        "suites": Attribute(
            f"Array[{WORD}, 1]",
            "The suites, such as `bookworm`; a path ending in `/` for a repository without components.",
            must_be="a suite without blanks",
        ),
        "components": Attribute(
            f"Optional[Array[{WORD}]]", "The components, such as `main`.", must_be="a component without blanks"
        ),
        "architectures": Attribute(
            r"Optional[Array[Pattern[/\A[a-z0-9][a-z0-9-]*\z/]]]",
            "Only these architectures; `[]` for the machine's own.",
            must_be="an architecture such as 'amd64'",
        ),
        "signed_by": Attribute(
            rf"Optional[Pattern[/\A(\/[^\s,[:cntrl:]]+|\h{{16,64}}!?(,\h{{16,64}}!?)*|{KEY_BLOCK})?\z/]]",
            "The accepted signature: the path of a keyring, fingerprints separated by commas, or the key in ASCII"
            " armor. An empty text: all keys that apt trusts.",
            must_be="the absolute path of a keyring, fingerprints, or a public key in ASCII armor",
        ),
        "enabled": Attribute("Optional[Boolean]", "Whether apt uses the repository."),
        "options": Attribute(
            r"Optional[Hash[Pattern[/\A[A-Za-z][A-Za-z0-9-]*\z/],"
            r" Variant[Boolean, Integer, Pattern[/\A[^\s[:cntrl:]]([^\n[:cntrl:]]*[^\s[:cntrl:]])?\z/]]]]",
            "Other fields of sources.list(5): `{Trusted: true, Check-Valid-Until: false, Languages: en de}`.",
            must_be="a text on one line",
        ),
        "update": Attribute(
            "Boolean",
            "Whether to fetch the lists of the repository before it is added or changed.",
            kind="parameter",
            default=True,
        ),
    },
    autorequires={"file": "$signed_by", "package": ["apt", "ca-certificates"]},
    verbs={"create": "fetching", "update": "fetching"},
    features={"canonicalize", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
)
