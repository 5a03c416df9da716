"""``make fuzz``: fuzz every target for a limited time, keep what breaks a law as an entry of the corpus, report.

The time is divided among the targets, and for each among the ways in which inputs are made. ``--table`` adds the
figures to ``docs/internals/reliability.md``. Exit code 1 if there is any finding.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import tests.fuzz.targets  # noqa: F401 - registers the targets
from tests.fuzz.phases import HANG, read_notes
from tests.fuzz.target import CORPUS, ROOT, TARGETS, Finding, Target, judge
from tests.fuzz.targets.state import MEMORY

#: The part of a target's time that each way of making inputs gets.
SHARES: Final = {"mutate": 0.5, "generate": 0.35, "grow": 0.15}
PAGE: Final = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- fuzzing: begin -->", "<!-- fuzzing: end -->"


class Outcome(NamedTuple):
    """What was tried of one target, and what was found."""

    name: str
    inputs: int
    seconds: float
    findings: list[str]


def main() -> int:
    """Run, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="seconds in total")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only this target; repeatable")
    parser.add_argument("--results", type=Path, help="add the figures to those in this file (JSON lines)")
    parser.add_argument(
        "--table", action="store_true", help="write the figures of --results into docs/internals/reliability.md"
    )
    options = parser.parse_args()
    if options.table:
        PAGE.write_text(_with_table(PAGE.read_text(encoding="utf-8"), _read_results(options.results)), encoding="utf-8")
        return 0
    os.nice(19)
    names = options.target or list(TARGETS)
    outcomes = [_fuzz(TARGETS[name], options.seconds / len(names), options.results) for name in names]
    print(f"{sum(outcome.inputs for outcome in outcomes)} inputs in {sum(item.seconds for item in outcomes):.0f} s")
    return int(any(value.findings for value in outcomes))


def _fuzz(target: Target, seconds: float, results: Path | None) -> Outcome:
    """Fuzz one target and print what was found."""
    phases = {phase: share for phase, share in SHARES.items() if _applies(phase, target)}
    inputs, began, suspects = 0, time.monotonic(), list[Path]()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        for phase, share in phases.items():
            location = Path(directory) / phase
            location.mkdir()
            inputs += _run_phase(phase, target, max(1, round(seconds * share / sum(phases.values()))), location)
            suspects += location.glob("input-*")
        spent = time.monotonic() - began
        findings = {key: text for path in suspects for key, text in _decide(target, path, Path(directory)).items()}
    for key, text in findings.items():
        print(f"--- {target.name}: {key}\n{text}\n", flush=True)
    print(f"{target.name}: {inputs} inputs in {spent:.0f} s, {len(findings)} findings", flush=True)
    outcome = Outcome(target.name, inputs, spent, list(findings))
    if results is not None:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome._asdict()) + "\n")
    return outcome


def _applies(phase: str, target: Target) -> bool:
    return {"generate": target.generate is not None, "grow": target.grows}.get(phase, True)


def _run_phase(phase: str, target: Target, seconds: int, location: Path) -> int:
    """Run a phase until its time is over, again after each crash; return the number of inputs."""
    end, inputs = time.monotonic() + seconds, 0
    while (remaining := end - time.monotonic()) > 1 or not inputs:
        file = location / f"run{time.monotonic_ns()}"
        file.mkdir()
        with (file / "log").open("wb") as log:
            code = _run_child(
                ["tests.fuzz.phases", phase, target.name, str(max(1, round(remaining))), str(file)],
                remaining,
                file,
                log,
            )
        count, last = read_notes(file)
        inputs += count
        if code:
            (file / "input-last").write_bytes(last)
        for path in file.glob("input-*"):
            path.rename(location / f"{path.name}-{file.name}")
        if not count:
            print((file / "log").read_text(errors="replace")[-2000:], file=sys.stderr)
            raise SystemExit(f"{phase} of {target.name} ended with {code} before the first input")
    return inputs


def _run_child(words: list[str], seconds: float, private: Path, log: object) -> int:
    """Run a module in a process, kill it with what it has started if it does not end; remove its files in memory."""
    environment = {**os.environ, "TMPDIR": str(private), "PYTHONHASHSEED": "0"}
    child = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        return child.wait(seconds + 2 * HANG)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for path in Path(MEMORY).glob(f"fuzz-{child.pid}-*"):
            shutil.rmtree(path, ignore_errors=True)


def _decide(target: Target, path: Path, directory: Path) -> dict[str, str]:
    """Return the finding that an input shows, and keep the smallest such input in the corpus."""
    smaller, log = directory / "smaller", directory / "verdict"
    smaller.write_bytes(path.read_bytes())
    with log.open("wb") as file:
        code = _run_child(["tests.fuzz.verdict", target.name, str(path), str(smaller)], 60, directory, file)
    lines = log.read_text(errors="replace").splitlines()
    try:
        document = json.loads(lines[-1]) if not code else [f"ends with {code}", "\n".join(lines[-30:])]
    except (ValueError, IndexError):
        document = [f"ends with {code}", "\n".join(lines[-30:])]
    if document is None:
        return {}
    finding, data = Finding(*document), smaller.read_bytes()
    (CORPUS / target.name).mkdir(parents=True, exist_ok=True)
    (CORPUS / target.name / f"found-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
    return {finding.key: finding.text}


def _read_results(path: Path) -> dict[str, tuple[int, float]]:
    """Return the sums of inputs and seconds by target."""
    result = dict.fromkeys(TARGETS, (0, 0.0))
    for line in path.read_text(encoding="utf-8").splitlines():
        outcome = Outcome(**json.loads(line))
        inputs, seconds = result[outcome.name]
        result[outcome.name] = inputs + outcome.inputs, seconds + outcome.seconds
    return result


def _with_table(page: str, results: dict[str, tuple[int, float]]) -> str:
    """Return the page with the table of the results between its marks.

    Found is what the corpus keeps of earlier findings; open is what in the corpus breaks a law now.
    """
    rows = [["target", "reads", "inputs", "seconds", "found", "open"], ["---", "---", *["---:"] * 4]]
    sums = [0, 0.0, 0, 0]
    for name, (inputs, seconds) in results.items():
        corpus = list(TARGETS[name].corpus())
        count = sum(path.name.startswith("found-") for path in corpus)
        broken = sum(judge(TARGETS[name], path.read_bytes()) is not None for path in corpus)
        figures = [inputs, seconds, count, broken]
        sums = [total + figure for total, figure in zip(sums, figures, strict=True)]
        rows.append([f"`{name}`", TARGETS[name].reads, *(f"{item:,.0f}" for item in figures)])
    rows.append(["all", "", *(f"{value:,.0f}" for value in sums)])
    table = "\n".join([BEGIN, *(f"| {' | '.join(row)} |" for row in rows), END])
    return re.sub(f"{BEGIN}.*{END}", lambda _: table, page, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
