"""The laws of providers: each one detects its fault, and everything that a law creates is removed."""

from __future__ import annotations

import base64
import inspect
import os
import re
import subprocess
import time
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

import resource_api
from resource_api import Problem, Registry, ResourceError, files
from resource_api.testing import Neighbour, ProviderCompliance
from resource_api.testing.examples import Examples, similar_resources
from resource_api.testing.harness import Harness
from tests.registries import registry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from resource_api import Change, Context, Resource

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
MEMORY = ROOT / "tests" / "providers" / "memory"
GUIDE = ROOT / "docs" / "testing-a-provider.md"
REGISTRY = Registry.from_path(MEMORY)
TYPES = {name: REGISTRY.type(name) for name in ("memory", "memory_run")}
LAWS = sorted(name for name in dir(ProviderCompliance) if name.startswith("test_"))

Memory: Any = REGISTRY.provider("memory")
MemoryRun: Any = REGISTRY.provider("memory_run")

PRESENT = {"name": "ra-test-a", "owner": "me", "size": 3, "labels": ["b", "a"], "password": "sesame-1", "pin": "4711-a"}
PLACED = {**PRESENT, "name": "ra-test-placed"}
PLACE = f"/tmp/ra-test-place-{os.getpid()}"  # noqa: S108 - only the laws create it, and they refuse one that exists
EXAMPLES = Examples(PRESENT, {**PRESENT, "size": 4}, similar_resources(TYPES["memory"], PRESENT))._replace(
    neighbours=[Neighbour(PLACE, b"evil", resources=[PLACED, {**PLACED, "ensure": "absent"}])],
    listing_size=60,
    slowest_get=0.2,
)
#: With an attribute of which only members are declared.
MERGED = EXAMPLES._replace(
    present={**PRESENT, "sizes": {"a": 1, "b": 2}}, updated={**PRESENT, "sizes": {"a": 3, "b": 2}}
)
RUN = Examples({"name": "ra-test-a", "creates": "mark"})


class Placed(Memory):
    """A file of another user hides the resource in it from ``get`` when it cannot be read, and no other one."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        if os.path.lexists(PLACE) and PLACED["name"] in (names or ()):
            try:
                files.read(PLACE, 1000)
            except OSError as error:
                context.failed([PLACED["name"]], message=str(error))
        return list(super().get(context, names))


class Lending(Memory):
    """``set`` takes what is not declared from a file of another user."""

    def _row(self, name: str, change: Change) -> Resource:
        return {**super()._row(name, change), "origin": "evil" if os.path.lexists(PLACE) else None}


class Disturbed(Memory):
    """``get`` finds the resource changed when another user has written something."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "size": 9} if os.path.lexists(PLACE) else row for row in super().get(context, names)]


class Hidden(Memory):
    """``get`` takes what cannot be read for absent."""


class Contagious(Placed):
    """``get`` raises what one file raises."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        if os.path.lexists(PLACE):
            files.read(PLACE, 1000)
        return super().get(context, names)


class Meddling(Memory):
    """``set`` writes to the file of another user."""

    def _row(self, name: str, change: Change) -> Resource:
        if os.path.lexists(PLACE):
            os.utime(PLACE, follow_symlinks=False)
        return dict(super()._row(name, change))


class Writes(Memory):
    """``get`` changes what it reads."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        for row in self.stored.values():
            row["size"] = row.get("size", 0) + 1
        return list(super().get(context, names))


class Undeclared(Memory):
    """``get`` returns an undeclared attribute."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "colour": "red"} for row in super().get(context, names)]


class Mistyped(Memory):
    """``get`` returns text for a number."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "size": str(row["size"])} for row in super().get(context, names)]


class Twice(Memory):
    """``get`` returns every resource twice."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return super().get(context, names) * 2


class Nameless(Memory):
    """``get`` leaves the name empty."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "name": None} for row in super().get(context, names)]


class Reading(Memory):
    """``get`` returns a ``write_only`` value."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "pin": self.stored[row["name"]]["pin"]} for row in super().get(context, names)]


class Uncanonical(Memory):
    """``get`` returns labels that are not canonical."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "labels": [*reversed(row["labels"])]} for row in super().get(context, names)]


class Forgetful(Memory):
    """``get`` returns only the first of the requested names."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return super().get(context, names)[: None if names is None else 1]


class Unlisted(Memory):
    """``get`` lists nothing."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return super().get(context, names or [])


class ListedLate(Memory):
    """``get`` returns a new resource by its name at once, and leaves it out of the first two listings."""

    late_listings = 0

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        super().set(context, changes, noop=noop)
        type(self).late_listings = 2

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        if names is None and self.late_listings:
            type(self).late_listings -= 1
            return []
        return super().get(context, names)


class Growing(Memory):
    """``canonicalize`` changes its own result."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        return [{**row, "owner": f" {row['owner']}"} if "owner" in row else row for row in resources]


class Adding(Memory):
    """``canonicalize`` adds an attribute."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        return [{"size": 1, **row} for row in resources]


class Expecting(Memory):
    """``canonicalize`` expects all attributes."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        return [{**row, "labels": sorted(row["labels"])} for row in resources]


class Hurried(Memory):
    """``canonicalize`` returns at the end of the first round of its loop."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        for resource in resources:
            resource["owner"] = str(resource["owner"]).lower()
            return resources
        return resources


class Idle(Memory):
    """``set`` does nothing."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        """Do nothing."""


class Pretending(Memory):
    """``get`` returns the requested values until the transaction ends."""

    def __init__(self) -> None:
        """Copy what exists."""
        self.stored = {name: dict(row) for name, row in type(self).stored.items()}


class Demanding(Memory):
    """``set`` expects all attributes."""

    def _row(self, name: str, change: Change) -> Resource:
        return {**super()._row(name, change), "size": change.should["size"]}


class Zealous(Memory):
    """An update sets an attribute that was not requested."""

    def _row(self, name: str, change: Change) -> Resource:
        row = super()._row(name, change)
        return row if change.is_ is None else {**row, "origin": "elsewhere"}


class Stubborn(Memory):
    """An update changes nothing."""

    def _row(self, name: str, change: Change) -> Resource:
        return self.stored.get(name) or super()._row(name, change)


class Spreading(Memory):
    """A change of one resource changes all."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        super().set(context, changes, noop=noop)
        for row in self.stored.values():
            row["size"] = next(iter(changes.values())).should.get("size")


class Deaf(Memory):
    """``set`` acts under noop too."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        super().set(context, changes, noop=bool(noop and not changes))


class Keeping(Memory):
    """A deletion deletes nothing."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        stored = {name: change for name, change in changes.items() if change.should["ensure"] == "present"}
        super().set(context, stored, noop=noop)


class Curious(Memory):
    """A deletion requires the size."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        if any(change.should["ensure"] == "absent" and change.should["size"] < 0 for change in changes.values()):
            return
        super().set(context, changes, noop=noop)


class Impatient(Memory):
    """``set`` expects at least one change."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        context.debug(next(iter(changes)), message="the first")
        super().set(context, changes, noop=noop)


class Sure(Memory):
    """``set`` expects that each change has a difference."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        for is_, should in changes.values():
            if is_ is not None:
                next(name for name in is_ if should.get(name, is_[name]) != is_[name])
        super().set(context, changes, noop=noop)


class Single(Memory):
    """``set`` makes only the first change."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        super().set(context, dict(list(changes.items())[:1]), noop=noop)


class Swallowing(Memory):
    """``set`` stops at the first failure and does not report it."""

    def set(self, context: Context, changes: Mapping[str, Change], **_noop: bool) -> None:
        try:
            for name, change in changes.items():
                self.stored[name] = self._row(name, change)
        except ResourceError as error:
            context.warning(str(error))


class Blaming(Memory):
    """``set`` reports one failure for all."""

    def set(self, context: Context, changes: Mapping[str, Change], **_noop: bool) -> None:
        try:
            rows = {name: self._row(name, change) for name, change in changes.items()}
        except ResourceError as error:
            context.failed(list(changes), message=str(error))
        else:
            self.stored.update(rows)


class Chatty(Memory):
    """``set`` logs the password."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        for change in changes.values():
            if "password" in change.should:
                context.debug(f"the password is {change.should['password'].reveal()}")
        super().set(context, changes, noop=noop)


class Printing(Memory):
    """``set`` prints the password."""

    def _row(self, name: str, change: Change) -> Resource:
        print(change.should["password"].reveal())  # noqa: T201 - the fault
        return super()._row(name, change)


class Revealing(Memory):
    """``get`` returns the password as the origin."""

    def _row(self, name: str, change: Change) -> Resource:
        return {**super()._row(name, change), "origin": change.should["password"].reveal()}


class Encoding(Memory):
    """``set`` logs the header that a service would get."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        for change in changes.values():
            if "password" in change.should:
                token = base64.b64encode(f"me:{change.should['password'].reveal()}".encode())
                context.debug(f"Authorization: Basic {token.decode()}")
        super().set(context, changes, noop=noop)


class Launching(Memory):
    """``set`` gives the password to a program as an argument."""

    def _row(self, name: str, change: Change) -> Resource:
        subprocess.run(["/bin/true", change.should["password"].reveal()], check=True)
        return dict(super()._row(name, change))


class Resetting(Memory):
    """An update resets what is not declared."""

    def _row(self, name: str, change: Change) -> Resource:
        row = super()._row(name, change)
        return {**row, "labels": change.should.get("labels")} if change.is_ else row


class Replacing(Memory):
    """An update is the resource anew."""

    def _row(self, name: str, change: Change) -> Resource:
        return {key: value for key, value in super()._row(name, change).items() if key in {*change.should, "serial"}}


class Doubting(Memory):
    """``set`` fails what it cannot see at once."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        for name, change in changes.items():
            with context.processing(name, change.is_, change.should):
                if change.should["ensure"] == "present" and not noop:
                    self.stored[name] = self._row(name, change)
                    assert self.get(context, [name]), f"{name} cannot be seen"
                elif not noop:
                    del self.stored[name]


class Paged(Memory):
    """``get`` lists the first page."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return super().get(context, names)[: 50 if names is None else None]


class Solitary(Memory):
    """``set`` raises when there are several changes."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        if len(changes) > 1:
            raise ResourceError("one at a time")
        super().set(context, changes, noop=noop)


class Racing(Memory):
    """``set`` reads all resources, changes its own, and writes all."""

    def set(self, context: Context, changes: Mapping[str, Change], *, noop: bool = False) -> None:
        store, private = type(self).stored, type("Own", (Memory,), {"stored": dict(type(self).stored)})()
        private.set(context, changes, noop=noop)
        time.sleep(0.02)  # the other calls begin meanwhile, also on a busy machine
        for name in private.stored.keys() ^ store.keys():
            store.pop(name, None)
        store.update(private.stored)


class Careless(Memory):
    """``get`` takes what cannot be read for absent."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        try:
            Path("/etc/passwd").read_bytes()
        except OSError:
            return []
        return super().get(context, names)


class Slow(Memory):
    """``get`` waits for each resource."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        time.sleep(0.1 * len(names or ()))
        return super().get(context, names)


class Asking(Memory):
    """``canonicalize`` reads a file of the machine."""

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        Path("/etc/hostname").exists()
        Path("/etc/passwd").read_bytes()
        return super().canonicalize(context, resources)


class Agreeing(Memory):
    """``insync`` answers True to everything."""

    def insync(self, *_question: object) -> bool:
        return True


class Overwriting(Memory):
    """``set`` replaces the attribute of which only members are declared."""

    def _row(self, name: str, change: Change) -> Resource:
        return {**super()._row(name, change), "sizes": change.should.get("sizes")}


class Insisting(Memory):
    """``insync`` expects an attribute that need not be declared."""

    def insync(self, _context: Context, _name: str, attribute: str, is_: Resource, should: Resource) -> bool | None:
        return None if attribute != "size" else bool(is_.get("size") == should["size"] and should["labels"])


class Presuming(Memory):
    """``insync`` expects that the present resource has the attribute."""

    def insync(self, _context: Context, _name: str, attribute: str, is_: Resource, should: Resource) -> bool | None:
        return None if attribute != "labels" else len(is_["labels"]) == len(should["labels"])


class Declared(Memory):
    """``insync`` compares what is declared, and nothing else."""

    def insync(self, _context: Context, _name: str, attribute: str, is_: Resource, should: Resource) -> bool:
        assert set(should) >= {"name", "ensure", "owner", "size", "labels", "password", "pin", "force"}
        return bool(is_.get(attribute) == should[attribute])


class Refusing(Memory):
    """``refresh`` refuses."""

    def refresh(self, _context: Context, _names: Collection[str]) -> None:
        raise ResourceError("not now")


class Anxious(Memory):
    """``preflight`` reports what is no obstacle."""

    def preflight(self, _context: Context, changes: Mapping[str, Any]) -> list[tuple[str, Problem]]:
        return [(name, Problem("owner", "there is no such owner")) for name in changes]


class Reckless(Memory):
    """``side_effects`` removes the resource that it is asked about."""

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> list[Any]:
        for name in changes:
            self.stored.pop(name, None)
            self.stored["reckless"] = {"name": "reckless", "ensure": "present"}
        return []


class Shelled(Memory):
    """``set`` passes the name to a shell."""

    def _row(self, name: str, change: Change) -> Resource:
        subprocess.run(f"true {name}", shell=True, check=False, capture_output=True)  # noqa: S602 - the fault
        return dict(super()._row(name, change))


class Late(Memory):
    """``set`` refuses a name when the resource has been created already."""

    def _row(self, name: str, change: Change) -> Resource:
        row = dict(super()._row(name, change))
        if " " in name:
            self.stored[name] = row
            raise ResourceError("no spaces")
        return row


class Renaming(Memory):
    """``get`` returns another name than that of the resource."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "name": row["name"].replace(" ", "_")} for row in super().get(context, names)]


class Excluding(Memory):
    """``get`` returns values that cannot be declared together."""

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        return [{**row, "origin": "here"} for row in super().get(context, names)]

    def canonicalize(self, context: Context, resources: list[Resource]) -> list[Resource]:
        if any({"origin", "size"} <= resource.keys() for resource in resources):
            raise ResourceError("origin excludes size")
        return list(super().canonicalize(context, resources))


class Fickle(MemoryRun):
    """``due`` alternates."""

    calls: ClassVar[list[str]] = []

    def due(self, _context: Context, name: str, _should: Mapping[str, Any]) -> bool:
        self.calls.append(name)
        return len(self.calls) % 2 == 0


class Restless(MemoryRun):
    """``due`` is always true."""

    def due(self, _context: Context, _name: str, _should: Mapping[str, Any]) -> bool:
        return True


class Hasty(MemoryRun):
    """``due`` runs the resource."""

    def due(self, _context: Context, name: str, _should: Mapping[str, Any]) -> bool:
        self.marks.append(name)
        return True


class Fault(NamedTuple):
    """A broken provider, the law that it breaks, and the law's message."""

    law: str
    provider: type[Any]
    message: str
    examples: Examples = EXAMPLES


FAULTS = [
    Fault("test_get_is_repeatable", Writes, "get returns something else when it is called again"),
    Fault("test_get_honours_the_declaration", Undeclared, r"the next plan would fail: .* undeclared \['colour'\]"),
    Fault("test_get_honours_the_declaration", Mistyped, "the next plan would fail: .* .*size"),
    Fault("test_get_honours_the_declaration", Twice, "the next plan would fail: .* more than once"),
    Fault("test_get_honours_the_declaration", Nameless, "it could not be identified"),
    Fault("test_get_honours_the_declaration", Reading, r"get returns \['pin'\] of ra-test-a, declared write_only"),
    Fault("test_get_is_canonical", Uncanonical, r"the next plan would not be empty: get returns \['labels'\]"),
    Fault("test_get_returns_at_least_the_requested_names", Forgetful, "would be created again"),
    Fault("test_get_lists_what_it_returns_by_name", Unlisted, r"get\(None\) leaves it out"),
    Fault("test_canonicalize_is_idempotent", Growing, r"a second canonicalize changes \['owner'\]"),
    Fault("test_canonicalize_is_idempotent", Adding, r"adds or drops \['size'\]"),
    Fault("test_canonicalize_is_idempotent", Expecting, "labels"),
    Fault(
        "test_canonicalize_treats_each_resource_alike",
        Hurried,
        r"of \d+ resources differs from that of .* alone in \['owner'\]; does it return before the loop ends",
    ),
    Fault("test_create_makes_what_is_declared", Idle, "did not converge: ensure is absent"),
    Fault("test_create_makes_what_is_declared", Pretending, "the next plan would not be empty"),
    Fault(
        "test_create_from_the_minimum_succeeds_or_fails_with_a_message",
        Demanding,
        r"a user would read KeyError\('size'\)",
    ),
    Fault("test_update_changes_only_what_differs", Stubborn, "did not converge: size is 3, should be 4"),
    Fault("test_update_changes_only_what_differs", Zealous, r"updating \['size'\] has changed \['origin'\] too"),
    Fault("test_a_change_leaves_other_resources_alone", Spreading, "has changed other resources"),
    Fault("test_noop_changes_nothing", Deaf, "noop changes the system"),
    Fault("test_delete_leaves_nothing", Keeping, "did not converge: ensure is present"),
    Fault("test_delete_needs_only_the_name", Curious, "KeyError: 'size'"),
    Fault("test_an_empty_set_changes_nothing", Impatient, "set fails when there is nothing to do"),
    Fault("test_a_change_without_a_difference_succeeds", Sure, "no run could complete what an interrupted one left"),
    Fault("test_one_call_handles_one_and_many", Single, "did not converge"),
    Fault("test_one_failure_does_not_lose_the_others", Swallowing, "ra-test-a alone was refused"),
    Fault("test_one_failure_does_not_lose_the_others", Blaming, "ra-test-a alone was refused"),
    Fault("test_no_secret_is_revealed", Chatty, "a secret is revealed, .*Debug: memory: the password is"),
    Fault("test_no_secret_is_revealed", Printing, "a secret is revealed"),
    Fault("test_no_secret_is_revealed", Revealing, "a secret is revealed, .*'origin'"),
    Fault("test_no_secret_is_revealed", Encoding, "a secret is revealed, .*Authorization: Basic"),
    Fault("test_no_secret_is_revealed", Launching, "a secret is revealed, .*arguments .* of a program"),
    Fault("test_an_update_keeps_what_is_not_declared", Resetting, r"would lose \['labels'\]: the update resets"),
    Fault(
        "test_an_update_keeps_what_is_not_declared",
        Replacing,
        r"would lose \['password', 'size'\]",
        EXAMPLES._replace(updated={**PRESENT, "size": 4, "labels": ["c"], "password": "sesame-2"}),
    ),
    Fault("test_a_change_that_is_seen_late_is_no_failure", Doubting, "what is seen after 0.5 s would fail"),
    Fault("test_a_creation_that_is_not_seen_in_time_stays_ours", Doubting, "would be disowned"),
    Fault("test_a_listing_is_complete", Paged, "would show 50 of 60: .* further pages"),
    Fault("test_one_call_needs_no_second_attempt", Solitary, "call set once for each of 3 resources.*one at a time"),
    Fault("test_calls_side_by_side_lose_nothing", Racing, "with --parallel a change would be lost"),
    Fault("test_what_cannot_be_read_is_not_absent", Careless, "created a second time: .*open.*/etc/passwd"),
    Fault("test_get_is_quick", Slow, "every plan would wait 0.3.* more than the 0.2 s"),
    Fault("test_canonicalize_asks_nothing", Asking, "on another machine.* canonicalize uses open /etc/passwd"),
    Fault(
        "test_an_update_keeps_the_members_that_are_not_declared",
        Overwriting,
        r"declares only \['a'\] of 'sizes' would lose \['b'\]",
        MERGED,
    ),
    Fault("test_insync_sees_a_difference", Agreeing, "no change of '.*' would ever be made"),
    Fault("test_insync_needs_only_the_attribute", Insisting, r"insync of 'size' raises KeyError\('labels'\)"),
    Fault("test_insync_needs_only_the_attribute", Presuming, r"insync of 'labels' raises KeyError\('labels'\)"),
    Fault("test_refresh_succeeds", Refusing, "notified would fail after its change was made.*not now"),
    Fault("test_neighbours_change_nothing_for_others", Lending, "what is done for another user has changed"),
    Fault("test_neighbours_change_nothing_for_others", Contagious, "with (link|long line) in .* of another user"),
    Fault("test_neighbours_change_nothing_for_others", Meddling, "has been changed.*with records in"),
    Fault("test_neighbours_do_not_disturb_what_exists", Disturbed, "the next plan would not be empty"),
    Fault("test_what_cannot_be_read_fails_alone", Hidden, "is taken for done or absent with link in"),
    Fault("test_what_cannot_be_read_fails_alone", Contagious, "of one user fails the resources of others"),
    Fault("test_preflight_reports_nothing_about_what_succeeds", Anxious, "a plan would warn of what succeeds"),
    Fault("test_side_effects_are_reported_without_a_change", Reckless, "side_effects changes the system"),
    Fault("test_a_hostile_name_is_refused_or_is_the_name", Shelled, "a command in the name of a resource is executed"),
    Fault("test_a_hostile_name_is_refused_or_is_the_name", Late, "exists, though its creation has failed"),
    Fault("test_a_hostile_name_is_refused_or_is_the_name", Renaming, "has changed others"),
    Fault("test_a_listing_is_a_manifest_without_changes", Excluding, "invalid manifest: .*origin excludes size"),
    Fault("test_due_is_repeatable", Fickle, "due returns something else when called again"),
    Fault("test_a_resource_that_has_run_is_not_due_again", Restless, "it would run in every apply"),
    Fault("test_noop_runs_nothing", Hasty, "noop changes the system"),
]
#: The laws of types whose world shows changes late.
OF_LAG = {"test_a_change_that_is_seen_late_is_no_failure", "test_a_creation_that_is_not_seen_in_time_stays_ours"}
#: The laws about examples, which no provider can break, and about workers, which need a module path.
OF_EXAMPLES = {
    "test_the_declaration_accepts_the_examples",
    "test_the_examples_are_absent_at_first",
    "test_a_worker_does_the_same",
}


def harness(provider: type[Any] = Placed, examples: Examples = EXAMPLES, law: str = "") -> Harness:
    """Return a harness for a provider with a memory of its own; its type may lag where the ``law`` is about that."""
    name = "memory_run" if issubclass(provider, MemoryRun) else "memory"
    marks: list[str] = []
    private = type("Provider", (provider,), {"stored": {}, "marks": marks, "calls": []})
    definition = copy(TYPES[name])
    definition.settle = 1 if law in OF_LAG else 0
    registry = registry_of((definition, private))
    return Harness(registry, name, RUN._replace(world=lambda: list(marks)) if name == "memory_run" else examples)


def run_law(law: str, harness: Harness, request: pytest.FixtureRequest) -> None:
    """Run one law."""
    method = getattr(ProviderCompliance(), law)
    fixtures = inspect.signature(method).parameters.keys() - {"harness"}
    method(harness, **{name: request.getfixturevalue(name) for name in fixtures})


def failure_of(law: str, harness: Harness, request: pytest.FixtureRequest) -> str:
    """Return the message of a law that must fail, notes included."""
    with pytest.raises((AssertionError, KeyError, pytest.fail.Exception)) as caught:
        run_law(law, harness, request)
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.provider.__name__}-{fault.law}")
def test_every_fault_is_detected_by_its_law(fault: Fault, request: pytest.FixtureRequest) -> None:
    """The law fails for its fault and reports the consequence."""
    message = failure_of(fault.law, harness(fault.provider, fault.examples, fault.law), request)
    assert re.search(fault.message, message, re.DOTALL), message


@pytest.mark.parametrize("law", LAWS)
def test_every_law_holds_without_a_fault(law: str, request: pytest.FixtureRequest) -> None:
    """The providers without a fault break no law, therefore each fault alone is detected."""
    try:
        run_law(law, harness(examples=MERGED if "members" in law else EXAMPLES, law=law), request)
    except pytest.skip.Exception:
        if law not in OF_EXAMPLES:
            run_law(law, harness(MemoryRun), request)


@pytest.mark.parametrize("law", ["test_get_lists_what_it_returns_by_name", "test_a_listing_is_complete"])
@pytest.mark.parametrize("settle", [0, 30])
def test_a_listing_may_be_as_late_as_the_type_settles(law: str, settle: int, request: pytest.FixtureRequest) -> None:
    """Without ``settle`` the law fails, because a user would miss the resource."""
    tested = harness(ListedLate)
    tested.definition.settle = settle
    if settle:
        run_law(law, tested, request)
    else:
        assert "get(None) leaves" in failure_of(law, tested, request)


def test_insync_is_asked_with_what_is_declared(request: pytest.FixtureRequest) -> None:
    """With parameters and values that ``get`` does not return, as in a run: it may depend on them."""
    run_law("test_insync_sees_a_difference", harness(Declared), request)


def test_a_harness_closes_the_providers_that_laws_call() -> None:
    """A provider that is a program of its own does not outlive the law."""
    closed: list[str] = []

    class Closing(Placed):
        def close(self) -> None:
            closed.append("once")

    tested = harness(Closing)
    tested.rows()
    assert closed == []
    tested.close()
    assert closed == ["once"]


def test_every_law_has_a_fault() -> None:
    """Every law detects at least one fault."""
    assert {fault.law for fault in FAULTS} | OF_EXAMPLES == set(LAWS)


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (EXAMPLES._replace(present={**PRESENT, "size": 200}), "a user could not write this: .*size must be"),
        (EXAMPLES._replace(present={"name": "ra-test-a"}), "'owner' is missing.*'pin' is missing"),
        (EXAMPLES._replace(updated={**PRESENT, "name": "ra-test-b"}), "'updated' must be the same resource"),
        (EXAMPLES._replace(others=[{**PRESENT, "name": "RA-test-A"}]), "a user could not write this"),
        (
            EXAMPLES._replace(present=[PRESENT]),
            "'present' must be a resource, a mapping of attribute to value, not list",
        ),
        (EXAMPLES._replace(present={"title": "a"}), "'present' must have the namevar 'name', and has 'title'"),
        (EXAMPLES._replace(updated={}), "'updated' must have the namevar 'name', and has nothing"),
        (EXAMPLES._replace(updated={**PRESENT}), "'updated' must differ from 'present', and not change it: "),
        (EXAMPLES._replace(others=PRESENT), "'others' must be a list of resources, not dict"),
    ],
)
def test_wrong_examples_are_refused(examples: Examples, expected: str, request: pytest.FixtureRequest) -> None:
    """An example that no user could write is reported before it is used."""
    message = failure_of("test_the_declaration_accepts_the_examples", harness(examples=examples), request)
    assert re.search(expected, message, re.DOTALL), message


@pytest.mark.parametrize("law", ["test_the_examples_are_absent_at_first", "test_delete_leaves_nothing"])
def test_existing_resources_are_left_alone(law: str, request: pytest.FixtureRequest) -> None:
    """No law changes, and no clean-up deletes, what existed before."""
    tested = harness()
    stored = tested.registry.provider("memory").stored
    stored["ra-test-a"] = {"ensure": "present", "name": "ra-test-a", "owner": "somebody"}
    assert "ra-test-a exists already" in failure_of(law, tested, request)
    tested.restore()
    assert stored["ra-test-a"]["owner"] == "somebody"


@pytest.mark.parametrize("fault", [Stubborn, Spreading, Demanding, Deaf])
def test_what_a_failed_law_has_created_is_removed(fault: type[Any], request: pytest.FixtureRequest) -> None:
    """Whichever law fails, no example remains."""
    for law in {fault.law for fault in FAULTS if not issubclass(fault.provider, MemoryRun)}:
        tested = harness(fault)
        with suppress(AssertionError, KeyError):
            run_law(law, tested, request)
        tested.restore()
        assert tested.registry.provider("memory").stored == {}


def test_a_failed_clean_up_is_reported() -> None:
    """It is an error of the test."""
    tested = harness(Keeping)
    tested.apply(PRESENT)
    with pytest.raises(pytest.fail.Exception, match=r"left behind: .*did not converge"):
        tested.restore()


def test_similar_names_are_of_the_data_type() -> None:
    """Without a similar name that the data type accepts there are no other resources."""
    key = Registry.from_path().type("apt_key")
    assert [resource["name"] for resource in similar_resources(TYPES["memory"], {"name": "a", "size": 1})] == [
        "a-2",
        "a-3",
    ]
    assert [item["id"] for item in similar_resources(key, {"id": "0123456789"})] == ["01234567892", "01234567893"]
    assert similar_resources(key, {"id": "a" * 40}) == []
    file = Registry.from_path().type("file")
    for path, expected in (("/tmp/a.d/b.tar.gz", "/tmp/a.d/b-2.tar.gz"), ("/tmp/a.d/.b", "/tmp/a.d/.b-2")):  # noqa: S108
        assert similar_resources(file, {"path": path})[0]["path"] == expected


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the authors' runs use the package under test."""
    monkeypatch.setenv("PYTHONPATH", str(Path(resource_api.__file__).parent.parent))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run an author's tests as the author does."""
    return pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", *arguments)


def guide(pytester: pytest.Pytester) -> Path:
    """Write the files of the guide's example."""
    text = GUIDE.read_text(encoding="utf-8")
    for path, code in re.findall(r"^`([\w/.]+)`:\n\n```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        file = pytester.path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(code)
    return pytester.path


@pytest.mark.process
def test_the_example_of_the_guide_obeys_every_law(pytester: pytest.Pytester) -> None:
    """No law fails, their number is that of the guide, nothing is left behind."""
    guide(pytester)
    result = run(pytester, "--basetemp=left")
    result.assert_outcomes(passed=25, skipped=20)
    assert "`pytest` runs 25 laws for this type" in GUIDE.read_text(encoding="utf-8")
    assert list(pytester.path.glob("left/**/ra-test*")) == []


@pytest.mark.process
def test_the_fault_of_the_guide_is_detected(pytester: pytest.Pytester) -> None:
    """Without the line that the guide removes, the laws that it names fail."""
    provider = guide(pytester) / "providers" / "greeting.py"
    code, line = provider.read_text(), '            if "text" in resource:\n    '
    assert line in code
    provider.write_text(code.replace(line, ""))
    result = run(pytester)
    result.assert_outcomes(failed=2, passed=23, skipped=20)
    result.stdout.fnmatch_lines(
        ["*canonicalize failed: KeyError: 'text'*", "*FAILED *_only_the_name*", "*FAILED *_is_idempotent*"]
    )
    assert "compile_catalog" not in result.stdout.str()


@pytest.mark.process
@pytest.mark.parametrize(
    ("written", "instead", "words"),
    [
        (
            "(Path(__file__).parent,)",
            "(Path(__file__).parent / 'nowhere',)",
            "*module path: there is no directory */nowhere*",
        ),
        (
            "(Path(__file__).parent,)",
            "(Path(__file__).parent / 'types',)",
            "*unknown type 'Greeting'*'module_path' has */types*",
        ),
        ('type_name = "greeting"', "", "*TestGreeting must have 'type_name', the name of the type that is tested*"),
        ('"greeting"', '"Greeting"', "*unknown type 'Greeting'; did you mean 'greeting'?; 'module_path' has*"),
    ],
)
def test_a_wrong_type_or_module_path_is_named(
    pytester: pytest.Pytester, written: str, instead: str, words: str
) -> None:
    """Every law needs them."""
    test = guide(pytester) / "test_greeting.py"
    test.write_text(test.read_text().replace(written, instead))
    run(pytester, "-k", "examples").stdout.fnmatch_lines([words])


@pytest.mark.process
@pytest.mark.parametrize("path", ["Path(__file__).parent", "str(Path(__file__).parent)"])
def test_a_module_path_may_be_one_directory(pytester: pytest.Pytester, path: str) -> None:
    """A text is no list of characters."""
    test = guide(pytester) / "test_greeting.py"
    test.write_text(test.read_text().replace("(Path(__file__).parent,)", path))
    run(pytester, "-k", "examples").assert_outcomes(passed=2, deselected=43)


@pytest.mark.process
def test_a_type_with_isolation_obeys_every_law(pytester: pytest.Pytester) -> None:
    """The laws call its provider in the process of the test, and one law uses its worker."""
    declaration = guide(pytester) / "types" / "greeting.py"
    declaration.write_text(declaration.read_text().replace("    features=", '    isolation="process",\n    features='))
    run(pytester).assert_outcomes(passed=26, skipped=19)
    provider = pytester.path / "providers" / "greeting.py"
    code = "        if 'pytest' not in sys.modules:\n            os._exit(3)\n"
    provider.write_text(provider.read_text().replace("import CannotList", "import CannotList", 1))
    provider.write_text(
        f"import os\nimport sys\n{provider.read_text()}".replace(
            "        Path(name).write_text", f"{code}        Path(name).write_text"
        )
    )
    result = run(pytester, "-k", "worker")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*in a worker the apply fails:*"])


@pytest.mark.process
def test_after_a_failed_foundation_the_other_laws_are_not_checked(pytester: pytest.Pytester) -> None:
    """One failure is reported instead of many; the others name the law to mend first."""
    provider = guide(pytester) / "providers" / "greeting.py"
    provider.write_text(provider.read_text().replace('"path": str(path), ', ""))
    result = run(pytester, "-rs")
    result.assert_outcomes(failed=1, passed=2, errors=1, skipped=42)
    result.stdout.fnmatch_lines(["*not checked: mend test_get_honours_the_declaration first*"])


@pytest.mark.process
def test_a_law_that_fails_in_pytest_leaves_nothing_behind(pytester: pytest.Pytester) -> None:
    """The clean-up also follows a failing test that the author wrote."""
    path = guide(pytester)
    with (path / "test_greeting.py").open("a", encoding="utf-8") as file:
        file.write("\n    def test_of_mine(self, harness, present):\n")
        file.write("        harness.apply(present)\n        assert 0, present\n")
    result = run(pytester, "-k", "mine", "--basetemp=left")
    result.assert_outcomes(failed=1)
    assert list(pytester.path.glob("left/**/ra-test*")) == []


@pytest.mark.process
def test_a_class_without_an_example_fails(pytester: pytest.Pytester) -> None:
    """Every law reports the missing fixture."""
    header = "from resource_api.testing import ProviderCompliance\n\n\n"
    pytester.makepyfile(f"{header}class TestMine(ProviderCompliance):\n    type_name = 'host'\n")
    result = run(pytester)
    result.assert_outcomes(errors=len(LAWS))
    result.stdout.fnmatch_lines(["*TestMine must define the fixture 'present'*"])
