"""Exchanges names without an end: each pair of arguments is one, exchanged by the kernel at once."""
import ctypes
import platform
import sys

CALL = {"x86_64": 316, "aarch64": 276}[platform.machine()]
AT_FDCWD = -100
RENAME_EXCHANGE = 2

libc = ctypes.CDLL(None, use_errno=True)
pairs = [name.encode() for name in sys.argv[1:]]
while True:
    for at in range(0, len(pairs), 2):
        libc.syscall(CALL, AT_FDCWD, pairs[at], AT_FDCWD, pairs[at + 1], RENAME_EXCHANGE)
