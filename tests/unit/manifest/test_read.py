"""A manifest's files become declarations with their places, or all their problems at once."""

from __future__ import annotations

import hashlib
import json
import os
import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_api import Registry, Runtime
from resource_api.manifest import metaparameters
from resource_api.manifest import read as manifest
from resource_api.manifest.sections import SECTIONS, project_name
from resource_api.model.attribute import METAPARAMETERS, MISSING
from resource_api.model.declaration import Declaration, FilePosition, Manifest
from resource_api.model.values.document import Document
from resource_api.model.values.errors import ManifestError, Problem, UsageError
from resource_api.model.values.reference import Reference

if TYPE_CHECKING:
    from pathlib import Path

SITE = """\
project: web
inputs:
  domain: {type: String, default: example.org, docs: Public name.}
  secret: {type: "Sensitive[String]"}
  nothing: {default: null}
  bare:
defaults:
  File: {owner: root, mode: "0644", group: null, noop: true}
providers:
  other: {type: vm, version: ">=1", config: {host: a}}
values:
  port: 80
resources:
  Package[nginx]:
  File[/etc/${inputs.domain}]:
    content: |
      x
    owner: null
    tag: [Web, "a:b"]
    require: Package[nginx]
    timeout: {create: 3}
    lifecycle: {protect: true, import: x, replace_triggered_by: ["File[/a]"], owned: null}
  ssh_key[a [b]]: {noop: false, type: rsa}
  file[/plain]: {noop: null}
moved:
  - {from: "File[/old]", to: "File[/new]"}
removed: ["File[/gone]"]
outputs:
  sum: ${File[/plain].checksum}
"""

EACH = "defaults of 'File' cannot hold ${each...}; write it in the resources with for_each"
PROJECT = "project must be 1 to 100 letters, digits, '.', '_' and '-'"
MOVED = 'an item of moved must be a mapping with from and to; write {from: "Type[old]", to: "Type[new]"}'
BODY = "the attributes of a resource must be a mapping; write each on its own line as attribute: value"
ONLY_THESE = "only attributes, relationships, lifecycle, loglevel, noop, retry, tag and timeout can"
LIFECYCLE = (
    "protect, retain, owned, ignore_changes, replace, replace_on_changes, replace_triggered_by, deleted_with, aliases, "
    "import, external"
)


def write(directory: Path, **files: str) -> Path:
    """Write files (``site`` → ``site.yaml``) and return the path of the first."""
    paths = [directory / f"{name}.yaml" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return paths[0]


def problems(source: Any) -> list[Problem]:
    """Return the problems of an invalid manifest; those of metaparameters alone are reported when it is compiled."""
    try:
        result = manifest.read(source).problems
    except ManifestError as error:
        result = error.problems
    assert result
    return list(result)


def messages(source: Any) -> list[str]:
    """Return the problems as text, without the directory."""
    directory = os.path.dirname(source) + "/" if not isinstance(source, dict) else "\0"  # noqa: PTH120 - text, not a path
    return [str(problem).replace(directory, "") for problem in problems(source)]


def summary(read: Manifest) -> Any:
    """Return the contents of a manifest without positions."""
    return (
        read.project,
        [(d.type, d.title, d.attributes, d.meta) for d in read.resources],
        {name: item[:3] for name, item in read.inputs.items()},
        list(read.defaults.values()),
        ({name: provider[:4] for name, provider in read.providers.items()}, read.values, read.outputs),
        [value[:2] for value in read.moved],
        [entry.reference for entry in read.removed],
    )


def test_every_section_of_a_manifest_is_read(tmp_path: Path) -> None:
    """Each section becomes a field of the manifest."""
    read = manifest.read(write(tmp_path, site=SITE))
    assert (read.file, read.project, read.has_project) == (str(tmp_path / "site.yaml"), "web", True)
    assert {name: (item.type, item.default, item.docs) for name, item in read.inputs.items()} == {
        "domain": ("String", "example.org", "Public name."),
        "secret": ("Sensitive[String]", MISSING, ""),
        "nothing": ("Any", None, ""),
        "bare": ("Any", MISSING, ""),
    }
    assert repr(MISSING) == "MISSING"
    assert read.defaults == {read.file: {"file": {"owner": "root", "mode": "0644"}}}
    assert [provider[:4] for provider in read.providers.values()] == [("other", "vm", ">=1", {"host": "a"})]
    assert read.values == {"port": 80}
    assert read.outputs == {"sum": "${File[/plain].checksum}"}
    assert [value[:2] for value in read.moved] == [(Reference("file", "/old"), Reference("file", "/new"))]
    assert [entry.reference for entry in read.removed] == [Reference("file", "/gone")]
    package, domain, key, plain = read.resources
    assert (package.type, package.title, package.attributes, package.meta) == ("package", "nginx", {}, {})
    assert domain.reference == Reference("file", "/etc/${inputs.domain}")
    assert domain.attributes == {"content": "x\n", "owner": None}
    assert domain.meta == {
        "noop": True,
        "tag": ["Web", "a:b"],
        "require": "Package[nginx]",
        "timeout": {"create": 3},
        "lifecycle": {"protect": True, "import": "x", "replace_triggered_by": ["File[/a]"], "owned": None},
    }
    assert (key.type, key.title, key.attributes, key.meta) == ("ssh_key", "a [b]", {"type": "rsa"}, {"noop": False})
    assert (plain.attributes, plain.meta) == ({}, {})


def test_everything_has_a_position(tmp_path: Path) -> None:
    """In YAML and in JSON; the position of an inherited attribute is that of the default."""
    path = write(tmp_path, site=SITE)
    read = manifest.read(path)
    domain, plain, file = read.resources[1], read.resources[3], str(path)
    assert [resource.place().line for resource in read.resources] == [14, 15, 23, 24]
    assert domain.file == file
    assert read.place(domain) == (file, 15, 3)
    assert str(read.place(domain, "content")) == f"{file}:16:5"
    assert read.place(domain, "lifecycle", "import") == (file, 22, 32)
    assert read.place(plain, "mode") == (file, 8, 23)
    assert read.place(plain, "unheard") == (file, 24, 3)
    assert read.inputs["secret"].origin.place() == (file, 4, 3)
    assert read.inputs["domain"].origin.place("default") == (file, 3, 26)
    assert read.moved[0].origin.place("to") == (file, 26, 26)
    assert read.removed[0].origin.place() == (file, 27, 11)
    assert read.place(("outputs", "sum")) == (file, 29, 3)
    assert read.place(("values", "port")) == (file, 12, 3)
    same = tmp_path / "site.json"
    same.write_text(json.dumps(read.documents[0].data, indent=1))
    again = manifest.read(same)
    assert summary(again) == summary(read)
    lines = same.read_text().split("\n")
    for item in again.resources:
        spelt = json.dumps(str(item.reference)).lower()
        location = item.place()
        assert lines[location.line - 1][location.column - 1 :].lower().startswith(spelt)


def test_a_declaration_can_be_made_by_hand() -> None:
    """Its document may have positions or none; without a position only the file is shown."""
    document = Document({}, "site.py", b"", heads={"resources": {"File[/a]": (3, 5)}})
    declaration = Declaration("file", "/a", {"x": 1}, {}, document, "File[/a]")
    assert (declaration.file, declaration.place()) == ("site.py", ("site.py", 3, 5))
    assert str(Declaration("file", "/a", {}, {}, Document({}, "site.py", b""), "File[/a]").place("x")) == "site.py"
    assert Declaration("file", "/a", {}, {}).place() == ("", 0, 0)
    assert str(FilePosition("f", 1, 2)) == "f:1:2"


def test_a_mapping_is_a_manifest() -> None:
    """It has the same structure and no positions."""
    read = manifest.read({"resources": {"File[/a]": {"mode": ("0644",)}}, "values": {"x": 1}})
    assert (read.file, read.project, read.has_project) == ("<mapping>", "mapping", False)
    assert read.resources[0].attributes == {"mode": ["0644"]}
    assert messages({"resorces": {}}) == ["<mapping>: unknown key 'resorces'; did you mean 'resources'?"]
    assert messages({"include": ["x.yaml"]}) == ["<mapping>: include needs a file that it is relative to"]
    assert messages({"resources": {"File[/a]": {"tag": ["a"], "x": [1, {2: 3}]}}}) == [
        "<mapping>: resources.File[/a].x.1: a key must be a string"
    ]


@pytest.mark.parametrize(
    ("name", "project"), [("site.yaml", "site"), ("my.site_2-a.yml", "my.site_2-a"), ("_x.JSON", "x")]
)
def test_a_project_has_the_name_of_its_file(tmp_path: Path, name: str, project: str) -> None:
    """Characters that cannot begin a name are left out, and the project counts as not given."""
    (tmp_path / name).write_text("{}")
    read = manifest.read(tmp_path / name)
    assert (project_name(read), read.has_project) == (project, False)
    assert project_name(manifest.read({})) == "mapping"


@pytest.mark.parametrize("name", ["my site!.yml", "-.yaml", "é.yaml", "ä ö.yaml", f"{'x' * 101}.yaml"])
def test_a_file_whose_name_is_not_a_project_name_must_name_its_project(tmp_path: Path, name: str) -> None:
    """Names that were changed to fit could be equal, and two manifests would share their state."""
    (tmp_path / name).write_text("{}")
    with pytest.raises(ManifestError, match="write 'project: NAME' into it"):
        project_name(manifest.read(tmp_path / name))
    (tmp_path / name).write_text('{"project": "web"}')
    assert project_name(manifest.read(tmp_path / name)) == "web"


def test_an_empty_file_is_an_empty_manifest(tmp_path: Path) -> None:
    """Sections may be empty too."""
    assert manifest.read(write(tmp_path, site="")).resources == ()
    assert manifest.read(write(tmp_path, site="".join(f"{name}:\n" for name in SECTIONS))).resources == ()


def test_defaults_may_be_null_and_hold_escaped_text(tmp_path: Path) -> None:
    """Null declares nothing, and ``$${each.key}`` is text."""
    path = write(tmp_path, site="defaults: {File: null, Exec: {command: 'echo $${each.key}'}}")
    assert manifest.read(path).defaults[str(path)] == {"file": {}, "exec": {"command": "echo $${each.key}"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a", "1:1: a manifest is a mapping; begin with a line such as resources:"),
        ("resuorces: {}", "1:1: unknown key 'resuorces'; did you mean 'resources'?"),
        ("xyz: {}", f"1:1: unknown key 'xyz'; known are {', '.join(SECTIONS)}"),
        ("resources: []", "1:1: resources must be a mapping; write Type[title]: with its attributes beneath"),
        ("values: 1", "1:1: values must be a mapping; write name: value"),
        ("project: 1", f"1:1: {PROJECT}; write it in quotes"),
        ("project: -x", f"1:1: {PROJECT}; begin with a letter or digit"),
        ("inputs: {a.b: {}}", "1:10: 'a.b' cannot be the name of an input; use letters, digits, _ and -"),
        ("values: {a b: 1}", "1:10: 'a b' cannot be the name of a value; use letters, digits, _ and -"),
        ("inputs: {a: String}", "1:10: an input must be a mapping; write {type: String, default: ...}"),
        ("inputs: {a: {typ: x}}", "1:14: unknown key 'typ'; did you mean 'type'?"),
        ("inputs: {a: {type: [x]}}", "1:14: type of an input must be a string; a data type with [...] needs quotes"),
        ("inputs: {a: {docs: 1}}", "1:14: docs of an input must be a string; write it in quotes"),
        ("providers: {a: x}", "1:13: a provider must be a mapping; write {type: vm_host, config: {...}}"),
        ("defaults: {'File[x]': {}}", "1:12: 'File[x]' is not the name of a type; write File, without [...]"),
        ("defaults: {File: {}, file: {}}", "1:22: defaults of 'file' are given twice"),
        ("defaults: {File: {mode: '${each.key}'}}", f"1:12: {EACH}"),
        ("defaults: {File: x}", "1:12: defaults must be a mapping of attributes"),
        ("defaults: {File: {alias: x}}", "1:19: alias cannot be a default: it names one resource"),
        ("defaults: {File: {noop: 3}}", "1:19: noop must be true or false"),
        ("moved: {}", "1:1: moved must be a list"),
        ("moved: [{from: a}]", f"1:9: {MOVED}"),
        ("moved: [{from: 'A[a]', to: 'A[b]', x: 1}]", "1:36: unknown key 'x'; known are from, to"),
        ("moved: [{from: a, to: 'A[b]'}]", "1:10: 'a' is not a reference; write Type[title]"),
        ("removed: [1]", "1:11: this must be a reference such as File[/etc/motd]"),
        ("removed: [File]", "1:11: 'File' is not a reference; write Type[title]"),
        ("resources: {nginx: }", "1:13: 'nginx' is not a reference; write Type[title]"),
        ("resources: {'': }", "1:13: '' is not a reference; write Type[title]"),
        ("resources: {'File[]': }", "1:13: 'File[]' has an empty title"),
        ("resources: {'9[a]': }", "1:13: '9' is not the name of a type"),
        ("resources:\n  File['/a']:", "2:3: quotes are no part of a title; write File[/a]"),
        ("resources:\n  File[/b]:\n  File['/a']:", "3:3: quotes are no part of a title; write File[/a]"),
        ("resources:\n  File[/a]: x", f"2:3: File[/a]: {BODY}"),
        ("resources:\n  File[a]:\n  file[a]:", "3:3: File[a] is declared twice; first at site.yaml:2:3"),
        ("include: a.yaml", "1:1: include must be a list of files; write include: [other.yaml]"),
    ],
)  # fmt: skip
def test_the_fixed_structure_is_checked(tmp_path: Path, text: str, expected: str) -> None:
    """Each message has a position."""
    path = write(tmp_path, site=text)
    assert messages(path) == [f"site.yaml:{expected}"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("require: 1", "require must be a reference such as Package[nginx]"),
        ("before: ''", "before is empty"),
        ("notify: [1]", "each item of notify must be a reference such as Package[nginx]"),
        ("noop: yes", "noop must be true or false"),
        ("tag: 1", "tag must be a string that is not empty; write it in quotes"),
        ("tag: [a, '']", "each item of tag must be a string that is not empty"),
        ("tag: a b", "a tag consists of letters, digits and _ : . -, and begins with none of the last three"),
        ("tag: ['-a']", "a tag consists of letters, digits and _ : . -, and begins with none of the last three"),
        ("loglevel: warn", "loglevel must be one of debug, info, notice, warning, err; did you mean 'warning'?"),
        ("loglevel: [err]", "loglevel must be one of debug, info, notice, warning, err"),
        ("alias: {}", "alias must be a string that is not empty"),
        ("alias: '${inputs.x}'", f"alias cannot hold ${{...}}; {ONLY_THESE}"),
        ("provider: 1", "provider must be a string that is not empty; write it in quotes"),
        ("timeout: -1", "timeout must be a number of seconds, or 0 for no limit"),
        ("timeout: true", "timeout must be a number of seconds, or 0 for no limit"),
        ("timeout: {creat: 1}", "unknown key 'creat'; did you mean 'create'?"),
        ("timeout: {create: x}", "create must be a number of seconds, or 0 for no limit"),
        ("lifecycle: x", "lifecycle must be a mapping; as in lifecycle: {protect: true}"),
        ("lifecycle: {prevent_destroy: true}", "unknown key 'prevent_destroy'; did you mean 'protect'?"),
        ("lifecycle: {zzz: true}", f"unknown key 'zzz'; known are {LIFECYCLE}"),
        ("lifecycle: {protect: 1}", "protect must be true or false"),
        ("lifecycle: {retain: 1}", "retain must be true or false"),
        ("lifecycle: {owned: 1}", "owned must be true or false"),
        ("lifecycle: {external: 1}", "external must be true or false"),
        ("lifecycle: {ignore_changes: mode}", 'ignore_changes must be a list of strings; write ["mode"]'),
        ("lifecycle: {replace_on_changes: mode}", 'replace_on_changes must be a list of strings; write ["mode"]'),
        ("lifecycle: {aliases: x}", 'aliases must be a list of strings; write ["x"]'),
        ("lifecycle: {replace: always}", "replace must be one of never, delete_first, create_first"),
        ("lifecycle: {replace_triggered_by: 'A[b]'}", "replace_triggered_by must be a list of references"),
        ("lifecycle: {replace_triggered_by: [1]}",
            "each item of replace_triggered_by must be a reference such as Package[nginx]"),
        ("lifecycle: {deleted_with: 1}", "deleted_with must be a reference such as Package[nginx]"),
        ("lifecycle: {import: 0}", "import must be a string that is not empty; write it in quotes"),
    ],
)  # fmt: skip
def test_the_values_of_metaparameters_are_checked(tmp_path: Path, body: str, expected: str) -> None:
    """Each message names the resource, and the attribute in the problem."""
    path = write(tmp_path, site=f"resources:\n  File[/a]:\n    x: 1\n    {body}\n")
    result = problems(path)
    assert [(p.message + (f"; {p.hint}" if p.hint else "")) for p in result] == [expected]
    assert (result[0].reference, result[0].attribute, result[0].line) == ("File[/a]", body.partition(":")[0], 4)


@pytest.mark.parametrize(
    ("text", "line", "pasted"),
    [
        ("resources:\n  A[a]:\n    require:\n      - File[/a: b]", 4, ': write "File[/a: b]"'),
        ("resources:\n  A[a]:\n    require: File[a #b]", 3, ': write "File[a #b]"'),
        ("resources:\n  A[a]:\n    require: [[x]]", 3, ""),
        ("resources:\n  File[/a: b]", 2, ': write "File[/a: b]"'),
        ("resources:\n  File[/a: {x: 1}", 2, ""),
        ("removed:\n  - File[/a: b]", 2, ': write "File[/a: b]"'),
        ("resources:\n  A[a]:\n    require: [Package[nginx], File[/a]]", 3, ': write "Package[nginx]", "File[/a]"'),
        ("resources:\n  File[a #b]:\n    x: 1", 2, ': write "File[a #b]"'),
        ("resources:\n  File[a #b]: {}", 2, ': write "File[a #b]"'),
        ("resources:\n  A[x]: {}\n  File[a #b]: {}\n  A[c]: {}", 3, ': write "File[a #b]"'),
        ("resources:\n  A[x]: {}\n  A[y]: {before: File[a #b]}", 3, ': write "A[y]", "File[a #b]"'),
    ],
)
def test_a_reference_without_quotes_is_explained_wherever_it_occurs(
    tmp_path: Path, text: str, line: int, pasted: str
) -> None:
    """Also where it is valid YAML with another meaning."""
    (problem,) = problems(write(tmp_path, site=text))
    assert problem.line == line
    assert (
        problem.hint == f"a reference inside [...] or {{...}}, or with ': ' or ' #' in its title, needs quotes{pasted}"
    )


def test_relationships_may_hold_expressions_and_lists(tmp_path: Path) -> None:
    """Their targets are not checked while reading."""
    body = "require: ['File[${inputs.x}]', '${values.y}']\n    lifecycle: {deleted_with: 'File[${inputs.x}]'}"
    assert manifest.read(write(tmp_path, site=f"resources:\n  A[a]:\n    {body}")).resources


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    """A file that cannot be parsed does not hide the problems of others."""
    path = write(
        tmp_path,
        site="include: [bad.yaml, none.yaml, b.yaml]\nresources:\n  File[/a]: {noop: 1, tag: 1}\n  x: {}\n",
        bad="a: [",
        b="resources:\n  File[]: {}\n",
    )
    assert [text.partition(" ")[0] for text in messages(path)] == [
        "b.yaml:2:3:", "bad.yaml:1:5:", "site.yaml:1:21:", "site.yaml:3:14:", "site.yaml:3:23:", "site.yaml:4:3:",
    ]  # fmt: skip
    assert "the included file cannot be read: No such file or directory" in messages(path)[2]


def test_included_files_come_first_and_once(tmp_path: Path) -> None:
    """Nested, in cycles, under two names, JSON among YAML; defaults hold for their own file."""
    path = write(
        tmp_path,
        site="include: [a.yaml, ./a.yaml, sub/c.json, link.yaml]\n"
        "resources: {'A[site]': }\ndefaults: {A: {x: 1, noop: true}}",
        a="include: [b.yaml, site.yaml]\nresources: {'A[a]': }\nvalues: {v: 1}",
        b="include: [a.yaml]\nresources: {'A[b]': }\ndefaults: {A: {x: 2}}",
    )
    (tmp_path / "link.yaml").symlink_to("b.yaml")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.json").write_text('{"include": ["d.yml"], "resources": {"A[c]": null}}')
    (tmp_path / "sub" / "d.yml").write_text("resources: {'A[d]': }")
    read = manifest.read(path)
    assert [resource.title for resource in read.resources] == ["b", "a", "d", "c", "site"]
    assert [item.meta for item in read.resources] == [{}, {}, {}, {}, {"noop": True}]
    names = {os.path.relpath(file, tmp_path): default for file, default in read.defaults.items()}
    assert names["b.yaml"] == {"a": {"x": 2}}
    assert names["site.yaml"] == {"a": {"x": 1}}
    assert read.place(read.resources[0], "x").file == str(tmp_path / "b.yaml")
    assert read.place(("values", "v")).file == str(tmp_path / "a.yaml")
    assert read.resources[2].file == str(tmp_path / "sub" / "d.yml")


def test_a_name_in_two_files_names_both_lines(tmp_path: Path) -> None:
    """Resources, inputs, values, outputs, providers; only the first file may name the project."""
    text = "inputs: {i: }\nvalues: {v: 1}\noutputs: {o: 1}\nproviders: {p: {}}\nresources:\n  File[/a]:\n"
    path = write(tmp_path, site=text + "include: [other.yaml]", other=text + "project: x")
    assert messages(path) == [
        "other.yaml:7:1: project belongs in the first file, not in an included one",
        "site.yaml:1:10: input 'i' is given twice; first at "
        + f"{tmp_path}/other.yaml:1:10".replace(f"{tmp_path}/", ""),
        "site.yaml:2:10: value 'v' is given twice; first at other.yaml:2:10",
        "site.yaml:3:11: output 'o' is given twice; first at other.yaml:3:11",
        "site.yaml:4:13: provider 'p' is given twice; first at other.yaml:4:13",
        "site.yaml:6:3: File[/a] is declared twice; first at other.yaml:6:3",
    ]
    assert {problem.code for problem in problems(path)} == {"duplicate", "invalid"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../out.yaml", "the name leads out"),
        ("sub/../../out.yaml", "the name leads out"),
        ("/etc/x.yaml", "the name leads out"),
        ("link.yaml", "a symbolic link leads out"),
        ("dir/out.yaml", "a symbolic link leads out"),
        ("notes.txt", "an included file ends in .yaml, .yml, .json"),
        ("${inputs.x}.yaml", "an included file's name cannot hold ${...}"),
        ("", "an included file must be a name"),
        ("missing.yaml", "the included file cannot be read: No such file or directory"),
        ("pipe.yaml", "the included file cannot be read: it is not a regular file"),
        ("folder.yaml", "the included file cannot be read: it is not a regular file"),
        ("loop.yaml", "the included file cannot be read: Too many levels of symbolic links"),
    ],
)
def test_an_include_stays_beneath_its_directory(tmp_path: Path, name: str, expected: str) -> None:
    """No path or link leads out of it, and a special file does not block the run."""
    root = tmp_path / "root"
    (tmp_path / "out.yaml").write_text("values: {leaked: 1}")
    path = write(root, site=json.dumps({"include": [name]}))
    (root / "link.yaml").symlink_to(tmp_path / "out.yaml")
    (root / "dir").symlink_to(tmp_path)
    (root / "loop.yaml").symlink_to("loop.yaml")
    (root / "folder.yaml").mkdir()
    os.mkfifo(root / "pipe.yaml")
    (problem,) = problems(path)
    assert problem.message.startswith(expected)
    assert (problem.line, problem.column, problem.code) == (1, 14, "include")


def test_the_depth_of_includes_is_limited(tmp_path: Path) -> None:
    """A long chain of files is an error and does not exhaust the stack."""
    for number in range(150):
        (tmp_path / f"f{number}.yaml").write_text(f"include: [f{number + 1}.yaml]")
    assert [problem.message for problem in problems(tmp_path / "f0.yaml")] == [
        "files include each other more than 100 deep"
    ]


def test_a_file_that_cannot_be_read_is_a_problem_with_its_path(tmp_path: Path) -> None:
    """A missing file, a directory; a suffix without a reader is a usage error."""
    assert messages(tmp_path / "no.yaml") == ["no.yaml: cannot be read: No such file or directory"]
    (tmp_path / "d.yaml").mkdir()
    assert messages(tmp_path / "d.yaml") == ["d.yaml: cannot be read: it is not a regular file; it holds no manifest"]
    assert "embedded null" in problems("\0.yaml")[0].message
    for name in ("site.txt", "site", ""):
        with pytest.raises(UsageError, match=r"ends in \.yaml, \.yml, \.json"):
            manifest.read(name)


def test_declarations_are_only_read(tmp_path: Path) -> None:
    """Declarations share mappings with the document and with each other: compiling and planning change none."""
    plain = ["File[/ra/a]: &plain {ensure: absent}", "File[/ra/b]: *plain"]
    tagged = ["File[/ra/c]: &tagged {tag: [t], ensure: absent}", "File[/ra/d]: *tagged"]
    read = manifest.read(write(tmp_path, site="\n  ".join(["resources:", *plain, *tagged])))
    before = deepcopy(read.documents[0].data)
    assert Runtime(Registry.from_path()).plan(read).summary.unchanged == 4
    assert read.documents[0].data == before


def test_a_plan_can_embed_a_manifest(tmp_path: Path) -> None:
    """Its text is plain JSON and gives the same manifest again, also of several files, with the places of resources."""
    read = manifest.read(write(tmp_path, site=SITE + "include: [other.yaml]", other="defaults: {File: {mode: x}}"))
    again = manifest.from_texts(json.loads(json.dumps(read.text)))
    assert summary(again) == summary(read)
    assert (again.file, list(again.defaults)) == (read.file, list(read.defaults))
    assert again.place(again.resources[0]) == read.place(read.resources[0]) == (read.file, 14, 3)
    assert again.place(again.resources[0], "content") == (read.file, 14, 3)


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    """For one file it is its SHA-256; a change of an included file changes it."""
    path = write(tmp_path, site="include: [b.yaml]", b="{}")
    first = manifest.read(path).sha256
    (tmp_path / "b.yaml").write_text("{} ")
    assert manifest.read(path).sha256 != first
    assert manifest.read(tmp_path / "b.yaml").sha256 == hashlib.sha256(b"{} ").hexdigest()
    assert manifest.read({}).sha256 == manifest.read({}).sha256 != manifest.read({"values": {"a": 1}}).sha256


def test_every_metaparameter_has_a_check() -> None:
    """The names and the table of checks agree; only the three mappings accept an empty mapping."""
    for name in METAPARAMETERS:
        assert bool(list(metaparameters.violations(name, {}))) == (name not in {"timeout", "lifecycle", "for_each"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab[]: #${}.", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "from", "to", "type", "File[/a]", "file", "create"]), inner, max_size=3)
    ),
    max_leaves=6,
)
BODIES = st.dictionaries(st.sampled_from([*sorted(METAPARAMETERS), "mode"]), JSON, max_size=4)
MANIFESTS = st.dictionaries(st.sampled_from([*SECTIONS[2:], "project", "x"]), JSON, max_size=4) | st.fixed_dictionaries(
    {"resources": st.dictionaries(st.sampled_from(["File[/a]", "File[b]", "A['x']", "["]), BODIES, max_size=3)}
)


@given(MANIFESTS)
def test_any_data_is_a_manifest_or_a_list_of_problems(data: dict[str, Any]) -> None:
    """No data raises another exception."""
    try:
        read = manifest.read(data)
    except ManifestError:
        return
    assert summary(manifest.from_texts(read.text)) == summary(read)


def test_reading_takes_linear_time(tmp_path: Path) -> None:
    """The limits suit a busy machine; quadratic time for resources or problems would exceed them."""
    lines = "".join(f"  File[/f{n}]:\n    ensure: present\n    mode: '0644'\n    noop: 1\n" for n in range(10_000))
    path = write(tmp_path, site="resources:\n" + lines)
    begun = time.process_time()
    assert len(problems(path)) == 10_000
    path.write_text("resources:\n" + lines.replace("noop: 1", "noop: true"))
    assert len(manifest.read(path).resources) == 10_000
    assert time.process_time() - begun < 5
