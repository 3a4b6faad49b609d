"""Starts a file agent as the runner does, for tests: PID 1 of its own namespace, a root that holds
only the five directories, the channel at descriptor 3. Needs no privilege but user namespaces.

usage: start-agent.py AGENT SOCKET ROOTS     (ROOTS: a JSON object from path to source)
A source is a directory, a directory with ":ro" behind it, or "tmpfs:SIZE". Clients connect to
SOCKET. Prints "ready", "idle N", "ended STATUS"; ends when its standard input does.
"""

import array
import ctypes
import json
import os
import select
import signal
import socket
import sys

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
AGENT_ID = 1001
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind, flags, data=None):
    encoded = [value.encode() if value else None for value in (source, target, kind)]
    check(libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() if data else None), f"mount {target}")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def isolate(roots):
    uid, gid = os.getuid(), os.getgid()
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID), "unshare")
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{AGENT_ID} {uid} 1")
    write("/proc/self/gid_map", f"{AGENT_ID} {gid} 1")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    new = "/tmp"
    kept = {path: source for path, source in roots.items()}
    handles = {
        path: os.open(source.removesuffix(":ro"), os.O_PATH)
        for path, source in kept.items()
        if not source.startswith("tmpfs:")
    }
    mount("root", new, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for path, source in kept.items():
        target = new + path
        os.makedirs(target)
        if source.startswith("tmpfs:"):
            mount("files", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755," + source.removeprefix("tmpfs:"))
            continue
        mount(f"/proc/self/fd/{handles[path]}", target, None, MS_BIND)
        if source.endswith(":ro"):
            locked = MS_NOSUID | MS_NODEV
            mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | locked)
    mount(None, new, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    for handle in handles.values():
        os.close(handle)


def run_agent(agent, channel, null):
    os.chroot("/tmp")
    os.chdir("/")
    # Out of the way first: any of them may have one of the numbers that are about to be taken.
    program, runner, null = (os.dup2(number, to, inheritable=False) for number, to in
                             ((agent, 100), (channel.fileno(), 101), (null, 102)))
    for number in range(3):
        os.dup2(null, number)
    os.dup2(runner, 3)
    os.closerange(4, 100)
    os.closerange(101, 1024)
    os.execve(program, ["boxkite-agent"], {})


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def serve(listener, channel, agent_pid):
    def ended():
        _, status = os.waitpid(agent_pid, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")
        sys.exit(0)

    while True:
        ready, _, _ = select.select([listener, channel, sys.stdin], [], [])
        if channel in ready:
            message = channel.recv(64)
            if message == b"":
                ended()
            elif message == b"R":
                say("ready")
            else:
                say(f"idle {int.from_bytes(message[1:9], 'little')}")
        if listener in ready:
            client, _ = listener.accept()
            rights = array.array("i", [client.fileno()])
            try:
                channel.sendmsg([b"C"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            except OSError:
                ended()
            client.close()
        if sys.stdin in ready and sys.stdin.readline() == "":
            os.kill(agent_pid, signal.SIGKILL)
            os.waitpid(agent_pid, 0)
            return


def main():
    agent = os.open(sys.argv[1], os.O_RDONLY)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(sys.argv[2])
    # As the runner: whoever connects may be faster than who accepts.
    listener.listen(4096)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    null = os.open("/dev/null", os.O_RDWR)
    isolate(json.loads(sys.argv[3]))
    pid = os.fork()
    if pid == 0:
        try:
            run_agent(agent, theirs, null)
        finally:
            os._exit(99)
    theirs.close()
    serve(listener, ours, pid)


main()
