# SPDX-License-Identifier: Apache-2.0
"""The Python kernel: runs cells of code one after the other in one namespace. src/wire/kernel.h says
how it is spoken to: `python3 -c THIS DIR`; python_output.py and python_notebook.py come before it. Everything here runs beside the cells' own code and is
trusted by nobody; it only has to serve code that means well."""
import ast
import builtins
import contextvars
import os
import signal
import sys
import types

DIR = sys.argv[1]
MAX_ROWS = 1000  # of a table, as JSON
MAX_PART = 1 << 28  # bytes of a part of a result: more than the service may be set to keep


class Interrupts:
    """SIGINT breaks the code of a cell, and nothing else. One that comes between the beginning of the cell and that of
    its code, or between the code and its figures, breaks what comes next."""

    def __init__(self):
        self.allowed = False  # it is raised; without a call it becomes False, as one may raise it
        self.held = False     # otherwise it waits for allow()
        self.pending = False
        self.arm()

    def arm(self):
        signal.signal(signal.SIGINT, self.handle)

    def handle(self, number, frame):
        if self.allowed:
            raise KeyboardInterrupt
        self.pending = self.held

    def begin(self):
        self.held = True

    def end(self):
        self.allowed = self.held = self.pending = False

    def allow(self):
        """Within a `try`."""
        self.allowed = True
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt


class Report:
    """What is said of a cell, where its program listens."""

    def __init__(self, tag):
        self.fd = os.open(os.path.join(DIR, "report"), os.O_WRONLY)
        self.tag = tag.encode("utf-8", "surrogateescape")

    def say(self, text):
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(self.fd, rest):]

    def result(self, data):
        text = encoded(data)
        self.say(b"R%d %s\n" % (len(text), self.tag) + text)

    def begun(self):
        self.say(b"B %s\n" % self.tag)

    def done(self, code):
        self.say(b"D%d %s\n" % (code, self.tag))

    def close(self):
        os.close(self.fd)


interrupts = Interrupts()
report = None
loop = None
context = contextvars.copy_context()  # of all cells
entered = False                       # it is the current one
figures = {}                          # that the cell has shown: the PNG by the figure's id
cells = 0
pid = os.getpid()


def next_code():
    """The text of the next cell."""
    while True:
        fd = os.open(os.path.join(DIR, "code"), os.O_RDONLY)
        parts = []
        try:
            while part := os.read(fd, 65536):
                parts.append(part)
                if part.endswith(b"\0"):
                    return b"".join(parts)[:-1].decode("utf-8", "surrogateescape")
        finally:
            os.close(fd)


def wait_for_code():
    """Tasks that a cell left in the event loop go on meanwhile."""
    if loop is None or loop.is_closed():
        return next_code()
    import asyncio
    if not asyncio.all_tasks(loop):
        return next_code()
    return loop.run_until_complete(loop.run_in_executor(None, next_code))


# - results as JSON -

def finite(number):
    return number if number - number == 0 else None


def clean(value):
    """The nearest that JSON has."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, str):  # without half characters
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        names = {None: "null", True: "true", False: "false"}
        return {clean(key if isinstance(key, str) else names[key] if key is None or isinstance(key, bool) else str(key)):
                clean(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(each) for each in value]
    if hasattr(value, "tolist"):  # of numpy
        return clean(value.tolist())
    return clean(str(value))


def json_of(value):
    """Its JSON as bytes, or None where it has none."""
    import json
    for attempt in (lambda: value, lambda: clean(value)):
        try:
            return json.dumps(attempt(), allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError):
            pass
    return None


def encoded(data):
    """A result: what cannot be said costs its own part only."""
    parts = []
    for mime, value in data.items():
        if mime == "text/plain" and isinstance(value, str):
            value = value[:MAX_PART // 4]
        text = json_of(value)
        if text is None or len(text) > MAX_PART or sum(map(len, parts)) > 2 * MAX_PART:
            print(f"kernel: {mime} is left out: " + ("it is too large" if text else "it cannot be said as JSON"),
                  file=sys.stderr)
        else:
            parts.append(json_of(mime) + b":" + text)
    return b"{" + b",".join(parts) + b"}"


# - what is shown of a value -

def base64_of(value):
    import base64
    return base64.b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else value


REPRESENTATIONS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"))


def call(value, name):
    """The method's answer, without the metadata that may be with it."""
    if isinstance(value, type):
        return None
    method = getattr(value, name, None)
    if not callable(method):
        return None
    try:
        answer = method()
    except Exception:
        return None
    return answer[0] if isinstance(answer, tuple) else answer


def exact(parsed, values):
    """pandas rounds numbers in JSON, down to nothing."""
    for at, value in enumerate(values):
        if isinstance(value, float):
            parsed[at] = finite(value)


def table_of(value):
    """A pandas object as JSON."""
    if not type(value).__module__.startswith("pandas.") or not hasattr(value, "to_json"):
        return None
    import json
    try:
        shown = value.head(MAX_ROWS) if hasattr(value, "head") else value
        table = json.loads(shown.to_json(orient="split", date_format="iso", double_precision=15))
    except Exception:
        return None
    try:
        exact(table["index"], shown.index.tolist())
        if hasattr(shown, "columns"):
            for row, values in zip(table["data"], zip(*(shown.iloc[:, at].tolist() for at in range(shown.shape[1])))):
                exact(row, values)
        else:
            exact(table["data"], shown.tolist())
    except Exception:
        pass
    return table


def is_figure(value):
    return type(value).__module__.startswith("matplotlib.") and hasattr(value, "savefig")


def figure_of(value):
    """A matplotlib figure as PNG."""
    if not is_figure(value):
        return None
    import io
    image = io.BytesIO()
    value.savefig(image, format="png", bbox_inches="tight")
    return base64_of(image.getvalue())


def bundle(value):
    data = {"text/plain": None}  # the first, as it says the most in the least room
    answer = call(value, "_repr_mimebundle_")
    if isinstance(answer, dict):
        data.update({str(name): base64_of(each) for name, each in answer.items()})
    for name, mime in REPRESENTATIONS:
        if mime not in data and (answer := call(value, name)) is not None:
            data[mime] = base64_of(answer)
    for mime, answer in (("application/json", table_of), ("image/png", figure_of)):
        if mime not in data and (found := answer(value)) is not None:
            data[mime] = found
    if data["text/plain"] is None:
        data["text/plain"] = repr(value)
    return data


def show(value, again=True):
    """Unless `again`, not a figure that the cell has shown as it is."""
    data = bundle(value)
    if is_figure(value):
        if not again and figures.get(id(value)) == data.get("image/png"):
            return
        figures[id(value)] = data.get("image/png")
    report.result(data)


class Handle:
    """Of something displayed. What was shown stays: its update is shown too."""

    def __init__(self, display_id):
        self.display_id = display_id

    def display(self, value, **options):
        display(value, **options)

    update = display


def display(*values, raw=False, display_id=None, **_):
    """Shows values as results of the cell."""
    for value in values:
        if raw and isinstance(value, dict):
            report.result(value)
        else:
            show(value)
    return Handle(display_id if isinstance(display_id, str) else f"{cells}") if display_id else None


def show_figures(*_, **__):
    """What pyplot has open, as IPython's inline backend does at the end of a cell and at show()."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not hasattr(pyplot, "get_fignums"):
        return
    try:
        for number in pyplot.get_fignums():
            show(pyplot.figure(number), again=False)
    finally:
        pyplot.close("all")


# - running -

def is_silent(code):
    """A `;` at its end keeps the last value from being shown."""
    import io
    import tokenize
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
                last = token.string
    except (tokenize.TokenError, SyntaxError):
        return False
    return last == ";"


def compiled(code, name):
    """(statements, last expression or None)."""
    code = translated(code, name)
    tree = ast.parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not is_silent(code):
        last = ast.Expression(tree.body.pop().value)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return (compile(tree, name, "exec", flags),
            compile(last, name, "eval", flags) if last is not None else None)


def event_loop():
    """Of all cells, and the main thread's own when no other runs."""
    global loop
    import asyncio
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def in_context(function, *arguments):
    """What one cell sets in contextvars is there for the next."""
    global entered
    if entered:
        return function(*arguments)
    entered = True
    try:
        return context.run(function, *arguments)
    finally:
        entered = False


def task_of(coroutine):
    if entered or sys.version_info < (3, 11):
        return in_context(event_loop().create_task, coroutine)
    return event_loop().create_task(coroutine, context=context)


def evaluate(code, namespace):
    value = in_context(eval, code, namespace)
    if not code.co_flags & 0x80:  # CO_COROUTINE: it awaits something
        return value
    task = task_of(value)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        interrupts.allowed = False
        task.cancel()
        try:
            loop.run_until_complete(task)
        except BaseException:
            pass
        raise KeyboardInterrupt from None


def execute(code, namespace, name):
    """Runs it → its last value."""
    statements, last = compiled(code, name)
    evaluate(statements, namespace)
    return evaluate(last, namespace) if last is not None else None


def show_error(error, name):
    """Its traceback, from the cell's own lines on."""
    import traceback
    if isinstance(error, UsageError):
        print(f"UsageError: {error}", file=sys.stderr)
        return
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != name:
        at = at.tb_next
    shown = traceback.TracebackException(type(error), error, at)
    own = [frame.f_globals is globals() for frame, _ in traceback.walk_tb(at)]
    shown.stack[:] = [line for line, ours in zip(shown.stack, own) if not ours]  # of a magic, or the interrupt
    print("".join(shown.format()), end="", file=sys.stderr)


def exit_code(error):
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 255
    print(error.code, file=sys.stderr)
    return 1


def run(code, namespace):
    """One cell → its exit code."""
    name = f"<cell {cells}>"
    import linecache
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    namespace.pop("__warningregistry__", None)  # warn of each once in every cell
    if "asyncio" in sys.modules:
        event_loop()
    try:
        interrupts.allow()
        if (value := execute(code, namespace, name)) is not None:
            builtins._ = namespace["_"] = value
            in_context(show, value, False)
        interrupts.allowed = False
        status = 0
    except SystemExit as error:
        interrupts.allowed = False
        status = exit_code(error)
    except KeyboardInterrupt as error:
        interrupts.allowed = False
        interrupts.end()
        show_error(error, name)
        status = 1
    except BaseException as error:
        interrupts.allowed = False
        sys.last_value = error
        show_error(error, name)
        status = 1
    return end(status, name)


def end(status, name):
    """Shows the figures that are left, also of a cell that failed: they are not the next one's."""
    try:
        if interrupts.held:
            interrupts.allow()
            in_context(show_figures)
            interrupts.allowed = False
        elif "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    except BaseException as error:
        interrupts.allowed = False
        show_error(error, name)
        status = status or 1
    interrupts.end()
    figures.clear()
    return status


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def cell(code, namespace):
    global report, cells
    cells += 1
    fd = os.open(os.path.join(DIR, "in"), os.O_RDONLY)
    os.dup2(fd, 0)
    os.close(fd)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    tag, _, code = code.partition("\n")
    report = Report(tag)
    figures.clear()
    for number in (1, 2):  # a child may have made the pipes so that nobody waits for room
        os.set_blocking(number, True)
    interrupts.arm()
    interrupts.begin()
    report.begun()
    code = run(code, namespace)
    interrupts.arm()
    flush()
    if os.getpid() != pid:  # a child of the cell that came to its end
        os._exit(code)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    report.done(code)
    report.close()


def add_user_site():
    """A package that a cell or another program of the session installs is there for the next import: Python itself looks for
    the folder only when it starts."""
    if "PYTHONUSERBASE" not in os.environ:
        return
    import site
    folder = site.getusersitepackages()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return
    if folder not in sys.path:
        system = set(site.getsitepackages())
        sys.path.insert(next((n for n, path in enumerate(sys.path) if path in system), len(sys.path)), folder)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    whole("stdout")
    whole("stderr")
    add_user_site()
    os.environ.setdefault("MPLBACKEND", "Agg")
    import warnings
    warnings.filterwarnings("ignore", message=".*non-interactive.*cannot be shown.*")
    user = types.ModuleType("__main__")
    user.__dict__["display"] = builtins.display = display
    shell = Shell(user.__dict__)
    user.__dict__["get_ipython"] = builtins.get_ipython = lambda: shell
    sys.meta_path.insert(0, Patched())
    sys.meta_path.append(StandIn())
    sys.modules["__main__"] = user
    sys.argv = [""]
    sys.path[0] = ""
    while True:
        try:
            code = wait_for_code()
        except OSError as error:
            sys.exit(f"kernel: {error}")
        try:
            cell(code, user.__dict__)
        except BrokenPipeError:
            pass


main()
