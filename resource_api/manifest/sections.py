"""Build one ``Manifest`` from documents: check its sections and the uniqueness of names.

A problem of a single declaration leaves a manifest without that declaration: the catalog reports it together with its
own. After any other problem names may be missing that the rest uses, so it is raised here. Types, attributes and the
targets of references are the catalog's part. No message repeats a value: it may be a secret in the wrong place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import conditions, metaparameters, syntax_hints
from resource_api.model.attribute import CARDINALITY, EVALUATED, METAPARAMETERS, MISSING, RELATIONSHIPS
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
from resource_api.model.values.errors import ManifestError, Problem
from resource_api.model.values.reference import Reference
from resource_api.model.values.start_up import regex
from resource_api.model.values.text import show
from resource_api.model.values.values import UNKNOWN, Sensitive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from resource_api.model.values.document import Document

    Path = tuple[str | int, ...]

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
_PROVIDER_TEXTS: Final = ("version", "implementation", "path", "source")
_INPUT_KEYS: Final = ("type", "default", "docs", "sensitive", "ephemeral")
#: An output that is a mapping of ``value`` and of one of these keys at least is in long form.
_OUTPUT_KEYS: Final = frozenset({"sensitive", "when"})
#: The sections whose names and values the rest of a manifest may need.
_NAMING: Final = frozenset({"include", "inputs", "defaults", "providers", "values", "resources"})
#: Shared by all declarations without attributes or metaparameters; declarations are only read.
_EMPTY: Final[dict[str, Any]] = {}
_NAME: Final = regex(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
#: Metaparameter → the reason that it is none of ``defaults``.
_NO_DEFAULTS: Final = {
    "alias": "names one resource",
    "for_each": "makes resources of one declaration",
    "when": "decides about one declaration",
}


def assemble(documents: Sequence[Document], problems: Iterable[Problem] = ()) -> Manifest:
    """Build one manifest from the documents of its files, the named file last.

    A problem of a single declaration is recorded in the manifest, which lacks that declaration, so that compiling can
    go on and report further problems. Raise ``ManifestError`` for the ``problems`` of reading, and for a problem that
    may hide a name used elsewhere, since every use of the name would be reported too.
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
        has_project=builder.project is not None,
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
    """Return documents without the resources under ``keys``, which a valid cached conclusion leaves out of a plan.

    Defaults of a type that then has no resource are removed too, since they need not be compiled either.
    """
    reduced = []
    for source in documents:
        resources = {key: body for key, body in (source.data.get("resources") or {}).items() if key not in keys}
        types = {key.partition("[")[0].lower() for key in resources}
        defaults = {name: body for name, body in (source.data.get("defaults") or {}).items() if name.lower() in types}
        reduced.append(source.with_data({**source.data, "resources": resources, "defaults": defaults}))
    return reduced


def _stem(file: str) -> str:
    """Return the default project of a manifest's file: ``site`` for ``/srv/site.yaml``.

    Characters with which no project may begin are removed, such as the dot of ``.site.yaml``; other invalid characters
    are reported by ``project_name``.
    """
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
        """Begin without sections, and with the ``problems`` of reading the files."""
        self.problems = list(problems)
        #: Whether names may be missing that the rest of the manifest uses.
        self.lacks_names = bool(self.problems)
        #: The types of which a resource or an alias has been left out: no reference to such a type is called unknown.
        self.incomplete: set[str] = set()
        self.project: str | None = None
        #: The sections, name → entry; ``defaults``: file → type → attribute → value; conditions: output → condition.
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
        """Add the sections of one document, and report its problems; only the ``first``, named file has a project."""
        self._source = source
        data = {} if source.data is None else source.data
        if type(data) is not dict:
            self._error((), "a manifest is a mapping", "begin with a line such as resources:")
            return
        if "format_version" in data:
            hint = "apply carries it out, given the name of its file"
            self._error(("format_version",), "this is a saved plan, not a manifest", hint)
            return
        data = self._sections(data)
        self._add_project(data.get("project"), first=first)
        for name, body in self._valid_entries("inputs", data):
            self._add_input(name, body)
        self.values.update(self._valid_entries("values", data))
        self.outputs.update((name, self._output(name, body)) for name, body in self._valid_entries("outputs", data))
        for name, body in self._valid_entries("providers", data):
            self._add_provider(name, body)
        meta_defaults = self._add_defaults(self._section("defaults", data))
        for key, body in self._section("resources", data).items():
            self._add_resource(key, body, meta_defaults)
        self._add_moved(data.get("moved"))
        self._add_removed(data.get("removed"))
        self._add_purges(data.get("purge"))

    def _report(self, violation: Violation, resource: str = "", code: str = "invalid", *, value: bool = False) -> None:
        """Add a violation to the problems, and set ``lacks_names`` if a name is not declared because of it.

        Each use of such a name would be reported as unknown, so that ``assemble`` raises an error before compiling.
        ``resource``: the reference of the resource with the violation, or "". ``value``: report the position of the
        value at the path, not that of its key.
        """
        self.problems.append(self._problem(violation, resource, code, value=value))
        path = violation.path
        if not path:  # the whole document is left out
            self.lacks_names = True
        elif path[0] in _NAMING and code != "duplicate":  # of a duplicate the first declaration remains
            # A resource's type becomes incomplete instead, and an input with wrong keys stays declared.
            is_left_out_alone = len(path) > 1 and path[0] == "resources"
            keeps_its_name = len(path) > 2 and path[0] == "inputs"  # noqa: PLR2004 - a section and a name
            self.lacks_names |= not (is_left_out_alone or keeps_its_name)

    def _problem(
        self, violation: Violation, resource: str = "", code: str = "invalid", *, value: bool = False
    ) -> Problem:
        """Return a violation as a problem with its line and column, and a better hint if the text of the line gives it.

        The parameters are those of ``_report``.
        """
        position, hint = self._source.position(violation.path, value=value), violation.hint
        if hint == syntax_hints.QUOTING:  # the line may show which text needs the quotes
            hint = syntax_hints.quoting_hint(self._line(position[0])) or hint
        # In a resource the path is: resources, its key, the attribute.
        attribute = str(violation.path[2]) if resource and len(violation.path) > 2 else None  # noqa: PLR2004
        problem = document.problem(self._source.file, position, code, violation.message, hint)
        return problem._replace(attribute=attribute, reference=resource)

    def _line(self, number: int) -> str:
        """Return a line of the document, counted from 1, for hints; "" for 0, an unknown position."""
        lines = self._source.raw.splitlines()[number - 1 : number] if number else []
        return lines[0].decode(errors="replace") if lines else ""

    def _error(self, path: Path, message: str, hint: str = "", resource: str = "") -> None:
        self._report(Violation(path, message, hint), resource)

    def _duplicate(self, path: Path, message: str, first: DocumentPath | Declaration) -> None:
        self._report(Violation(path, message, f"first at {first.place()}"), code="duplicate")

    def _check_keys(self, path: Path, mapping: dict[str, object], allowed: tuple[str, ...], context: str) -> None:
        """Report the keys of a mapping that are none of ``allowed``."""
        for violation in unknown_keys(path, mapping, allowed, context):
            self._report(violation, code="unknown_key")

    def _sections(self, data: dict[str, object]) -> dict[str, Any]:
        """Return the sections of a document by name; report other keys at its top.

        A misspelt section is reported, and read under its correct name, to report the problems in it too. Of resources
        that stand beside the sections only the first is reported. All their types are incomplete, so that references to
        these resources are not reported as unknown.
        """
        if data.keys() <= _SECTION_NAMES:
            return data
        strays = [key for key in data if key[-1:] == "]" and "[" in key]  # ``File[/etc/motd]``
        if strays:
            message = f"{document.quote_key(strays[0])} is a resource and stands beside the sections of the manifest"
            self._error((strays[0],), message, "write resources: above it, and indent it under that")
            self.incomplete |= {reference.uncapitalize_type(key.partition("[")[0]) for key in strays}
        others = {key: value for key, value in data.items() if key not in strays}
        self._check_keys((), others, SECTIONS, "section")
        from resource_api.model.values.suggestions import closest  # only a wrong manifest needs it

        missing = [name for name in SECTIONS if name not in data]
        corrections = {key: closest(key, missing) for key in others if key not in _SECTION_NAMES}
        self._source = self._source.renamed({key: name for key, name in corrections.items() if name})
        renamed: dict[str, object] = self._source.data
        return renamed

    def _section(self, section: str, data: dict[str, object]) -> dict[str, Any]:
        """Return a section that must be a mapping; {} if it is missing, null, or another value, which is reported."""
        body = data.get(section)
        if body is None or type(body) is dict:
            return body or {}
        example = "Type[title]: with its attributes beneath" if section == "resources" else "name: value"
        if syntax_hints.lacks_bracket(body):
            message = f"{section} must be a mapping, and this is a reference without its ']'"
            self._report(Violation((section,), message, syntax_hints.QUOTING), value=True)
            return {}
        self._error((section,), f"{section} must be a mapping", f"write {example}")
        return {}

    def _valid_entries(self, section: str, data: dict[str, object]) -> Iterator[tuple[str, Any]]:
        """Yield name and value of each entry of a section such as ``inputs``; report invalid or repeated names."""
        kind = section.removesuffix("s")
        for name, body in self._section(section, data).items():
            origin = DocumentPath(self._source, (section, name))
            first = self._origins.setdefault((section, name), origin)  # over all files of the manifest
            if first is not origin:
                self._duplicate(origin.path, f"{kind} {document.quote_key(name)} is given twice", first)
            elif _NAME.match(name):
                yield name, body
            else:
                article = "an" if kind[0] in "io" else "a"
                message = f"{document.quote_key(name)} cannot be the name of {article} {kind}"
                self._error(origin.path, message, "use letters, digits, _ and -")

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
        """Add the declaration of an input; report a value that is no mapping, and wrong keys.

        An input with wrong keys is added with the default ``UNKNOWN``, unchecked, so that its uses are no problems.
        """
        path: Path = ("inputs", name)
        body = {} if body is None else body
        problems_before = len(self.problems)
        if type(body) is not dict:
            self._error(path, "an input must be a mapping", "write {type: String, default: ...}")
            return
        self._check_keys(path, body, _INPUT_KEYS, "input declaration")
        texts = {"type": "Any", "docs": ""}
        for key in texts:
            if type(value := body.get(key)) is str:
                texts[key] = value
            elif value is not None:
                hint = "a data type with [...] needs quotes" if key == "type" else "write it in quotes"
                self._error((*path, key), f"{key} of an input must be a string", hint)
        flags = [self._flag(path, body, key, "an input") for key in ("sensitive", "ephemeral")]
        default = UNKNOWN if len(self.problems) > problems_before else body.get("default", MISSING)
        self.inputs[name] = Input(texts["type"], default, texts["docs"], DocumentPath(self._source, path), *flags)

    def _flag(self, path: Path, body: dict[str, object], key: str, entry: str) -> bool:
        """Return the Boolean at ``key`` in ``body``, by default False; report another value.

        ``entry``: the words for the whole in the message, such as "an input".
        """
        if type(value := body.get(key)) is not bool and value is not None:
            self._error((*path, key), f"{key} of {entry} must be true or false", "write it without quotes")
        return value is True

    def _output(self, name: str, body: object) -> Any:
        """Return the value of an output, wrapped if its long form declares it sensitive; record its condition.

        The long form is ``{value: V, sensitive: true}``, with ``when`` or both. Any other mapping is the value itself,
        because outputs may be mappings.
        """
        # ``{value: 1}`` alone is such a value, too.
        if type(body) is not dict or "value" not in body or not {"value"} < body.keys() <= _OUTPUT_KEYS | {"value"}:
            return body
        path: Path = ("outputs", name)
        secret = self._flag(path, body, "sensitive", "an output")
        if body.get("when") is not None:
            violations = list(conditions.violations((*path, "when"), body["when"]))
            for violation in violations:
                self._report(violation)
            if not violations:
                self.output_conditions[name] = body["when"]
        return Sensitive(body["value"]) if secret else body["value"]

    def _add_provider(self, name: str, body: object) -> None:
        """Add an entry of ``providers``, whose type is by default its name; report and leave out an invalid entry."""
        path: Path = ("providers", name)
        if type(body) is not dict:
            self._error(path, "a provider must be a mapping", "write {type: vm_host, config: {...}}")
            return
        self._check_keys(path, body, _PROVIDER_KEYS, "provider")
        fields: dict[str, Any] = {"type": name, **dict.fromkeys(_PROVIDER_TEXTS, ""), "config": {}}
        fields |= {key: body[key] for key in fields if body.get(key) is not None}
        violation = _provider_text_violation(path, fields) or _provider_violation(path, fields)
        if violation is not None:
            self._report(violation)
            return
        fields["type"] = reference.uncapitalize_type(fields["type"])
        self.providers[name] = ConfiguredProvider(name, **fields, origin=DocumentPath(self._source, path))

    def _add_defaults(self, section: dict[str, object]) -> dict[str, dict[str, Any]]:
        """Add the section ``defaults`` of one file, which applies to the resources of this file alone.

        Return the defaults of metaparameters by type, which the caller merges into the declarations at once. Defaults
        of attributes are recorded instead, by file, for the catalog.
        """
        defaults: dict[str, dict[str, object]] = {}
        meta_defaults: dict[str, dict[str, object]] = {}
        for written, declared in section.items():
            path: Path = ("defaults", written)
            name = reference.uncapitalize_type(written)
            body: Any = {} if declared is None else declared
            if name in defaults:
                self._error(path, f"defaults of {document.quote_key(written)} are given twice")
            elif self._is_defaults(path, name, body):
                meta_defaults[name] = self._meta(path, body, "")
                defaults[name] = {k: v for k, v in body.items() if v is not None and k not in METAPARAMETERS}
        if defaults:
            self.defaults[self._source.file] = defaults
        return meta_defaults

    def _is_defaults(self, path: Path, name: str, body: Any) -> bool:
        """Return whether an entry of ``defaults`` is a mapping for a type, and can be added.

        Report any other entry, and members that cannot be defaults, such as ``alias``.
        """
        quoted = document.quote_key(str(path[-1]))
        if not reference.TYPE_NAME.match(name):
            self._error(path, f"{quoted} is not the name of a type", "write File, without [...]")
            return False
        if type(body) is not dict:
            self._error(path, "defaults must be a mapping of attributes")
            return False
        for key, reason in _NO_DEFAULTS.items():
            if body.get(key) is not None:
                self._error((*path, key), f"{key} cannot be a default: it {reason}")
        if expression.uses_scope(body, "each"):
            message = f"defaults of {quoted} cannot hold ${{each...}}"
            self._error(path, message, "write it in the resources with for_each")
        return True

    def _meta(self, path: Path, body: dict[str, object], resource: Reference | str) -> dict[str, Any]:
        """Return the valid metaparameters of a resource, or of a type's defaults; report invalid ones.

        With an invalid ``when`` or ``for_each`` the number of resources is unknown. The declaration then gets the
        condition ``when: false``, and makes no resource. Its type is incomplete, so that references to resources of the
        type are not reported as unknown.
        """
        meta = body
        if not METAPARAMETERS.issuperset(body) or None in body.values():
            meta = {key: value for key, value in body.items() if key in METAPARAMETERS and value is not None}
        invalid = self._report_metaparameters(path, meta, resource)
        if not invalid:
            return meta
        is_uncertain = not CARDINALITY.isdisjoint(invalid)
        if (is_uncertain or "alias" in invalid) and isinstance(resource, Reference):
            self.incomplete.add(resource.type)
        if is_uncertain:
            invalid |= CARDINALITY
        valid = {key: value for key, value in meta.items() if key not in invalid}
        return {"when": False, **valid} if is_uncertain else valid

    def _report_metaparameters(self, path: Path, meta: dict[str, Any], resource: Reference | str) -> set[str]:
        """Report the invalid metaparameters of a resource, and return their names.

        A value with expressions is checked by a later stage, once it is known. ``resource``: the reference, for
        messages, or "" for the defaults of a type.
        """
        invalid: set[str] = set()
        has_elements = "for_each" in meta
        if has_elements and self._source.file.endswith(".py"):
            self._error((*path, "for_each"), "for_each is for YAML and JSON", "write a loop in Python", str(resource))
            invalid.add("for_each")
        for key, value in meta.items():
            if type(value) is str and value[-1:] == "]" and key in RELATIONSHIPS:
                continue  # one reference, which is valid: the most frequent metaparameter
            violations = list(metaparameters.violations(key, value))
            if not violations or (key in EVALUATED and expression.holds_expressions(value)):
                continue  # such a value is checked once it is known, and so is one that depends on an element
            if has_elements and key not in CARDINALITY and expression.uses_scope(value, "each"):
                continue
            for violation in violations:
                self.problems.append(self._problem(violation._replace(path=(*path, *violation.path)), str(resource)))
            invalid.add(key)
        return invalid

    def _add_resource(self, key: str, body: Any, meta_defaults: dict[str, dict[str, Any]]) -> None:
        """Add the declaration of one resource, or report its problem.

        ``body``: its attributes and metaparameters. ``meta_defaults``: type → defaults of metaparameters, for those
        that the body does not have. The type of an invalid declaration is incomplete, so that references to its
        resources are not reported as unknown. Two declarations of one resource are a problem unless one has ``when``.
        """
        path = ("resources", key)
        resource = self._reference(path, key, body)
        if resource is None:
            self.incomplete.add(reference.uncapitalize_type(str(key).partition("[")[0]))
            return
        body = _EMPTY if body is None else body
        if type(body) is not dict:
            self.incomplete.add(resource.type)
            self._report_attributes(path, body, resource)
            return
        attributes, meta = body, _EMPTY
        if not METAPARAMETERS.isdisjoint(body):
            meta, attributes = self._meta(path, body, resource), _EMPTY
            if meta is not body:  # ``_meta`` returns ``body`` itself if all of it are metaparameters
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

    def _report_attributes(self, path: Path, body: Any, resource: Reference) -> None:
        """Report a resource whose ``body`` is no mapping. If YAML has read a text, a missing colon may be the cause."""
        number = self._source.position(path, value=True)[0] if type(body) is str else 0
        advice = syntax_hints.missing_colon(self._line(number), number)
        hint = "write each on its own line as attribute: value"
        violation = Violation(path, "the attributes of a resource must be a mapping", hint)
        if advice is None or "\n" in body:
            self._report(violation, str(resource))
            return
        self._report(violation._replace(hint=advice.message), str(resource))
        # The advice has the exact position and a line to paste.
        self.problems[-1] = self.problems[-1]._replace(line=number, column=advice.position[1], paste=advice.paste)

    def _reference(self, path: Path, key: object, body: object = None) -> Reference | None:
        """Return the reference ``key``, such as ``File[/etc/motd]``, or report an invalid one and return None.

        ``body``: the value under this key, for the hint. YAML divides ``File[a: b]`` without quotes into the key
        ``File[a`` and the value ``b]``.
        """
        head, _, rest = key.partition("[") if type(key) is str else ("", "", "")
        name = self._types.get(head)
        # Ten thousand references have a few types: a type that was accepted before needs no check. Quotes in the
        # brackets are left to the parser, which refuses them.
        if name and len(rest) > 1 and rest[-1] == "]" and rest[0] not in "'\"":
            return Reference(name, rest[:-1])
        if type(key) is not str:
            self._error(path, "this must be a reference such as File[/etc/motd]", syntax_hints.value_quoting_hint(key))
            return None
        try:
            parsed = reference.parse(key)
        except ValueError as error:
            self._error(path, text.escape(str(error)), _reference_hint(path, key, body))
            return None
        self._types[head] = parsed.type
        return parsed

    def _list(self, section: str, value: object) -> list[Any]:
        """Return the items of a section that must be a list; report any other value, and return an empty list."""
        if value is None or type(value) is list:
            return value or []
        self._error((section,), f"{section} must be a list")
        return []

    def _add_moved(self, section: object) -> None:
        """Add the entries ``{from: REFERENCE, to: REFERENCE}`` of ``moved``: new titles of recorded resources.

        An invalid entry is reported and left out.
        """
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
        """Add the references of ``removed``: resources whose records the next run forgets."""
        for number, item in enumerate(self._list("removed", section)):
            target = self._reference(("removed", number), item)
            if target:
                self.removed.append(Removed(target, DocumentPath(self._source, ("removed", number))))

    def _add_purges(self, section: object) -> None:
        """Add the entries of ``purge`` (contract §10.7); a wrong one is reported and left out."""
        for number, item in enumerate(self._list("purge", section)):
            path: Path = ("purge", number)
            violations = list(metaparameters.purge_violations(path, item))
            for violation in violations:
                self._report(violation)
            if not violations:
                purge = Purge(
                    reference.uncapitalize_type(item["type"]),
                    item["at_most"],
                    DocumentPath(self._source, path),
                    exceptions=tuple(item.get("except") or ()),
                    where=item.get("where") or {},
                    provider=item.get("provider"),
                    when=True if item.get("when") is None else item["when"],
                )
                self.purges.append(purge)


def _reference_hint(path: Path, key: str, body: object) -> str:
    """Return the hint for the key ``key`` that is no reference, by the likely mistake, or "".

    It may be a reference without its quotes, an attribute that is not indented, or another tool's module (``body``).
    """
    if "[" in key and key[-1] != "]":
        return syntax_hints.value_quoting_hint({key: body}) if type(body) is str else syntax_hints.QUOTING
    if path[0] == "resources" and "[" not in key and type(body) in {str, int, float, bool, list}:
        return "an attribute is indented under its resource"
    return document.module_hint(body)


def _provider_text_violation(path: Path, fields: dict[str, Any]) -> Violation | None:
    """Return the first mistake in the texts of an entry of ``providers``, or None.

    They cannot hold expressions: the provider must be found before these are evaluated.
    """
    for key in ("type", *_PROVIDER_TEXTS):
        if type(fields[key]) is not str:
            return Violation((*path, key), f"{key} of a provider must be a string", "write it in quotes")
        if "${" in fields[key]:
            return Violation((*path, key), f"{key} of a provider cannot hold ${{...}}", "only its config can")
    return None


def _provider_violation(path: Path, fields: dict[str, Any]) -> Violation | None:
    """Return the first mistake in an entry of ``providers`` whose texts are valid, or None."""
    name = str(path[-1])
    if not reference.TYPE_NAME.match(reference.uncapitalize_type(fields["type"])):
        hint = "write type: with the name of the type that it is for"
        return Violation(path, f"{document.quote_key(fields['type'])} is not the name of a type", hint)
    if type(fields["config"]) is not dict:
        return Violation((*path, "config"), "the configuration of a provider must be a mapping")
    if fields["path"] and (fields["source"] or fields["version"]):
        key = "source" if fields["source"] else "version"
        message = f"{key} and path exclude each other: path is one program"
        return Violation((*path, key), message, f"leave {key} out, or path")
    # A Terraform provider serves all types that begin with its name and an underscore.
    if "_" in name and (fields["path"] or fields["source"]):
        hint = "name it as the first word of its types, such as google for google_compute_disk"
        return Violation(path, f"no type can belong to the Terraform provider {document.quote_key(name)}", hint)
    return None
