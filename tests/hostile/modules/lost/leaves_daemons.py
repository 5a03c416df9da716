"""Starts daemons in three ways and crashes at ``b``."""

import os
import signal
import subprocess

from json_store import JsonStore


class Provider(JsonStore):
    def _put(self, name, should):
        if name == "b":
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": {}}
            subprocess.Popen(["/bin/sleep", "3603"], start_new_session=True, **quiet)
            subprocess.run(["/bin/sh", "-c", "/usr/bin/setsid /bin/sleep 3604 &"], check=True, **quiet)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execv("/bin/sleep", ["/bin/sleep", "3605"])  # noqa: S606 - a daemon
                os._exit(0)
            os.kill(os.getpid(), getattr(signal, os.environ["CRASH"]))
        super()._put(name, should)
