"""The result of a rehearsal as text."""

from __future__ import annotations

import pytest
import yaml

from resource_api.rehearse.result import Finding, Rehearsal, Verdict, needs
from resource_api.rehearse.side_effects import Effect

_PATH = "/srv/a-rather-long/path/that-must-stay/in-one-piece.conf"
_FINDING = Finding(f"File[{_PATH}]", "content was changed; the next run does not see it", "content", "site.yaml:7")
_REHEARSAL = Rehearsal(
    [
        Verdict("run", ok=True, text="1 created"),
        Verdict("clean after destroy", ok=False, findings=[_FINDING] * 4),
        Verdict("test test -e /srv/a -a -e /srv/b -a -e /srv/c", ok=False, text="exit code 1"),
    ],
    [Effect(("Exec[make the index and the cache]",), "made", _PATH)],
    [Finding("Service[web]", "would change: ensure changed from stopped to running")],
    not_damaged=[_FINDING],
)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_are_wrapped_at_the_width_of_the_terminal(width: int) -> None:
    """Only a line with a word that is too long is longer, and nothing is left out."""
    lines = list(_REHEARSAL.lines(width))
    assert [line for line in lines if len(line) > width and _PATH not in line] == []
    assert " ".join(lines).split() == " ".join(_REHEARSAL.lines()).split()


def test_without_a_terminal_each_finding_is_one_line() -> None:
    """A program that reads lines finds all of a finding in one, without the further lines of a reason."""
    lines = list(
        _REHEARSAL._replace(verdicts=[Verdict("run", ok=False, findings=[_FINDING._replace(text="a\nb")])]).lines()
    )
    assert lines[-1] == f"  run  no  File[{_PATH}]: a (site.yaml:7)"


@pytest.mark.parametrize("title", ["hand over the site", "echo a: b # c", "say 'hi': \"now\"", "x: y['z']"])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_text_to_paste_stays_whole_and_is_yaml(title: str, width: int) -> None:
    """However narrow the terminal is, the relationship stands in one line, and a manifest reads it as it is meant."""
    pasted = needs(f"Exec[{title}]")
    finding = Finding("Exec[make the index and the cache]", f"{pasted}, or Exec[another] fails", "", "site.yaml:7")
    rehearsal = _REHEARSAL._replace(verdicts=[Verdict("free in order", ok=False, findings=[finding])])
    lines = [line for line in rehearsal.lines(width) if pasted.removeprefix("needs ") in line]
    assert len(lines) == 1
    assert yaml.safe_load(pasted.removeprefix("needs '").removesuffix("'")) == {"require": f"Exec[{title}]"}
