/**
 * The program that keeps an interpreter's state: Python 3.8 or later, its standard library only. It comes to the
 * interpreter as an argument, so that no file of the sandbox has a part in it. Messages: `messages.ts`.
 *
 * What it runs shares its process, and may do to it whatever it likes. So it keeps what it works with out of the reach
 * of a mere change of a module (its own copy of the builtins, functions taken at the start), and whoever reads its
 * answers believes nothing without the call's nonce.
 */
export const DRIVER = String.raw`
import builtins, linecache, os, signal, site, sys, traceback, types, __future__
import _ast
from importlib.machinery import PathFinder

# Functions that are made from here on look here, whatever becomes of the module.
__builtins__ = dict(vars(builtins))


def serve(cap, rich_cap, memory_cap):
    read, write, fstat, getpid, leave = os.read, os.write, os.fstat, os.getpid, os._exit
    set_blocking, modules = os.set_blocking, sys.modules
    recursion_limit, set_recursion_limit = sys.getrecursionlimit, sys.setrecursionlimit
    TracebackException, lines_of, write_traceback = traceback.TracebackException, linecache.cache, traceback.print_exc
    Expression, Expr = _ast.Expression, _ast.Expr
    own_globals, own_pid = globals(), getpid()
    CHANNEL, PIECE, COROUTINE = 3, 16384 - 24, 0x80
    ONLY_AST, TOP_LEVEL_AWAIT = 0x400, 0x2000
    FUTURES = 0
    for name in __future__.all_feature_names:
        FUTURES |= getattr(__future__, name).compiler_flag

    def identity(fd):
        try:
            found = fstat(fd)
            return found.st_dev, found.st_ino
        except OSError:
            return None

    channel, version = identity(CHANNEL), bytes(sys.version_info[:3])
    os.set_inheritable(CHANNEL, False)

    # The reader of the other side is gone, or the code has taken the channel away: nothing can be told any more.
    LOST = 71

    def receive(count):
        while len(state.ahead) < count:
            try:
                part = read(CHANNEL, max(65536, min(count - len(state.ahead), 1 << 22)))
            except BlockingIOError:
                set_blocking(CHANNEL, True)
                continue
            except OSError:
                leave(LOST)
            except BaseException:
                # A signal handler of the code, while nothing of it runs.
                continue
            if not part:
                leave(LOST)
            state.ahead += part
        found, state.ahead = state.ahead[:count], state.ahead[count:]
        return found

    def put(fd, data):
        while data:
            try:
                data = data[write(fd, data):]
            except BlockingIOError:
                set_blocking(fd, True)

    def send(nonce, kind, payload):
        # Each piece is one write, which another one can't fall into; one that was written twice is known by its place.
        if identity(CHANNEL) != channel:
            leave(LOST)
        place = 0
        while True:
            piece, payload = payload[:PIECE], payload[PIECE:]
            head = nonce + bytes([kind, not payload]) + place.to_bytes(2, 'little') + len(piece).to_bytes(4, 'little')
            while True:
                try:
                    put(CHANNEL, head + piece)
                    break
                except OSError:
                    leave(LOST)
                except BaseException:
                    continue
            if not payload:
                return
            place += 1

    space = types.ModuleType('__main__')
    space.__dict__['__builtins__'] = builtins
    modules['__main__'] = space
    ns = space.__dict__

    class State:
        ahead = b''
        running = False
        interrupts = 0
        number = 0
        flags = TOP_LEVEL_AWAIT
        loop = None
        truncated = False

    state, shown = State(), []

    def interrupted(number, frame):
        state.interrupts += 1
        if state.running:
            state.running = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)

    def cut(text, most):
        data = text[:most + 1].encode('utf-8', 'backslashreplace')
        if len(data) <= most:
            return data
        state.truncated = True
        return data[:most].decode('utf-8', 'ignore').encode()

    def failure(error):
        try:
            trace = error.__traceback__
            # Frames of this program are nobody's business.
            while trace is not None and trace.tb_frame.f_globals is own_globals:
                trace = trace.tb_next
            here = trace
            while here is not None and here.tb_next is not None:
                if here.tb_next.tb_frame.f_globals is own_globals:
                    here.tb_next = None
                here = here.tb_next
            return ''.join(TracebackException(type(error), error, trace).format())
        except BaseException:
            return type(error).__name__ + '\n'

    MIMES = (
        ('_repr_html_', 'text/html'), ('_repr_markdown_', 'text/markdown'), ('_repr_latex_', 'text/latex'),
        ('_repr_svg_', 'image/svg+xml'), ('_repr_png_', 'image/png'), ('_repr_jpeg_', 'image/jpeg'),
    )
    KNOWN = frozenset(MIME for _, MIME in MIMES)
    PLAIN = frozenset((int, str, float, bool, bytes, list, tuple, dict, set, complex, types.FunctionType, type))

    def figure_png(figure):
        import io
        file = io.BytesIO()
        figure.savefig(file, format='png', bbox_inches='tight')
        return file.getvalue()

    def forms_of(value):
        # As in Jupyter: methods of the class, never those that an instance makes up.
        kind, forms = type(value), {}
        if kind in PLAIN or isinstance(value, type):
            return forms
        bundle = getattr(kind, '_repr_mimebundle_', None)
        if bundle is not None:
            found = bundle(value, include=None, exclude=None)
            found = found[0] if isinstance(found, tuple) else found
            forms.update((name, form) for name, form in (found or {}).items() if name in KNOWN)
        for method, mime in MIMES:
            make = getattr(kind, method, None)
            if make is not None and mime not in forms:
                form = make(value)
                form = form[0] if isinstance(form, tuple) else form
                if form is not None:
                    forms[mime] = form
        figures = modules.get('matplotlib.figure')
        if figures is not None and 'image/png' not in forms and isinstance(value, figures.Figure):
            forms['image/png'] = figure_png(value)
        return forms

    def rich(value):
        try:
            return forms_of(value)
        except Exception:
            # It has its repr; the reason is shown where warnings are.
            write_traceback()
            return {}

    def display(*values, **options):
        """Shows values beside the result of a call, in the forms that they have."""
        for value in values:
            forms = {'text/plain': repr(value)}
            forms.update(rich(value))
            shown.append((1, forms))

    builtins.display = display

    def figures():
        plots = modules.get('matplotlib.pyplot')
        if plots is None:
            return
        for number in plots.get_fignums():
            figure = plots.figure(number)
            shown.append((1, {'text/plain': repr(figure), 'image/png': figure_png(figure)}))
        plots.close('all')

    def execute(code):
        state.flags |= code.co_flags & FUTURES
        value = eval(code, ns)
        if not code.co_flags & COROUTINE:
            return value
        import asyncio
        if state.loop is None or state.loop.is_closed():
            state.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(state.loop)
        return state.loop.run_until_complete(value)

    def run(text):
        state.number += 1
        name = '<call %d>' % state.number
        lines_of[name] = (len(text), None, text.splitlines(True), name)
        lines_of.pop('<call %d>' % (state.number - 1000), None)
        tree = compile(text, name, 'exec', state.flags | ONLY_AST, True)
        body, last = tree.body, None
        if body and type(body[-1]) is Expr:
            last = compile(Expression(body.pop().value), name, 'eval', state.flags, True)
        if body:
            execute(compile(tree, name, 'exec', state.flags, True))
        value = execute(last) if last is not None else None
        if value is None:
            return None
        result = repr(value)
        forms = rich(value)
        if forms:
            shown.append((0, forms))
        return result

    def answer(text):
        result = error = None
        try:
            try:
                state.running = True
                try:
                    result = run(text)
                finally:
                    figures()
            finally:
                state.running = False
        except BaseException as problem:
            error = failure(problem)
            if getpid() != own_pid:
                # A copy of this process that the code has made ends like every program.
                flush()
                if isinstance(problem, SystemExit):
                    leave(problem.code if isinstance(problem.code, int) else 0 if problem.code is None else 1)
                put(2, error.encode('utf-8', 'backslashreplace'))
                leave(1)
        return result, error

    def flush():
        for name in ('stdout', 'stderr'):
            try:
                getattr(sys, name).flush()
            except BaseException:
                pass

    def open_streams():
        for name, fd in (('stdout', 1), ('stderr', 2)):
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, 'closed', False):
                setattr(sys, name, open(fd, 'w', buffering=1, encoding='utf-8', errors='backslashreplace', closefd=False))
            elif stream is getattr(sys, '__' + name + '__') and stream.errors != 'backslashreplace':
                stream.reconfigure(errors='backslashreplace')

    def field(tag, data):
        return bytes([tag]) + len(data).to_bytes(4, 'little') + data

    def item(place, forms):
        # Forms that do not fit are left out whole: half an image is none.
        found = []
        for mime, form in forms.items():
            is_text = isinstance(form, str)
            if not is_text and not isinstance(form, (bytes, bytearray)):
                continue
            data = cut(form, cap) if mime == 'text/plain' else form.encode('utf-8', 'backslashreplace') if is_text else bytes(form)
            if len(data) > state.room:
                state.truncated = True
                continue
            state.room -= len(data)
            name = mime.encode()
            found.append(bytes([is_text, len(name)]) + name + len(data).to_bytes(4, 'little') + data)
        return field(3, bytes([place]) + b''.join(found))

    def fields(result, error):
        parts = []
        if result is not None:
            parts.append(field(1, cut(result, cap)))
        if error is not None:
            parts.append(field(2, cut(error, cap)))
        for place, forms in shown[:256]:
            parts.append(item(place, forms))
        if len(shown) > 256:
            state.truncated = True
        return b''.join(parts)

    def reply(nonce, result, error):
        state.truncated, state.room = False, rich_cap
        try:
            payload = fields(result, error)
        except BaseException as problem:
            payload = field(2, cut(failure(problem), cap))
        shown.clear()
        flush()
        send(nonce, 2, payload + field(4, bytes([state.truncated])))

    user_site, add_site, is_directory = site.getusersitepackages(), site.addsitedir, os.path.isdir

    class UserSite:
        # Asked for what nobody else has found: what the agent installs for itself may be there by now.
        @staticmethod
        def find_spec(name, path=None, target=None):
            if path is not None or user_site in sys.path or not is_directory(user_site):
                return None
            add_site(user_site)
            return PathFinder.find_spec(name)

    def turn():
        head = receive(24)
        nonce, kind = head[:16], head[16]
        text = receive(int.from_bytes(head[20:24], 'little'))
        if kind == 1:
            send(nonce, 1, version + state.interrupts.to_bytes(4, 'little'))
            return
        try:
            open_streams()
        except BaseException:
            # The code has broken what this needs; that is its own matter.
            pass
        result, error = answer(text.decode('utf-8', 'replace'))
        if getpid() != own_pid:
            flush()
            leave(0)
        if recursion_limit() < 400:
            set_recursion_limit(1000)
        reply(nonce, result, error)

    if memory_cap:
        import resource
        # For private memory, where no control group bounds it: an allocation beyond it fails as MemoryError.
        resource.setrlimit(resource.RLIMIT_DATA, (memory_cap, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    site.ENABLE_USER_SITE = True
    sys.argv = ['']
    sys.path.insert(0, '')
    sys.meta_path.append(UserSite)
    while True:
        turn()


# By way of other globals: before Python 3.10 a frame takes the builtins of the one below it where both share theirs.
eval('serve(*numbers)', {'serve': serve, 'numbers': [int(text) for text in sys.argv[1:4]]})
`;
