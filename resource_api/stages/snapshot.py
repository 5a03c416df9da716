"""What is: one batched ``get`` per type, each row that is used checked, nothing asked twice.

An observation that fails is an error, never absence (P-02). What to conclude from it is the planner's business;
this stage alone calls ``get`` and ``due``.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingABC
from typing import TYPE_CHECKING, Any, NamedTuple

from resource_api.hands import guard
from resource_api.hands.context import Context
from resource_api.hands.ledger import Subject
from resource_api.nouns.change import exists
from resource_api.nouns.errors import CannotList, ProviderError, nearest, reason
from resource_api.nouns.text import show
from resource_api.nouns.values import Sensitive, is_secret, same
from resource_api.stages import settle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from resource_api.contract.providers import Providers
    from resource_api.nouns.definition import Name, Resource, TypeDefinition
    from resource_api.nouns.entry import Entry

#: More rows than this from one ``get`` are a provider running away (P-10).
MOST_ROWS = 5_000_000


class Seen(NamedTuple):
    """What reading one name gave: a row, None for absence, or the reason why it cannot be told."""

    row: Mapping[str, Any] | None = None
    failure: str = ""


class Due(NamedTuple):
    """What ``due`` said of an imperative resource: whether to run, and why."""

    run: bool = False
    why: str = ""
    failure: str = ""


ABSENT = Seen()


class Unavailable(ProviderError):  # noqa: N818 - a state of a type, told apart from other provider errors
    """``get`` of a whole type failed."""


class Snapshot:
    """Reads through providers and remembers, until something changes, what they said.

    ``strict`` is ``error``, ``warning`` or ``off``: how seriously undeclared, mistyped and uncanonical values are taken.
    """

    def __init__(self, providers: Providers, strict: str = "error") -> None:
        """Know nothing yet."""
        self.providers = providers
        self.strict = strict
        self._rows: dict[str, dict[Name, Seen]] = {}
        self._whole: set[str] = set()
        self._failures: dict[str, str] = {}
        #: How often something has been changed: a read is fresh as long as this stands still.
        self.epoch = 0
        self._read_at: dict[str, int] = {}

    def changed(self) -> None:
        """Note that a ``set`` has been made: what was read before is no longer fresh, what failed may work now."""
        self.epoch += 1
        self._failures.clear()

    def failure(self, type_name: str) -> str:
        """Give why a type cannot be read, or an empty string."""
        return self._failures.get(type_name, "")

    def seen(self, type_name: str, name: Name) -> Seen:
        """Give what was last read of a name; a type that cannot be read is the failure of each."""
        if failure := self._failures.get(type_name):
            return Seen(None, failure)
        return self._rows.get(type_name, {}).get(name, ABSENT)

    def read(self, definition: TypeDefinition, names: Collection[Name] | None, *, fresh: bool = False) -> None:
        """Read ``names`` (None: all) unless they are known; ``fresh`` also when something has changed since.

        A failure is kept and told by ``seen``; ``CannotList`` passes, because only who asked for all can handle it.
        """
        type_name = definition.name
        if fresh and self._read_at.get(type_name) != self.epoch:
            self._forget(type_name, names)
        missing = self._unknown(type_name, names)
        if missing is not None and not missing:
            return
        filtered = "simple_get_filter" in definition.features
        try:
            self._accept(definition, missing, self._get(definition, missing if filtered else None, filtered=filtered))
        except CannotList:
            raise
        except Exception as error:  # noqa: BLE001 - contained: it fails the resources of this type
            self._failures[type_name] = reason(error)
            return
        self._read_at[type_name] = self.epoch
        if missing is None or not filtered:
            self._whole.add(type_name)

    def rows(self, type_name: str) -> Mapping[Name, Seen]:
        """Give everything known of a type."""
        return self._rows.get(type_name, {})

    def _forget(self, type_name: str, names: Collection[Name] | None) -> None:
        if names is None or type_name in self._whole:
            self._rows.pop(type_name, None)
            self._whole.discard(type_name)
            return
        rows = self._rows.get(type_name, {})
        for name in names:
            rows.pop(name, None)

    def _unknown(self, type_name: str, names: Collection[Name] | None) -> list[Name] | None:
        """Give the names that must be asked for; None: all."""
        if type_name in self._failures:
            return []
        if type_name in self._whole:
            return [] if names is None else self._unchecked(type_name, names)
        if names is None:
            return None
        known = self._rows.get(type_name)
        return [name for name in names if name not in known] if known else list(names)

    def _unchecked(self, type_name: str, names: Collection[Name]) -> list[Name]:
        """Everything was read; a name that was not asked for then is checked now, from what was kept."""
        rows = self._rows.setdefault(type_name, {})
        for name in names:
            if name not in rows:
                rows[name] = ABSENT
        return []

    def _get(self, definition: TypeDefinition, names: list[Name] | None, *, filtered: bool) -> list[Any]:
        provider = self.providers.instance(definition.name)
        context = Context(definition, self.providers.run, reading=True)
        with guard.protected(), context.lend(provider):
            answer = (
                provider.get(context, list(names) if names is not None else None) if filtered else provider.get(context)
            )
            rows = _collect(definition, answer)
        seen = self._rows.setdefault(definition.name, {})
        for name, outcome in context.outcomes.items():
            if outcome.status == "failed":
                seen[name] = Seen(None, outcome.reason)
        return rows

    def _accept(self, definition: TypeDefinition, names: list[Name] | None, rows: list[Resource]) -> None:
        """Index rows by name and check those that are used; the others are kept as they are, for later."""
        seen = self._rows.setdefault(definition.name, {})
        by_name: dict[Name, Resource] = {}
        for row in rows:
            name = _name(definition, row)
            if name in by_name:
                seen[name] = Seen(None, f"get returned '{_shown(name)}' more than once")
            by_name[name] = row
        self._find_uncanonical(definition, names, by_name, seen)
        checked = self._check(definition, list(by_name.values()))
        for name, result in zip(by_name, checked, strict=True):
            seen.setdefault(name, result)
        for name in names or ():
            seen.setdefault(name, ABSENT)

    def _find_uncanonical(
        self,
        definition: TypeDefinition,
        names: list[Name] | None,
        by_name: dict[Name, Resource],
        seen: dict[Name, Seen],
    ) -> None:
        """A row under an uncanonical name must not make an existing resource look absent."""
        canonicalize = self.providers.tools(definition.name).canonicalize
        lost = set(names or ()) - by_name.keys() - seen.keys()
        if canonicalize is None or not lost:
            return
        for name, row in list(by_name.items()):
            try:
                canonical = definition.name_of(canonicalize([row])[0])
            except Exception:  # noqa: BLE001, S112 - a row that nobody asked for may be odd
                continue
            if canonical != name and canonical in lost:
                message = f"get returned the name {show(name)}, which is not canonical; it should be {show(canonical)}"
                if self.strict == "error":
                    seen[canonical] = Seen(None, message)
                else:
                    self._warn(definition, message)
                    by_name[canonical] = row

    def _check(self, definition: TypeDefinition, rows: list[Resource]) -> list[Seen]:
        canonicalize = self.providers.tools(definition.name).canonicalize
        declared = [self._declared(definition, row) for row in rows]
        canonical: Sequence[Any] = declared
        if canonicalize is not None:
            good = [row for row in declared if isinstance(row, dict)]
            answers = iter(self._canonical(canonicalize, good))
            canonical = [next(answers) if isinstance(row, dict) else row for row in declared]
        return [self._row(definition, row, twin) for row, twin in zip(declared, canonical, strict=True)]

    def _declared(self, definition: TypeDefinition, row: Resource) -> Resource | str:
        """Check names and data types; give the row to go on with, or what is wrong with it."""
        known = definition.attributes
        clean = row
        if not row.keys() <= known.keys():
            strange = next(key for key in row if key not in known)
            hint = nearest(str(strange), known)
            message = f"get returned the undeclared attribute {show(strange)}" + (f"; {hint}" if hint else "")
            if self.strict == "error":
                return message
            self._warn(definition, message)
            clean = {key: value for key, value in row.items() if key in known}
        try:
            problems = settle.check(definition, clean)
        except RecursionError:
            return "get returned a value that contains itself"
        if problems:
            message = "get returned " + "; ".join(problem.message for problem in problems)
            if self.strict == "error":
                return message
            self._warn(definition, message)
        return clean

    def _canonical(self, canonicalize: Any, rows: list[Resource]) -> list[Any]:
        try:
            return list(canonicalize(rows))
        except Exception:  # noqa: BLE001 - looked for one by one
            answers = []
            for row in rows:
                try:
                    answers.append(canonicalize([row])[0])
                except Exception as error:  # noqa: BLE001 - becomes the failure of this row
                    answers.append(f"canonicalize failed: {reason(error)}")
            return answers

    def _row(self, definition: TypeDefinition, row: Resource | str, canonical: Any) -> Seen:
        if isinstance(row, str):
            return Seen(None, row)
        if isinstance(canonical, str):
            return Seen(None, canonical)
        if canonical is not row and canonical != row:
            message = _uncanonical(definition, row, canonical)
            if message and self.strict == "error":
                return Seen(None, message)
            if message:
                self._warn(definition, message)
        return Seen(_finished(definition, canonical))

    def _warn(self, definition: TypeDefinition, message: str) -> None:
        if self.strict == "warning":
            self.providers.run.log.write("warning", definition.name, message)

    def due(self, entry: Entry) -> Due:
        """Ask whether an imperative resource is to be run."""
        context = Context(
            entry.definition, self.providers.run, subjects={entry.name: Subject(entry.title)}, reading=True
        )
        try:
            provider = self.providers.instance(entry.type)
            with guard.protected(), context.lend(provider):
                answer = provider.due(context, entry.name, dict(entry.should))
        except Exception as error:  # noqa: BLE001 - contained: it fails this resource
            return Due(failure=reason(error))
        if isinstance(answer, bool):
            return Due(answer)
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], bool):  # noqa: PLR2004 - (due, why)
            return Due(answer[0], str(answer[1]))
        return Due(failure=f"due must return True, False or (True, why), not {type(answer).__name__}")


def _collect(definition: TypeDefinition, answer: Any) -> list[Resource]:
    """Give the rows as dictionaries of our own; anything else is the provider's error."""
    if answer is None or isinstance(answer, (str, bytes, MappingABC)) or not hasattr(answer, "__iter__"):
        msg = f"{definition.name}: get must return the resources as a list or another iterable, not {type(answer).__name__}"
        raise ProviderError(msg)
    rows: list[Resource] = []
    for row in answer:
        if type(row) is not dict and not isinstance(row, MappingABC):
            msg = f"{definition.name}: get must return mappings of attribute to value, not {type(row).__name__}"
            raise ProviderError(msg)
        if len(rows) >= MOST_ROWS:
            msg = f"{definition.name}: get returned more than {MOST_ROWS} resources"
            raise ProviderError(msg)
        rows.append(dict(row))
    return rows


def _name(definition: TypeDefinition, row: Resource) -> Name:
    try:
        name = definition.name_of(row)
        hash(name)
    except KeyError as error:
        msg = f"{definition.name}: get returned a resource without its namevar {error}"
        raise ProviderError(msg) from None
    except TypeError:
        msg = f"{definition.name}: get returned a namevar that cannot be one: {show(definition.name_of(row))}"
        raise ProviderError(msg) from None
    return name


def _shown(name: Name) -> str:
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _uncanonical(definition: TypeDefinition, row: Resource, canonical: Resource) -> str:
    for key, value in row.items():
        if key not in canonical or not same(value, canonical[key]):
            if key in definition.sensitive or is_secret(value):
                return f"get returned a value of '{key}' that is not canonical"
            return (
                f"get returned {show(value)} for '{key}', which is not canonical;"
                f" it should be {show(canonical.get(key))}"
            )
    return ""


def _finished(definition: TypeDefinition, row: Resource) -> Mapping[str, Any] | None:
    """Wrap secrets, leave out what is never read back, and take ``ensure: absent`` for absence.

    A provider that compares by itself may know several kinds of absence: its row is kept.
    """
    if not exists(row):
        return row if "custom_insync" in definition.features else None
    if definition.ensurable and "ensure" not in row and definition.accepts["ensure"]("present"):
        row["ensure"] = "present"
    for name in definition.sensitive:
        if name in row and row[name] is not None and not isinstance(row[name], Sensitive):
            row[name] = Sensitive(row[name])
    for name in definition.write_only:
        row.pop(name, None)
    return row


def observe(snapshot: Snapshot, wanted: Iterable[tuple[TypeDefinition, Collection[Name]]]) -> None:
    """Read every type that is wanted, once; imperative types cannot be read back and are left out."""
    for definition, names in wanted:
        if "imperative" not in definition.features:
            snapshot.read(definition, names)
