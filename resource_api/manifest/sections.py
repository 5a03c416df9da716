"""Build one ``Manifest`` from documents: check sections, metaparameters and the uniqueness of names.

Each problem has its position. A problem of a single declaration leaves a manifest without that declaration: the catalog
reports it together with its own. After any other problem names may be missing that the rest uses, so it is raised here.

Types, attributes and the targets of references are the catalog's part. No message repeats a value: it may be a secret
in the wrong place. The sections are described in ``docs/manifests.md``.
"""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import conditions, syntax_hints
from resource_api.manifest.yaml_scalar import QUOTING, quoting_hint, quoting_hint_at
from resource_api.model.attribute import CARDINALITY, EVALUATED, METAPARAMETERS, MISSING, OPERATIONS, RELATIONSHIPS
from resource_api.model.declaration import (
    ConfiguredProvider,
    Declaration,
    DocumentPath,
    Input,
    Manifest,
    Moved,
    Purge,
    Removed,
)
from resource_api.model.values import document, expression, reference, text
from resource_api.model.values.document import Violation, unknown_keys
from resource_api.model.values.errors import ManifestError, Problem, nearest
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import regex
from resource_api.model.values.text import show
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from resource_api.model.values.document import Document

    Check = Callable[["Path", Any], Iterator["Violation"]]


SECTIONS: Final = (
    "project",
    "include",
    "inputs",
    "defaults",
    "providers",
    "values",
    "resources",
    "moved",
    "removed",
    "purge",
    "outputs",
)
_SECTION_NAMES: Final = frozenset(SECTIONS)
#: The file name of a manifest that a program gives as a mapping.
MAPPING: Final = "<mapping>"

_PROVIDER_KEYS: Final = ("type", "version", "config", "implementation", "path", "source")
_INPUT_KEYS: Final = ("type", "default", "docs", "sensitive", "ephemeral")
#: An output that is a mapping of ``value`` and of one of these keys at least is in long form.
_OUTPUT_KEYS: Final = frozenset({"sensitive", "when"})
#: The sections whose items are left out if they are invalid.
_DECLARATIONS: Final = frozenset({"resources", "moved", "removed", "purge"})
#: The sections that the rest of a manifest may need.
_NAMING: Final = frozenset(SECTIONS) - {"project"}
#: Shared by all declarations without attributes or metaparameters; declarations are only read.
_EMPTY: Final[dict[str, Any]] = {}
#: The types of a resource's body; None: it has no attributes.
_BODIES: Final = frozenset({dict, type(None)})
_NAME: Final = regex(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")


def assemble(documents: Sequence[Document], problems: Iterable[Problem] = ()) -> Manifest:
    """Build a manifest from documents, the named file last. Raises ``ManifestError``, also for earlier ``problems``.

    The manifest has the problems of single declarations, which are left out.
    """
    builder = ManifestBuilder(problems)
    for source in documents:
        builder.add(source, first=source is documents[-1])
    if builder.lacks_names:
        raise ManifestError(builder.problems)
    file = documents[-1].file if documents else MAPPING
    return Manifest(
        file=file,
        project=builder.project or _stem(file),
        project_given=builder.project is not None,
        inputs=builder.inputs,
        defaults=builder.defaults,
        providers=builder.providers,
        values=builder.values,
        resources=tuple(builder.resources),
        moved=tuple(builder.moved),
        removed=tuple(builder.removed),
        purges=tuple(builder.purges),
        outputs=builder.outputs,
        output_conditions=builder.output_conditions,
        documents=tuple(documents),
        problems=tuple(builder.problems),
        incomplete=frozenset(builder.incomplete),
    )


def without(documents: Iterable[Document], keys: Collection[str]) -> list[Document]:
    """Return documents without the resources under ``keys``, and without the defaults that only they would have."""
    reduced = []
    for source in documents:
        resources = {key: body for key, body in (source.data.get("resources") or {}).items() if key not in keys}
        types = {key.partition("[")[0].lower() for key in resources}
        defaults = {name: body for name, body in (source.data.get("defaults") or {}).items() if name.lower() in types}
        reduced.append(source.with_data({**source.data, "resources": resources, "defaults": defaults}))
    return reduced


def _stem(file: str) -> str:
    """Return the name of a file without its directory, its suffix, and characters that cannot begin a name."""
    if file == MAPPING:
        return MAPPING.strip("<>")
    name = file.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    return stem.lstrip("-._") or stem


def project_name(manifest: Manifest) -> str:
    """Return the project of a manifest: its state is kept under this name.

    Raises ``ManifestError`` for a manifest that names none and whose file's name is not valid. The file's name is not
    adapted: two files could get the same name and would share their state.
    """
    if not reference.STACK_NAME.match(manifest.project):
        message = f"no project can be called {show(manifest.project)}, like this file; write 'project: NAME' into it"
        hint = "a name has 1 to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit"
        raise ManifestError([Problem("project", message, file=manifest.file, code="project", hint=hint)])
    return manifest.project


class ManifestBuilder:
    """Collects the sections of documents, one document after the other."""

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        """Begin with the problems of reading."""
        self.problems = list(problems)
        #: Whether names may be missing that the rest of the manifest uses.
        self.lacks_names = bool(self.problems)
        #: The types of which a resource, or an alias of one, has been left out.
        self.incomplete: set[str] = set()
        self.project: str | None = None
        self.inputs: dict[str, Input] = {}
        self.defaults: dict[str, dict[str, dict[str, object]]] = {}
        self.providers: dict[str, ConfiguredProvider] = {}
        self.values: dict[str, object] = {}
        self.outputs: dict[str, object] = {}
        self.output_conditions: dict[str, object] = {}
        self.resources: list[Declaration] = []
        self.moved: list[Moved] = []
        self.removed: list[Removed] = []
        self.purges: list[Purge] = []
        #: The document that is being added.
        self._source: Document
        #: (section, name) → its first occurrence.
        self._origins: dict[tuple[str, str], DocumentPath] = {}
        #: Type → title → the first declaration.
        self._titles: dict[str, dict[str, Declaration]] = {}
        #: Type as written → type, of all references that were valid.
        self._types: dict[str, str] = {}

    def add(self, source: Document, *, first: bool) -> None:
        """Add one document; ``first``: it is the named file, and may name the project."""
        self._source = source
        data = {} if source.data is None else source.data
        if violation := document_violation(data):
            self._report(violation)
            return
        data = self._sections(data)
        self._add_project(data.get("project"), first=first)
        for name, body in self._section("inputs", data).items():
            if self._is_new("inputs", name):
                self._add_input(name, body)
        for section, values in (("values", self.values), ("outputs", self.outputs)):
            for name, value in self._section(section, data).items():
                if self._is_new(section, name):
                    values[name] = self._output(name, value) if section == "outputs" else value
        for name, body in self._section("providers", data).items():
            if self._is_new("providers", name):
                self._add_provider(name, body)
        meta_defaults = self._add_defaults(self._section("defaults", data))
        for key, body in self._section("resources", data).items():
            self._add_resource(key, body, meta_defaults)
        self._add_moved(data.get("moved"))
        self._add_removed(data.get("removed"))
        self._add_purges(data.get("purge"))

    def _report(self, violation: Violation, subject: str = "", code: str = "invalid", *, value: bool = False) -> None:
        self.problems.append(self._problem(violation, subject, code, value=value))
        path = violation.path
        # A duplicate's first declaration remains, and the name of an invalid input; nothing refers to a move, a removal
        # or an unknown section.
        if not path or (path[0] in _NAMING and code != "duplicate"):
            names_input = path[:1] == ("inputs",) and len(path) > 2  # noqa: PLR2004 - a section and a name
            self.lacks_names |= len(path) < 2 or not (path[0] in _DECLARATIONS or names_input)  # noqa: PLR2004

    def _problem(
        self, violation: Violation, subject: str = "", code: str = "invalid", *, value: bool = False
    ) -> Problem:
        """Return a violation with its position."""
        line, column = self._source.position(violation.path, value=value)
        if violation.hint == QUOTING:
            violation = violation._replace(hint=quoting_hint_at(self._source, line))
        # In a resource the path is: resources, its key, the attribute.
        attribute = str(violation.path[2]) if subject and len(violation.path) > 2 else None  # noqa: PLR2004
        return Problem(
            attribute,
            violation.message,
            "error",
            reference=subject,
            file=self._source.file,
            line=line,
            column=column,
            code=code,
            hint=violation.hint,
        )

    def _error(self, path: Path, message: str, hint: str = "", subject: str = "") -> None:
        self._report(Violation(path, message, hint), subject)

    def _duplicate(self, path: Path, message: str, first: DocumentPath | Declaration) -> None:
        self._report(Violation(path, message, f"first at {first.place()}"), code="duplicate")

    def _check_keys(self, path: Path, mapping: dict[str, object], allowed: tuple[str, ...], context: str) -> None:
        for violation in unknown_keys(path, mapping, allowed, context):
            self._report(violation, code="unknown_key")

    def _sections(self, data: dict[str, object]) -> dict[str, Any]:
        """Return the sections, a misspelt one under its name; report unknown ones.

        Of resources that stand beside the sections only the first is reported.
        """
        if data.keys() <= _SECTION_NAMES:
            return data
        strays = [key for key in data if key[-1:] == "]" and "[" in key]
        if strays:
            message = f"{document.quote_key(strays[0])} is a resource and stands beside the sections of the manifest"
            self._error((strays[0],), message, "write resources: above it, and indent it under that")
            self.incomplete |= {key[:1].lower() + key[1:].partition("[")[0] for key in strays}
        unknown = {key: value for key, value in data.items() if key not in strays}
        self._check_keys((), unknown, SECTIONS, "section")
        from resource_api.model.values.suggestions import closest

        missing = [name for name in SECTIONS if name not in data]
        corrections = {key: closest(key, missing) for key in unknown if key not in _SECTION_NAMES}
        self._source = self._source.renamed({key: name for key, name in corrections.items() if name})
        renamed: dict[str, object] = self._source.data
        return renamed

    def _section(self, section: str, data: dict[str, object]) -> dict[str, Any]:
        """Return a section; an empty mapping when it is missing, empty, or of another kind."""
        body = data.get(section)
        if body is None or type(body) is dict:
            return body or {}
        example = "Type[title]: with its attributes beneath" if section == "resources" else "name: value"
        if lacks_bracket(body):
            violation = Violation((section,), f"{section} must be a mapping, and this is a reference without its ']'")
            self._report(violation._replace(hint=QUOTING), value=True)
            return {}
        self._error((section,), f"{section} must be a mapping", f"write {example}")
        return {}

    def _is_new(self, section: str, name: str) -> bool:
        """Whether a name is valid and not used before; report it otherwise."""
        origin = DocumentPath(self._source, (section, name))
        first = self._origins.setdefault((section, name), origin)
        kind = section.removesuffix("s")
        if first is not origin:
            self._duplicate(origin.path, f"{kind} {document.quote_key(name)} is given twice", first)
        elif not _NAME.match(name):
            article = "an" if kind[0] in "io" else "a"
            message = f"{document.quote_key(name)} cannot be the name of {article} {kind}"
            self._error(origin.path, message, "use letters, digits, _ and -")
        else:
            return True
        return False

    def _add_project(self, value: object, *, first: bool) -> None:
        """Take the name of the project, which only the first file may give."""
        if value is None:
            return
        if not first:
            self._error(("project",), "project belongs in the first file, not in an included one")
        elif type(value) is not str or not reference.STACK_NAME.match(value):
            hint = "write it in quotes" if type(value) in (int, float, bool) else "begin with a letter or digit"
            self._error(("project",), "project must be 1 to 100 letters, digits, '.', '_' and '-'", hint)
        else:
            self.project = value

    def _add_input(self, name: str, body: object) -> None:
        """Add the declaration of an input."""
        path: Path = ("inputs", name)
        body, before = {} if body is None else body, len(self.problems)
        if type(body) is not dict:
            self._error(path, "an input must be a mapping", "write {type: String, default: ...}")
            return
        self._check_keys(path, body, _INPUT_KEYS, "input declaration")
        texts = {key: body[key] for key in ("type", "docs") if body.get(key) is not None}
        for key in [key for key, value in texts.items() if type(value) is not str]:
            hint = "a data type with [...] needs quotes" if key == "type" else "write it in quotes"
            self._error((*path, key), f"{key} of an input must be a string", hint)
            del texts[key]
        default = body.get("default", MISSING)
        flags = [self._flag(path, body, key, "an input") for key in ("sensitive", "ephemeral")]
        if len(self.problems) > before:
            default = UNKNOWN
        origin = DocumentPath(self._source, path)
        self.inputs[name] = Input(texts.get("type", "Any"), default, texts.get("docs", ""), origin, *flags)

    def _flag(self, path: Path, body: dict[str, object], key: str, owner: str) -> bool:
        """Return a Boolean key, by default False; report another value."""
        if type(value := body.get(key)) is not bool and value is not None:
            self._error((*path, key), f"{key} of {owner} must be true or false", "write it without quotes")
        return value is True

    def _output(self, name: str, body: object) -> Any:
        """Return the value of an output, which is secret if its declaration says so."""
        if type(body) is not dict or "value" not in body or not {"value"} < body.keys() <= _OUTPUT_KEYS | {"value"}:
            return body
        path: Path = ("outputs", name)
        secret = self._flag(path, body, "sensitive", "an output")
        if body.get("when") is not None:
            self.output_conditions[name] = body["when"]
            for violation in _when((*path, "when"), body["when"]):
                self._report(violation)
        return Sensitive(body["value"]) if secret else body["value"]

    def _add_provider(self, name: str, body: object) -> None:
        """Add a configured provider; without ``type``, its name is the type, and it is the default one of that type."""
        path: Path = ("providers", name)
        if type(body) is not dict:
            self._error(path, "a provider must be a mapping", "write {type: vm_host, config: {...}}")
            return
        self._check_keys(path, body, _PROVIDER_KEYS, "provider")
        fields: dict[str, Any] = {"type": name, **dict.fromkeys(("version", "implementation", "path", "source"), "")}
        fields |= {key: value for key, value in body.items() if value is not None}
        for key in ("type", "version", "implementation", "path", "source"):
            if type(fields[key]) is not str:
                self._error((*path, key), f"{key} of a provider must be a string", "write it in quotes")
                return
            if "${" in fields[key]:
                self._error((*path, key), f"{key} of a provider cannot hold ${{...}}", "only its config can")
                return
        type_name = fields["type"][:1].lower() + fields["type"][1:]
        config = fields.get("config", {})
        if not reference.TYPE_NAME.match(type_name):
            hint = "write type: with the name of the type that it is for"
            self._error(path, f"{document.quote_key(fields['type'])} is not the name of a type", hint)
        elif type(config) is not dict:
            self._error((*path, "config"), "the configuration of a provider must be a mapping")
        elif fields["path"] and (fields["source"] or fields["version"]):
            key = "source" if fields["source"] else "version"
            hint = f"leave {key} out, or path"
            self._error((*path, key), f"{key} and path exclude each other: path is one program", hint)
        elif "_" in name and (fields["path"] or fields["source"]):
            hint = "name it as the first word of its types, such as google for google_compute_disk"
            self._error(path, f"no type can belong to the Terraform provider {document.quote_key(name)}", hint)
        else:
            origin = DocumentPath(self._source, path)
            words = fields["version"], config, origin, fields["implementation"], fields["path"], fields["source"]
            self.providers[name] = ConfiguredProvider(name, type_name, *words)

    def _add_defaults(self, section: dict[str, object]) -> dict[str, dict[str, Any]]:
        """Add the defaults of attributes; return the metaparameters' defaults by type."""
        defaults: dict[str, dict[str, object]] = {}
        meta_defaults: dict[str, dict[str, object]] = {}
        for written, body in section.items():
            path: Path = ("defaults", written)
            name = written[:1].lower() + written[1:]
            if not reference.TYPE_NAME.match(name):
                self._error(
                    path, f"{document.quote_key(written)} is not the name of a type", "write File, without [...]"
                )
            elif name in defaults:
                self._error(path, f"defaults of {document.quote_key(written)} are given twice")
            elif type(body) is not dict:
                self._error(path, "defaults must be a mapping of attributes")
            else:
                for key, reason in _NO_DEFAULTS.items():
                    if body.get(key) is not None:
                        self._error((*path, key), f"{key} cannot be a default: it {reason}")
                if _EACH in repr(body):
                    message = f"defaults of {document.quote_key(written)} cannot hold ${{each...}}"
                    self._error(path, message, "write it in the resources with for_each")
                meta_defaults[name] = self._meta(path, body, "")
                defaults[name] = {k: v for k, v in body.items() if v is not None and k not in METAPARAMETERS}
        if defaults:
            self.defaults[self._source.file] = defaults
        return meta_defaults

    def _meta(self, path: Path, body: dict[str, object], subject: Reference | str) -> dict[str, Any]:
        """Return the metaparameters that ``body`` declares; report those that are invalid, and leave them out."""
        meta = body
        if not METAPARAMETERS.issuperset(body) or None in body.values():
            meta = {key: value for key, value in body.items() if key in METAPARAMETERS and value is not None}
        invalid = []
        repeated = "for_each" in meta
        if repeated and self._source.file.endswith(".py"):
            self._error((*path, "for_each"), "for_each is for YAML and JSON", "write a loop in Python", str(subject))
            invalid.append("for_each")
        for key, value in meta.items():
            refusals = [] if is_valid_reference(key, value) else list(violations(key, value))
            if not refusals or (key in EVALUATED and expression.holds_expressions(value)):
                continue  # such a value is checked once it is known, and so is one that depends on an element
            if repeated and key not in CARDINALITY and _EACH in repr(value):
                continue
            for violation in refusals:
                self.problems.append(self._problem(violation._replace(path=(*path, *violation.path)), str(subject)))
                invalid.append(key)
        if "alias" in invalid and isinstance(subject, Reference):
            self.incomplete.add(subject.type)
        if not CARDINALITY.isdisjoint(invalid):
            # It is not known which resources there are: nothing more is said about them.
            invalid += CARDINALITY
            return {"when": False} | {key: value for key, value in meta.items() if key not in invalid}
        return {key: value for key, value in meta.items() if key not in invalid} if invalid else meta

    def _add_resource(self, key: str, body: Any, meta_defaults: dict[str, dict[str, Any]]) -> None:
        """Add the declaration of one resource, or report its problem.

        ``meta_defaults``: type → its defaults of metaparameters. The type of an invalid declaration is incomplete, so
        that references to its resources are not reported as unknown.
        """
        path = ("resources", key)
        resource = self._reference(path, key, body)
        if resource is None or type(body) not in _BODIES:
            type_name = resource.type if resource else str(key).partition("[")[0]
            self.incomplete.add(type_name[:1].lower() + type_name[1:])
            if resource:
                self._no_attributes(path, body, resource)
            return
        body = _EMPTY if body is None else body
        attributes, meta = body, _EMPTY
        if not METAPARAMETERS.isdisjoint(body):
            meta, attributes = self._meta(path, body, resource), _EMPTY
            if meta is not body:  # which ``_meta`` returns itself if it has only metaparameters
                attributes = {name: value for name, value in body.items() if name not in METAPARAMETERS}
        if meta_defaults and (inherited := meta_defaults.get(resource.type)):
            meta = {name: value for name, value in inherited.items() if name not in body} | meta
        declared = Declaration(resource.type, resource.title, attributes, meta=meta, document=self._source, key=key)
        titles = self._titles.get(resource.type) or self._titles.setdefault(resource.type, {})
        first = titles.setdefault(resource.title, declared)
        if first is declared or "when" in meta or "when" in first.meta:
            # Of alternatives the catalog keeps those whose conditions hold.
            self.resources.append(declared)
        else:
            self._duplicate(path, f"{text.escape(str(resource))} is declared twice", first)

    def _no_attributes(self, path: Path, body: Any, resource: Reference) -> None:
        """Report a resource whose attributes are not a mapping, with advice from the line of a text."""
        number = self._source.position(path, value=True)[0] if type(body) is str else 0
        lines = self._source.raw.splitlines()[number - 1 : number] if number else []
        advice = syntax_hints.missing_colon(lines[0].decode(errors="replace"), number) if lines else None
        hint = "write each on its own line as attribute: value"
        violation = Violation(path, "the attributes of a resource must be a mapping", hint)
        if advice is None or "\n" in body:
            self._report(violation, str(resource))
            return
        self._report(violation._replace(hint=advice.message), str(resource))
        self.problems[-1] = self.problems[-1]._replace(line=number, column=advice.position[1], paste=advice.paste)

    def _reference(self, path: Path, key: object, body: object = None) -> Reference | None:
        """Return a reference; report an invalid one. ``body`` is the value under it: the hint may need it."""
        head, _, rest = key.partition("[") if type(key) is str else ("", "", "")
        name = self._types.get(head)
        # Ten thousand references have a few types: one that was accepted before needs no check.
        if name and len(rest) > 1 and rest[-1] == "]" and rest[0] not in "'\"":
            return Reference(name, rest[:-1])
        if type(key) is not str:
            self._error(path, "this must be a reference such as File[/etc/motd]", _value_quoting_hint(key))
            return None
        try:
            parsed = reference.parse(key)
        except ValueError as error:
            attribute = path[0] == "resources" and "[" not in key and type(body) in {str, int, float, bool, list}
            hint = "an attribute is indented under its resource" if attribute else document.module_hint(body)
            if "[" in key and key[-1] != "]":
                hint = _value_quoting_hint({key: body}) if type(body) is str else QUOTING
            self._error(path, text.escape(str(error)), hint)
            return None
        self._types[head] = parsed.type
        return parsed

    def _list(self, section: str, value: object) -> list[Any]:
        if value is None or type(value) is list:
            return value or []
        self._error((section,), f"{section} must be a list")
        return []

    def _add_moved(self, section: object) -> None:
        """Add the renames of the section ``moved``."""
        for number, pair in enumerate(self._list("moved", section)):
            path: Path = ("moved", number)
            if type(pair) is not dict or not {"from", "to"} <= pair.keys():
                hint = 'write {from: "Type[old]", to: "Type[new]"}'
                self._error(path, "an item of moved must be a mapping with from and to", hint)
                continue
            self._check_keys(path, pair, ("from", "to"), "moved")
            origin = self._reference((*path, "from"), pair["from"])
            target = self._reference((*path, "to"), pair["to"])
            if origin and target:
                self.moved.append(Moved(origin, target, DocumentPath(self._source, path)))

    def _add_removed(self, section: object) -> None:
        for number, item in enumerate(self._list("removed", section)):
            target = self._reference(("removed", number), item)
            if target:
                self.removed.append(Removed(target, DocumentPath(self._source, ("removed", number))))

    def _add_purges(self, section: object) -> None:
        """Add the entries of ``purge`` (contract §10.7); a wrong one is reported and left out."""
        for number, item in enumerate(self._list("purge", section)):
            path: Path = ("purge", number)
            if wrong := list(purge_violations(path, item)):
                for violation in wrong:
                    self._report(violation)
                continue
            name = item["type"][:1].lower() + item["type"][1:]
            exceptions = tuple(item.get("except") or ())
            origin = DocumentPath(self._source, path)
            where, when = item.get("where") or {}, item.get("when")
            conditions = where, item.get("provider"), True if when is None else when
            self.purges.append(Purge(name, item["at_most"], origin, exceptions, *conditions))


Path = tuple[str | int, ...]

#: Metaparameter → the reason that it is none of ``defaults``.
_NO_DEFAULTS: Final = {
    "alias": "names one resource",
    "for_each": "makes resources of one declaration",
    "when": "decides about one declaration",
}
#: The beginning of a reference to an element of ``for_each``.
_EACH: Final = "${each."

LOGLEVELS: Final = ("debug", "info", "notice", "warning", "err")
REPLACEMENTS: Final = ("never", "delete_first", "create_first")

_PURGE_KEYS: Final = ("type", "at_most", "except", "where", "provider", "when")
_RETRY_KEYS: Final = ("tries", "delay")
_ONLY_THESE: Final = "only attributes, relationships, lifecycle, loglevel, noop, retry, tag and timeout can"
_TAG: Final = regex(r"[a-z0-9_][a-z0-9_:.\-]*\Z")
_CUT_REFERENCE: Final = regex(r"[A-Za-z]\w*\[(?!.*\]\Z)", re.DOTALL)


def document_violation(data: object) -> Violation | None:
    """Return the error of a document that cannot be a manifest, or None."""
    if type(data) is not dict:
        return Violation((), "a manifest is a mapping", "begin with a line such as resources:")
    if "format_version" in data:
        hint = "apply carries it out, given the name of its file"
        return Violation(("format_version",), "this is a saved plan, not a manifest", hint)
    return None


def violations(name: str, value: object) -> Iterator[Violation]:
    """Yield everything that is wrong with the value of the metaparameter ``name``."""
    return _METAPARAMETERS[name]((name,), value)


def is_valid_reference(name: str, value: object) -> bool:
    """Whether a value is certainly valid: one reference in a relationship, the most frequent metaparameter."""
    return type(value) is str and value[-1:] == "]" and name in RELATIONSHIPS


def purge_violations(path: Path, item: object) -> Iterator[Violation]:
    """Yield everything that is wrong with an entry of ``purge``, whatever its type has (contract §10.7)."""
    if type(item) is not dict:
        yield Violation(path, "an item of purge must be a mapping", "as in {type: Cron, at_most: 10}")
        return
    yield from unknown_keys(path, item, _PURGE_KEYS, "purge")
    type_name, at_most = item.get("type"), item.get("at_most")
    if type(type_name) is not str or not reference.TYPE_NAME.match(type_name[:1].lower() + type_name[1:]):
        missing = "type" not in item
        message = (
            "purge needs type, the name of a type" if missing else "type must be the name of a type, without [...]"
        )
        yield Violation(path if missing else (*path, "type"), message, "as in {type: Cron, at_most: 10}")
    if type(at_most) is not int or at_most < 0:
        missing = "at_most" not in item
        message = "purge needs at_most" if missing else "at_most must be a whole number, 0 or more"
        hint = "the number of resources that one run may delete"
        yield Violation(path if missing else (*path, "at_most"), message, hint)
    for key, check in (("except", _strings), ("where", _where), ("provider", _string), ("when", _when)):
        if item.get(key) is not None:
            yield from check((*path, key), item[key])


def lacks_bracket(value: object) -> bool:
    """Whether a value is a reference without its end, as YAML reads one with `` #`` in its title."""
    return type(value) is str and _CUT_REFERENCE.match(value) is not None


def _value_quoting_hint(value: object) -> str:
    """Return the hint for a reference without quotes that YAML has read as a mapping, or as a list in a list."""
    if type(value) is dict and len(value) == 1:
        key, rest = next(iter(value.items()))
        return quoting_hint(key if rest is None else f"{key}: {rest}")
    return QUOTING if type(value) is list else ""


def _references(path: Path, value: object) -> Iterator[Violation]:
    """Check one reference or a list of them. They are not parsed: a title may still hold ``${...}``."""
    if type(value) is list:
        for number, item in enumerate(value):
            yield from _reference((*path, number), item)
    else:
        yield from _reference(path, value)


def _reference_list(path: Path, value: object) -> Iterator[Violation]:
    if type(value) is list:
        yield from _references(path, value)
    else:
        yield Violation(path, f"{path[-1]} must be a list of references")


def _reference(path: Path, value: object) -> Iterator[Violation]:
    if type(value) is not str:
        yield Violation(path, f"{_name(path)} must be a reference such as Package[nginx]", _value_quoting_hint(value))
    elif not value:
        yield Violation(path, f"{_name(path)} is empty")
    elif lacks_bracket(value):
        yield Violation(path, f"{_name(path)} is a reference without its ']'", QUOTING)


def _name(path: Path) -> str:
    """Return the name of a value for messages: its last key; for an item, its list's."""
    name = next(step for step in reversed(path) if isinstance(step, str))
    return f"each item of {name}" if isinstance(path[-1], int) else name


def _boolean(path: Path, value: object) -> Iterator[Violation]:
    if type(value) is not bool:
        yield Violation(path, f"{_name(path)} must be true or false")


def _string(path: Path, value: object) -> Iterator[Violation]:
    if type(value) is not str or not value:
        hint = "write it in quotes" if type(value) in (int, float, bool) else ""
        yield Violation(path, f"{_name(path)} must be a string that is not empty", hint)
    elif "${" in value:
        yield Violation(path, f"{_name(path)} cannot hold ${{...}}", _ONLY_THESE)


def _strings(path: Path, value: object) -> Iterator[Violation]:
    if type(value) is not list:
        hint = f'write ["{"*" if value == "all" else value}"]' if type(value) is str else ""
        yield Violation(path, f"{_name(path)} must be a list of strings", hint)
        return
    for number, item in enumerate(value):
        yield from _string((*path, number), item)


def _string_or_list(path: Path, value: object) -> Iterator[Violation]:
    return (_strings if type(value) is list else _string)(path, value)


def _tag(path: Path, value: object) -> Iterator[Violation]:
    wrong = list(_string_or_list(path, value))
    yield from wrong
    for number, item in enumerate([] if wrong else value if type(value) is list else [value]):
        if not _TAG.match(item.lower()):
            message = "a tag consists of letters, digits and _ : . -, and begins with none of the last three"
            yield Violation((*path, number) if type(value) is list else path, message)


def _one_of(words: tuple[str, ...]) -> Check:
    def check(path: Path, value: object) -> Iterator[Violation]:
        if value not in words:
            hint = nearest(value, words, "value") if type(value) is str else ""
            yield Violation(path, f"{_name(path)} must be one of {', '.join(words)}", hint)

    return check


def _seconds(path: Path, value: Any) -> Iterator[Violation]:
    if type(value) not in (int, float) or not value >= 0:
        yield Violation(path, f"{_name(path)} must be a number of seconds, or 0 for no limit")


def _retry(path: Path, value: object) -> Iterator[Violation]:
    """Check ``retry: {tries: N, delay: SECONDS}`` (contract §10.8)."""
    if type(value) is not dict:
        yield Violation(path, "retry must be a mapping", "as in retry: {tries: 3, delay: 5}")
        return
    yield from unknown_keys(path, value, _RETRY_KEYS, "retry")
    tries, delay = value.get("tries"), value.get("delay")
    if tries is None:
        yield Violation(path, "retry needs tries, the number of all calls", "as in retry: {tries: 3, delay: 5}")
    elif type(tries) is not int or tries < 1:
        yield Violation((*path, "tries"), "tries must be a whole number from 1", _number_hint(tries))
    if delay is not None and (type(delay) not in (int, float) or not 0 <= delay < inf):
        yield Violation((*path, "delay"), "delay must be a number of seconds, 0 or more", _number_hint(delay))


def _number_hint(value: object) -> str:
    return "write it without quotes" if type(value) is str and value.strip().isdigit() else ""


def _timeout(path: Path, value: object) -> Iterator[Violation]:
    """Yield the violations of ``timeout``: seconds, or seconds by operation."""
    if type(value) is not dict:
        yield from _seconds(path, value)
        return
    yield from unknown_keys(path, value, OPERATIONS, "timeout")
    for name in OPERATIONS:
        if value.get(name) is not None:
            yield from _seconds((*path, name), value[name])


def _lifecycle(path: Path, value: object) -> Iterator[Violation]:
    """Yield the violations of ``lifecycle`` and of each of its options."""
    if type(value) is not dict:
        yield Violation(path, "lifecycle must be a mapping", "as in lifecycle: {protect: true}")
        return
    yield from unknown_keys(path, value, tuple(_LIFECYCLE), "lifecycle")
    for name, check in _LIFECYCLE.items():
        if value.get(name) is not None:
            yield from check((*path, name), value[name])


def _for_each(path: Path, value: object) -> Iterator[Violation]:
    if type(value) in {dict, list} or expression.is_reference_at(value, ()):
        return
    message = "for_each must be a mapping, a list, or one reference to such a value"
    yield Violation(path, message, "write for_each: ${inputs.NAME}, or for_each: [a, b]")


def _when(path: Path, value: object) -> Iterator[Violation]:
    yield from conditions.violations(path, value)


def _where(path: Path, value: object) -> Iterator[Violation]:
    if type(value) is not dict:
        yield Violation(path, "where must be a mapping of attributes to tests", "as in where: {size: {lt: 10}}")
        return
    for name, test in value.items():
        yield from conditions.test_violations((*path, name), test)


_LIFECYCLE: Final[dict[str, Check]] = {
    "protect": _boolean,
    "retain": _boolean,
    "owned": _boolean,
    "ignore_changes": _strings,
    "replace": _one_of(REPLACEMENTS),
    "replace_on_changes": _strings,
    "replace_triggered_by": _reference_list,
    "deleted_with": _reference,
    "aliases": _strings,
    "import": _string,
    "external": _boolean,
}

_METAPARAMETERS: Final[dict[str, Check]] = {
    "require": _references,
    "before": _references,
    "notify": _references,
    "subscribe": _references,
    "on_failure": _references,
    "noop": _boolean,
    "tag": _tag,
    "loglevel": _one_of(LOGLEVELS),
    "alias": _string_or_list,
    "provider": _string,
    "implementation": _string,
    "timeout": _timeout,
    "retry": _retry,
    "lifecycle": _lifecycle,
    "for_each": _for_each,
    "when": _when,
}
