"""The attributes that declare a condition; `wait_conditions` has the checks."""

from __future__ import annotations

from resource_api import Attribute

PATH = r"Pattern[/\A\/[^\x00]*\z/]"
COMMAND = "Variant[String[1], Array[String, 1]]"


def condition_attributes() -> dict[str, Attribute]:
    """Return the attributes of a condition, for a type that checks or awaits one."""
    return {
        "path": Attribute(f"Optional[{PATH}]", "A path that exists.", kind="parameter", must_be="an absolute path"),
        "missing": Attribute(
            f"Optional[{PATH}]",
            "A path that does not exist, such as a lock.",
            kind="parameter",
            must_be="an absolute path",
        ),
        "pattern": Attribute(
            "Optional[String[1]]",
            "A regular expression that matches in a line of the file `path`, of which only the last 16 MiB are read.",
            kind="parameter",
        ),
        "port": Attribute("Optional[Integer[1, 65535]]", "A TCP port that accepts connections.", kind="parameter"),
        "host": Attribute("String[1]", "The host of `port`.", kind="parameter", default="localhost"),
        "url": Attribute(
            r"Optional[Pattern[/\Ahttps?:\/\/\S+\z/]]",
            "A URL that responds with a status below 400, or with `status`; redirects are followed.",
            kind="parameter",
            must_be="a URL that begins with http:// or https://",
        ),
        "status": Attribute(
            "Optional[Integer[100, 599]]", "The status that `url` must respond with.", kind="parameter"
        ),
        "command": Attribute(
            f"Optional[{COMMAND}]",
            "A command that succeeds: a text, split as by a shell but run without one, or a list of the program and its"
            " arguments.",
            kind="parameter",
        ),
    }
