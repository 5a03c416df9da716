"""An encrypted state: whoever has no key can neither read a secret in it nor change anything of it unseen."""

from __future__ import annotations

import json
import shutil
import sqlite3
from base64 import b64decode, b64encode
from contextlib import closing
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest

from resource_api.model.codec import EncryptedSecret, Sealed, digest_secret, open_sealed, seal_secrets
from resource_api.model.record import Commit, Intent
from resource_api.model.values.errors import StateError, UsageError
from resource_api.model.values.values import Sensitive
from resource_api.state.encryption import keys
from resource_api.state.sqlite import database
from resource_api.state.sqlite.store import SqliteStore
from resource_api.state.store import StackName
from resource_api.testing.state_examples import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from resource_api.model.record import StackState

WEB: Final = StackName("web", "default")
OTHER: Final = StackName("web", "other")
_TABLES: Final = ("resource", "owed", "intent")


class Place:
    """A state and two keys, in a directory of their own."""

    def __init__(self, directory: str) -> None:
        """Make the keys; nothing is recorded."""
        self.path = f"{directory}/state/state.db"
        self.key, self.other = f"file:{directory}/key", f"file:{directory}/other"
        for url in (self.key, self.other):
            keys.create_key_file(url.partition(":")[2])

    def store(self, url: str | None = "") -> SqliteStore:
        """Open the state, with its key unless another or none is named."""
        url = self.key if url == "" else url
        return SqliteStore(self.path, keys.key_from_url(url, {}) if url else None)

    def write(self, *, store: SqliteStore | None = None, name: StackName = WEB, **secrets: str) -> StackState:
        """Record resources, each with one secret, in one run; gives what is known then."""
        store = store or self.store()
        with store.lock("test", 0):
            salt = store.load(name).salt
            put = []
            for title, secret in secrets.items():
                kept = seal_secrets({"token": Sensitive(secret), "list": [1, {"deep": Sensitive(secret + "!")}]}, salt)
                put.append(record(f"/{title}", should=kept, is_=kept))
            state = store.commit(
                name, Commit(put, outputs=seal_secrets({"password": Sensitive("output " + secret)}, salt))
            )
            store.finish_run(name, {"run": str(state.serial)})
        return state

    def rows(self, table: str) -> dict[int, Any]:
        """Give the bodies of a table as JSON, by row."""
        with closing(sqlite3.connect(self.path)) as connection:
            return {number: json.loads(body) for number, body in connection.execute(f"SELECT id, body FROM {table}")}  # noqa: S608 - a name of ours

    def forge(self, table: str, bodies: dict[int, Any]) -> None:
        """Write rows as somebody would who knows how and has no key: every checksum and every sum is right again."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for number, body in bodies.items():
                made = database.make_row(number, json.dumps(body).encode())
                connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", made)  # noqa: S608 - a name of ours
            for number, text in connection.execute("SELECT id, body FROM stack").fetchall():
                header = json.loads(text)
                for name in _TABLES:
                    low, high = number << 40, (number + 1) << 40
                    query = f"SELECT checksum FROM {name} WHERE id >= ? AND id < ?"  # noqa: S608 - a name of ours
                    found = [checksum for (checksum,) in connection.execute(query, (low, high))]
                    _, weights, top = header["tallies"][name]
                    plain = 0
                    for checksum in found:
                        plain ^= checksum
                    header["tallies"][name] = [len(found), weights >> 64 << 64 | plain, top]
                if header != json.loads(text):
                    made = database.make_row(number, json.dumps(header).encode())
                    connection.execute("INSERT OR REPLACE INTO stack VALUES (?, ?, ?)", made)


@pytest.fixture
def place() -> Iterator[Place]:
    """Give a place in memory, where no flush waits."""
    with TemporaryDirectory(prefix="ra-test-", dir="/dev/shm") as directory:
        yield Place(directory)


class TestKeeping:
    """What is kept comes back; what is on disk is ciphertext."""

    def test_secrets_come_back_with_the_key(self, place: Place) -> None:
        """Those in records at any depth, and outputs."""
        place.write(a="sesame", b="street")
        state = place.store().load(WEB)
        assert state.encrypted
        found = [open_sealed(state.records["file", name].should) for name in ("/a", "/b")]
        assert [each["token"] for each in found] == [Sensitive("sesame"), Sensitive("street")]
        assert found[0]["list"] == [1, {"deep": Sensitive("sesame!")}]
        assert open_sealed(state.outputs) == {"password": Sensitive("output street")}

    def test_a_secret_is_compared_without_being_opened(self, place: Place) -> None:
        """Its digest is kept beside it, and the salt of that is a secret too."""
        salt = place.write(a="sesame").salt
        state = place.store().load(WEB)
        assert state.salt == salt
        assert state.records["file", "/a"].should["token"] == digest_secret("sesame", salt)
        assert salt.hex() not in json.dumps([place.rows(table) for table in ("stack", "resource")])

    def test_what_was_only_digested_stays_so(self, place: Place) -> None:
        """A value that is written and never read back is kept in no form at all."""
        store = place.store()
        with store.lock("test", 0):
            store.commit(WEB, Commit([record(should={"x": digest_secret("sesame", store.load(WEB).salt)})]))
        found = place.store().load(WEB).records[record().key].should["x"]
        assert found == digest_secret("sesame", store.load(WEB).salt)
        assert found.open() is None

    def test_nothing_on_disk_shows_a_secret(self, place: Place, tmp_path: Path) -> None:
        """Not the database, its log, its generations."""
        place.write(a="sesame-street")
        place.write(b="sesame-street")
        shutil.copytree(place.path.rpartition("/")[0], tmp_path / "copy")
        for file in (tmp_path / "copy").iterdir():
            for spelt in (b"sesame", b"736573616d65", b64encode(b"sesame")[:8]):
                assert spelt not in file.read_bytes(), file

    def test_a_commit_encrypts_what_it_writes_and_nothing_else(self, place: Place) -> None:
        """What was written before keeps its ciphertext."""
        place.write(a="sesame")
        (before,) = place.rows("resource").values()
        place.write(b="street")
        assert _first(place.rows("resource"))[1] == before

    def test_a_new_title_takes_its_secrets_along(self, place: Place) -> None:
        """A secret is bound to its resource, and opens where it has moved with it."""
        place.write(a="sesame")
        store = place.store()
        with store.lock("test", 0):
            found = store.load(WEB).records["file", "/a"]
            store.commit(WEB, Commit([found._replace(title="other")]))
        moved = place.store().load(WEB).records["file", "/a"]
        assert open_sealed(moved.should)["token"] == Sensitive("sesame")
        assert moved.should["token"].secret.text != found.should["token"].secret.text

    def test_each_stack_has_a_data_key_of_its_own(self, place: Place) -> None:
        """One key of people opens them all."""
        store = place.store()
        place.write(store=store, a="sesame")
        place.write(store=store, name=OTHER, a="sesame")
        wrapped = [header["sealing"]["wrapped"] for header in place.rows("stack").values()]
        assert len(set(wrapped)) == 2
        state = place.store().load(OTHER)
        assert open_sealed(state.records["file", "/a"].should)["token"] == Sensitive("sesame")

    def test_without_a_key_nothing_but_digests_is_written(self, place: Place) -> None:
        """As if there were no encryption at all."""
        store = place.store(None)
        place.write(store=store, a="sesame")
        state = place.store(None).load(WEB)
        assert not state.encrypted
        assert state.records["file", "/a"].should["token"].open() is None
        (header,) = place.rows("stack").values()
        assert "sealing" not in header
        assert "box" not in json.dumps(place.rows("resource"))


class TestWhoMayUseIt:
    """The key is named, and it is the right one."""

    def test_without_a_key_it_is_not_used(self, place: Place) -> None:
        """Neither read nor written; the message names the option. Which stacks there are is no secret."""
        place.write(a="sesame")
        store = place.store(None)
        with pytest.raises(UsageError, match="project web, stack default is encrypted; name its key with --key"):
            store.load(WEB)
        with store.lock("test", 0), pytest.raises(UsageError, match="is encrypted"):
            store.commit(WEB, Commit([record("/z")]))
        assert list(store.stacks()) == [WEB]
        assert place.store().load(WEB).serial == 1

    def test_with_another_key_it_is_not_used(self, place: Place) -> None:
        """Neither read nor written."""
        place.write(a="sesame")
        store = place.store(place.other)
        with pytest.raises(StateError, match=r"it is another key, or the data was altered.*state recover"):
            store.load(WEB)
        with store.lock("test", 0), pytest.raises(StateError, match="another key"):
            store.commit(WEB, Commit([record("/z")]))
        assert place.store().load(WEB).serial == 1

    def test_with_a_key_what_is_not_encrypted_is_refused(self, place: Place) -> None:
        """Somebody could have taken the encryption off; the message has both ways out."""
        place.write(store=place.store(None), a="sesame")
        with pytest.raises(UsageError, match=r"is not encrypted, and a key is named; 'resource-api state rekey'"):
            place.store().load(WEB)

    def test_it_can_be_verified_and_recovered_without_its_key(self, place: Place) -> None:
        """As far as checksums go; with the key, all of it."""
        place.write(a="sesame")
        place.write(b="street")
        for url in (None, place.key):
            assert any("serial 2, 2 resources" in line for line in place.store(url).check())
        with open(place.path, "r+b") as file:  # noqa: PTH123 - the path is text
            file.truncate(3000)
        assert any("restored" in line for line in place.store(None).recover(0))
        assert open_sealed(place.store().load(WEB).records["file", "/b"].should)["token"] == Sensitive("street")


def _first(rows: dict[int, Any]) -> tuple[int, Any]:
    return min(rows.items())


def flip(text: str) -> str:
    """Change one bit of what base64 text stands for."""
    data = bytearray(b64decode(text))
    data[len(data) // 2] ^= 1
    return b64encode(data).decode()


def flip_a_secret(place: Place) -> None:
    """One bit of a ciphertext."""
    number, body = _first(place.rows("resource"))
    body[4][0]["token"]["box"] = flip(body[4][0]["token"]["box"])
    place.forge("resource", {number: body})


def flip_an_output(place: Place) -> None:
    """One bit of an output's ciphertext."""
    number, body = _first(place.rows("stack"))
    body["outputs"]["password"]["box"] = flip(body["outputs"]["password"]["box"])
    place.forge("stack", {number: body})


def flip_the_salt(place: Place) -> None:
    """One bit of what proves the header."""
    number, body = _first(place.rows("stack"))
    body["sealed_salt"] = flip(body["sealed_salt"])
    place.forge("stack", {number: body})


def swap_rows(place: Place) -> None:
    """Two rows in each other's place."""
    (one, first), (two, second) = sorted(place.rows("resource").items())[:2]
    place.forge("resource", {one: second, two: first})


def swap_secrets(place: Place) -> None:
    """The ciphertexts of two resources, with their digests."""
    (one, first), (two, second) = sorted(place.rows("resource").items())[:2]
    first[4][0]["token"], second[4][0]["token"] = second[4][0]["token"], first[4][0]["token"]
    place.forge("resource", {one: first, two: second})


def move_a_secret(place: Place) -> None:
    """The ciphertext of one attribute to another."""
    number, body = _first(place.rows("resource"))
    body[4][0]["token"] = body[4][0]["list"][1]["deep"]
    place.forge("resource", {number: body})


def change_a_plain_value(place: Place) -> None:
    """What is no secret: whose a resource is decides whether it is deleted."""
    number, body = _first(place.rows("resource"))
    body[6] = not body[6]
    place.forge("resource", {number: body})


def take_a_secret_out(place: Place) -> None:
    """A digest without its ciphertext, as an unencrypted state has it."""
    number, body = _first(place.rows("resource"))
    del body[4][0]["token"]["box"]
    place.forge("resource", {number: body})


def add_a_row(place: Place) -> None:
    """A resource that nobody recorded."""
    number, body = max(place.rows("resource").items())
    body[1] = body[2] = "/etc/passwd"
    place.forge("resource", {number + 1: body})


def drop_a_row(place: Place) -> None:
    """A resource that is recorded no more."""
    number, _ = _first(place.rows("resource"))
    with closing(sqlite3.connect(place.path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM resource WHERE id = ?", (number,))
    place.forge("resource", {})


def raise_the_serial(place: Place) -> None:
    """A header that says more than was written."""
    number, body = _first(place.rows("stack"))
    place.forge("stack", {number: {**body, "serial": body["serial"] + 5}})


def put_back_a_row(place: Place) -> None:
    """A row as it once was, all of it real."""
    number, body = _first(place.rows("resource"))
    place.write(a="new", b="new", c="new")
    place.forge("resource", {number: body})


def put_back_the_header(place: Place) -> None:
    """The header of an earlier commit, with the rows of now."""
    number, body = _first(place.rows("stack"))
    place.write(a="new")
    place.forge("stack", {number: body})


def put_back_all_rows(place: Place) -> None:
    """All rows of an earlier commit under the header of now."""
    rows = place.rows("resource")
    place.write(a="new", b="new", c="new")
    place.forge("resource", rows)


FORGERIES: Final[list[Callable[[Place], None]]] = [
    *(flip_a_secret, flip_an_output, flip_the_salt, swap_rows, swap_secrets, move_a_secret, change_a_plain_value),
    *(take_a_secret_out, add_a_row, drop_a_row, raise_the_serial, put_back_a_row, put_back_the_header),
    put_back_all_rows,
]


class TestForging:
    """Whoever can write to the database, and knows its format, has no key."""

    @pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
    def test_what_was_altered_is_refused_when_it_is_read(self, place: Place, forge: Callable[[Place], None]) -> None:
        """Before anything is done with it, opened or not; without the key every checksum is right."""
        place.write(a="sesame", b="street", c="number")
        place.store().load(WEB)
        forge(place)
        if forge is not put_back_the_header:
            assert place.store(None).check()
        for use in (lambda: place.store().load(WEB), lambda: place.store().check()):
            with pytest.raises(StateError, match="resource-api state recover") as caught:
                use()
            assert caught.value.exit_code == 74

    @pytest.mark.parametrize("forge", [swap_secrets, change_a_plain_value, flip_the_salt], ids=lambda f: f.__name__)
    def test_recovering_with_the_key_knows_what_was_altered(self, place: Place, forge: Callable[[Place], None]) -> None:
        """And puts back the newest generation that the key proves; without it, nothing is seen to be wrong."""
        place.write(a="sesame", b="street", c="number")
        forge(place)
        assert any("nothing to recover" in line for line in place.store(None).recover(0))
        assert any("restored" in line for line in place.store().recover(0))
        assert open_sealed(place.store().load(WEB).records["file", "/a"].should)["token"] == Sensitive("sesame")

    def test_a_run_that_recorded_nothing_yet_is_held_to_its_key_too(self, place: Place) -> None:
        """A first run without a key that was killed leaves a stack that is not encrypted."""
        store = place.store(None)
        with store.lock("test", 0):
            store.record_intents(WEB, [Intent("1", "file", "/a", "/a", "create")])
        with pytest.raises(UsageError, match="is not encrypted, and a key is named"):
            place.store().load(WEB)

    def test_the_forger_of_these_tests_can_forge(self, place: Place) -> None:
        """What it writes into a state without a key is believed: so it is the key that refuses the others."""
        store = place.store(None)
        place.write(store=store, a="sesame", b="street", c="number")
        for forge in (change_a_plain_value, swap_rows, swap_secrets, add_a_row, drop_a_row):
            forge(place)
            assert place.store(None).load(WEB).serial == 1

    def test_a_state_whose_encryption_was_taken_off_is_refused(self, place: Place) -> None:
        """With the key named, which is how it is used."""
        place.write(a="sesame")
        number, header = _first(place.rows("stack"))
        del header["sealing"], header["sealed_salt"]
        place.forge("stack", {number: {**header, "salt": "00" * 32, "outputs": {}}})
        resource, body = _first(place.rows("resource"))
        body[4] = body[5] = [{"token": "clear"}]
        place.forge("resource", {resource: body})
        with pytest.raises(UsageError, match="is not encrypted, and a key is named"):
            place.store().load(WEB)

    def test_an_older_file_put_back_is_damage(self, place: Place) -> None:
        """All of it real, and refused for being older than what the marker knows."""
        place.write(a="sesame")
        shutil.copy(place.path, f"{place.path}.old")
        place.write(a="street")
        shutil.copy(f"{place.path}.old", place.path)
        with pytest.raises(StateError, match="older than the last known serial 2"):
            place.store().load(WEB)

    def test_a_stack_made_with_another_key_is_refused(self, place: Place, tmp_path: Path) -> None:
        """Even where it fits in every other way."""
        place.write(a="sesame")
        number, header = _first(place.rows("stack"))
        tmp_path.joinpath("forged").mkdir()
        forged = Place(str(tmp_path / "forged"))
        forged.write(a="mine")
        _, body = _first(forged.rows("stack"))
        place.forge("stack", {number: {**body, "lineage": header["lineage"]}})
        place.forge("resource", forged.rows("resource"))
        with pytest.raises(StateError, match="it is another key"):
            place.store().load(WEB)

    def test_a_format_that_nobody_knows_is_refused(self, place: Place) -> None:
        """It must not mean that nothing is proven."""
        place.write(a="sesame")
        number, header = _first(place.rows("stack"))
        for sealing in ({**header["sealing"], "format": 2}, {"format": 1}, {}, [], "x", 1):
            place.forge("stack", {number: {**header, "sealing": sealing}})
            with pytest.raises((StateError, UsageError)):
                place.store().load(WEB)

    def test_a_secret_opens_at_its_own_place_alone(self, place: Place) -> None:
        """Each ciphertext is bound to its resource and attribute by itself, beside what proves the whole."""
        place.write(a="sesame", b="street")
        state = place.store().load(WEB)
        one, two = (state.records["file", name].should["token"].secret for name in ("/a", "/b"))
        assert isinstance(one, EncryptedSecret)
        assert one.place[0] == "urn:resource:default::web::file::/a"
        for text, where in ((one.text, two.place), (two.text, one.place), (one.text, (*one.place, "x"))):
            with pytest.raises(StateError, match="altered without its key"):
                Sealed("", EncryptedSecret(text, where, one.unlock)).open()
