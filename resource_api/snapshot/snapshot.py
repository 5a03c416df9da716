"""What is: one batched ``get`` per type, each row that is used judged, nothing asked twice.

An observation that fails is an error, never absence. What to conclude from it is the planner's business;
this stage alone calls ``get`` and ``due``.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from resource_api.model.change import exists
from resource_api.model.secrets import mark_secrets
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import CannotList, ProviderError, reason
from resource_api.provider.base import collect_rows
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.snapshot.check_rows import RowChecker
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.plugins.provider_pool import ProviderPool
    from resource_api.snapshot.check_rows import Found


class Observation(NamedTuple):
    """What reading one name gave: a row, None for absence, or the reason why it cannot be told."""

    row: Mapping[str, Any] | None = None
    failure: str = ""


ABSENT: Final = Observation()


class ReadError(Exception):
    """A provider's ``get`` has failed: whoever reads in earnest is told why."""


class Due(NamedTuple):
    """What ``due`` said of an imperative resource: whether to run, and why."""

    run: bool = False
    why: str = ""
    failure: str = ""


class _Asked(NamedTuple):
    """One question: for which names (None: all), whether the answer is about everything, and the epoch it is of."""

    names: list[Name] | None
    whole: bool
    epoch: int


class _Reading:
    """What is known of one instance: the resources of one type that one configured provider answers for."""

    __slots__ = ("failure", "kept", "read_at", "seen", "whole_at")

    def __init__(self) -> None:
        self.failure = ""
        #: Rows that have been judged, and names that were asked for in vain.
        self.seen: dict[Name, Found] = {}
        #: Rows that came along and that nobody has asked for.
        self.kept: dict[Name, Resource] = {}
        #: Name → the epoch in which it was asked for.
        self.read_at: dict[Name, int] = {}
        #: The epoch in which everything was read; None: never.
        self.whole_at: int | None = None

    def newer(self, epoch: int) -> dict[Name, Found]:
        """Give what was asked for by name later than in ``epoch``."""
        return {name: self.seen[name] for name, at in self.read_at.items() if at > epoch and name in self.seen}


class Snapshot:
    """Reads through providers and remembers, until something changes, what they said.

    ``strict`` is ``error``, ``warning`` or ``off``: how seriously rows that are not as promised are taken.
    """

    def __init__(self, providers: ProviderPool, strict: str = "error") -> None:
        """Know nothing yet."""
        self.providers = providers
        self.strict = strict
        self._judge = RowChecker(strict, lambda name, message: providers.run.log.write("warning", name, message))
        self._readings: dict[str, _Reading] = {}
        #: How often something has been changed: a read is fresh as long as this stands still.
        self.epoch = 0

    def changed(self) -> None:
        """Note that a ``set`` has been made: what was read before is no longer fresh, what failed may work now."""
        self.epoch += 1
        for reading in self._readings.values():
            reading.failure = ""

    def failure(self, instance: str) -> str:
        """Give why an instance cannot be read, or an empty string."""
        return self._readings[instance].failure if instance in self._readings else ""

    def observation(self, instance: str, name: Name) -> Observation:
        """Give what was last read of a name; an instance that cannot be read is the failure of each."""
        reading = self._readings.get(instance)
        if reading is None:
            return ABSENT
        if reading.failure:
            return Observation(None, reading.failure)
        if name in reading.kept:
            self._use(instance, reading, [name])
        found = reading.seen.get(name)
        return ABSENT if found is None else Observation(None, found) if isinstance(found, str) else Observation(found)

    def rows(self, instance: str) -> Mapping[Name, Found]:
        """Give what is known of everything of an instance that was asked for."""
        return self._readings[instance].seen

    def read(self, definition: TypeDefinition, names: Collection[Name] | None, *, fresh: bool = False) -> None:
        """Read ``names`` (None: all) unless they are known; ``fresh`` also when something has changed since.

        A failure is kept and told by ``seen``; ``CannotList`` passes to who asked for all, who alone can handle it.
        """
        reading = self._readings.setdefault(definition.instance, _Reading())
        missing = self._missing(reading, names, fresh=fresh)
        if reading.failure or (missing is not None and not missing):
            self._use(definition.instance, reading, reading.kept if names is None else names)
            return
        filtered = "simple_get_filter" in definition.features
        asked = _Asked(missing, missing is None or not filtered, self.epoch)
        try:
            got = self._get(definition, missing if filtered else None, filtered=filtered)
            if (reading.whole_at or 0) > asked.epoch:
                # Another thread has begun to read everything later than we did, and was quicker.
                self._use(definition.instance, reading, reading.kept if names is None else names)
            else:
                self._accept(definition, reading, asked, got)
        except Exception as error:  # contained: it fails the resources of this type
            if names is None and isinstance(error, CannotList):
                raise
            self._refuse(reading, asked, reason(error))

    def read_all(self, wanted: Iterable[tuple[TypeDefinition, Collection[Name]]]) -> None:
        """Read the names of every type that is wanted; imperative types cannot be read back and are left out."""
        for definition, names in wanted:
            if "imperative" not in definition.features:
                self.read(definition, names)

    def read_unchecked(self, definition: TypeDefinition, names: list[Name]) -> Mapping[Name, Resource]:
        """Read ``names`` and give the rows as they came; each is judged when it is asked for. Raises ``ReadError``.

        A row without ``ensure`` says that the resource exists. What has failed is not tried again by who reads later.
        """
        filtered = "simple_get_filter" in definition.features
        reading = self._readings.setdefault(definition.instance, _Reading())
        asked = _Asked(names, not filtered, self.epoch)
        try:
            got = self._get(definition, names if filtered else None, filtered=filtered)
        except Exception as error:
            self._refuse(reading, asked, reason(error))
            raise ReadError from error
        if definition.ensurable and definition.accepts["ensure"]("present"):
            for row in got[0]:
                row.setdefault("ensure", "present")
        self._accept(definition, reading, asked, got, judging=False)
        return reading.kept

    def _missing(self, reading: _Reading, names: Collection[Name] | None, *, fresh: bool) -> list[Name] | None:
        """Give the names that must be asked for; None: all."""
        if reading.whole_at is not None and (not fresh or reading.whole_at == self.epoch):
            return []
        if names is None:
            return None
        read_at, epoch = reading.read_at, self.epoch
        return [name for name in names if name not in read_at or (fresh and read_at[name] != epoch)]

    def _use(self, instance: str, reading: _Reading, names: Collection[Name]) -> None:
        """Check rows that came along earlier and are wanted now."""
        wanted = [name for name in names if name in reading.kept]
        if wanted:
            rows = [reading.kept.pop(name) for name in wanted]
            reading.seen.update(zip(wanted, self._judge.judge(self.providers.functions(instance), rows), strict=True))

    def _get(
        self, definition: TypeDefinition, names: list[Name] | None, *, filtered: bool
    ) -> tuple[list[Resource], dict[Name, str]]:
        provider = self.providers.instance(definition.instance)
        context = Context(definition, self.providers.run, reading=True)
        with self.providers.run.provider_call(), process_guard.contained(), context.activate(provider):
            answer = (
                provider.get(context, list(names) if names is not None else None) if filtered else provider.get(context)
            )
            rows = collect_rows(definition, answer)
        failed = {name: said.reason for name, said in context.outcomes.items() if said.status == "failed"}
        return rows, failed

    def _accept(
        self,
        definition: TypeDefinition,
        reading: _Reading,
        asked: _Asked,
        got: tuple[list[Resource], dict[Name, str]],
        *,
        judging: bool = True,
    ) -> None:
        """Keep what was read: rows that were asked for are judged, the others are kept as they are, for later."""
        # Another thread may have failed in the meantime: what was read is believed.
        reading.failure = ""
        rows, failed = got
        names = asked.names
        tools = self.providers.functions(definition.instance)
        by_name, wrong = self._judge.by_names(tools, names, rows)
        wanted = [name for name in (by_name if names is None else names) if name in by_name] if judging else []
        judged = self._judge.judge(tools, [by_name[name] for name in wanted])
        newer = reading.newer(asked.epoch) if self.epoch != asked.epoch else {}
        if asked.whole:
            reading.seen, reading.kept, reading.whole_at = {}, {}, asked.epoch
        for name in (names or ()) if reading.kept else ():
            reading.kept.pop(name, None)
        if len(by_name) > len(wanted):
            beside = {name: by_name[name] for name in by_name.keys() - set(wanted)}
            reading.kept.update(beside)
            for name in beside:
                reading.seen.pop(name, None)
        reading.seen.update(zip(names or (), repeat(None)))
        reading.seen.update(zip(wanted, judged, strict=True))
        reading.read_at.update(zip(names or (), repeat(asked.epoch)))
        for name, found in {**wrong, **failed, **newer}.items():
            reading.kept.pop(name, None)
            reading.seen[name] = found

    def existing(
        self, definition: TypeDefinition, names: Sequence[Name] | None
    ) -> tuple[list[Resource], dict[Name, str]]:
        """Read and give the resources of a type that exist (of ``names``, each with what says that it does not).

        Beside them stands why single ones cannot be read. Raises ``ProviderError`` when none can.
        """
        self.read(definition, names)
        if why := self.failure(definition.instance):
            msg = f"{definition.name}: {why}"
            raise ProviderError(msg)
        rows, failures = [], {}
        for name in list(self.rows(definition.instance)) if names is None else names:
            row, failure = self.observation(definition.instance, name)
            if failure:
                failures[name] = failure
            elif row is not None and exists(row):
                rows.append(dict(mark_secrets(definition, row)))
            elif names is not None:
                rows.append(definition.absent_row(name))
        return rows, failures

    def _refuse(self, reading: _Reading, asked: _Asked, why: str) -> None:
        """Keep why a read has failed; who asks for others is told so too, unless something has changed meanwhile."""
        if asked.names is None or asked.epoch == self.epoch:
            reading.failure = why
        for name in asked.names or ():
            reading.kept.pop(name, None)
            reading.seen[name] = why

    def due(self, entry: Entry, should: Mapping[str, Any] | None = None) -> Due:
        """Return whether an imperative resource is to be run; ``should``: values known by now, None: as declared."""
        context = Context(
            entry.definition,
            self.providers.run,
            subjects={entry.name: Subject(entry.title, parent=entry.parent)},
            reading=True,
        )
        try:
            provider = self.providers.instance(entry.instance)
            with self.providers.run.provider_call(), process_guard.contained(), context.activate(provider):
                answer = provider.due(context, entry.name, dict(entry.should if should is None else should))
        except Exception as error:  # noqa: BLE001 - contained: it fails this resource
            return Due(failure=reason(error))
        if isinstance(answer, bool):
            return Due(answer)
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], bool):  # noqa: PLR2004 - (due, why)
            return Due(answer[0], str(answer[1]))
        return Due(failure=f"due must return True, False or (True, why), not {type(answer).__name__}")
