"""Public keys that allow a login as a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def files(should: Mapping[str, Any]) -> Iterable[str]:
    """Return the file of the key and its directory, so that resources with these names come before the key.

    The user may not exist yet, so ``~`` stands for the usual home.
    """
    user = should.get("user")
    if not isinstance(user, str):
        return []
    home = "/root" if user == "root" else f"/home/{user}"
    path = (should.get("target") or "").replace("~", home, 1).replace("%u", user)
    return [path.rpartition("/")[0], path]


TYPE = TypeDefinition(
    name="ssh_authorized_key",
    docs="""
        Manage the public keys in users' authorized_keys files. Lines without a comment stay as they are.

            Ssh_authorized_key[ann@laptop]:
              user: deploy
              type: ssh-ed25519
              key: AAAAC3NzaC1lZDI1NTE5AAAAIBfQTD0zM0aZKcm8bcA3wCT3jWjXSyWFHpNmQ1nVdSKw
              options: [no-pty]

        The title is the key's comment, the last part of its line. A key is identified by its comment, type, user and
        file; in one file, only one key of each type may have a comment. For two keys with one comment, use different
        titles and declare the comment as `name`.

        sshd uses the options of the first line with a key. If an earlier line has the same key with other options, the
        plan names it, and the declared line is put before it. If a removed key is on another line too, a warning names
        that line: it still allows a login. `~/.ssh` and the file are created if needed, accessible to the user only. If
        a file cannot be read, such as a symbolic link of the user, all its keys fail, also absent ones.
    """,
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the key allows a login.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?\z/]",
            "The key's comment.",
            kind="namevar",
            must_be="a comment on one line",
        ),
        "target": Attribute(
            r"Optional[Pattern[/\A~?(\/[^\/\x00-\x1f\x7f]+)+\z/]]",
            "The file; `~` is the user's home, `%u` the user's name.",
            kind="namevar",
            default="~/.ssh/authorized_keys",
            must_be="an absolute path, or one that begins with ~/",
        ),
        "user": Attribute(
            r"Pattern[/\A[\w.][\w.-]*\$?\z/]",
            "The user who can log in and owns the file.",
            kind="namevar",
            must_be="a user's name",
        ),
        "type": Attribute(
            """Enum['ssh-ed25519', 'ssh-rsa', 'ssh-dss', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384',
            'ecdsa-sha2-nistp521', 'sk-ssh-ed25519@openssh.com', 'sk-ecdsa-sha2-nistp256@openssh.com',
            'ssh-ed25519-cert-v01@openssh.com', 'ssh-rsa-cert-v01@openssh.com', 'ssh-dss-cert-v01@openssh.com',
            ed25519, rsa, dsa, 'ed25519-sk', 'ecdsa-sk', any]""",
            "The type of the key, as in its line or by a short name. `any` is for removal: keys of all types with"
            " the comment.",
            kind="namevar",
            default="any",
        ),
        "key": Attribute(
            r"Pattern[/\A[A-Za-z0-9+\/]+={0,2}\z/]",
            "The key, the long part in the middle of its line.",
            must_be="the key in base64, without its type and comment",
        ),
        "options": Attribute(
            r"""Optional[Array[Pattern[/\A[\w-]+(="(\\"|\\(?!")|[^"\\\x00-\x08\x0a-\x1f\x7f])*")?\z/]]]""",
            'Restrictions: `no-pty`, `from="10.0.0.0/8"`; a quote inside is `\\"`. An empty list removes them.',
            must_be='an option such as no-pty or from="10.0.0.0/8"',
        ),
        "overridden_by": Attribute(
            "Optional[String]", "The earlier line with the same key, which sshd uses.", kind="read_only"
        ),
    },
    title_patterns=[{"pattern": r"(?P<name>[\s\S]+) (?P<target>~?/\S+)\z"}, {"pattern": r"(?P<name>[\s\S]+)\z"}],
    autorequires={"user": "$user", "file": files},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter", "validate"},
)
