"""Databases of a MariaDB or MySQL server."""

from lib.mysql import SERVER, config_attributes
from resource_api import Attribute, TypeDefinition

#: Those of the server are not managed; it cuts off spaces at the end.
NAME = r"Pattern[/\A(?!(information_schema|mysql|performance_schema|sys)\z)[^[:cntrl:]]{0,63}[^[:cntrl:]\s]\z/]"

TYPE = TypeDefinition(
    name="mysql_database",
    docs="""Manage the databases of a MariaDB or MySQL server.

    Mysql_database[shop]:
      charset: utf8mb4
      collate: utf8mb4_unicode_ci

`ensure: absent` drops the database with all its tables; `lifecycle: {protect: true}` prevents that. A new database gets
the server's defaults for undeclared attributes. A changed `charset` or `collate` applies to new tables. `utf8` is
`utf8mb3`. For servers and connections see [mysql_user](mysql_user.md).
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the database exists.", default="present"),
        "name": Attribute(
            NAME, "The database; upper and lower case differ.", kind="namevar", must_be="a database's name"
        ),
        "charset": Attribute(
            r"Optional[Pattern[/\A\w+\z/]]", "The character set of new tables.", must_be="a character set as utf8mb4"
        ),
        "collate": Attribute(
            r"Optional[Pattern[/\A\w+\z/]]",
            "The collation of new tables; by default that of `charset`.",
            must_be="a collation as utf8mb4_unicode_ci",
        ),
    },
    autorequires=SERVER,
    features={"canonicalize", "simple_get_filter", "validate"},
)
