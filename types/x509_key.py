"""Private keys for certificates."""

from lib.path_attribute import directories_above, path_attribute
from lib.protected_file import protection_attributes
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="x509_key",
    docs="""Manage private keys for certificates: RSA, elliptic curves or Ed25519, in PEM files.

    X509_key[/etc/ssl/private/web.key]: {}

    X509_key[/etc/ssl/private/ca.key]:
      type: rsa
      size: 4096

A key is generated once. A changed `type`, `size` or `curve` is an error, unless `lifecycle.replace` allows it, because
every certificate of the key would become useless. They are not compared if the key is encrypted and no `passphrase` is
declared. A declared `passphrase` encrypts an unencrypted key; a key with another passphrase is an error. The format is
PKCS #8; keys in older formats stay as they are.

Needs the Python module `cryptography`: the extra `x509`, or the Debian package `python3-cryptography`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the key exists.", default="present"),
        "path": path_attribute(),
        "type": Attribute(
            "Optional[Enum[rsa, ec, ed25519]]", "The type; a new key is `ec` by default.", kind="init_only"
        ),
        "size": Attribute(
            "Optional[Integer[2048, 16384]]", "The bits of an RSA key; 4096 by default.", kind="init_only"
        ),
        "curve": Attribute(
            "Optional[Enum[secp256r1, secp384r1, secp521r1]]",
            "The curve of an `ec` key; `secp256r1` by default.",
            kind="init_only",
        ),
        "passphrase": Attribute(
            "Optional[Sensitive[String[1]]]", "The passphrase; by default the key is not encrypted.", write_only=True
        ),
        **protection_attributes("0600"),
        "public_key": Attribute(
            "Optional[String]", "The public key in PEM, unless the key is encrypted.", kind="read_only"
        ),
        "encrypted": Attribute("Optional[Boolean]", "Whether reading it needs a passphrase.", kind="read_only"),
    },
    autorequires={"file": directories_above, "user": "$owner", "group": "$group", "package": "python3-cryptography"},
    features={"canonicalize", "custom_insync", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
    verbs={"create": "generating"},
)
