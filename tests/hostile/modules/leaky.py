"""A provider that leaks secrets in the way that ``$LEAK`` names."""

import base64
import os
import signal
import subprocess
import sys

from json_store import JsonStore
from resource_api import Command


class Provider(JsonStore):
    kind = "leaky"
    sh = Command("sh")

    def get(self, context):
        token = os.environ.get("TOKEN", "")
        echo = {"login": [f"//user:{token}@host/", base64.b64encode(token.encode()).decode()]}
        rows = [{**row, "token": token, "echo": echo} for row in super().get(context)]
        if os.environ["LEAK"] == "get":
            raise ValueError(f"cannot read {rows!r} with {os.environ.get('TOKEN')}")
        return rows

    def canonicalize(self, context, resources):
        if os.environ["LEAK"] == "canonicalize":
            raise KeyError(self._told(resources[-1]))
        return resources

    def validate(self, context, should):
        told = self._told(should)
        if os.environ["LEAK"] == "validate":
            return [f"the password {told} is too short"]
        if os.environ["LEAK"] == "validate_raises":
            raise ValueError(told)
        return None

    def set(self, context, changes):
        for name, (_, should) in changes.items():
            told = self._told(should)
            leak = getattr(self, "_" + os.environ["LEAK"], None)
            if leak is not None:
                leak(context, name, told)
            if should["ensure"] == "absent":
                self._put(name, should)
            else:
                self._put(name, {key: should[key] for key in ("size", "colour") if key in should})
            if os.environ["LEAK"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)

    def _told(self, should):
        found = [should.get(key) for key in ("secret", "token", "colour")]
        return "".join(str(getattr(value, "reveal", lambda value=value: value)()) for value in found if value)

    def _raise(self, context, name, told):
        raise RuntimeError(f"could not log in with {told}")

    def _repr(self, context, name, told):
        raise KeyError(told)

    def _cause(self, context, name, told):
        try:
            int(told)
        except ValueError as error:
            raise OSError(2, "No such file", "/run/" + told) from error

    def _exit(self, context, name, told):
        sys.exit(f"cannot go on with {told}")

    def _section(self, context, name, told):
        with context.updating(name, message=f"Logging in with {told}"):
            raise RuntimeError(told.encode())

    def _print(self, context, name, told):
        print("logging in with", told)
        print(told.encode(), file=sys.stderr)
        sys.stdout.write(told[:20])
        sys.stdout.write(told[20:] + "\n")

    def _log(self, context, name, told):
        context.warning(f"password is {told}")
        context.notice(name, message=told)
        context.debug(f"header: Basic {base64.b64encode(told.encode()).decode()}")

    def _change(self, context, name, told):
        context.attribute_changed(name, "colour", told, told)
        context.updated(name, message=f"Now {told}")

    def _descriptor(self, context, name, told):
        os.write(1, told.encode() + b"\n")
        os.write(2, told.encode() + b"\n")
        subprocess.run(
            ["/bin/sh", "-c", "cat; echo; exec >&2; printenv SPILT"],
            input=told.encode(),
            env={"SPILT": told},
            check=False,
        )

    def _command(self, context, name, told):
        self.sh("-c", "cat; cat >&2; exit 3", input=told + "\n")
