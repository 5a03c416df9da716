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
        messages = self._told(should)
        if os.environ["LEAK"] == "validate":
            return [f"the password {messages} is too short"]
        if os.environ["LEAK"] == "validate_raises":
            raise ValueError(messages)
        return None

    def set(self, context, changes):
        for name, (_, should) in changes.items():
            messages = self._told(should)
            leak = getattr(self, "_" + os.environ["LEAK"], None)
            if leak is not None:
                leak(context, name, messages)
            if should["ensure"] == "absent":
                self._put(name, should)
            else:
                self._put(name, {key: should[key] for key in ("size", "colour") if key in should})
            if os.environ["LEAK"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)

    def _told(self, should):
        result = [should.get(key) for key in ("secret", "token", "colour")]
        return "".join(str(getattr(value, "reveal", lambda value=value: value)()) for value in result if value)

    def _raise(self, context, name, messages):
        raise RuntimeError(f"could not log in with {messages}")

    def _repr(self, context, name, messages):
        raise KeyError(messages)

    def _cause(self, context, name, messages):
        try:
            int(messages)
        except ValueError as error:
            raise OSError(2, "No such file", "/run/" + messages) from error

    def _exit(self, context, name, messages):
        sys.exit(f"cannot go on with {messages}")

    def _section(self, context, name, messages):
        with context.updating(name, message=f"Logging in with {messages}"):
            raise RuntimeError(messages.encode())

    def _print(self, context, name, messages):
        print("logging in with", messages)
        print(messages.encode(), file=sys.stderr)
        sys.stdout.write(messages[:20])
        sys.stdout.write(messages[20:] + "\n")

    def _log(self, context, name, messages):
        context.warning(f"password is {messages}")
        context.notice(name, message=messages)
        context.debug(f"header: Basic {base64.b64encode(messages.encode()).decode()}")

    def _change(self, context, name, messages):
        context.attribute_changed(name, "colour", messages, messages)
        context.updated(name, message=f"Now {messages}")

    def _descriptor(self, context, name, messages):
        os.write(1, messages.encode() + b"\n")
        os.write(2, messages.encode() + b"\n")
        subprocess.run(
            ["/bin/sh", "-c", "cat; echo; exec >&2; printenv SPILT"],
            input=messages.encode(),
            env={"SPILT": messages},
            check=False,
        )

    def _command(self, context, name, messages):
        self.sh("-c", "cat; cat >&2; exit 3", input=messages + "\n")
