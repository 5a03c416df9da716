"""Completion in bash, zsh and fish: the scripts, the words of a line, and the candidates.

A script calls the command itself, with ``_RESOURCE_API_COMPLETE`` in its environment. A candidate is data: a shell gets
it quoted, or quotes it itself, and never evaluates it. After any error the answer is empty.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

from resource_api.cli.help import first_sentence
from resource_api.manifest import input_files, yaml_reader
from resource_api.model.datatypes import parser
from resource_api.model.values.errors import ManifestError
from resource_api.model.values.text import escape
from resource_api.system.filesystem import code_trust

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import click

    from resource_api.model.datatypes.parser import TypeTerm
    from resource_api.model.type_definition import TypeDefinition
    from resource_api.plugins.registry import Registry
    from resource_api.state.sqlite.session import RecordedName
    from resource_api.state.store import StackName
    from resource_api.terraform.type_names import TypeNames

    Items = list[CompletionItem[str]]


class _Complete(ShellComplete):
    """The common part of the three shells: the candidates, and the answer in the form of their scripts."""

    def source(self) -> str:
        """Return the script of this shell."""
        return script(self.name)

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete one, and that word, as the shell has passed them."""
        *words, incomplete = sys.argv[1:] or [""]
        return words, incomplete

    def complete(self) -> str:
        """Return the candidates for the word under the cursor in the form of ``answer``; "" after any error."""
        try:
            words, incomplete = self.get_completion_args()
            items = [item for item in self.get_completions(words, incomplete) if _can_be_passed(item.value)]
            option, equals, _ = incomplete.partition("=")
            # For the word "--stack=pro", click returns the candidate "production": the shell needs the whole word.
            if equals and option.startswith("--"):
                for item in items:
                    item.value = f"{option}={item.value}"
            task = _task(items)
            return self.answer(task, [] if task in _FILES else items)
        except Exception:  # noqa: BLE001 - an error would be shown in the middle of the line that is typed
            return ""

    def answer(self, task: str, items: Sequence[CompletionItem[str]]) -> str:
        """Return the answer for the shell's script: its task, see ``_task``, and the values, each ended by NUL."""
        # Click adds the end of a line, which must not become part of the last value.
        return "\0".join([task, *map(self.format_completion, items), ""])


class _Bash(_Complete):
    """Bash: values are quoted here as the word under the cursor is, because bash inserts them as they are."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words of the line up to the cursor, without their quotes; keep the last one for ``answer``."""
        words, self._word = split_words(os.environ.get("_RESOURCE_API_LINE", ""))
        return words[1:], self._word.text

    def answer(self, task: str, items: Sequence[CompletionItem[str]]) -> str:
        """Return the answer for bash: the script's task, and a line for each value, quoted like the typed word.

        Bash replaces only the part of a word after its last break, such as ``=`` or ``:``, so only that part of a value
        is returned. The script passes the characters at which words break. A value that cannot be quoted is left out.
        """
        prefix = self._word.prefix(os.environ.get("_RESOURCE_API_BREAKS", ""))
        values = [item.value for item in items if item.value.startswith(self._word.text)]
        quoted = [quote_word(value[len(prefix) :], self._word.quote) for value in values]
        return "\n".join([task, *(text for text in quoted if text is not None)])


class _Zsh(_Complete):
    """Zsh quotes inserted values; descriptions are escaped here."""

    name = "zsh"

    def answer(self, task: str, items: Sequence[CompletionItem[str]]) -> str:
        """Return the answer for zsh; record the widest value, by which ``format_completion`` aligns descriptions."""
        self._width = max((len(escape(item.value)) for item in items if item.help), default=0)
        return super().answer(task, items)

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the value to insert, and the line that the list of candidates shows for it, with NUL between them."""
        label = escape(item.value)
        return f"{item.value}\0" + (f"{label:{self._width}}  -- {escape(item.help)}" if item.help else label)


class _Fish(_Complete):
    """Fish quotes inserted values and escapes descriptions."""

    name = "fish"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the incomplete one without the quotes that fish includes."""
        words, incomplete = super().get_completion_args()
        return words, split_words(incomplete)[1].text

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the value and its description; a tab would be taken for the separator of both."""
        return item.value.replace("\t", " ") + (f"\t{item.help}" if item.help else "")


#: The tasks of a script to complete files itself: the types of click's candidates for them.
_FILES: Final = frozenset({"file", "dir"})


def _task(items: Sequence[CompletionItem[str]]) -> str:
    """Return the task of the shell's script, which is the first part of an answer.

    ``file`` and ``dir``: the shell completes paths itself. ``plain``: it inserts a candidate and a space. ``nospace``:
    it inserts a candidate without a space, because the user goes on typing the value behind ``NAME=``.
    """
    for item in items:
        if item.type in _FILES:
            return item.type
    return "nospace" if items and all(item.value.endswith(("=", "=@")) for item in items) else "plain"


def _can_be_passed(value: str) -> bool:
    """Return whether a program can get ``value`` as an argument: without NUL, and as UTF-8."""
    return not re.search("[\\0\\ud800-\\udfff]", value)


def register() -> None:
    """Register these classes in place of click's own, whose script for bash inserts values without quotes."""
    for shell in (_Bash, _Zsh, _Fish):
        add_completion_class(shell)


def script(shell: str) -> str:
    """Return the script that makes ``bash``, ``zsh`` or ``fish`` complete a line by calling this program."""
    return (Path(__file__).parent / f"templates/completion.{shell}").read_text(encoding="utf-8")


class Word:
    """The incomplete word of a line: its text without quotes, and the part before the last break."""

    def __init__(self) -> None:
        """Begin an empty word, without an open quote."""
        self.text = ""
        #: The quote that is open at the end, or empty; and the length of ``text`` before that quote.
        self.quote, self._quoted_from = "", 0
        #: As ``text``, but with NUL for each quoted or escaped character, because bash breaks no word at these.
        self._plain = ""

    def add(self, text: str, *, plain: bool = False) -> None:
        """Add text; ``plain``: it is neither quoted nor escaped, so that the word may break at a character of it."""
        self.text += text
        self._plain += text if plain else "\0" * len(text)

    def open(self, quote: str, text: str) -> None:
        """Add text in a quote that does not end: the cursor is within it."""
        self.quote, self._quoted_from = quote, len(self.text)
        self.add(text)

    def prefix(self, breaks: str) -> str:
        """Return the part of the word that bash keeps, so that candidates are inserted without that part.

        Bash replaces only the end of a word: from the open quote on, or else from behind the last unquoted character of
        ``breaks``. Of ``--state=sq`` it keeps ``--state=``.
        """
        if self.quote:
            return self.text[: self._quoted_from]
        last = max(map(self._plain.rfind, breaks), default=-1)
        return self.text[: last + 1]


#: A part of a line in bash: quoted, in a quote that does not end, escaped, blank, or a plain character.
_PART: Final = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<quote>['"])(?P<rest>.*)"""
    r"""|\\(?P<escaped>.?)|(?P<blank>\s+)|(?P<plain>.)""",
    re.DOTALL,
)


def split_words(line: str) -> tuple[list[str], Word]:
    """Split a line by bash's rules: return its complete words, and the last one, which may have an open quote.

    Bash's own list of words is not used: it splits them at ``=`` and ``:`` too.
    """
    words: list[str] = []
    word, begun = Word(), False  # a word has begun also with ''
    for part in _PART.finditer(line):
        if part["blank"]:
            if begun:
                words.append(word.text)
            word, begun = Word(), False
            continue
        begun = True
        if part["plain"]:
            word.add(part["plain"], plain=True)
        elif quote := part["quote"]:
            word.open(quote, _unescaped(part["rest"]) if quote == '"' else part["rest"])
        else:
            word.add(part["single"] or part["escaped"] or _unescaped(part["double"] or ""))
    return words, word


def _unescaped(text: str) -> str:
    """Return the text in double quotes, where a backslash escapes only these characters, and is lost at the end."""
    return re.sub(r'\\(["\\$`]|\Z)', r"\1", text)


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SPECIAL: Final = re.compile(r"[^\w@%+=:,./-]")


def quote_word(text: str, quote: str) -> str | None:
    """Return a text in the form in which it is typed in bash, so that bash reads it as one argument.

    ``quote``: the open quote of the word, within which the text is inserted, or "". Return None if the text cannot be
    written within that quote: it is then no candidate.
    """
    if _CONTROL.search(text):
        # The form $'...' for control characters cannot begin within quotes.
        return None if quote else "$'" + "".join(map(_ansi_c, text)) + "'"
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        # No backslash protects "!" in double quotes from the expansion of the history.
        return None if "!" in text else re.sub(r'[$`"\\]', r"\\\g<0>", text)
    return _SPECIAL.sub(r"\\\g<0>", text)


def _ansi_c(character: str) -> str:
    """Return a character as written between the quotes of bash's ``$'...'``: a control character in octal."""
    if _CONTROL.match(character):
        return "".join(f"\\{byte:03o}" for byte in character.encode())
    return f"\\{character}" if character in "'\\" else character


#: The keys of a Terraform provider that its types are kept by.
_DECLARED: Final = ("source", "path", "version")
#: A larger manifest is not read for a completion.
_MAX_BYTES: Final = 1 << 20
#: A reference that is a key in YAML or JSON: in single or double quotes, or without.
_KEY: Final = re.compile(
    r"""^[ \t]*(?:'([A-Z]\w*\[.*\])'|"([A-Z]\w*\[[^"\\]*\])"|([A-Z]\w*\[.*\]))[ \t]*:""", re.MULTILINE
)


def references(context: click.Context, incomplete: str) -> Items:
    """Return the recorded resources of the selected stack as candidates, see ``_selected``."""
    return _items((record.reference for record in _selected(context)), incomplete)


def targets(context: click.Context, incomplete: str) -> Items:
    """Return the recorded and declared resources as candidates of ``--target``."""
    declared = _declared_references(_first_argument(context, "manifest"))
    return _items((*declared, *(record.reference for record in _selected(context))), incomplete)


def declared_references(context: click.Context, incomplete: str) -> Items:
    """Return the resources that the manifest declares."""
    return _items(_declared_references(_first_argument(context, "manifest")), incomplete)


def projects(context: click.Context, incomplete: str) -> Items:
    """Return the recorded projects."""
    return _items((name.project for name, _ in _recorded(context)), incomplete)


def stacks(context: click.Context, incomplete: str) -> Items:
    """Return the candidates for ``--stack``: recorded stacks, and new ones, which have a file of inputs already.

    That file is ``stacks/STACK.yaml`` beside the manifest.
    """
    directory = os.path.join(os.path.dirname(_first_argument(context, "manifest")), "stacks")
    files = os.listdir(directory) if os.path.isdir(directory) else ()
    declared = (name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))
    return _items((*declared, *(name.stack for name, _ in _recorded(context))), incomplete)


def type_list(context: click.Context, incomplete: str) -> Items:
    """Return the types on the module path as candidates for the last name of a list such as ``user,gr``."""
    *before, _ = incomplete.split(",")
    names = (*_registry(context).names(), *_types_of_providers(context))
    return _items((",".join((*before, name)) for name in names), incomplete)


def types_and_components(context: click.Context, incomplete: str) -> Items:
    """Return the types and components on the module path, and those of the manifest's Terraform providers.

    Behind ``TYPE.`` the functions of the type, or of the Terraform provider with that name.
    """
    registry = _registry(context)
    type_name, dot, beginning = incomplete.partition(".")
    if not dot:
        return _items((*registry.names(), *registry.component_names(), *_types_of_providers(context)), incomplete)
    if type_name in registry.names():
        return [
            CompletionItem(f"{type_name}.{name}", help=first_sentence(function.docs))
            for name, function in registry.type(type_name).functions.items()
            if name.startswith(beginning)
        ]
    names = dict(_names_of_providers(context)).get(type_name)
    return _items((f"{type_name}.{name}" for name in (names.functions if names else ())), incomplete)


def programs(context: click.Context, incomplete: str) -> Items:
    """Return the Terraform providers that the manifest declares."""
    return _items((name for name, _ in _programs(_first_argument(context, "manifest"))), incomplete)


def resource_names(context: click.Context, incomplete: str) -> Items:
    """Return the names of the recorded resources of the command's type.

    They are of all projects and stacks, because the command ``resource`` is not about one of these.
    """
    type_name = _first_argument(context, "type_name").lower()
    recorded = [record.name for _, names in _recorded(context) for record in names if record.type == type_name]
    # A name of several namevars is no text, and cannot be the argument NAME.
    return _items((name for name in recorded if isinstance(name, str)), incomplete)


def attributes(context: click.Context, incomplete: str) -> Items:
    """Return the settable attributes that are not on the line yet as candidates ``NAME=``.

    Behind ``NAME=`` the candidates are the values that its data type enumerates.
    """
    definition = _definition(context)
    assigned = {text.partition("=")[0] for text in context.params.get("changes") or ()}
    offered = {
        name: (attribute.datatype.text, attribute.docs)
        for name, attribute in definition.attributes.items()
        if attribute.kind != "read_only" and name not in assigned
    }
    return _assignments(offered, incomplete)


def configuration(context: click.Context, incomplete: str) -> Items:
    """Return the configuration of the type's provider as candidates of ``--config``: ``KEY=``, or its values."""
    attributes = _definition(context).config.attributes
    offered = {name: (attribute.datatype.text, attribute.docs) for name, attribute in attributes.items()}
    return _assignments(offered, incomplete)


def inputs(context: click.Context, incomplete: str) -> Items:
    """Return the inputs of the manifest as candidates of ``-i``: ``NAME=``, or ``NAME=@`` for a secret."""
    declared = _section(_first_argument(context, "manifest"), "inputs")
    offered = {name: _input_offer(declaration) for name, declaration in declared.items() if isinstance(name, str)}
    return _assignments(offered, incomplete)


def _input_offer(declared: object) -> tuple[str, str]:
    """Return the data type of an input as text, and its documentation, for ``_assignments``.

    With ``sensitive: true`` or ``ephemeral: true`` the type becomes ``Sensitive[...]``, for which ``NAME=@`` is offered
    instead of ``NAME=``.
    """
    if not isinstance(declared, dict):
        return str(declared), ""
    datatype = str(declared.get("type") or "Any")
    if True in map(declared.get, ("sensitive", "ephemeral")):
        datatype = f"Sensitive[{datatype}]"
    return datatype, str(declared.get("docs") or "")


def facts(_context: click.Context, incomplete: str) -> Items:
    """Return the top-level facts as candidates; those below, such as ``os.name``, would have to be collected."""
    from resource_api.system.facts import Facts

    return _items(Facts().names(), incomplete)


def commands(context: click.Context, incomplete: str) -> Items:
    """Return the candidates for the next word of ``help``: the visible subcommands of the commands on its line."""
    group: Any = context.find_root().command
    above = context.find_root()
    for name in context.params.get("names") or ():
        group = group.get_command(above, name)
    if not hasattr(group, "list_commands"):
        return []
    # Commands that are not imported yet are not among ``group.commands``; none of them is hidden.
    hidden = {name for name, command in group.commands.items() if command.hidden}
    return _items(set(group.list_commands(above)) - hidden, incomplete)


def hosts(context: click.Context, incomplete: str) -> Items:
    """Return the groups and hosts of the inventory as candidates for the last name of a list such as ``web,!db``.

    An inventory that is a program gives none: it is not executed at each press of the tab key.
    """
    from resource_api.fleet import inventory

    path = context.params.get("hosts_file") or inventory.beside(_first_argument(context, "manifest"))
    if path is None or not str(path).endswith((".yaml", ".yml", ".json")):
        return []
    try:
        declared = inventory.read(str(path), input_files.InputFiles(code_trust.CodeTrust()))
    except ManifestError:
        return []
    # The names before the last one of "web,!db" stay: "web,!".
    before = incomplete[: max(map(incomplete.rfind, ",&!")) + 1]
    return _items((f"{before}{name}" for name in (*declared.groups, *declared.hosts)), incomplete)


def _first_argument(context: click.Context, name: str) -> str:
    """Return the argument ``name`` of the incomplete command, its first word if click has assigned none, or ""."""
    first_word = context.args[0] if context.args else ""
    return str(context.params.get(name) or first_word)


def _items(values: Iterable[str], incomplete: str) -> Items:
    """Return the distinct values that begin with the incomplete word as candidates, sorted."""
    return [CompletionItem(value) for value in sorted(set(values)) if value.startswith(incomplete)]


def _assignments(offered: Mapping[str, tuple[str, str]], incomplete: str) -> Items:
    """Return candidates for ``NAME=VALUE``: the names, or behind ``NAME=`` the values of its data type.

    ``offered``: name → data type and documentation. A secret is offered as ``NAME=@``: it is read from a file.
    """
    name, equals, value = incomplete.partition("=")
    if equals:
        values = _enumerated(parser.read(offered[name][0])) if name in offered else ()
        return [CompletionItem(f"{name}={member}") for member in values if member.startswith(value)]
    return [
        CompletionItem(f"{member}=@" if "Sensitive[" in datatype else f"{member}=", help=first_sentence(docs))
        for member, (datatype, docs) in offered.items()
        if member.startswith(incomplete)
    ]


def _enumerated(term: TypeTerm) -> Iterator[str]:
    """Yield the values that a data type enumerates, as candidates for ``NAME=VALUE``.

    Nested types count too: ``Optional[Enum[present, absent]]`` gives ``present`` and ``absent``.
    """
    if term.value == "Enum":
        yield from (str(argument.value) for argument in term.arguments or ())
    elif term.value == "Boolean":
        yield from ("true", "false")
    else:
        for argument in term.arguments or ():
            yield from _enumerated(argument)


def _registry(context: click.Context) -> Registry:
    """Return the types and components on the module path of the incomplete command.

    None is loaded yet: for their names, the names of their files suffice, which is fast.
    """
    from resource_api.plugins.module_path import ModulePath
    from resource_api.plugins.registry import Registry

    parameters = context.params
    return Registry(ModulePath.resolve(parameters.get("module_path") or ()), parameters.get("trust_path") or ())


def _definition(context: click.Context) -> TypeDefinition:
    """Return the type that the incomplete command names. Raise ``DefinitionError``."""
    name = _first_argument(context, "type_name")
    return _registry(context).type(name[:1].lower() + name[1:])


def _recorded(context: click.Context) -> list[tuple[StackName, list[RecordedName]]]:
    """Return each recorded stack with its resources' names, from a store in a file.

    Return [] for a store on a server: a press of the tab key must not wait for the network.
    """
    from resource_api.state.open_store import open_store
    from resource_api.state.sqlite.session import recorded

    path = getattr(open_store(context.params.get("state")), "path", None)
    return [] if path is None else list(recorded(path))


def _selected(context: click.Context) -> list[RecordedName]:
    """Return the recorded resources of the stack in the project of ``--project`` or of the manifest, as candidates.

    If the project is unknown or, by the manifest's text, has no records, they are those of all projects: too many
    candidates are better than none.
    """
    by_project = {
        name.project: names for name, names in _recorded(context) if name.stack == context.params.get("stack")
    }
    if (project := context.params.get("project")) is not None:
        return by_project.get(project, [])
    manifest = _first_argument(context, "manifest")
    if manifest and (names := by_project.get(_project(manifest))) is not None:
        return names
    return [record for names in by_project.values() for record in names]


def _project(manifest: str) -> str:
    """Return the project that a manifest declares, by a search in its text, or else the stem of its file's name.

    The manifest is not parsed, because it may be incomplete while the user is writing it.
    """
    # project: web, or {"project": "web"
    if match := re.search(r"""^(?:\{?\s*"project"|project)\s*:\s*["']?([\w.-]+)""", _text(manifest), re.MULTILINE):
        return match[1]
    return os.path.splitext(os.path.basename(manifest))[0]


def _declared_references(manifest: str) -> list[str]:
    """Return the references of the resources in a manifest as candidates.

    The text is searched, because a manifest that the user is still writing may be incomplete and unreadable. A
    reference with an expression, ``File[${inputs.path}]``, is left out: its value is not known here.
    """
    keys = _KEY.findall(_text(manifest))
    # A single quote in single quotes is doubled.
    names = [single.replace("''", "'") or double or plain for single, double, plain in keys]
    return [name for name in names if "${" not in name]


def _programs(manifest: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the name and the declaration of each Terraform provider in a manifest; it has a source or a path.

    A manifest in Python yields none, because it would have to be executed.
    """
    for name, declared in _section(manifest, "providers").items():
        if isinstance(declared, dict) and not {"source", "path"}.isdisjoint(declared):
            yield str(name), declared


def _names_of_providers(context: click.Context) -> Iterator[tuple[str, TypeNames]]:
    """Yield each Terraform provider of the manifest with the names of its types and functions.

    An earlier command has recorded them in a file: to start the program of the provider would take too long here.
    """
    from resource_api.terraform.type_names import TypeNamesFile

    manifest = str(context.params.get("manifest") or "")
    for name, declared in _programs(manifest):
        yield name, TypeNamesFile(manifest, name, [str(declared.get(key) or "") for key in _DECLARED]).read()


def _types_of_providers(context: click.Context) -> Iterator[str]:
    """Yield the names of the types of all Terraform providers in the manifest."""
    for _, names in _names_of_providers(context):
        yield from names.types


def _section(manifest: str, name: str) -> Mapping[str, object]:
    """Return a section of a manifest in YAML or JSON; {} of one in Python, which would have to be executed.

    A manifest in YAML may be incomplete outside the section.
    """
    if manifest.endswith(".py"):
        return {}
    text = _text(manifest)
    if manifest.endswith(".json"):
        section = json.loads(text).get(name)
    else:
        # Only this section is parsed: the rest can be long, and need not be complete yet.
        cut = re.search(rf"^{name}\s*:.*\n?(?:^(?:[ \t].*|#.*)?\n?)*", text, re.MULTILINE)
        section = yaml_reader.read(cut[0].encode(), manifest).data.get(name) if cut else None
    return section if isinstance(section, dict) else {}


def _text(manifest: str) -> str:
    """Return the text of a manifest; "" if it is no file, or too large to be read at each press of the tab key."""
    if not os.path.isfile(manifest) or os.path.getsize(manifest) > _MAX_BYTES:
        return ""
    with open(manifest, encoding="utf-8", errors="replace") as file:
        return file.read()
