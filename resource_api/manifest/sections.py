"""The sections of a manifest's files, taken one document after the other: fixed structure, names, validate.

Every problem becomes a value with its place; nothing is raised. What to do with the result is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from resource_api.manifest import validate
from resource_api.manifest.validate import Flaw
from resource_api.model.declaration import (
    METAPARAMETERS,
    MISSING,
    ConfiguredProvider,
    Declaration,
    Input,
    Moved,
    Origin,
    Removed,
)
from resource_api.model.values import document, reference, text
from resource_api.model.values._lazy_regex import regex
from resource_api.model.values.errors import Problem
from resource_api.model.values.reference import Reference

if TYPE_CHECKING:
    from resource_api.manifest.validate import Path
    from resource_api.model.values.document import Document

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
    "outputs",
)

_PROVIDER_KEYS: Final = ("type", "version", "config")
_INPUT_KEYS: Final = ("type", "default", "docs")
#: What most resources have of something; nobody writes into a declaration.
_NOTHING: Final[dict[str, Any]] = {}
_NAME: Final = regex(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")


class Gatherer:
    """Takes documents one after the other, and remembers where each name was first given."""

    def __init__(self, problems: list[Problem]) -> None:
        """Begin with the problems that reading has left; those of gathering are added."""
        self.problems = problems
        self.project: str | None = None
        self.inputs: dict[str, Input] = {}
        self.defaults: dict[str, dict[str, dict[str, Any]]] = {}
        self.providers: dict[str, ConfiguredProvider] = {}
        self.named: dict[str, dict[str, Any]] = {"values": {}, "outputs": {}}
        self._origins: dict[tuple[str, str], Origin] = {}
        self.resources: list[Declaration] = []
        #: Type → title → the first that was given it.
        self._titles: dict[str, dict[str, Declaration]] = {}
        self.moved: list[Moved] = []
        self.removed: list[Removed] = []
        self._types: dict[str, str] = {}

    def gather(self, source: Document, *, first: bool) -> None:
        """Take everything that one document says."""
        data = {} if source.data is None else source.data
        if flaw := validate.no_manifest(data):
            self._put(source, flaw)
            return
        self._unknown(source, (), data, SECTIONS)
        self._take_project(source, data.get("project"), first=first)
        for name, body in self._mapping(source, "inputs", data).items():
            if self._new(source, "inputs", name):
                self._take_input(source, name, body)
        for section, taken in self.named.items():
            for name, value in self._mapping(source, section, data).items():
                if self._new(source, section, name):
                    taken[name] = value
        for name, body in self._mapping(source, "providers", data).items():
            if self._new(source, "providers", name):
                self._take_provider(source, name, body)
        metas = self._take_defaults(source, self._mapping(source, "defaults", data))
        for key, body in self._mapping(source, "resources", data).items():
            self._take_resource(source, key, body, metas)
        self._take_moved(source, data.get("moved"))
        self._take_removed(source, data.get("removed"))

    def _put(
        self, source: Document, flaw: Flaw, named: str = "", code: str = "invalid", *, value: bool = False
    ) -> None:
        line, column = source.position(flaw.path, value=value)
        if flaw.hint == document.QUOTING:
            flaw = flaw._replace(hint=source.quoting(line))
        # In a resource the path is: resources, its key, the attribute.
        attribute = str(flaw.path[2]) if named and len(flaw.path) > 2 else None  # noqa: PLR2004
        problem = Problem(attribute, flaw.message, "error", named, source.file, line, column, code, flaw.hint)
        self.problems.append(problem)

    def _add(self, source: Document, path: Path, message: str, hint: str = "", named: str = "") -> None:
        self._put(source, Flaw(path, message, hint), named)

    def _twice(self, source: Document, path: Path, message: str, first: Origin | Declaration) -> None:
        self._put(source, Flaw(path, message, f"first at {first.place()}"), code="duplicate")

    def _unknown(self, source: Document, path: Path, mapping: dict[str, Any], known: tuple[str, ...]) -> None:
        for flaw in validate.unknown(path, mapping, known):
            self._put(source, flaw, code="unknown_key")

    def _mapping(self, source: Document, section: str, data: dict[str, Any]) -> dict[str, Any]:
        """Give a section; an empty one when it is missing, empty, or no mapping."""
        found = data.get(section)
        if found is None or type(found) is dict:
            return found or {}
        example = "Type[title]: with its attributes beneath" if section == "resources" else "name: value"
        if validate.cut(found):
            flaw = Flaw((section,), f"{section} must be a mapping, and this is a reference without its ']'")
            self._put(source, flaw._replace(hint=document.QUOTING), value=True)
            return {}
        self._add(source, (section,), f"{section} must be a mapping", f"write {example}")
        return {}

    def _new(self, source: Document, section: str, name: str) -> bool:
        """Whether a name can be taken: well formed, and not given in an earlier file."""
        origin = Origin(source, (section, name))
        first = self._origins.setdefault((section, name), origin)
        kind = section.removesuffix("s")
        if first is not origin:
            self._twice(source, origin.path, f"{kind} {document.quote_key(name)} is given twice", first)
        elif not _NAME.match(name):
            message = f"{document.quote_key(name)} cannot be the name of an {kind}" if kind[0] in "io" else ""
            message = message or f"{document.quote_key(name)} cannot be the name of a {kind}"
            self._add(source, origin.path, message, "use letters, digits, _ and -")
        else:
            return True
        return False

    def _take_project(self, source: Document, value: Any, *, first: bool) -> None:
        if value is None:
            return
        if not first:
            self._add(source, ("project",), "project belongs into the first file, not into an included one")
        elif type(value) is not str or not reference.STACK_NAME.match(value):
            hint = "write it in quotes" if type(value) in (int, float, bool) else "begin with a letter or digit"
            self._add(source, ("project",), "project must be 1 to 100 letters, digits, '.', '_' and '-'", hint)
        else:
            self.project = value

    def _take_input(self, source: Document, name: str, body: Any) -> None:
        path: Path = ("inputs", name)
        body = {} if body is None else body
        if type(body) is not dict:
            self._add(source, path, "an input must be a mapping", "write {type: String, default: ...}")
            return
        self._unknown(source, path, body, _INPUT_KEYS)
        given = {key: body[key] for key in ("type", "docs") if body.get(key) is not None}
        for key, value in given.items():
            if type(value) is not str:
                hint = "a data type with [...] needs quotes" if key == "type" else "write it in quotes"
                self._add(source, (*path, key), f"{key} of an input must be a string", hint)
        default = body.get("default", MISSING)
        self.inputs[name] = Input(given.get("type", "Any"), default, given.get("docs", ""), Origin(source, path))

    def _take_provider(self, source: Document, name: str, body: Any) -> None:
        """Take a configured provider; without ``type`` it is the default one of the type that it is named like."""
        path: Path = ("providers", name)
        if type(body) is not dict:
            self._add(source, path, "a provider must be a mapping", "write {type: vm_host, config: {...}}")
            return
        self._unknown(source, path, body, _PROVIDER_KEYS)
        given = {"type": name, "version": "", **{key: value for key, value in body.items() if value is not None}}
        for key in ("type", "version"):
            if type(given[key]) is not str:
                self._add(source, (*path, key), f"{key} of a provider must be a string", "write it in quotes")
                return
        type_name = given["type"][:1].lower() + given["type"][1:]
        config = given.get("config", {})
        if not reference.TYPE_NAME.match(type_name):
            hint = "write type: with the name of the type that it is for"
            self._add(source, path, f"{document.quote_key(given['type'])} is not the name of a type", hint)
        elif type(config) is not dict:
            self._add(source, (*path, "config"), "the configuration of a provider must be a mapping")
        else:
            self.providers[name] = ConfiguredProvider(name, type_name, given["version"], config, Origin(source, path))

    def _take_defaults(self, source: Document, section: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Keep the attributes' defaults; give those of metaparameters, by type."""
        taken: dict[str, dict[str, Any]] = {}
        metas: dict[str, dict[str, Any]] = {}
        for spelt, body in section.items():
            path: Path = ("defaults", spelt)
            name = spelt[:1].lower() + spelt[1:]
            if not reference.TYPE_NAME.match(name):
                self._add(
                    source, path, f"{document.quote_key(spelt)} is not the name of a type", "write File, without [...]"
                )
            elif name in taken:
                self._add(source, path, f"defaults of {document.quote_key(spelt)} are given twice")
            elif type(body) is not dict:
                self._add(source, path, "defaults must be a mapping of attributes")
            else:
                if body.get("alias") is not None:
                    self._add(source, (*path, "alias"), "alias cannot be a default: it names one resource")
                metas[name] = self._meta(source, path, body, "")
                taken[name] = {k: v for k, v in body.items() if v is not None and k not in METAPARAMETERS}
        if taken:
            self.defaults[source.file] = taken
        return metas

    def _meta(self, source: Document, path: Path, body: dict[str, Any], named: Reference | str) -> dict[str, Any]:
        """Give the metaparameters among the keys of ``body`` that are declared, their shape checked."""
        meta = body
        if not METAPARAMETERS.issuperset(body) or None in body.values():
            meta = {key: value for key, value in body.items() if key in METAPARAMETERS and value is not None}
        for key, value in meta.items():
            if validate.sound(key, value):
                continue
            for flaw in validate.flaws(key, value):
                self._put(source, flaw._replace(path=(*path, *flaw.path)), str(named))
        return meta

    def _take_resource(self, source: Document, key: str, body: Any, metas: dict[str, dict[str, Any]]) -> None:
        path = ("resources", key)
        named = self._reference(source, path, key, body)
        if named is None:
            return
        if type(body) is not dict:
            if body is not None:
                hint = "write each on its own line as attribute: value"
                self._add(source, path, "the attributes of a resource must be a mapping", hint, str(named))
            body = _NOTHING
        attributes, meta = body, _NOTHING
        if not METAPARAMETERS.isdisjoint(body):
            meta, attributes = self._meta(source, path, body, named), _NOTHING
            if meta is not body:
                attributes = {name: value for name, value in body.items() if name not in METAPARAMETERS}
        if metas and metas.get(named.type):
            meta = {name: value for name, value in metas[named.type].items() if name not in body} | meta
        declared = Declaration(named.type, named.title, attributes, meta, source, key)
        titles = self._titles.get(named.type) or self._titles.setdefault(named.type, {})
        first = titles.setdefault(named.title, declared)
        if first is declared:
            self.resources.append(declared)
        else:
            self._twice(source, path, f"{text.escape(str(named))} is declared twice", first)

    def _reference(self, source: Document, path: Path, key: Any, body: Any = None) -> Reference | None:
        """Read a reference, or add what is wrong with it; ``body`` is what stands behind it, as its value."""
        head, _, rest = key.partition("[") if type(key) is str else ("", "", "")
        name = self._types.get(head)
        # Ten thousand references name a few types: what was accepted once needs no second look.
        if name and len(rest) > 1 and rest[-1] == "]" and rest[0] not in "'\"":
            return Reference(name, rest[:-1])
        if type(key) is not str:
            self._add(source, path, "this must be a reference such as File[/etc/motd]", validate.torn(key))
            return None
        try:
            found = reference.parse(key)
        except ValueError as error:
            hint = ""
            if "[" in key and key[-1] != "]":
                hint = validate.torn({key: body}) if type(body) is str else document.QUOTING
            self._add(source, path, text.escape(str(error)), hint)
            return None
        self._types[head] = found.type
        return found

    def _list(self, source: Document, section: str, value: Any) -> list[Any]:
        if value is None or type(value) is list:
            return value or []
        self._add(source, (section,), f"{section} must be a list")
        return []

    def _take_moved(self, source: Document, section: Any) -> None:
        for number, pair in enumerate(self._list(source, "moved", section)):
            path: Path = ("moved", number)
            if type(pair) is not dict or not {"from", "to"} <= pair.keys():
                hint = 'write {from: "Type[old]", to: "Type[new]"}'
                self._add(source, path, "what moved is a mapping with from and to", hint)
                continue
            self._unknown(source, path, pair, ("from", "to"))
            origin = self._reference(source, (*path, "from"), pair["from"])
            target = self._reference(source, (*path, "to"), pair["to"])
            if origin and target:
                self.moved.append(Moved(origin, target, Origin(source, path)))

    def _take_removed(self, source: Document, section: Any) -> None:
        for number, item in enumerate(self._list(source, "removed", section)):
            found = self._reference(source, ("removed", number), item)
            if found:
                self.removed.append(Removed(found, Origin(source, ("removed", number))))
