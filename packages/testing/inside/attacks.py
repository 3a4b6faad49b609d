"""Attacks from inside a sandbox. `attacks.py NAME [ARGUMENT...]` tries one and prints {"reached": bool, "detail": ...}.

`reached` is true where the attack got something that a sandbox must not give; every attack works without the layer
that stops it, which the weakened twin shows.
"""
import array, ctypes, errno, fcntl, json, mmap, os, platform, resource, signal, socket, stat, struct, subprocess, sys, time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == 'x86_64'
ATTACKS = {}


def attack(function):
    ATTACKS[function.__name__] = function
    return function


def number(x86, arm):
    return x86 if X86 else arm


def call(nr, *arguments):
    """A system call by number: its result, or minus its errno."""
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(nr), *[a if isinstance(a, (bytes, ctypes.Array)) or a is None else ctypes.c_long(a) for a in arguments])
    return -ctypes.get_errno() if result == -1 else result


def tries(candidates):
    """Runs each of {label: function}; those that did not fail were reached."""
    reached, refused = [], []
    for label, function in candidates.items():
        try:
            result = function()
            if isinstance(result, int) and not isinstance(result, bool) and result < 0:
                refused.append(label + ' ' + errno.errorcode.get(-result, str(result)))
            elif result is False or result is None:
                refused.append(label)
            else:
                reached.append(label + ' ' + repr(result)[:80])
        except (OSError, ValueError) as error:
            # `setrlimit` refuses what the kernel would refuse by a ValueError.
            refused.append(label + ' ' + errno.errorcode.get(getattr(error, 'errno', None) or 0, str(error)))
    return bool(reached), {'reached': reached, 'refused': refused}


def content(path):
    with open(path, 'rb') as file:
        return file.read(200) or True


def pids():
    return [name for name in os.listdir('/proc') if name.isdigit()]


@attack
def read_path(path):
    return tries({
        'direct': lambda: content(path),
        'dotdot': lambda: content('/workspace/../../..' + path),
        'self root': lambda: content('/proc/self/root' + path),
        'thread root': lambda: content('/proc/thread-self/root' + path),
        'cwd': lambda: content('/proc/self/cwd/../../..' + path),
        'link': lambda: (os.symlink(path, '/tmp/link-%d' % os.getpid()), content('/tmp/link-%d' % os.getpid()))[1],
    })


@attack
def read_through_processes(path):
    own = str(os.getpid())
    found = {}
    for pid in pids():
        for way in ('root', 'cwd'):
            found[pid + ' ' + way] = lambda pid=pid, way=way: content('/proc/%s/%s/../../../..%s' % (pid, way, path))
        if pid != own:
            found[pid + ' fd'] = lambda pid=pid: os.listdir('/proc/%s/fd' % pid) or True
            found[pid + ' environ'] = lambda pid=pid: content('/proc/%s/environ' % pid)
            found[pid + ' mem'] = lambda pid=pid: os.open('/proc/%s/mem' % pid, os.O_RDONLY)
            found[pid + ' maps'] = lambda pid=pid: content('/proc/%s/maps' % pid)
            found[pid + ' map_files'] = lambda pid=pid: os.listdir('/proc/%s/map_files' % pid) or True
            found[pid + ' auxv'] = lambda pid=pid: content('/proc/%s/auxv' % pid)
            found[pid + ' stack'] = lambda pid=pid: content('/proc/%s/stack' % pid)
    return tries(found)


@attack
def find_marker(marker):
    """Looks for a marker in the environment and arguments of every process that can be seen."""
    found = []
    for pid in pids():
        for name in ('environ', 'cmdline'):
            try:
                if marker.encode() in open('/proc/%s/%s' % (pid, name), 'rb').read() and pid != str(os.getpid()):
                    found.append(pid + ' ' + name)
            except OSError:
                pass
    return bool(found), found


@attack
def see_others():
    """Any process but PID 1 and this one."""
    found = [pid for pid in pids() if pid not in ('1', str(os.getpid()))]
    return bool(found), found[:20]


@attack
def signal_process(pid):
    return tries({'signal 0 to %s' % pid: lambda: os.kill(int(pid), 0) is None, 'pidfd_open': lambda: call(434, int(pid), 0)})


@attack
def hard_link(path):
    return tries({
        'to workspace': lambda: os.link(path, '/workspace/linked') is None,
        'of /usr/bin/true to workspace': lambda: os.link('/usr/bin/true', '/workspace/linked-true') is None,
        'of /etc/passwd to tmp': lambda: os.link('/etc/passwd', '/tmp/linked-passwd') is None,
    })


@attack
def change_system():
    """Writes, modes, owners and removals outside the writable roots."""
    found = {}
    for base in ('/', '/usr', '/usr/bin', '/usr/lib', '/etc', '/mnt', '/mnt/user-data', '/mnt/skills', '/mnt/user-data/uploads', '/dev', '/proc', '/var', '/run', '/root', '/home', '/opt', '/srv', '/boot', '/lib'):
        if os.path.isdir(base):
            found['create in ' + base] = lambda base=base: os.open(os.path.join(base, 'boxkite-intruder'), os.O_CREAT | os.O_WRONLY)
            found['mkdir in ' + base] = lambda base=base: os.mkdir(os.path.join(base, 'boxkite-intruder-d')) is None
            found['chmod ' + base] = lambda base=base: os.chmod(base, 0o777) is None
    for path in ('/usr/bin/python3', '/usr/bin/true', '/etc/passwd', '/etc/ld.so.cache'):
        if os.path.exists(path):
            found['write ' + path] = lambda path=path: os.open(path, os.O_WRONLY)
            found['chown ' + path] = lambda path=path: os.chown(path, os.getuid(), os.getgid()) is None
            found['unlink ' + path] = lambda path=path: os.unlink(path) is None
            found['utime ' + path] = lambda path=path: os.utime(path) is None
    return tries(found)


@attack
def root_is_writable():
    """Whether a mount apart from the writable roots lacks the read-only flag."""
    found = []
    writable = ('/workspace', '/tmp', '/mnt/user-data/outputs', '/dev/shm', '/dev/pts', '/proc', '/dev')
    for line in open('/proc/self/mountinfo'):
        point, flags = line.split()[4:6]
        if 'ro' not in flags.split(',') and not any(point == base or point.startswith(base + '/') for base in writable):
            found.append(point)
    return bool(found), found


@attack
def devices():
    found = {}
    for kind, major, minor, label in ((stat.S_IFCHR, 1, 1, 'mem'), (stat.S_IFCHR, 1, 11, 'kmsg'), (stat.S_IFBLK, 254, 0, 'vda'), (stat.S_IFBLK, 8, 0, 'sda'), (stat.S_IFCHR, 10, 229, 'fuse'), (stat.S_IFCHR, 5, 1, 'console')):
        for base in ('/workspace', '/tmp', '/dev/shm', '/dev'):
            path = '%s/node-%s' % (base, label)
            found['mknod ' + path] = lambda path=path, kind=kind, major=major, minor=minor: os.mknod(path, kind | 0o666, os.makedev(major, minor)) is None
    for name in ('mem', 'kmem', 'kmsg', 'port', 'vda', 'sda', 'nvme0n1', 'loop-control', 'loop0', 'fuse', 'kvm', 'net/tun', 'vhost-vsock', 'vsock', 'uinput', 'console', 'tty0', 'tty1', 'mapper/control', 'snapshot', 'cpu/0/msr', 'userfaultfd'):
        found['open /dev/' + name] = lambda name=name: os.open('/dev/' + name, os.O_RDONLY | os.O_NONBLOCK)
    return tries(found)


MOUNT, UMOUNT, PIVOT, CHROOT, UNSHARE, SETNS = (165, 166, 155, 161, 272, 308) if X86 else (40, 39, 41, 51, 97, 268)


@attack
def mounts():
    ns = {name: (lambda name=name: call(SETNS, os.open('/proc/1/ns/' + name, os.O_RDONLY), 0)) for name in ('mnt', 'pid', 'net', 'user', 'ipc', 'uts', 'cgroup')}
    return tries({
        'mount tmpfs': lambda: call(MOUNT, b'none\0', b'/tmp\0', b'tmpfs\0', 0, None) == 0 or -1,
        'remount /': lambda: call(MOUNT, b'none\0', b'/\0', None, 0x20 | 0x1000, None) == 0 or -1,
        'bind': lambda: call(MOUNT, b'/usr\0', b'/tmp\0', None, 0x1000, None) == 0 or -1,
        'umount /proc': lambda: call(UMOUNT, b'/proc\0', 2) == 0 or -1,
        'umount masks': lambda: any([call(UMOUNT, line.split()[4].encode() + b'\0', 2) == 0 for line in open('/proc/self/mountinfo')]),
        'pivot_root': lambda: call(PIVOT, b'/tmp\0', b'/tmp\0') == 0 or -1,
        'chroot': lambda: call(CHROOT, b'/tmp\0') == 0 or -1,
        'open_tree': lambda: call(428, -100, b'/usr\0', 1),
        'fsopen': lambda: call(430, b'tmpfs\0', 0),
        'move_mount': lambda: call(429, -100, b'/usr\0', -100, b'/tmp\0', 0) == 0 or -1,
        'mount_setattr': lambda: call(442, -100, b'/\0', 0, bytes(32), 32) == 0 or -1,
        **{'setns ' + name: function for name, function in ns.items()},
    })


@attack
def new_namespaces():
    """New user namespaces, and with one the mounts that its capabilities would allow."""
    found = {}
    for label, flag in (('user', 0x10000000), ('mnt', 0x20000), ('pid', 0x20000000), ('net', 0x40000000), ('ipc', 0x8000000), ('uts', 0x4000000), ('cgroup', 0x2000000), ('user+mnt', 0x10020000)):
        found['unshare ' + label] = lambda flag=flag: in_child(lambda: call(UNSHARE, flag) == 0)

    def clone3():
        # exit_signal is SIGCHLD.
        result = call(435, struct.pack('11Q', 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)
        if result == 0:
            os._exit(0)
        return result

    found['clone3'] = clone3
    return tries(found)


def in_child(function):
    """Whether `function` holds in a forked child."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if function() else 1)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@attack
def setuid_programs():
    """Starts set-uid programs and reads the ids and capabilities that they really have.

    Each gets a full pipe to write its help to, so that it waits there and can be looked at.
    """
    found = []
    receive, send = os.pipe()
    os.set_blocking(send, False)
    try:
        while True:
            os.write(send, bytes(4096))
    except BlockingIOError:
        os.set_blocking(send, True)
    for name in ('su', 'mount', 'umount', 'passwd', 'newgrp', 'chsh', 'chfn', 'gpasswd', 'sudo', 'newuidmap', 'newgidmap'):
        path = '/usr/bin/' + name
        if not os.path.exists(path):
            continue
        child = os.fork()
        if child == 0:
            os.dup2(send, 1)
            os.dup2(send, 2)
            os.execv(path, [path, '--help'])
        for _ in range(200):
            if open('/proc/%d/comm' % child).read().strip() == name[:15]:
                break
            time.sleep(0.002)
        status = dict(line.split(':\t', 1) for line in open('/proc/%d/status' % child).read().splitlines() if ':\t' in line)
        if set(status['Uid'].split()) != {str(os.getuid())} or int(status['CapPrm'], 16) != 0:
            found.append(name + ' ' + status['Uid'] + ' ' + status['CapPrm'])
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return bool(found), found


@attack
def own_setuid_file():
    """A set-uid file on each writable mount: nosuid must hold there, whoever comes to own it."""
    found = []
    for line in open('/proc/self/mountinfo'):
        fields = line.split()
        if 'nosuid' not in fields[5].split(','):
            found.append(fields[4])
    return bool(found), found


@attack
def sysctls():
    """Every file below /proc/sys, and the dangerous ones beside it, opened for writing."""
    found = {}
    for base, _, files in os.walk('/proc/sys'):
        for name in files:
            path = os.path.join(base, name)
            found[path] = lambda path=path: os.open(path, os.O_WRONLY)
    for path in ('/proc/sysrq-trigger', '/proc/kcore', '/proc/kmsg', '/proc/kallsyms', '/proc/timer_list', '/proc/keys', '/proc/acpi', '/proc/irq', '/proc/bus', '/proc/fs', '/proc/scsi', '/proc/mtrr', '/proc/latency_stats', '/proc/sched_debug', '/proc/vmallocinfo', '/proc/kpagecount', '/proc/kpageflags', '/proc/slabinfo', '/proc/1/oom_score_adj'):
        # A mask is the null device: writing to it reaches nothing.
        found['write ' + path] = lambda path=path: not is_null(path) and os.open(path, os.O_WRONLY)
    return tries(found)


def is_null(path):
    info = os.stat(path)
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == os.makedev(1, 3)


@attack
def kernel_memory():
    """Kernel addresses and memory that /proc shows."""
    def addresses():
        for line in open('/proc/kallsyms'):
            if int(line.split()[0], 16) != 0:
                return line
        return False
    return tries({
        'kcore': lambda: content('/proc/kcore') not in (True, b''),
        'kallsyms': addresses,
        'kmsg': lambda: not is_null('/proc/kmsg') and os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK),
        'syslog': lambda: call(number(103, 116), 3, ctypes.create_string_buffer(100), 100),
        'keys': lambda: content('/proc/keys') not in (True, b''),
        'timer_list': lambda: content('/proc/timer_list') not in (True, b''),
        'sys': lambda: os.listdir('/sys') or False,
    })


PTRACE, READV, GETFD, KCMP = (101, 310, 438, 312) if X86 else (117, 270, 438, 272)


@attack
def init():
    """PID 1: attach, read, write, take descriptors, end it."""
    buffer = ctypes.create_string_buffer(64)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
    remote = (ctypes.c_size_t * 2)(0x400000, 64)

    def vector(nr):
        ctypes.set_errno(0)
        result = LIBC.syscall(nr, 1, local, 1, remote, 1, 0)
        # EFAULT says that the right to read was given and only the address was wrong.
        return result if result >= 0 else (ctypes.get_errno() == errno.EFAULT or -ctypes.get_errno())

    def killed():
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV, signal.SIGABRT):
            try:
                os.kill(1, number)
            except OSError:
                pass
        time.sleep(0.05)
        state = open('/proc/1/stat').read().rsplit(')', 1)[1].split()[0]
        return state in 'TtZX'

    return tries({
        'ptrace attach': lambda: call(PTRACE, 16, 1, 0, 0),
        'ptrace seize': lambda: call(PTRACE, 0x4206, 1, 0, 0),
        'process_vm_readv': lambda: vector(READV),
        'process_vm_writev': lambda: vector(READV + 1),
        'pidfd_getfd': lambda: call(GETFD, os.pidfd_open(1), 0, 0),
        'kcmp': lambda: call(KCMP, 1, os.getpid(), 2, 0, 0),
        'mem': lambda: os.open('/proc/1/mem', os.O_RDWR),
        'fd': lambda: os.listdir('/proc/1/fd') or True,
        'root': lambda: os.listdir('/proc/1/root'),
        'cwd': lambda: os.readlink('/proc/1/cwd'),
        'exe': lambda: os.readlink('/proc/1/exe'),
        'environ': lambda: content('/proc/1/environ'),
        'uid_map': lambda: os.open('/proc/1/uid_map', os.O_WRONLY),
        'ended': killed,
    })


@attack
def init_limits():
    """Takes every descriptor from PID 1 by its limits. Whoever shares its id may, and ends its own envelope by it."""
    return tries({'limits': lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))})


@attack
def regain():
    """Capabilities, ids and groups that were given up."""
    header, data = struct.pack('Ii', 0x20080522, 0), struct.pack('6I', 0xffffffff, 0xffffffff, 0, 0xffffffff, 0xffffffff, 0)
    return tries({
        'setuid 0': lambda: call(number(105, 146), 0),
        'setresuid': lambda: call(number(117, 147), 0, 0, 0),
        'setgid 0': lambda: call(number(106, 144), 0),
        'setfsuid': lambda: call(number(122, 151), 0) == 0 and call(number(122, 151), 0) == 0,
        'setgroups': lambda: call(number(116, 159), 0, None),
        'capset': lambda: call(number(126, 91), header, data),
        'ambient': lambda: call(number(157, 167), 47, 2, 21, 0, 0),
        'securebits': lambda: call(number(157, 167), 28, 0, 0, 0, 0),
        'bounding': lambda: call(number(157, 167), 23, 21, 0, 0, 0) == 1,
        'no_new_privs off': lambda: call(number(157, 167), 38, 0, 0, 0, 0),
        'seccomp off': lambda: call(number(157, 167), 22, 0, 0, 0, 0),
    })


@attack
def no_new_privs():
    value = call(number(157, 167), 39, 0, 0, 0, 0)
    return value != 1, value


@attack
def capabilities():
    found = [line.strip() for line in open('/proc/self/status') if line.startswith('Cap') and int(line.split()[1], 16) != 0]
    return bool(found), found


@attack
def limits():
    """Limits raised, priorities gained, the score of the OOM killer lowered."""
    found = {}
    for name in dir(resource):
        if name.startswith('RLIMIT_'):
            which = getattr(resource, name)
            soft, hard = resource.getrlimit(which)
            if hard != resource.RLIM_INFINITY:
                found['raise ' + name] = lambda which=which, hard=hard: resource.setrlimit(which, (hard + 1, hard + 1)) is None

    def lower():
        # Below 0 it would outlive what the host runs beside it.
        with open('/proc/self/oom_score_adj', 'w') as file:
            file.write('-1')
        return True

    return tries({
        **found,
        'oom score': lower,
        'nice': lambda: os.nice(-1) is not None,
        'realtime': lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) is None,
        'io realtime': lambda: call(number(251, 30), 1, 0, (1 << 13) | 0),
    })


@attack
def connect_tcp(port, *hosts):
    found = {}
    for host in ('127.0.0.1', '::1', '0.0.0.0', '10.0.2.2', '169.254.169.254', '1.1.1.1', '2606:4700:4700::1111') + hosts:
        found[host] = lambda host=host: tcp(host, int(port))
    return tries(found)


def tcp(host, port):
    with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.settimeout(1)
        sock.connect((host, port))
        return True


@attack
def send_udp(port, *hosts):
    """A datagram that leaves: to anything but the own loopback the kernel must know no way."""
    found = {}
    for host in ('169.254.169.254', '1.1.1.1', '255.255.255.255', '224.0.0.1', '2606:4700:4700::1111', 'ff02::1') + hosts:
        def send(host=host):
            with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                return sock.sendto(b'x', (host, int(port)))
        found[host] = send
    return tries(found)


@attack
def connect_unix(name):
    """`@name` is an abstract socket, everything else a path."""
    def dial(kind):
        with socket.socket(socket.AF_UNIX, kind) as sock:
            sock.connect('\0' + name[1:] if name.startswith('@') else name)
            return True
    return tries({'stream': lambda: dial(socket.SOCK_STREAM), 'datagram': lambda: dial(socket.SOCK_DGRAM), 'seqpacket': lambda: dial(socket.SOCK_SEQPACKET)})


@attack
def socket_families():
    """Families and types that network namespaces do not separate, or that reach below the socket layer."""
    def make(*arguments):
        return lambda: socket.socket(*arguments).fileno()
    found = {'raw': make(2, 3, 1), 'raw6': make(10, 3, 58), 'packet': make(17, 3, 0), 'vsock': make(40, 1, 0), 'alg': make(38, 5, 0), 'bluetooth': make(31, 1, 0), 'can': make(29, 3, 1), 'tipc': make(30, 1, 0), 'xdp': make(44, 3, 0), 'rds': make(21, 5, 0), 'kcm': make(41, 5, 0), 'qipcrtr': make(42, 2, 0), 'smc': make(43, 1, 0), 'key': make(15, 3, 2), 'sctp': make(2, 1, 132), 'udplite': make(2, 2, 136), 'mptcp': make(2, 1, 262)}
    for protocol in range(1, 23):
        found['netlink %d' % protocol] = make(16, 3, protocol)
    return tries(found)


@attack
def kernel_interfaces():
    return tries({
        'keyctl': lambda: call(number(250, 219), 0, -3, 1),
        'add_key': lambda: call(number(248, 217), b'user\0', b'boxkite\0', b'x\0', 1, -3),
        'request_key': lambda: call(number(249, 218), b'user\0', b'boxkite\0', None, -3),
        'io_uring_setup': lambda: call(425, 4, ctypes.create_string_buffer(120)),
        'userfaultfd': lambda: call(number(323, 282), 1),
        'bpf': lambda: call(number(321, 280), 0, struct.pack('IIII', 2, 4, 4, 1) + bytes(56), 72),
        'perf_event_open': lambda: call(number(298, 241), struct.pack('II', 1, 120) + bytes(112), 0, -1, -1, 0),
        'fanotify_init': lambda: call(number(300, 262), 0x200, 0),
        'open_by_handle_at': lambda: call(number(304, 265), -100, bytes(16), 0),
        'init_module': lambda: call(number(175, 105), bytes(16), 16, b'\0'),
        'kexec_load': lambda: call(number(246, 104), 0, 0, None, 0),
        'memfd_secret': lambda: call(447, 0),
        'modify_ldt': lambda: call(154, 1, bytes(16), 16) if X86 else -1,
        'seccomp listener': lambda: call(number(317, 277), 1, 8, struct.pack('HxxxxxxP', 1, ctypes.addressof(ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))))),
        'mq_open': lambda: call(number(240, 180), b'boxkite\0', 0o102, 0o600, None),
        'settimeofday': lambda: call(number(164, 170), struct.pack('qq', 0, 0), None),
        'sethostname': lambda: call(number(170, 161), b'intruder', 8),
        'swapon': lambda: call(number(167, 224), b'/workspace/swap\0', 0),
        'quotactl': lambda: call(number(179, 60), 0x80000100, None, 0, None),
    })


@attack
def cgroups():
    """Control files reached by any mount, and membership of another group."""
    found = []
    for line in open('/proc/self/mountinfo'):
        if ' - cgroup' in line:
            found.append(line.split()[4])
    for line in open('/proc/self/cgroup'):
        if line.strip().split(':', 2)[2] != '/':
            found.append(line.strip())
    if os.path.isdir('/sys/fs/cgroup'):
        found.append('/sys/fs/cgroup')
    return bool(found), found


@attack
def terminal_injection():
    master, slave = os.openpty()
    return tries({'TIOCSTI': lambda: fcntl.ioctl(slave, 0x5412, b'x') == 0 or True, 'TIOCCONS': lambda: fcntl.ioctl(slave, 0x541d) == 0 or True, 'TIOCSETD': lambda: fcntl.ioctl(slave, 0x5423, struct.pack('i', 2)) is not None})


@attack
def shared_memory(key, name):
    """System V and POSIX objects made by somebody else."""
    return tries({
        'shmget': lambda: call(number(29, 194), int(key), 1, 0),
        'semget': lambda: call(number(64, 190), int(key), 1, 0),
        'msgget': lambda: call(number(68, 186), int(key), 0),
        'dev shm': lambda: os.open('/dev/shm/' + name, os.O_RDONLY),
        'listing': lambda: [entry for entry in os.listdir('/dev/shm')] or False,
        'sysvipc': lambda: [line for kind in ('shm', 'sem', 'msg') for line in open('/proc/sysvipc/' + kind).read().splitlines()[1:]] or False,
    })


@attack
def make_shared(key, name, abstract, port):
    """Makes one object of each kind, says so and waits until standard input ends. The counterpart of the attacks on them."""
    call(number(29, 194), int(key), 4096, 0o1666)
    call(number(64, 190), int(key), 1, 0o1666)
    call(number(68, 186), int(key), 0o1666)
    with open('/dev/shm/' + name, 'w') as file:
        file.write('secret')
    os.chmod('/dev/shm/' + name, 0o666)
    listeners = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), socket.socket(socket.AF_INET, socket.SOCK_STREAM)]
    listeners[0].bind('\0' + abstract)
    listeners[1].bind(('127.0.0.1', int(port)))
    for listener in listeners:
        listener.listen()
    print(json.dumps({'ready': os.getpid()}), flush=True)
    sys.stdin.read()
    return False, 'made'


@attack
def fork_bomb(seconds):
    """Forks until it is refused, again and again for a while; says how many processes there were at most."""
    end = time.monotonic() + float(seconds)
    most, refusals, mine = 0, 0, os.getpid()
    while time.monotonic() < end:
        try:
            if os.fork() == 0:
                signal.pause() if os.getppid() == mine else None
                time.sleep(600)
                os._exit(0)
            most += 1
        except OSError as error:
            refusals += 1
            time.sleep(0.005)
    return False, {'most': most, 'refusals': refusals}


if __name__ == '__main__':
    reached, detail = ATTACKS[sys.argv[1]](*sys.argv[2:])
    json.dump({'reached': reached, 'detail': detail}, sys.stdout)
