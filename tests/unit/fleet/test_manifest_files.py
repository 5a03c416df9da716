"""The data that is sent of a manifest is what a host needs to carry it out, and no more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from resource_api import ManifestError, Registry, Runtime
from resource_api.fleet import job as jobs
from resource_api.fleet import job_inputs
from resource_api.model.values.errors import ResourceError, UsageError
from resource_api.system.filesystem.code_trust import CodeTrust

SITE = """\
project: web
include: [other.yaml]
resources:
  File[/a]: {content: {asset: {file: a.txt}}}
  File[/b]: {content: {asset: {file: "${host.name}.conf"}}}
  File[/c]: {content: {asset: {file: missing}}}
values:
  tree: {archive: {files: {inner: {archive: {directory: tree}}}}}
"""


@pytest.fixture
def site(tmp_path: Path) -> str:
    """Write a manifest with what it names, and a file that it does not name."""
    (tmp_path / "tree" / "below").mkdir(parents=True)
    for name in ("a.txt", "web1.conf", "web2.conf", "tree/below/x", "other", "web1.secret"):
        (tmp_path / name).write_text(name)
    (tmp_path / "other.yaml").write_text("resources:\n  File[/d]: {content: d}\n")
    (tmp_path / "site.yaml").write_text(SITE)
    return str(tmp_path / "site.yaml")


def test_positions_and_data_are_those_of_the_files(site: str) -> None:
    """A manifest that was sent equals one that was read here, with the position of every part."""
    read = job_inputs.read_documents(site)
    sent = jobs.read_manifest([jobs.document_fields(item) for item in read], lambda _raw, file: pytest.fail(file))
    assert [document.file for document in sent.documents] == [value.file for value in read]
    assert [entry.data for entry in sent.documents] == [element.data for element in read]
    for mine, theirs in zip(read, sent.documents, strict=True):
        assert mine.root == theirs.root
    path = ("resources", "File[/b]", "content", "asset", "file")
    assert sent.documents[-1].position(path, value=True) == (5, 38)


def test_files_are_those_that_the_manifest_names(site: str) -> None:
    """Of a name with ``${...}``, whatever it can mean; of a directory, all in it; no other file."""
    above = Path(site).parent
    contents = job_inputs.file_contents(job_inputs.read_documents(site), {}, CodeTrust())
    assert sorted(contents) == sorted(
        str(above / name) + end
        for name, end in (("a.txt", ""), ("web1.conf", ""), ("web2.conf", ""), ("tree", "/"), ("tree/below/x", ""))
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_no_file_behind_a_link_of_another_user_is_sent(site: str) -> None:
    """Another user would choose which file of root hosts get."""
    asset = Path(site).with_name("a.txt")
    asset.rename(asset.with_name("b.txt"))
    asset.symlink_to("b.txt")
    os.lchown(asset, 54111, -1)
    with pytest.raises(ResourceError, match=r"a\.txt is not read, because others can change a link on its path"):
        job_inputs.file_contents(job_inputs.read_documents(site), {}, CodeTrust())


def test_an_annotated_constant_of_a_python_manifest_names_its_includes(site: str) -> None:
    """It is read without executing the manifest, as an assignment without an annotation is."""
    manifest = Path(site).with_name("site.py")
    manifest.write_text('from typing import Final\n\nINCLUDE: Final = ["other.yaml"]\n\n\ndef manifest(m):\n    pass\n')
    read = job_inputs.read_documents(str(manifest))
    assert [Path(document.file).name for document in read] == ["other.yaml", "site.py"]


def test_files_have_a_largest_size(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is refused before any host is asked."""
    monkeypatch.setattr(job_inputs, "LARGEST", 3)
    with pytest.raises(UsageError, match=r"the files of a manifest for other hosts are at most 0 MiB together$"):
        job_inputs.file_contents(job_inputs.read_documents(site), {}, CodeTrust())


def test_an_unknown_property_of_the_host_is_a_problem_with_its_line(tmp_path: Path) -> None:
    """And what the host has is named."""
    (tmp_path / "site.yaml").write_text("project: web\nresources:\n  File[/x]: {content: '${host.nam}'}\n")
    runtime = Runtime(Registry.from_path())
    with pytest.raises(ManifestError) as caught:
        runtime.validate(str(tmp_path / "site.yaml"))
    (problem,) = caught.value.problems
    assert problem.message == "${host.nam}: unknown property of the host 'nam'; did you mean 'name'?"
    assert problem.line == 3
