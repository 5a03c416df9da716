"""Databases of a PostgreSQL server."""

from lib.postgresql import NAME, config_attributes
from resource_api import Attribute, TypeDefinition

TYPE = TypeDefinition(
    name="postgresql_database",
    docs="""Manage the databases of a PostgreSQL server.

    Postgresql_role[app]: {login: true}
    Postgresql_database[app]:
      owner: app
      encoding: UTF8
      locale: C.UTF-8

`ensure: absent` drops the database with all its data; `lifecycle: {protect: true}` prevents that. The server refuses it
while clients are connected. `encoding` and `locale` can be set at creation only. For servers and connections see
[postgresql_role](postgresql_role.md).
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the database exists.", default="present"),
        "name": Attribute(
            NAME, "The database; upper and lower case differ.", kind="namevar", must_be="a database's name"
        ),
        "owner": Attribute(
            r"Optional[Pattern[/\A[^[:cntrl:]]{1,63}\z/]]", "The role that owns it.", must_be="a role's name"
        ),
        "encoding": Attribute(
            r"Optional[Pattern[/\A[\w-]+\z/]]", "The encoding.", kind="init_only", must_be="an encoding"
        ),
        "locale": Attribute(
            r"Optional[Pattern[/\A[\w.@-]+\z/]]",
            "The locale for sorting and character classes.",
            kind="init_only",
            must_be="a locale",
        ),
        "template": Attribute(
            f"Optional[{NAME}]",
            "The template of a new database; `template0` if `encoding` or `locale` is declared.",
            kind="parameter",
            must_be="a database's name",
        ),
        "tablespace": Attribute(
            r"Optional[Pattern[/\A[^[:cntrl:]]{1,63}\z/]]", "The tablespace.", must_be="a tablespace"
        ),
        "connection_limit": Attribute("Optional[Integer[-1]]", "The most connections at a time; -1: no limit."),
        "allow_connections": Attribute("Optional[Boolean]", "Whether connections are allowed."),
        "is_template": Attribute("Optional[Boolean]", "Whether roles that may create databases may copy it."),
        "comment": Attribute("Optional[String]", "A comment."),
        "oid": Attribute(
            "Optional[Integer]", "The number that the server has assigned.", kind="read_only", stable=True
        ),
    },
    autorequires={
        "package": "postgresql",
        "service": "postgresql",
        "postgresql_role": "$owner",
        "postgresql_database": "$template",
    },
    features={"canonicalize", "side_effects", "side_effects_of_removals", "simple_get_filter", "validate"},
)
