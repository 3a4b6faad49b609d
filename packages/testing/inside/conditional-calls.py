"""Calls whose arguments decide. Prints {"label": "ok" | errno name} for each."""
import ctypes, errno, json, os, platform, struct, sys

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == 'x86_64'
found = {}


def call(label, x86, arm, *arguments):
    if (x86 if X86 else arm) is None:
        return
    pid_sensitive = label.startswith(('clone', 'unshare', 'seccomp', 'personality', 'prctl'))
    receive, send = os.pipe()
    child = os.fork() if pid_sensitive else 0
    if child == 0:
        ctypes.set_errno(0)
        result = LIBC.syscall(ctypes.c_long(x86 if X86 else arm), *[a if isinstance(a, bytes) or a is None else ctypes.c_long(a) for a in arguments])
        text = 'ok' if result != -1 else errno.errorcode[ctypes.get_errno()]
        if pid_sensitive:
            os.write(send, text.encode()) if result != 0 or not label.startswith('clone') else None
            os._exit(0)
    else:
        os.close(send)
        text = os.read(receive, 100).decode() or 'ok'
        os.close(receive)
        os.waitpid(child, 0)
        found[label] = text
        return
    os.close(receive)
    os.close(send)
    found[label] = text


for name, flag in (('time', 0x80), ('mnt', 0x20000), ('cgroup', 0x2000000), ('uts', 0x4000000), ('ipc', 0x8000000), ('user', 0x10000000), ('pid', 0x20000000), ('net', 0x40000000)):
    if name != 'time':
        call('clone ' + name, 56, 220, flag | 17, None, None, None, None)
    call('unshare ' + name, 272, 97, flag)
call('unshare files', 272, 97, 0x400)
call('unshare fs', 272, 97, 0x200)
for family in range(0, 47):
    call('socket %d stream' % family, 41, 198, family, 1, 0)
    call('socket %d datagram' % family, 41, 198, family, 2, 0)
    call('socket %d raw' % family, 41, 198, family, 3, 0)
for protocol in range(0, 23):
    call('netlink %d' % protocol, 41, 198, 16, 3, protocol)
for protocol in (1, 2, 6, 17, 33, 58, 132, 136, 255, 262):
    for kind in (1, 2):
        call('inet protocol %d type %d' % (protocol, kind), 41, 198, 2, kind, protocol)
for kind in (4, 5, 6, 10):
    call('inet type %d' % kind, 41, 198, 2, kind, 0)
master, slave = os.openpty()
for name, request in (('TIOCSTI', 0x5412), ('TIOCLINUX', 0x541c), ('TIOCCONS', 0x541d), ('TIOCSETD', 0x5423), ('FS_IOC_SETFLAGS', 0x40086602), ('FS_IOC_FSSETXATTR', 0x401c5820)):
    call('ioctl ' + name, 16, 29, slave, request, b'x' * 64)
    call('ioctl %s with upper bits' % name, 16, 29, slave, request | (1 << 32), b'x' * 64)
call('ioctl TIOCGWINSZ', 16, 29, slave, 0x5413, b'x' * 64)
for value in (0, 0xffffffff, 0x40000, 0x8, 0x400000, 0x100000, 0x200000, 0x8000000):
    call('personality %x' % value, 135, 92, value)
for option in (35, 57, 62, 67, 79, 1000):
    call('prctl %d' % option, 157, 167, option, 1, 0, 0, 0)
call('prctl name', 157, 167, 15, b'name\0', 0, 0, 0)
call('seccomp listener', 317, 277, 1, 8, struct.pack('HxxxxxxQ', 1, 0))
call('seccomp actions', 317, 277, 2, 0, struct.pack('I', 0x7fff0000))
for name, kind in (('char', 0x2000), ('block', 0x6000), ('fifo', 0x1000), ('regular', 0x8000), ('socket', 0xc000)):
    call('mknod ' + name, 133, None, ('/tmp/node-%s\0' % name).encode(), kind | 0o600, 0x103)
    call('mknodat ' + name, 259, 33, -100, ('/tmp/node-at-%s\0' % name).encode(), kind | 0o600, 0x103)
call('memfd_create', 319, 279, b'memory\0', 0)
json.dump(found, sys.stdout)
