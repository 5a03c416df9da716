"""Users of the local machine."""

from resource_api import Attribute, TypeDefinition

#: Exclude characters that would forge lines of account files, and names that programs read as options.
NAME = r"Pattern[/\A[^-+:,\/\s[:cntrl:]][^:,\/[:cntrl:]]*\z/]"
#: Excludes digits only: useradd reads them as a number.
GROUP = r"Pattern[/\A(?!\d+\z)[^-+:,\/\s[:cntrl:]][^:,\/[:cntrl:]]*\z/]"
FIELD = r"Pattern[/\A[^:[:cntrl:]]*\z/]"
RANGE = r"Pattern[/\A(0|[1-9]\d{0,9}):[1-9]\d{0,9}\z/]"
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
            "The groups that have the user as a member, by name and in any order; `[]` for none. If not declared,"
            " memberships are not changed. Do not include the primary group.",
            must_be="a group's name",
        ),
        "membership": Attribute(
            "Enum[inclusive, minimum]",
            "Whether `groups` are all groups of the user, or those that it has at least.",
            kind="parameter",
            default="inclusive",
        ),
        "comment": Attribute(
            f"Optional[{FIELD}]", "The full name, or another comment.", must_be="a text on one line without ':'"
        ),
        "home": Attribute(f"Optional[{PATH}]", "The home directory, a full path.", must_be="an absolute path"),
        "shell": Attribute(f"Optional[{PATH}]", "The login shell, a full path.", must_be="an absolute path"),
        "password": Attribute(
            f"Optional[Sensitive[{FIELD}]]",
            "The hash of the password, from `mkpasswd` or `openssl passwd -6`; `!` disables the password. A text that"
            " is no hash is a warning. Only root can read and change it.",
            must_be="the hash of a password, without ':'",
        ),
        "expiry": Attribute(
            r"Optional[Variant[Enum[absent], Pattern[/\A(19[7-9]|[2-9]\d\d)\d-[01]\d-[0-3]\d\z/]]]",
            "The day from which the account cannot be used, `2030-12-31`; `absent` for none.",
            must_be="a date such as '2030-12-31'",
        ),
        "password_max_age": Attribute(
            "Optional[Integer[-1, 999999]]", "Days after which the password must be changed; -1 for never."
        ),
        "password_min_age": Attribute(
            "Optional[Integer[-1, 99998]]", "Days before which the password may not be changed again."
        ),
        "password_warn_days": Attribute(
            "Optional[Integer[-1, 99998]]", "Days before the end of the password on which logins warn of it."
        ),
        "subuids": Attribute(
            f"Optional[Array[{RANGE}]]",
            "The ranges of user numbers that the user may use in containers, as in subuid(5) without the name:"
            " `100000:65536`; `[]` for none. If not declared, a new user gets useradd's default.",
            must_be="a first number and a count with a colon between them",
        ),
        "subgids": Attribute(
            f"Optional[Array[{RANGE}]]",
            "The same of group numbers, as in subgid(5).",
            must_be="a first number and a count with a colon between them",
        ),
        "allowdupe": Attribute(
            "Boolean",
            "Whether a new user may get the number of another one.",
            kind="parameter",
            default=False,
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
    features={
        "canonicalize",
        "custom_insync",
        "preflight",
        "preflight_of_removals",
        "side_effects",
        "simple_get_filter",
        "validate",
    },
)
