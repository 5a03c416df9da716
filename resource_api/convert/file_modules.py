"""Modules of Ansible about files, as resources."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from resource_api.convert.expressions import ValueReference, no_counterpart, parse_template, written_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from resource_api.convert.module_task import ModuleTask

#: Directories that every system has.
_SYSTEM_TEXT: Final = """
    / /bin /boot /dev /etc /home /lib /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /usr/bin /usr/lib
    /usr/local /usr/local/bin /usr/local/etc /usr/local/lib /usr/local/sbin /usr/local/share /usr/local/src /usr/sbin
    /usr/share /usr/src /var /var/cache /var/lib /var/lock /var/log /var/opt /var/run /var/spool /var/tmp
    /etc/apt /etc/cron.d /etc/cron.daily /etc/default /etc/init.d /etc/security /etc/ssl /etc/systemd
    /etc/systemd/system /etc/sysctl.d /etc/apt/sources.list.d /etc/profile.d"""
_SYSTEM: Final = frozenset(_SYSTEM_TEXT.split())
_KINDS: Final = {"directory": "directory", "file": "present", "touch": "file", "link": "link", "absent": "absent"}
_CHECKSUM: Final = re.compile(r"sha256:([0-9a-fA-F]{64})\Z")


def copy(task: ModuleTask) -> None:
    """Convert `copy`."""
    task.ignore("decrypt", "checksum")
    destination, content = task.need("dest"), task.take("content")
    attributes: dict[str, object] = {"ensure": "file"}
    if content is not None:
        if isinstance(content, (dict, list)):
            no_counterpart("'content' that is no text")
        attributes["content"] = content if isinstance(content, ValueReference) else str(content)
    else:
        name = task.need("src")
        if task.flag("remote_src"):
            attributes["source"] = name
        elif isinstance(name, str) and "${" not in name:
            attributes["source"] = {"asset": {"file": task.plain_file(name, "files")}}
        else:
            no_counterpart("a file whose name is an expression")
        destination = _into(destination, name)
    _declare_file(task, destination, attributes)


def _into(destination: object, name: object) -> Any:
    """Return the path of a file that is copied into a directory, which ends with a slash."""
    if not isinstance(destination, str) or not destination.endswith("/"):
        return destination
    return destination + os.path.basename(str(name))


def _declare_file(task: ModuleTask, path: object, attributes: dict[str, object]) -> None:
    """Declare a file with the arguments that all modules for whole files have."""
    backup, force = task.flag("backup"), task.flag("force", default=True)
    attributes |= task.permissions() | task.check_command() | ({"backup": backup} if backup is not None else {})
    if force is not True:
        if force is not False:
            no_counterpart("'force' that is an expression")
        # What exists is not overwritten.
        content = "content" if "content" in attributes else "source"
        attributes["lifecycle"] = {"ignore_changes": [content]}
    if isinstance(path, str) and not path.startswith(("/", "${")):
        no_counterpart(f"the relative path '{path}'")
    task.declare("file", path, attributes)


def template(task: ModuleTask) -> None:
    """Convert `template`."""
    task.ignore("output_encoding")
    name = task.literal("src", "a template whose name is an expression")
    file = task.plain_file(name, "templates")
    tree = parse_template(task.read_text(file))
    call: dict[str, object] = {"source": {"asset": {"file": file}}}
    if variables := task.expressions.template_variables(tree):
        call["variables"] = variables
    for option, default in (("trim_blocks", True), ("lstrip_blocks", False)):
        if (value := task.flag(option, default=default)) != default:
            call[option] = value
    stem = re.sub(r"\W+", "_", os.path.basename(file).removesuffix(".j2")).strip("_")
    content = task.scope.call("template", call, stem)
    destination = _into(task.need("dest"), os.path.basename(name).removesuffix(".j2"))
    _declare_file(task, destination, {"ensure": "file", "content": content})


def file_state(task: ModuleTask) -> None:
    """Convert `file`."""
    state = task.word("state", default="file", among=tuple(_KINDS))
    path = task.path("path", "dest", "name")
    if task.switch("recurse"):
        no_counterpart("'recurse'")
    attributes: dict[str, object] = {"ensure": _KINDS[state]}
    task.ignore("modification_time", "access_time", "follow", "access_time_format", "modification_time_format")
    if state == "link":
        attributes |= {"target": task.need("src"), "force": task.flag("force")}
        task.ignore("mode", "owner", "group")
    elif state == "absent":
        attributes["force"] = True
        task.ignore("mode", "owner", "group", "force", "src")
    else:
        attributes |= task.permissions()
        task.ignore("force")
    if state == "directory" and not task.in_loop and isinstance(path, str):
        for parent in _parents(path):
            task.declare("file", parent, {"ensure": "directory"})
    task.declare("file", path, attributes)


def _parents(path: str) -> Iterator[str]:
    """Yield the directories above a path that may be missing, as Ansible makes them too."""
    parents: list[str] = []
    parent = path.rpartition("/")[0]
    while "/" in parent and parent not in _SYSTEM and not parent.startswith("/home/"):
        parents.append(parent)
        parent = parent.rpartition("/")[0]
    yield from reversed(parents)


def line_in_file(task: ModuleTask) -> None:
    """Convert `lineinfile`."""
    path, state = task.path("path", "dest", "destfile", "name"), task.ensure()
    match, line = task.take("regexp", "regex"), task.take("line", "value")
    if task.switch("backrefs"):
        no_counterpart("'backrefs'")
    if task.take("firstmatch"):
        no_counterpart("'firstmatch'")
    if (text := task.take("search_string")) is not None:
        match = re.escape(str(text))
    task.ignore("backup")
    _declare_edited_file(task, path)
    attributes = {"ensure": state, "path": path, "match": match, "line": line, **_insertion(task)}
    if state == "absent" and match is not None:
        attributes["line"] = None
    elif line is None:
        no_counterpart("a line without a text")
    task.named(
        "file_line", f"line in {written_text(path)}: {written_text(match or line)}", attributes | task.check_command()
    )


def _insertion(task: ModuleTask) -> dict[str, Any]:
    """Return the position of a new line or block as attributes."""
    after, before = task.take("insertafter"), task.take("insertbefore")
    attributes = {} if after is None or after == "EOF" else {"after": after}
    if after == "BOF":
        no_counterpart("'insertafter: BOF'")
    return attributes if before is None else {**attributes, "insertbefore": before}


def _declare_edited_file(task: ModuleTask, path: object) -> None:
    """Declare the file that is edited, where the task creates it or sets its permissions.

    In a loop it would be declared for each element: `create` alone then declares nothing, because a `file_line` and a
    `block_in_file` make a missing file. Raise ``Unconvertible`` for permissions.
    """
    permissions = task.permissions()
    creates = task.switch("create")
    if permissions or creates:
        if not task.in_loop:
            task.declare("file", path, {"ensure": "file" if creates else "present", **permissions})
        elif permissions:
            no_counterpart("permissions in a loop about one file")


def block_in_file(task: ModuleTask) -> None:
    """Convert `blockinfile`."""
    path, state = task.path("path", "dest", "destfile", "name"), task.ensure()
    block = task.take("block", "content", default="")
    marker = task.take("marker", default="# {mark} ANSIBLE MANAGED BLOCK")
    if task.take("marker_begin", default="BEGIN") != "BEGIN" or task.take("marker_end", default="END") != "END":
        no_counterpart("'marker_begin' and 'marker_end'")
    if task.switch("append_newline") or task.switch("prepend_newline"):
        no_counterpart("an empty line beside a block")
    task.ignore("backup")
    _declare_edited_file(task, path)
    if block == "":
        state = "absent"
    attributes = {"ensure": state, "path": path, "marker": marker, "block": block if state == "present" else None}
    name = task.task.name or str(path)
    attributes |= {"name": name if isinstance(name, str) else None, **_insertion(task), **task.check_command()}
    task.named("block_in_file", f"block in {written_text(path)}", attributes)


def ini_file(task: ModuleTask) -> None:
    """Convert `ini_file`."""
    path, state = task.path("path", "dest"), task.ensure()
    section, setting = task.take("section", default=""), task.need("option")
    value = task.take("value")
    if task.switch("allow_no_value") or not task.switch("exclusive", default=True):
        no_counterpart("a setting without a value, or with more than one")
    task.ignore("backup", "modify_inactive_option")
    separator = "=" if task.switch("no_extra_spaces") else None
    if task.switch("ignore_spaces"):
        no_counterpart("'ignore_spaces'")
    creates = task.switch("create", default=True)
    permissions = task.permissions()
    if permissions and task.in_loop:
        no_counterpart("permissions in a loop about one file")
    if permissions and creates:  # without permissions, the `ini_setting` makes a missing file
        task.declare("file", path, {"ensure": "file", **permissions})
    attributes = {"ensure": state, "path": path, "section": section, "setting": setting}
    attributes |= {"value": value if state == "present" else None, "key_val_separator": separator}
    task.named("ini_setting", f"{written_text(section)} {written_text(setting)} of {written_text(path)}", attributes)


def get_url(task: ModuleTask) -> None:
    """Convert `get_url` of a file with a SHA-256."""
    url = task.literal("url", "a URL that is an expression")
    match = _CHECKSUM.match(str(task.take("checksum", default="")))
    if match is None:
        no_counterpart("a download without a SHA-256")
    task.ignore("force", "timeout", "tmp_dest", "backup")
    asset = {"asset": {"url": url, "sha256": match[1].lower()}}
    path = _into(task.need("dest"), url)
    task.declare("file", path, {"ensure": "file", "source": asset, **task.permissions()})


def unarchive(task: ModuleTask) -> None:
    """Convert `unarchive` of an archive beside the playbook."""
    refusal = "an archive of the machine or of a URL"
    name = task.literal("src", refusal)
    if task.switch("remote_src"):
        no_counterpart(refusal)
    task.ignore("copy", "keep_newer")
    file = task.plain_file(name, "files")
    attributes = {"source": {"archive": {"file": file}}, **task.permissions()}
    task.declare("archive", task.path("dest"), attributes)


MODULES: Final[Mapping[str, Any]] = {
    "copy": copy,
    "template": template,
    "file": file_state,
    "lineinfile": line_in_file,
    "blockinfile": block_in_file,
    "ini_file": ini_file,
    "get_url": get_url,
    "unarchive": unarchive,
}
