"""Rules of sudo: who may run which commands as whom."""

from __future__ import annotations

from resource_api import Attribute, TypeDefinition

#: A command without its end, or the start of a comment, in sudoers(5); a regular expression; a digest before either.
COMMAND = (
    r"(sha\d{3}:[\w+\/=]+ +)?(\^[^,[:cntrl:]]*\$"
    r"|(?![A-Z_]+:)([^\s\\,:=#^[:cntrl:]]|\\[^[:cntrl:]])(([^\\,:=#[:cntrl:]]|\\[^[:cntrl:]])*([^\s\\,:=#[:cntrl:]]|\\[^[:cntrl:]]))?)"
)
WHO = r"[+%#]?[:#]?([\w.@-]|\\[^[:cntrl:]])+\$?"

TYPE = TypeDefinition(
    name="sudo_rule",
    docs="""Manage rules of sudo, each in a file of its own in /etc/sudoers.d.

    Sudo_rule[deploy]:
      user: deploy
      commands: [/usr/bin/systemctl restart app, /usr/bin/systemctl status app]
      runas: root
      nopasswd: true
    Sudo_rule[defaults]:
      content: |
        Defaults:%admin timestamp_timeout=5

Before a file is written, `visudo` checks /etc/sudoers and the whole directory. An error, such as an alias that another
file has too, names the files, and nothing changes; the plan warns of it. The file has mode 0440 and belongs to root.
One that others can write is written anew, because sudo ignores it. Comments stay unless `content` is declared. A file
that is not one such rule is shown with its `content`.
""",
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the file exists.", default="present"),
        "name": Attribute(
            r"Pattern[/\A[\w-]+\z/]",
            "The name of the file in /etc/sudoers.d.",
            kind="namevar",
            must_be="the name of a file, of letters, digits, '_' and '-'",
        ),
        "user": Attribute(
            rf"Optional[Pattern[/\A{WHO}\z/]]",
            "A user, `%group`, `#uid`, `+netgroup`, an alias, or `ALL`.",
            must_be="a user, or a group with % before it",
        ),
        "hosts": Attribute(
            r"Optional[Array[Pattern[/\A!?[\w.\/*?+-]+\z/], 1]]",
            "The hosts; by default all.",
            must_be="a host, a network, an alias, or ALL",
        ),
        "runas": Attribute(
            rf"Optional[Pattern[/\A({WHO}(,{WHO})*)?(:{WHO}(,{WHO})*)?\z/]]",
            "The target: a user, `user:group`, `:group`, several separated by commas, or `ALL`; by default sudo's,"
            " root.",
            must_be="a user, or a user and a group with a colon between them",
        ),
        "commands": Attribute(
            rf"Optional[Array[Pattern[/\A!?{COMMAND}\z/], 1]]",
            "Commands as in sudoers(5): full paths with or without arguments, `ALL`, aliases, `!` before forbidden"
            " ones. Put a backslash before each of `,`, `:`, `=`, `#` and `\\` in arguments.",
            must_be="a command with a backslash before each ',', ':', '=', '#' in it",
        ),
        "nopasswd": Attribute("Optional[Boolean]", "Whether sudo asks for no password; by default it asks."),
        "tags": Attribute(
            """Optional[Array[Enum[EXEC, NOEXEC, FOLLOW, NOFOLLOW, LOG_INPUT, NOLOG_INPUT, LOG_OUTPUT, NOLOG_OUTPUT,
            MAIL, NOMAIL, INTERCEPT, NOINTERCEPT, SETENV, NOSETENV]]]""",
            "Tags of all commands, in any order; `[]` for none.",
        ),
        "content": Attribute(
            r"Optional[Pattern[/\A[^\x00-\x08\x0b-\x1f\x7f]+\z/]]",
            "The whole file, instead of the other attributes: aliases, defaults, several rules.",
            must_be="a text without control characters",
        ),
    },
    autorequires={"package": "sudo", "user": "$user", "file": "/etc/sudoers.d"},
    features={"canonicalize", "plan", "preflight", "preflight_of_removals", "simple_get_filter", "validate"},
)
