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

A new setting is added at the end of its mapping, with the mappings and sequences that lead to it. Mappings that become
empty when a setting is removed are removed with it. An element can be added only at the end of a sequence, and removed
only there: otherwise declare the whole sequence. Lines that are not changed keep every byte; only where a changed line
has a layout that ruamel.yaml cannot write, such as a mapping in braces over two lines, the file gets its layout.

Files are read as YAML 1.2, where `yes` and `22:22` are texts; a declared text that YAML 1.1 reads as something else is
written with quotes. Dates, and values with tags of their own, are compared as texts. A change that would be one of
other settings too, because of an alias, fails.

It needs the extra `settings` (ruamel.yaml). A file that is no valid YAML, or has several documents, fails its settings
with its path and the line of the mistake, and is not written. A byte order mark stays. A file that does not exist is
created with mode 0644, or 0600 if a value is a secret. All changes of a file, of up to 1 MiB, are one replacement of
the file, which keeps its owner, mode, ACL and extended attributes.
""",
    attributes=setting_attributes(),
    title_patterns=TITLE_PATTERNS,
    autorequires={"file": file_and_directories},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
