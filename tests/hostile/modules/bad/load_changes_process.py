"""The module changes the working directory, the environment and other process settings while it is loaded."""

import os
import signal
import sys

from json_store import JsonStore

os.chdir("/")
os.umask(0o777)
os.environ["LD_PRELOAD"] = "/nowhere.so"
sys.setrecursionlimit(90)
signal.signal(signal.SIGTERM, signal.SIG_IGN)


class Provider(JsonStore):
    pass
