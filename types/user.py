"""Users of the local machine."""

from resource_api import Attribute, TypeDefinition

#: Exclude characters that would forge lines of account files, and names that programs read as options.
NAME = r"Pattern[/\A[^-+:,\/\s[:cntrl:]][^:,\/[:cntrl:]]*\z/]"
#: Excludes digits only: useradd reads them as a number.
GROUP = r"Pattern[/\A(?!\d+\z)[^-+:,\/\s[:cntrl:]][^:,\/[:cntrl:]]*\z/]"
FIELD = r"Pattern[/\A[^:[:cntrl:]]*\z/]"
PATH = r"Pattern[/\A(\/[^:[:cntrl:]]*)?\z/]"

TYPE = TypeDefinition(
    name="user",
    docs="""Manage the users of the local machine.

    User[alice]:
      comment: Alice Example
      shell: /bin/bash
      groups: [sudo]
      managehome: true

Without `gid` a new user gets the group of the same name, which is created if it does not exist. `ensure: absent` also
removes that group if it has no other member.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the user exists.", default="present"),
        "name": Attribute(NAME, "The user's login name.", kind="namevar", must_be="a user's name"),
        "uid": Attribute(
            "Optional[Integer[0, 4294967294]]",
            "The number, which cannot be changed later; the next free one for a new user if not declared.",
            kind="init_only",
        ),
        "gid": Attribute(
            f"Optional[Variant[Integer[0, 4294967294], {GROUP}]]",
            "The primary group, by name or number; shown by name if it has one.",
            must_be="a group's name",
        ),
        "gid_number": Attribute("Optional[Integer]", "The number of the primary group.", kind="read_only"),
        "groups": Attribute(
            f"Optional[Array[{NAME}]]",
            "Exactly these groups have the user as a member, by name and in any order; `[]` for none. If not declared,"
            " memberships are not changed. Do not include the primary group.",
            must_be="a group's name",
        ),
        "comment": Attribute(
            f"Optional[{FIELD}]", "The full name, or another comment.", must_be="a text on one line without ':'"
        ),
        "home": Attribute(f"Optional[{PATH}]", "The home directory, a full path.", must_be="an absolute path"),
        "shell": Attribute(f"Optional[{PATH}]", "The login shell, a full path.", must_be="an absolute path"),
        "password": Attribute(
            f"Optional[Sensitive[{FIELD}]]",
            "The hash of the password, from `mkpasswd` or `openssl passwd -6`; `!` disables the password. Only root can"
            " read and change it.",
            must_be="the hash of a password, without ':'",
        ),
        "managehome": Attribute(
            "Boolean",
            "Whether the home directory is created and deleted with the user, and moved when `home` changes.",
            kind="parameter",
            default=False,
        ),
        "system": Attribute(
            "Boolean",
            "Whether a new user gets numbers from the system range.",
            kind="parameter",
            default=False,
        ),
    },
    autorequires={"group": ["$gid", "$groups"]},
    features={"canonicalize", "custom_insync", "preflight", "simple_get_filter"},
)
