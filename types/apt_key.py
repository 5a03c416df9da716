"""OpenPGP keys whose signatures apt accepts for every repository."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="apt_key",
    docs="""Manage the OpenPGP keys that apt trusts for all repositories.

    Apt_key[6F6B15509CF8E59E6E469F327F438280EF8D349F]:
      source: https://apt.example.org/key.asc

A key is taken from `source` or `content` only if it is the one that `id` names, and alone, whatever else is there.
It becomes a file of its own in /etc/apt/trusted.gpg.d. `ensure: absent` takes the key out of every file there and
out of /etc/apt/trusted.gpg, also where a package has brought it, and leaves the other keys of these files as they are.

A key that is to be trusted for one repository alone belongs into a file that this repository's `Signed-By` names.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether apt trusts the key.", default="present"),
        "id": Attribute(
            r"Pattern[/\A(0x)?[0-9a-fA-F]{8,40}\z/]",
            "The key's fingerprint, or its end. Anybody can make a key with a given short end: give all 40 digits.",
            kind="namevar",
        ),
        "source": Attribute(
            r"Optional[Pattern[/\A(\/|file:\/\/\/|https?:\/\/)[^[:cntrl:]]+\z/]]",
            "Where a new key comes from: a full path, or a URL beginning with file, http or https.",
            kind="parameter",
        ),
        "content": Attribute("Optional[String[1]]", "A new key itself, as text (ASCII armor).", kind="parameter"),
        "fingerprint": Attribute("Optional[String]", "The whole fingerprint.", kind="read_only"),
        "created": Attribute(
            "Optional[String]", "The day when the key was made, in ISO format (UTC).", kind="read_only"
        ),
        "expires": Attribute("Optional[String]", "The day when it expires, if it does.", kind="read_only"),
    },
    autorequires={"file": "$source", "package": ["apt", "gnupg", "gpg"]},
    features={"canonicalize", "simple_get_filter", "validate"},
)
