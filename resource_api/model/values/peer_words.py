"""The words of Puppet, Ansible, Salt, Terraform and Pulumi that users write from habit, and what they are called here.

Data only; ``suggestions`` looks words up. An entry is the word here and a sentence about it, either of them may be
empty. Never a command-line option that deletes or replaces something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOOP: Final = ("", "a YAML manifest has no loops: write each resource, or use a loop in a Python manifest")
_CONDITION: Final = ("", "a YAML manifest has no conditions: use 'if' in a Python manifest, or choose by tags")
_RIGHTS: Final = ("", "the whole run has the rights of the user who starts it: start it by sudo")
_GUARD: Final = ("", "a resource changes only what differs, so that it needs no guard; only an exec has one")
_REPORT: Final = ("", "the type decides what is a change and what is a failure")
_RETRY: Final = ("", "no step is repeated; an exec has 'tries' and 'try_sleep'")
_HOSTS: Final = ("", "a manifest is about one machine; 'apply MANIFEST --on WHERE' does it on others")
_REGISTER: Final = ("", "attributes of another resource are referred to, as in ${File[/etc/motd].checksum}")
_HANDLER: Final = (
    "",
    "every resource can be notified: write it under resources, and notify: Service[nginx] where needed",
)
_ONE_EACH: Final = ("", "a resource is one thing: declare a resource for each name")
_TREE: Final = ("", "a resource is one file or directory; one with all that is in it is a File_tree[/srv/www]")
_TEMPLATE: Final = ("content", "It may contain ${inputs.x}; the function 'template' makes it from a Jinja2 template")
_LINE: Final = ("", "single lines are resources of their own, of the types file_line and block_in_file")
_LISTS: Final = ("", "only an apt_source calls apt-get update; otherwise run it by an exec before the package")
_DOWNLOAD: Final = ("source", "A download needs its SHA-256: source: {archive: {url: ..., sha256: ...}}")
_MEMBERSHIP: Final = ("membership", "With minimum, the user stays in other groups too")
_ENTRIES: Final = ("permission", "An entry is one text: user:alice:rwx, or default:group:staff:rx")
_REQUIRE: Final = ("require", "As in require: Package[nginx]")
_SUBSCRIBE: Final = ("subscribe", "As in subscribe: File[/etc/nginx/nginx.conf]")
_RESTART: Final = ("running", "It restarts when what it subscribes to has changed")
_ENTRY: Final = ("resources", "Each key in it is a reference such as Package[nginx]")
_PLAYS: Final = ("resources", "A manifest has no plays: it lists resources, and their order is the order of execution")
_ASKS_NOT: Final = ("", "this command asks nothing; leave it out")
_INPUT: Final = ("-i", "As in -i NAME=VALUE")
_LIMIT: Final = ("--on", "As in --on 'web[1:50]', which names hosts; --target selects resources")
_ROOT: Final = ("", "the run has the rights of the user who starts it: start it by sudo")
_READS_ONLY: Final = ("", "this command changes nothing; leave it out")
_CONFIRMS: Final = ("", "destroy shows what it would delete, and asks on a terminal; its help has the other way")
_LOCK: Final = ("", "one run at a time changes state; its lock ends with its process")
_VAULT: Final = ("", "secrets are sensitive inputs: -i NAME=@FILE; --key encrypts those in state")
_NO_INIT: Final = ("", "nothing has to be prepared: 'plan MANIFEST' and 'apply MANIFEST' are enough")

#: Salt's modules as keys under a name: the type is part of the reference.
_SALT: Final = {
    "file.managed": ("", "the type is part of the reference: File[/etc/motd], and 'source' or 'content' under it"),
    "file.directory": ("", "the type is part of the reference: File[/srv/www], and ensure: directory under it"),
    "file.symlink": ("", "the type is part of the reference: File[/srv/www], and 'target' under it"),
    "file.absent": ("", "the type is part of the reference: File[/etc/motd], and ensure: absent under it"),
    "pkg.installed": ("", "the type is part of the reference: Package[nginx], and ensure: present under it"),
    "pkg.latest": ("", "the type is part of the reference: Package[nginx], and ensure: latest under it"),
    "pkg.removed": ("", "the type is part of the reference: Package[nginx], and ensure: absent under it"),
    "pkg.purged": ("", "the type is part of the reference: Package[nginx], and ensure: purged under it"),
    "service.running": ("", "the type is part of the reference: Service[nginx], and ensure: running under it"),
    "service.dead": ("", "the type is part of the reference: Service[nginx], and ensure: stopped under it"),
    "service.enabled": ("", "the type is part of the reference: Service[nginx], and enable: true under it"),
    "cmd.run": ("", "the type is part of the reference: Exec[NAME], and 'command' under it"),
    "cmd.wait": ("", "the type is part of the reference: Exec[NAME], and refreshonly: true under it"),
    "user.present": ("", "the type is part of the reference: User[alice]"),
    "group.present": ("", "the type is part of the reference: Group[staff]"),
    "cron.present": ("", "the type is part of the reference: Cron[NAME], and 'command' under it"),
    "host.present": ("", "the type is part of the reference: Host[NAME], and 'ip' under it"),
}

#: Metaparameters: they are the same for every type.
_META: Final = {
    **_SALT,
    **dict.fromkeys(("depends_on", "dependson", "requires", "needs", "dependencies", "after"), _REQUIRE),
    **dict.fromkeys(("watch", "listen", "onchanges", "subscribes", "triggers"), _SUBSCRIBE),
    **dict.fromkeys(("watch_in", "listen_in", "onchanges_in", "notifies"), ("notify", "As in notify: Service[nginx]")),
    **dict.fromkeys(("require_in", "required_by", "prereq_in", "preceeds"), ("before", "As in before: Service[nginx]")),
    **dict.fromkeys(("when", "if", "_if", "only_if", "not_if", "condition"), _CONDITION),
    **dict.fromkeys(("loop", "with_items", "with_dict", "with_list", "with_fileglob", "loop_control", "until"), _LOOP),
    **dict.fromkeys(("for_each", "foreach", "count", "each", "dynamic"), _LOOP),
    **dict.fromkeys(("become", "become_user", "become_method", "sudo", "_sudo", "_sudo_user"), _RIGHTS),
    **dict.fromkeys(("runas", "run_as", "su", "_su_user"), _RIGHTS),
    **dict.fromkeys(("onlyif", "unless", "creates", "refreshonly", "check_cmd"), _GUARD),
    **dict.fromkeys(("changed_when", "failed_when", "ignore_errors", "ignore_unreachable", "onfail"), _REPORT),
    **dict.fromkeys(("retries", "retry", "delay", "poll", "async"), _RETRY),
    **dict.fromkeys(("delegate_to", "run_once", "hosts", "connection", "local_action", "throttle"), _HOSTS),
    **dict.fromkeys(("register", "output", "outputs", "set_fact"), _REGISTER),
    **dict.fromkeys(("handlers", "handler"), _HANDLER),
    **dict.fromkeys(("names", "items", "block"), _ONE_EACH),
    "tags": ("tag", "A string or a list"),
    **dict.fromkeys(("check_mode", "dry_run"), ("noop", "")),
    "no_log": ("", "a value is kept out of logs where it comes from an input with sensitive: true"),
    "aliases": ("alias", "Former names are under lifecycle: {aliases: [...]}"),
    **dict.fromkeys(("prevent_destroy", "protect"), ("lifecycle", "As in lifecycle: {protect: true}")),
    "ignore_changes": ("lifecycle", "As in lifecycle: {ignore_changes: [content]}"),
    "create_before_destroy": ("lifecycle", "As in lifecycle: {replace: create_first}"),
    "replace_on_changes": ("lifecycle", "As in lifecycle: {replace_on_changes: [uid]}"),
    "replace_triggered_by": ("lifecycle", 'As in lifecycle: {replace_triggered_by: ["File[/etc/motd]"]}'),
    "timeouts": ("timeout", "Seconds, or as in timeout: {create: 600}"),
    "options": ("", "there are no resource options: metaparameters stand beside the attributes"),
    **dict.fromkeys(("properties", "parameters", "args"), ("", "attributes stand directly under the reference")),
    "order": ("", "the order in the file is the order of execution, corrected by relationships"),
    "priority": ("", "the order in the file is the order of execution, corrected by relationships"),
    "stage": ("", "the order in the file is the order of execution, corrected by relationships"),
    "schedule": ("", "a run does all that it selects; run it by cron or a timer when it shall run"),
    "audit": ("lifecycle", "As in lifecycle: {external: true}, which reads the resource and never changes it"),
    **dict.fromkeys(("failhard", "any_errors_fatal"), ("", "--fail-fast ends a run after the first failure")),
    "rescue": ("", "a failed resource skips those that depend on it, and nothing else runs instead"),
    "always": ("", "a failed resource skips those that depend on it, and nothing else runs instead"),
    "vars": ("", "variables are under 'values' or 'inputs', and referred to as ${values.x} or ${inputs.x}"),
    "provisioner": ("", "a command is a resource of its own: Exec[NAME]"),
    "show_diff": ("", "a sensitive value is never shown; all other changes are"),
    "state": ("ensure", "It is usually present or absent"),
    "running": ("ensure", "As in ensure: running"),
    **dict.fromkeys(("installed", "present", "exists"), ("ensure", "As in ensure: present")),
    "enabled": ("enable", "As in enable: true"),
}

_FACTS: Final = {
    **dict.fromkeys(
        ("hostname", "fqdn", "domain", "interfaces", "nodename", "host"),
        ("networking", "As in ${facts.networking.hostname}"),
    ),
    **dict.fromkeys(
        ("ipaddress", "default_ipv4", "ip", "ipv4", "all_ipv4_addresses"),
        ("networking", "As in ${facts.networking.ip}"),
    ),
    **dict.fromkeys(
        ("osfamily", "os_family", "distribution", "operatingsystem"),
        ("os", "As in ${facts.os.family} and ${facts.os.name}"),
    ),
    **dict.fromkeys(
        ("operatingsystemrelease", "osrelease", "distribution_version"), ("os", "As in ${facts.os.release.major}")
    ),
    **dict.fromkeys(
        ("lsbdistcodename", "oscodename", "distribution_release"), ("os", "As in ${facts.os.distro.codename}")
    ),
    **dict.fromkeys(("architecture", "osarch", "cpuarch", "hardwaremodel"), ("os", "As in ${facts.os.architecture}")),
    **dict.fromkeys(
        ("processorcount", "num_cpus", "processor_vcpus"), ("processors", "As in ${facts.processors.count}")
    ),
    **dict.fromkeys(
        ("memorysize_mb", "memtotal_mb", "mem_total"), ("memory", "As in ${facts.memory.system.total_bytes}")
    ),
    **dict.fromkeys(("kernelversion", "kernel_version"), ("kernelrelease", "")),
    **dict.fromkeys(("id", "user_id", "user"), ("identity", "As in ${facts.identity.user}")),
    **dict.fromkeys(("pythonversion", "python_version"), ("python", "As in ${facts.python.version}")),
}

#: Place, or place and what it is about → word → (the word here, a sentence).
WORDS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "attribute": _META,
    "module": _SALT,
    "attribute file": {
        **dict.fromkeys(("state", "type"), ("ensure", "It is present, file, directory, link or absent")),
        **dict.fromkeys(("dest", "destination", "name", "filename"), ("path", "Without it, the title is the path")),
        "src": ("source", "A file of this machine, or an asset; the target of a link is 'target'"),
        **dict.fromkeys(("template", "templatefile"), _TEMPLATE),
        **dict.fromkeys(("contents", "text", "body", "data", "inline"), ("content", "")),
        **dict.fromkeys(("recurse", "recurselimit", "source_dir", "sourceselect", "file_mode", "dir_mode"), _TREE),
        **dict.fromkeys(("permissions", "perms", "file_permission"), ("mode", 'As in mode: "0644"')),
        "user": ("owner", ""),
        **dict.fromkeys(("link", "link_target", "to"), ("target", "It makes a link")),
        **dict.fromkeys(("line", "regexp", "insertafter", "match", "replace", "append", "marker"), _LINE),
        "makedirs": ("", "a directory is a resource of its own: File[/srv/www], with ensure: directory"),
        "parents": ("", "a directory is a resource of its own: File[/srv/www], with ensure: directory"),
        "purge": ("", "what is not declared stays, but in a File_tree[/srv/www] with purge: true"),
        "remote_src": ("", "'source' is always a file of this machine; leave it out"),
        "backup": ("", "only file and file_tree keep copies of what they overwrite"),
        "validate": ("validate_cmd", ""),
        **dict.fromkeys(("source_hash", "checksum_value", "sha256"), ("source", "{asset: {url: ..., sha256: ...}}")),
        "url": ("source", "A download needs its SHA-256: source: {asset: {url: ..., sha256: ...}}"),
        "follow": ("", "a link is managed as a link; name the file that it leads to"),
    },
    "attribute file_line": {
        **dict.fromkeys(("regexp", "regex", "pattern"), ("match", "It finds the line as it was and as it will be")),
        "search_string": ("match", "It is a regular expression"),
        "insertafter": ("after", "A regular expression; without it, new lines are added at the end"),
        "backrefs": ("", "'line' is the whole new line; nothing of the old one is kept"),
        "replace": ("", "with lifecycle: {ignore_changes: [line]}, a line that is found stays as it is"),
        "append_on_no_match": ("", "a line that is not found is added"),
        "match_for_absence": ("", "ensure: absent removes what 'match' finds; leave it out"),
        **dict.fromkeys(("dest", "destfile", "name", "file"), ("path", "")),
        "validate": ("validate_cmd", ""),
        "create": ("", "a file that does not exist is created; leave it out"),
        **dict.fromkeys(("owner", "group", "mode"), ("", "declare the file too, as a resource of the type 'file'")),
    },
    "attribute block_in_file": {
        **dict.fromkeys(("content", "text"), ("block", "")),
        "insertafter": ("after", "A regular expression; without it, new blocks are added at the end"),
        **dict.fromkeys(("dest", "destfile", "file"), ("path", "")),
        **dict.fromkeys(("marker_begin", "marker_end"), ("marker", "{mark} in it stands for BEGIN and END")),
        "validate": ("validate_cmd", ""),
        "create": ("", "a file that does not exist is created; leave it out"),
        **dict.fromkeys(("owner", "group", "mode"), ("", "declare the file too, as a resource of the type 'file'")),
    },
    "attribute ini_setting": {
        **dict.fromkeys(("option", "key", "name"), ("setting", "")),
        **dict.fromkeys(("dest", "file", "filename"), ("path", "")),
        "no_extra_spaces": ("key_val_separator", "As in key_val_separator: '='"),
        "show_diff": ("", "a sensitive value is never shown; all other changes are"),
        "create": ("", "a file that does not exist is created; leave it out"),
        **dict.fromkeys(("owner", "group", "mode"), ("", "declare the file too, as a resource of the type 'file'")),
    },
    "attribute mount": {
        "src": ("device", ""),
        "path": ("name", "Without it, the title is the mount point"),
        "opts": ("options", ""),
        "passno": ("pass", ""),
        "state": ("ensure", "It is mounted, unmounted, present or absent"),
        **dict.fromkeys(("atboot", "boot"), ("options", "With noauto, nothing is mounted when the machine starts")),
        **dict.fromkeys(("fstab", "target"), ("", "entries are in /etc/fstab; leave it out")),
    },
    "attribute sysctl": {
        "sysctl_set": ("apply", ""),
        **dict.fromkeys(("sysctl_file", "config", "file"), ("target", "")),
        "val": ("value", ""),
        **dict.fromkeys(("reload", "ignoreerrors"), ("", "each value is set in the kernel by itself; leave it out")),
        "persist": ("", "the value is set now and when the machine starts; with apply: false only the latter"),
        "state": ("ensure", "It is present or absent"),
    },
    "attribute tidy": {
        **dict.fromkeys(("patterns", "pattern"), ("matches", "As in matches: ['*.tmp']")),
        "paths": ("path", "A resource is about one directory"),
        "age_stamp": ("type", ""),
        "use_regex": ("", "'matches' has patterns of the shell, such as *.tmp"),
    },
    "attribute git_checkout": {
        **dict.fromkeys(("repo", "url"), ("source", "")),
        **dict.fromkeys(("version", "ref", "tag", "commit", "rev"), ("revision", "")),
        **dict.fromkeys(("dest", "target", "name"), ("path", "Without it, the title is the path")),
        "owner": ("user", ""),
        "key_file": ("identity", ""),
        "recursive": ("submodules", ""),
        "update": ("", "a branch is always brought up to date; a commit stays"),
    },
    "attribute systemd_unit": {
        **dict.fromkeys(
            ("enable", "enabled", "active", "state"), ("", "a Service[NAME] starts it, and enables it: enable: true")
        ),
        "daemon_reload": ("", "systemd reads a changed unit file by itself; leave it out"),
    },
    "attribute acl": {
        **dict.fromkeys(
            ("permissions", "entries", "entry", "acls"), ("permission", "As in permission: [user:alice:rwx]")
        ),
        **dict.fromkeys(("entity", "etype", "acl_type", "acl_name", "perms", "default"), _ENTRIES),
        "action": ("membership", "set is membership: minimum, exact is the default, purge is ensure: absent"),
        "state": ("ensure", "It is present or absent"),
        **dict.fromkeys(("recurse", "recursemode"), ("recursive", "")),
        "follow": ("", "a symbolic link has no list; name the file that it leads to"),
        "recalculate_mask": ("", "a mask that is not declared grants what is declared; leave it out"),
    },
    "attribute capability": {
        **dict.fromkeys(("capabilities", "caps", "cap"), ("capability", "As in capability: cap_net_raw=ep")),
        **dict.fromkeys(("file", "name", "dest"), ("path", "Without it, the title is the path")),
        "state": ("ensure", "It is present or absent"),
    },
    "attribute mysql_database": {
        **dict.fromkeys(("encoding", "character_set"), ("charset", "As in charset: utf8mb4")),
        "collation": ("collate", "As in collate: utf8mb4_unicode_ci"),
        "state": ("ensure", "It is present or absent"),
    },
    "attribute mysql_user": {
        **dict.fromkeys(("host", "user"), ("name", "It has both: app@localhost")),
        **dict.fromkeys(("encrypted", "plugin_hash_string", "plugin_auth_string"), ("password_hash", "")),
        **dict.fromkeys(("priv", "privileges", "append_privs"), ("", "rights are the type mysql_grant")),
        "tls_requires": ("tls_options", "As in tls_options: [SSL]"),
        "password_expire_interval": ("password_lifetime", "In days"),
        "account_locking": ("locked", ""),
        "state": ("ensure", "It is present or absent"),
    },
    "attribute mysql_grant": {
        **dict.fromkeys(("privilege", "priv", "grant"), ("privileges", "As in privileges: [SELECT]")),
        **dict.fromkeys(("database", "db", "object_name"), ("table", "As in shop.* or shop.orders")),
        **dict.fromkeys(("grant_option", "with_grant"), ("options", "As in options: [GRANT]")),
        "host": ("user", "It has both: app@localhost"),
        "state": ("ensure", "It is present or absent"),
    },
    "attribute postgresql_grant": {
        **dict.fromkeys(("privileges", "privs", "priv"), ("privilege", "As in privilege: [SELECT]")),
        **dict.fromkeys(("db", "login_db"), ("database", "")),
        **dict.fromkeys(("objs", "obj", "object", "table"), ("object_name", "A table is 'SCHEMA.NAME'")),
        **dict.fromkeys(("type", "objtype"), ("object_type", "")),
        "roles": ("role", "A resource is about one role"),
        "schema": ("object_name", "As in public.orders; with object_type: tables it is the schema"),
        "state": ("ensure", "It is present or absent"),
    },
    "attribute concat": {
        **dict.fromkeys(
            ("fragments", "src", "directory"), ("source", "The directory of the fragments, or their paths")
        ),
        **dict.fromkeys(("dest", "target", "name"), ("path", "Without it, the title is the path")),
        "delimiter": ("separator", ""),
        "regexp": ("matches", "It is a pattern of the shell, such as *.conf"),
        "warn": ("header", "It is the text itself"),
        "validate": ("validate_cmd", ""),
    },
    "attribute archive": {
        **dict.fromkeys(("dest", "extract_path", "extract_to", "name"), ("path", "Without it, the title is the path")),
        "src": ("source", "As in source: {archive: {file: app.tar.gz}}"),
        **dict.fromkeys(("url", "checksum", "source_hash", "sha256"), _DOWNLOAD),
        "creates": ("", "an archive is unpacked where something differs, and needs no guard"),
        "extract": ("", "an archive is always unpacked; leave it out"),
        "remote_src": ("", "a file in 'source' is always on this machine; leave it out"),
        "user": ("owner", ""),
    },
    "attribute exec": {
        **dict.fromkeys(("cmd", "_raw_params", "argv", "run", "script", "commands"), ("command", "")),
        **dict.fromkeys(("chdir", "dir", "workdir", "working_dir", "directory"), ("cwd", "")),
        **dict.fromkeys(("become_user", "runas", "run_as", "sudo_user", "_sudo_user"), ("user", "")),
        "executable": ("shell", "With shell: true, /bin/sh runs the command"),
        "removes": ("onlyif", "As in onlyif: test -e /etc/motd"),
        "test": ("unless", "It runs only if this command fails"),
        "stdin": ("input", ""),
        **dict.fromkeys(("env", "env_vars", "environ"), ("environment", "")),
        **dict.fromkeys(("retries", "retry"), ("tries", "")),
        **dict.fromkeys(("delay", "poll", "interval"), ("try_sleep", "")),
        **dict.fromkeys(("rc", "exit_code", "success_retcodes", "valid_exit_codes"), ("returns", "")),
        **dict.fromkeys(("only_if", "if", "when", "_if"), ("onlyif", "It is a command that must succeed")),
        "not_if": ("unless", ""),
        "triggers": ("subscribe", "With refreshonly: true it runs only when it is notified"),
        "onchanges": ("subscribe", "With refreshonly: true it runs only when it is notified"),
        **dict.fromkeys(
            ("ensure", "state"), ("", "a command has no state; creates, onlyif and unless decide if it runs")
        ),
        "umask": ("", "write the command with shell: true, and 'umask' before it"),
        "warn": ("", "there is nothing to switch off; leave it out"),
        "interpreter": ("command", "As a list: [/usr/bin/python3, -c, ...]"),
    },
    "attribute package": {
        "state": ("ensure", "It is present, absent, purged, latest or a version"),
        **dict.fromkeys(("update_cache", "refresh", "cache_valid_time", "upgrade"), _LISTS),
        **dict.fromkeys(("pkgs", "packages", "pkg", "names", "sources"), _ONE_EACH),
        **dict.fromkeys(
            ("default_release", "install_recommends", "dpkg_options"),
            ("install_options", "As in install_options: [--no-install-recommends]"),
        ),
        "fromrepo": ("install_options", "As in install_options: [--target-release=stable]"),
        **dict.fromkeys(("source", "deb"), ("", "packages come from the sources of apt; run 'dpkg -i' by an exec")),
        **dict.fromkeys(("hold", "held"), ("mark", "As in mark: hold")),
        "latest": ("ensure", "As in ensure: latest"),
        "autoremove": ("", "only declared packages are removed"),
    },
    "attribute service": {
        **dict.fromkeys(("running", "started"), ("ensure", "As in ensure: running")),
        **dict.fromkeys(("onboot", "boot", "startup"), ("enable", "As in enable: true")),
        **dict.fromkeys(("masked", "mask"), ("enable", "As in enable: mask")),
        **dict.fromkeys(("restarted", "restart"), ("subscribe", "The service is restarted when one of these changes")),
        "reloaded": ("refresh", "With refresh: reload, a change of what it subscribes to reloads it"),
        "reload": ("refresh", "With refresh: reload, a change of what it subscribes to reloads it"),
        "daemon_reload": ("", "'systemctl daemon-reload' is called where a unit file has changed; leave it out"),
        **dict.fromkeys(("hasstatus", "hasrestart", "pattern", "status"), ("", "systemd knows; leave it out")),
    },
    "attribute user": {
        **dict.fromkeys(("append", "remove_groups", "optional_groups"), _MEMBERSHIP),
        "group": ("gid", "The primary group; the others are in 'groups'"),
        **dict.fromkeys(("fullname", "gecos", "full_name"), ("comment", "")),
        **dict.fromkeys(("create_home", "createhome", "manage_home", "move_home"), ("managehome", "")),
        **dict.fromkeys(("home_dir", "homedir"), ("home", "")),
        "password_hash": ("password", "It is the hash"),
        **dict.fromkeys(
            ("ssh_key", "ssh_keys", "public_keys", "authorized_keys"),
            ("", "a key is a resource of its own: Ssh_authorized_key[NAME]"),
        ),
        "generate_ssh_key": ("", "run ssh-keygen by an exec, with 'creates'"),
        **dict.fromkeys(("expires", "account_expires"), ("expiry", "")),
        "non_unique": ("allowdupe", ""),
        "update_password": ("", "the password is changed where it differs; lifecycle: {ignore_changes: [password]}"),
        "username": ("name", "Without it, the title is the name"),
    },
    "attribute group": {
        **dict.fromkeys(("addusers", "users"), ("members", "")),
        "id": ("gid", ""),
    },
    "attribute cron": {
        **dict.fromkeys(("job", "cmd"), ("command", "")),
        **dict.fromkeys(("day", "daymonth", "dom"), ("monthday", "")),
        **dict.fromkeys(("dayweek", "dow", "day_of_week"), ("weekday", "")),
        **dict.fromkeys(("special_time", "period"), ("special", "")),
        "identifier": ("name", ""),
        "cron_file": ("", "jobs are in the crontabs of users; for /etc/cron.d declare a file"),
        **dict.fromkeys(("env", "env_vars"), ("environment", "")),
        "disabled": ("ensure", "As in ensure: absent"),
    },
    "attribute host": {
        **dict.fromkeys(("ip_address", "address", "ipaddr"), ("ip", "")),
        **dict.fromkeys(("aliases", "host_alias"), ("host_aliases", "")),
        "hostname": ("name", "Without it, the title is the name"),
        **dict.fromkeys(("path", "file"), ("target", "")),
    },
    "attribute ssh_authorized_key": {
        **dict.fromkeys(("key_options", "ssh_options"), ("options", "")),
        **dict.fromkeys(("enc", "key_type"), ("type", "")),
        **dict.fromkeys(("path", "file", "config"), ("target", "")),
        "comment": ("name", "The comment in the file is the name, which without it is the title"),
        **dict.fromkeys(("exclusive", "purge"), ("", "keys that are not declared stay as they are")),
    },
    "attribute apt_key": {
        **dict.fromkeys(("url", "keyserver", "server", "file"), ("source", "")),
        **dict.fromkeys(("data", "key"), ("content", "")),
        "name": ("id", ""),
    },
    "read_only package": {"version": ("ensure", 'A version is written as ensure: "1.24.0-1"')},
    "read_only service": {"state": ("ensure", "It is running or stopped")},
    "read_only file": {
        "uid": ("owner", "By name or number"),
        "gid": ("group", "By name or number"),
        "checksum": ("source", "A content with its SHA-256 is source: {asset: {file: ..., sha256: ...}}"),
    },
    "read_only user": {"gid_number": ("gid", "By name or number")},
    "lifecycle": {
        "prevent_destroy": ("protect", ""),
        "create_before_destroy": ("replace", "As in replace: create_first"),
        **dict.fromkeys(("delete_before_replace", "deletebeforereplace"), ("replace", "As in replace: delete_first")),
        **dict.fromkeys(("retain_on_delete", "retainondelete", "skip_destroy"), ("retain", "")),
        **dict.fromkeys(("precondition", "postcondition"), ("", "conditions are for policies")),
    },
    "input declaration": {
        "description": ("docs", ""),
        "secret": ("sensitive", "As in sensitive: true"),
        "nullable": ("type", "As in type: Optional[String]"),
        "required": ("type", "An input without a default must be given, unless its type is Optional[...]"),
        "validation": ("type", "As in type: Integer[1, 65535] or Enum[dev, prod]"),
        "value": ("default", ""),
    },
    "section": {
        **_SALT,
        **dict.fromkeys(("hosts", "tasks", "pre_tasks", "post_tasks", "roles", "gather_facts"), _PLAYS),
        **dict.fromkeys(("become", "become_user", "remote_user"), _RIGHTS),
        "handlers": _HANDLER,
        "name": ("project", ""),
        "vars": ("values", "What a caller may change goes under inputs"),
        **dict.fromkeys(
            ("vars_files", "pillar", "pillars", "hiera"), ("inputs", "Their values come from -i or --inputs FILE")
        ),
        **dict.fromkeys(("variable", "variables", "params", "parameters", "configuration"), ("inputs", "")),
        **dict.fromkeys(("locals", "local", "constants"), ("values", "")),
        **dict.fromkeys(("resource", "states", "state"), _ENTRY),
        **dict.fromkeys(("class", "classes", "node", "nodes", "define", "module", "modules"), _ENTRY),
        "provider": ("providers", ""),
        "output": ("outputs", ""),
        "data": ("resources", "One with lifecycle: {external: true} is read and never changed"),
        **dict.fromkeys(
            ("import_playbook", "include_tasks", "import_tasks", "includes", "import"), ("include", "A list of files")
        ),
        **dict.fromkeys(
            ("terraform", "backend", "runtime", "version"), ("", "a manifest has no settings; leave it out")
        ),
        **dict.fromkeys(("base", "top"), ("", "there is no top file: apply the manifest of this machine")),
        "default": ("defaults", ""),
        "imports": ("", "an existing resource is taken over by lifecycle: {import: NAME}, or by the command 'import'"),
    },
    "type": {
        **dict.fromkeys(("copy", "local_file", "content"), ("file", "")),
        **dict.fromkeys(("lineinfile", "replace"), ("file_line", "")),
        "blockinfile": ("block_in_file", ""),
        **dict.fromkeys(("ini_file", "inifile", "ini_subsetting"), ("ini_setting", "")),
        "augeas": ("", "settings are managed by the types ini_setting, json_setting, yaml_setting and toml_setting"),
        **dict.fromkeys(("directory", "dir"), ("file", "With ensure: directory")),
        **dict.fromkeys(("synchronize", "rsync", "recurse", "remote_directory"), ("file_tree", "")),
        **dict.fromkeys(("symlink", "link"), ("file", "With target: /path")),
        **dict.fromkeys(("apt", "pkg", "yum", "dnf", "deb", "dpkg"), ("package", "")),
        **dict.fromkeys(("capabilities", "file_capability", "setcap"), ("capability", "")),
        **dict.fromkeys(("mysql_db", "mariadb_database"), ("mysql_database", "")),
        **dict.fromkeys(("mysql_grants", "mysql_privs"), ("mysql_grant", "")),
        **dict.fromkeys(
            ("postgresql_privs", "grant", "database_grant", "postgres_privileges"), ("postgresql_grant", "")
        ),
        **dict.fromkeys(("locale_gen", "locales"), ("locale", "")),
        **dict.fromkeys(("assemble", "concat_file"), ("concat", "")),
        **dict.fromkeys(
            ("concat_fragment", "concat::fragment"), ("file", "In the directory that is the source of a concat")
        ),
        **dict.fromkeys(("posix_acl", "linux_acl", "setfacl", "fooacl"), ("acl", "")),
        **dict.fromkeys(("systemd", "systemd_service", "daemon"), ("service", "")),
        **dict.fromkeys(("systemd_user_service", "loginctl_user", "linger"), ("user_service", "")),
        **dict.fromkeys(("unit", "unit_file", "systemd_timer", "dropin", "dropin_file"), ("systemd_unit", "")),
        **dict.fromkeys(
            ("command", "shell", "cmd", "script", "raw", "run", "local_exec", "null_resource"), ("exec", "")
        ),
        **dict.fromkeys(("unarchive", "tar", "zip", "extract", "archive_file"), ("archive", "")),
        **dict.fromkeys(("authorized_key", "authorized_keys", "ssh_auth", "ssh_key"), ("ssh_authorized_key", "")),
        **dict.fromkeys(("hosts", "hosts_entry"), ("host", "")),
        **dict.fromkeys(("cronjob", "crontab"), ("cron", "")),
        **dict.fromkeys(
            ("get_url", "wget", "curl", "remote_file"), ("file", "With source: {asset: {url: ..., sha256: ...}}")
        ),
        **dict.fromkeys(("apt_repository", "deb822_repository", "pkgrepo"), ("apt_source", "")),
        **dict.fromkeys(("pip", "pip3"), ("python_package", "")),
        **dict.fromkeys(("venv", "virtualenv", "pyvenv"), ("python_venv", "")),
        **dict.fromkeys(("git", "vcsrepo", "repository"), ("git_checkout", "")),
        **dict.fromkeys(("sshkey", "known_hosts", "ssh_known_host"), ("known_host", "")),
        **dict.fromkeys(("sudo", "sudoers", "sudo_conf"), ("sudo_rule", "")),
        "logrotate": ("logrotate_rule", ""),
        **dict.fromkeys(("openssl_privatekey", "private_key", "tls_private_key"), ("x509_key", "")),
        **dict.fromkeys(("openssl_certificate", "certificate", "tls_self_signed_cert"), ("x509_certificate", "")),
        **dict.fromkeys(("uri", "restapi_object"), ("http_resource", "")),
        **dict.fromkeys(("resolv_conf", "resolvconf", "dns"), ("resolver", "")),
        **dict.fromkeys(("fstab", "mounts"), ("mount", "")),
        **dict.fromkeys(
            ("class", "include", "define", "module", "role"), ("", "a component groups resources: components/NAME.py")
        ),
        **dict.fromkeys(("debug", "notice", "echo"), ("notify", "")),
        "fail": ("assert", ""),
    },
    "value": {
        "create_before_destroy": ("create_first", ""),
        "destroy_before_create": ("delete_first", ""),
        **dict.fromkeys(("error", "crit", "critical"), ("err", "")),
        "verbose": ("info", ""),
        **dict.fromkeys(("hold", "held"), ("present", "A version there keeps the package at it")),
        **dict.fromkeys(("installed", "exists", "create", "created", "managed", "true"), ("present", "")),
        **dict.fromkeys(("uninstalled", "removed", "remove", "deleted", "delete", "false"), ("absent", "")),
        "purge": ("purged", ""),
        **dict.fromkeys(("started", "start", "up", "active", "on", "run"), ("running", "")),
        **dict.fromkeys(("dead", "stop", "down", "inactive", "off"), ("stopped", "")),
        **dict.fromkeys(("restarted", "reloaded", "restart", "reload"), _RESTART),
        **dict.fromkeys(("enabled", "enable"), ("running", "With the machine it starts by enable: true")),
        **dict.fromkeys(("disabled", "disable"), ("stopped", "With the machine it does not start by enable: false")),
        **dict.fromkeys(("symlink", "hard"), ("link", "")),
        **dict.fromkeys(("dir", "folder"), ("directory", "")),
        **dict.fromkeys(("touch", "regular", "f"), ("file", "")),
        **dict.fromkeys(("newest", "upgraded", "up_to_date", "update", "updated"), ("latest", "")),
    },
    "boolean": {
        **dict.fromkeys(("yes", "on", "y", "enabled"), ("true", "No other word is read as it")),
        **dict.fromkeys(("no", "off", "n", "disabled"), ("false", "No other word is read as it")),
    },
    "argument": {
        "test=true": ("", "'resource-api apply MANIFEST --noop' changes nothing"),
        "test=false": ("", "an apply changes what differs, unless --noop is given; leave it out"),
    },
    "suffix": {
        ".pp": (
            "",
            "Puppet's language is not read: write the resources in YAML, each as Type[title]: {attribute: value}",
        ),
        ".sls": (
            "",
            "Salt's states are not read: write the resources in YAML, each as Type[title]: {attribute: value}",
        ),
        ".tf": ("", "HCL is not read: write the resources in YAML, each as Type[title]: {attribute: value}"),
        ".hcl": ("", "HCL is not read: write the resources in YAML, each as Type[title]: {attribute: value}"),
        ".j2": ("", "a manifest is no template: the function 'template' makes the contents of files from one"),
        ".epp": ("", "a manifest is no template: the function 'template' makes the contents of files from one"),
    },
    "scope": {
        **dict.fromkeys(("var", "input", "param", "params", "pillar", "lookup", "hiera", "config"), ("inputs", "")),
        **dict.fromkeys(("local", "locals", "value", "vars"), ("values", "")),
        **dict.fromkeys(("fact", "grains", "facter", "ansible_facts"), ("facts", "")),
        **dict.fromkeys(("each", "item", "count", "loop", "self", "range"), _LOOP),
        **dict.fromkeys(("module", "data", "resource"), ("", "a resource is referred to as ${Type[title].attribute}")),
    },
    "fact": {**_FACTS, **{f"ansible_{word}": answer for word, answer in _FACTS.items()}},
    **dict.fromkeys(
        [f"option {command}" for command in ("plan", "validate", "graph", "types", "describe", "schema", "output")],
        dict.fromkeys(("--noop", "-n", "--dry-run", "--check", "-C", "--diff", "-D"), _READS_ONLY),
    ),
    "option destroy": dict.fromkeys(
        ("-y", "-auto-approve", "--auto-approve", "--assume-yes", "--non-interactive", "--approve", "-f"), _CONFIRMS
    ),
    "option": {
        **dict.fromkeys(("--dry-run", "--dry", "--check", "-n", "-C", "-W", "--why-run", "--preview"), ("--noop", "")),
        **dict.fromkeys(("--limit", "-l", "--subset"), _LIMIT),
        **dict.fromkeys(
            ("-target", "--only", "--resource", "--filter"), ("--target", "As in --target 'File[/etc/motd]'")
        ),
        **dict.fromkeys(("-auto-approve", "--auto-approve", "-y", "--assume-yes", "--non-interactive"), _ASKS_NOT),
        **dict.fromkeys(("--yes", "-input", "--input", "--skip-preview", "--approve"), _ASKS_NOT),
        **dict.fromkeys(
            ("-e", "--extra-vars", "-var", "--var", "--set", "--data", "--config", "-D", "--param"), _INPUT
        ),
        **dict.fromkeys(
            ("-var-file", "--var-file", "--vars", "--values", "--vars-file", "--hiera_config", "--pillar"),
            ("--inputs", "A YAML or JSON file"),
        ),
        "--inventory": ("--hosts", "A YAML file; --on selects hosts of it"),
        **dict.fromkeys(("-t", "--tag"), ("--tags", "As in --tags web,db")),
        **dict.fromkeys(("--skip-tag", "--exclude-tags"), ("--skip-tags", "")),
        **dict.fromkeys(
            ("--become", "-b", "-K", "--ask-become-pass", "--become-user", "--sudo", "-u", "--user"), _ROOT
        ),
        **dict.fromkeys(("-parallelism", "--parallelism", "--forks", "-j", "--jobs", "-p"), ("--parallel", "")),
        **dict.fromkeys(("-out", "--out"), ("-o", "As in plan MANIFEST -o PLAN.json")),
        **dict.fromkeys(("--modulepath", "--modules", "--roles-path", "-M"), ("--module-path", "")),
        **dict.fromkeys(("-json", "--output-json", "--out-json"), ("--json", "")),
        **dict.fromkeys(("-lock-timeout", "--wait"), ("--lock-timeout", "As in --lock-timeout 60")),
        **dict.fromkeys(("-lock", "--lock", "--no-lock"), _LOCK),
        **dict.fromkeys(
            ("-state", "--statefile", "--backend"), ("--state", "As in --state sqlite:/var/lib/app/state.db")
        ),
        **dict.fromkeys(("-s", "--workspace", "--environment", "--env"), ("--stack", "")),
        **dict.fromkeys(("-no-color", "--no-color", "--nocolor"), ("--color", "As in --color never")),
        **dict.fromkeys(("--ask-vault-pass", "--vault-password-file", "--vault-id"), _VAULT),
        **dict.fromkeys(("--syntax-check", "--parseonly"), ("", "'resource-api validate MANIFEST' checks it")),
        **dict.fromkeys(
            ("--list-tasks", "--list", "--show-plan"), ("", "'resource-api plan MANIFEST' lists the steps")
        ),
        **dict.fromkeys(("--start-at-task", "--step"), ("", "select resources with --target or --tags")),
        **dict.fromkeys(
            ("-refresh", "-refresh-only", "--refresh", "--refresh-only"),
            ("", "every run reads what it needs; 'resource-api refresh MANIFEST' records it"),
        ),
        **dict.fromkeys(("-chdir", "--chdir"), ("", "change the directory before, as in: cd DIR && resource-api ...")),
        **dict.fromkeys(("-version", "-V"), ("--version", "")),
        **dict.fromkeys(("--test", "--onetime"), ("", "every run is one run in the foreground; leave it out")),
        **dict.fromkeys(("--trace", "--debugger", "-vvvv"), ("-d", "")),
        **dict.fromkeys(("--log", "--logdest"), ("", "log lines are on stderr; write 2>FILE")),
        **dict.fromkeys(("--detailed-exitcode", "--detailed_exitcodes"), ("--detailed-exitcodes", "")),
    },
    "command": {
        **dict.fromkeys(("init", "login", "get", "setup", "install"), _NO_INIT),
        **dict.fromkeys(("up", "run", "deploy", "converge", "playbook", "provision", "sync", "execute"), ("apply", "")),
        **dict.fromkeys(("state.apply", "state.highstate", "state.sls", "highstate"), ("apply", "")),
        **dict.fromkeys(("preview", "diff", "dry-run", "check-mode", "noop"), ("plan", "")),
        **dict.fromkeys(("check", "lint", "parser", "verify", "test"), ("validate", "")),
        **dict.fromkeys(("ls", "list", "resources", "inventory"), ("state", "As in 'state list'")),
        "show": ("state", "As in 'state show REF'"),
        **dict.fromkeys(("taint", "untaint"), ("state", "As in 'state taint REF' and 'state untaint REF'")),
        **dict.fromkeys(("mv", "move", "rename"), ("state", "As in 'state mv FROM TO'")),
        **dict.fromkeys(("doc", "docs", "man", "explain"), ("describe", "")),
        **dict.fromkeys(("providers", "modules", "plugins"), ("types", "")),
        **dict.fromkeys(
            ("workspace", "stack", "env"), ("", "a stack is selected by --stack NAME, and made by its first run")
        ),
        "outputs": ("output", ""),
        "version": ("", "'resource-api --version' shows it"),
        **dict.fromkeys(("fmt", "format", "console", "lookup"), ("", "there is no such command")),
        "force-unlock": ("", "the lock ends with the process that holds it"),
        **dict.fromkeys(("scaffold", "create"), ("new", "")),
        "adopt": ("import", ""),
    },
    "command state": {
        "ls": ("list", ""),
        **dict.fromkeys(("move", "rename"), ("mv", "")),
        **dict.fromkeys(("pull", "dump", "backup"), ("export", "")),
        **dict.fromkeys(("push", "restore"), ("import", "")),
        **dict.fromkeys(("log", "runs"), ("history", "")),
        **dict.fromkeys(("verify", "fsck"), ("check", "")),
        **dict.fromkeys(("repair", "fix"), ("recover", "")),
        "get": ("show", ""),
        "force-unlock": ("", "the lock ends with the process that holds it"),
    },
}
