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

The title is the name of the file, without `.sources`. Before a file is written or changed, apt reads all repositories
as they will be, and `apt-get update` fetches the lists of exactly this one. It is a failure, and the file stays as it
was, if another file has the repository with other options, such as another `Signed-By`, so that apt could read none; if
the repository cannot be reached; and if its signature is wrong. Packages of the repository can be installed by the same
run. Where another file has the same repository, in this form or as a line of a `.list`, the plan names it; to take it
over, declare that file absent before: `File[/etc/apt/sources.list.d/example.list]: {ensure: absent, before:
Apt_source[example]}`. Comments and fields that are not declared stay as they are. A file with several repositories, and
files of the older format (`.list`), are neither read nor changed; manage them with `file`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether apt uses the repository.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[\w-][\w.-]*\z/]",
            "The name of the file in /etc/apt/sources.list.d, without `.sources`.",
            kind="namevar",
            must_be="the name of a file, of letters, digits, '_', '-' and '.'",
        ),
        "types": Attribute(
            "Optional[Array[Enum[deb, 'deb-src'], 1]]", "Packages, source packages, or both; at first only `deb`."
        ),
        "uris": Attribute(f"Array[{WORD}, 1]", "The addresses of the repository.", must_be="a URI without blanks"),
        "suites": Attribute(
            f"Array[{WORD}, 1]",
            "The suites, such as `bookworm`; a path that ends with `/` for a repository without components.",
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
            "Whose signature is accepted: the full path of a keyring, fingerprints with commas between them, or the key"
            " itself in ASCII armor. An empty text stands for all keys that apt trusts.",
            must_be="the absolute path of a keyring, fingerprints, or a public key in ASCII armor",
        ),
        "enabled": Attribute("Optional[Boolean]", "Whether apt uses the repository although the file exists."),
        "options": Attribute(
            r"Optional[Hash[Pattern[/\A[A-Za-z][A-Za-z0-9-]*\z/],"
            r" Variant[Boolean, Integer, Pattern[/\A[^\s[:cntrl:]]([^\n[:cntrl:]]*[^\s[:cntrl:]])?\z/]]]]",
            "All further fields of sources.list(5): `{Trusted: true, Check-Valid-Until: false, Languages: en de}`.",
            must_be="a text on one line",
        ),
        "update": Attribute(
            "Boolean",
            "Whether the lists of the repository are fetched before it is added or changed.",
            kind="parameter",
            default=True,
        ),
    },
    autorequires={"file": "$signed_by", "package": ["apt", "ca-certificates"]},
    verbs={"create": "fetching", "update": "fetching"},
    features={"canonicalize", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
)
