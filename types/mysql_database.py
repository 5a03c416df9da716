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

`ensure: absent` drops the database with all its tables; `lifecycle: {protect: true}` refuses that. What is not declared
is the server's default for a new database. Another `charset` or `collate` is for tables that are created later:
tables keep theirs. `utf8` is `utf8mb3`, as servers call it today.

The servers, and how they are reached, are described with [mysql_user](mysql_user.md).
""",
    config=config_attributes(),
    attributes={
        "ensure": Attribute("Enum[present, absent]", "Whether the database exists.", default="present"),
        "name": Attribute(NAME, "The database, in this case.", kind="namevar", must_be="a database's name"),
        "charset": Attribute(
            r"Optional[Pattern[/\A\w+\z/]]", "The character set of new tables.", must_be="a character set as utf8mb4"
        ),
        "collate": Attribute(
            r"Optional[Pattern[/\A\w+\z/]]",
            "How new tables sort and compare texts; without it, the default of `charset`.",
            must_be="a collation as utf8mb4_unicode_ci",
        ),
    },
    autorequires=SERVER,
    features={"canonicalize", "simple_get_filter"},
)
