"""Unpacks archives, and sees by the record of what was unpacked whether it still is there."""

from __future__ import annotations

import grp
import pwd
from typing import TYPE_CHECKING, Any

from resource_api import Archive, BaseProvider, CannotList, Problem, ResourceError, Sensitive
from resource_api.model.values.assets import Limits
from resource_api.system.filesystem import unpack as unpacking
from resource_api.system.filesystem.unpacked import LONGEST_NAME, Unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from resource_api import Change, Context, Resource

#: What stands for everything when unpacking was cut, or the last deletion was.
CUT = "."


class Provider(BaseProvider):
    """The archives that were unpacked on the local machine."""

    def canonicalize(self, _context: Context, resources: list[Resource]) -> list[Resource]:
        """Spell paths without needless slashes and dots, modes with four digits, numbers of owners as text."""
        for resource in resources:
            if isinstance(resource.get("path"), str):
                resource["path"] = "/" + "/".join(part for part in resource["path"].split("/") if part not in {"", "."})
            if resource.get("mode") is not None:
                resource["mode"] = resource["mode"].rjust(4, "0")
            for attribute in ("owner", "group"):
                owner = resource.get(attribute)
                if owner is not None and (type(owner) is int or owner.isdecimal()):
                    resource[attribute] = str(int(owner))
        return resources

    def validate(self, _context: Context, should: Mapping[str, Any]) -> list[Problem]:
        """Refuse directories that nothing can be recorded beside."""
        if not isinstance(path := should["path"], str):  # it is not known: that is refused
            return []
        name = path.rpartition("/")[2]
        if not name:
            return [Problem("path", "an archive is unpacked into a directory of its own, not into /")]
        if len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME:
            return [Problem("path", f"the directory's name is longer than {LONGEST_NAME} bytes")]
        return []

    def insync(
        self, _context: Context, _name: str, attribute: str, is_: Mapping[str, Any], should: Mapping[str, Any]
    ) -> bool | tuple[bool, str] | None:
        """Compare owners by number where a number is given, and with the archive what was made of it since."""
        if attribute in {"owner", "group"}:
            number = is_.get("uid" if attribute == "owner" else "gid")
            return bool(number == int(should[attribute])) if should[attribute].isdecimal() else None
        if attribute != "source":
            return None
        wanted, secret = _plain(should["source"]), isinstance(should["source"], Sensitive)
        if is_.get("source") != wanted:
            return False if secret else (False, f"changed from {is_.get('source', 'nothing')} to {wanted}")
        altered = is_.get("altered", ())
        return (False, f"not as it was unpacked: {', '.join(altered)}") if altered else True

    def get(self, context: Context, names: Collection[str] | None = None) -> list[Resource]:
        """Read the records of the directories asked for, and every file in them."""
        if names is None:
            msg = "unpacked archives cannot be listed; name their directories"
            raise CannotList(msg)
        found = []
        for path in names:
            try:
                known = Unpacked.read(path)
                if known is not None:
                    found.append(_row(path, known, unpacking.altered(path, known) if known.sha256 else [CUT]))
            except (OSError, ResourceError) as error:
                context.failed(path, message=_why(error))
        return found

    def set(self, context: Context, changes: Mapping[str, Change]) -> None:
        """Unpack, or remove what was unpacked, one archive after the other."""
        for path, change in changes.items():
            try:
                self._apply(path, change.should)
            except (OSError, ResourceError) as error:
                context.failed(path, message=_why(error))

    def _apply(self, path: str, should: Mapping[str, Any]) -> None:
        known = Unpacked.read(path)
        if should.get("ensure") == "absent":
            if known is not None:
                unpacking.remove(path, known)
            return
        before = known or Unpacked()
        archive: Archive = _plain(should["source"])
        wanted = unpacking.Wanted(
            Limits(should["max_size"], should["max_members"]),
            before.mode if should.get("mode") is None else int(should["mode"], 8),
            _id(pwd.getpwnam, should.get("owner"), before.uid),
            _id(grp.getgrnam, should.get("group"), before.gid),
            should.get("force", False),
        )
        unpacking.unpack(path, archive, wanted, known)


def _row(path: str, known: Unpacked, altered: list[str]) -> Resource:
    row: Resource = {"ensure": "present", "path": path, "altered": altered}
    if known.sha256:
        row["source"] = Archive(known.sha256)
    if known.mode is not None:
        row["mode"] = f"{known.mode:04o}"
    if known.uid is not None:
        row |= {"uid": known.uid, "owner": _name(pwd.getpwuid, known.uid)}
    if known.gid is not None:
        row |= {"gid": known.gid, "group": _name(grp.getgrgid, known.gid)}
    return row


def _id(lookup: Callable[[str], Any], owner: str | None, known: int | None) -> int | None:
    """Give the number of a user or a group; what was, where none is given."""
    if owner is None:
        return known
    try:
        return int(owner) if owner.isdecimal() else int(lookup(owner)[2])
    except KeyError:
        msg = f"there is no {'user' if lookup is pwd.getpwnam else 'group'} '{owner}'"
        raise ResourceError(msg) from None


def _name(lookup: Callable[[int], Any], number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def _plain(value: Any) -> Any:
    return value.reveal() if isinstance(value, Sensitive) else value


def _why(error: Exception) -> str:
    """Say what the system said, without its numbers, and where it happened."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    text = error.strerror[:1].lower() + error.strerror[1:]
    return f"{text}: {error.filename}" if isinstance(error.filename, str) else text
