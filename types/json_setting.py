"""Settings in JSON files."""

from lib.path_attribute import file_and_directories
from lib.setting_attributes import TITLE_PATTERNS, setting_attributes
from resource_api import TypeDefinition

TYPE = TypeDefinition(
    name="json_setting",
    docs="""Manage single settings of JSON files; all other text keeps every byte.

    Json_setting[log driver]:
      path: /etc/docker/daemon.json
      key: log-opts.max-size
      value: 10m

    Json_setting[/etc/app.json:rules[0].port]: {value: 8443}
    Json_setting[/etc/app.json:labels['example.org/tier']]: {ensure: absent}

A new setting is added at the end of its object, with missing objects and arrays, in the style of the file. Objects and
arrays that a removal leaves empty are removed. Elements can be added and removed only at the end of an array: otherwise
declare the whole array. An empty file is an empty object.

Invalid JSON, such as a file with comments, is an error that names the line; nothing is written. A byte order mark
stays. A new file has mode 0644, or 0600 if a value is a secret. All changes of a file, of up to 1 MiB, are one
replacement, which keeps owner, mode, ACL and extended attributes.
""",
    attributes=setting_attributes(),
    title_patterns=TITLE_PATTERNS,
    autorequires={"file": file_and_directories},
    features={"canonicalize", "preflight", "simple_get_filter", "validate"},
)
