"""The rows read from the system: one batched ``get`` per type, every used row is checked, nothing is read twice.

A read that fails is a failure of its resources, never absence. A row is named, has declared attributes of their data
types, and is canonical. Only this module calls ``get`` and ``due``.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from resource_api.catalog.canonicalize import check_values, failure, find_suspect, first_unknown
from resource_api.model.change import Difference, exists
from resource_api.model.codec import encode
from resource_api.model.provider_functions import Due, Observation
from resource_api.model.sealed_secrets import mark_secrets
from resource_api.model.values.errors import CannotList, ProviderError, WrongAnswer, hint, reason
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.text import QUOTES, show, show_attribute, show_name
from resource_api.model.values.values import (
    are_flat,
    batches,
    copy_resource,
    is_secret,
    reveal,
    same_value,
    unwrapped,
)
from resource_api.provider.base import collect_rows
from resource_api.provider.context import Context
from resource_api.provider.outcomes import Subject
from resource_api.system import process_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from resource_api.model.entry import Entry
    from resource_api.model.provider_functions import ProviderFunctions
    from resource_api.model.type_definition import Name, Resource, TypeDefinition
    from resource_api.model.values.errors import Problem
    from resource_api.plugins.provider_pool import ProviderPool

    #: The result of reading one name: a row, None for absence, or the reason why it could not be read.
    CheckedRow = Resource | str | None

ABSENT: Final = Observation()
#: The numbers of parts of an answer of ``due``: whether, why, and the changes.
_DUE_PARTS: Final = (2, 3)


class _Request(NamedTuple):
    """One call of ``get``: the names (None: all), whether the result is complete, and the epoch of its beginning."""

    names: list[Name] | None
    whole: bool
    epoch: int


class _Rows:
    """The rows of one provider instance; a name is in ``checked`` or in ``unchecked``, never in both."""

    __slots__ = ("cause", "checked", "failure", "read_at", "unchecked", "whole_at")

    def __init__(self) -> None:
        """Begin without rows: none of the instance's names has been read."""
        #: The reason why the instance could not be read, until something changes; or "".
        self.failure = ""
        #: The exception behind ``failure``.
        self.cause: Exception | None = None
        #: Rows that were checked, None for requested names that do not exist, and texts: why a name was not read.
        self.checked: dict[Name, CheckedRow] = {}
        #: Other rows: they are checked when they are used.
        self.unchecked: dict[Name, Resource] = {}
        #: Name → the epoch in which it was read by name.
        self.read_at: dict[Name, int] = {}
        #: The epoch in which everything was read, or None.
        self.whole_at: int | None = None

    def newer_than(self, epoch: int) -> dict[Name, CheckedRow]:
        """Return the checked rows that were read by name after ``epoch``, so after a later change of this run."""
        return {name: self.checked[name] for name, at in self.read_at.items() if at > epoch and name in self.checked}

    def put_checked(self, results: Mapping[Name, CheckedRow]) -> None:
        """Store results by name; remove the rows of these names from ``unchecked``, so that no name is in both."""
        self.checked.update(results)
        if self.unchecked:
            for name in results:
                self.unchecked.pop(name, None)

    def put_read(
        self, request: _Request, checked: Mapping[Name, CheckedRow], unchecked: Mapping[Name, Resource]
    ) -> None:
        """Store the rows of a call of ``get`` by name; requested names without a row are stored as absent.

        The result of a call for all resources replaces everything stored before.
        """
        names = request.names or ()
        if request.whole:
            self.checked, self.unchecked, self.whole_at = {}, {}, request.epoch
        self.read_at.update(zip(names, repeat(request.epoch)))
        self.put_checked({**dict.fromkeys(names), **checked})
        self.unchecked.update(unchecked)
        for name in unchecked:
            self.checked.pop(name, None)


class Snapshot:
    """Reads through providers and keeps the rows until something changes.

    ``strict``: rows that break the rules of ``get`` are an ``error`` or a ``warning``, or corrected silently (``off``).
    """

    def __init__(self, providers: ProviderPool, strict: str = "error") -> None:
        """Make an empty snapshot, which reads with ``providers`` when rows are requested."""
        self.providers = providers
        self.strict = strict
        self._checker = RowChecker(strict, partial(providers.run.log.write, "warning"))
        #: By provider instance, the rows that were read or failed to be.
        self._instances: dict[str, _Rows] = {}
        #: By instance and name, the ids of resources that are read by ``import_`` once: their system has other names.
        self.imports: dict[tuple[str, Name], str] = {}
        #: The number of changes in this run: a row is fresh if it was read in the present epoch.
        self.epoch = 0

    def changed(self) -> None:
        """Record that ``set`` was called: earlier rows are no longer fresh, and a read that failed may work now."""
        self.epoch += 1
        for rows in self._instances.values():
            rows.failure = ""

    def is_fresh(self, definition: TypeDefinition, names: Collection[Name]) -> bool:
        """Return whether all ``names`` of a type were read in the present epoch: since the last change of this run."""
        rows = self._instances.get(definition.instance)
        return rows is not None and not self._missing(rows, names, fresh=True)

    def failure(self, instance: str) -> str:
        """Return the reason why a whole provider instance could not be read, or ""."""
        return self._instances[instance].failure if instance in self._instances else ""

    def observation(self, instance: str, name: Name) -> Observation:
        """Return the last observation of a resource: absent if it was not read, failed if its instance could not be.

        A row that was read along with requested ones, and not checked then, is checked here, at its first use.
        """
        rows = self._instances.get(instance)
        if rows is None:
            return ABSENT
        if rows.failure:
            return Observation(None, rows.failure)
        if name in rows.unchecked:
            self._check(instance, rows, [name])
        row = rows.checked.get(name)
        if row is None:
            return ABSENT
        return Observation(None, row) if isinstance(row, str) else Observation(row)

    def rows(self, instance: str) -> Mapping[Name, CheckedRow]:
        """Return the checked rows of an instance by name; None: a missing resource; a text: a failed read."""
        return self._instances[instance].checked

    def read(self, definition: TypeDefinition, names: Collection[Name] | None, *, fresh: bool = False) -> None:
        """Read those of ``names`` (None: all of the type) that were not read yet, for ``observation``.

        ``fresh``: also those that were last read before the latest change in this run. A failure is stored, and
        returned by ``observation``. Raise ``CannotList`` only if ``names`` is None.
        """
        rows = self._instances.setdefault(definition.instance, _Rows())
        missing = self._missing(rows, names, fresh=fresh)
        # A failed instance is not read again before something changes.
        if rows.failure or (missing is not None and not missing):
            self._check(definition.instance, rows, names)
            return
        request = self._request(definition, missing)
        try:
            answer = self._get(definition, missing)
            if (rows.whole_at or 0) > request.epoch:
                # Another thread began to read everything after this one did, and has finished first.
                self._check(definition.instance, rows, names)
            else:
                self._accept(definition, rows, request, answer)
        except Exception as error:  # contained: it fails the resources of this type
            if names is None and isinstance(error, CannotList):
                raise
            self._reject(definition, rows, request, error)

    def read_again(self, definition: TypeDefinition, names: Collection[Name]) -> None:
        """Read ``names`` once more, although nothing was changed since they were read: a change may be seen late.

        The rows of all others stay, also if ``get`` returns them again: a service with several servers may show an
        older state of them now.
        """
        rows, repeated = self._instances[definition.instance], set(names)
        others_seen = {name: row for name, row in rows.checked.items() if name not in repeated}
        # Otherwise the names would count as read, or the instance as failed, and ``read`` would not call ``get``.
        rows.failure, rows.whole_at = "", None
        for name in names:
            rows.read_at.pop(name, None)
        self.read(definition, names)
        rows.put_checked(others_seen)

    def list_whole(self, definition: TypeDefinition) -> tuple[Mapping[Name, CheckedRow], str]:
        """Read all resources of a type once more, for a purge; return rows by name, and the reason of a failure or "".

        The reason is not stored, so that later reads by name are tried. Raise ``CannotList`` for a type that cannot be
        listed.
        """
        rows = self._instances.setdefault(definition.instance, _Rows())
        # An earlier list, or an earlier failure, would prevent the call of ``get``.
        rows.whole_at, rows.failure = None, ""
        self.read(definition, None)
        failure, rows.failure = rows.failure, ""
        return ({} if failure else rows.checked), failure

    def read_unchecked(self, definition: TypeDefinition, names: list[Name]) -> Mapping[Name, Resource]:
        """Read ``names`` and return the rows as ``get`` returned them, for the cache, which compares digests only.

        The rows are checked only if something else uses them. A row without ``ensure`` gets ``present``, because the
        saved digests are of checked rows, which have it. An exception of ``get`` is stored, so that the whole plan that
        the cache then makes does not repeat the read, and raised.
        """
        rows = self._instances.setdefault(definition.instance, _Rows())
        request = self._request(definition, names)
        try:
            answer = self._get(definition, names)
        except Exception as error:
            self._reject(definition, rows, request, error)
            raise
        if definition.ensurable and definition.accepts["ensure"]("present"):
            rows_returned, _ = answer
            for row in rows_returned:
                row.setdefault("ensure", "present")
        self._accept(definition, rows, request, answer, check=False)
        return rows.unchecked

    def _missing(self, rows: _Rows, names: Collection[Name] | None, *, fresh: bool) -> list[Name] | None:
        """Return the names that ``read`` must still read, None for all resources of the type.

        ``names``: the requested ones, None for all. ``fresh``: names that were read before the last change must be read
        again.
        """
        if rows.whole_at is not None and (not fresh or rows.whole_at == self.epoch):
            return []
        if names is None:
            return None
        read_at, epoch = rows.read_at, self.epoch
        return [name for name in names if name not in read_at or (fresh and read_at[name] != epoch)]

    def _check(self, instance: str, rows: _Rows, names: Collection[Name] | None) -> None:
        """Check the rows of ``names`` (None: all) that were not checked yet, now that they are used."""
        unchecked = list(rows.unchecked) if names is None else [name for name in names if name in rows.unchecked]
        if unchecked:
            functions = self.providers.functions(instance)
            checked = self._checker.check(functions, [rows.unchecked[name] for name in unchecked])
            rows.put_checked(dict(zip(unchecked, checked, strict=True)))

    def _request(self, definition: TypeDefinition, names: list[Name] | None) -> _Request:
        """Return the call of ``get`` for ``names`` (None: all) that begins now; a type without a filter returns all."""
        return _Request(names, names is None or "simple_get_filter" not in definition.features, self.epoch)

    def _get(self, definition: TypeDefinition, names: list[Name] | None) -> tuple[list[Resource], dict[Name, str]]:
        """Call ``get`` for ``names``, or ``import_`` for those with an id in ``imports``.

        Return the rows, and name → reason for the resources whose failure the provider has reported: these do not fail
        the others.
        """
        filtered = "simple_get_filter" in definition.features
        imported, names = self._take_imports(definition, names)
        arguments = [None if names is None else list(names)] if filtered else []
        provider = self.providers.instance(definition.instance)
        context = Context(definition, self.providers.run, reading=True)
        with self.providers.run.provider_call(), process_guard.contained(), context.activate(provider):
            # No call of ``get`` if all names are imported: one without names would read everything.
            rows = collect_rows(definition, provider.get(context, *arguments)) if names or not imported else []
            if imported:
                rows += _import(partial(provider.import_, context), context, imported)
        failed = {name: outcome.reason for name, outcome in context.outcomes.items() if outcome.status == "failed"}
        return rows, failed

    def _take_imports(
        self, definition: TypeDefinition, names: list[Name] | None
    ) -> tuple[dict[Name, str], list[Name] | None]:
        """Remove the ids of ``names`` from ``imports``; return name → id, and the other names, to be read by ``get``.

        The id is that by which the system knows a resource to import. It is used once: the provider then knows the
        resource, and later reads are by name.
        """
        if not self.imports or names is None:
            return {}, names
        ids = {name: self.imports.pop(key) for name in names if (key := (definition.instance, name)) in self.imports}
        return ids, [name for name in names if name not in ids]

    def _accept(
        self,
        definition: TypeDefinition,
        rows: _Rows,
        request: _Request,
        answer: tuple[list[Resource], dict[Name, str]],
        *,
        check: bool = True,
    ) -> None:
        """Store the result of ``get``: requested rows are checked now, all others when they are used.

        Without ``check``, as for the cache, no row is checked now. ``request``: the call that was made. ``answer``: the
        rows, and name → reason of the resources that could not be read. A requested name without a row is stored as
        absent. A row that another thread has read by name after a change since this call began is newer, and stays.
        """
        # Another thread may have failed in the meantime; a successful read counts.
        rows.failure = ""
        returned, failed = answer
        functions = self.providers.functions(definition.instance)
        by_name, wrong = self._checker.index_by_name(functions, request.names, returned)
        names = by_name if request.names is None else request.names
        checked_names = [name for name in names if name in by_name] if check else []
        results = self._checker.check(functions, [by_name[name] for name in checked_names])
        checked = dict(zip(checked_names, results, strict=True))
        unchecked = {name: by_name[name] for name in by_name.keys() - checked} if len(by_name) > len(checked) else {}
        newer = rows.newer_than(request.epoch) if self.epoch != request.epoch else {}
        rows.put_read(request, checked, unchecked)
        # Last, as problems and newer rows take precedence over the rows just stored.
        rows.put_checked({**wrong, **failed, **newer})

    def _reject(self, definition: TypeDefinition, rows: _Rows, request: _Request, error: Exception) -> None:
        """Store the reason of a failed read, for its names and for the whole provider instance.

        A failed instance is not read again before ``changed`` clears the failure, as each read would fail alike. If
        something was changed during a read of single names, other reads may work now, and only its names fail.
        """
        self.providers.run.log_traceback(error, definition.instance)
        message = reason(error)
        if request.names is None or request.epoch == self.epoch:
            rows.failure, rows.cause = message, error
        rows.put_checked(dict.fromkeys(request.names or (), message))

    def existing(
        self, definition: TypeDefinition, names: Sequence[Name] | None
    ) -> tuple[list[Resource], dict[Name, str]]:
        """Return the rows of a type to show to the user, and name → failure of resources that could not be read.

        ``names``: None for all existing resources; otherwise a missing one has a row with ``ensure: absent``. Secrets
        are marked. Raise ``ProviderError`` if the type could not be read.
        """
        self.read(definition, names)
        if error := self.failure(definition.instance):
            raise ProviderError(f"{definition.name}: {error}") from self._instances[definition.instance].cause
        resources, failures = [], {}
        for name in list(self.rows(definition.instance)) if names is None else names:
            row, failure = self.observation(definition.instance, name)
            if failure:
                failures[name] = failure
            elif row is not None and exists(row):
                resources.append(dict(mark_secrets(definition, row)))
            elif names is not None:
                resources.append(definition.absent_row(name))
        return resources, failures

    def due(self, entry: Entry, should: Mapping[str, object]) -> Due:
        """Return the provider's answer whether an imperative resource is due, to be run.

        If it is not, the answer has the ``read_only`` values of its last run, or the failure to read them.
        """
        answer = self._ask_due(entry, should)
        if answer.run or answer.failure or not entry.definition.read_only:
            return answer
        row, failure = self.values_of_run(entry.definition, entry.name)
        return answer._replace(row=row, failure=failure)

    def values_of_run(self, definition: TypeDefinition, name: Name) -> Observation:
        """Read and return the ``read_only`` attributes of an imperative resource, which its last run determined.

        They are read again in any case: a run may have followed since the last read.
        """
        self._instances.setdefault(definition.instance, _Rows())
        self.read_again(definition, [name])
        return self.observation(definition.instance, name)

    def _ask_due(self, entry: Entry, should: Mapping[str, object]) -> Due:
        """Ask the provider whether an imperative resource is due.

        An exception, a malformed answer, or a failure that the provider has reported to the context fails this resource
        alone: the run continues with the others.
        """
        context = Context(
            entry.definition,
            self.providers.run,
            subjects={entry.name: Subject(entry.title, parent=entry.parent)},
            reading=True,
        )
        try:
            provider = self.providers.instance(entry.instance)
            with self.providers.run.provider_call(), process_guard.contained(), context.activate(provider):
                answer = provider.due(context, entry.name, copy_resource(should))
        except Exception as error:  # noqa: BLE001 - contained: it fails this resource
            context.log_traceback(error)
            return Due(failure=reason(error))
        if context.outcomes.any_failed:
            reasons = [outcome.reason for outcome in context.outcomes.values() if outcome.status]
            return Due(failure=reasons[0] or "failed")
        return _due(answer)


def _due(answer: object) -> Due:
    """Return the answer of a provider's ``due``, a truth value or a tuple, as a ``Due``.

    Another form becomes a failure with the valid forms, for the provider's author.
    """
    if isinstance(answer, bool):
        return Due(answer)
    if not (isinstance(answer, tuple) and len(answer) in _DUE_PARTS and isinstance(answer[0], bool)):
        form = "True, False, (True, why) or (True, why, changes)"
        return Due(failure=f"due must return {form}, not {type(answer).__name__}")
    is_due, explanation, *rest = answer
    changes: Any = rest[0] if rest else ()
    try:
        differences = [Difference(str(name), *values) for name, *values in changes]
    except (TypeError, ValueError):
        return Due(failure=f"due must give changes as a list of (attribute, is_, should), not {changes!r:.80}")
    return Due(is_due, str(explanation), differences=differences)


def _import(call: Callable[[Name, str], Resource | None], context: Context, ids: Mapping[Name, str]) -> list[Resource]:
    """Return the rows of ``import_`` for names and their ids; report a failure to ``context`` for its name only."""
    rows = []
    for name, identifier in ids.items():
        try:
            row = call(name, identifier)
        except Exception as error:  # noqa: BLE001 - contained: it fails this resource
            context.log_traceback(error)
            context.failed(name, message=reason(error))
        else:
            rows += [] if row is None else collect_rows(context.type, [row])
    return rows


class RowChecker:
    """Checks the rows of one run: their names, data types and canonical form.

    ``strict``: a row that breaks a rule is refused (``error``), corrected with one warning for each type and message
    (``warning``), or corrected silently (``off``).
    """

    def __init__(self, strict: str, warn: Callable[..., None]) -> None:
        """Make a checker; ``warn`` is called with the arguments of ``Log.write`` after the level."""
        self.strict = strict
        self._write_warning = warn
        #: Type and message of the warnings so far: each is written once.
        self._warned: set[tuple[str, str]] = set()

    def index_by_name(
        self, functions: ProviderFunctions, names: Collection[Name] | None, rows: Sequence[Resource]
    ) -> tuple[dict[Name, Resource], dict[Name, str]]:
        """Return the rows of a call of ``get`` by name, and name → problem; ``names`` were requested (None: all).

        A row that has the requested name in another form (``"80"`` for 80) would make the resource look absent. The
        requested name gets a problem instead, or, unless ``strict`` is ``error``, the row gets the requested name.
        Raise ``ProviderError`` for a row without a name.
        """
        definition = functions.definition
        if names is not None and _in_order(definition, names, rows):  # nearly always, so no row has a problem
            return dict(zip(names, rows, strict=True)), {}
        by_name: dict[Name, Resource] = {}
        wrong: dict[Name, str] = {}
        for row in rows:
            name = _name(definition, row)
            if name in by_name:
                wrong[name] = f"get returned '{show_name(name)}' more than once"
            by_name[name] = row
        for intended, (row, message) in _misnamed(functions, names or (), by_name).items():
            if self.strict == "error":
                wrong[intended] = message
            else:
                self._warn(definition, intended, message)
                by_name[intended] = {**row, **definition.named_row(intended)}
        return by_name, wrong

    def check(self, functions: ProviderFunctions, rows: Sequence[Resource]) -> list[CheckedRow]:
        """Return for each row the checked resource, None if it does not exist, or a text: the row's problem."""
        return [result for batch in batches(rows) for result in self._check_batch(functions, batch)]

    def _check_batch(self, functions: ProviderFunctions, rows: Sequence[Resource]) -> list[CheckedRow]:
        """Return the results of ``check`` for one batch: first by data types, then by canonical form.

        Both are checked for the whole batch at once, which is much faster than row by row. The text of a problem takes
        the place of its row, and later checks leave it as it is.
        """
        definition, canonicalize = functions.definition, functions.canonicalize
        typed: list[Any] = list(rows)
        for index in find_suspect(functions, rows):  # nearly none: the other rows are accepted at once
            typed[index] = self._check_types(definition, rows[index])
        if canonicalize is None and not are_flat(rows):
            # A provider may keep the lists and hashes that it has returned, and change them in ``set``.
            typed = [_copied(row) if type(row) is dict else row for row in typed]
        canonical = list(typed)
        if canonicalize is not None:
            good = [index for index, row in enumerate(typed) if type(row) is dict]
            answers = _canonicalize(canonicalize, [typed[index] for index in good])
            for index, answer in zip(good, answers, strict=True):
                canonical[index] = answer
        return [self._canonical_row(definition, *forms) for forms in zip(typed, canonical, strict=True)]

    def _check_types(self, definition: TypeDefinition, row: Resource) -> Resource | str:
        """Return the row if its values have the data types of the type definition, or a text with the problem.

        Unless ``strict`` is ``error``, a wrong row is returned without undeclared attributes; values of a wrong data
        type stay, if state can record them.
        """
        attributes = definition.attributes
        undeclared = [key for key in row if key not in attributes]
        if undeclared:
            message = f"get returned the undeclared attribute {show(undeclared[0])}{hint(undeclared[0], attributes)}"
            if self.strict == "error":
                return message
            self._warn(definition, _name(definition, row), message)
            row = {key: value for key, value in row.items() if key in attributes}
        try:
            problems = check_values(definition, row)
            unknown = None if problems else first_unknown(row)
        except RecursionError:
            return "get returned a value that contains itself"
        if unknown is not None:
            return f"get returned a value of '{unknown}' that is not known; leave it out"
        if not problems:
            return row
        message = _wrong_values(problems)
        if self.strict == "error":
            return message
        self._warn(definition, _name(definition, row), message)
        return _unrecordable(row) or row

    def _canonical_row(self, definition: TypeDefinition, row: Resource | str, canonical: object) -> CheckedRow:
        """Return the row to use, in its canonical form and completed, or the text of its problem.

        Declared values are canonical, so any other form of a value would look like a difference: ``strict`` decides
        whether it is a problem or is corrected. If an earlier check has failed, ``row`` or ``canonical`` is the text of
        that problem.
        """
        if type(row) is not dict or type(canonical) is not dict:
            return str(row if type(row) is not dict else canonical)
        if canonical is not row and canonical != row:
            message = _uncanonical(definition, row, canonical)
            if message and (self.strict == "error" or _unrecordable(canonical)):
                return message
            if message:
                self._warn(definition, _name(definition, row), message)
        elif all(map(is_, map(row.get, canonical), canonical.values())):
            # Usually a copy of the row with the same values: keep one of the two.
            canonical = row
        return _complete(definition, canonical)

    def _warn(self, definition: TypeDefinition, name: Name, message: str) -> None:
        """Log a warning about a corrected row if ``strict`` is ``warning``: once for each type and message."""
        if self.strict == "warning" and (definition.name, message) not in self._warned:
            self._warned.add((definition.name, message))
            reference = str(Reference(definition.name, show_name(name)))
            self._write_warning(reference, message, definition.name, reference=reference)


def _wrong_values(problems: Sequence[Problem]) -> str:
    """Return the problems of a row's values as one text, without the advice that is for authors of manifests."""
    return "get returned " + "; ".join(problem.message.removesuffix(QUOTES) for problem in problems)


def _canonicalize(canonicalize: Callable[[list[Resource]], list[Resource]], rows: list[Resource]) -> list[Any]:
    """Return the canonical form of each row, or the reason of its failure.

    After an exception, each row is tried alone, to find those that cause it.
    """
    try:
        return list(canonicalize(rows))
    except WrongAnswer as error:  # the method itself is wrong, for any row
        return [str(error)] * len(rows)
    except Exception as error:  # noqa: BLE001 - becomes the failure of one row
        if len(rows) == 1:
            return [failure("canonicalize", error)]
        return [answer for row in rows for answer in _canonicalize(canonicalize, [row])]


def _copied(row: Resource) -> Resource | str:
    """Return a copy of a row that shares nothing with its provider, which may change its own values later.

    A value whose copying fails is usually one that state cannot record: then return the problem, otherwise the row
    itself.
    """
    try:
        return copy_resource(row)
    except Exception:  # noqa: BLE001 - the copying of an object may do anything
        return _unrecordable(row) or row


def _unrecordable(row: Resource) -> str:
    """Return the problem of a row with a value that state cannot record, such as a set or an unknown one, or ""."""
    for key, value in row.items():
        try:
            encode(reveal(value))
        except (TypeError, ValueError, RecursionError):
            return f"get returned a value of '{key}' that cannot be recorded"
    return ""


def _in_order(definition: TypeDefinition, names: Collection[Name], rows: Sequence[Resource]) -> bool:
    """Return whether the rows are exactly the requested ones, in that order: then no name needs to be checked.

    Most providers answer so.
    """
    if len(names) != len(rows) or len(definition.namevars) != 1:
        return False
    (namevar,) = definition.namevars
    return [row.get(namevar) for row in rows] == list(names)


def _misnamed(
    functions: ProviderFunctions, requested: Collection[Name], by_name: Mapping[Name, Resource]
) -> dict[Name, tuple[Resource, str]]:
    """Return requested name → row and problem, for each row that has the name in a wrong form, such as ``"80"`` for 80.

    The resource would otherwise seem to be absent, and be created again. Only rows that were not requested, and names
    without a row, are compared.
    """
    unexpected = by_name.keys() - requested
    missing = set(requested) - by_name.keys() if unexpected else ()
    by_text = {show_name(name): name for name in missing}
    misnamed = {}
    for name, row in by_name.items() if missing else ():
        if name in unexpected:
            intended, message = _intended_name(functions, name, row, by_text)
            if intended in missing:
                misnamed[intended] = row, message
    return misnamed


def _intended_name(
    functions: ProviderFunctions, name: Name, row: Resource, by_text: Mapping[str, Name]
) -> tuple[Name | None, str]:
    """Return the name that a row with an unexpected ``name`` should have, and the problem of ``name``; or None and "".

    A row named ``"80"`` is meant for the requested name 80, which has the same text, if its own name is no valid value.
    Otherwise the canonical form of ``name`` is returned. ``by_text``: text → requested name without a row.
    """
    definition = functions.definition
    if show_name(name) in by_text:
        problems = check_values(definition, definition.named_row(name))
        if problems:
            return by_text[show_name(name)], _wrong_values(problems)
    if functions.canonicalize is None:
        return None, ""
    try:
        canonical = definition.name_of(functions.canonicalize([row])[0])
        hash(canonical)
    except Exception:  # noqa: BLE001 - a failure for this row is no failure of a requested one
        return None, ""
    if canonical == name:
        return None, ""
    return canonical, f"get returned the name {show(name)}, which is not canonical; it should be {show(canonical)}"


def _name(definition: TypeDefinition, row: Resource) -> Name:
    """Return the name of a row. Raises ``ProviderError`` if it has none, or one that cannot be a name."""
    try:
        name = definition.name_of(row)
        hash(name)
    except KeyError as error:
        raise ProviderError(f"get returned a resource without its namevar {error}") from None
    except TypeError:
        raise ProviderError(f"get returned a namevar that cannot be one: {show(definition.name_of(row))}") from None
    return name


def _uncanonical(definition: TypeDefinition, row: Resource, canonical: Resource) -> str:
    """Return the problem of the first value of a row that is not canonical, with both forms unless secret, or ""."""
    for key, value in row.items():
        if key not in canonical or not same_value(value, canonical[key]):
            if key in definition.sensitive or is_secret(value):
                return f"get returned a value of '{key}' that is not canonical"
            return (
                f"get returned {show_attribute(value)} for '{key}', which is not canonical;"
                f" it should be {show_attribute(canonical.get(key))}"
            )
    return ""


def _complete(definition: TypeDefinition, row: Resource) -> Resource | None:
    """Complete a checked row in place and return it, or None for an absent resource.

    ``ensure`` is added, as providers may omit ``present``. Secrets are wrapped, so that no output shows them.
    Write-only values are dropped, as they cannot be compared. A provider with ``custom_insync`` may distinguish kinds
    of absence, so its row is kept.
    """
    if row.get("ensure") == "absent":
        return row if "custom_insync" in definition.features else None
    if "ensure" not in row and definition.ensurable and definition.accepts["ensure"]("present"):
        row["ensure"] = "present"
    for name in definition.sensitive:
        if name in row:
            value = unwrapped(row[name])
            row[name] = definition.attributes[name].datatype.conceal(value)
    for name in definition.write_only:
        row.pop(name, None)
    return row
