"""Commands that are run when they are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATH = r"Pattern[/\A\/[^\x00]*\z/]"
COMMAND = "Variant[String[1], Array[String, 1]]"
GUARD = "Optional[Variant[String[1], Array[Variant[String[1], Array[String, 1]]]]]"


def files(should: Mapping[str, Any]) -> Iterator[str]:
    """Give the files that a command needs: its working directory, and its program where that is a full path."""
    command = should.get("command") or should["name"]
    if isinstance(should.get("cwd"), str):
        yield should["cwd"]
    if isinstance(command, (str, list)):
        yield from (word for word in (command.split() if isinstance(command, str) else command)[:1] if word[0:1] == "/")


TYPE = TypeDefinition(
    name="exec",
    docs="""Run a command, unless what it is for has been done already.

    Exec[unpack]:
      command: tar -xf /srv/app.tar -C /opt/app
      creates: /opt/app/bin
    Exec[/usr/sbin/update-ca-certificates]:
      refreshonly: true
      subscribe: File[/usr/local/share/ca-certificates/ours.crt]

A command that is due whenever it is looked at runs in every apply: say with `creates`, `onlyif`, `unless` or
`refreshonly` when it is. When a resource notifies it, it runs once more, if `creates`, `onlyif` and `unless` allow.

A command given as text is split into words as a shell would, but no shell runs it: `$HOME`, `*`, `;` and `|` are
passed as they are. With `shell: true` it goes to `/bin/sh`. A command given as a list is never split.
The environment is small and always the same; the metaparameter `timeout` replaces the limit of 300 seconds.
""",
    attributes={
        "name": Attribute("String[1]", "What this is called; also the command, unless that is given.", kind="namevar"),
        "command": Attribute(
            f"Optional[{COMMAND}]", "What to run: a text, or a list of the program and its arguments.", kind="parameter"
        ),
        "shell": Attribute(
            "Boolean", "Whether `/bin/sh` runs what is given as text, guards too.", kind="parameter", default=False
        ),
        "creates": Attribute(
            f"Optional[Variant[{PATH}, Array[{PATH}]]]", "Run only if none of these files exists.", kind="parameter"
        ),
        "onlyif": Attribute(
            GUARD,
            "Run only if this command succeeds (exit code 0). A list is one of commands, all of which must succeed;"
            " one among them given as a list itself is a program and its arguments.",
            kind="parameter",
        ),
        "unless": Attribute(GUARD, "Do not run if this command, or any in the list, succeeds.", kind="parameter"),
        "refreshonly": Attribute(
            "Boolean", "Whether to run only when notified by another resource.", kind="parameter", default=False
        ),
        "cwd": Attribute(f"Optional[{PATH}]", "The directory in which it runs; `/` without.", kind="parameter"),
        "user": Attribute(
            "Optional[String[1]]",
            "Run as this user, with its groups and its `HOME`; guards too. Only root can.",
            kind="parameter",
        ),
        "path": Attribute(
            f"Optional[Variant[{PATH}, Array[{PATH}, 1]]]",
            "Where to look for programs, a list or a text with colons; the directories of the system without.",
            kind="parameter",
        ),
        "environment": Attribute(
            r"Optional[Variant[Hash[Pattern[/\A[^=\x00]+\z/], String], Array[Pattern[/\A[^=\x00]+=/]]]]",
            "Further variables, as a mapping or a list of `NAME=VALUE`.",
            kind="parameter",
        ),
        "input": Attribute(
            "Optional[Sensitive[String]]", "What the command reads from stdin, secrets too.", kind="parameter"
        ),
        "returns": Attribute(
            "Variant[Integer[0, 255], Array[Integer[0, 255], 1]]",
            "The exit codes that mean success.",
            kind="parameter",
            default=0,
        ),
        "tries": Attribute("Integer[1]", "How often to run it until it succeeds.", kind="parameter", default=1),
        "try_sleep": Attribute("Numeric", "Seconds between two tries.", kind="parameter", default=0),
        "logoutput": Attribute(
            "Enum[never, on_failure, always]",
            "When to show what the command says on stdout. What it says on stderr is always a warning.",
            kind="parameter",
            default="on_failure",
        ),
    },
    autorequires={"user": "$user", "file": files},
    features={"imperative", "refreshable", "simple_get_filter", "validate"},
)
