"""The laws of every provider: test methods for authors to inherit.

The laws share no state and run in any order; those that apply follow from the type's declaration. Files of other users
of the machine never change the results: the author of a type names their paths, and their hostile contents are here.
"""
# ruff: noqa: S101 - a law is an assertion

from __future__ import annotations

import os
import pwd
import shutil
import struct
import tempfile
import time
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pytest

from resource_api.model.values.errors import UnknownType, UsageError
from resource_api.model.values.masking import encoded, written
from resource_api.plugins.registry import Registry
from resource_api.render import json as documents
from resource_api.testing.examples import OBSTACLES, Examples, Neighbour, secret_texts, similar_resources
from resource_api.testing.get_laws import FoundationLaws, GetLaws, skip_after_failure
from resource_api.testing.harness import Harness, failures, recorded, shorten, without
from resource_api.testing.set_laws import ImperativeLaws, NameLaws, SetLaws

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from resource_api.model.type_definition import Resource


#: Bytes of an oversized file; it has a hole and needs no room on the disk.
OVERSIZED: Final = 4 << 30
#: Characters of a line on which a regular expression with quadratic time would never end.
LONG_LINE: Final = 1_200_000
#: Forms of files that do not keep the type from reading: writable by everybody, with a very long line, a link to a file
#: without end, or a program that shows that it was executed.
OTHER_FORMS: Final = ("records", "access control list", "group-writable", "long line", "endless", "program")
#: Time limit in seconds of the laws with such files.
PATIENCE: Final = 60.0
#: An access control list (acl(5), as the kernel stores it) that lets user 65534 read and write.
ACL: Final = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, 65534 if tag == 2 else 2**32 - 1)  # noqa: PLR2004 - ACL_USER, the named user
    for tag, rights in ((1, 6), (2, 6), (4, 4), (16, 6), (32, 4))
)


class NeighbourLaws(FoundationLaws):
    """Files of another user grant nothing, block nothing and hide nothing."""

    def test_neighbours_change_nothing_for_others(self, harness: Harness) -> None:
        """With hostile files of others, creation, update and deletion have the same results as without."""
        usable = _usable(harness)
        undisturbed = _lifecycle(harness)
        for neighbour in usable:
            for form in (*OTHER_FORMS, *OBSTACLES):
                with _planted(neighbour, form):
                    began = time.monotonic()
                    assert _lifecycle(harness) == undisturbed, "what is done for another user has changed"
                    assert time.monotonic() - began < PATIENCE, "what another user has written keeps the type busy"

    def test_neighbours_do_not_disturb_what_exists(self, harness: Harness) -> None:
        """Hostile files that appear later are no reason for a change, and no obstacle to one."""
        for neighbour in _usable(harness):
            for form in ("records", *OBSTACLES):
                harness.converge(harness.examples.present)
                with _planted(neighbour, form):
                    harness.assert_converged(harness.examples.present)
                    if harness.definition.ensurable:
                        harness.converge(harness.absent(harness.examples.present))

    def test_what_cannot_be_read_fails_alone(self, harness: Harness) -> None:
        """A file that cannot be read fails the resources in it, present or absent, and no others.

        Otherwise one user could block the resources of others, or hide that a resource is not as declared.
        """
        present = harness.examples.present
        for neighbour in _usable(harness):
            for obstacle, resource in product(neighbour.obstacles, neighbour.resources):
                harness.track(present, resource)
                with _planted(neighbour, obstacle):
                    failed = failures(harness.runtime.apply(harness.manifest(resource, present)))
                reference = str(harness.entries(resource)[0].reference)
                cause = f"{obstacle} in {neighbour.path}"
                assert reference in failed, f"{resource} is taken for done or absent with {cause}, which hides it"
                assert failed.keys() == {reference}, f"{cause} of one user fails the resources of others: {failed}"
                harness.assert_converged(present)
                harness.restore()


def _usable(harness: Harness) -> Sequence[Neighbour]:
    """Return the files of other users to test with; skip the law if the type reads no such files.

    In that case the author's fixture ``neighbours`` is the reason as a text, which becomes the reason of the skip.
    """
    harness.require("readable")
    neighbours = harness.examples.neighbours
    if neighbours is None:
        pytest.skip("the fixture 'neighbours' does not say where other users write what the type reads")
    if isinstance(neighbours, str):
        assert neighbours.strip(), "give the reason why the type reads nothing that other users write"
        pytest.skip(neighbours)
    return neighbours


def _lifecycle(harness: Harness) -> list[object]:
    """Create, update and delete the example; return the rows after each step, for a comparison.

    The result with hostile files must equal the one without. ``read_only`` values are left out, because they may vary.
    After each step it also has the names of the rows that are in a listing of all resources.
    """
    volatile = harness.definition.names_of_kind("read_only")
    results: list[object] = []
    for stage in harness.stages:
        harness.converge(stage)
        rows = harness.existing(harness.names(stage))
        results.append([without(row, volatile) for row in rows.values()])
        # A file that cannot be read must not end a listing of all resources.
        results.append(rows.keys() & {harness.definition.name_of(row) for row in harness.listing() or ()})
    return results


@contextmanager
def _planted(neighbour: Neighbour, form: str) -> Iterator[None]:
    """Create a hostile file of another user (``neighbour``) for the ``with`` block, where the type reads such files.

    ``form`` is its kind, such as a link to a file of root. Fail if the block changes the hostile file or the file that
    it links to: a provider must neither obey nor repair it. The file is removed afterwards.
    """
    hostile, victim = Path(neighbour.path), Path(tempfile.mkdtemp(prefix="ra-test-"))
    (victim / "file").write_bytes(neighbour.content)
    assert not os.path.lexists(hostile), f"{hostile} exists already; the law would overwrite it"
    guarded = (hostile, victim, victim / "file")
    try:
        _plant(neighbour, form, victim)
        before = [_state(path) for path in guarded]
        yield
        after = [_state(path) for path in guarded]
        assert before == after, "a file of another user, or what it links to, has been changed"
    except BaseException as error:
        error.add_note(f"with {form} in {hostile} of another user")
        raise
    finally:
        # The first question is for links: to ask ``is_dir`` the kernel may refuse to follow the link of another user.
        if not hostile.is_symlink() and hostile.is_dir():
            shutil.rmtree(hostile)
        else:
            hostile.unlink(missing_ok=True)
        shutil.rmtree(victim)


def _plant(neighbour: Neighbour, form: str, victim: Path) -> None:
    """Make one ``form`` of hostile file at the path of ``neighbour``, owned by that user.

    ``victim`` is a directory of root that only links lead to: nothing in it may be read or changed.
    """
    path = Path(neighbour.path)
    if form == "link":
        path.symlink_to(victim / "file")
    elif form == "endless":
        path.symlink_to("/dev/zero")
    elif form == "directory link":
        path.symlink_to(victim)
    elif form == "directory":
        path.mkdir()
    elif form == "fifo":
        os.mkfifo(path)
    else:
        _write(path, neighbour.content, form, victim)
    if os.geteuid() == 0:
        owner = pwd.getpwnam(neighbour.user)
        os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)


def _write(path: Path, content: bytes, form: str, victim: Path) -> None:
    """Write a regular file of a hostile user in one ``form``, of ``OTHER_FORMS`` or ``oversized``.

    The form ``program`` creates a file in ``victim`` if it is executed, by which the law notices that. The form
    ``records`` is the ``content`` alone.
    """
    if form == "program":
        content = f"#!/bin/sh\ntouch {victim}/executed\n".encode()
    elif form == "long line":
        content += b"\na" + b" a" * (LONG_LINE // 2) + b"\n"
    path.write_bytes(content)
    if form == "oversized":
        os.truncate(path, OVERSIZED)
    elif form == "access control list":
        with suppress(OSError):  # a file system may have none
            os.setxattr(path, "system.posix_acl_access", ACL)
    elif form in {"group-writable", "program"}:
        path.chmod(0o777)


def _state(path: Path) -> tuple[object, ...]:
    """Return metadata of a file by which any change is noticed: the kernel sets ``ctime`` at each one."""
    status, names = path.lstat(), os.listxattr(path, follow_symlinks=False)
    return (
        *(getattr(status, f"st_{field}") for field in ("ino", "mode", "uid", "gid", "size", "ctime_ns")),
        {name: os.getxattr(path, name, follow_symlinks=False) for name in names},
    )


#: Shorter secrets could be part of any text.
SHORTEST_SECRET: Final = 4
#: Leaks in a message.
SHOWN_LEAKS: Final = 3
#: Shorter pieces of base64 and hexadecimal as well.
SHORTEST_ENCODED: Final = 8


# sh forks; CPython 3.12 and later warn about that as soon as any thread is alive.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
class ProviderCompliance(GetLaws, SetLaws, NameLaws, NeighbourLaws, ImperativeLaws):
    """The laws of providers. A subclass names the type and gives an example by the fixture ``present``.

    ``module_path``: one or several directories with ``types/`` and ``providers/``; the bundled types are always found.
    ``listing_size``: the number of resources in the test of a listing; by default 101 for a type with ``config``, since
    services list by pages, and otherwise the examples. ``slowest_get``: the time limit of ``get`` of the examples, in
    seconds; None: it is not timed.
    ``implementation``: the tested one of several providers of the type; empty: the one that this machine chooses.
    """

    type_name: ClassVar[str]
    module_path: ClassVar[Sequence[str | os.PathLike[str]] | str | os.PathLike[str]] = ()
    listing_size: ClassVar[int | None] = None
    slowest_get: ClassVar[float | None] = None
    implementation: ClassVar[str] = ""

    @pytest.fixture
    def present(self) -> Resource:
        """Return a resource as a manifest declares it, name included; it must not exist if its type is ensurable."""
        pytest.fail(f"{type(self).__name__} must define the fixture 'present', a resource to test the laws with")

    @pytest.fixture
    def updated(self) -> Resource | None:
        """Return the same resource with other values; None skips the laws about updates."""
        return None

    @pytest.fixture
    def others(self, registry: Registry, present: Resource) -> Sequence[Resource]:
        """Return more resources that can exist beside ``present``; by default ``present`` under other names."""
        definition = registry.type(self.type_name)
        return similar_resources(definition, present) if definition.ensurable else []

    @pytest.fixture
    def world(self) -> Callable[[], object] | None:
        """Return a function whose result noop must not change, beside the rows of ``get``; for example a digest."""
        return None

    @pytest.fixture
    def neighbours(self) -> Sequence[Neighbour] | str | None:
        """Return the files of other users that the type reads, the reason for reading none, or None if untested."""
        return None

    @pytest.fixture
    def registry(self) -> Registry:
        """Return the registry that has the type and its provider."""
        if not hasattr(self, "type_name"):
            pytest.fail(f"{type(self).__name__} must have 'type_name', the name of the type that is tested")
        directories = [self.module_path] if isinstance(self.module_path, (str, os.PathLike)) else self.module_path
        try:
            registry = Registry.from_path(*directories)
            registry.type(self.type_name)
        except UsageError as error:
            raise pytest.fail.Exception(str(error)) from None
        except UnknownType as error:
            text = f"{error}; 'module_path' has {', '.join(map(str, directories)) or 'no directory'}"
            raise pytest.fail.Exception(text) from None
        return registry

    @pytest.fixture
    def config(self) -> Mapping[str, object]:
        """Return the configuration of the provider as in a manifest; a type without ``config`` needs none."""
        return {}

    @pytest.fixture
    def examples(  # noqa: PLR0917 - a fixture takes each other fixture by its name
        self,
        present: Resource,
        updated: Resource | None,
        others: Sequence[Resource],
        world: Callable[[], object] | None,
        config: Mapping[str, object],
        neighbours: Sequence[Neighbour] | str | None,
    ) -> Examples:
        """Return the examples of the author's fixtures and class attributes as one value, for the harness."""
        return Examples(
            present,
            updated,
            others,
            world=world,
            config=config,
            neighbours=neighbours,
            listing_size=self.listing_size,
            slowest_get=self.slowest_get,
        )

    @pytest.fixture
    def harness(self, registry: Registry, examples: Examples, request: pytest.FixtureRequest) -> Iterator[Harness]:
        """Yield the harness by which laws use the type; afterwards everything is restored, also after a failed law.

        A law that relies on one that has failed is skipped.
        """
        skip_after_failure(type(self), request.node.originalname)
        harness = Harness(registry, self.type_name, examples, self.implementation)
        try:
            yield harness
            harness.restore()
        finally:
            harness.close()

    def test_no_secret_is_revealed(self, harness: Harness, capfd: pytest.CaptureFixture[str]) -> None:
        """A sensitive value is in no log line, report or plan, in no output, no argument and no other attribute."""
        secrets = _secrets(harness)
        if not secrets:
            pytest.skip("neither the type nor its configuration has a secret; the law does not apply")
        assert min(map(len, secrets)) >= SHORTEST_SECRET, "a secret this short is found in any text; give a longer one"
        texts = [*_outputs(harness), *harness.lines, *capfd.readouterr()]
        forms = set[str]().union(*map(_forms, secrets))
        leaks = [text for text in texts if any(form in text for form in forms)]
        first = "".join(f"\n  {shorten(text)}" for text in leaks[:SHOWN_LEAKS])
        assert not leaks, f"a secret is revealed, {len(leaks)} times:{first}"


def _secrets(harness: Harness) -> set[str]:
    """Return the secret texts in the examples and their configuration, to be searched for in all output.

    Fail if the type has secrets and the examples have none.
    """
    definition = harness.definition
    secrets = set[str]().union(*(secret_texts(definition.attributes, stage) for stage in harness.stages))
    assert secrets or not definition.sensitive, (
        f"declare one of {sorted(definition.sensitive)} in 'present': without it nothing can leak"
    )
    return secrets | secret_texts(definition.config.attributes, harness.examples.config)


def _outputs(harness: Harness) -> Iterator[str]:
    """Plan and apply each stage; yield the texts in which no secret may be, except for the log, which the harness has.

    They are the plan and the report, the arguments and environments of programs, and the values of attributes that are
    not sensitive.
    """
    for stage in harness.stages:
        with recorded() as events:
            texts = [str(documents.plan(harness.plan(stage))), str(harness.apply(stage))]
        yield from texts
        yield from (f"the arguments or the environment of a program: {text}" for _, text in events)
        if "imperative" not in harness.definition.features:
            rows = harness.existing(harness.names(stage)).values()
            yield from (str(without(row, harness.definition.sensitive)) for row in rows)


def _forms(secret: str) -> set[str]:
    """Return the forms in which a secret could be read: as it is, escaped, or encoded, unless that is very short."""
    return {secret, *written(secret), *(form for form in encoded(secret) if len(form) >= SHORTEST_ENCODED)}
