"""Read users through the name service and /etc/shadow; change them with the shadow tools, in copies of the files.

The home directory is complete before a new user appears, and removed before a deleted one disappears: after a kill the
next run finds the remaining work. Many runs only read users: the functions that change them import the file tools,
which take longer to load than that.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import listing, shadow
from lib.sensitive import refused_secrets
from resource_api import BaseProvider, Command, Problem, ResourceError, Sensitive, SideEffect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from resource_api import Change, Context, Resource, files

#: Texts that crypt(5) takes for a hash, and texts that no password matches; `!` before it disables the password.
HASH = re.compile(r"!*(\*.*|\$.+|x|[./0-9A-Za-z]{13}|_[./0-9A-Za-z]{19})?")
IN_CLEAR = "password is no hash: nobody can log in with it, and /etc/shadow would have it in clear; use `mkpasswd`"
#: The options of useradd and usermod by attribute.
OPTIONS = {"uid": "-u", "gid": "-g", "comment": "-c", "home": "-d", "shell": "-s", "groups": "-G"}


class Provider(BaseProvider):
    """The users of the local machine."""

    useradd = Command("useradd")
    usermod = Command("usermod")
    userdel = Command("userdel")
    chpasswd = Command("chpasswd")

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Sort attributes whose order has no meaning, and write "no limit" in one way, as equal users must be equal."""
        for resource in resources:
            if resource.get("groups"):
                resource["groups"] = sorted(set(resource["groups"]))
            for attribute in shadow.FILES:
                if resource.get(attribute):
                    resource[attribute] = shadow.ranges(resource[attribute])
            for attribute in shadow.COLUMNS:
                value = resource.get(attribute)
                if isinstance(value, int) and not 0 <= value < shadow.FOREVER:
                    resource[attribute] = shadow.NONE[attribute]
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse a day that no calendar has; warn of a password that is not hashed."""
        expiry, password = should.get("expiry"), should.get("password")
        problems = list(refused_secrets(should, "password"))
        if type(expiry) is str and not shadow.is_day(expiry):
            problems.append(Problem("expiry", f"expiry: no day {expiry}"))
        if isinstance(password, Sensitive) and not HASH.fullmatch(str(password.reveal())):
            problems.append(Problem("password", IN_CLEAR, "warning"))
        return problems

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | None:
        """Compare the attributes for which equality is not enough; None leaves the others to the runtime.

        A primary group may be declared by number, groups with ``membership: minimum`` are only a part of all, and a row
        of ``get`` lacks limits that are not set.
        """
        if attribute == "gid" and isinstance(should["gid"], int):
            return bool(is_.get("gid_number") == should["gid"])
        if attribute == "groups" and should.get("membership") == "minimum":
            return set(should["groups"] or ()) <= set(is_.get("groups", ()))
        if attribute in shadow.NONE and should[attribute] is not None:
            return bool(is_.get(attribute, shadow.NONE[attribute]) == should[attribute])
        return None

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Return the users in ``names``, or all; as root with the hashes of their passwords."""
        group_names, memberships = _groups()
        fields = shadow.read()
        rows = (
            {
                "name": user.pw_name,
                "ensure": "present",
                "uid": user.pw_uid,
                "gid": _group_name(user.pw_gid, group_names),
                "gid_number": user.pw_gid,
                "groups": sorted(memberships.get(user.pw_name, ())),
                "comment": user.pw_gecos,
                "home": user.pw_dir,
                "shell": user.pw_shell,
                **fields.get(user.pw_name, {}),
            }
            for user in (pwd.getpwall() if names is None else _entries(names))
            if user.pw_name and user.pw_name[0] not in "+-"  # entries for NIS are not users
        )
        return list(context.accepted(rows))

    def preflight(self, _context: Context, changes: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Problem]]:
        """Yield the missing prerequisites of a user: groups, and the shell.

        Yield a problem for a removal if the user has processes, or a home that is a mount point.
        """
        from lib import prerequisites

        managed = {name: should for name, should in changes.items() if should.get("managehome")}
        homes = {user.pw_name: user.pw_dir.rstrip("/") for user in _entries(managed) if user.pw_dir.strip("/")}
        yield from prerequisites.kept_by_mounts({name: managed[name] for name in homes}, homes.__getitem__)
        for user in _entries(name for name, should in changes.items() if should.get("ensure") == "absent"):
            try:
                _check_unused(user.pw_name, user.pw_uid)
            except ResourceError as error:
                yield user.pw_name, Problem("ensure", str(error))
        for name, should in prerequisites.present(changes).items():
            missing = [
                *prerequisites.missing_group("gid", should.get("gid")),
                *prerequisites.missing_file("shell", should.get("shell") or None),
            ]
            for group in should.get("groups") or ():
                missing += prerequisites.missing_group("groups", group)
            yield from ((name, problem) for problem in missing)
        for file in ("passwd", "shadow", "group", "gshadow"):
            yield from prerequisites.written_in_place(dict.fromkeys(changes, f"/etc/{file}"))

    def side_effects(self, _context: Context, changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
        """Yield the groups that users join or leave, and the losses with a user: group, memberships and home directory.

        A plan reports a conflict with a group that is declared otherwise.
        """
        yield from _memberships(changes)
        deleted = {name: (is_, should) for name, (is_, should) in changes.items() if should["ensure"] == "absent"}
        groups = grp.getgrall() if deleted else ()
        for name, (is_, should) in deleted.items():
            yield from ((name, effect) for group in groups for effect in _without_user(group, name, is_))
            home = (is_ or {}).get("home", "").rstrip("/")
            if should.get("managehome") and home and os.path.lexists(home):
                yield name, SideEffect(home, "remove", "file", dependent=True, tree=True)

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Change one user after another."""
        from lib.file_parts import described

        for name, (is_, should) in changes.items():
            if should["ensure"] == "absent":
                with context.deleting(name), described():
                    self._delete(context, name, is_, managehome=should.get("managehome", False))
            elif is_ is None:
                with context.creating(name), described():
                    self._create(name, should)
            else:
                with context.updating(name), described():
                    self._update(name, is_, should)

    def _create(self, name: str, should: Mapping[str, Any]) -> None:
        """Create an account in a copy of the account files, then set its password.

        The home is made beforehand (``_prepare``), and not by useradd (``-M``), so that a killed run leaves no half of
        it.
        """
        changed = _changed({}, should)
        with suppress(KeyError):
            changed.setdefault("gid", grp.getgrnam(name).gr_gid)  # useradd would try to create that group
        options = ["-M", *["-r"] * should["system"], *["-o"] * should["allowdupe"], *_options(changed)]

        def edit(prefix: Path) -> None:
            """Add the user to copies of the account files, and make its home, before the copies replace the files.

            Entries of the name that a killed run has left are removed first: ``useradd`` would add to them.
            """
            _forget(prefix, name)
            self.useradd("--prefix", prefix, *options, "--", name)
            shadow.edit(prefix, name, changed)
            _prepare(prefix, name, should)

        _change(edit)
        self._set_password(name, changed)

    def _update(self, name: str, is_: Mapping[str, Any], should: Mapping[str, Any]) -> None:
        """Change an account, after its home was moved to a new path.

        Only usermod can move it to another filesystem: it then changes the account at once.
        """
        changed = _changed(is_, should)
        options = _options(changed)
        try:
            moved = "home" in changed and should["managehome"] and _move(name, is_, changed["home"])
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self.usermod(*options, "-m", "--", name)  # which copies it to the other filesystem
            _change(lambda prefix: shadow.edit(prefix, name, changed))
        else:
            if changed.keys() - {"password"}:
                self._modify(name, changed, {changed["home"]: is_["home"]} if moved else {})
        self._set_password(name, changed)

    def _modify(self, name: str, changed: Mapping[str, Any], moved: Mapping[str, str]) -> None:
        """Change the record of an account; ``moved``: new → old path of its home, to move it back after a failure."""

        def edit(prefix: Path) -> None:
            """Change the user in copies of the account files."""
            if options := _options(changed):
                self.usermod("--prefix", prefix, *options, "--", name)
            shadow.edit(prefix, name, changed)

        try:
            _change(edit)
        except BaseException:
            for new, old in moved.items():
                if pwd.getpwnam(name).pw_dir != new:  # the record is replaced before a flush of its directory fails
                    _rename_home(new, old)
            raise

    def _delete(self, context: Context, name: str, is_: Mapping[str, Any] | None, *, managehome: bool) -> None:
        """Remove a user; with ``managehome`` its home and mailbox go before, so that a killed run can be continued.

        Raise ``ResourceError`` while the user has processes.
        """
        if is_ is not None:
            _check_unused(name, is_["uid"])
            if managehome:
                _remove_home(context, name, is_)
        _change(lambda prefix: self.userdel("--prefix", prefix, "--", name))

    def _set_password(self, name: str, changed: Mapping[str, Any]) -> None:
        """Set a changed hash of a password by chpasswd's input, which no other user can see."""
        if "password" in changed:
            self.chpasswd("--encrypted", input=Sensitive(f"{name}:{changed['password'].reveal()}\n"))


def _change(edit: Callable[[Path], object]) -> None:
    """Replace the account files by copies that ``edit``, which receives their directory, has changed."""
    from resource_api import change_accounts

    change_accounts(edit)


def _goes_with(group: grp.struct_group, user: Mapping[str, Any]) -> bool:
    """Return whether userdel removes the group of the user's name too, for the side effects in a plan.

    By login.defs(5) it removes a primary group that no other user belongs to.
    """
    if group.gr_gid != user.get("gid_number") or {*group.gr_mem} - {user["name"]}:
        return False
    if any(entry.pw_gid == group.gr_gid and entry.pw_name != user["name"] for entry in pwd.getpwall()):
        return False
    with suppress(FileNotFoundError):
        text = Path("/etc/login.defs").read_text(encoding="utf-8", errors="surrogateescape")
        return bool(re.search(r"^USERGROUPS_ENAB[ \t]+yes\b", text, re.MULTILINE))
    return False


def _check_unused(name: str, uid: int) -> None:
    """Raise ``ResourceError`` if an account cannot be removed: it has processes, or is the last with the number 0.

    With ``--prefix`` the shadow tools do not look for processes. Those of the number 0 are no obstacle while another
    account has it too. Those of a container or another root directory are no obstacle, as for ``userdel``: there the
    number belongs to an account of that root.
    """
    if not uid and not any(entry.pw_uid == 0 and entry.pw_name != name for entry in pwd.getpwall()):
        raise ResourceError(f"user {name} is the only account with the number 0, which the machine needs")
    for process in listing.matching("/proc", "[1-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if uid and process.stat().st_uid == uid and not _in_another_root(process):
                raise ResourceError(f"user {name} is currently used by process {process.name}")


def _in_another_root(process: Path) -> bool:
    """Return whether a process of ``/proc`` has a root directory other than ours; False where that is not readable."""
    try:
        return not (process / "root").samefile("/")
    except PermissionError:
        return False


def _forget(prefix: Path, name: str) -> None:
    """Remove the entries of a missing user after a killed run: useradd would add to them."""
    for file in ("subuid", "subgid", "shadow"):
        path = prefix / "etc" / file
        with suppress(FileNotFoundError):
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(line for line in lines if not line.startswith(f"{name}:".encode())))


def _prepare(prefix: Path, name: str, should: Mapping[str, Any]) -> None:
    """Check a new user's number, and make its home, before the files are replaced. Raise ``ResourceError``."""
    text = (prefix / "etc/passwd").read_text(encoding="utf-8", errors="surrogateescape")
    _, _, uid, gid, _, home, _ = next(line for line in text.split("\n") if line.startswith(f"{name}:")).split(":")
    with suppress(KeyError):  # of a free number
        msg = f"the number {uid} belongs to '{pwd.getpwuid(int(uid)).pw_name}' already; declare another 'uid'"
        if not should["allowdupe"]:
            raise ResourceError(msg)
    if should["managehome"] and not os.path.lexists(home):
        _make_home(home, int(uid), int(gid))


def _make_home(home: str, uid: int, gid: int) -> None:
    """Make a home directory from ``/etc/skel``, under a temporary name, so that a killed run leaves no half of it."""
    from lib.rename import rename
    from resource_api import files

    parent, name = os.path.split(home.rstrip("/"))
    aside = f"{parent}/.{name}.home{files.TEMPORARY_SUFFIX}"
    with suppress(FileNotFoundError), files.Batch() as batch:
        batch.remove(aside, recursive=True)
    with files.Batch() as batch:
        for above in reversed(Path(home).parents):
            if not above.exists():
                batch.make_directory(str(above), mode=0o755)
        batch.make_directory(aside, mode=0o700)
        _copy_skeleton(batch, aside, uid, gid)
    with files.Batch() as batch:
        batch.set_mode_owner(aside, mode=_home_mode(), uid=uid, gid=gid)
    rename(aside, name)


def _copy_skeleton(batch: files.Batch, home: str, uid: int, gid: int) -> None:
    """Copy the files, directories and links of ``/etc/skel`` into a home, as its owner's and with their modes."""
    skeleton = Path("/etc/skel")
    for path in sorted(skeleton.rglob("*")):
        copy = f"{home}/{path.relative_to(skeleton)}"
        if path.is_symlink():
            batch.make_link(copy, str(path.readlink()), uid=uid, gid=gid)
        elif path.is_dir():
            batch.make_directory(copy, mode=path.stat().st_mode & 0o7777, uid=uid, gid=gid)
        else:
            batch.replace(copy, path.read_bytes(), mode=path.stat().st_mode & 0o7777, uid=uid, gid=gid)


def _home_mode() -> int:
    """Return the mode of a new home directory by login.defs(5): HOME_MODE, or the mode that UMASK leaves."""
    try:
        text = Path("/etc/login.defs").read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        text = ""
    settings = dict(re.findall(r"^(HOME_MODE|UMASK)[ \t]+([0-7]+)", text, re.MULTILINE))
    return int(settings["HOME_MODE"], 8) if "HOME_MODE" in settings else 0o777 & ~int(settings.get("UMASK", "022"), 8)


def _move(name: str, is_: Mapping[str, Any], home: str) -> bool:
    """Move the home directory of a user; return whether there was one to move.

    It moves before the record changes: after a kill in between, the old record shows the difference to the next run.
    Raise ``OSError``: EXDEV for another filesystem.
    """
    _check_unused(name, is_["uid"])
    if not is_.get("home") or not Path(is_["home"]).is_dir() or os.path.lexists(home):
        return False
    _rename_home(is_["home"], home)
    return True


def _rename_home(old: str, new: str) -> None:
    """Move a home directory to another path of the same file system, durably. Raise ``OSError``."""
    from lib.rename import move

    move(old.rstrip("/"), new.rstrip("/"))


def _remove_home(context: Context, name: str, is_: Mapping[str, Any]) -> None:
    """Remove the home directory and the mailbox of a user, if they belong to it alone.

    A home of another owner, or one that contains another user's home, stays with a warning.
    """
    from resource_api import files

    homes = [f"{entry.pw_dir}/" for entry in pwd.getpwall() if entry.pw_name != name]
    for path in (is_.get("home", "").rstrip("/"), f"/var/mail/{name}"):
        with suppress(FileNotFoundError):
            if not path:
                continue
            if Path(path).lstat().st_uid != is_["uid"] or any(home.startswith(f"{path}/") for home in homes):
                context.warning(name, f"{path} does not belong to the user alone and stays")
                continue
            with files.Batch() as batch:
                batch.remove(path, recursive=True)


def _changed(is_: Mapping[str, Any], should: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared attributes that differ, for the options of useradd and usermod.

    usermod replaces all groups, so with ``membership: minimum`` the present ones are added.
    """
    present = {**shadow.NONE, **is_}
    attributes = (*OPTIONS, *shadow.NONE, "password")
    changed = {name: should[name] for name in attributes if should.get(name) not in (None, present.get(name))}
    if "groups" in changed and should["membership"] == "minimum":
        changed["groups"] = sorted({*changed["groups"], *is_.get("groups", ())})
    return changed


def _memberships(changes: Mapping[str, Change]) -> Iterator[tuple[str, SideEffect]]:
    """Yield the groups that users join or leave, each with all its members afterwards.

    A plan compares these with the declared members of the group, which may contradict the groups of a user.
    """
    for name, (is_, should) in changes.items():
        former_groups = set((is_ or {}).get("groups", ()))
        if should["ensure"] == "present" and (groups := _changed(is_ or {}, should).get("groups")) is not None:
            for group in sorted(former_groups.symmetric_difference(groups)):
                members = {member for entry in _group(group) for member in entry.gr_mem} - {name}
                state = {"members": sorted(members | ({name} if group in groups else set()))}
                yield name, SideEffect(group, "update", "group", state, asked=True)


def _without_user(group: grp.struct_group, name: str, is_: Mapping[str, Any] | None) -> Iterator[SideEffect]:
    """Yield the change of a group by the removal of the user ``name``: it loses a member, or is removed too."""
    if name in group.gr_mem and group.gr_name != name:
        state = {"ensure": "present", "members": sorted({*group.gr_mem} - {name})}
        yield SideEffect(group.gr_name, "update", "group", state)
    if group.gr_name == name and is_ and _goes_with(group, is_):
        yield SideEffect(name, "remove", "group", dependent=True)


def _group(name: str) -> Iterator[grp.struct_group]:
    """Yield the entry of a group, or nothing if it does not exist yet."""
    with suppress(KeyError):
        yield grp.getgrnam(name)


def _options(changed: Mapping[str, Any]) -> list[str | int]:
    """Return the options of useradd and usermod for the attributes in ``changed``."""
    options = []
    for attribute, option in OPTIONS.items():
        if attribute in changed:
            value = changed[attribute]
            options += [option, ",".join(value) if attribute == "groups" else value]
    return options


def _group_name(number: int, names: Mapping[int, str]) -> str | int:
    """Return the name of a group, or its number if it has no name.

    A name of digits is replaced too, as a declaration with it means the number.
    """
    try:
        name = names.get(number) or grp.getgrgid(number).gr_name
    except KeyError:
        return number
    return number if name.isdigit() else name


def _groups() -> tuple[dict[int, str], dict[str, set[str]]]:
    """Return the name of each group by number, and the supplementary groups of each user by the user's name.

    The first group with a number counts, as for the system. One look at all groups is faster than one for each user.
    """
    group_names: dict[int, str] = {}
    memberships: dict[str, set[str]] = {}
    for group in grp.getgrall():
        group_names.setdefault(group.gr_gid, group.gr_name)
        for member in group.gr_mem:
            memberships.setdefault(member, set()).add(group.gr_name)
    return group_names, memberships


def _entries(names: Iterable[str]) -> Iterable[pwd.struct_passwd]:
    """Yield the entries of the existing users with these names, each looked up alone: LDAP may not list all."""
    for name in names:
        with suppress(KeyError):
            yield pwd.getpwnam(name)
