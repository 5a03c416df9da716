"""The attributes of a type for single settings in files of nested mappings and arrays: JSON, YAML, TOML."""

from __future__ import annotations

from lib.path_attribute import path_attribute, validate_attribute
from resource_api import Attribute

STEP = r"""\[[0-9]{1,6}\]|\['[^'[:cntrl:]]+'\]|\["[^"[:cntrl:]]+"\]"""
WORD = r"""[^\s.\[\]'"[:cntrl:]]+"""
TITLE_PATTERNS = [{"pattern": r"(?P<path>/[^:]*):(?P<key>[\s\S]+)\z"}, {"pattern": r"[\s\S]+\z"}]


def setting_attributes() -> dict[str, Attribute]:
    """Return the attributes of all types of settings: the file, the key path in it, and the value."""
    return {
        "ensure": Attribute("Enum[present, absent]", "Whether the file contains the setting.", default="present"),
        "path": path_attribute(),
        "key": Attribute(
            rf"Pattern[/\A({WORD}|{STEP})(\.{WORD}|{STEP})*\z/]",
            "The path of the setting: `server.tls.port`, `rules[0].port` in an array, `labels['a.b']` for a key with a"
            " dot, a blank or a bracket.",
            kind="namevar",
            must_be="a place such as server.tls.port, rules[0].port or labels['a.b']",
        ),
        "value": Attribute(
            "Variant[String, Numeric, Boolean, Array[Data], Hash[String, Data]]",
            "The value. An array or a mapping replaces the whole present one.",
        ),
        "validate_cmd": validate_attribute(),
    }
