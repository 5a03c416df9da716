"""Keys by which ssh recognizes hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HOST = r"Pattern[/\A(?![#!])[^\s,|\\@[:cntrl:]]+\z/]"


def files(should: Mapping[str, Any]) -> Iterable[str]:
    """Return the file of a key and its directory: resources of a manifest with these names come before the key.

    The user of a target ``~user/...`` may not exist yet, so it is looked for in the usual home.
    """
    target = should.get("target")
    if not isinstance(target, str):
        return []
    user, slash, rest = target.removeprefix("~").partition("/")
    home = "/root" if user == "root" else f"/home/{user}"
    if target[0] == "/":
        home = ""
    path = f"{home}{slash}{rest}"
    return [path.rpartition("/")[0], path]


def owner(should: Mapping[str, Any]) -> Iterable[str]:
    """Return the user in a target such as ``~alice/.ssh/known_hosts``, as a title to require automatically."""
    target = should.get("target")
    return [target[1:].partition("/")[0]] if isinstance(target, str) and target.startswith("~") else []


TYPE = TypeDefinition(
    name="known_host",
    docs="""Manage the keys by which ssh recognizes hosts, in the files of the machine or of users.

    Known_host[git.example.org@ssh-ed25519]:
      key: AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1
      host_aliases: [192.0.2.7]
    "Known_host[[git.example.org]:2222@ed25519 ~alice/.ssh/known_hosts]":
      key: AAAAC3NzaC1lZDI1NTE5AAAAIGmZ5Zs0bX6VZ0bN0m6oD3z0Yy0fHk2l0nqv9oO5kQy1
      hashed: true

The title is the first name of the host, `@`, the type of the key and, after a blank, the file, unless it is the
machine's. `::1`, `0:0::0001` and `[::1]:22` are one name. Spellings that ssh does not find are replaced. Hashed names
are recognized, but cannot be listed. Two keys of one type for a host in a file are an error, because it is unclear
which one is trusted; so is a file that cannot be read. Other lines stay.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether ssh knows the key.", default="present"),
        "name": Attribute(
            HOST,
            "The host as ssh writes it: `[host]:port` for ports other than 22.",
            kind="namevar",
            must_be="a host's name as in known_hosts",
        ),
        "type": Attribute(
            """Enum['ssh-ed25519', 'ssh-rsa', 'ssh-dss', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384',
            'ecdsa-sha2-nistp521', 'sk-ssh-ed25519@openssh.com', 'sk-ecdsa-sha2-nistp256@openssh.com',
            ed25519, rsa, dsa, 'ed25519-sk', 'ecdsa-sk']""",
            "The type of the key, as in its line or by a short name.",
            kind="namevar",
        ),
        "target": Attribute(
            r"Optional[Pattern[/\A(~[\w.][\w.-]*\$?)?(\/[^\/\x00-\x1f\x7f]+)+\z/]]",
            "The file, also in a user's home: `~alice/.ssh/known_hosts`.",
            kind="namevar",
            default="/etc/ssh/ssh_known_hosts",
            must_be="an absolute path, or one that begins with ~ and a user's name",
        ),
        "key": Attribute(
            r"Pattern[/\A[A-Za-z0-9+\/]+={0,2}\z/]",
            "The key, the long part of its line.",
            must_be="the key in base64, without its type and comment",
        ),
        "host_aliases": Attribute(
            f"Optional[Array[{HOST}]]",
            "More names and addresses of the host; an empty list removes them.",
            must_be="a host's name as in known_hosts",
        ),
        "hashed": Attribute("Optional[Boolean]", "Whether the name is hashed in the file; not with `host_aliases`."),
        "misspelled": Attribute(
            "Optional[Hash[String, String]]",
            "Names in a spelling that ssh does not find, with the right one.",
            kind="read_only",
        ),
        "marker": Attribute(
            "Enum[none, 'cert-authority', revoked]",
            "The purpose of the key: to recognize the host (`none`), to sign keys of hosts, or to be refused.",
            kind="namevar",
            default="none",
        ),
    },
    title_patterns=[
        {"pattern": r"(?P<name>[^\s@]+)@(?P<type>\S+) (?P<target>[~\/]\S+)\z"},
        {"pattern": r"(?P<name>[^\s@]+)@(?P<type>\S+)\z"},
        {"pattern": r"(?P<name>[\s\S]+)\z"},
    ],
    autorequires={"user": owner, "file": files},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
