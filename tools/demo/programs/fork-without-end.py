"""Forks without end; what it forked sleeps and ignores SIGTERM.

Argument: a ceiling, so that where nothing else stops it the machine that shows this stays usable.
Prints {"forks", "errno"} when the kernel refuses or the ceiling is reached, and goes on until it is ended.
"""

import errno
import json
import os
import signal
import sys
import time

ceiling = int(sys.argv[1])
forks = 0
said = False
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    refused = None
    if forks < ceiling:
        try:
            if os.fork() == 0:
                while True:
                    signal.pause()
            forks += 1
            continue
        except OSError as error:
            refused = errno.errorcode.get(error.errno, str(error.errno))
    if not said:
        print(json.dumps({"forks": forks, "errno": refused}), flush=True)
        said = True
    time.sleep(0.01)
