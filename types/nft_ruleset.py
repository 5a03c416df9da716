"""The rules of nftables."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="nft_ruleset",
    docs="""Manage tables of nftables: in a file that is loaded at boot, and in the running kernel.

    Nft_ruleset[/etc/nftables.conf]:
      content: |
        flush ruleset
        table inet filter {
          chain input {
            type filter hook input priority 0; policy drop;
            ct state established,related accept
            iifname "lo" accept
            tcp dport { 22, 443 } accept
          }
        }

The tables of the file are replaced in one transaction. A file that the kernel refuses, or that conflicts with
/etc/nftables.conf, is not written; the plan warns of errors in its text. Other tables, such as those of containers,
stay, unless the file contains `flush ruleset`. The kernel's tables are compared with the file's, without counters:
rules that were added or removed by hand are drift, and the plan names them. So use `iifname` instead of `iif`, which
needs the interface, and no sets whose elements other programs change.

`ensure: absent` and `destroy` remove the file and its tables. `destroy` keeps a file and rules that existed before,
unless a package of ours brought them. Enable `Service[nftables]` to load /etc/nftables.conf at boot.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file and its tables exist.", default="present"),
        "path": Attribute(
            r"Pattern[/\A\/[^\x00-\x1f\x7f]+\z/]",
            "The file.",
            kind="namevar",
            default="/etc/nftables.conf",
            must_be="an absolute path",
        ),
        "content": Attribute("String[1]", "The text of the file, as nft(8) reads it."),
        "drift": Attribute(
            "Optional[Array[String]]", "The rules in which the kernel differs from the file.", kind="read_only"
        ),
        "package": Attribute("Optional[String]", "The package that the file belongs to.", kind="read_only"),
        "loaded": Attribute("Boolean", "Whether the kernel has the tables of the file.", kind="read_only"),
    },
    autorequires={"package": "nftables"},
    autobefore={"service": "nftables"},
    brought_by={"package": "package"},
    features={
        "canonicalize",
        "custom_insync",
        "not_rehearsable",
        "preflight",
        "preflight_of_removals",
        "simple_get_filter",
    },
)
