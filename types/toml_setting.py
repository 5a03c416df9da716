"""Settings in TOML files."""

from lib.path_attribute import file_and_directories
from lib.setting_attributes import TITLE_PATTERNS, setting_attributes
from resource_api import TypeDefinition

TYPE = TypeDefinition(
    name="toml_setting",
    docs="""Manage single settings of TOML files; comments, order and all other text keep every byte.

    Toml_setting[insecure registry]:
      path: /etc/containers/registries.conf
      key: registry[0].insecure
      value: false

    Toml_setting[/etc/app.toml:server.port]: {value: 8443}
    Toml_setting[/etc/app.toml:server['old name']]: {ensure: absent}

A new setting is added to its table, with missing tables. Tables that a removal leaves empty are removed. Elements can
be added and removed only at the end of an array: otherwise declare the whole array. Dates and times are compared as
text; a declared text is written as text.

Changes need the extra `settings` (tomlkit). Invalid TOML is an error that names the line; nothing is written. A byte
order mark stays. A new file has mode 0644, or 0600 if a value is a secret. All changes of a file, of up to 1 MiB, are
one replacement, which keeps owner, mode, ACL and extended attributes.
""",
    attributes=setting_attributes(),
    title_patterns=TITLE_PATTERNS,
    autorequires={"file": file_and_directories},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
