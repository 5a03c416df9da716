"""Users of the local machine."""

from resource_api import Attribute, TypeDefinition

#: No line of an account file can be forged with these, no program takes a name for an option.
NAME = r"Pattern[/\A[^-+:,\/\s[:cntrl:]][^:,\/[:cntrl:]]*\z/]"
#: useradd takes digits for a number, and so do we.
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

Without `gid` a new user gets the group of its own name, which is made when it is missing.
`ensure: absent` removes that group too when nobody else is in it.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the user exists.", default="present"),
        "name": Attribute(NAME, "The user's login name.", kind="namevar"),
        "uid": Attribute(
            "Optional[Integer[0, 4294967294]]",
            "The number, which cannot be changed later. A new user gets the next free one without.",
            kind="init_only",
        ),
        "gid": Attribute(
            f"Optional[Variant[Integer[0, 4294967294], {GROUP}]]",
            "The primary group: its name, or its number. Shown as its name if it has one.",
        ),
        "gid_number": Attribute("Optional[Integer]", "The number of the primary group.", kind="read_only"),
        "groups": Attribute(
            f"Optional[Array[{NAME}]]",
            "Exactly these groups list the user as a member, by name and in any order; `[]`: none. Not declared:"
            " membership is left alone. The primary group needs no mention.",
        ),
        "comment": Attribute(f"Optional[{FIELD}]", "The full name, or what else is to be known."),
        "home": Attribute(f"Optional[{PATH}]", "The home directory, a full path."),
        "shell": Attribute(f"Optional[{PATH}]", "The program that a login starts, a full path."),
        "password": Attribute(
            f"Optional[Sensitive[{FIELD}]]",
            "The password's hash, as `mkpasswd` or `openssl passwd -6` make it; `!` allows no password at all."
            " Only root can read or change it.",
        ),
        "managehome": Attribute(
            "Boolean",
            "Whether the home directory is made with the user, moved when `home` changes, and deleted with the user.",
            kind="parameter",
            default=False,
        ),
        "system": Attribute(
            "Boolean",
            "Whether a new user's numbers come from the range for the system.",
            kind="parameter",
            default=False,
        ),
    },
    autorequires={"group": ["$gid", "$groups"]},
    features={"canonicalize", "custom_insync", "simple_get_filter"},
)
