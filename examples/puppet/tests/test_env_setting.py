"""A type and a provider that were written for Puppet's Resource API obey the protocol, and the laws of providers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from resource_api.testing import ProviderCompliance
from resource_api.testing.protocol import ProtocolConformance
from tests import command

if TYPE_CHECKING:
    from resource_api import Resource

EXAMPLE = Path(__file__).parent.parent


class TestEnvSetting(ProtocolConformance, ProviderCompliance):
    """Variables in a file."""

    type_name = "env_setting"
    module_path = (EXAMPLE,)

    @pytest.fixture(autouse=True)
    def settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep the variables in a file of the test."""
        monkeypatch.setenv("ENV_SETTINGS", str(tmp_path / "settings"))

    @pytest.fixture
    def present(self) -> Resource:
        """Return a variable."""
        return {"name": "RA_TEST", "value": "a = é"}

    @pytest.fixture
    def updated(self, present: Resource) -> Resource:
        """Return another value."""
        return {**present, "value": ""}

    @pytest.fixture
    def others(self) -> list[dict[str, Any]]:
        """Return a variable beside it."""
        return [{"name": "RA_OTHER", "value": "2"}]


#: Laws that are tested with a provider in JavaScript: they start the program many times, and are about providers alone.
_SLOW_LAWS = {"test_a_hostile_name_is_refused_or_is_the_name", "test_noop_changes_nothing"}
for law in _SLOW_LAWS:
    setattr(TestEnvSetting, law, None)


def test_the_type_is_as_the_program_prints_it() -> None:
    """``types/env_setting.json`` is made from the definition in Ruby."""
    printed = subprocess.run(
        [EXAMPLE / "providers" / "env_setting", "--type"], check=True, capture_output=True, text=True
    )
    assert (EXAMPLE / "types" / "env_setting.json").read_text() == printed.stdout


@pytest.mark.process
def test_a_manifest_uses_it(tmp_path: Path) -> None:
    """A value that is canonical already needs no change; a failure names its reason."""
    site = tmp_path / "site.yaml"
    site.write_text("resources:\n  Env_setting[EDITOR]: {value: ' vim '}\n")
    environment = command.environment_of(tmp_path, ENV_SETTINGS=str(tmp_path / "settings"))

    def run(*words: str) -> tuple[int, str]:
        arguments = [*words, str(site), "--module-path", str(EXAMPLE), "--state", f"sqlite:{tmp_path}/state.db"]
        ended = command.run(arguments, cwd=tmp_path, env=environment, text=True)
        return ended.returncode, ended.stdout + ended.stderr

    assert "value: (none) → vim" in run("plan")[1]
    code, text = run("apply")
    assert (code, "Notice: Env_setting[EDITOR]: setting EDITOR" in text, "1 created" in text) == (0, True, True), text
    assert (tmp_path / "settings").read_text() == "EDITOR=vim\n"
    assert "1 unchanged" in run("apply")[1]
    (tmp_path / "settings.new").mkdir()
    site.write_text("resources:\n  Env_setting[EDITOR]: {value: nano}\n")
    code, text = run("apply")
    assert (code, "Is a directory" in text) == (1, True), text
