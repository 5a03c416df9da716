"""``watch``: a plan after each change of a file of the manifest, until a signal comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.conftest import Bench

SEPARATOR = "--- site.yaml has changed ---"


class Watch:
    """A running ``watch site.yaml``."""

    def __init__(self, bench: Bench) -> None:
        """Start it; its errors are among its output."""
        words = [sys.executable, "-P", "-m", "resource_api", "watch", "site.yaml", "-i", "extra=@extra"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            words, cwd=bench.home, env=bench.environment, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        self.output: IO[str] = self.process.stdout

    def until(self, text: str) -> list[str]:
        """Return the lines up to the first that contains ``text``."""
        lines: list[str] = []
        while not (lines and text in lines[-1]):
            line = self.output.readline()
            assert line, f"it has ended, after {lines}"
            lines.append(line.rstrip("\n"))
        return lines


@pytest.fixture
def watch(bench: Bench) -> Iterator[Watch]:
    """Start ``watch`` for a manifest with an include, an input from a file, an asset and a type of its own."""
    bench.write("more/other.yaml", "resources:\n  Widget[other]: {size: 1}\n")
    bench.write("extra", "blue")
    bench.write("asset", "content")
    bench.type("own", '"name": Attribute("String", kind="namevar"), "ensure": Attribute("Enum[present, absent]")')
    bench.write(
        "modules/providers/own.py",
        """
        from resource_api import BaseProvider
        class Provider(BaseProvider):
            def get(self, context, names=None):
                return []
            def set(self, context, changes):
                pass
        """,
    )
    bench.write(
        "site.yaml",
        """
        inputs: {extra: {type: String}}
        include: [more/other.yaml]
        resources:
          Widget[a]: {colour: "${inputs.extra}"}
          Own[b]: {ensure: present}
          File[/nonexistent/c]: {source: {asset: {file: asset}}}
        """,
    )
    watched = Watch(bench)
    try:
        yield watched
    finally:
        watched.process.kill()
        watched.process.wait()
        watched.output.close()


def test_a_change_of_any_of_its_files_is_a_new_plan(bench: Bench, watch: Watch) -> None:
    """Whatever is edited: nothing is applied, and the next plan has it."""
    assert any("colour: (none) → blue" in line for line in watch.until("Plan:"))
    bench.write("extra", "green")
    assert any("colour: (none) → green" in line for line in watch.until("Plan:"))
    bench.write("more/other.yaml", "resources:\n  Widget[other]: {size: 77}\n")
    assert any("size: (none) → 77" in line for line in watch.until("Plan:"))
    bench.write("asset", "other content")
    assert watch.until("Plan:")[0] == SEPARATOR
    bench.write("modules/types/own.py", (bench.modules / "types/own.py").read_text().replace("absent]", "gone]"))
    assert watch.until("Plan:")[0] == SEPARATOR
    assert len([call for call in bench.calls("widget") if call[0] == "get"]) == 5
    assert bench.things("widget") == {}


def test_an_error_is_shown_and_watching_goes_on(bench: Bench, watch: Watch) -> None:
    """A manifest that is wrong, replaced by another file, removed, or whose directory goes and comes back."""
    watch.until("Plan:")
    site, right = bench.home / "site.yaml", (bench.home / "site.yaml").read_text()
    site.write_text(right.replace("colour", "colur"))
    watch.until("unknown attribute 'colur'; did you mean 'colour'?")
    bench.write("new", right).rename(site)
    watch.until("Plan:")
    (bench.home / "more").rename(bench.home / "away")
    watch.until("more/other.yaml")
    (bench.home / "away").rename(bench.home / "more")
    watch.until("Plan:")
    site.unlink()
    watch.until("site.yaml: cannot be read: No such file or directory")
    site.write_text(right)
    watch.until("Plan:")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(watch: Watch, number: signal.Signals) -> None:
    """With the exit code of the signal, and nothing that is left running or said."""
    watch.until("Plan:")
    while Path(f"/proc/{watch.process.pid}/task/{watch.process.pid}/children").read_text():
        time.sleep(0.01)
    watch.process.send_signal(number)
    assert watch.process.wait() == 128 + number, watch.output.read()
    assert watch.output.read() == ""


def test_standard_input_cannot_be_watched(bench: Bench) -> None:
    """It can be read once only."""
    result = bench.run("watch", "-")
    assert (result.code, result.out) == (64, "")
    assert "watch needs a manifest in a file" in result.err
