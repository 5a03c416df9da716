"""Manifests and their inputs: from bytes to the catalog, with everything that ``validate`` checks."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from resource_api.manifest import json_reader, yaml_reader
from resource_api.manifest.input_values import TextInput
from resource_api.manifest.sections import assemble
from resource_api.plugins.provider_pool import ProviderPool
from tests.fuzz import things
from tests.fuzz.target import target

WORDS: Final = """
    project: include: inputs: defaults: providers: values: resources: moved: removed: outputs: from: to: type: default:
    docs: require: before: notify: subscribe: noop: tag: loglevel: alias: provider: implementation: timeout: lifecycle:
    protect: retain: owned: ignore_changes: replace: replace_on_changes: replace_triggered_by: deleted_with: aliases:
    retry: tries: delay: on_failure: purge: at_most: except: where: when:
    import: external: never delete_first create_first Thing[a] Thing[b] File[/a] Cron[a] User[a] Exec[a] Host[a] ensure:
    present absent size: ratio: mode: parts: tree: shape: peer: body: origin: force: token: pin: serial: ${ $${ }
    ${inputs.a} ${values.a} ${facts.os.name} ${Thing[a].size} ${Thing[b].tree.x.0} Sensitive[String] Optional[Integer]
    &a *a <<: !!str !!int !!binary ? | > "0644" 0644 0o17 0x1f .inf .nan 1e999 ~ null true --- ... %YAML # \t - [ ] { }
    {"$asset":{"text":"x"}} asset: text: path: archive: invoke: function: version: >=1 title_patterns
"""

NAMES: Final = st.sampled_from(["a", "b", "c/d", "é", "a b", "", "x]y", "[", "${inputs.a}", "a'b", "0", "\u202e"])
TYPES: Final = st.sampled_from(["Thing", "thing", "File", "User", "Cron", "Exec", "Host", "Ssh_authorized_key", "Nope"])
REFERENCES: Final = st.builds("{}[{}]".format, TYPES, NAMES)
PATHS: Final = st.one_of(
    st.sampled_from(["${inputs.a}", "${inputs.b}", "${values.a}", "${values.b}", "${facts.os.name}", "${facts.x}"]),
    st.builds("${{{}.{}}}".format, REFERENCES, st.sampled_from(["size", "tree.x", "parts.0", "token", "ensure", "no"])),
)
TEXTS: Final = st.one_of(
    st.text(max_size=8),
    PATHS,
    st.builds("{}{}{}".format, st.text(max_size=3), PATHS, PATHS),
    REFERENCES,
    st.sampled_from(["present", "absent", "0644", "red", "$${x}", "${", "a" * 300, "1.5", "yes"]),
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 200),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
KEYS: Final = st.one_of(TEXTS, st.sampled_from(["asset", "archive", "text", "invoke", "inputs", "sides", "colour"]))
VALUES: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
ATTRIBUTES: Final = [
    *(name for name, attribute in things.TYPE.attributes.items() if attribute),
    *("mode", "owner", "content", "target", "command", "minute", "hour", "user", "home", "ip", "key", "type", "source"),
]
LIFECYCLE: Final = st.fixed_dictionaries(
    {},
    optional={
        "protect": st.booleans() | SCALARS,
        "retain": st.booleans() | SCALARS,
        "owned": st.booleans() | SCALARS,
        "ignore_changes": st.lists(st.sampled_from(ATTRIBUTES), max_size=2) | SCALARS,
        "replace": st.sampled_from(["never", "delete_first", "create_first", "x"]),
        "replace_on_changes": st.lists(st.sampled_from(ATTRIBUTES), max_size=2),
        "replace_triggered_by": st.lists(REFERENCES, max_size=2),
        "deleted_with": REFERENCES | SCALARS,
        "aliases": st.lists(REFERENCES | TEXTS, max_size=2),
        "import": TEXTS,
        "external": st.booleans(),
    },
)
BODY: Final = st.one_of(
    VALUES,
    st.builds(
        lambda attributes, meta: {**attributes, **meta},
        st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES, max_size=5),
        st.fixed_dictionaries(
            {},
            optional={
                **{name: REFERENCES | st.lists(REFERENCES, max_size=3) for name in ("require", "before", "notify")},
                "subscribe": REFERENCES | VALUES,
                "noop": SCALARS,
                "tag": TEXTS | st.lists(TEXTS, max_size=2),
                "loglevel": SCALARS,
                "alias": TEXTS,
                "provider": TEXTS,
                "implementation": TEXTS,
                "timeout": SCALARS | st.dictionaries(st.sampled_from(["create", "update", "x"]), SCALARS, max_size=2),
                "lifecycle": LIFECYCLE | SCALARS,
                "retry": SCALARS | st.dictionaries(st.sampled_from(["tries", "delay", "x"]), SCALARS, max_size=3),
                "on_failure": REFERENCES | st.lists(REFERENCES, max_size=2) | VALUES,
            },
        ),
    ),
)
INPUT: Final = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["String", "Integer[0, 5]", "Sensitive[String]", "Array[Data]", "Nope[", "Data"]),
            "default": VALUES,
            "docs": SCALARS,
        },
    ),
)
PURGE: Final = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | SCALARS,
        "at_most": st.integers(-1, 9) | SCALARS,
        "except": st.lists(TEXTS, max_size=2) | SCALARS,
        "where": st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES, max_size=2) | SCALARS,
        "provider": TEXTS,
        "when": VALUES,
    },
)
MANIFESTS: Final = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {"resources": st.dictionaries(REFERENCES | KEYS, BODY, max_size=5) | VALUES},
        optional={
            "project": SCALARS,
            "include": VALUES,
            "inputs": st.dictionaries(st.sampled_from("ab") | KEYS, INPUT, max_size=3),
            "defaults": st.dictionaries(TYPES | KEYS, BODY, max_size=2),
            "values": st.dictionaries(st.sampled_from("abc") | KEYS, VALUES, max_size=4),
            "providers": st.dictionaries(KEYS, VALUES, max_size=2),
            "moved": st.lists(st.dictionaries(st.sampled_from(["from", "to"]), REFERENCES), max_size=2) | VALUES,
            "removed": st.lists(REFERENCES, max_size=2) | VALUES,
            "purge": st.lists(PURGE, max_size=3) | VALUES,
            "outputs": st.dictionaries(KEYS, VALUES, max_size=3),
        },
    ),
)


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _validate(document: Any, inputs: dict[str, Any] | None = None) -> None:
    runtime = things.runtime(bundled=True)
    with ProviderPool(runtime.registry, runtime.run) as providers:
        catalog = runtime.catalog(assemble([document]), inputs, providers)
    for path in ([], ["resources"], ["resources", "Thing[a]", "tree", 0], ["values", "a", "b"]):
        document.position(path)
    runtime.name(catalog)


@target(generate=MANIFESTS.map(_yaml), words=WORDS)
def manifest_yaml(data: bytes) -> None:
    """YAML manifests: read, assembled, compiled with the bundled types, canonicalized and validated."""
    _validate(yaml_reader.read(data, "site.yaml"))


@target(generate=MANIFESTS.map(_json), words=WORDS.replace(":", '":'))
def manifest_json(data: bytes) -> None:
    """JSON manifests, in the same way."""
    _validate(json_reader.read(data, "site.json"))


SITE: Final = """
inputs:
  text: {type: String, default: ""}
  number: {type: "Integer[0, 100]", default: 1}
  ratio: {type: "Optional[Float]", default: null}
  flag: {type: Boolean, default: false}
  secret: {type: "Sensitive[String[4]]", default: swordfish}
  list: {type: "Array[String]", default: []}
  shape: {type: "Optional[Struct[{sides => Integer, Optional[colour] => Enum[red, green]}]]", default: null}
  data: {type: "Optional[Data]", default: null}
  when: {type: "Optional[Timestamp]", default: null}
  span: {type: "Optional[Timespan]", default: null}
  pattern: {type: "Optional[Regexp]", default: null}
resources:
  Thing[a]: {size: "${inputs.number}", tree: "${inputs.data}", token: "${inputs.secret}", parts: "${inputs.list}"}
  Thing[b]: {tree: "${inputs.text} ${inputs.flag}", shape: "${inputs.shape}", require: "Thing[a]"}
"""
INPUTS: Final = "text number ratio flag secret list shape data when span pattern".split()  # noqa: SIM905 - a list of words


@target(
    generate=st.builds(
        lambda file, arguments: b"\0".join([_yaml(file), *arguments]),
        st.dictionaries(st.sampled_from(INPUTS) | KEYS, VALUES, max_size=4) | VALUES,
        st.lists(
            st.builds(
                lambda name, value: f"{name}={value}".encode("utf-8", "surrogatepass").replace(b"\0", b""),
                st.sampled_from(INPUTS) | st.text(max_size=3),
                TEXTS | VALUES.map(json.dumps),
            ),
            max_size=4,
        ),
    ),
    words=" ".join(f"{name}: {name}=" for name in INPUTS) + " true 12 1e9 [1] {a: 2026-02-28T12:00:00 1-02:03:04.5",
)
def inputs(data: bytes) -> None:
    """Values of inputs: a YAML file, then values of `-i` after NUL characters."""
    file, *options = data.split(b"\0")
    result = yaml_reader.read(file, "inputs.yaml").data
    values = dict(result) if isinstance(result, dict) else {}
    for option in options:
        name, _, value = option.decode("utf-8", "surrogateescape").partition("=")
        values[name] = TextInput(value)
    _validate(yaml_reader.read(SITE.encode(), "site.yaml"), values)
