"""Rights of accounts of a MariaDB or MySQL server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lib.mysql import ACCOUNT, SERVER, config_attributes
from lib.mysql_privilege_syntax import PRIVILEGE, TABLE, parse_target
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping


def databases(should: Mapping[str, Any]) -> list[str]:
    """Return the database that must exist first, if the rights are on one."""
    return [re.sub(r"\\([_%\\])", r"\1", name)] if (name := parse_target(should["table"]).database) else []


TYPE = TypeDefinition(
    name="mysql_grant",
    docs=r"""Manage the rights of accounts of a MariaDB or MySQL server.

    Mysql_grant[app@localhost on shop.*]:
      privileges: [SELECT, INSERT, UPDATE, DELETE]

    Mysql_grant[report@10.0.% on shop.orders]:
      privileges: ['SELECT (id, total)', SHOW VIEW]

    Mysql_grant[backup@localhost on *.*]: {privileges: [SELECT, RELOAD, LOCK TABLES]}

    Mysql_grant[app@localhost on PROCEDURE shop.close_day]: {privileges: [EXECUTE]}

    Mysql_grant[admin@localhost on shop.*]: {privileges: [ALL], options: [GRANT]}

The title says who, and on what: `*.*` is the whole server, `DATABASE.*` all of a database, `DATABASE.TABLE` a table or
view; a routine is `PROCEDURE DATABASE.NAME` or `FUNCTION DATABASE.NAME`. `ACCOUNT/TABLE`, as in Puppet, is the same.
A name with a space, `.`, `*` or a backtick stands in backticks.

In `DATABASE.*` the server takes `_` for any character and `%` for any text: `my\_app.*` is only for `my_app`, and other
rights than `my_app.*`, which are for `my-app` too.

`privileges` has all rights of the account there; others are taken away, after missing ones were given. `[ALL]` are
those that the server has for the whole server, a database, a table or a routine. `GRANT OPTION` is `options: [GRANT]`,
and stays as it is where `options` is not declared. `USAGE` is no right; with `[GRANT]` it is the right to give the
rights that the account has elsewhere. Several words for one right are one: `REPLICATION CLIENT` is `BINLOG MONITOR`.
Rights of roles, and rights to be a `PROXY`, are not managed.

The servers, and how they are reached, are described with [mysql_user](mysql_user.md). Rights of other accounts on `*.*`
and `DATABASE.*` are seen only by a user that may read the database `mysql`.
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the account has any right there.", default="present"),
        "user": Attribute(ACCOUNT, "The account, `USER@HOST`.", kind="namevar", must_be="an account as app@localhost"),
        "table": Attribute(
            TABLE,
            "What the rights are on.",
            kind="namevar",
            must_be="*.*, DATABASE.*, DATABASE.TABLE, PROCEDURE DATABASE.NAME or FUNCTION DATABASE.NAME",
        ),
        "privileges": Attribute(
            f"Array[{PRIVILEGE}, 1]",
            "The rights, in any order; of some columns as `SELECT (id, name)`.",
            must_be="rights as SELECT, or SELECT (id, name)",
        ),
        "options": Attribute(
            "Optional[Array[Enum[GRANT]]]", "`[GRANT]` if the account may give these rights to others, `[]` if not."
        ),
        "is_all": Attribute("Optional[Boolean]", "Whether these are all rights that there are.", kind="read_only"),
    },
    title_patterns=[
        {"pattern": r"(?P<user>\S+) on (?P<table>[\s\S]+)\z"},
        {"pattern": r"(?P<user>[^\s\/@]+@[^\s\/]+)\/(?P<table>[\s\S]+)\z"},
        {"pattern": r"[\s\S]+\z"},
    ],
    autorequires={**SERVER, "mysql_user": "$user", "mysql_database": databases},
    features={"canonicalize", "custom_insync", "simple_get_filter", "validate"},
)
