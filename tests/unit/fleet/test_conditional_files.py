"""Files under conditions go to all hosts; each host includes those whose conditions hold there (contract §10.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from resource_api.fleet import job, job_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from resource_api.model.declaration import Manifest


@pytest.fixture
def site(tmp_path: Path) -> str:
    """Write a manifest for machines of two families, which declare the same resource in files of their own."""
    (tmp_path / "site.yaml").write_text(
        "project: p\ninclude:\n- {file: deb.yaml, when: {facts.os.family: Debian}}\n- plain.yaml\n"
        "- {file: fed.yaml, when: {facts.os.family: RedHat}}\nresources: {'File[/a]': {}}\n"
    )
    (tmp_path / "plain.yaml").write_text("resources: {'File[/plain]': {}}\n")
    (tmp_path / "deb.yaml").write_text("resources: {'File[/same]': {}}\ninputs: {deb: {default: 1}}\n")
    (tmp_path / "fed.yaml").write_text("resources: {'File[/same]': {}}\ninputs: {fed: {default: 1}}\n")
    return str(tmp_path / "site.yaml")


def _titles(manifest: Manifest) -> list[str]:
    return [declared.title for declared in manifest.resources]


def test_the_controller_knows_the_inputs_of_all_files(site: str) -> None:
    """It judges no condition: files that contradict each other are no mistake, and their inputs are declared."""
    manifest = job_inputs.declared_manifest(job_inputs.read_documents(site))
    assert _titles(manifest) == ["/plain", "/a"]
    assert set(manifest.inputs) == {"deb", "fed"}
    assert not manifest.problems


@pytest.mark.parametrize(("family", "expected"), [("Debian", ["/same", "/plain", "/a"]), ("Suse", ["/plain", "/a"])])
def test_a_host_includes_what_holds_there(site: str, family: str, expected: list[str]) -> None:
    """In the order of ``include``; the rest is named."""

    def judge(_manifest: Manifest, when: Any) -> str:
        return "" if when == {"facts.os.family": family} else "another family"

    fields = [job.document_fields(document) for document in job_inputs.read_documents(site)]
    manifest = job.read_manifest(fields, lambda raw, _file: pytest.fail(str(raw)))
    assert manifest.with_includes is not None
    whole = manifest.with_includes(judge)
    assert _titles(whole) == expected
    skipped = [(include.file.rpartition("/")[2], include.reason) for include in whole.skipped_includes]
    assert skipped == [(name, "another family") for name in ("deb.yaml", "fed.yaml") if name[:3] != family[:3].lower()]
