"""Convert the tasks and handlers of one play to declarations."""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resource_api.convert import modules
from resource_api.convert.ansible_yaml import Vault
from resource_api.convert.condition_algebra import all_of
from resource_api.convert.expressions import (
    Expressions,
    Unconvertible,
    ValueReference,
    changed_results,
    is_template,
    no_counterpart,
    refuse,
    result_test,
    terms,
    written,
)
from resource_api.convert.module_task import ModuleTask
from resource_api.convert.variables import LoopNames, Result, TaskScope
from resource_api.model.values.values import as_list, leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from resource_api.convert.condition_algebra import Condition
    from resource_api.convert.module_task import ConvertedResource
    from resource_api.convert.playbook import Location, Loop, Play, Task
    from resource_api.convert.variables import Names

#: Tasks that need no resource, with the reasons.
_NEEDLESS: Final = {
    "meta": "a refresh happens at the turn of its resource",
    "setup": "facts are read when a manifest uses them",
    "gather_facts": "facts are read when a manifest uses them",
    "package_facts": "each resource reads its package",
    "service_facts": "each resource reads its service",
}
#: Modules that describe no state of a machine.
_WITHOUT: Final = frozenset(
    ("add_host", "assert", "fail", "group_by", "pause", "reboot", "set_stats", "wait_for_connection")
)
#: Attributes of an `exec` without which it runs in every apply.
_GUARDS: Final = frozenset(("creates", "onlyif", "unless", "refreshonly"))
_COMMANDS: Final = ("command", "shell", "raw")
#: Modules whose result a later command may test: such a task becomes a guard of that command.
_CHECKS: Final = (*_COMMANDS, "stat")
#: Most elements of a loop that becomes a resource for each of them.
_UNROLLED: Final = 200
_NO_TYPE: Final = "no type does the same"
_LOCAL: Final = ("localhost", "127.0.0.1")
#: The filter at the end of an expression that makes a list of items of a mapping.
_ITEMS_FILTER: Final = re.compile(r"\|\s*(?:ansible\.builtin\.)?dict2items\s*\}\}\s*\Z")


class Remark(NamedTuple):
    """A part of a playbook that was not converted, with the reason."""

    location: Location
    title: str
    reason: str

    def __str__(self) -> str:
        """Return ``site.yml:12: install: the argument 'x' has no counterpart``."""
        return f"{self.location}: {self.title}: {self.reason}"


class Converted(NamedTuple):
    """A task with its declarations, or with the reason for none, and comments on differences."""

    task: Task
    declarations: Sequence[ConvertedResource] = ()
    comments: tuple[str, ...] = ()
    reason: str = ""
    #: The result of a check, which its task registers in place of that of its resources.
    check: Result | None = None

    @property
    def has_module(self) -> bool:
        """Whether a declaration is an `ansible_module`."""
        return any(row.type == "ansible_module" for row in self.declarations)


class Decisions(NamedTuple):
    """Decisions of earlier conversions, whose manifests were refused, with the reasons."""

    #: The numbers of tasks that become `ansible_module`.
    by_module: dict[int, str]
    #: The numbers of tasks that are left out.
    left_out: dict[int, str]
    #: The names of values that a manifest cannot have.
    refused_values: dict[str, str]


class PlayConversion:
    """Converts the tasks of a play in their order."""

    def __init__(self, play: Play, names: Names, directory: str, decisions: Decisions, condition: Condition) -> None:
        """Keep the play and the settings for all its tasks.

        ``directory``: the playbook's; ``decisions``: those that earlier attempts at the whole playbook led to;
        ``condition``: that this host belongs to the play, for all tasks, or True.
        """
        self._play = play
        self._names = names
        self._directory = directory
        self._decisions = decisions
        self._condition = condition
        #: Task's number → its resources, for the tasks that rescue it.
        self._by_number: dict[int, Sequence[ConvertedResource]] = {}
        #: Handler's number → the converted handler; all are converted first, because tasks refer to their resources.
        self._handlers: dict[int, Converted] = {}
        #: Number of a task or handler → the numbers of the handlers that it notifies.
        self._notifications: dict[int, set[int]] = {}

    def converted(self) -> list[Converted]:
        """Return the tasks and the notified handlers, each with its declarations or the reason for none.

        Handlers are converted first, because the `notify` of a task needs their references. They see the variables that
        all tasks include; then the variables are reset, because a task sees only those that are included before it.
        """
        self._names.enter(self._play)
        for task in self._play.tasks:
            if task.short == "include_vars":
                self._names.add_variables(task.arguments)
        for handler in reversed(self._play.handlers):  # a handler can notify those behind it
            self._handlers[handler.number] = self._attempt(handler, is_handler=True)
        self._names.enter(self._play)
        converted = []
        for task in self._play.tasks:
            attempt = self._attempt(task)
            self._by_number[task.number] = attempt.declarations
            converted.append(attempt)
        notified = self._notified()
        return converted + [self._handlers[row.number] for row in self._play.handlers if row.number in notified]

    def _notified(self) -> set[int]:
        """Return the numbers of the handlers that tasks notify, directly or by other handlers: no other would run."""
        notified, waiting = set[int](), [task.number for task in self._play.tasks]
        while waiting:
            waiting += (numbers := self._notifications.get(waiting.pop(), set()) - notified)
            notified |= numbers
        return notified

    def _attempt(self, task: Task, *, is_handler: bool = False) -> Converted:
        """Return a task with its declarations, or with the reason for none.

        The name in its keyword `register` gets its result: later tasks test it, or use its values.
        """
        try:
            converted = self._convert(task, is_handler=is_handler)
        except Unconvertible as error:
            converted = Converted(task, reason=str(error))
        if register := task.keywords.get("register"):  # of a check, the command that becomes a guard of later tasks
            self._names.results[str(register)] = converted.check or _result_of(converted.declarations)
        return converted

    def _convert(self, task: Task, *, is_handler: bool) -> Converted:
        """Convert a task to named values, resources, or a comment. Raise ``Unconvertible`` with the reason."""
        if reason := task.problem or self._decisions.left_out.get(task.number, "") or _refusal(task, self._play):
            raise Unconvertible(reason)
        if task.short in _NEEDLESS:
            return Converted(task, comments=(_NEEDLESS[task.short],))
        if task.short == "set_fact":
            return self._set_facts(task)
        if task.short == "include_vars":
            self._names.add_variables(task.arguments)
            return Converted(task, comments=("variables of the tasks below",))
        if task.loop is None:
            return self._convert_in_scope(task, TaskScope(self._names, task.variables), is_handler=is_handler)
        if not is_handler:
            return self._loop(task, task.loop)
        if (elements := _literal_elements(task, task.loop)) is None:  # a notification names a resource
            no_counterpart("a handler with a loop over an expression")
        return self._unrolled(task, task.loop, elements, is_handler=True)

    def _loop(self, task: Task, loop: Loop) -> Converted:
        """Convert a loop to one declaration with `for_each`, or to one for each element that is written in the task.

        `for_each` is shorter, and comes first. The second form is for uses of the element that `for_each` does not
        have, and for loops where `for_each` alone needs an `ansible_module`. Raise ``Unconvertible`` if neither is
        possible.
        """
        elements = _literal_elements(task, loop)
        try:
            repeated = self._for_each(task, loop)
            if elements is None or task.short not in modules.MODULES or not repeated.has_module:
                return repeated
        except Unconvertible:
            if elements is None:
                raise
            return self._unrolled(task, loop, elements)
        try:
            unrolled = self._unrolled(task, loop, elements)
        except Unconvertible:
            return repeated
        return repeated if unrolled.has_module else unrolled

    def _for_each(self, task: Task, loop: Loop) -> Converted:
        """Convert a loop to a declaration with `for_each`: ``item`` is ``${each.value}``."""
        collection = self._collection(loop, Expressions(TaskScope(self._names, task.variables)))
        self._names.check_collection(collection)
        self._names.repeat_over(collection)  # an input that is repeated over gets the type of a collection
        # ``item`` of ``MAPPING | dict2items`` has a ``key`` and a ``value``, as that of `with_dict`
        kind = "with_dict" if _is_items(loop.collection) else loop.kind
        names = LoopNames(loop._replace(kind=kind), collection)
        return self._convert_in_scope(task, TaskScope(self._names, task.variables, names), for_each=names)

    def _unrolled(self, task: Task, loop: Loop, elements: Sequence[object], *, is_handler: bool = False) -> Converted:
        """Convert a loop over literal elements to one resource for each, with its values.

        Each is converted as a task of its own, in which ``item`` is a variable. Ansible's `with_items` replaces a list
        within the list by its items: an element that is a reference to a list is refused, as its items are not known.
        """
        expressions = Expressions(TaskScope(self._names, task.variables))
        if loop.kind == "with_items" and any(
            self._names.class_of(expressions.value(part)) is list for part in elements
        ):
            refuse("a list that is an expression within 'with_items'")
        declarations: list[ConvertedResource] = []
        comments: dict[str, None] = {}  # each once, in their order
        for index, element in enumerate(elements):
            variables = {loop.variable: element, loop.counter: index}  # without a counter, its name is ""
            scope = TaskScope(self._names, (variables, *task.variables))
            converted = self._convert_in_scope(task, scope, element=index, is_handler=is_handler)
            declarations += converted.declarations
            comments |= dict.fromkeys(converted.comments)
        return Converted(task, declarations, tuple(comments))

    def _collection(self, loop: Loop, expressions: Expressions) -> Any:
        """Return a loop's collection for `for_each`. Raise ``Unconvertible`` for one that `for_each` cannot have.

        `for_each` takes a mapping as it is, so the filter `dict2items` is dropped. It does not replace a list within
        the list by its items, as `with_items` does: literal lists are flattened here, other ones by `std.flatten`.
        """
        if loop.kind == "with_fileglob":
            refuse("a pattern of files is no collection of a manifest")
        if loop.kind not in {"loop", "with_items", "with_list", "with_dict"}:
            no_counterpart(f"'{loop.kind}'")
        if _is_items(loop.collection):  # ``{{ MAPPING | dict2items }}`` → ``{{ MAPPING }}``
            return expressions.value(_ITEMS_FILTER.sub("}}", loop.collection))
        collection = expressions.value(loop.collection)
        if loop.kind == "with_items" and not isinstance(collection, ValueReference):
            parts = _flattened(collection if isinstance(collection, list) else [collection])
            has_lists = any(self._names.class_of(part) is list for part in parts)
            return self._names.call("std.flatten", {"list": parts}, "flatten") if has_lists else parts
        is_mapping = loop.kind == "with_dict" and isinstance(collection, dict)
        if not is_mapping and not isinstance(collection, (list, ValueReference)):
            refuse("the collection of a loop is no list")
        return collection

    def _convert_in_scope(
        self,
        task: Task,
        scope: TaskScope,
        *,
        for_each: LoopNames | None = None,
        element: int = 0,
        is_handler: bool = False,
    ) -> Converted:
        """Return a task with its declarations, or as a check, its variables resolved by ``scope``.

        A check is a task whose result only conditions of later tasks test: it becomes their guard, and no resource of
        its own. ``for_each``: the loop, if it becomes `for_each`; ``element``: otherwise its element's number.
        """
        module = ModuleTask(task, scope, self._directory, in_loop=for_each is not None, element=element)
        conditions = _Conditions(task, module.expressions, self._names)
        register = str(task.keywords.get("register") or "")
        usage = _usage(register, self._play, task) if register else ""
        if usage == "check" and task.short in _CHECKS and for_each is None:
            comment = f"becomes a guard of the commands that test '{register}'"
            return Converted(task, comments=(comment,), check=_as_check(module))
        comments = []
        if reason := self._declare(module, needs_result=usage == "result", is_handler=is_handler):
            comments.append(f"by ansible_module: {reason}")
        comments += self._decorate(module, conditions, for_each)
        return Converted(task, module.declarations, tuple(comments))

    def _declare(self, module: ModuleTask, *, needs_result: bool, is_handler: bool) -> str:
        """Declare the resources of a task: of our types, or else an `ansible_module`, which runs the module itself.

        Return the reason for the latter, for a comment; it is "" if no type does the same as the module.
        ``needs_result``: a later task uses values that only an `ansible_module` returns. A handler never becomes one,
        as that type has no refresh.
        """
        task = module.task
        if is_handler:
            _declare_handler(module)
            return ""
        reason = self._decisions.by_module.get(task.number, "a later task uses its result" if needs_result else "")
        reason = reason or _declare_by_types(module)
        if not reason:
            return ""
        # those of our types that were declared before the refusal
        module.declarations.clear()
        try:
            _declare_module(module)
        except Unconvertible as error:
            raise Unconvertible(str(error) if reason == _NO_TYPE else reason) from None
        return "" if reason == _NO_TYPE else reason

    def _decorate(self, module: ModuleTask, conditions: _Conditions, for_each: LoopNames | None) -> Iterator[str]:
        """Add the effects of a task's keywords to its declarations: `when`, `for_each`, `notify`, tags, tries, ...

        Yield comments about keywords without a counterpart. Under `for_each` each title needs a part of the element, as
        all resources would have the same one.
        """
        metaparameters = self._metaparameters(module.task, conditions.condition, for_each)
        for declaration in module.declarations:
            if for_each is not None and "for_each" in declaration.attributes:
                no_counterpart("a list within a loop")
            if for_each is not None and "${each." not in declaration.title:
                refuse(f"every element of the loop makes the same {declaration.reference}")
            declaration.attributes |= metaparameters
        conditions.add_guards(module.declarations)
        yield from _add_keywords(module)

    def _metaparameters(self, task: Task, condition: Condition, for_each: LoopNames | None) -> dict[str, object]:
        """Return the metaparameters that the keywords of a task become, in addition to its ``condition``.

        ``condition``: that of its `when`, which is joined with the play's. A task of `rescue` gets `on_failure` with
        the resources of its block. They must have fixed titles: one with ``${each.`` has a value only in its own loop.
        """
        condition = all_of([self._condition, condition])
        topics = as_list(task.keywords.get("notify"))
        notified = dict.fromkeys(reference for topic in topics for reference in self._notify(task, topic))
        rescued = [row.reference for number in task.rescues for row in self._by_number.get(number, ())]
        if task.rescues and (not rescued or any("${each." in reference for reference in rescued)):
            refuse("no resource of the block is known whose failure it follows")
        is_dry = task.keywords.get("check_mode", False)
        if not isinstance(is_dry, bool):
            no_counterpart("'check_mode' that is an expression")
        metaparameters: dict[str, object] = {
            "for_each": None if for_each is None else written(for_each.collection),
            "when": None if condition is True else condition,
            "tag": list(task.tags) or None,
            "notify": _one_or_list([*notified]) if notified else None,
            "on_failure": rescued or None,
            "noop": is_dry or None,
        }
        return {name: value for name, value in metaparameters.items() if value is not None}

    def _set_facts(self, task: Task) -> Converted:
        """Convert ``set_fact`` to named values; they are computed before all steps, so never under a condition."""
        if task.conditions or task.loop is not None or self._condition is not True:
            no_counterpart("a variable that is set under a condition")
        expressions = Expressions(TaskScope(self._names, task.variables))
        for name, raw in task.arguments.items():
            if name != "cacheable":
                self._names.set_fact(name, expressions.value(raw), task.location)
        return Converted(task, comments=("see 'values'",))

    def _notify(self, task: Task, topic: object) -> Iterator[str]:
        """Yield the references of the handlers that a task notifies, and record that they are needed.

        As in Ansible, those are the last handler with the name ``topic``, and all that listen to it. Raise
        ``Unconvertible`` if the play has none.
        """
        name = str(topic).rpartition(" : ")[2]  # it may be written with its role, as ``ROLE : NAME``
        handlers = self._play.handlers
        last = next((row for row in reversed(handlers) if row.name == name), None)
        rows = [row for row in handlers if row is last or name in map(str, as_list(row.keywords.get("listen")))]
        for row in rows:
            if (handler := self._handlers.get(row.number)) is not None:
                self._notifications.setdefault(task.number, set()).add(row.number)
                yield from (declaration.reference for declaration in handler.declarations)
        if not rows:
            refuse(f"there is no handler '{name}'")


def _refusal(task: Task, play: Play) -> str:
    """Return the reason, from its module's name or its keywords, that a task cannot be converted, or ""."""
    keywords = task.keywords
    if task.short in _WITHOUT:
        return f"{task.short} has no counterpart"
    is_local = play.hosts in _LOCAL or play.keywords.get("connection") == "local"
    if "delegate_to" in keywords and not (is_local and str(keywords["delegate_to"]) in _LOCAL):
        return "'delegate_to' has no counterpart: a manifest describes one machine"
    if keywords.get("connection") == "local" and not is_local:
        return "'connection: local' has no counterpart: a manifest describes one machine"
    if keywords.get("run_once"):
        return "'run_once' has no counterpart: a manifest describes one machine"
    if keywords.get("async") and str(keywords.get("poll", 1)) == "0":
        return "a task in the background has no counterpart"
    return "the tag 'never' has no counterpart" if "never" in task.tags else ""


def _one_or_list(references: list[str]) -> Any:
    """Return references as a manifest declares them: the only one by itself, which is shorter."""
    return references if len(references) > 1 else references[0]


def _declare_by_types(module: ModuleTask) -> str:
    """Declare the resources of our types that do the same as a task; return the reason if that is impossible, or "".

    With a reason the caller tries an `ansible_module` instead.
    """
    if module.task.short not in modules.MODULES:
        return _NO_TYPE
    try:
        modules.MODULES[module.task.short](module)
        module.check_all_used()
    except Unconvertible as error:
        return str(error)
    return ""


def _declare_module(module: ModuleTask) -> None:
    """Declare an `ansible_module`, which runs the task's module with its arguments: for modules that no type replaces.

    Files beside the playbook get absolute paths, as relative ones are below ``/`` there. An `ansible_module` has no
    play: raise ``Unconvertible`` for a task that needs its variables or `become_user`.
    """
    task = module.task
    if module.user is not None:
        no_counterpart(f"'become_user' of {task.short}")
    arguments = dict(module.arguments)
    raw = arguments.pop("_raw_params", None)
    if raw is not None:
        if task.short not in {*_COMMANDS, "script"}:
            no_counterpart(f"the free form of {task.short}")
        arguments["cmd"] = raw
    source = arguments.get("src")
    is_literal = isinstance(source, str) and "${" not in source and "://" not in source
    if is_literal and task.short in {"copy", "unarchive"} and not module.switch("remote_src"):
        arguments["src"] = _absolute(module, str(source))
    if task.short == "script":  # whose program is a file beside the playbook
        program, blank, words = str(raw).partition(" ")
        arguments["cmd"] = f"{_absolute(module, program)}{blank}{words}"
    if task.short == "template" or (task.short == "debug" and "var" in arguments):
        refuse(f"{task.short} by ansible_module has no variables")
    module.named("ansible_module", task.short, {"module": task.module, "args": arguments or None})


def _absolute(module: ModuleTask, name: str) -> str:
    """Return the absolute path of a file of the playbook; an `ansible_module` takes relative paths from ``/``."""
    return os.path.abspath(os.path.join(module.directory, module.plain_file(name, "files")))


def _declare_handler(module: ModuleTask) -> None:
    """Declare the resource that a handler's notification refreshes: a service or command.

    A command gets `refreshonly`, as a handler runs after a notification only. Raise ``Unconvertible`` for other
    modules, whose types have no refresh.
    """
    short = module.task.short
    if short in {"service", "systemd", "systemd_service"}:
        _declare_refreshed_service(module)
    elif short in _COMMANDS:
        modules.command(module)
        module.check_all_used()
        for declaration in module.declarations:
            declaration.attributes["refreshonly"] = True
    else:
        refuse(f"a handler with {short} has no counterpart: only services and commands are refreshed")


def _declare_refreshed_service(module: ModuleTask) -> None:
    """Declare the service that a handler restarts or reloads, or the reload of all units."""
    name, state = modules.service_and_state(module)
    if name is None and module.flag("daemon_reload"):
        module.named("exec", "daemon-reload", {"command": "systemctl daemon-reload", "refreshonly": True})
        return
    if name is None or state not in {"restarted", "reloaded"}:
        no_counterpart("a handler that neither restarts nor reloads a service")
    # Ansible's `restarted` also starts a service that does not run, which a refresh does not.
    running = {"ensure": "running"} if state == "restarted" else {}
    attributes = {**running, "refresh": state.removesuffix("ed"), "enable": module.flag("enabled")}
    module.declare("service", name, attributes)
    module.check_all_used()


def _add_keywords(module: ModuleTask) -> Iterator[str]:
    """Add the effects of a task's keywords about failures, tries and environment variables; yield comments.

    A comment shows a keyword without an equal counterpart. ``changed_when: false`` needs none if the command has a
    guard; a command without a guard runs, and is reported as a change, in every apply.
    """
    keywords, declarations = module.task.keywords, module.declarations
    execs = [row for row in declarations if row.type == "exec"]
    environment = keywords.get("environment")
    if environment and isinstance(environment, dict):
        _add_environment(module, environment, execs)
    if keywords.get("no_log"):
        yield "without 'no_log': declare the input of a secret as sensitive"
    if environment and not (execs and isinstance(environment, dict)):
        yield "without the variables of 'environment'"
    if "retries" in keywords or "until" in keywords:
        _add_tries(keywords, declarations)
    yield from _add_failures(keywords, declarations, execs)
    if keywords.get("changed_when") is False and execs:
        if not all(row.attributes.keys() & _GUARDS for row in execs):
            yield "runs in every apply, as it has no 'creates', 'onlyif' or 'unless'"
    elif "changed_when" in keywords:
        yield "without 'changed_when'"


def _add_environment(module: ModuleTask, environment: Mapping[str, object], execs: Sequence[ConvertedResource]) -> None:
    """Add a task's environment variables to its commands. Raise ``Unconvertible`` for a secret among them."""
    values = written({name: module.expressions.value(value) for name, value in environment.items()})
    variables = {name: str(value) for name, value in values.items()}
    if execs and module.scope.names.has_secret(variables):
        no_counterpart("a secret in the environment of a command")
    for row in execs:
        row.attributes["environment"] = variables


def _add_tries(keywords: Mapping[str, Any], declarations: Sequence[ConvertedResource]) -> None:
    """Convert ``retries`` and ``delay``: to the attributes of an `exec`, else to the metaparameter `retry`."""
    retries, delay = keywords.get("retries", 3), keywords.get("delay", 5)
    if not all(isinstance(number, int) for number in (retries, delay)):
        no_counterpart("'retries' that is no number")
    for row in declarations:  # ``tries`` counts the first call too
        tries = {"tries": retries + 1, "try_sleep": delay}
        row.attributes.update(tries if row.type == "exec" else {"retry": {"tries": retries + 1, "delay": delay}})


def _add_failures(
    keywords: Mapping[str, object], declarations: Sequence[ConvertedResource], execs: Sequence[ConvertedResource]
) -> Iterator[str]:
    """Convert ``failed_when`` to the exit codes that commands accept; yield comments about parts without a counterpart.

    These are ``ignore_errors``, other forms of ``failed_when``, and ``failed_when`` of resources that are no commands.
    """
    if keywords.get("ignore_errors") or keywords.get("failed_when") is False:
        yield "a failure is not ignored: it skips the dependents, and the exit code is 1"
    elif "failed_when" in keywords:
        codes = _success_codes(keywords["failed_when"], str(keywords.get("register")))
        if codes is None or len(execs) != len(declarations):
            yield "without 'failed_when'"
        if codes:
            for row in execs:
                row.attributes["returns"] = codes


def _success_codes(raw: object, register: str) -> list[int] | None:
    """Return the exit codes that a ``failed_when`` accepts, for the attribute `returns` of an `exec`, or None.

    The forms ``RESULT.rc not in [0, 2]`` and ``RESULT.rc > 1`` are understood, with ``register`` as the result's name.
    """
    name = re.escape(register)
    text = " ".join(str(raw).split())
    if match := re.fullmatch(rf"{name}\.rc not in \[([0-9, ]+)\]", text):
        return [int(code) for code in re.findall("[0-9]{1,18}", match[1])]
    if match := re.fullmatch(rf"{name}\.rc > ([0-9]{{1,3}})", text):
        return list(range(int(match[1]) + 1))
    return None


class _Conditions:
    """The terms of a task's `when`: a condition, and those about results of earlier tasks."""

    def __init__(self, task: Task, expressions: Expressions, names: Names) -> None:
        """Convert the terms of a task's `when`. Raise ``Unconvertible`` also if they never hold: the task never runs.

        Terms about results of earlier tasks are set aside for ``add_guards``: a manifest's condition is evaluated
        before anything is read, and cannot test them.
        """
        self._names = names
        #: The results of which one must be changed.
        self._changed: list[str] = []
        #: The results of checks, and whether each must be a success.
        self._tests: list[tuple[str, bool]] = []
        conditions = []
        for raw in task.conditions:
            if isinstance(raw, (Vault, list, dict)) or raw is None:
                refuse("a condition that is no expression")
            for term in terms(raw):
                if changed := changed_results(term, names.results):
                    self._changed += changed
                elif (test := result_test(term, names.results)) is not None:
                    self._tests.append(test)
                else:
                    conditions.append(expressions.condition(term))
        self.condition = all_of(conditions)
        if self.condition is False:
            refuse("its condition never holds")

    def add_guards(self, declarations: Sequence[ConvertedResource]) -> None:
        """Convert terms about results to `notify` for a change, and to `onlyif` or `unless` for a success or failure.

        Only an `exec` has such guards: raise ``Unconvertible`` for a resource of another type.
        """
        if not (self._changed or self._tests):
            return
        if any(row.type != "exec" for row in declarations):
            refuse("a condition about the result of a task: only commands have a counterpart")
        for declaration in declarations:
            for name in self._changed:
                self._subscribe(declaration, name)
            for name, is_success in self._tests:
                self._guard(declaration, name, is_success=is_success)

    def _subscribe(self, declaration: ConvertedResource, name: str) -> None:
        """Convert ``when: RESULT is changed`` of a command, so that it runs only after a change by the other task.

        The command gets `refreshonly`, and the resources of the task that has registered ``name`` notify it: attributes
        are added to declarations that were converted before.
        """
        result = self._names.results.get(name)
        if result is None or not result.resources or "${each." in declaration.reference:
            refuse(f"a change of '{name}', whose task has no resource, or in a loop")
        declaration.attributes["refreshonly"] = True
        for attributes in result.resources:
            notified = as_list(attributes.get("notify"))
            if declaration.reference not in notified:
                notified = [*notified, declaration.reference]
            attributes["notify"] = _one_or_list(notified)

    def _guard(self, declaration: ConvertedResource, name: str, *, is_success: bool) -> None:
        """Convert a condition about a check's result to `onlyif` or `unless`, which run the check itself."""
        result, attributes = self._names.results.get(name), declaration.attributes
        if result is None or (result.command is None and result.path is None):
            refuse(f"the result '{name}' is no check")
        command: object = ["test", "-e", result.path] if result.path is not None else result.command
        key = "onlyif" if is_success else "unless"
        if result.path is not None and not is_success and "creates" not in attributes:  # the same without a process
            attributes["creates"] = result.path
            return
        attributes[key] = [*as_list(attributes.get(key)), command]


def _result_of(declarations: Sequence[ConvertedResource]) -> Result:
    """Return the registered result of a task with these declarations, for the later tasks that use it.

    Later tasks can test for changes of any of the resources. They can use values, such as the output, only if there is
    exactly one `ansible_module` and no loop: its attribute ``result`` has them.
    """
    modules_of_task = [row for row in declarations if row.type == "ansible_module"]
    references = [row.reference for row in modules_of_task if "for_each" not in row.attributes]
    return Result(references[0] if len(references) == 1 else "", [row.attributes for row in declarations])


def _as_check(module: ModuleTask) -> Result:
    """Return the result of a checking task, the command or `stat` path that later commands get as a guard.

    Raise ``Unconvertible`` for options and conditions of the check, as a guard has none.
    """
    if module.task.short == "stat":
        return Result(path=written(module.need("path")))
    if any(name in module.arguments for name in ("chdir", "stdin", "creates", "removes")) or module.task.conditions:
        no_counterpart("a check with options or a condition")
    attributes = modules.command_attributes(module)
    command = written(attributes["command"])
    is_shell = attributes.get("shell") and isinstance(command, str)
    return Result(command=["/bin/sh", "-c", command] if is_shell else command)


def _usage(name: str, play: Play, registering: Task) -> str:
    """Return the use of a registered result in other tasks: ``result`` if an expression has values of it.

    Otherwise ``check`` if a condition tests its success, and "" if none does more than test for a change. The task
    becomes an `ansible_module`, a guard, or any resource accordingly.
    """
    # A use such as ``result.stat.exists``, ``result['changed'] | bool`` or ``result is not failed``.
    pattern = re.compile(
        rf"(?<![\w.']){re.escape(name)}\b((?:\.\w+|\[['\"]\w+['\"]\])*)(?:\s*\|\s*bool)?(?:\s+is\s+(?:not\s+)?(\w+))?"
    )
    usage = ""
    for task in (*play.tasks, *play.handlers):
        if task.number == registering.number:
            continue
        rest = (task.arguments, task.variables, task.loop and task.loop.collection, task.keywords.get("environment"))
        if any(is_template(text) and pattern.search(text) for _, text in leaves(rest)):
            return "result"
        if any(_tests_success(use) for raw in task.conditions for use in pattern.finditer(str(raw))):
            usage = "check"
    return usage


def _tests_success(use: re.Match[str]) -> bool:
    """Return whether a use of a result, found by ``_usage`` in a condition, tests the success of its task."""
    member, test = use[1].replace("['", ".").replace("']", ""), use[2]
    return member in {".rc", ".failed", ".stat.exists"} or test in {"failed", "succeeded", "success"}


def _is_items(collection: object) -> bool:
    """Return whether a collection is an expression for the members of a mapping, which ``for_each`` takes itself."""
    return isinstance(collection, str) and _ITEMS_FILTER.search(collection) is not None


def _flattened(values: list[Any]) -> list[Any]:
    """Return a list with the items of the lists in it, as ``with_items`` repeats over them."""
    return [part for value in values for part in (value if isinstance(value, list) else [value])]


def _literal_elements(task: Task, loop: Loop) -> list[Any] | None:
    """Return the literal elements of a loop, each to become a resource, or None for an expression or too many.

    A pattern of `with_fileglob` is replaced by the files beside the playbook that match it now.
    """
    elements: Any = loop.collection
    if loop.kind == "with_fileglob":
        elements = []
        for pattern in as_list(loop.collection):
            if isinstance(pattern, str) and "{{" not in pattern:
                elements += _matching_files(pattern, task.directories)
    elif loop.kind == "with_dict" and isinstance(elements, dict):
        elements = [{"key": key, "value": value} for key, value in elements.items()]
    elif loop.kind not in {"loop", "with_items", "with_list"}:
        return None
    if not isinstance(elements, list) or len(elements) > _UNROLLED:
        return None
    return _flattened(elements) if loop.kind == "with_items" else elements


def _matching_files(pattern: str, directories: Sequence[str]) -> list[str]:
    """Return the absolute paths of the files for a pattern of `with_fileglob`, in the first directory that has any."""
    for directory in directories:
        if files := sorted(glob.glob(os.path.join(directory, pattern))):
            return [os.path.abspath(file) for file in files]
    return []
