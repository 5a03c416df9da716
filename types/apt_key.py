"""OpenPGP keys whose signatures apt accepts for every repository."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="apt_key",
    docs="""Manage the OpenPGP keys that apt trusts for all repositories.

    Apt_key[6F6B15509CF8E59E6E469F327F438280EF8D349F]:
      source: https://apt.example.org/key.asc

Only the key with this `id` is taken from `source` or `content`. It is written to a file of its own in
/etc/apt/trusted.gpg.d. If apt cannot find it there, because another keyring is damaged, the resource fails and names
that file. `ensure: absent` removes the key from every file there and from /etc/apt/trusted.gpg, even if a package
installed it; other keys stay.

To trust a key for one repository only, write it to another file and name that file in the repository's `Signed-By`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether apt trusts the key.", default="present"),
        "id": Attribute(
            r"Pattern[/\A(0x)?[0-9a-fA-F]{8,40}\z/]",
            "The fingerprint, or its last digits. Use all 40 digits: shorter ids can be forged.",
            kind="namevar",
            must_be="8 to 40 hexadecimal digits",
        ),
        "source": Attribute(
            r"Optional[Pattern[/\A(\/|file:\/\/\/|https?:\/\/)[^[:cntrl:]]+\z/]]",
            "The source of a new key.",
            kind="parameter",
            must_be="an absolute path, or a URL that begins with file, http or https",
        ),
        "content": Attribute("Optional[String[1]]", "A new key in ASCII armor.", kind="parameter"),
        "fingerprint": Attribute("Optional[String]", "The whole fingerprint.", kind="read_only"),
        "created": Attribute(
            "Optional[String]", "The date when the key was created, in ISO format (UTC).", kind="read_only"
        ),
        "expires": Attribute("Optional[String]", "The date when the key expires, if it does.", kind="read_only"),
    },
    autorequires={"file": "$source", "package": ["apt", "gnupg", "gpg"]},
    features={"canonicalize", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
)
