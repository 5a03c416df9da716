"""Modules of Ansible as resources: about files, packages, accounts, services, settings of the system, commands."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from resource_api.convert.expressions import ValueReference, no_counterpart, parse_template, written, written_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from resource_api.convert.module_task import ModuleTask

#: Directories that every system has.
_SYSTEM_TEXT: Final = """
    / /bin /boot /dev /etc /home /lib /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /usr/bin /usr/lib
    /usr/local /usr/local/bin /usr/local/etc /usr/local/lib /usr/local/sbin /usr/local/share /usr/local/src /usr/sbin
    /usr/share /usr/src /var /var/cache /var/lib /var/lock /var/log /var/opt /var/run /var/spool /var/tmp
    /etc/apt /etc/cron.d /etc/cron.daily /etc/default /etc/init.d /etc/security /etc/ssl /etc/systemd
    /etc/systemd/system /etc/sysctl.d /etc/apt/sources.list.d /etc/profile.d"""
_SYSTEM: Final = frozenset(_SYSTEM_TEXT.split())
#: State of `file` → `ensure`; the module's ``file`` changes an existing one, and its ``touch`` makes it.
_KINDS: Final = {"directory": "directory", "file": "present", "touch": "file", "link": "link", "absent": "absent"}
_CHECKSUM: Final = re.compile(r"sha256:([0-9a-fA-F]{64})\Z")
#: State of a package in Ansible → `ensure`.
_STATES: Final = {
    "present": "present",
    "installed": "present",
    "latest": "latest",
    "absent": "absent",
    "removed": "absent",
}
#: A name with a version, both perhaps with references.
_VERSIONED: Final = re.compile(r"((?:\$\{[^}]*\}|[A-Za-z0-9.+_-])+)(==?)((?:\$\{[^}]*\}|[A-Za-z0-9.+:~!_-])+)\Z")
#: A line of ``authorized_keys``.
_KEY: Final = re.compile(
    r"(?:(?P<options>\S.*?)\s+)?(?P<type>(?:ssh|ecdsa|sk)-\S+)\s+(?P<key>\S+)(?:\s+(?P<comment>.*))?\Z"
)
#: A number in text: of more digits Python makes none.
_DIGITS: Final = re.compile(r"[0-9]{1,18}\Z")
#: An option of a key, with a value in quotes that may hold commas.
_OPTION: Final = re.compile(r'(?:[^",]|"(?:\\.|[^"\\])*")+')


def copy(task: ModuleTask) -> None:
    """Convert `copy` to a `file` with a text, an asset beside the playbook, or a file of the machine."""
    task.ignore("decrypt", "checksum")
    destination, content = task.need("dest"), task.take("content")
    attributes: dict[str, object] = {"ensure": "file"}
    if content is not None:
        if isinstance(content, (dict, list)):
            no_counterpart("'content' that is no text")
        attributes["content"] = content if isinstance(content, ValueReference) else str(content)
    else:
        name = task.need("src")
        if task.switch("remote_src"):
            attributes["source"] = name
        elif isinstance(name, str) and "${" not in name:
            attributes["source"] = {"asset": {"file": task.plain_file(name, "files")}}
        else:
            no_counterpart("a file whose name is an expression")
        destination = _into(task, destination, name)
    _declare_file(task, destination, attributes)


def _into(task: ModuleTask, destination: object, name: object) -> Any:
    """Return the path to which a file is copied; a ``destination`` with a slash at its end is a directory for it."""
    if not isinstance(destination, str) or not destination.endswith("/"):
        return destination
    base = os.path.basename(str(name))
    return f"{destination}{task.scope.call('std.basename', {'path': name}, 'basename') if '${' in base else base}"


def _declare_file(task: ModuleTask, path: object, attributes: dict[str, object]) -> None:
    """Declare a file for `copy` or `template`, with the arguments that both have, such as permissions and ``force``.

    ``attributes``: those of the file's content.
    """
    backup, force = task.flag("backup"), task.flag("force", default=True)
    attributes |= task.permissions() | task.check_command() | ({"backup": backup} if backup is not None else {})
    if force is not True:
        if force is not False:
            no_counterpart("'force' that is an expression")
        # Without `force` Ansible writes only a missing file: a later difference of the content is ignored.
        content = "content" if "content" in attributes else "source"
        attributes["lifecycle"] = {"ignore_changes": [content]}
    if isinstance(path, str) and not path.startswith(("/", "${")):
        no_counterpart(f"the relative path '{path}'")
    task.declare("file", path, attributes)


def template(task: ModuleTask) -> None:
    """Convert `template` to a `file` whose content is rendered by a call of the function `template`.

    The template stays a file beside the playbook; the call passes the variables that it uses, as it sees no others.
    """
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
    destination = _into(task, task.need("dest"), os.path.basename(name).removesuffix(".j2"))
    _declare_file(task, destination, {"ensure": "file", "content": content})


def file_state(task: ModuleTask) -> None:
    """Convert `file`, and declare the directories above a directory, which Ansible makes too."""
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
    """Yield the directories above a path, outermost first: Ansible makes them too, a manifest has to declare them.

    Those of every system and of users' homes are left out: their owner and mode are not declared by the task.
    """
    parents: list[str] = []
    parent = path.rpartition("/")[0]
    while "/" in parent and parent not in _SYSTEM and not parent.startswith("/home/"):
        parents.append(parent)
        parent = parent.rpartition("/")[0]
    yield from reversed(parents)


def line_in_file(task: ModuleTask) -> None:
    """Convert `lineinfile` to a `file_line`, and to the file itself if the task makes it."""
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
    if state == "absent" and match is not None:  # all lines that match are removed, whatever ``line`` is
        attributes["line"] = None
    elif line is None:
        no_counterpart("a line without a text")
    name = f"line in {written_text(path)}: {written_text(match or line)}"
    task.named("file_line", name, attributes | task.check_command())


def _insertion(task: ModuleTask) -> dict[str, Any]:
    """Return Ansible's ``insertafter`` and ``insertbefore`` as the attributes `after` and `insertbefore`."""
    after, before = task.take("insertafter"), task.take("insertbefore")
    attributes = {} if after is None or after == "EOF" else {"after": after}
    if after == "BOF":
        no_counterpart("'insertafter: BOF'")
    return attributes if before is None else {**attributes, "insertbefore": before}


def _declare_edited_file(task: ModuleTask, path: object) -> None:
    """Declare the file that is edited, if the task creates it or sets its permissions.

    In a loop it would be declared for each element: `create` alone then declares nothing, because a `file_line` and a
    `block_in_file` make a missing file. Raise ``Unconvertible`` for permissions in a loop.
    """
    permissions = task.permissions()
    creates = task.switch("create")
    if permissions or creates:
        if not task.in_loop:
            task.declare("file", path, {"ensure": "file" if creates else "present", **permissions})
        elif permissions:
            no_counterpart("permissions in a loop about one file")


def block_in_file(task: ModuleTask) -> None:
    """Convert `blockinfile` to a `block_in_file`, which is removed if the block is empty, as in Ansible."""
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
    """Convert `ini_file` to an `ini_setting`, and to the file itself if the task sets its permissions."""
    path, state = task.path("path", "dest"), task.ensure()
    section, setting = task.take("section", default=""), task.need("option")
    if isinstance(value := task.take("value"), bool):
        value = str(value)  # as Ansible writes it
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
    """Convert `get_url` with a SHA-256 as its checksum to a `file`; a manifest downloads nothing without one."""
    url = task.literal("url", "a URL that is an expression")
    match = _CHECKSUM.match(str(task.take("checksum", default="")))
    if match is None:
        no_counterpart("a download without a SHA-256")
    task.ignore("force", "timeout", "tmp_dest", "backup")
    asset = {"asset": {"url": url, "sha256": match[1].lower()}}
    path = _into(task, task.need("dest"), re.split("[?#]", url)[0])
    task.declare("file", path, {"ensure": "file", "source": asset, **task.permissions()})


def unarchive(task: ModuleTask) -> None:
    """Convert `unarchive` of an archive beside the playbook to an `archive`.

    One of the machine or of a URL has no counterpart: a manifest needs its SHA-256, which the task does not have.
    """
    refusal = "an archive of the machine or of a URL"
    name = task.literal("src", refusal)
    if task.switch("remote_src"):
        no_counterpart(refusal)
    task.ignore("copy", "keep_newer")
    file = task.plain_file(name, "files")
    attributes = {"source": {"archive": {"file": file}}, **task.permissions()}
    task.declare("archive", task.path("dest"), attributes)


def package(task: ModuleTask) -> None:
    """Convert `apt`, `dnf`, `yum` and `package` to a `package` for each name, and the update of the lists."""
    state = _STATES[task.word("state", default="present", among=tuple(_STATES))]
    names = task.items("name", "pkg", "package")
    task.ignore("force_apt_get", "update_cache_retries", "update_cache_retry_max_delay", "use", "lock_timeout")
    task.ignore("install_weak_deps", "allowerasing")
    _update_lists(task)
    options = []
    if task.flag("install_recommends", default=True) is False:
        options.append("--no-install-recommends")
    if (release := task.take("default_release")) is not None:
        options.append(f"--target-release={release}")
    attributes = {"ensure": state, "purge": task.flag("purge"), "install_options": options or None}
    if names is None:  # a task that only updates the lists has declared that already
        if task.take("upgrade") or task.take("deb") or not task.declarations:
            no_counterpart("a task without names of packages")
        return
    _declare_names(task, "package", names, attributes)


def _declare_names(
    task: ModuleTask, type_name: str, names: list[object] | ValueReference, attributes: dict[str, object]
) -> None:
    """Declare a resource for each name, or one with `for_each` if the names are a reference to a list.

    ``NAME=VERSION`` becomes `ensure: VERSION`; all names have the same other ``attributes``. Raise ``Unconvertible``
    for another form of a version; for a list within a loop, as a resource has one `for_each` only; and for a list that
    is secret or known too late for the titles.
    """
    if isinstance(names, ValueReference) and names.path.startswith("each."):  # one element, which is a name
        names = [names]
    if isinstance(names, ValueReference):
        if task.in_loop:
            no_counterpart("a list within a loop")
        task.scope.names.check_collection(names)
        task.scope.names.repeat_over(names)
        task.declare(type_name, ValueReference("each.key"), {**attributes, "for_each": names})
        return
    for name in names:
        plain, ensure = _with_version(name, attributes["ensure"])
        if isinstance(plain, str) and "=" in plain:
            no_counterpart(f"the version in '{plain}'")
        task.declare(type_name, plain, {**attributes, "ensure": ensure})


def _with_version(name: object, ensure: object) -> tuple[Any, Any]:
    """Return the name of a package and its `ensure`: for ``NAME=VERSION`` or ``NAME==VERSION`` the version.

    A removal, and a name without a version, keep the ``ensure`` of the task.
    """
    match = _VERSIONED.match(name) if isinstance(name, str) else None
    if match is None:
        return name, ensure
    return match[1], ensure if ensure == "absent" else match[3]


def _update_lists(task: ModuleTask) -> None:
    """Declare an `exec` of ``apt-get update`` for newer package lists, for which there is no type.

    With `cache_valid_time` a guard keeps it from running while the lists are young enough.
    """
    age = task.take("cache_valid_time")
    updates = task.switch("update_cache", default=age is not None)
    if not updates or task.task.short not in {"apt", "package"}:
        return
    attributes: dict[str, object] = {"command": "apt-get update"}
    if age is not None:
        if not isinstance(seconds := _number(age), int):
            no_counterpart("'cache_valid_time'")
        minutes = max(seconds // 60, 1)
        # `find` prints the directory if it is newer, and succeeds in any case.
        attributes |= {"unless": f"find /var/lib/apt/lists -maxdepth 0 -mmin -{minutes} | grep -q .", "shell": True}
    task.declare("exec", "apt-get update", attributes)


def dpkg_selections(task: ModuleTask) -> None:
    """Convert `dpkg_selections` to the mark of a `package`."""
    selection = task.word("selection", among=("hold", "install"))
    task.declare("package", task.need("name"), {"mark": "hold" if selection == "hold" else "none"})


def pip(task: ModuleTask) -> None:
    """Convert `pip` in a virtual environment: to the environment, and a `python_package` for each name."""
    environment, names = task.take("virtualenv"), task.items("name")
    if environment is None or names is None:
        no_counterpart("pip without 'virtualenv' or 'name'")
    state = _STATES[task.word("state", default="present", among=tuple(_STATES))]
    python = task.take("virtualenv_python")
    task.ignore("virtualenv_command", "virtualenv_site_packages")
    options = str(task.take("extra_args", default="")).split() or None
    if task.scope.names.has_secret([names, options]):
        no_counterpart("a secret in an argument of pip")
    if not task.in_loop:  # which would declare it for each element
        if python is not None and not str(python).startswith("/"):
            python = f"/usr/bin/{python}"
        task.declare("python_venv", environment, {"python": python, "owner": task.user})
    if isinstance(names, ValueReference):
        no_counterpart("a list of Python packages that is an expression")
    for name in names or ():
        plain, ensure = _with_version(name, state)
        attributes = {"ensure": ensure, "virtualenv": environment, "install_options": options}
        title = f"{written_text(plain)} {written_text(environment)}"
        task.declare("python_package", title, {**attributes, "name": plain})


def deb822_repository(task: ModuleTask) -> None:
    """Convert `deb822_repository` to an `apt_source`, whose attributes have the names of the module's arguments."""
    attributes: dict[str, object] = {"ensure": task.ensure()}
    for name in ("types", "uris", "suites", "components", "architectures"):
        attributes[name] = task.items(name)
    attributes |= {"signed_by": task.take("signed_by"), "enabled": task.flag("enabled")}
    task.declare("apt_source", task.need("name"), attributes)


def user(task: ModuleTask) -> None:
    """Convert `user` to a `user`; for a removal only the argument `remove` matters.

    A home is made by default, as in Ansible, and with `append` other groups of the user stay. With ``update_password:
    on_create`` a later change of the password is ignored.
    """
    name, state = task.need("name", "user"), task.ensure()
    if state == "absent":
        task.ignore(*task.arguments)
        task.declare("user", name, {"ensure": "absent", "managehome": task.flag("remove")})
        return
    groups = task.items("groups")
    attributes: dict[str, object] = {"ensure": "present", "uid": _number(task.take("uid")), "gid": task.take("group")}
    attributes |= {"groups": groups, "comment": task.take("comment"), "home": task.take("home")}
    attributes |= {"shell": task.take("shell"), "password": task.take("password"), "system": task.flag("system")}
    if groups is not None and task.switch("append"):
        attributes["membership"] = "minimum"
    creates_home = task.flag("create_home", "createhome", default=True)
    attributes["managehome"] = creates_home or None  # without the attribute, the type makes no home
    task.ignore("append", "move_home", "non_unique", "remove", "force")
    if task.word("update_password", default="always") == "on_create":
        attributes["lifecycle"] = {"ignore_changes": ["password"]}
    if task.switch("password_lock"):
        no_counterpart("'password_lock'")
    task.declare("user", name, attributes)


def group(task: ModuleTask) -> None:
    """Convert `group` to a `group`, whose attributes have the names of the module's arguments."""
    attributes: dict[str, object] = {"ensure": task.ensure()}
    attributes |= {"gid": _number(task.take("gid")), "system": task.flag("system")}
    task.declare("group", task.need("name"), attributes)


def authorized_key(task: ModuleTask) -> None:
    """Convert `authorized_key` to an `ssh_authorized_key` for each line of its keys.

    The lines must be literal, because each is split into options, type, key and comment. A key without a comment is
    named after its user and last characters, so that two keys have different titles.
    """
    name, state = task.need("user"), task.ensure()
    if task.switch("exclusive"):
        no_counterpart("'exclusive'")
    task.ignore("manage_dir", "validate_certs")
    path, options = task.take("path"), task.take("key_options")
    text, comment = task.need("key"), task.take("comment")
    lines = [line.strip() for line in text.splitlines()] if isinstance(text, str) else []
    keys = [key for key in map(_KEY.match, lines) if key is not None and not key[0].startswith("#")]
    if not keys or any("${" in key[0] for key in keys):
        no_counterpart("a key that is not literal")
    for key in keys:
        label = comment or key["comment"] or f"{name} {key['key'][-12:]}"
        all_options = ",".join(filter(None, (key["options"], options)))
        attributes = {"ensure": state, "name": label, "user": name, "type": key["type"], "key": key["key"]}
        attributes |= {"options": _OPTION.findall(all_options) or None, "target": path}
        task.declare("ssh_authorized_key", f"{label} of {written_text(name)}", attributes)


def service_and_state(task: ModuleTask) -> tuple[Any, str]:
    """Return the name (or None) and the state (or "") of the service of a task or handler, which both must read.

    Arguments such as ``daemon_reload`` are ignored: a provider reloads changed units by itself.
    """
    if task.word("scope", default="system") != "system":
        no_counterpart("a service of a user")
    task.ignore("daemon_reload", "daemon_reexec", "use", "no_block", "sleep", "pattern", "arguments", "args")
    return task.take("name", "service", "unit"), task.word("state", default="")


def service(task: ModuleTask) -> None:
    """Convert `service` and `systemd` to a `service`; a restart or reload becomes an `exec` of every run."""
    name, state = service_and_state(task)
    if name is None:
        # A provider reloads the units by itself, where they changed.
        return
    enable = task.flag("enabled")
    if (masked := task.flag("masked")) is True:
        enable = "mask"
    elif masked is not None and masked is not False:
        no_counterpart("'masked' that is an expression")
    states = {"": None, "started": "running", "stopped": "stopped", "restarted": None, "reloaded": None}
    if state not in states:
        no_counterpart(f"'state: {state}'")
    if state in {"restarted", "reloaded"}:
        if enable is not None:
            task.declare("service", name, {"enable": enable})
        action = state.removesuffix("ed")
        task.declare("exec", f"{action} {written_text(name)}", {"command": f"systemctl {action} {written_text(name)}"})
        return
    task.declare("service", name, {"ensure": states[state], "enable": enable})


def cron(task: ModuleTask) -> None:
    """Convert `cron` to a `cron` of the task's user; for a removal only the job's name and user matter."""
    if task.take("cron_file") is not None or task.switch("env") or task.switch("disabled"):
        no_counterpart("'cron_file', 'env' or 'disabled'")
    task.ignore("backup")
    state = task.ensure()
    attributes: dict[str, object] = {"ensure": state, "user": task.take("user", default=task.user)}
    if state == "present":
        attributes["command"] = task.need("job", "value")
        fields = {"minute": "minute", "hour": "hour", "day": "monthday", "dom": "monthday", "month": "month"}
        for argument, field in {**fields, "weekday": "weekday", "dow": "weekday"}.items():
            value = task.take(argument)
            if value is not None and value != "*":
                attributes[field] = str(value) if isinstance(value, int) else value
        attributes["special"] = task.take("special_time")
    else:
        task.ignore(*task.arguments)
    task.declare("cron", task.need("name"), attributes)


def git(task: ModuleTask) -> None:
    """Convert `git` to a `git_checkout` by the task's user; without `update` it is cloned, and never updated.

    A secret in its arguments, such as one in the URL, is refused: the list of processes would show it.
    """
    attributes: dict[str, object] = {"source": task.need("repo", "name"), "revision": task.take("version")}
    if task.scope.names.has_secret(attributes):
        no_counterpart("a secret in an argument of git")
    if attributes["revision"] == "HEAD":
        attributes["revision"] = None
    attributes |= {"user": task.user, "depth": task.take("depth"), "force": task.flag("force") or None}
    attributes |= {"submodules": task.flag("recursive"), "identity": task.take("key_file")}
    if not task.switch("update", default=True):
        attributes["lifecycle"] = {"ignore_changes": ["revision"]}
    task.ignore("accept_hostkey", "accept_newhostkey", "track_submodules", "single_branch")
    task.declare("git_checkout", task.path("dest"), attributes)


def sysctl(task: ModuleTask) -> None:
    """Convert `sysctl` to a `sysctl`.

    A task that neither reloads the file nor sets the value in the kernel becomes `apply: false`: only the file changes.
    """
    state, name = task.ensure(), task.need("name", "key")
    target = task.take("sysctl_file", default="/etc/sysctl.conf")
    applies = task.switch("reload", default=True) or task.switch("sysctl_set")
    task.ignore("ignoreerrors", "sysctl_set")
    value = task.take("value", "val")
    attributes = {"ensure": state, "name": name, "target": target, "apply": None if applies else False}
    task.declare("sysctl", name, {**attributes, "value": value if state == "present" else None})


def mount(task: ModuleTask) -> None:
    """Convert `mount` to a `mount` with the same states; those of every run, like `remounted`, have no counterpart."""
    state = task.word("state", among=("mounted", "present", "unmounted", "absent"))
    attributes = {"ensure": state, "device": task.take("src"), "fstype": task.take("fstype")}
    attributes |= {"options": task.take("opts"), "dump": _number(task.take("dump"))}
    attributes["pass"] = _number(task.take("passno"))
    task.ignore("backup")
    task.declare("mount", task.path("path", "name"), attributes)


def _number(value: object) -> Any:
    """Return the number of a text of digits, and any other value as it is."""
    return int(value) if isinstance(value, str) and _DIGITS.match(value) else value


def hostname(task: ModuleTask) -> None:
    """Convert `hostname` to the one resource of the type `hostname`; Ansible's method (`use`) does not matter."""
    task.ignore("use")
    task.declare("hostname", "system", {"hostname": task.need("name")})


def timezone(task: ModuleTask) -> None:
    """Convert `timezone` to the one resource of the type `timezone`; the hardware clock has no attribute."""
    task.declare("timezone", "system", {"zone": task.need("name")})


def locale_gen(task: ModuleTask) -> None:
    """Convert `locale_gen` to a `locale` for each name."""
    state = task.ensure()
    _declare_names(task, "locale", task.items("name") or [], {"ensure": state})


def alternatives(task: ModuleTask) -> None:
    """Convert `alternatives` to an `alternatives` if the task only selects a path: a new choice has no counterpart."""
    task.declare("alternatives", task.need("name"), {"path": task.need("path")})


def debug(task: ModuleTask) -> None:
    """Convert `debug` to a `notify`, whose message may be a variable with its value."""
    task.ignore("verbosity")
    message = task.take("msg", default="Hello world!")
    if (name := task.take("var")) is not None:
        value = task.expressions.value(f"{{{{ {name} }}}}")
        is_text = task.scope.class_of(value) is str
        message = f"{name}: {value if is_text else task.scope.call('std.to_json', {'value': value}, 'json')}"
    task.named("notify", "message", {"message": message})


def wait_for(task: ModuleTask) -> None:
    """Convert `wait_for` to a `wait_for` of a path or port; to wait for a closed port has no counterpart."""
    state = task.word("state", default="started", among=("started", "present", "absent"))
    path, port = task.take("path"), task.take("port")
    if state == "absent" and port is not None:
        no_counterpart("a port that is closed")
    attributes: dict[str, object] = {"missing" if state == "absent" else "path": path, "port": _number(port)}
    attributes |= {"host": task.take("host"), "pattern": task.take("search_regex")}
    attributes["interval"] = _number(task.take("sleep"))
    attributes["timeout"] = _number(task.take("timeout", default=300))
    task.ignore("connect_timeout", "msg", "active_connection_states")
    if task.take("delay"):
        no_counterpart("'delay'")
    task.named("wait_for", f"wait for {path or port}", attributes)


def command_attributes(task: ModuleTask) -> dict[str, Any]:
    """Return the attributes of an `exec`: command, directory, user, input and guards.

    Tasks, handlers and guards share it. A secret in the command is refused, as the list of processes would show it; one
    in the input is not.
    """
    attributes = _command_line(task)
    directory, text = task.take("chdir"), task.take("stdin")
    if text is not None and task.switch("stdin_add_newline", default=True):
        text = f"{written_text(text)}\n"
    attributes |= {"cwd": directory, "input": text, "user": task.user}
    if (creates := task.take("creates")) is not None:
        attributes["creates"] = _absolute(creates, directory)
    if (removes := task.take("removes")) is not None:
        attributes["onlyif"] = [["test", "-e", _absolute(removes, directory)]]  # a guard is a list of words
    task.ignore("warn", "stdin_add_newline", "strip_empty_ends", "expand_argument_vars")
    if task.scope.names.has_secret({**attributes, "input": None}):
        no_counterpart("a secret in a command")
    return {name: value for name, value in attributes.items() if value is not None}


def _command_line(task: ModuleTask) -> dict[str, Any]:
    """Return the command of a task as attributes; a text of `shell` or `raw` is run by a shell."""
    text, words = task.take("_raw_params", "cmd"), task.take("argv")
    program = task.take("executable")
    if words is not None:
        return {"command": list(map(str, written(words))) if isinstance(words, list) else words}
    if not isinstance(text, (str, ValueReference)):
        no_counterpart("a task without a command")
    if task.task.short == "command":
        if isinstance(text, str) and "$" in text.replace("${", ""):  # ``${`` begins a reference
            no_counterpart("a variable of the environment in a command without a shell")
        return {"command": text}
    if program is not None and program != "/bin/sh":
        return {"command": [program, "-c", text]}
    return {"command": text, "shell": True}


def _absolute(path: object, directory: object) -> Any:
    """Return the path of ``creates`` or ``removes``, made absolute by the task's directory, as `exec` needs it.

    Raise ``Unconvertible`` for a pattern, and for a relative path without a directory.
    """
    if isinstance(path, str) and any(character in path for character in "*?["):
        no_counterpart(f"the pattern '{path}'")
    if not isinstance(path, str) or path.startswith(("/", "${")):
        return path
    if directory is None:
        no_counterpart(f"the relative path '{path}'")
    return f"{written_text(directory)}/{path}"


def command(task: ModuleTask) -> None:
    """Convert `command`, `shell` and `raw` to an `exec`, whose title is the command if the task has no name."""
    attributes = command_attributes(task)
    words = attributes["command"]
    name = shlex.join(map(str, words)) if isinstance(words, list) else written_text(words)
    # ``shlex`` puts quotes around a reference, and a manifest takes quotes around a title for a mistake
    if isinstance(words, list) and ("${" in name or name.startswith("'")):
        name = " ".join(map(str, words))
    task.named("exec", name, attributes)


#: Name of a module → its conversion.
MODULES: Final[Mapping[str, Callable[[ModuleTask], None]]] = {
    "copy": copy,
    "template": template,
    "file": file_state,
    "lineinfile": line_in_file,
    "blockinfile": block_in_file,
    "ini_file": ini_file,
    "get_url": get_url,
    "unarchive": unarchive,
    **dict.fromkeys(("apt", "package", "dnf", "dnf5", "yum"), package),
    "dpkg_selections": dpkg_selections,
    "pip": pip,
    "deb822_repository": deb822_repository,
    "user": user,
    "group": group,
    "authorized_key": authorized_key,
    **dict.fromkeys(("service", "systemd", "systemd_service"), service),
    "cron": cron,
    "git": git,
    "sysctl": sysctl,
    "mount": mount,
    "hostname": hostname,
    "timezone": timezone,
    "locale_gen": locale_gen,
    "alternatives": alternatives,
    "debug": debug,
    "wait_for": wait_for,
    **dict.fromkeys(("command", "shell", "raw"), command),
}
