"""Starts what is to go on after it, with a session of its own and without, and does its work."""

import subprocess

from shelf import Shelf


class Provider(Shelf):
    def set(self, context, changes):
        super().set(context, changes)
        for seconds, own in (("3.61", True), ("3.62", False)):
            subprocess.Popen(
                ["sleep", seconds], start_new_session=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
