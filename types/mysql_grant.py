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
    r"""Return the database that must exist first, if the rights are on one; its name is a pattern, ``my\_shop``."""
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

The title is the account, `on`, and the object: `*.*` (the whole server), `DATABASE.*`, `DATABASE.TABLE` (a table or
view), `PROCEDURE DATABASE.NAME` or `FUNCTION DATABASE.NAME`. `ACCOUNT/TABLE`, as in Puppet, is the same. Names with a
space, `.`, `*` or a backtick need backticks. In `DATABASE.*`, `_` matches any character and `%` any text: `my\_app.*`
is only `my_app`, `my_app.*` also `my-app`.

`privileges` has all rights of the account there; others are revoked after missing ones were granted. `[ALL]` are all
rights for this kind of object. `GRANT OPTION` is `options: [GRANT]`; undeclared, it stays. `USAGE` is no right; with
`[GRANT]` the account can pass on the rights that it has elsewhere. Synonyms are one right: `REPLICATION CLIENT` is
`BINLOG MONITOR`. Rights of roles, and `PROXY`, are not managed.

For servers and connections see [mysql_user](mysql_user.md). Only a user that may read the database `mysql` sees rights
of other accounts on `*.*` and `DATABASE.*`.
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the account has any right there.", default="present"),
        "user": Attribute(ACCOUNT, "The account, `USER@HOST`.", kind="namevar", must_be="an account as app@localhost"),
        "table": Attribute(
            TABLE,
            "The object.",
            kind="namevar",
            must_be="*.*, DATABASE.*, DATABASE.TABLE, PROCEDURE DATABASE.NAME or FUNCTION DATABASE.NAME",
        ),
        "privileges": Attribute(
            f"Array[{PRIVILEGE}, 1]",
            "The rights, in any order; for columns `SELECT (id, name)`.",
            must_be="rights as SELECT, or SELECT (id, name)",
        ),
        "options": Attribute(
            "Optional[Array[Enum[GRANT]]]", "`[GRANT]`: the account may give these rights to others; `[]`: it may not."
        ),
        "is_all": Attribute("Optional[Boolean]", "Whether these are all rights.", kind="read_only"),
    },
    title_patterns=[
        {"pattern": r"(?P<user>\S+) on (?P<table>[\s\S]+)\z"},
        {"pattern": r"(?P<user>[^\s\/@]+@[^\s\/]+)\/(?P<table>[\s\S]+)\z"},
        {"pattern": r"[\s\S]+\z"},
    ],
    autorequires={**SERVER, "mysql_user": "$user", "mysql_database": databases},
    features={"canonicalize", "custom_insync", "simple_get_filter", "validate"},
)
