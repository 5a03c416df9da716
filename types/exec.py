"""Commands that run when they are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.wait_condition_attributes import COMMAND, PATH
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GUARD = "Optional[Variant[String[1], Array[Variant[String[1], Array[String, 1]]]]]"


def files(should: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files whose resources come before the command: its working directory, and its program.

    A program without a full path is searched for, so its file is not known.
    """
    command = should.get("command") or should["name"]
    if isinstance(should.get("cwd"), str):
        yield should["cwd"]
    words = command.split() if isinstance(command, str) else command
    if isinstance(words, list):
        yield from (word for word in words[:1] if word[0:1] == "/")


TYPE = TypeDefinition(
    name="exec",
    docs="""Run a command, unless its effect exists already.

    Exec[unpack]:
      command: tar -xf /srv/app.tar -C /opt/app
      creates: /opt/app/bin
    Exec[/usr/sbin/update-ca-certificates]:
      refreshonly: true
      subscribe: File[/usr/local/share/ca-certificates/ours.crt]
    File[/usr/local/share/ca-certificates/ours.crt]:
      source: /srv/keys/ours.crt

Without `creates`, `onlyif`, `unless` or `refreshonly`, the command runs in every apply. A notification by another
resource runs it once more, if `creates`, `onlyif` and `unless` allow it.

A text is split into words as in a shell, but no shell runs it: `$HOME`, `*`, `;` and `|` are passed unchanged. With
`shell: true`, `/bin/sh` runs it. A list is not split. The environment has only a few fixed variables. The time limit is
300 seconds, or the metaparameter `timeout`.

As root, a command executes nothing that other users can change. This covers its program, a script that it names, and
its working directory, with everything in it for programs such as `make`, `npm` and `pip`. Otherwise it fails with path,
owner and mode; declare the `user` who runs it, or pass `--trust-path DIR`.
""",
    attributes={
        "name": Attribute("String[1]", "The name; also the command, unless `command` is declared.", kind="namevar"),
        "command": Attribute(
            f"Optional[{COMMAND}]", "The command: a text, or a list of the program and its arguments.", kind="parameter"
        ),
        "shell": Attribute(
            "Boolean", "Whether `/bin/sh` runs commands that are texts, guards too.", kind="parameter", default=False
        ),
        "creates": Attribute(
            f"Optional[Variant[{PATH}, Array[{PATH}]]]",
            "Run only if none of these files exists.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "onlyif": Attribute(
            GUARD,
            "Run only if this command succeeds. In a list, all must succeed; an inner list is a program with its"
            " arguments.",
            kind="parameter",
        ),
        "unless": Attribute(GUARD, "Do not run if this command, or one in the list, succeeds.", kind="parameter"),
        "refreshonly": Attribute(
            "Boolean", "Whether to run only when another resource notifies it.", kind="parameter", default=False
        ),
        "cwd": Attribute(
            f"Optional[{PATH}]", "The working directory; by default `/`.", kind="parameter", must_be="an absolute path"
        ),
        "user": Attribute(
            "Optional[String[1]]",
            "The user who runs it and its guards, with the user's groups and `HOME`; only root can set it. The"
            " program must belong to that user or root, and no other user may be able to change it.",
            kind="parameter",
        ),
        "path": Attribute(
            f"Optional[Variant[{PATH}, Array[{PATH}, 1]]]",
            "The directories of programs, as a list or separated by colons; by default the system's.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "environment": Attribute(
            r"Optional[Variant[Hash[Pattern[/\A[^=\x00]+\z/], String], Array[Pattern[/\A[^=\x00]+=/]]]]",
            "More variables, as a mapping or a list of `NAME=VALUE`.",
            kind="parameter",
            must_be="a variable as NAME=VALUE",
        ),
        "input": Attribute(
            "Optional[Sensitive[String]]", "The stdin of the command; may be a secret.", kind="parameter"
        ),
        "returns": Attribute(
            "Variant[Integer[0, 255], Array[Integer[0, 255], 1]]",
            "The exit codes that mean success.",
            kind="parameter",
            default=0,
        ),
        "tries": Attribute("Integer[1]", "The most attempts until it succeeds.", kind="parameter", default=1),
        "try_sleep": Attribute("Numeric", "Seconds between two attempts.", kind="parameter", default=0),
        "logoutput": Attribute(
            "Enum[never, on_failure, always]",
            "When to log the output, at the level notice. The reason of a failure has the end of stderr, and `-d`"
            " logs all output, in any case.",
            kind="parameter",
            default="on_failure",
        ),
    },
    autorequires={"user": "$user", "file": files},
    features={"imperative", "preflight", "refreshable", "simple_get_filter", "validate"},
)
