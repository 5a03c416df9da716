"""Merge the hosts' results into one report; hosts with identical results are grouped.

Results are untrusted data: malformed parts are ignored. Times are ignored in the comparison; so are a host's own name
and address, but only among hosts without literally equal results, since a name may also be a word. The answer of a
command that reads is compared by its printed lines: the rest may differ.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from resource_api.fleet.connections import ENDED, LOST, REFUSED, UNREACHABLE, Host
from resource_api.model.report import SUMMARY_FIELDS, Summary
from resource_api.model.values.start_up import NamedTuple
from resource_api.model.values.values import map_leaves
from resource_api.render.json import acts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    #: Returns the printed lines of a document.
    RenderLines = Callable[[Mapping[str, object]], Iterable[str]]

#: The exceptions that malformed documents of hosts raise.
UNEXPECTED: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
#: The statuses of hosts in the order of a summary.
SUCCEEDED: Final = ("changed", "unchanged")
STATUSES: Final = (*SUCCEEDED, "failed", "unreachable", "refused", "untouched")
#: The documents of a run that are passed on when they arrive.
EVENTS: Final = ("planned_change", "resource_drift", "step_start", "step_end", "log", "diagnostic", "outputs", "result")
#: A host's counts of its resources.
COUNTS: Final = tuple(name for name in Summary._fields if name != "noop")
_LEVELS: Final = ("debug", "info", "notice", "warning", "err")
#: Fields that differ from run to run.
_VOLATILE_FIELDS: Final = ("timestamp", "received", "seconds", "run", "host")
#: Fields of a plan that differ from host to host and are not printed, with values for a plan of no host.
NO_HOST: Final[Mapping[str, object]] = {"lineage": "", "serial": 0, "outputs": {}, "output_changes": {}, "unknown": []}
_HOST_FIELDS: Final = (*NO_HOST, "manifest")
_CHANGES: Final = frozenset({*SUMMARY_FIELDS.values(), "outputs_changed"})
_LARGEST: Final = 2**31
#: The fields of the document of ``run``, and the largest exit code of a program.
_PROGRAM_FIELDS: Final = frozenset({"exit_code", "stdout", "stderr"})
_LARGEST_CODE: Final = 255
#: Fields of the document of a command which changes only state; one that is filled shows a change.
_STATE_CHANGES: Final = ("refreshed", "output_changes", "forgotten", "written", "former")
#: Largest length of the error about a malformed document, and of the messages of a refusal, which each report keeps.
_MAX_REASON: Final = 300
_MAX_REFUSAL: Final = 32 * 1024
#: Placeholders for the host's name and address in the stored texts: private characters.
_OWN_NAME: Final = "\ue000"
_OWN_ADDRESS: Final = "\ue001"
#: Replaces the placeholders in the output for different hosts.
_PLACEHOLDER_HOST: Final = Host("${host.name}", "${host.address}")
#: The characters of names beside letters and digits; and escapes in messages, which are no parts of names.
_NAME_CHARACTERS: Final = ("-", "_")
_ESCAPES: Final = ("\\n", "\\r", "\\t")
#: Largest number of stored documents and characters of one host, and of characters of all groups.
_MAX_DOCUMENTS: Final = 2000
_MAX_OF_HOST: Final = 256 * 1024
_MAX_OF_ALL: Final = 32 * 1024 * 1024
#: Largest number of printed texts that are stored.
_MAX_TEXTS: Final = 500
#: Number of stored documents of a group beyond the limit.
_TRUNCATED_DOCUMENTS: Final = 5


def describe_unexpected(error: Exception) -> str:
    """Return the message of an error of ``UNEXPECTED``."""
    return f"{type(error).__name__}: {str(error)[:_MAX_REASON]}"


class HostReport(NamedTuple):
    """The result of one host."""

    name: str
    status: str
    #: The counts of its run, or None.
    summary: Mapping[str, int] | None = None
    #: The reason of a failure, or "".
    error: str = ""
    #: The exit code of its run, or of the program of ``run``; None if it did not end.
    code: int | None = None
    seconds: float = 0.0
    batch: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether its run succeeded."""
        return self.status in SUCCEEDED


class _StoredResult(NamedTuple):
    """The result of hosts with placeholders for their names and addresses."""

    status: str
    error: str
    texts: Sequence[str]
    #: Number of documents that are not stored.
    more: int


class HostGroup:
    """Hosts with the same status and the same result, which is stored once."""

    __slots__ = ("_addresses", "_representative", "error", "hosts", "more", "status", "texts")

    def __init__(self, representative: Host, result: _StoredResult) -> None:
        """Start without hosts, for a result whose texts have placeholders for the name and address of a host.

        ``representative``: the host whose name and address replace the placeholders in the group's output. If the
        results of its hosts differ there, it is ``_PLACEHOLDER_HOST``, which is printed as ``${host.name}``.
        """
        self._representative = representative
        # ``texts``: documents as JSON with placeholders; ``more``: the number of those that are not stored.
        self.status, self.error, self.texts, self.more = result
        self.hosts: list[str] = []
        #: Host → its address, unless that is its name.
        self._addresses: dict[str, str] = {}

    def add(self, host: Host) -> None:
        """Add a host that has the group's result; its address is stored to fill placeholders in ``documents``."""
        self.hosts.append(host.name)
        if host.address:
            self._addresses[host.name] = host.address

    def join(self, group: HostGroup) -> None:
        """Add the hosts of another group."""
        self.hosts += group.hosts
        self._addresses |= group._addresses

    def documents(self, host: str = "") -> list[dict[str, object]]:
        """Return the stored documents of the result for the output.

        With ``host`` they are as this host has sent them. For "" they stand for the whole group: where the hosts differ
        by their names, the documents contain ``${host.name}`` and ``${host.address}``.
        """
        source = self._representative
        if host and source is _PLACEHOLDER_HOST:
            source = Host(host, self._addresses.get(host, ""))
        return [_document(text, source) for text in self.texts]

    def reason(self) -> str:
        """Return the reason of a failure, or "" after a success and if the documents have it."""
        return _filled(self.error, self._representative)


class _Groups:
    """Hosts grouped by their results, independently of the order of their ends."""

    def __init__(self) -> None:
        """Start without hosts; ``add`` stores each by both digests of its result."""
        #: The digest of a literal result → its group, and the digest of the result without the host's name.
        self._exact: dict[bytes, tuple[HostGroup, bytes]] = {}
        #: The digest without names → the result with placeholders, one value for all groups that differ by names.
        self._results: dict[bytes, _StoredResult] = {}

    def add(self, host: Host, exact: bytes, nameless: bytes, result: Callable[[], _StoredResult]) -> None:
        """Add a host to the group of the hosts with literally the same result, whose digest is ``exact``.

        ``nameless``: the digest with placeholders for the host's name and address, by which ``groups`` later joins
        single hosts. ``result`` returns the result to store; it is called once for each digest ``nameless``.
        """
        if exact not in self._exact:
            if nameless not in self._results:
                self._results[nameless] = result()
            self._exact[exact] = HostGroup(host, self._results[nameless]), nameless
        self._exact[exact][0].add(host)

    def has(self, nameless: bytes) -> bool:
        """Whether a result with this digest is stored, and another host with it takes no room."""
        return nameless in self._results

    def groups(self) -> list[HostGroup]:
        """Return the groups in the order of their first hosts, for a short output.

        Single hosts are joined to a group if their results differ only by their own names and addresses. Hosts with
        literally equal results are printed literally: a host's name in them, such as ``web``, may be an ordinary word.
        """
        alike: dict[bytes, list[HostGroup]] = {}
        for exact, (group, nameless) in self._exact.items():
            alike.setdefault(exact if len(group.hosts) > 1 else nameless, []).append(group)
        return [groups[0] if len(groups) == 1 else self._joined(digest, groups) for digest, groups in alike.items()]

    def _joined(self, nameless: bytes, groups: Sequence[HostGroup]) -> HostGroup:
        """Return one group of the hosts of ``groups``, whose results differ only by the hosts' names and addresses."""
        joined = HostGroup(_PLACEHOLDER_HOST, self._results[nameless])
        for group in groups:
            joined.join(group)
        return joined


class _PrintedTexts:
    """The printed texts of answers; equal answers are rendered once."""

    def __init__(self, lines: RenderLines) -> None:
        """Compare the answers of hosts by their printed text, which the command's function ``lines`` renders."""
        self._lines = lines
        #: The digest of an answer → its printed text.
        self._texts: dict[bytes, str] = {}

    def find(self, answer: str) -> str:
        """Return the printed text of a host's answer, by which answers are compared.

        ``answer``: the document as JSON with placeholders. Equal answers of many hosts are rendered only once.
        """
        digest = blake2b(answer.encode(errors="surrogatepass"), digest_size=16).digest()
        if digest not in self._texts:
            if len(self._texts) >= _MAX_TEXTS:
                self._texts.clear()
            self._texts[digest] = "\n".join(self._lines(_document(answer, _PLACEHOLDER_HOST)))
        return self._texts[digest]


class _HostResult:
    """The documents of one host so far."""

    def __init__(self, host: Host, lowest: str, printed: _PrintedTexts | None, *, counted: bool) -> None:
        """Collect the documents of ``host``, of its log only lines of the level ``lowest`` and above.

        ``printed`` renders the answers of a command that reads, or is None. ``counted``: count the changes in the
        document of a command; False for ``report``, whose document has those of an earlier run.
        """
        self._host = host
        #: The host's name and address with their placeholders, the longer one first: a name may contain the address.
        marks = [(host.name, _OWN_NAME), (host.address, _OWN_ADDRESS)]
        self._marks = sorted(((value, mark) for value, mark in marks if value), key=lambda pair: -len(pair[0]))
        self._printed = printed
        self._counted = counted
        #: The levels of the lines of its log that are printed.
        self._levels = _LEVELS[_LEVELS.index(lowest) :]
        #: The digests of all documents, by which hosts are grouped: literally, and without the host's name and address.
        self._exact, self._nameless = blake2b(digest_size=16), blake2b(digest_size=16)
        #: The stored documents as JSON with placeholders, the number of further ones, and the characters left.
        self.texts, self.more, self._room = list[str](), 0, _MAX_OF_HOST
        #: The counts of its run, or None, and whether it changed anything.
        self.summary: dict[str, int] | None = None
        self.changed = False
        #: The messages of its refusal, or "".
        self.problem = ""
        #: The step that has begun and not ended, or "".
        self._step = ""
        #: The exit code of the program of ``run``, or None.
        self.program_code: int | None = None
        #: The outputs of its stack as JSON, literally and with placeholders, or None.
        self.outputs: tuple[str, str] | None = None

    def add(self, document: Mapping[str, object]) -> None:
        """Add a document of the host's run: store it if it is printed, or take from it values for the host's report.

        These are counts, outputs, the messages of a refusal, and the running step, reported if the connection is lost.
        """
        match document["type"]:
            case "summary":
                self._add_counts(document)
            case "outputs":
                values = document.get("outputs")
                self.outputs = self._texts(values) if values and isinstance(values, dict) else None
            case "step_start":
                self._step = str(document.get("reference") or "")[:_MAX_REASON]
            case "step_end":
                self._step = ""
            case "refused":
                self.problem = "; ".join(_messages(document.get("problems")))[:_MAX_REFUSAL]
            case "result":
                result = document.get("document")
                if isinstance(result, dict) and self._counted:
                    self._add_result(result)
                self._store({"type": "result", "document": _comparable(result)})
            case "diagnostic":
                self._store(document)
            case "log" if document.get("level") in self._levels:
                self._store(document)

    def _add_counts(self, counts: Mapping[str, object]) -> None:
        """Take the counts of the host's run."""
        self.summary = {name: count(counts.get(name)) for name in COUNTS}
        self.changed = self.changed or any(self.summary[name] for name in _CHANGES)

    def _add_result(self, result: Mapping[str, object]) -> None:
        """Take values for the host's report from the document of a command that sends no summary, such as ``run``.

        These are the exit code of a program, the counts of resources, and whether the host or its state was changed.
        """
        if result.keys() == _PROGRAM_FIELDS:
            code = result["exit_code"]
            self.program_code = code if type(code) is int and 0 <= code <= _LARGEST_CODE else None
        if isinstance(counts := result.get("summary"), dict):
            self._add_counts(counts)
        self.changed = self.changed or any(map(result.get, _STATE_CHANGES))

    def _store(self, document: Mapping[str, object]) -> None:
        """Add a document to both digests of the result, and store it as JSON if there is room.

        The first digest has the host's name and address literally, the second as placeholders. A document without room
        is counted in ``more``; the digests contain it, so that different results never become one group.
        """
        exact, text = self._texts({key: value for key, value in document.items() if key not in _VOLATILE_FIELDS})
        literal, nameless = exact, text
        # The answer of a command that reads is compared by its printed text, since fields that are not printed may
        # differ from host to host.
        if self._printed is not None and document["type"] == "result":
            literal = nameless = self._printed.find(text)
            if text != exact:  # the printed text has ``${host.name}``: the literal form has the host's own name again
                name, address = _PLACEHOLDER_HOST[:2]
                literal = nameless.replace(name, self._host.name).replace(address, self._host.address)
        for digest, form in ((self._exact, literal), (self._nameless, nameless)):
            digest.update(f"{form}\n".encode(errors="surrogatepass"))
        if len(self.texts) < _MAX_DOCUMENTS and len(text) <= self._room:
            self._room -= len(text)
            self.texts.append(text)
        else:
            self.more += 1

    def _texts(self, value: object) -> tuple[str, str]:
        """Return a value as JSON for both digests: literally, and with placeholders for the host's name and address."""
        exact = _text(value)
        if not any(own in exact for own, _ in self._marks):
            return exact, exact
        return exact, _text(map_leaves(value, lambda leaf: self._hidden(leaf) if type(leaf) is str else leaf))

    def _hidden(self, text: str) -> str:
        """Return a text with placeholders for the host's name and address, to compare it with those of other hosts."""
        # Without a regular expression: to compile one for each host would take half of the time of a large run.
        for own, mark in self._marks:
            text = _replaced(text, own, mark)
        return text

    def report(self, end: Mapping[str, object], seconds: float, batch: int) -> HostReport:
        """Return the report of the host after its last event, ``end``.

        After the command ``run``, its exit code is that of the program that the host has run, not of the job.
        """
        code = end.get("code")
        code = code if type(code) is int else None
        status, error = self._outcome(str(end.get("status")), code, str(end.get("error") or ""))
        if end.get("status") == ENDED and self.program_code is not None:
            code = self.program_code
            error = error or (f"ended with exit code {code}" if code else "")
        return HostReport(self._host.name, status, self.summary, error=error, code=code, seconds=seconds, batch=batch)

    def _outcome(self, ended: str, code: int | None, error: str) -> tuple[str, str]:
        """Return the status of the host in the report, such as "changed" or "failed", and its error message or "".

        ``ended``: the status of its last event. After ``ENDED`` the status depends on the exit code of the job. The
        error is "" if the documents of the host show the reason already.
        """
        if ended == UNREACHABLE:
            return "unreachable", f"unreachable: {error}"
        if ended == REFUSED:
            return "refused", f"refused: {self.problem or error or 'it does not say why'}"
        if ended == LOST:
            cause = error or "the connection was lost"
            step = f"; its last step is {self._step}" if self._step else ""
            return "failed", f"in doubt: {cause}; the job was sent, and the end did not come{step}"
        if code in {0, 2}:  # 2: with changes
            return "changed" if self.changed else "unchanged", ""
        has_shown_reason = (self.summary or {}).get("failed") or self.texts
        return "failed", error or ("" if has_shown_reason else f"failed with exit code {code}")

    def digests(self, status: str, error: str) -> tuple[bytes, bytes, str]:
        """Complete both digests of the result by status and error; return them, and the error with placeholders.

        Hosts are grouped by them: the first is equal for literally equal results, the second also for results that
        differ only by the hosts' names and addresses.
        """
        template = self._hidden(error)
        for digest, form in ((self._exact, error), (self._nameless, template)):
            digest.update(f"{status}\n{form}".encode(errors="surrogatepass"))
        return self._exact.digest(), self._nameless.digest(), template


class Merge:
    """The reports of all hosts of a run, and their groups, batch by batch."""

    def __init__(
        self,
        lowest: str = "notice",
        mask: Callable[[str], str] = str,
        lines: RenderLines | None = None,
        *,
        counted: bool = True,
    ) -> None:
        """Print log lines of the level ``lowest`` and above; ``mask`` masks the controller's secrets.

        ``lines`` returns the printed lines of an answer, by which answers are compared; if None, they are compared by
        their documents. ``counted``: count the changes in the document of a command; False for ``report``, whose
        document has those of an earlier run.
        """
        self._counted = counted
        self._lowest = lowest
        self._mask = mask
        self._printed = _PrintedTexts(lines) if lines is not None else None
        #: Running host → its documents so far.
        self._results: dict[str, _HostResult] = {}
        #: Host → its index in the selection.
        self._indices: dict[str, int] = {}
        #: The groups of the earlier batches, and those of the present one, which its further hosts may join.
        self._ended: list[HostGroup] = []
        self._batch = _Groups()
        #: Outputs are grouped separately over the whole run: they often differ where nothing else does.
        self._outputs = _Groups()
        #: The characters left for texts of all groups.
        self._room = _MAX_OF_ALL
        self._counts = dict.fromkeys(STATUSES, 0)
        #: Equal counts are one object: most hosts have the same.
        self._summaries: dict[tuple[int, ...], Mapping[str, int]] = {}
        #: Host → its report, of ended and untouched hosts.
        self.reports: dict[str, HostReport] = {}

    @property
    def groups(self) -> list[HostGroup]:
        """The groups of all finished hosts, batch by batch."""
        return [*self._ended, *self._batch.groups()]

    @property
    def outputs(self) -> list[HostGroup]:
        """The hosts with outputs, grouped by their outputs."""
        return self._outputs.groups()

    def begin(self, host: Host) -> None:
        """Expect documents of a host, the next one in the order of the selection."""
        self._results[host.name] = _HostResult(host, self._lowest, self._printed, counted=self._counted)
        self._indices[host.name] = len(self._indices)

    def add(self, host: str, document: Mapping[str, object]) -> None:
        """Add a document of a running host; documents of other hosts are ignored."""
        if (result := self._results.get(host)) is not None:
            result.add(document)

    def end(self, host: Host, document: Mapping[str, object], seconds: float, batch: int) -> HostReport:
        """Group a finished host by its result, count its status, and return its report.

        ``document``: its last event, ``seconds``: the time of its run, ``batch``: the number of its batch.
        """
        result = self._results.pop(host.name)
        report = result.report(document, seconds, batch)
        report = report._replace(error=self._mask(report.error))
        if report.summary is not None:
            report = report._replace(summary=self._summaries.setdefault(tuple(report.summary.values()), report.summary))
        exact, nameless, error = result.digests(report.status, report.error)
        self._batch.add(host, exact, nameless, lambda: self._stored(result, report.status, error))
        if result.outputs is not None:
            self._add_outputs(host, *result.outputs)
        self.record(report)
        return report

    def record(self, report: HostReport) -> None:
        """Store the report of a host, ended or untouched, and count its status."""
        self.reports[report.name] = report
        self._counts[report.status] += 1

    def next_batch(self) -> None:
        """Close the groups of the present batch: the following hosts are grouped separately."""
        self._ended += self._batch.groups()
        self._batch = _Groups()

    def in_order(self, groups: Iterable[HostGroup]) -> list[HostGroup]:
        """Return groups in the order in which the user selected the hosts, for the output; hosts end in any order.

        The hosts of each group are sorted in the same way, in place.
        """
        index = self._indices.__getitem__
        unsorted = list(groups)
        for group in unsorted:
            group.hosts.sort(key=index)
        return sorted(unsorted, key=lambda group: index(group.hosts[0]))

    def counts(self) -> Mapping[str, int]:
        """Return the number of hosts by status."""
        return dict(self._counts)

    def _add_outputs(self, host: Host, exact: str, text: str) -> None:
        """Group a host by the outputs of its stack, which are shown once for each group.

        ``exact``: the outputs as JSON; ``text``: the same with placeholders for the host's name and address. When the
        memory for texts is full, all hosts with further outputs become one group without a text, under the key b"".
        """
        exact_key, key = (blake2b(form.encode(errors="surrogatepass")).digest() for form in (exact, text))
        if not self._outputs.has(key):  # otherwise the text is stored already
            if len(text) > self._room:
                exact_key = key = b""
                text = ""
            self._room -= len(text)
        texts = [self._mask(text)] if text else []
        # One document, which is stored, or is counted as one more.
        self._outputs.add(host, exact_key, key, lambda: _StoredResult("", "", texts, 1 - len(texts)))

    def _stored(self, result: _HostResult, status: str, error: str) -> _StoredResult:
        """Return the result of a host as it is stored: with masked secrets, and cut if the memory for all is full."""
        texts = result.texts
        if sum(map(len, texts)) > self._room:
            texts = texts[:_TRUNCATED_DOCUMENTS]
        self._room -= sum(map(len, texts))
        more = result.more + len(result.texts) - len(texts)
        return _StoredResult(status, error, list(map(self._mask, texts)), more)


def _filled(text: str, host: Host) -> str:
    """Return a text with the name and the address of a host for the placeholders."""
    return text.replace(_OWN_NAME, host.name).replace(_OWN_ADDRESS, host.address)


def _document(text: str, host: Host) -> dict[str, object]:
    """Return a stored document for the output, with the name and address of a host instead of the placeholders."""
    document: dict[str, object] = map_leaves(
        json.loads(text), lambda leaf: _filled(leaf, host) if type(leaf) is str else leaf
    )
    return document


def _replaced(text: str, name: str, mark: str) -> str:
    """Return a text with ``mark`` for a host's ``name``, so that texts of hosts can be compared.

    The name is not replaced within a longer name: ``web1`` stays in ``web10``.
    """
    if not name or name not in text:
        return text
    pieces, start, index = list[str](), 0, text.find(name)
    while index >= 0:
        end = index + len(name)
        if not (_continues_before(text, index) or _is_part(text[end : end + 1])):
            pieces += text[start:index], mark
            start = end
        index = text.find(name, end)
    return "".join(pieces) + text[start:]


def _continues_before(text: str, index: int) -> bool:
    r"""Whether the name at ``index`` is the end of a longer name, which must not be replaced: ``web1`` in ``db.web1``.

    The same holds for a name whose first letter belongs to an escape, ``n1`` in ``\n1``. A name directly after an
    escape, ``web1`` in ``\nweb1``, is a whole name.
    """
    preceding = text[index - 1 : index]
    return text[index - 2 : index] not in _ESCAPES and (_is_part(preceding) or preceding in {".", "\\"})


def _is_part(character: str) -> bool:
    """Whether a character, or "" at the end of a text, can continue a name."""
    return character.isalnum() or character in _NAME_CHARACTERS


def _comparable(result: object) -> object:
    """Return a command's only document in the form by which hosts are grouped.

    From a plan, recognized by its ``steps``, the parts are removed that are not printed, such as unchanged steps and
    the serial number of the state: otherwise every host would be a group of its own.
    """
    if not isinstance(result, dict) or not isinstance(result.get("steps"), list):
        return result
    steps = [step for step in result["steps"] if not isinstance(step, dict) or acts(step)]
    return {**{key: value for key, value in result.items() if key not in _HOST_FIELDS}, "steps": steps}


def _text(value: object) -> str:
    """Return a value as JSON; values that JSON lacks are texts."""
    return json.dumps(value, ensure_ascii=False, default=str)


def count(value: object) -> int:
    """Return a count from a host, 0 for an invalid value."""
    return value if type(value) is int and 0 <= value < _LARGEST else 0


def _messages(problems: object) -> list[str]:
    """Return the messages of a refusal's problems with their locations, for the host's report.

    Malformed problems are ignored, as the host is untrusted.
    """
    messages = list[str]()
    for problem in problems if isinstance(problems, list) else ():
        if isinstance(problem, dict) and isinstance(problem.get("message"), str):
            has_location = problem.get("file") and problem.get("line")
            location = f"{problem['file']}:{problem['line']}: " if has_location else ""
            messages.append(f"{location}{problem['message']}")
    return messages
