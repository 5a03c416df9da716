"""Rights of roles in a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lib.postgresql import NAME, config_attributes
from resource_api import Attribute, TypeDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = "database|schema|table|sequence|tablespace|tables|sequences|functions"
PART = r"[A-Za-z_][A-Za-z0-9_@$-]{0,62}"


def databases(should: Mapping[str, Any]) -> list[str]:
    """Return the database that must exist first."""
    return [should["object_name"] if should["object_type"] == "database" else should["database"]]


TYPE = TypeDefinition(
    name="postgresql_grant",
    docs="""Manage the rights of roles in a PostgreSQL server.

    Postgresql_grant[app on database shop]: {privilege: [CONNECT]}

    Postgresql_grant[app on table public.orders in shop]:
      privilege: [SELECT, INSERT, UPDATE]

    Postgresql_grant[readers on tables public in shop]: {privilege: [SELECT]}

    Postgresql_grant[PUBLIC on schema public in shop]: {ensure: absent}

The title is the role, `on`, and the object, followed by `in` and the database, except for a `database` or `tablespace`.
`tables`, `sequences` and `functions` are all objects of a schema at the time of the run; there must be at least one.
Later objects get the rights in the next run, or by `ALTER DEFAULT PRIVILEGES`.

`privilege` has all rights of the role on the object; others are revoked. `[ALL]` are all rights for the kind of object.
`PUBLIC` is every role: by default it may connect to new databases and run functions, until `ensure: absent`. Rights
that another role has granted can be revoked by that role only.

For servers and connections see [postgresql_role](postgresql_role.md).
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the role has any right there.", default="present"),
        "role": Attribute(NAME, "The role; `PUBLIC` for all.", kind="namevar", must_be="a role's name"),
        "object_type": Attribute(
            f"Enum[{KINDS.replace('|', ', ')}]",
            "The kind of object; views are tables. `tables`, `sequences`, `functions`: all in a schema.",
            kind="namevar",
        ),
        "object_name": Attribute(
            rf"Pattern[/\A{PART}(\.{PART})?\z/]",
            "The object; `SCHEMA.NAME` for a table or sequence, the schema for all objects in it.",
            kind="namevar",
            must_be="a name as 'orders', or 'public.orders' for a table or sequence",
        ),
        "database": Attribute(
            r"Optional[Pattern[/\A((?!pg_)[A-Za-z_][A-Za-z0-9_.@$-]{0,62})?\z/]]",
            "The database of the object; none for a database or tablespace.",
            kind="namevar",
            default="",
            must_be="a database's name",
        ),
        "privilege": Attribute(
            "Array[Enum[ALL, SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER, MAINTAIN, USAGE, CREATE,"
            " CONNECT, TEMPORARY, EXECUTE], 1]",
            "The rights, in any order.",
        ),
        "grant_option": Attribute("Optional[Boolean]", "Whether the role may give these rights to others."),
        "missing": Attribute("Optional[Array[String]]", "The first three objects that lack a right.", kind="read_only"),
        "is_all": Attribute("Optional[Boolean]", "Whether these are all rights.", kind="read_only"),
    },
    title_patterns=[
        {"pattern": rf"(?P<role>\S+) on (?P<object_type>{KINDS}) (?P<object_name>\S+) in (?P<database>\S+)\z"},
        {"pattern": rf"(?P<role>\S+) on (?P<object_type>{KINDS}) (?P<object_name>\S+)\z"},
        {"pattern": r"[\s\S]+\z"},
    ],
    autorequires={
        "package": "postgresql",
        "service": "postgresql",
        "postgresql_role": "$role",
        "postgresql_database": databases,
    },
    features={"canonicalize", "custom_insync", "simple_get_filter", "validate"},
)
