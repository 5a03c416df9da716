"""A task in conversion: its module's arguments, and the resources that it becomes, which may be merged."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from resource_api.convert.ansible_yaml import VAULT_HEADER, Vault
from resource_api.convert.expressions import (
    OMIT,
    Expressions,
    Unconvertible,
    ValueReference,
    no_counterpart,
    refuse,
    written,
    written_text,
)
from resource_api.convert.variables import octal_digits, split_text
from resource_api.model.values.reference import Reference
from resource_api.model.values.values import as_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resource_api.convert.playbook import Task
    from resource_api.convert.variables import TaskScope

#: Attributes in which two declarations of a resource must agree, and those of which each may have more.
_CONDITIONAL: Final = ("when", "for_each", "on_failure", "noop")
_LISTS: Final = ("notify", "tag")
_TRUE: Final = ("yes", "true", "on", "y", "1", "t")
_FALSE: Final = ("no", "false", "off", "n", "0", "f")
#: A title that begins and ends with a quote, which a manifest takes for a mistake.
_QUOTED: Final = re.compile(r"\A(['\"])(.*)\1\Z", re.DOTALL)
#: The longest text of a file that is read, in bytes.
_LONGEST: Final = 1 << 20


class ConvertedResource:
    """A resource of the manifest, with the task that declares it."""

    def __init__(self, type_name: str, title: str, attributes: dict[str, object], task: Task) -> None:
        """Keep the attributes in the form of a manifest, and the task for messages."""
        self.type = type_name
        self.title = title
        self.attributes = attributes
        self.task = task

    @property
    def reference(self) -> str:
        """The reference as a manifest writes it."""
        return str(Reference(self.type, self.title))

    def merge(self, other: ConvertedResource) -> bool:
        """Merge a second declaration of the resource into this one; return False, without a change, if they contradict.

        Two tasks may set different attributes of one resource, but a manifest declares it once. Conditions and loops
        must be equal, since they hold for the whole resource; the lists of both for `notify` and `tag` are joined.
        """
        mine, theirs = self.attributes, dict(other.attributes)
        if any(mine.get(name) != theirs.get(name) for name in _CONDITIONAL):
            return False
        lists = {name: [*as_list(mine.get(name)), *as_list(theirs.pop(name))] for name in _LISTS if name in theirs}
        # `present` adds nothing to another `ensure`, and `file` nothing to a directory.
        if theirs.get("ensure") == "present" or (
            mine.get("ensure") in {"file", "directory"} and theirs.get("ensure") == "file"
        ):
            theirs.pop("ensure")
        if any(name in mine and mine[name] != value for name, value in theirs.items()):
            return False
        mine.update(theirs)
        mine.update({name: list(dict.fromkeys(values)) for name, values in lists.items()})
        return True


class ModuleTask:
    """The arguments of a task's module, each of which must be used, and the resources that it declares."""

    def __init__(self, task: Task, scope: TaskScope, directory: str, *, in_loop: bool, element: int = 0) -> None:
        """Convert the arguments, with the variables in ``scope``. ``directory`` is the playbook's.

        An argument's error is raised when the argument is taken: one that the module's resource ignores does no harm.
        ``in_loop``: the task has a loop that becomes `for_each`. Any other loop has a ``ModuleTask`` for each
        ``element``.
        """
        self.task = task
        self.scope = scope
        #: The number of the loop's element for which this is a task of its own: its titles differ from the others'.
        self._element = element
        self.directory = directory
        self.in_loop = in_loop
        expressions = Expressions(scope, lambda name: self.read_text(self.plain_file(name, "files")))
        self.expressions = expressions
        #: Argument → its converted value, without the omitted ones.
        self._arguments: dict[str, object] = {}
        #: Argument → the error of its value, which is raised only where the argument is taken.
        self._refused: dict[str, Unconvertible] = {}
        for name, raw in task.arguments.items():
            try:
                if (value := expressions.value(_without_vault(raw, f"{task.title} {name}", scope, task))) is not OMIT:
                    self._arguments[name] = value
            except Unconvertible as error:
                self._refused[name] = error
        #: The arguments that were taken or ignored: any other has no counterpart.
        self._used: set[str] = set()
        self.declarations: list[ConvertedResource] = []
        self.user = self._user()

    def _user(self) -> Any:
        """Return the user of ``become_user``, or None for root and without ``become``: a run is root's already."""
        keywords = self.task.keywords
        if str(keywords.get("become", False)).lower() in _FALSE:  # ``become_user`` alone has no effect in Ansible
            return None
        user = self.expressions.value(keywords.get("become_user"))
        return None if user is OMIT or user == "root" else user

    def take(self, *names: str, default: object = None) -> Any:
        """Return the value of an argument by its name or aliases, or the default.

        All names count as used: ``check_all_used`` refuses a task with an argument that its resource does not use.
        """
        self._used.update(names)
        if error := next((self._refused[name] for name in names if name in self._refused), None):
            raise error
        return next((self._arguments[name] for name in names if self._arguments.get(name) is not None), default)

    def need(self, *names: str) -> Any:
        """Return the value of a mandatory argument. Raise ``Unconvertible``, also for one whose value is `omit`."""
        if (value := self.take(*names)) is None:
            refuse(f"the argument '{names[0]}' is missing")
        return value

    def ignore(self, *names: str) -> None:
        """Ignore arguments that mean nothing for a resource."""
        self._used.update(names)

    def word(self, *names: str, default: str = "", among: Sequence[str] = ()) -> str:
        """Return a literal argument, one of ``among``: the conversion depends on it, so it cannot be a reference.

        An unquoted ``yes`` is a Boolean in YAML 1.1, and is the word again. Raise ``Unconvertible`` for other values.
        """
        value = self.take(*names, default=default)
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if not isinstance(value, str) or "${" in value or (among and value not in among):
            no_counterpart(f"'{names[0]}: {written(value)}'")
        return value

    def ensure(self) -> str:
        """Return the argument `state`: ``present``, the default, or ``absent``. Raise ``Unconvertible`` for another."""
        return self.word("state", default="present", among=("present", "absent"))

    def literal(self, name: str, refusal: str) -> str:
        """Return a mandatory argument, a literal text. Raise ``Unconvertible`` with ``refusal`` otherwise."""
        value = self.need(name)
        if not isinstance(value, str) or "${" in value:
            no_counterpart(refusal)
        return value

    def flag(self, *names: str, default: object = None) -> Any:
        """Return a Boolean, also for a word such as ``yes``, or the reference to one; or the default.

        Raise ``Unconvertible`` for any other value.
        """
        value = self.take(*names, default=default)
        if value is None or isinstance(value, (bool, ValueReference)):
            return value
        word = str(value).lower()
        if word not in _TRUE + _FALSE:
            refuse(f"'{names[0]}: {written(value)}' is no Boolean")
        return word in _TRUE

    def switch(self, name: str, *, default: bool = False) -> bool:
        """Return a Boolean that must be literal, as the conversion depends on it. Raise ``Unconvertible`` otherwise."""
        if not isinstance(value := self.flag(name, default=default), bool):
            refuse(f"'{name}: {written(value)}' is not literal")
        return value

    def items(self, *names: str) -> list[Any] | ValueReference | None:
        """Return the list in an argument, which Ansible also accepts as a text with commas; or None.

        A manifest cannot split the value of a reference. So texts in the elements of a loop are split there, in the
        collection; an input's default without a comma makes the reference a list of one item; any other reference is
        taken for a list.
        """
        value = self.take(*names)
        if isinstance(value, ValueReference):
            self.scope.split_members(value)
            literal = self.scope.literal_value(value)
            if isinstance(literal, str) and "," not in literal:
                return [value]
        if value is None or isinstance(value, (list, ValueReference)):
            return value
        return split_text(str(value))  # type: ignore[no-any-return] # of a text, a list

    def mode(self) -> dict[str, Any]:
        """Return the mode of a file as an attribute, if it is an argument; none otherwise.

        An unquoted ``0644`` is a number in YAML; it becomes a text of octal digits again, also behind a reference.
        """
        mode = self.take("mode")
        if mode == "preserve":
            no_counterpart("'mode: preserve'")
        if isinstance(mode, ValueReference):
            self.scope.octal_digits(mode)
        return {} if mode is None else {"mode": octal_digits(mode)}

    def permissions(self) -> dict[str, Any]:
        """Return owner, group and mode as attributes; the default owner is ``become_user``."""
        owner, group = self.take("owner"), self.take("group")
        attributes = {"owner": owner if owner is not None else self.user, "group": group}
        self.ignore("unsafe_writes", "follow")
        return {**{name: value for name, value in attributes.items() if value is not None}, **self.mode()}

    def check_command(self) -> dict[str, Any]:
        """Return the argument `validate` as an attribute."""
        command = self.take("validate")
        return {} if command is None else {"validate_cmd": str(command).replace("%s", "%")}

    def path(self, *names: str) -> Any:
        """Return an absolute path, without a final slash, as in titles. Raise ``Unconvertible`` for a relative one."""
        path = self.need(*names)
        if isinstance(path, str) and not path.startswith(("/", "${")):
            refuse(f"the path '{path}' is not absolute")
        return path.rstrip("/") or "/" if isinstance(path, str) else path

    def find_file(self, name: str, *kinds: str) -> str:
        """Return the path of a file of the playbook or its role, relative to the playbook, where the manifest will be.

        ``kinds``: the directories in which Ansible looks for it first, such as ``templates``. Raise ``Unconvertible``
        for a missing one, and for one outside of the playbook's directory.
        """
        candidates = [os.path.join(base, kind, name) for base in self.task.directories for kind in (*kinds, "")]
        path = next((path for path in candidates if os.path.exists(path)), "")
        relative = os.path.relpath(path, self.directory or ".") if path else ""
        if not path or relative.startswith(".."):
            refuse(f"the file '{name}' is not beside the playbook")
        return relative

    def plain_file(self, name: str, kind: str) -> str:
        """Return ``find_file`` for a regular, unencrypted file, to use its content.

        Raise ``Unconvertible`` for a directory, and for a file that is encrypted, whose content is not known.
        """
        file = self.find_file(name, kind)
        path = os.path.join(self.directory, file)
        if not os.path.isfile(path):
            no_counterpart(f"'{file}' is no regular file, and")
        with open(path, "rb") as stream:
            if stream.read(len(VAULT_HEADER)) == VAULT_HEADER:
                refuse(f"the file '{file}' is encrypted by ansible-vault")
        return file

    def read_text(self, file: str) -> str:
        """Return the text of a file of the playbook, to convert a template or a ``lookup`` of the file.

        Raise ``Unconvertible`` if it is too long or no text.
        """
        with open(os.path.join(self.directory, file), "rb") as stream:
            raw = stream.read(_LONGEST + 1)
        text = None
        with suppress(UnicodeDecodeError):
            text = raw.decode()
        if text is None or len(raw) > _LONGEST:
            refuse(f"the file '{file}' is too long or not UTF-8")
        return text

    def check_all_used(self) -> None:
        """Raise ``Unconvertible`` for an argument that was neither taken nor ignored: it has no counterpart."""
        if unused := [name for name in (*self._arguments, *self._refused) if name not in self._used]:
            no_counterpart(f"the argument '{unused[0]}' of {self.task.short}")

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments, for an `ansible_module`. Raise ``Unconvertible`` if one cannot be converted."""
        for error in self._refused.values():
            raise error
        return self._arguments

    def declare(self, type_name: str, title: object, attributes: dict[str, object]) -> ConvertedResource:
        """Declare a resource of this task, without attributes that are None.

        Raise ``Unconvertible`` for a title that a manifest cannot have.
        """
        declared = {name: value for name, value in attributes.items() if value is not None}
        if isinstance(title, (list, dict)):
            refuse("its name is no text")
        title = written_text(title)
        if reason := self._title_obstacle(title):
            refuse(f"its name {reason}")
        declaration = ConvertedResource(type_name, title, written(declared), self.task)
        self.declarations.append(declaration)
        return declaration

    def _title_obstacle(self, title: str) -> str:
        """Return the reason that a text cannot be a title, or "".

        Titles are shown, so that they cannot be secret, and identify resources before anything is read.
        """
        if reason := self.scope.names.obstacle(title):
            return f"{reason}, and names are known before"
        return "depends on a secret, and names are shown" if self.scope.names.has_secret(title) else ""

    def named(self, type_name: str, name: str, attributes: dict[str, object]) -> ConvertedResource:
        """Declare a resource whose title has no meaning, such as an `exec`: the title is the task's name, or ``name``.

        A name that cannot be a title, such as one with a secret, is replaced by the name of the type. A title that
        another task or element has already gets a number.
        """
        title = self.task.name or name
        if "{{" in title:
            value = self.expressions.value(title)
            title = name if value is OMIT else written_text(value)
        title = type_name if self._title_obstacle(title) else _QUOTED.sub(r"\2", title)
        if self.in_loop and "${each." not in title:  # each element is a resource with a title of its own
            title = f"{title} ${{each.index}}"
        title = self.scope.names.title(type_name, " ".join(title.split()), (self.task.number, self._element))
        return self.declare(type_name, title, attributes)


def _without_vault(raw: object, name: str, scope: TaskScope, task: Task) -> Any:
    """Return an argument's value with a new sensitive input, named after ``name``, in place of each encrypted part."""
    if isinstance(raw, Vault):
        return scope.names.secret_input(name, task.location)
    if isinstance(raw, dict):
        return {key: _without_vault(part, f"{name} {key}", scope, task) for key, part in raw.items()}
    return [_without_vault(part, name, scope, task) for part in raw] if isinstance(raw, list) else raw
