"""``get`` and ``set`` change the working directory, umask, environment, signals, streams and limits."""

import io
import os
import signal
import sys

from json_store import JsonStore


class Provider(JsonStore):
    def get(self, context):
        rows = super().get(context)
        self._vandalize()
        return rows

    def set(self, context, changes):
        super().set(context, changes)
        self._vandalize()

    def _vandalize(self):
        self._store = os.environ["STORE"]
        os.chdir("/")
        os.umask(0o777)
        os.environ.clear()
        os.environ["STORE"] = self._store
        os.environ["LD_PRELOAD"] = "/nowhere.so"
        sys.path.clear()
        sys.setrecursionlimit(90)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        sys.stdout = sys.stderr = io.StringIO()
