"""An engine of known work, as a program: it sleeps for its start and its work, and keeps what it has checkpointed.

Modes: ``orphans`` leaves a process in a session of its own, ``noise`` writes what is no JSON, ``silent`` is never
ready, ``dies`` ends when a text comes, ``hoards`` takes 200 MB for its first text. It notes how many CPUs it has when a
text comes, and at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

BURN = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ntime.sleep(600)"
"""A program that uses some of the processor, says so, and sleeps."""

parser = argparse.ArgumentParser()
parser.add_argument("--start", type=float, default=0.0)
parser.add_argument("--work", type=float, default=0.0)
parser.add_argument("--checkpoint", type=float, default=0.0)
parser.add_argument("--mode", default="")
options = parser.parse_args()

for line in sys.stdin:
    request = json.loads(line)
    if "open" in request:
        durable = Path(request["open"]["durable"])
        if options.mode == "orphans":
            orphan = subprocess.Popen([sys.executable, "-c", BURN], start_new_session=True, stdout=-1)
            (durable / "orphan").write_text(str(orphan.pid))
            assert orphan.stdout is not None and orphan.stdout.readline()
        time.sleep(options.start)
        reply = {"ready": True, "engine": "fake", "version": "1", "dialect": "duckdb"}
        if options.mode == "silent":
            continue
        if options.mode == "noise":
            print("loading …", flush=True)
            continue
    elif "run" in request:
        if options.mode == "dies":
            sys.exit("out of luck")
        (durable / "working").touch()
        cpus = [len(os.sched_getaffinity(0))]
        if options.mode == "hoards" and not (durable / "hoarded").exists():
            (durable / "hoarded").touch()
            hoard = b"x" * (200 << 20)
        saved = durable / "saved"
        done = float(saved.read_text()) if saved.exists() else 0.0
        step = options.checkpoint or options.work
        while done < options.work - 1e-9:
            time.sleep(min(step, options.work - done))
            done += step
            if options.checkpoint:
                saved.with_suffix(".new").write_text(str(done))
                saved.with_suffix(".new").rename(saved)
        saved.unlink(missing_ok=True)
        (durable / "cpus").write_text(json.dumps([*cpus, len(os.sched_getaffinity(0))]))
        reply = {"done": request["run"]["task"]}
    else:
        continue
    print(json.dumps(reply), flush=True)
