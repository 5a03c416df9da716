"""An encrypted state: without its key no secret can be read and no change goes undetected."""

from __future__ import annotations

import json
import shutil
import sqlite3
from base64 import b64decode, b64encode
from contextlib import closing
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.model.record import Commit, Intent
from resource_api.model.sealed_secrets import EncryptedSecret, Sealed, digest_secret, open_sealed, seal_secrets
from resource_api.model.values.errors import StateError, UsageError
from resource_api.model.values.values import Sensitive
from resource_api.state.encryption import keys
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.stack_rows import make_row
from resource_api.state.store import StackName
from resource_api.testing.state_compliance import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resource_api.model.record import StackState

WEB: Final = StackName("web", "default")
OTHER: Final = StackName("web", "other")
_TABLES: Final = ("resource", "owed", "intent")


class Site:
    """A state and two keys in a directory."""

    def __init__(self, directory: str) -> None:
        """Create the keys; nothing is recorded."""
        self.path = f"{directory}/state/state.db"
        self.key, self.other = f"file:{directory}/key", f"file:{directory}/other"
        for url in (self.key, self.other):
            keys.create_key_file(url.partition(":")[2])

    def store(self, url: str | None = "") -> SqliteStore:
        """Open the state with its key, another key, or without one."""
        url = self.key if url == "" else url
        return SqliteStore(self.path, keys.key_from_url(url, {}) if url else None)

    def write(self, *, store: SqliteStore | None = None, name: StackName = WEB, **secrets: str) -> StackState:
        """Record resources with secrets in one run; return the state afterwards."""
        store = store or self.store()
        with store.lock("test", 0):
            salt = store.load(name).salt
            put = []
            for title, secret in secrets.items():
                values = seal_secrets(
                    {"token": Sensitive(secret), "list": [1, {"deep": Sensitive(secret + "!")}]}, salt
                )
                put.append(record(f"/{title}", should=values, is_=values))
            state = store.commit(
                name, Commit(put, outputs=seal_secrets({"password": Sensitive("output " + secret)}, salt))
            )
            store.finish_run(name, {"run": str(state.serial)})
        return state

    def rows(self, table: str) -> dict[int, Any]:
        """Return the bodies of a table as JSON, by row id."""
        with closing(sqlite3.connect(self.path)) as connection:
            return {number: json.loads(body) for number, body in connection.execute(f"SELECT id, body FROM {table}")}  # noqa: S608 - a name of ours

    def forge(self, table: str, bodies: dict[int, Any]) -> None:
        """Write rows like an attacker without the key: every checksum and tally is valid again."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for number, body in bodies.items():
                row = make_row(number, json.dumps(body).encode())
                connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", row)  # noqa: S608 - a name of ours
            for number, text in connection.execute("SELECT id, body FROM stack").fetchall():
                header = json.loads(text)
                for name in _TABLES:
                    low, high = number << 40, (number + 1) << 40
                    query = f"SELECT checksum FROM {name} WHERE id >= ? AND id < ?"  # noqa: S608 - a name of ours
                    result = [checksum for (checksum,) in connection.execute(query, (low, high))]
                    _, weights, top = header["tallies"][name]
                    plain = 0
                    for checksum in result:
                        plain ^= checksum
                    header["tallies"][name] = [len(result), weights >> 64 << 64 | plain, top]
                if header != json.loads(text):
                    row = make_row(number, json.dumps(header).encode())
                    connection.execute("INSERT OR REPLACE INTO stack VALUES (?, ?, ?)", row)


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a site in memory, where no flush waits."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        yield Site(directory)


class TestStorage:
    """Secrets are stored as ciphertext and read back."""

    def test_secrets_are_read_with_the_key(self, site: Site) -> None:
        """In records at any depth, and in outputs."""
        site.write(a="sesame", b="street")
        state = site.store().load(WEB)
        assert state.encrypted
        result = [open_sealed(state.records["file", name].should) for name in ("/a", "/b")]
        assert [item["token"] for item in result] == [Sensitive("sesame"), Sensitive("street")]
        assert result[0]["list"] == [1, {"deep": Sensitive("sesame!")}]
        assert open_sealed(state.outputs) == {"password": Sensitive("output street")}

    def test_a_secret_is_compared_without_being_opened(self, site: Site) -> None:
        """Its digest is stored beside it, and the salt of the digest is encrypted too."""
        salt = site.write(a="sesame").salt
        state = site.store().load(WEB)
        assert state.salt == salt
        assert state.records["file", "/a"].should["token"] == digest_secret("sesame", salt)
        assert salt.hex() not in json.dumps([site.rows(table) for table in ("stack", "resource")])

    def test_a_digest_is_never_a_secret_again(self, site: Site) -> None:
        """A value that is written and never read back is not stored, only its digest."""
        store = site.store()
        with store.lock("test", 0):
            store.commit(WEB, Commit([record(should={"x": digest_secret("sesame", store.load(WEB).salt)})]))
        result = site.store().load(WEB).records[record().key].should["x"]
        assert result == digest_secret("sesame", store.load(WEB).salt)
        assert result.open() is None

    def test_nothing_on_disk_shows_a_secret(self, site: Site, tmp_path: Path) -> None:
        """In the database, its log and its generations."""
        site.write(a="sesame-street")
        site.write(b="sesame-street")
        shutil.copytree(site.path.rpartition("/")[0], tmp_path / "copy")
        for file in (tmp_path / "copy").iterdir():
            for encoded in (b"sesame", b"736573616d65", b64encode(b"sesame")[:8]):
                assert encoded not in file.read_bytes(), file

    def test_a_commit_encrypts_what_it_writes_and_nothing_else(self, site: Site) -> None:
        """The ciphertext of other rows is unchanged."""
        site.write(a="sesame")
        (before,) = site.rows("resource").values()
        site.write(b="street")
        assert _first(site.rows("resource"))[1] == before

    def test_secrets_are_bound_to_a_new_title(self, site: Site) -> None:
        """When a resource is renamed, its secrets are encrypted again for the new name."""
        site.write(a="sesame")
        store = site.store()
        with store.lock("test", 0):
            result = store.load(WEB).records["file", "/a"]
            store.commit(WEB, Commit([result._replace(title="other")]))
        moved = site.store().load(WEB).records["file", "/a"]
        assert open_sealed(moved.should)["token"] == Sensitive("sesame")
        assert moved.should["token"].secret.text != result.should["token"].secret.text

    def test_each_stack_has_a_data_key_of_its_own(self, site: Site) -> None:
        """One user's key opens all of them."""
        store = site.store()
        site.write(store=store, a="sesame")
        site.write(store=store, name=OTHER, a="sesame")
        wrapped = [header["sealing"]["wrapped"] for header in site.rows("stack").values()]
        assert len(set(wrapped)) == 2
        state = site.store().load(OTHER)
        assert open_sealed(state.records["file", "/a"].should)["token"] == Sensitive("sesame")

    def test_without_a_key_only_digests_are_written(self, site: Site) -> None:
        """No ciphertext is stored."""
        store = site.store(None)
        site.write(store=store, a="sesame")
        state = site.store(None).load(WEB)
        assert not state.encrypted
        assert state.records["file", "/a"].should["token"].open() is None
        (header,) = site.rows("stack").values()
        assert "sealing" not in header
        assert "box" not in json.dumps(site.rows("resource"))


class TestAccess:
    """The right key must be named."""

    def test_without_a_key_it_is_not_used(self, site: Site) -> None:
        """It is neither read nor written; the message names the option. The names of stacks are no secret."""
        site.write(a="sesame")
        store = site.store(None)
        with pytest.raises(UsageError, match="project web, stack default is encrypted; name its key with --key"):
            store.load(WEB)
        with store.lock("test", 0), pytest.raises(UsageError, match="is encrypted"):
            store.commit(WEB, Commit([record("/z")]))
        assert list(store.stacks()) == [WEB]
        assert site.store().load(WEB).serial == 1

    def test_with_another_key_it_is_not_used(self, site: Site) -> None:
        """It is neither read nor written."""
        site.write(a="sesame")
        store = site.store(site.other)
        with pytest.raises(StateError, match=r"it is another key, or the data was altered.*state recover"):
            store.load(WEB)
        with store.lock("test", 0), pytest.raises(StateError, match="another key"):
            store.commit(WEB, Commit([record("/z")]))
        assert site.store().load(WEB).serial == 1

    def test_with_a_key_an_unencrypted_state_is_refused(self, site: Site) -> None:
        """An attacker could have removed the encryption; the message has both ways to continue."""
        site.write(store=site.store(None), a="sesame")
        with pytest.raises(UsageError, match=r"is not encrypted, and a key is named; 'resource-api state rekey --key"):
            site.store().load(WEB)

    def test_it_can_be_verified_and_recovered_without_its_key(self, site: Site) -> None:
        """Without the key by checksums only."""
        site.write(a="sesame")
        site.write(b="street")
        for url in (None, site.key):
            assert any("serial 2, 2 resources" in line for line in site.store(url).check())
        with open(site.path, "r+b") as file:  # noqa: PTH123 - the path is text
            file.truncate(3000)
        assert any("restored" in line for line in site.store(None).recover(0))
        assert open_sealed(site.store().load(WEB).records["file", "/b"].should)["token"] == Sensitive("street")


def _first(rows: dict[int, Any]) -> tuple[int, Any]:
    return min(rows.items())


def flip(text: str) -> str:
    """Change one bit of the bytes that base64 text encodes."""
    data = bytearray(b64decode(text))
    data[len(data) // 2] ^= 1
    return b64encode(data).decode()


def flip_a_secret(site: Site) -> None:
    """Change one bit of a ciphertext."""
    number, body = _first(site.rows("resource"))
    body[4][0]["token"]["box"] = flip(body[4][0]["token"]["box"])
    site.forge("resource", {number: body})


def flip_an_output(site: Site) -> None:
    """Change one bit of an output's ciphertext."""
    number, body = _first(site.rows("stack"))
    body["outputs"]["password"]["box"] = flip(body["outputs"]["password"]["box"])
    site.forge("stack", {number: body})


def flip_the_salt(site: Site) -> None:
    """Change one bit of the ciphertext that authenticates the header."""
    number, body = _first(site.rows("stack"))
    body["sealed_salt"] = flip(body["sealed_salt"])
    site.forge("stack", {number: body})


def swap_rows(site: Site) -> None:
    """Exchange two rows."""
    (one, first), (two, second) = sorted(site.rows("resource").items())[:2]
    site.forge("resource", {one: second, two: first})


def swap_secrets(site: Site) -> None:
    """Exchange the secrets of two resources."""
    (one, first), (two, second) = sorted(site.rows("resource").items())[:2]
    first[4][0]["token"], second[4][0]["token"] = second[4][0]["token"], first[4][0]["token"]
    site.forge("resource", {one: first, two: second})


def move_a_secret(site: Site) -> None:
    """Copy the ciphertext of one attribute to another."""
    number, body = _first(site.rows("resource"))
    body[4][0]["token"] = body[4][0]["list"][1]["deep"]
    site.forge("resource", {number: body})


def change_a_plain_value(site: Site) -> None:
    """Change ``owned``, which decides whether a resource is deleted."""
    number, body = _first(site.rows("resource"))
    body[6] = not body[6]
    site.forge("resource", {number: body})


def remove_a_secret(site: Site) -> None:
    """Remove a ciphertext, as in an unencrypted state."""
    number, body = _first(site.rows("resource"))
    del body[4][0]["token"]["box"]
    site.forge("resource", {number: body})


def add_a_row(site: Site) -> None:
    """Add a resource that was not recorded."""
    number, body = max(site.rows("resource").items())
    body[1] = body[2] = "/etc/passwd"
    site.forge("resource", {number + 1: body})


def drop_a_row(site: Site) -> None:
    """Remove a resource."""
    number, _ = _first(site.rows("resource"))
    with closing(sqlite3.connect(site.path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM resource WHERE id = ?", (number,))
    site.forge("resource", {})


def raise_the_serial(site: Site) -> None:
    """Raise the serial in the header."""
    number, body = _first(site.rows("stack"))
    site.forge("stack", {number: {**body, "serial": body["serial"] + 5}})


def restore_a_row(site: Site) -> None:
    """Restore an earlier version of a row."""
    number, body = _first(site.rows("resource"))
    site.write(a="new", b="new", c="new")
    site.forge("resource", {number: body})


def restore_the_header(site: Site) -> None:
    """Restore the header of an earlier commit."""
    number, body = _first(site.rows("stack"))
    site.write(a="new")
    site.forge("stack", {number: body})


def restore_all_rows(site: Site) -> None:
    """Restore all rows of an earlier commit under the present header."""
    rows = site.rows("resource")
    site.write(a="new", b="new", c="new")
    site.forge("resource", rows)


FORGERIES: Final[list[Callable[[Site], None]]] = [
    *(flip_a_secret, flip_an_output, flip_the_salt, swap_rows, swap_secrets, move_a_secret, change_a_plain_value),
    *(remove_a_secret, add_a_row, drop_a_row, raise_the_serial, restore_a_row, restore_the_header),
    restore_all_rows,
]


class TestForging:
    """An attacker can write to the database and has no key."""

    @pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
    def test_an_altered_state_is_refused_when_it_is_read(self, site: Site, forge: Callable[[Site], None]) -> None:
        """Before it is used; without the key every checksum is valid."""
        site.write(a="sesame", b="street", c="number")
        site.store().load(WEB)
        forge(site)
        if forge is not restore_the_header:
            assert site.store(None).check()
        for use in (lambda: site.store().load(WEB), lambda: site.store().check()):
            with pytest.raises(StateError, match="resource-api state recover") as caught:
                use()
            assert caught.value.exit_code == 74

    @pytest.mark.parametrize("forge", [swap_secrets, change_a_plain_value, flip_the_salt], ids=lambda f: f.__name__)
    def test_recovery_with_the_key_detects_alterations(self, site: Site, forge: Callable[[Site], None]) -> None:
        """It restores the newest generation that the key proves; without the key nothing is detected."""
        site.write(a="sesame", b="street", c="number")
        forge(site)
        assert any("nothing to recover" in line for line in site.store(None).recover(0))
        assert any("restored" in line for line in site.store().recover(0))
        assert open_sealed(site.store().load(WEB).records["file", "/a"].should)["token"] == Sensitive("sesame")

    def test_a_stack_with_only_intents_must_be_encrypted_too(self, site: Site) -> None:
        """A first run without a key that was killed leaves an unencrypted stack."""
        store = site.store(None)
        with store.lock("test", 0):
            store.record_intents(WEB, [Intent("1", "file", "/a", "/a", "create")])
        with pytest.raises(UsageError, match="is not encrypted, and a key is named"):
            site.store().load(WEB)

    def test_without_a_key_forgeries_go_undetected(self, site: Site) -> None:
        """The same forgeries are accepted in an unencrypted state: only the key detects them."""
        store = site.store(None)
        site.write(store=store, a="sesame", b="street", c="number")
        for forge in (change_a_plain_value, swap_rows, swap_secrets, add_a_row, drop_a_row):
            forge(site)
            assert site.store(None).load(WEB).serial == 1

    def test_a_state_without_its_encryption_is_refused(self, site: Site) -> None:
        """If the key is named, as in every run."""
        site.write(a="sesame")
        number, header = _first(site.rows("stack"))
        del header["sealing"], header["sealed_salt"]
        site.forge("stack", {number: {**header, "salt": "00" * 32, "outputs": {}}})
        resource, body = _first(site.rows("resource"))
        body[4] = body[5] = [{"token": "clear"}]
        site.forge("resource", {resource: body})
        with pytest.raises(UsageError, match="is not encrypted, and a key is named"):
            site.store().load(WEB)

    def test_an_older_file_is_damage(self, site: Site) -> None:
        """The whole file is authentic, but older than its marker."""
        site.write(a="sesame")
        shutil.copy(site.path, f"{site.path}.old")
        site.write(a="street")
        shutil.copy(f"{site.path}.old", site.path)
        with pytest.raises(StateError, match="older than the last known serial 2"):
            site.store().load(WEB)

    def test_a_stack_made_with_another_key_is_refused(self, site: Site, tmp_path: Path) -> None:
        """Even if it is consistent otherwise."""
        site.write(a="sesame")
        number, header = _first(site.rows("stack"))
        tmp_path.joinpath("forged").mkdir()
        forged = Site(str(tmp_path / "forged"))
        forged.write(a="mine")
        _, body = _first(forged.rows("stack"))
        site.forge("stack", {number: {**body, "lineage": header["lineage"]}})
        site.forge("resource", forged.rows("resource"))
        with pytest.raises(StateError, match="it is another key"):
            site.store().load(WEB)

    def test_an_unknown_format_is_refused(self, site: Site) -> None:
        """It must not disable the authentication."""
        site.write(a="sesame")
        number, header = _first(site.rows("stack"))
        for sealing in ({**header["sealing"], "format": 2}, {"format": 1}, {}, [], "x", 1):
            site.forge("stack", {number: {**header, "sealing": sealing}})
            with pytest.raises((StateError, UsageError)):
                site.store().load(WEB)

    def test_a_secret_opens_only_at_its_own_place(self, site: Site) -> None:
        """Each ciphertext is bound to its resource and attribute, in addition to the authentication of rows."""
        site.write(a="sesame", b="street")
        state = site.store().load(WEB)
        one, two = (state.records["file", name].should["token"].secret for name in ("/a", "/b"))
        assert isinstance(one, EncryptedSecret)
        assert one.place[0] == "urn:resource:default::web::file::/a"
        for text, location in ((one.text, two.place), (two.text, one.place), (one.text, (*one.place, "x"))):
            with pytest.raises(StateError, match="altered without its key"):
                Sealed("", EncryptedSecret(text, location, one.unlock)).open()
