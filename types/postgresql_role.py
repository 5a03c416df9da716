"""Roles of a PostgreSQL server."""

from lib.postgresql import NAME, config_attributes
from resource_api import Attribute, TypeDefinition

BOOLEAN = "Optional[Boolean]"

TYPE = TypeDefinition(
    name="postgresql_role",
    docs="""Manage the roles, users and groups, of a PostgreSQL server.

    Postgresql_role[readers]: {}
    Postgresql_role[app]:
      login: true
      member_of: [readers]
      connection_limit: 20

`password: ${inputs.password}`: the server gets only a SCRAM verifier, computed here, so no log of the server has the
password. A verifier, `SCRAM-SHA-256$...` or `md5...`, is stored as it is. A user that may read `pg_authid`, such as
`postgres`, compares the password: one that was changed elsewhere is set again. Undeclared attributes stay; a new role
gets the server's defaults. A role that owns objects is not removed; the error names them.

By default psql connects as the account `postgres` through the socket. For other servers, ports and roles, configure a
provider:

    providers:
      postgresql_role:
        config: {host: db.example.org, user: admin, sslmode: verify-full}
    resources:
      Postgresql_role[app]: {login: true}
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the role exists.", default="present"),
        "name": Attribute(NAME, "The role; upper and lower case differ.", kind="namevar", must_be="a role's name"),
        "login": Attribute(BOOLEAN, "Whether it may log in; a new role may not."),
        "superuser": Attribute(BOOLEAN, "Whether it may do everything."),
        "createdb": Attribute(BOOLEAN, "Whether it may create databases."),
        "createrole": Attribute(BOOLEAN, "Whether it may create roles."),
        "inherit": Attribute(BOOLEAN, "Whether it has the rights of the roles that it is a member of."),
        "replication": Attribute(BOOLEAN, "Whether it may replicate."),
        "bypassrls": Attribute(BOOLEAN, "Whether it bypasses row-level security."),
        "connection_limit": Attribute("Optional[Integer[-1]]", "The most connections at a time; -1: no limit."),
        "valid_until": Attribute(
            r"Optional[Pattern[/\A(infinity|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\z/]]",
            "When the password expires, in UTC, `2027-01-31T12:00:00Z`, or `infinity`.",
            must_be="a time as 2027-01-31T12:00:00Z, or infinity",
        ),
        "member_of": Attribute(
            r"Optional[Array[Pattern[/\A[^[:cntrl:]]{1,63}\z/]]]",
            "All roles that it is a member of.",
            must_be="a role's name",
        ),
        "comment": Attribute("Optional[String]", "A comment."),
        "password": Attribute("Optional[Sensitive[String[1]]]", "The password, or its verifier.", write_only=True),
        "stored": Attribute(
            "Optional[Sensitive[String]]",
            "The storage method of the password, and the digest of the stored value.",
            kind="read_only",
        ),
        "oid": Attribute(
            "Optional[Integer]", "The number that the server has assigned.", kind="read_only", stable=True
        ),
    },
    autorequires={"package": "postgresql", "service": "postgresql", "postgresql_role": "$member_of"},
    features={
        "canonicalize",
        "custom_insync",
        "parallel",
        "side_effects",
        "side_effects_of_removals",
        "simple_get_filter",
        "validate",
    },
)
