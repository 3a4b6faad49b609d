"""Every process of it forks without end and ignores SIGTERM. Run it only below a limit of processes.

Argument: the name that its processes take, by which they are counted from outside.
"""

import os
import signal
import sys

with open("/proc/self/comm", "w") as comm:
    comm.write(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
