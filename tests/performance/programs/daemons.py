"""Starts daemons that leave session and parent behind and ignore SIGTERM, then waits.

Arguments: number of daemons, the name that they take, by which they are counted from outside.
"""

import os
import signal
import sys

with open("/proc/self/comm", "w") as comm:
    comm.write(sys.argv[2])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                signal.pause()
        os._exit(0)
    os.waitpid(child, 0)
while True:
    signal.pause()
