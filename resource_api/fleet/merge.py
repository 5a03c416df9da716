"""What hosts answer, made one report: each host's outcome once, and hosts that answer the same folded into one group.

Answers are data of strangers: whatever has not the form that it should have counts as nothing. Times and durations do
not tell answers apart, nor does a host's own name in them.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from resource_api.fleet.carriers import carrier
from resource_api.model.report import SUMMARY_FIELDS, Summary
from resource_api.model.values._namedtuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from resource_api.fleet.carriers.carrier import Host

#: What reading a document of a host raises that has not the form that it should have.
UNEXPECTED: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
#: What can have become of a host, in the order of a summary.
STATUSES: Final = ("changed", "unchanged", "failed", "unreachable", "refused", "untouched")
#: The documents of a run that are passed on as they come.
EVENTS: Final = ("planned_change", "resource_drift", "step_start", "step_end", "log", "diagnostic", "outputs", "result")
#: The documents that are shown of a group.
_SHOWN: Final = frozenset({"log", "diagnostic", "result"})
_LEVELS: Final = ("debug", "info", "notice", "warning", "err")
#: What differs from run to run, whatever was done.
_PASSING: Final = ("timestamp", "received", "seconds", "run", "host")
#: What a plan has of its host and is not shown, and the whole manifest in one that is saved.
_OF_ONE_HOST: Final = ("lineage", "serial", "outputs", "manifest")
_COUNTS: Final = tuple(name for name in Summary._fields if name != "noop")
_CHANGES: Final = frozenset(SUMMARY_FIELDS.values())
_LARGEST: Final = 2**31
#: Stands for the host's own name in what a group keeps: a character that no text of ours has.
_OWN_NAME: Final = "\ue000"
#: The same for its address, in the reason of a group.
_OWN_ADDRESS: Final = "\ue001"
_ADDRESS: Final = "${host.address}"
#: The characters of names beside letters and digits.
_PARTS: Final = ("-", "_")
#: What a group shows in its place.
_PLACEHOLDER: Final = "${host.name}"
#: A shorter name is likely a part of other words.
_SHORTEST: Final = 3
#: Documents and characters that are kept of one host, and characters of all groups.
_MOST_DOCUMENTS: Final = 2000
_MOST_OF_HOST: Final = 256 * 1024
_MOST_OF_ALL: Final = 32 * 1024 * 1024


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


class Group:
    """Hosts with the same status and the same answers, which are kept once."""

    __slots__ = ("_address", "error", "hosts", "more", "status", "texts")

    def __init__(self, status: str, error: str, texts: Sequence[str], *, more: int, address: str) -> None:
        """Begin without hosts; ``more`` documents are not among the ``texts``; ``address`` is that of the first one."""
        self._address = address
        self.status = status
        self.error = error
        self.texts = texts
        self.more = more
        self.hosts: list[str] = []

    def documents(self, host: str = "") -> list[dict[str, Any]]:
        """Return the documents that are shown; those of one ``host`` with its name.

        Without it with the name of the only host, or with what stands for any of several.
        """
        name = host or (self.hosts[0] if len(self.hosts) == 1 else _PLACEHOLDER)
        return [json.loads(text.replace(_OWN_NAME, name)) for text in self.texts]

    def reason(self) -> str:
        """Return why these hosts have not succeeded; empty: they have, or their documents say it."""
        names = (self.hosts[0], self._address) if len(self.hosts) == 1 else (_PLACEHOLDER, _ADDRESS)
        return self.error.replace(_OWN_NAME, names[0]).replace(_OWN_ADDRESS, names[1])


class Answer:
    """What one host has answered so far."""

    def __init__(self, host: Host, lowest: str) -> None:
        """Show log lines of the level ``lowest`` and above."""
        self._host = host
        self._lowest = _LEVELS.index(lowest)
        self._digest = blake2b(digest_size=16)
        self.texts = list[str]()
        self.more = 0
        self._room = _MOST_OF_HOST
        self.summary: dict[str, int] | None = None
        self.changed = False
        self.problem = ""
        #: The outputs of its stack as JSON, the host's name replaced; empty: there are none.
        self.outputs = ""

    def add(self, document: Mapping[str, Any]) -> None:
        """Take one document."""
        kind = document["type"]
        if kind == "summary":
            self.summary = {name: _count(document.get(name)) for name in _COUNTS}
            self.changed = self.changed or any(self.summary[name] for name in _CHANGES)
        elif kind == "outputs":
            values = document.get("outputs")
            self.outputs = self.without_name(_text(values)) if values and isinstance(values, dict) else ""
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
        self.changed = self.changed or bool(found.get("refreshed"))

    def _keep(self, document: Mapping[str, Any]) -> None:
        text = self.without_name(_text(document))
        self._digest.update(text.encode(errors="surrogatepass"))
        self._digest.update(b"\n")
        if len(self.texts) < _MOST_DOCUMENTS and len(text) <= self._room:
            self._room -= len(text)
            self.texts.append(text)
        else:
            self.more += 1

    def without_name(self, text: str) -> str:
        """Return a text in which a mark stands for the name of this host."""
        name = self._host.name
        if len(name) < _SHORTEST or name not in text:
            return text
        pieces, start, at = list[str](), 0, text.find(name)
        while at >= 0:
            after = at + len(name)
            if not (_continues(text[at - 1 : at], before=True) or _continues(text[after : after + 1])):
                pieces += text[start:at], _OWN_NAME
                start = after
            at = text.find(name, after)
        return "".join(pieces) + text[start:]

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

    def key(self, status: str, error: str) -> bytes:
        """Return what hosts of the same group have in common."""
        digest = self._digest.copy()
        digest.update(f"{status}\n{error}".encode(errors="surrogatepass"))
        return digest.digest()


class Merge:
    """The reports of all hosts of a run, and the groups of those that have been shown last."""

    def __init__(self, lowest: str = "notice", mask: Callable[[str], str] = str) -> None:
        """Show log lines of the level ``lowest`` and above; ``mask`` masks the secrets that are known here."""
        self._lowest = lowest
        self._mask = mask
        self._answers: dict[str, Answer] = {}
        #: Host → its place in the selection.
        self._places: dict[str, int] = {}
        self._batch_groups: dict[bytes, Group] = {}
        self._room = _MOST_OF_ALL
        self._counts = dict.fromkeys(STATUSES, 0)
        #: Equal counts of hosts are one object: of many hosts most have the same.
        self._summaries: dict[tuple[int, ...], Mapping[str, int]] = {}
        self.reports: dict[str, HostReport] = {}
        self.groups: list[Group] = []
        #: The outputs of the hosts of the whole run, folded by themselves: they often differ where nothing else does.
        self.outputs: dict[bytes, Group] = {}

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
        error = report.error.replace(host.address, _OWN_ADDRESS) if len(host.address) >= _SHORTEST else report.error
        error = answer.without_name(error)
        key = answer.key(report.status, error)
        if (group := self._batch_groups.get(key)) is None:
            group = self._batch_groups[key] = self._group(answer, report.status, error, host.address)
            self.groups.append(group)
        group.hosts.append(host.name)
        if answer.outputs:
            self._add_outputs(host.name, answer.outputs)
        self._add(report)
        return report

    def untouched(self, names: Iterable[str], why: str, batch: Callable[[str], int] = lambda _: 0) -> None:
        """Report hosts that were never asked."""
        for name in names:
            self._add(HostReport(name, "untouched", error=why, batch=batch(name)))

    def next_batch(self) -> None:
        """Fold the hosts from now on into groups of their own."""
        self._batch_groups.clear()

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

    def _add_outputs(self, host: str, text: str) -> None:
        """Fold the outputs of a host; those for which there is no room are one group without texts."""
        key = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        if key not in self.outputs and len(text) > self._room:
            key = b""
        if (group := self.outputs.get(key)) is None:
            texts = [self._mask(text)] if key else []
            self._room -= len(text) if key else 0
            group = self.outputs[key] = Group("", "", texts, more=1 - len(texts), address="")
        group.hosts.append(host)

    def _add(self, report: HostReport) -> None:
        self.reports[report.name] = report
        self._counts[report.status] += 1

    def _shared(self, summary: Mapping[str, int] | None) -> Mapping[str, int] | None:
        return summary if summary is None else self._summaries.setdefault(tuple(summary.values()), summary)

    def _group(self, answer: Answer, status: str, error: str, address: str) -> Group:
        texts, size = answer.texts, sum(map(len, answer.texts))
        if size > self._room:
            texts = texts[:_FEW]
            size = sum(map(len, texts))
        self._room -= size
        more = answer.more + len(answer.texts) - len(texts)
        return Group(status, error, list(map(self._mask, texts)), more=more, address=address)


#: Documents of a group where there is no room for all of them.
_FEW: Final = 5


def _continues(character: str, *, before: bool = False) -> bool:
    """Return whether a character beside a name makes it a part of another name; a dot does before it."""
    return character.isalnum() or character in _PARTS or (before and character == ".")


def _comparable(found: Any) -> Any:
    """Return the only document of a command without what tells equal plans of two hosts apart."""
    if not isinstance(found, dict) or not isinstance(found.get("steps"), list):
        return found
    steps = [each for each in found["steps"] if not isinstance(each, dict) or _acts(each)]
    return {**{key: value for key, value in found.items() if key not in _OF_ONE_HOST}, "steps": steps}


def _acts(step: Mapping[str, Any]) -> bool:
    deferred = any(str(each).startswith("deferred: ") for each in step.get("reasons") or ())
    return step.get("action") != "same" or deferred or bool(step.get("error") or step.get("previous"))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < _LARGEST else 0


def _messages(problems: Any) -> list[str]:
    """Return the messages of problems, with their places."""
    found = list[str]()
    for each in problems if isinstance(problems, list) else ():
        if isinstance(each, dict) and isinstance(each.get("message"), str):
            place = f"{each['file']}:{each['line']}: " if each.get("file") and each.get("line") else ""
            found.append(f"{place}{each['message']}")
    return found
