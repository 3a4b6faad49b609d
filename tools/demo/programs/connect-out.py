"""Connects to listeners of the host: TCP on the loopback, and an abstract Unix socket.

Arguments: TCP port, name of the abstract socket without its leading NUL.
Prints one JSON line per attempt: {"attempt", "got": what the listener sent | null, "errno": name | null, "note"}.
"""

import errno
import json
import socket
import sys


def attempt(name, family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(5)
            client.connect(address)
            got = client.makefile("rb").readline().decode().strip()
        print(json.dumps({"attempt": name, "got": got, "errno": None, "note": ""}), flush=True)
    except OSError as error:
        code = errno.errorcode.get(error.errno, type(error).__name__)
        print(json.dumps({"attempt": name, "got": None, "errno": code, "note": ""}), flush=True)


attempt("tcp", socket.AF_INET, ("127.0.0.1", int(sys.argv[1])))
attempt("abstract", socket.AF_UNIX, b"\0" + sys.argv[2].encode())
