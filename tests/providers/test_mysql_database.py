"""The databases of a real MariaDB server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api import ManifestError, Runtime
from resource_api.testing import ProviderCompliance
from tests.providers.applied import REGISTRY, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from resource_api import Resource
    from resource_api.model.report import RunReport
    from tests.mariadb_server import Server


class TestMysqlDatabase(ProviderCompliance):
    """A database with a collation, which then gets another one of its character set: that and it decide each other."""

    type_name = "mysql_database"
    listing_size = 5

    @pytest.fixture
    def config(self, mariadb: Server) -> dict[str, Any]:
        return {**mariadb.config, "password": "not-needed-here"}

    @pytest.fixture
    def present(self) -> Resource:
        return {"name": "ra-test.A", "charset": "UTF8", "collate": "utf8_bin"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        return {**present, "collate": "utf8_general_ci"}

    @pytest.fixture
    def neighbours(self) -> str:
        return "it reads no file"


@pytest.fixture
def database(mariadb: Server) -> Iterator[str]:
    """Yield the name of a database that does not exist yet, and is removed: one that only quotes keep together."""
    yield "ra `test`; DROP DATABASE %s \\ 'own"
    mariadb.sql("DROP DATABASE IF EXISTS `ra ``test``; DROP DATABASE %s \\ 'own`")


def apply(server: Server, name: str, **attributes: Any) -> RunReport:
    """Apply a database of a server; return the report."""
    providers = {"mysql_database": {"config": server.config}}
    resources = {f"Mysql_database[{name}]": attributes}
    return Runtime(REGISTRY).apply({"project": "p", "providers": providers, "resources": resources})


def test_a_collation_alone_is_of_its_character_set(mariadb: Server, database: str) -> None:
    """And a character set alone has its default collation; what differs alone is changed."""
    of_it = (
        "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"
        " WHERE SCHEMA_NAME LIKE 'ra `test%'"
    )
    assert reason(apply(mariadb, database, collate="latin2_bin")) == ""
    assert mariadb.sql(of_it) == [("latin2", "latin2_bin")]
    assert reason(apply(mariadb, database, charset="utf8mb4")) == ""
    assert mariadb.sql(of_it) == [("utf8mb4", "utf8mb4_general_ci")]
    assert apply(mariadb, database, charset="utf8mb4").summary.unchanged == 1


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"charset": "klingon"}, "Unknown character set: 'klingon' (1115)"),
        ({"charset": "utf8mb4", "collate": "latin1_bin"}, "COLLATION 'latin1_bin' is not valid for CHARACTER SET"),
    ],
)
def test_what_the_server_does_not_know_is_its_error(
    mariadb: Server, database: str, attributes: dict[str, Any], error: str
) -> None:
    """With its number, by which it is found in the manual; no database is left."""
    assert error in reason(apply(mariadb, database, **attributes))
    assert apply(mariadb, database, ensure="absent").summary.unchanged == 1


@pytest.mark.parametrize("name", ["mysql", "information_schema", "performance_schema", "sys", "a ", "a" * 65])
def test_databases_of_the_server_and_names_that_it_cuts_off_are_refused(name: str) -> None:
    """Before a server is asked."""
    with pytest.raises(ManifestError, match="must be a database's name"):
        Runtime(REGISTRY).validate({"resources": {f"Mysql_database[{name}]": {}}})
