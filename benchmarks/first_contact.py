"""``python -m benchmarks.first_contact``: what the first job on a host costs it, and the next ones.

A host is a child process with an empty cache; its processor time is that of the whole process: the first program, the
archive, the run. The manifest has 50 files and an account that are as declared.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from resource_api.fleet import archives, job_inputs
from resource_api.fleet import job as jobs
from resource_api.fleet.connections import Host
from resource_api.fleet.job import HostJob, with_id
from tests.fleet.pipe_connections import PipeConnections

_FILES: Final = 50
_NEXT: Final = 10


def main() -> None:
    """Print the size of the archive, and the processor time and memory of the first run and of the next ones."""
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        began = time.process_time()
        archive = archives.package_archive(str(directory / "made"))
        made = time.process_time() - began
        job = _job(directory, archive.digest)
        payloads = archives.Archives(archive)
        first = _carry(payloads, job, directory / "cache")
        later = [_carry(payloads, job, directory / "cache") for _ in range(_NEXT)]
        cached = sum(file.stat().st_size for file in (directory / "cache").rglob("*") if file.is_file())
    print(f"archive {len(archive.raw) / 1024:.0f} KiB, made in {made:.2f} s; cache {cached / 2**20:.1f} MiB")  # noqa: T201 - a command prints
    print(f"first program {len(archives.boot_text())} bytes")  # noqa: T201 - as above
    print(f"first run {first[0]:.3f} s, {first[1]:.0f} MiB")  # noqa: T201 - as above
    middle = statistics.median(seconds for seconds, _ in later)
    print(f"next runs {middle:.3f} s (median of {_NEXT}), {max(memory for _, memory in later):.0f} MiB")  # noqa: T201 - as above


def _job(directory: Path, digest: str) -> HostJob:
    lines = "".join(f"  File[{directory}/{number}]: {{content: hello}}\n" for number in range(_FILES))
    for number in range(_FILES):
        (directory / str(number)).write_text("hello")
    site = directory / "site.yaml"
    site.write_text(f"project: bench\nresources:\n  User[root]: {{ensure: present}}\n{lines}")
    fields = [jobs.document_fields(document) for document in job_inputs.read_documents(str(site))]
    host = {"name": "bench", "groups": [], "address": "127.0.0.1"}
    options = {"state": f"sqlite:{directory}/state/state.db"}
    return with_id(HostJob("apply", "1", payload=digest, documents=fields, host=host, options=options))


def _carry(payloads: archives.Archives, job: HostJob, cache: Path) -> tuple[float, float]:
    """Return the processor seconds and the MiB of memory of the process that carries a job out."""
    connections = PipeConnections(payloads, cache=str(cache))
    connections.start(Host("bench"), job._replace(run=os.urandom(8).hex(), id=os.urandom(32).hex()))
    pid = connections.pid("bench")
    while (event := connections.next_event(60)) is not None and event.document["type"] != "end":
        pass
    if event is None or event.document["code"] != 0:
        raise SystemExit(f"the job has failed: {event}")
    used = os.wait4(pid, 0)[2]
    connections.close()
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
