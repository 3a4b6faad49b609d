"""Reads, from inside a sandbox, everything that the posture test compares. Prints one JSON document.

Runs four threads, then a fork, then a grandchild after setsid and a double fork, and reads each of their threads.
"""
import fcntl, json, os, resource, socket, stat, struct, sys, threading

FIELDS = ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp',
          'Seccomp_filters', 'SigBlk', 'SigIgn', 'NSpid', 'Umask')
NAMESPACES = ('user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup')


def read(path):
    try:
        with open(path, 'rb') as file:
            return file.read(1 << 20).decode('utf-8', 'replace')
    except OSError as error:
        return 'errno ' + str(error.errno)


def status(path):
    found = {}
    for line in read(path).splitlines():
        name, _, value = line.partition(':')
        if name in FIELDS:
            found[name] = value.split()
    return found


def namespaces(base):
    found = {}
    for name in NAMESPACES:
        try:
            found[name] = int(os.stat(base + '/ns/' + name).st_ino)
        except OSError as error:
            found[name] = -error.errno
    return found


def threads(label):
    found = []
    for tid in sorted(os.listdir('/proc/self/task'), key=int):
        base = '/proc/self/task/' + tid
        found.append({'where': label, 'status': status(base + '/status'), 'ns': namespaces(base)})
    return found


def in_child(label, detach):
    """The threads of a forked child; with `detach` of its grandchild in a session of its own."""
    receive, send = os.pipe()
    if os.fork() == 0:
        os.close(receive)
        if detach:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
        started = hold_threads(2)
        os.write(send, json.dumps(threads(label)).encode())
        started.set()
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, 'rb') as file:
        found = json.loads(file.read())
    os.wait()
    return found


def hold_threads(count):
    release = threading.Event()
    for _ in range(count):
        threading.Thread(target=release.wait, daemon=True).start()
    return release


def descriptors():
    found = {}
    for number in range(0, 4096):
        try:
            fcntl.fcntl(number, fcntl.F_GETFD)
            found[number] = os.readlink('/proc/self/fd/' + str(number))
        except OSError:
            pass
    return found


def mounts():
    found = []
    for line in read('/proc/self/mountinfo').splitlines():
        left, _, right = line.partition(' - ')
        fields = left.split()
        kind, source, options = right.split()
        found.append({'root': fields[3], 'point': fields[4], 'flags': fields[5].split(','), 'propagation': fields[6:],
                      'type': kind, 'source': source, 'super': options.split(',')})
    return found


def devices():
    found = {}
    for base, directories, files in os.walk('/dev'):
        for name in directories + files:
            path = os.path.join(base, name)
            try:
                info = os.lstat(path)
            except OSError as error:
                found[path] = 'errno ' + str(error.errno)
                continue
            if stat.S_ISLNK(info.st_mode):
                found[path] = 'link ' + os.readlink(path)
            elif stat.S_ISCHR(info.st_mode):
                found[path] = 'char %d:%d' % (os.major(info.st_rdev), os.minor(info.st_rdev))
            elif stat.S_ISDIR(info.st_mode):
                found[path] = 'directory'
            else:
                found[path] = 'other %o' % info.st_mode
    return found


def interfaces():
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            raw = fcntl.ioctl(sock, 0x8913, struct.pack('16sh', name.encode(), 0) + bytes(24))
            found[name] = struct.unpack('16sh', raw[:18])[1] & 1
    return found


def limits():
    names = [name for name in dir(resource) if name.startswith('RLIMIT_')]
    return {name: list(resource.getrlimit(getattr(resource, name))) for name in names}


def writable(paths):
    found = []
    for path in paths:
        name = os.path.join(path, '.boxkite-write-test')
        try:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            os.unlink(name)
            found.append(path)
        except OSError:
            pass
    return found


def directories(depth):
    found = []
    for base, names, _ in os.walk('/'):
        found.append(base)
        if base.count('/') > depth or base in ('/proc', '/usr', '/dev/pts'):
            names[:] = []
    return found


result = {'descriptors': descriptors(), 'environ': dict(os.environ), 'cwd': os.getcwd()}
# Before any fork, so that nobody is on its way out.
result['processes'] = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())
before = threads('before')
release = hold_threads(4)
result['threads'] = before + threads('threads') + in_child('fork', False) + in_child('setsid grandchild', True) + threads('after')
release.set()
result['mounts'] = mounts()
result['devices'] = devices()
result['interfaces'] = interfaces()
result['routes'] = read('/proc/net/route').splitlines()[1:]
result['routes6'] = [line for line in read('/proc/net/ipv6_route').splitlines() if not line.endswith(' lo')]
result['hostname'] = socket.gethostname()
result['domainname'] = read('/proc/sys/kernel/domainname').strip()
result['limits'] = limits()
result['oom_score_adj'] = read('/proc/self/oom_score_adj').strip()
result['cgroup'] = read('/proc/self/cgroup').splitlines()
result['init'] = status('/proc/1/status')
result['init_ns'] = namespaces('/proc/1')
result['init_files'] = {name: read('/proc/1/' + name)[:400] for name in ('cmdline', 'environ', 'maps', 'cwd', 'root', 'comm', 'mountinfo')}
result['self'] = os.getpid()
result['session'] = [os.getsid(0), os.getpgid(0)]
result['sys'] = os.listdir('/sys') if os.path.isdir('/sys') else []
result['root'] = sorted(os.listdir('/'))
result['proc'] = {name: (read('/proc/' + name)[:200] if not os.path.isdir('/proc/' + name) else sorted(os.listdir('/proc/' + name)))
                  for name in ('kcore', 'kmsg', 'keys', 'timer_list', 'sched_debug', 'kallsyms', 'sysrq-trigger', 'modules', 'config.gz', 'acpi',
                               'scsi', 'irq', 'bus', 'kpagecount', 'vmallocinfo', 'slabinfo')
                  if os.path.exists('/proc/' + name)}
result['writable'] = writable(directories(3))
result['passwd'] = read('/etc/passwd')
result['umask'] = '%03o' % os.umask(0o022)
json.dump(result, sys.stdout)
