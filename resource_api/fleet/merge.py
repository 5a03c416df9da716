"""What hosts answer, made one report: each host's outcome once, and hosts that answer the same folded into one group.

Answers are data of strangers: whatever has not the form that it should have counts as nothing. Times and durations do
not tell answers apart, nor does a host's own name in them. But a name may be a word, too: hosts that answer the same
word by word are one group, whatever their names; only of those that are left does the name not count.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet.carriers import carrier
from resource_api.fleet.carriers.carrier import Host
from resource_api.model.report import SUMMARY_FIELDS, Summary
from resource_api.model.values._namedtuple import NamedTuple
from resource_api.render.json import acts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: What reading a document of a host raises that has not the form that it should have.
UNEXPECTED: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
#: What can have become of a host, in the order of a summary.
SUCCEEDED: Final = ("changed", "unchanged")
STATUSES: Final = (*SUCCEEDED, "failed", "unreachable", "refused", "untouched")
#: The documents of a run that are passed on as they come.
EVENTS: Final = ("planned_change", "resource_drift", "step_start", "step_end", "log", "diagnostic", "outputs", "result")
#: What a host counts of its resources.
COUNTS: Final = tuple(name for name in Summary._fields if name != "noop")
#: The documents that are shown of a group.
_SHOWN: Final = frozenset({"log", "diagnostic", "result"})
_LEVELS: Final = ("debug", "info", "notice", "warning", "err")
#: What differs from run to run, whatever was done.
_PASSING: Final = ("timestamp", "received", "seconds", "run", "host")
#: What a plan has of its host and is not shown, and the whole manifest in one that is saved.
_OF_ONE_HOST: Final = ("lineage", "serial", "outputs", "output_changes", "unknown", "manifest")
_CHANGES: Final = frozenset({*SUMMARY_FIELDS.values(), "outputs_changed"})
_LARGEST: Final = 2**31
#: Characters of the reason why a document cannot be read.
_MAX_REASON: Final = 300
#: Stand for the host's own name and address in what a group keeps: characters that no text of ours has.
_OWN_NAME: Final = "\ue000"
_OWN_ADDRESS: Final = "\ue001"
#: What is shown in their place for several hosts.
_ANY: Final = Host("${host.name}", "${host.address}")
#: The characters of names beside letters and digits; and what is no part of a name, as our messages quote texts.
_PARTS: Final = ("-", "_")
_LINE_ENDS: Final = ("\\n", "\\r", "\\t")
#: Documents and characters that are kept of one host, and characters of all groups.
_MOST_DOCUMENTS: Final = 2000
_MOST_OF_HOST: Final = 256 * 1024
_MOST_OF_ALL: Final = 32 * 1024 * 1024


def why_unexpected(error: Exception) -> str:
    """Return why a document of a host cannot be read, from an error of ``UNEXPECTED``."""
    return f"{type(error).__name__}: {str(error)[:_MAX_REASON]}"


class HostReport(NamedTuple):
    """What has become of one host."""

    name: str
    status: str
    #: The counts of its run; None: there was none.
    summary: Mapping[str, int] | None = None
    #: Why it has not succeeded.
    error: str = ""
    #: The exit code of its run; None: it did not end.
    code: int | None = None
    seconds: float = 0.0
    batch: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether its run has ended well."""
        return self.status in SUCCEEDED


class _Kept(NamedTuple):
    """What hosts have answered, marks in the place of their names and addresses."""

    status: str
    error: str
    texts: Sequence[str]
    #: Documents that are not among the texts.
    more: int


class Group:
    """Hosts with the same status and the same answers, which are kept once."""

    __slots__ = ("_of", "error", "hosts", "more", "status", "texts")

    def __init__(self, of: Host, kept: _Kept) -> None:
        """Begin without hosts; the answers are shown as those of one host, ``_ANY`` where they differ by the name."""
        self._of = of
        self.status, self.error, self.texts, self.more = kept
        self.hosts: list[str] = []

    def documents(self, host: str = "") -> list[dict[str, Any]]:
        """Return the documents that are shown; those of one ``host`` as it has sent them."""
        name = host if host and self._of is _ANY else self._of.name
        return [json.loads(text.replace(_OWN_NAME, name)) for text in self.texts]

    def reason(self) -> str:
        """Return why these hosts have not succeeded; empty: they have, or their documents say it."""
        return self.error.replace(_OWN_NAME, self._of.name).replace(_OWN_ADDRESS, self._of.address)


class _Folded:
    """Hosts folded by what they have answered; whichever has ended first, the groups are the same."""

    def __init__(self) -> None:
        """Begin with none."""
        #: The digest of answers → their group, and that digest in which the names do not count.
        self._exact: dict[bytes, tuple[Group, bytes]] = {}
        self._kept: dict[bytes, _Kept] = {}

    def add(self, host: Host, exact: bytes, named: bytes, keep: Callable[[], _Kept]) -> None:
        """Add a host with the digests of its answers; ``keep`` returns these for the first one that has them."""
        if exact not in self._exact:
            if named not in self._kept:
                self._kept[named] = keep()
            self._exact[exact] = Group(host, self._kept[named]), named
        self._exact[exact][0].hosts.append(host.name)

    def has(self, named: bytes) -> bool:
        """Return whether answers are kept."""
        return named in self._kept

    def groups(self) -> list[Group]:
        """Return the groups in the order in which the first host of each has been added."""
        alike: dict[bytes, list[Group]] = {}
        for exact, (group, named) in self._exact.items():
            alike.setdefault(exact if len(group.hosts) > 1 else named, []).append(group)
        return [groups[0] if len(groups) == 1 else self._joined(named, groups) for named, groups in alike.items()]

    def _joined(self, named: bytes, groups: Sequence[Group]) -> Group:
        """Return the group of hosts that answer the same but for their names."""
        found = Group(_ANY, self._kept[named])
        found.hosts += (each.hosts[0] for each in groups)
        return found


class Answer:
    """What one host has answered so far."""

    def __init__(self, host: Host, lowest: str) -> None:
        """Show log lines of the level ``lowest`` and above."""
        self._host = host
        self._lowest = _LEVELS.index(lowest)
        #: Of all documents as they are, and with marks in the place of the host's name.
        self._exact, self._named = blake2b(digest_size=16), blake2b(digest_size=16)
        self.texts = list[str]()
        self.more = 0
        self._room = _MOST_OF_HOST
        self.summary: dict[str, int] | None = None
        self.changed = False
        self.problem = ""
        #: The outputs of its stack as JSON, and with marks in the place of the host's name; None: there are none.
        self.outputs: tuple[str, str] | None = None

    def add(self, document: Mapping[str, Any]) -> None:
        """Take one document."""
        kind = document["type"]
        if kind == "summary":
            self.summary = {name: count(document.get(name)) for name in COUNTS}
            self.changed = self.changed or any(self.summary[name] for name in _CHANGES)
        elif kind == "outputs":
            values = document.get("outputs")
            self.outputs = self._texts(values) if values and isinstance(values, dict) else None
        elif kind == "refused":
            self.problem = "; ".join(_messages(document.get("problems")))
        elif kind in _SHOWN and self._is_shown(kind, document):
            if kind == "result":
                self._add_result(document.get("document"))
                document = {"type": kind, "document": _comparable(document.get("document"))}
            self._keep({key: value for key, value in document.items() if key not in _PASSING})

    def _is_shown(self, kind: str, document: Mapping[str, Any]) -> bool:
        level = document.get("level")
        return kind != "log" or (level in _LEVELS and _LEVELS.index(str(level)) >= self._lowest)

    def _add_result(self, found: Any) -> None:
        """Take what the only document of a command says about changes."""
        if not isinstance(found, dict):
            return
        counts = found.get("summary")
        if isinstance(counts, dict):
            self.add({**counts, "type": "summary"})
        self.changed = self.changed or bool(found.get("refreshed") or found.get("output_changes"))

    def _keep(self, document: Mapping[str, Any]) -> None:
        exact, text = self._texts(document)
        for digest, each in ((self._exact, exact), (self._named, text)):
            digest.update(f"{each}\n".encode(errors="surrogatepass"))
        if len(self.texts) < _MOST_DOCUMENTS and len(text) <= self._room:
            self._room -= len(text)
            self.texts.append(text)
        else:
            self.more += 1

    def _texts(self, value: Any) -> tuple[str, str]:
        """Return a value as JSON, and with marks in the place of the host's name."""
        exact, name = _text(value), self._host.name
        return exact, _text(_without_name(value, name)) if name in exact else exact

    def report(self, end: Mapping[str, Any], seconds: float, batch: int) -> HostReport:
        """Return what has become of the host, from its last document."""
        code = end.get("code")
        code = code if type(code) is int else None
        status, error = self._outcome(str(end.get("status")), code, str(end.get("error") or ""))
        return HostReport(self._host.name, status, self.summary, error, code, seconds, batch)

    def _outcome(self, ended: str, code: int | None, error: str) -> tuple[str, str]:
        if ended == carrier.UNREACHABLE:
            return "unreachable", f"unreachable: {error}"
        if ended == carrier.REFUSED:
            return "refused", f"refused: {self.problem or error or 'it does not say why'}"
        if ended == carrier.LOST:
            return (
                "failed",
                f"in doubt: {error or 'the connection was lost'}; the job was sent, and the end did not come",
            )
        if code in {0, 2}:
            return ("changed" if self.changed else "unchanged"), ""
        failed = (self.summary or {}).get("failed", 0)
        return "failed", error or ("" if failed or self.texts else f"failed with exit code {code}")

    def end(self, status: str, error: str) -> tuple[bytes, bytes, str]:
        """Take the outcome; return what hosts have in common that answer the same, and the error with marks.

        The first digest is equal for answers that are so word by word, the second one for those that differ by names.
        """
        named = _replaced(_replaced(error, self._host.address, _OWN_ADDRESS), self._host.name, _OWN_NAME)
        for digest, each in ((self._exact, error), (self._named, named)):
            digest.update(f"{status}\n{each}".encode(errors="surrogatepass"))
        return self._exact.digest(), self._named.digest(), named


class Merge:
    """The reports of all hosts of a run, and the groups that they are folded into, each batch by itself."""

    def __init__(self, lowest: str = "notice", mask: Callable[[str], str] = str) -> None:
        """Show log lines of the level ``lowest`` and above; ``mask`` masks the secrets that are known here."""
        self._lowest = lowest
        self._mask = mask
        self._answers: dict[str, Answer] = {}
        #: Host → its place in the selection.
        self._places: dict[str, int] = {}
        self._ended: list[Group] = []
        self._batch = _Folded()
        #: Outputs are folded over the whole run, by themselves: they often differ where nothing else does.
        self._outputs = _Folded()
        self._room = _MOST_OF_ALL
        self._counts = dict.fromkeys(STATUSES, 0)
        #: Equal counts of hosts are one object: of many hosts most have the same.
        self._summaries: dict[tuple[int, ...], Mapping[str, int]] = {}
        self.reports: dict[str, HostReport] = {}

    @property
    def groups(self) -> list[Group]:
        """The groups of all hosts that have ended, batch by batch."""
        return [*self._ended, *self._batch.groups()]

    @property
    def outputs(self) -> list[Group]:
        """The hosts whose stacks have outputs, folded by these."""
        return self._outputs.groups()

    def begin(self, host: Host) -> None:
        """Expect the answers of a host."""
        self._answers[host.name] = Answer(host, self._lowest)
        self._places[host.name] = len(self._places)

    def add(self, host: str, document: Mapping[str, Any]) -> None:
        """Take one document of a host; of one that has ended, or was never asked, none is taken."""
        if (answer := self._answers.get(host)) is not None:
            answer.add(document)

    def end(self, host: Host, document: Mapping[str, Any], seconds: float, batch: int) -> HostReport:
        """Return the report of a host that has ended."""
        answer = self._answers.pop(host.name)
        report = answer.report(document, seconds, batch)
        report = report._replace(error=self._mask(report.error), summary=self._shared(report.summary))
        exact, named, error = answer.end(report.status, report.error)
        self._batch.add(host, exact, named, lambda: self._kept(answer, report.status, error))
        if answer.outputs is not None:
            self._add_outputs(host, *answer.outputs)
        self._add(report)
        return report

    def untouched(self, names: Iterable[str], why: str, batch: Callable[[str], int]) -> None:
        """Report hosts that were never asked."""
        for name in names:
            self._add(HostReport(name, "untouched", error=why, batch=batch(name)))

    def next_batch(self) -> None:
        """Fold the hosts from now on into groups of their own."""
        self._ended += self._batch.groups()
        self._batch = _Folded()

    def in_order(self, groups: Iterable[Group]) -> list[Group]:
        """Return groups, and sort the hosts of each, in the order of the selection, whichever have ended first."""
        place = self._places.__getitem__
        found = list(groups)
        for each in found:
            each.hosts.sort(key=place)
        return sorted(found, key=lambda group: place(group.hosts[0]))

    def counts(self) -> Mapping[str, int]:
        """Return how many hosts have which status."""
        return dict(self._counts)

    def _add_outputs(self, host: Host, exact: str, text: str) -> None:
        """Fold the outputs of a host; those for which there is no room are one group without texts."""
        exact_key, key = (blake2b(each.encode(errors="surrogatepass")).digest() for each in (exact, text))
        if not self._outputs.has(key):
            if len(text) > self._room:
                exact_key = key = b""
                text = ""
            self._room -= len(text)
        texts = [self._mask(text)] if text else []
        self._outputs.add(host, exact_key, key, lambda: _Kept("", "", texts, 1 - len(texts)))

    def _add(self, report: HostReport) -> None:
        self.reports[report.name] = report
        self._counts[report.status] += 1

    def _shared(self, summary: Mapping[str, int] | None) -> Mapping[str, int] | None:
        return summary if summary is None else self._summaries.setdefault(tuple(summary.values()), summary)

    def _kept(self, answer: Answer, status: str, error: str) -> _Kept:
        texts, size = answer.texts, sum(map(len, answer.texts))
        if size > self._room:
            texts = texts[:_FEW]
            size = sum(map(len, texts))
        self._room -= size
        more = answer.more + len(answer.texts) - len(texts)
        return _Kept(status, error, list(map(self._mask, texts)), more)


#: Documents of a group where there is no room for all of them.
_FEW: Final = 5


def _without_name(value: Any, name: str) -> Any:
    """Return JSON data with a mark in the place of a host's name."""
    if isinstance(value, str):
        return _replaced(value, name, _OWN_NAME)
    if isinstance(value, dict):
        return {key: _without_name(item, name) for key, item in value.items()}
    return [_without_name(item, name) for item in value] if isinstance(value, list) else value


def _replaced(text: str, name: str, mark: str) -> str:
    """Return a text with a mark in the place of a name, wherever that is no part of another one."""
    if not name or name not in text:
        return text
    pieces, start, at = list[str](), 0, text.find(name)
    while at >= 0:
        after = at + len(name)
        if not (_continues_before(text, at) or _is_part(text[after : after + 1])):
            pieces += text[start:at], mark
            start = after
        at = text.find(name, after)
    return "".join(pieces) + text[start:]


def _continues_before(text: str, at: int) -> bool:
    """Return whether a name goes on before this place: after a dot and in an escape it does, behind an escape not."""
    before = text[at - 1 : at]
    return text[at - 2 : at] not in _LINE_ENDS and (_is_part(before) or before in {".", "\\"})


def _is_part(character: str) -> bool:
    return character.isalnum() or character in _PARTS


def _comparable(found: Any) -> Any:
    """Return the only document of a command without what tells equal plans of two hosts apart."""
    if not isinstance(found, dict) or not isinstance(found.get("steps"), list):
        return found
    steps = [each for each in found["steps"] if not isinstance(each, dict) or acts(each)]
    return {**{key: value for key, value in found.items() if key not in _OF_ONE_HOST}, "steps": steps}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def count(value: Any) -> int:
    """Return a count that a host has sent; 0 for what is none."""
    return value if type(value) is int and 0 <= value < _LARGEST else 0


def _messages(problems: Any) -> list[str]:
    """Return the messages of problems, with their places."""
    found = list[str]()
    for each in problems if isinstance(problems, list) else ():
        if isinstance(each, dict) and isinstance(each.get("message"), str):
            place = f"{each['file']}:{each['line']}: " if each.get("file") and each.get("line") else ""
            found.append(f"{place}{each['message']}")
    return found
