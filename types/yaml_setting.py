"""Settings in YAML files."""

from lib.path_attribute import file_and_directories
from lib.setting_attributes import TITLE_PATTERNS, setting_attributes
from resource_api import TypeDefinition

TYPE = TypeDefinition(
    name="yaml_setting",
    docs="""Manage single settings of YAML files; comments, order, quotes and other lines stay.

    Yaml_setting[address of the API]:
      path: /etc/app/config.yaml
      key: server.listen
      value: 127.0.0.1:8080

    Yaml_setting[/etc/app/config.yaml:rules[0].port]: {value: 8443}
    Yaml_setting[/etc/app/config.yaml:debug]: {ensure: absent}

A new setting is added at the end of its mapping, with missing mappings and sequences. Mappings that a removal leaves
empty are removed. Elements can be added and removed only at the end of a sequence: otherwise declare the whole
sequence. Unchanged lines keep every byte, except where ruamel.yaml cannot write a layout, such as a mapping in braces
over two lines.

Files are read as YAML 1.2, where `yes` and `22:22` are text; a declared text that YAML 1.1 reads otherwise is quoted.
Dates and tagged values are compared as text. A change that would affect other settings through an alias fails.

Needs the extra `settings` (ruamel.yaml). Invalid YAML, or a file with several documents, is an error that names the
line; nothing is written. A byte order mark stays. A new file has mode 0644, or 0600 if a value is a secret. All changes
of a file, of up to 1 MiB, are one replacement, which keeps owner, mode, ACL and extended attributes.
""",
    attributes=setting_attributes(),
    title_patterns=TITLE_PATTERNS,
    autorequires={"file": file_and_directories},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
