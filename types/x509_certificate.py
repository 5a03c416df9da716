"""Certificates: self-signed, or signed by a certificate authority of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.path_attribute import path_attribute
from lib.protected_file import files_before, protection_attributes
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = r"Optional[Pattern[/\A\/[^\x00-\x1f\x7f]*\z/]]"
#: An object identifier.
OID = r"Pattern[/\A\d+(\.\d+)+\z/]"
USAGES = "Enum[serverAuth, clientAuth, codeSigning, emailProtection, timeStamping, OCSPSigning]"


def files(should: Mapping[str, Any]) -> list[str]:
    """Return the files and directories that must exist first, to require them automatically."""
    return files_before(should, "private_key", "csr", "ca_certificate", "ca_key")


TYPE = TypeDefinition(
    name="x509_certificate",
    docs="""Manage certificates in PEM files, and renew them before they expire.

    X509_key[/etc/ssl/private/web.key]: {}
    X509_certificate[/etc/ssl/certs/web.pem]:
      private_key: /etc/ssl/private/web.key
      subject: {CN: www.example.org, O: Example}
      alt_names: [www.example.org, example.org, 192.0.2.1]

    X509_certificate[/etc/ssl/certs/app.pem]:
      csr: /srv/app/app.csr
      ca_certificate: /etc/ssl/certs/ca.pem
      ca_key: /etc/ssl/private/ca.key
      days: 90

With `ca_certificate` and `ca_key` the authority signs; otherwise the certificate is self-signed. It is for the key in
`private_key`, or in a signing request, `csr`, whose subject and alternative names are used unless declared. Other
extensions of a request are ignored.

A certificate is issued again when an attribute differs, when it does not belong to the key or the authority, and
`renew_before` days before it expires. Undeclared attributes are copied from the present certificate. Notify the service
that uses it: `notify: Service[nginx]`.

Needs the Python module `cryptography`: the extra `x509`, or the Debian package `python3-cryptography`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the certificate exists.", default="present"),
        "path": path_attribute(),
        "private_key": Attribute(FILE, "The file of the private key.", must_be="an absolute path"),
        "passphrase": Attribute("Optional[Sensitive[String[1]]]", "The passphrase of the key.", kind="parameter"),
        "csr": Attribute(FILE, "The file of a signing request, instead of the key.", must_be="an absolute path"),
        "ca_certificate": Attribute(FILE, "The file of the authority's certificate.", must_be="an absolute path"),
        "ca_key": Attribute(FILE, "The file of the authority's key.", kind="parameter", must_be="an absolute path"),
        "ca_passphrase": Attribute(
            "Optional[Sensitive[String[1]]]", "The passphrase of the authority's key.", kind="parameter"
        ),
        "subject": Attribute(
            f"Optional[Hash[Variant[Enum[CN, O, OU, L, ST, C, emailAddress, serialNumber], {OID}], String]]",
            "The subject: parts by short name, others by number.",
            must_be="a part's short name, or its number as 2.5.4.3",
        ),
        "alt_names": Attribute(
            "Optional[Array[Pattern[/\\A[^[:cntrl:]]+\\z/]]]",
            "Names and addresses, in any order, as `DNS:`, `IP:`, `email:` or `URI:`; without a prefix, an address"
            " or a DNS name. By default the `CN`.",
            must_be="a name or address",
        ),
        "ca": Attribute("Optional[Boolean]", "Whether it is for a certificate authority; by default not."),
        "extended_key_usage": Attribute(
            f"Optional[Array[Variant[{USAGES}, {OID}]]]",
            "The permitted uses, in any order; by default all.",
            must_be="one of the uses, or its number as 1.3.6.1.5.5.7.3.1",
        ),
        "days": Attribute("Integer[1, 36500]", "The validity in days.", kind="parameter", default=365),
        "renew_before": Attribute("Integer[0, 36500]", "The days before its end when it is issued again.", default=30),
        **protection_attributes("0644"),
        "issuer": Attribute("Optional[String]", "The subject of the signer.", kind="read_only"),
        "serial": Attribute("Optional[String]", "The serial number, hexadecimal.", kind="read_only"),
        "not_after": Attribute("Optional[String]", "Its end, in UTC: `2027-01-31T12:00:00Z`.", kind="read_only"),
        "fingerprint": Attribute("Optional[String]", "The SHA-256 of the certificate.", kind="read_only"),
    },
    autorequires={
        "file": files,
        "x509_key": ["$private_key", "$ca_key"],
        "x509_certificate": "$ca_certificate",
        "user": "$owner",
        "group": "$group",
        "package": "python3-cryptography",
    },
    features={"canonicalize", "custom_insync", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
    verbs={"create": "issuing", "update": "issuing"},
)
