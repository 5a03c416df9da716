"""Manual pages: one for each command, complete, correct for the formatter and the same in each build."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import click
import pytest

from resource_api.cli import exit_codes, man_pages
from resource_api.cli import main as cli

pytestmark = pytest.mark.process


def test_there_is_a_correct_page_for_every_command(tmp_path: Path) -> None:
    """The formatter has nothing to say about any of them, not even about style."""
    written = man_pages.write(tmp_path / "man")
    names = {path.stem for path in written}
    assert {"resource-api", "resource-api-state-mv", *(f"resource-api-{name}" for name in cli.COMMANDS)} <= names
    done = subprocess.run(["mandoc", "-Tlint", *written], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_page_shows_options_variables_and_examples_as_they_are_typed(tmp_path: Path) -> None:
    """What is copied from a page works: hyphens and quotes are the characters of the command line."""
    man_pages.write(tmp_path)
    page = tmp_path / "resource-api-destroy.1"
    done = subprocess.run(["mandoc", "-Tascii", "-Owidth=200", page], capture_output=True, text=True, check=True)
    shown = re.sub(".\b", "", done.stdout)
    destroy = cli.cli.get_command(click.Context(cli.cli), "destroy")
    assert destroy is not None
    for option in (each for each in destroy.params if isinstance(each, click.Option)):
        assert all(f" {name}" in shown for name in option.opts)
        assert option.envvar is None or f" {option.envvar}\n" in shown
    assert "       resource-api destroy site.yaml --target 'File[/etc/motd]' --yes\n" in shown


def test_a_build_from_the_same_source_has_the_same_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The date is the one that a packager gives."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    pages = dict(man_pages.pages())
    assert pages == dict(man_pages.pages())
    assert pages["resource-api-plan"].splitlines()[0].startswith(".TH RESOURCE-API-PLAN 1 2023-11-14 ")


def test_the_exit_codes_are_those_of_the_documentation() -> None:
    """Each code has a row in ``docs/commands.md``, and no other has."""
    text = Path(__file__).parents[3].joinpath("docs/commands.md").read_text(encoding="utf-8")
    table = text.partition("## Exit codes")[2].partition("## JSON")[0]
    assert re.findall(r"^\| (\d[\d, ]*) \|", table, re.MULTILINE) == list(exit_codes.MEANINGS)
