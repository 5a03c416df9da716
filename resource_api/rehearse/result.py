"""The result of a rehearsal: its verdicts, as values, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.model.values._namedtuple import NamedTuple
from resource_api.model.values.errors import ResourceAPIError
from resource_api.model.values.text import escape
from resource_api.rehearse import side_effects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from resource_api.model.step import Step
    from resource_api.rehearse.side_effects import Effect

_FORMAT: Final = 1
_GAP: Final = "  "
#: What of a verdict is shown in a line of the table.
_MOST_FINDINGS: Final = 3


class RehearsalError(ResourceAPIError):
    """A rehearsal could not be ended; nothing of it is left."""


class Finding(NamedTuple):
    """One thing that is not as it should be."""

    reference: str
    text: str
    #: The attribute that it is about; empty: none.
    attribute: str = ""
    #: Where its resource is declared, ``site.yaml:14``; empty: not known.
    place: str = ""

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.reference}: {self.text}" + (f" ({self.place})" if self.place else "")


def finding(step: Step, text: str, attribute: str = "") -> Finding:
    """Return a finding about a step, or about an attribute of it, with its line in the manifest."""
    place = step.entry.declaration.place(*([attribute] if attribute else []))
    return Finding(str(step.reference), text, attribute, f"{place.file}:{place.line}" if place.line else "")


class Verdict(NamedTuple):
    """The answer to one question about a manifest."""

    question: str
    ok: bool
    #: What was found, for people, where that is no finding.
    text: str = ""
    findings: Sequence[Finding] = ()


class Rehearsal(NamedTuple):
    """The result of a rehearsal."""

    verdicts: Sequence[Verdict]
    side_effects: Sequence[Effect]
    #: The references of what acts outside of the machine's files.
    not_rehearsed: Sequence[str]
    #: What was interrupted has the exit code of the signal; 0: nothing was.
    interrupted: int = 0
    #: What could not be damaged, and why.
    not_damaged: Sequence[Finding] = ()

    @property
    def ok(self) -> bool:
        """Whether every verdict is good."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0: all well; 1: the run failed; 2: it works, but another verdict is bad; 128 + N after signal N."""
        if self.interrupted:
            return self.interrupted
        bad = [verdict for verdict in self.verdicts if not verdict.ok]
        return 0 if not bad else 1 if bad[0] is self.verdicts[0] else 2

    def __str__(self) -> str:
        """Return what people are shown, for the message of an assertion."""
        return "\n".join(self.lines())

    def with_verdict(self, verdict: Verdict) -> Rehearsal:
        """Return this result with one verdict more."""
        return self._replace(verdicts=[*self.verdicts, verdict])

    def verdict(self, question: str) -> Verdict:
        """Return the verdict on a question: ``run``, ``silent twice``, … Raise ``LookupError``."""
        for each in self.verdicts:
            if each.question == question:
                return each
        raise LookupError(question)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        verdicts = [{**each._asdict(), "findings": [f._asdict() for f in each.findings]} for each in self.verdicts]
        effects = [{**each._asdict(), "references": list(each.references)} for each in self.side_effects]
        return {
            "format_version": _FORMAT,
            "verdicts": verdicts,
            "side_effects": effects,
            "not_rehearsed": list(self.not_rehearsed),
            "not_damaged": [each._asdict() for each in self.not_damaged],
            "exit_code": self.exit_code,
        }

    def lines(self) -> Iterator[str]:
        """Yield what was done beyond what is declared, and the table of verdicts."""
        yield ""
        yield "Beyond what is declared:"
        effects = list(side_effects.lines(self.side_effects))
        for line in effects or ["nothing"]:
            yield f"{_GAP}{escape(line)}"
        if self.not_rehearsed:
            yield ""
            yield "Not rehearsed, because it acts outside of the machine's files:"
            for reference in self.not_rehearsed:
                yield f"{_GAP}{escape(reference)}"
        if self.not_damaged:
            yield ""
            yield "Not damaged:"
            for each in self.not_damaged:
                yield f"{_GAP}{escape(str(each))}"
        if not self.verdicts:
            return
        yield ""
        yield "Verdicts:"
        width = max(len(verdict.question) for verdict in self.verdicts)
        for verdict in self.verdicts:
            yield from _verdict_lines(verdict, width)


def _verdict_lines(verdict: Verdict, width: int) -> Iterator[str]:
    word = "ok" if verdict.ok else "no"
    head = f"{_GAP}{escape(verdict.question):{width}}{_GAP}{word}"
    if not verdict.findings:
        yield f"{head}{_GAP}{escape(verdict.text)}".rstrip()
        return
    shown = [escape(str(each)) for each in verdict.findings[:_MOST_FINDINGS]]
    if len(verdict.findings) > _MOST_FINDINGS:
        shown.append(f"and {len(verdict.findings) - _MOST_FINDINGS} more")
    yield f"{head}{_GAP}{shown[0]}"
    for line in shown[1:]:
        yield f"{'':{len(head)}}{_GAP}{line}"
