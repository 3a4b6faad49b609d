"""Every process of it forks without end and ignores SIGTERM. Run it only below a limit of processes.

Argument: a marker by which its processes are found from outside.
"""

import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
