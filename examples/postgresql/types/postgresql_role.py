"""Roles of a PostgreSQL server."""

from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="postgresql_role",
    version="1.0.0",
    docs="""
    Manage the roles (users and groups) of a PostgreSQL server.

        Postgresql_role[readers]: {}
        Postgresql_role[app]:
          login: true
          password: ${inputs.password}
          member_of: [readers]
    """,
    config={
        "host": Attribute("String[1]", "The host, or the directory of the socket.", default="/var/run/postgresql"),
        "port": Attribute("Integer[1, 65535]", "The port.", default=5432),
        "user": Attribute("String[1]", "The role that the changes are made with.", default="postgres"),
        "account": Attribute("String[1]", "The local account that psql runs as.", default="postgres"),
    },
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the role exists.", default="present"),
        "name": Attribute(r"Pattern[/\A[a-zA-Z_][a-zA-Z0-9_.@-]{0,62}\z/]", "The role, in this case.", kind="namevar"),
        "login": Attribute("Optional[Boolean]", "Whether it may log in; a new role may not."),
        "create_databases": Attribute("Optional[Boolean]", "Whether it may create databases."),
        "connection_limit": Attribute("Optional[Integer[-1]]", "The most connections at a time; -1: no limit."),
        "member_of": Attribute("Optional[Array[String[1]]]", "All roles that it is a member of, in any order."),
        "comment": Attribute("Optional[String]", "A note for people."),
        "password": Attribute(
            "Optional[Sensitive[String[8]]]", "The password; the server gets only a SCRAM verifier.", write_only=True
        ),
        "oid": Attribute("Optional[Integer]", "The number that the server has assigned.", kind="read_only"),
    },
    autorequires={"package": "postgresql", "service": "postgresql", "postgresql_role": "$member_of"},
    features={"canonicalize", "simple_get_filter"},
)
