"""Runs a program on a terminal of its own and plays a script of steps at it.

Arguments: a JSON list of steps, then the program. Steps: {"expect": TEXT}, {"send": TEXT}, {"resize": [COLUMNS, ROWS]},
{"signal": NUMBER} to the program. Prints one JSON object: `output`, `status` (negative: a signal), `restored` (whether
the terminal's modes are what they were before).
"""

import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import time

LIMIT = 50 * float(os.environ.get("BOXKITE_SLOWNESS", "1"))


def set_size(terminal, columns, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    steps = json.loads(sys.argv[1])
    ours, theirs = os.openpty()
    set_size(theirs, 90, 30)
    before = termios.tcgetattr(theirs)

    def own_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    program = subprocess.Popen(
        sys.argv[2:], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True, preexec_fn=own_terminal
    )
    output = b""
    seen = 0
    deadline = time.monotonic() + LIMIT

    def take(wait):
        nonlocal output
        ready, _, _ = select.select([ours], [], [], wait)
        if ready:
            output += os.read(ours, 65536)
        return bool(ready)

    for step in steps:
        if "send" in step:
            os.write(ours, step["send"].encode())
        elif "resize" in step:
            set_size(ours, *step["resize"])
        elif "signal" in step:
            program.send_signal(step["signal"])
        else:
            wanted = step["expect"].encode()
            while wanted not in output[seen:]:
                if time.monotonic() > deadline or (program.poll() is not None and not take(0.2)):
                    program.kill()
                    sys.exit("%r did not come; so far: %r" % (wanted, output))
                take(0.1)
            seen = output.index(wanted, seen) + len(wanted)
    while program.poll() is None:
        if time.monotonic() > deadline:
            program.kill()
            sys.exit("it does not end; so far: %r" % output)
        take(0.05)
    while take(0.05):
        pass
    restored = termios.tcgetattr(theirs) == before
    print(json.dumps({"output": output.decode("utf-8", "replace"), "status": program.returncode, "restored": restored}))


main()
