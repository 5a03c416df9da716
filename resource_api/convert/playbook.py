"""The plays of a playbook: tasks in their order, with all that they inherit from blocks, roles, includes and plays.

Files with a literal name are read: roles, tasks, variables and playbooks beside it. A part that cannot be followed
becomes a task with the reason.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.convert import ansible_yaml
from resource_api.convert.ansible_yaml import Mapping, Vault
from resource_api.model.values import document
from resource_api.model.values.values import as_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: Keys of a task that are no module.
_KEYWORDS_TEXT: Final = """
    action any_errors_fatal args async become become_exe become_flags become_method become_user block always rescue
    changed_when check_mode collections connection debugger delay delegate_facts delegate_to diff environment
    failed_when ignore_errors ignore_unreachable listen local_action loop loop_control module_defaults name no_log
    notify poll port register remote_user retries run_once static tags throttle timeout until vars when"""
_KEYWORDS: Final = frozenset(_KEYWORDS_TEXT.split())
#: Keywords that tasks inherit, in place of their own; conditions, handlers, tags and the like are joined.
_INHERITED_TEXT: Final = """
    become become_user check_mode connection delegate_to environment ignore_errors no_log run_once"""
_INHERITED: Final = frozenset(_INHERITED_TEXT.split())
_INCLUDES: Final = ("include_tasks", "import_tasks", "include")
_ROLES: Final = ("include_role", "import_role")
#: Words of a free form: a text in quotes or with an expression is one.
_WORD: Final = re.compile(r"""(?:\{\{.*?\}\}|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+""")
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)
_QUOTED: Final = re.compile(r"""(["'])(.*)\1\Z""", re.DOTALL)
#: Options in the free form of a command.
_COMMAND_OPTIONS: Final = ("creates", "removes", "chdir", "executable", "stdin", "warn", "stdin_add_newline")
#: Modules whose free form is a command.
COMMANDS: Final = ("command", "shell", "raw", "script", "win_command", "win_shell", "expect")
#: The most tasks of a playbook with all that it includes.
MOST_TASKS: Final = 20_000
#: Namespaces of modules that are known by their short names.
_NAMESPACES: Final = ("ansible.builtin.", "ansible.legacy.", "ansible.posix.", "community.general.")


class Location(NamedTuple):
    """The position of a part of a playbook."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        """Return ``site.yml:12``."""
        return f"{self.file}:{self.line}"


class Loop(NamedTuple):
    """The loop of a task: its kind, such as ``with_dict``, its collection and the names of its variables."""

    kind: str
    collection: Any
    variable: str = "item"
    counter: str = ""


class Task(NamedTuple):
    """A task with its module's arguments as written, and the keywords that hold for it."""

    number: int
    module: str
    arguments: dict[str, object]
    name: str
    location: Location
    keywords: dict[str, object]
    #: The terms of `when` of the task and of all around it, as written.
    conditions: tuple[object, ...] = ()
    tags: tuple[str, ...] = ()
    loop: Loop | None = None
    #: Mappings of variables, the innermost first.
    variables: tuple[dict[str, object], ...] = ()
    #: Directories in which its files are searched.
    directories: tuple[str, ...] = ()
    #: The numbers of the tasks after whose failure it runs.
    rescues: tuple[int, ...] = ()
    #: The reason that the task cannot be converted, or "".
    problem: str = ""

    @property
    def short(self) -> str:
        """The module without a namespace whose modules are known."""
        return short_name(self.module)

    @property
    def title(self) -> str:
        """The name, or else the module."""
        return self.name or self.module


class Variable(NamedTuple):
    """A variable of a play, as written."""

    value: object
    location: Location


class Play(NamedTuple):
    """A play: its hosts, its tasks in their order, its handlers and its variables."""

    location: Location
    hosts: str
    name: str
    keywords: dict[str, object]
    tasks: list[Task]
    handlers: list[Task]
    variables: dict[str, Variable]
    #: Remarks on parts that are no tasks, by their places.
    remarks: list[tuple[Location, str]]


class _Context(NamedTuple):
    """All that the tasks of one list inherit from the play, the blocks and the includes around it."""

    file: str
    directories: tuple[str, ...]
    keywords: dict[str, Any]
    conditions: tuple[object, ...] = ()
    tags: tuple[str, ...] = ()
    variables: tuple[dict[str, object], ...] = ()
    rescues: tuple[int, ...] = ()
    #: The files that include ``file``, to find one that includes itself.
    files: tuple[str, ...] = ()


def short_name(module: str) -> str:
    """Return the name of a module without a namespace whose modules are known."""
    return next((module.removeprefix(space) for space in _NAMESPACES if module.startswith(space)), module)


def as_mapping(value: object) -> dict[str, Any]:
    """Return a mapping as it is, and an empty one for any other value, which is then ignored."""
    return value if isinstance(value, dict) else {}


def read(path: str) -> list[Play]:
    """Return the plays of a playbook. Raise ``ManifestError`` for a file that is no playbook or includes itself."""
    return list(_Reader(path).plays(path, ()))


class _Reader:
    """Reads a playbook and the files that it names."""

    def __init__(self, path: str) -> None:
        """Begin without a play; roles are beside the playbook at ``path``."""
        self._directory = os.path.dirname(path)
        #: The number of the last task: tasks are numbered through all plays.
        self._task_count = 0
        #: Of the present play: its variables, remarks and the handlers of its roles. ``_play`` empties them.
        self._variables: dict[str, Variable] = {}
        self._remarks: list[tuple[Location, str]] = []
        self._handlers: list[Task] = []
        #: The uses of the play's roles, to skip equal ones. Directory of a role → its variables for its own tasks only,
        #: because an earlier role has given the play other values of the same names.
        self._role_uses: set[str] = set()
        self._roles: dict[str, dict[str, object]] = {}
        #: Variable of a role → its source, ``defaults`` or ``vars``, which have different precedence.
        self._kinds: dict[str, str] = {}

    def plays(self, path: str, files: tuple[str, ...], imports: tuple[Mapping, ...] = ()) -> Iterator[Play]:
        """Yield the plays of a file, and of those that it imports.

        ``files``: the importing ones, outermost first, to find a file that imports itself; ``imports``: their entries
        ``import_playbook``, whose keywords such as `when` the plays inherit.
        """
        for entry in self._list_of(path, files, "a playbook is a list of plays"):
            play = self._mapping(entry, path, "a play")
            imported = next((play[key] for key in play if short_name(key) == "import_playbook"), None)
            if imported is not None:
                if not isinstance(imported, str) or "{{" in imported:
                    raise self._error(path, play, "import_playbook needs the name of a file")
                file = os.path.join(os.path.dirname(path), imported)
                yield from self.plays(file, (*files, path), (*imports, play))
                continue
            if "hosts" not in play:
                raise self._error(path, play, "this is no play: it has no 'hosts'")
            yield self._play(play, path, imports)

    def _play(self, play: Mapping, path: str, imports: Sequence[Mapping]) -> Play:
        """Read a play: first its variables, then its tasks in Ansible's order, with roles, and its handlers.

        All of them inherit from ``imports``, the entries that import its file, too. The order of variables is that of
        their precedence: later ones replace earlier ones, and those of roles are added while their tasks are read.
        """
        self._variables, self._remarks, self._handlers = {}, [], []
        self._role_uses, self._roles, self._kinds = set(), {}, {}
        location = Location(path, *play.position)
        directory = os.path.dirname(path)
        self._read_group_variables(directory)
        self._variables |= self._variables_in(play.get("vars"), path)
        self._variables |= self._prompted_variables(play, path)
        for name in as_list(play.get("vars_files")):
            self._read_variables_file(name, directory, location)
        context = _Context(path, (os.path.join(directory, "files"), directory), {})
        for entry in (*imports, play):
            context = self._inherit(context, entry)
        tasks = [*self._tasks(play.get("pre_tasks"), context)]
        for entry in as_list(play.get("roles")):
            tasks += self._role_entry(entry, context, location)
        tasks += self._tasks(play.get("tasks"), context)
        tasks += self._tasks(play.get("post_tasks"), context)
        handlers = [*self._handlers, *self._tasks(play.get("handlers"), context)]
        hosts = ",".join(map(str, as_list(play["hosts"])))
        name = play["name"] if isinstance(play.get("name"), str) else ""
        keywords = {key: play[key] for key in play if key not in {"tasks", "handlers", "roles", "vars"}}
        return Play(location, hosts, name, keywords, tasks, handlers, self._variables, self._remarks)

    def _prompted_variables(self, play: Mapping, path: str) -> dict[str, Variable]:
        """Return the variables of a play's `vars_prompt`; one that is typed unseen becomes a sensitive input."""
        variables = {}
        for entry in as_list(play.get("vars_prompt")):
            if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
                value = Vault("asked by vars_prompt") if entry.get("private", True) is True else entry.get("default")
                if value is not None:
                    variables[entry["name"]] = Variable(value, Location(path, *entry.position))
        return variables

    def _variables_in(self, data: object, path: str) -> dict[str, Variable]:
        """Return the variables in ``data``, read at ``path``; none if it is no mapping.

        An encrypted file gets a remark: its variables, whose names are unknown, become inputs where tasks use them.
        """
        if isinstance(data, Vault):
            self._remarks.append((Location(path, 1, 1), "the file is encrypted: its variables become mandatory inputs"))
        if not isinstance(data, Mapping):
            return {}
        positions = {name: data.keys_at.get(name, data.position) for name in data}
        return {name: Variable(value, Location(path, *positions[name])) for name, value in data.items()}

    def _read_group_variables(self, directory: str) -> None:
        """Add the variables of the group `all` beside a playbook: the only group to which every host belongs."""
        for name in ("all", "all.yml", "all.yaml", "all/main.yml", "all/vars.yml"):
            path = os.path.join(directory, "group_vars", name)
            if os.path.isfile(path):
                self._variables |= self._variables_in(ansible_yaml.read(path), path)

    def _read_variables_file(self, name: object, directory: str, location: Location) -> None:
        """Add the variables of a file in a play's `vars_files`, or a remark if it cannot be found."""
        path = os.path.join(directory, name) if isinstance(name, str) else ""
        if not path or "{{" in path or not os.path.isfile(path):
            remark = f"the file of variables {document.quote_key(str(name))} is not beside the playbook"
            self._remarks.append((location, remark))
            return
        self._variables |= self._variables_in(ansible_yaml.read(path), path)

    def _role_entry(self, entry: object, context: _Context, location: Location) -> list[Task]:
        """Return the tasks of an entry of `roles`; its keys that are no keywords are variables of the role."""
        if isinstance(entry, Mapping):
            location = Location(context.file, *entry.position)
            parameters = {key: value for key, value in entry.items() if key not in _KEYWORDS and key != "role"}
            name = entry.get("role", entry.get("name"))
            inner = self._inherit(context, entry)
            inner = inner._replace(variables=(parameters, *inner.variables)) if parameters else inner
        else:
            name, inner = entry, context
        return self._role(name, inner, location)

    def _role(self, name: object, context: _Context, location: Location, tasks_from: str = "main") -> list[Task]:
        """Return the tasks of a role, those of its dependencies first; add its variables and handlers to the play.

        Dependencies, variables and handlers count only at the first use in the play. An equal use is not repeated, as
        in Ansible, unless an include chooses another file of tasks by ``tasks_from``.
        """
        is_literal = isinstance(name, str) and "{{" not in name
        paths = [os.path.join(self._directory, "roles", str(name)), os.path.join(self._directory, str(name))]
        directory = next(filter(os.path.isdir, paths), "") if is_literal else ""
        if not directory:
            reason = f"the role {document.quote_key(str(name))} is not beside the playbook"
            return [self._unconvertible(f"role {name}", location, reason)]
        tasks = []
        inner = context._replace(directories=(os.path.join(directory, "files"), directory, *context.directories))
        is_first = directory not in self._roles
        if is_first:
            self._roles[directory] = {}
            tasks += self._dependencies(directory, inner)
            self._roles[directory] = self._add_role_variables(directory)
        inner = inner._replace(variables=(*inner.variables, self._roles[directory]))
        if is_first:
            self._handlers += self._tasks_of(directory, "handlers", "main", inner)
        if tasks_from != "main" or not self._is_repeated(directory, context):
            tasks += self._tasks_of(directory, "tasks", tasks_from, inner)
        return tasks

    def _is_repeated(self, directory: str, context: _Context) -> bool:
        """Return whether the play has an equal use of a role, which Ansible does not repeat; record this one."""
        use = f"{directory}\0{context.variables!r}\0{context.conditions!r}"
        is_repeated = use in self._role_uses
        self._role_uses.add(use)
        return is_repeated

    def _dependencies(self, directory: str, context: _Context) -> list[Task]:
        """Return the tasks of the roles that a role depends on. Raise ``ManifestError`` for a cycle."""
        path = _yaml_file(os.path.join(directory, "meta"), "main")
        meta = ansible_yaml.read(path) if path else None
        entries = as_list(as_mapping(meta).get("dependencies"))
        inner = context._replace(file=path, files=(*context.files, path))
        if path in context.files:
            raise document.manifest_error(path, (1, 1), "include", "this role depends on itself")
        return [task for entry in entries for task in self._role_entry(entry, inner, Location(path, 1, 1))]

    def _add_role_variables(self, directory: str) -> dict[str, object]:
        """Add the variables of a role to the play: `defaults` only where the play has none of the name, `vars` always.

        Two roles may have files of the same kind with the same name. The play keeps the value of the earlier role;
        return the values of this one, which only its own tasks then get.
        """
        hidden: dict[str, object] = {}
        for kind in ("defaults", "vars"):
            path = _yaml_file(os.path.join(directory, kind), "main")
            variables = self._variables_in(ansible_yaml.read(path), path) if path else {}
            for name, variable in variables.items():
                if self._kinds.get(name) == kind:
                    hidden[name] = variable.value
                elif name not in self._variables or kind == "vars":
                    self._variables[name], self._kinds[name] = variable, kind
        return hidden

    def _tasks_of(self, directory: str, kind: str, name: str, context: _Context) -> list[Task]:
        """Return the tasks in a file of a role's `tasks` or `handlers`; none if there is no such file."""
        path = _yaml_file(os.path.join(directory, kind), name)
        return self._included(path, context) if path else []

    def _included(self, path: str, context: _Context) -> list[Task]:
        """Return the tasks of a file. Raise ``ManifestError`` if it includes itself, or is no list."""
        files = (*context.files, context.file)
        data = self._list_of(path, files, "a file of tasks is a list of tasks")
        return list(self._tasks(data, context._replace(file=path, files=files)))

    def _tasks(self, entries: object, context: _Context) -> Iterator[Task]:
        """Yield the tasks of a list, with those of its blocks and includes."""
        if entries is not None and not isinstance(entries, list):
            raise document.manifest_error(context.file, (1, 1), "syntax", "tasks are a list")
        for entry in entries or ():
            task = self._mapping(entry, context.file, "a task")
            if "block" in task:
                yield from self._block(task, context)
                continue
            yield from self._task(task, context)

    def _block(self, block: Mapping, context: _Context) -> Iterator[Task]:
        """Yield the tasks of a block, of its `rescue` and of its `always`.

        Each task of `rescue` gets the numbers of the block's tasks, whose failure it follows.
        """
        inner = self._inherit(context, block)
        tasks = list(self._tasks(block["block"], inner))
        yield from tasks
        rescued = tuple(task.number for task in tasks)
        yield from self._tasks(block.get("rescue"), inner._replace(rescues=rescued))
        yield from self._tasks(block.get("always"), inner)

    def _task(self, task: Mapping, context: _Context) -> Iterator[Task]:
        """Yield a task with its inherited keywords; in place of an include or a role, its tasks."""
        location = Location(context.file, *task.position)
        name = task.get("name")
        inner = self._inherit(context, task)
        module, value = self._module(task, context.file)
        short, loop = short_name(module), self._loop(task)
        defaults = inner.keywords.get("module_defaults", {}).get(short, {})
        arguments = {**defaults, **self._arguments(module, value, task.get("args"))}
        title = name if isinstance(name, str) else ""
        if short in _INCLUDES + _ROLES or short == "include_vars":
            if loop is not None:
                yield self._unconvertible(title or module, location, f"a loop over {short} is not followed", module)
                return
            yield from self._follow(short, arguments, inner, location, title)
            return
        self._task_count += 1
        if self._task_count > MOST_TASKS:
            raise document.manifest_error(context.file, task.position, "limit", f"more than {MOST_TASKS} tasks")
        # ``inner`` has the task's own values, too, joined with the inherited ones
        keywords = {**{key: task[key] for key in task if key in _KEYWORDS}, **inner.keywords}
        yield Task(
            self._task_count,
            module,
            arguments,
            title,
            location,
            keywords,
            conditions=inner.conditions,
            tags=inner.tags,
            loop=loop,
            variables=inner.variables,
            directories=inner.directories,
            rescues=inner.rescues,
            problem=_problem(task),
        )

    def _follow(
        self, short: str, arguments: dict[str, object], context: _Context, location: Location, title: str
    ) -> Iterator[Task]:
        """Yield the tasks in the file or role that a task includes.

        `include_vars` yields one task, whose arguments are the file's variables: they hold for the tasks below it. For
        an include that cannot be followed, yield one task that is not converted, with the reason. ``apply`` has
        keywords for the included tasks.
        """
        context = self._inherit(context, as_mapping(arguments.get("apply")))
        if short in _ROLES:
            tasks_from = str(arguments.get("tasks_from", "main")).removesuffix(".yml")
            yield from self._role(arguments.get("name"), context, location, tasks_from)
            return
        name = arguments.get("file", arguments.get("_raw_params"))
        if not (path := _file_beside(context.file, name)):
            reason = f"the file {document.quote_key(str(name))} is not beside the playbook"
            yield self._unconvertible(title or short, location, reason, short)
        elif short != "include_vars":
            yield from self._included(path, context)
        elif arguments.get("name") or context.conditions:
            reason = "include_vars with 'name', or under a condition, is not followed"
            yield self._unconvertible(title or short, location, reason, short)
        else:
            self._task_count += 1
            variables: dict[str, Any] = self._variables_in(ansible_yaml.read(path), path)
            yield Task(self._task_count, short, variables, title, location, {})

    def _unconvertible(self, title: str, location: Location, reason: str, module: str = "") -> Task:
        """Return a task in place of a part that cannot be followed, with the reason."""
        self._task_count += 1
        return Task(self._task_count, module, {}, title, location, {}, problem=reason)

    def _module(self, task: Mapping, file: str) -> tuple[str, Any]:
        """Return the name of a task's module, and its arguments as written.

        The module is the only key that is no keyword, or the value of `action` in the older form ``action: copy src=a
        dest=b``. Raise ``ManifestError`` for a task without a module, or with two.
        """
        names = [key for key in task if key not in _KEYWORDS and not key.startswith("with_")]
        for key in ("action", "local_action"):
            value = task.get(key)
            if isinstance(value, str):
                module, _, rest = value.partition(" ")
                return module, rest
            if isinstance(value, Mapping) and isinstance(value.get("module"), str):
                return value["module"], {name: part for name, part in value.items() if name != "module"}
        if len(names) != 1:
            modules = " and ".join(map(document.quote_key, names[:3]))
            message = f"a task has one module, this one has {modules}" if names else "this task has no module"
            raise self._error(file, task, message)
        return names[0], task[names[0]]

    def _arguments(self, module: str, value: object, options: object) -> dict[str, Any]:
        """Return a module's arguments, from a mapping or its free form (``src=a dest=b``).

        ``options``: the task's ``args``, which have lower precedence. A text with the tag ``!unsafe`` (``Raw``) is not
        read as the free form.
        """
        if isinstance(value, dict):
            arguments = dict(value)
        elif isinstance(value, str) and not isinstance(value, ansible_yaml.Raw):
            arguments = _command_form(value) if short_name(module) in COMMANDS else _free_form(value)
        else:
            arguments = {} if value is None else {"_raw_params": value}
        return {**as_mapping(options), **arguments}

    def _loop(self, task: Mapping) -> Loop | None:
        """Return the loop of a task, or None."""
        control = as_mapping(task.get("loop_control"))
        variable, index = str(control.get("loop_var", "item")), str(control.get("index_var", ""))
        kind = next((key for key in task if key == "loop" or key.startswith("with_")), "")
        return Loop(kind, task[kind], variable, index) if kind else None

    def _inherit(self, context: _Context, entry: dict[str, Any]) -> _Context:
        """Return the context of the tasks inside a play, block, include or role; for a task, its own.

        As in Ansible, conditions, tags, notifications, environment variables and defaults of modules are added to the
        inherited ones; other keywords replace them.
        """
        keywords = dict(context.keywords)
        keywords |= {key: entry[key] for key in _INHERITED if key in entry}
        if "notify" in entry:
            keywords["notify"] = [*as_list(context.keywords.get("notify")), *as_list(entry["notify"])]
        if isinstance(environment := entry.get("environment"), dict):
            keywords["environment"] = {**as_mapping(context.keywords.get("environment")), **environment}
        for name, options in as_mapping(entry.get("module_defaults")).items():
            defaults, module = keywords.get("module_defaults", {}), short_name(name)
            keywords["module_defaults"] = {**defaults, module: {**defaults.get(module, {}), **as_mapping(options)}}
        conditions = tuple(as_list(entry.get("when")))
        tags = tuple(word for tag in as_list(entry.get("tags")) for word in str(tag).split(","))
        variables = entry.get("vars") if "hosts" not in entry else None  # a play's are in ``_variables``
        return context._replace(
            keywords=keywords,
            conditions=context.conditions + conditions,
            tags=(*context.tags, *(tag.strip() for tag in tags if tag.strip() not in context.tags)),
            variables=(variables, *context.variables) if isinstance(variables, dict) else context.variables,
        )

    def _list_of(self, path: str, files: Sequence[str], message: str) -> list[Any]:
        """Return the list in a file. Raise ``ManifestError`` for another content, and for a cycle."""
        if any(os.path.realpath(path) == os.path.realpath(file) for file in files):
            raise document.manifest_error(path, (1, 1), "include", f"this file includes itself, by {files[-1]}")
        data = ansible_yaml.read(path)
        if data is None:
            return []
        if isinstance(data, Vault):
            raise document.manifest_error(path, (1, 1), "value", "this file is encrypted by ansible-vault")
        if not isinstance(data, list):
            raise document.manifest_error(path, (1, 1), "syntax", message)
        return data

    def _mapping(self, entry: object, file: str, noun: str) -> Mapping:
        """Return an entry that is a mapping, with its position. Raise ``ManifestError`` with ``noun`` for any other."""
        if isinstance(entry, Mapping):
            return entry
        raise document.manifest_error(file, (1, 1), "syntax", f"{noun} is a mapping, not {str(entry)[:40]!r}")

    def _error(self, file: str, entry: Mapping, message: str) -> Exception:
        return document.manifest_error(file, entry.position, "syntax", message)


def _problem(task: Mapping) -> str:
    """Return the reason that the keys of a task forbid to convert it, or ""."""
    if not isinstance(task.get("args", {}), dict):
        return "'args' that is no mapping has no counterpart"
    return "local_action runs on another machine" if "local_action" in task else ""


def _file_beside(file: str, name: object) -> str:
    """Return the path of a file that a task in ``file`` includes, or "" if it is missing or its name an expression."""
    directory = os.path.dirname(file)
    # In a role, whose tasks are in `tasks`, variables are beside that, in `vars`.
    candidates = [os.path.join(directory, str(name)), os.path.join(directory, "..", "vars", str(name))]
    path = next((path for path in candidates if os.path.isfile(path)), "")
    return path if isinstance(name, str) and "{{" not in name else ""


def _yaml_file(directory: str, name: str) -> str:
    """Return the path of a file of YAML with this name and any suffix that Ansible accepts, or ""."""
    candidates = (os.path.join(directory, f"{name}{suffix}") for suffix in (".yml", ".yaml", ""))
    return next((path for path in candidates if os.path.isfile(path)), "")


def _unquoted(text: str) -> str:
    return match[2] if (match := _QUOTED.match(text)) else text


def _free_form(text: str) -> dict[str, Any]:
    """Return the arguments of a module in one text, ``src=a dest=b``; words without ``=`` become ``_raw_params``."""
    arguments: dict[str, object] = {}
    rest = []
    for word in _WORD.findall(text):
        if match := _ASSIGNED.match(word):
            arguments[match[1]] = _unquoted(match[2])
        else:
            rest.append(word)
    return {**arguments, "_raw_params": " ".join(rest)} if rest else arguments


def _command_form(text: str) -> dict[str, Any]:
    """Return the arguments of a command module in one text, ``creates=/x make install``.

    Only the module's own options are arguments; all other words, even with ``=``, are the command, ``_raw_params``.
    """
    arguments: dict[str, object] = {}
    for word in _WORD.findall(text):
        match = _ASSIGNED.match(word)
        if match and match[1] in _COMMAND_OPTIONS:
            arguments[match[1]] = _unquoted(match[2])
            text = text.replace(word, "", 1)
    return {**arguments, "_raw_params": text.strip()}
