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

Without `gid`, a new user gets the group of the same name, which is created if missing. `ensure: absent` also removes
that group if it has no other member.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the user exists.", default="present"),
        "name": Attribute(NAME, "The user's login name.", kind="namevar", must_be="a user's name"),
        "uid": Attribute(
            "Optional[Integer[0, 4294967294]]",
            "The number, which cannot be changed; by default the next free one.",
            kind="init_only",
        ),
        "gid": Attribute(
            f"Optional[Variant[Integer[0, 4294967294], {GROUP}]]", "The primary group.", must_be="a group's name"
        ),
        "gid_number": Attribute("Optional[Integer]", "The number of the primary group.", kind="read_only"),
        "groups": Attribute(
            f"Optional[Array[{NAME}]]",
            "The other groups of the user, by name and in any order; `[]` for none. Undeclared memberships stay.",
            must_be="a group's name",
        ),
        "membership": Attribute(
            "Enum[inclusive, minimum]",
            "`inclusive`: other memberships are removed; `minimum`: they stay.",
            kind="parameter",
            default="inclusive",
        ),
        "comment": Attribute(
            f"Optional[{FIELD}]", "The full name, or another comment.", must_be="a text on one line without ':'"
        ),
        "home": Attribute(f"Optional[{PATH}]", "The home directory.", must_be="an absolute path"),
        "shell": Attribute(f"Optional[{PATH}]", "The login shell.", must_be="an absolute path"),
        "password": Attribute(
            f"Optional[Sensitive[{FIELD}]]",
            "The hash of the password, from `mkpasswd` or `openssl passwd -6`; `!` disables the password. A text"
            " that is no hash causes a warning. Needs root.",
            must_be="the hash of a password, without ':'",
        ),
        "expiry": Attribute(
            r"Optional[Variant[Enum[absent], Pattern[/\A(19[7-9]|[2-9]\d\d)\d-[01]\d-[0-3]\d\z/]]]",
            "The day from which the account is disabled; `absent` for none.",
            must_be="a date such as '2030-12-31'",
        ),
        "password_max_age": Attribute(
            "Optional[Integer[-1, 999999]]", "Days until the password must be changed; -1 for never."
        ),
        "password_min_age": Attribute("Optional[Integer[-1, 99998]]", "Days until the password may be changed again."),
        "password_warn_days": Attribute(
            "Optional[Integer[-1, 99998]]", "Days of warnings before the password expires."
        ),
        "subuids": Attribute(
            f"Optional[Array[{RANGE}]]",
            "The ranges of user numbers for containers, as in subuid(5) without the name: `100000:65536`; `[]` for"
            " none. By default a new user gets useradd's.",
            must_be="a first number and a count with a colon between them",
        ),
        "subgids": Attribute(
            f"Optional[Array[{RANGE}]]",
            "The same for group numbers, as in subgid(5).",
            must_be="a first number and a count with a colon between them",
        ),
        "allowdupe": Attribute(
            "Boolean", "Whether a new user may have the number of another one.", kind="parameter", default=False
        ),
        "managehome": Attribute(
            "Boolean",
            "Whether to create and delete the home directory with the user, and move it when `home` changes.",
            kind="parameter",
            default=False,
        ),
        "system": Attribute(
            "Boolean", "Whether a new user gets numbers from the system range.", kind="parameter", default=False
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
