# SPDX-License-Identifier: Apache-2.0
"""The Python kernel: runs cells of code one after the other in one namespace. src/wire/kernel.h says
how it is spoken to: `python3 -c THIS DIR`. Everything here runs beside the cells' own code and is
trusted by nobody; it only has to serve code that means well."""
import ast
import builtins
import os
import signal
import sys
import types

DIR = sys.argv[1]
MAX_ROWS = 1000  # of a table, as JSON


class Interrupts:
    """SIGINT breaks the code of a cell, and nothing else."""

    def __init__(self):
        self.allowed = False
        self.arm()

    def arm(self):
        signal.signal(signal.SIGINT, self.handle)

    def handle(self, number, frame):
        if self.allowed:
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
        import json
        text = json.dumps(data, allow_nan=False, default=str).encode()
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


def table_of(value):
    """A pandas object as JSON."""
    if not type(value).__module__.startswith("pandas.") or not hasattr(value, "to_json"):
        return None
    import json
    try:
        shown = value.head(MAX_ROWS) if hasattr(value, "head") else value
        return json.loads(shown.to_json(orient="split", date_format="iso"))
    except Exception:
        return None


def figure_of(value):
    """A matplotlib figure as PNG."""
    if not type(value).__module__.startswith("matplotlib.") or not hasattr(value, "savefig"):
        return None
    import io
    image = io.BytesIO()
    value.savefig(image, format="png", bbox_inches="tight")
    return base64_of(image.getvalue())


def bundle(value):
    data = {}
    answer = call(value, "_repr_mimebundle_")
    if isinstance(answer, dict):
        data.update({str(name): base64_of(each) for name, each in answer.items()})
    for name, mime in REPRESENTATIONS:
        if mime not in data and (answer := call(value, name)) is not None:
            data[mime] = base64_of(answer)
    for mime, answer in (("application/json", table_of), ("image/png", figure_of)):
        if mime not in data and (found := answer(value)) is not None:
            data[mime] = found
    data.setdefault("text/plain", repr(value))
    return data


def display(*values, raw=False, **_):
    """Shows values as results of the cell."""
    for value in values:
        report.result(value if raw and isinstance(value, dict) else bundle(value))


def show_figures():
    """What pyplot has open, as IPython's inline backend does at the end of a cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        display(pyplot.figure(number))
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
    tree = ast.parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not is_silent(code):
        last = ast.Expression(tree.body.pop().value)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return (compile(tree, name, "exec", flags),
            compile(last, name, "eval", flags) if last is not None else None)


def evaluate(code, namespace):
    global loop
    value = eval(code, namespace)
    if not code.co_flags & 0x80:  # CO_COROUTINE: it awaits something
        return value
    import asyncio
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    task = loop.create_task(value)
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


def show_error(error, name):
    """Its traceback, from the cell's own lines on."""
    import traceback
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != name:
        at = at.tb_next
    shown = traceback.TracebackException(type(error), error, at)
    if shown.stack and shown.stack[-1].name == "handle" and shown.stack[-1].filename == "<string>":
        shown.stack.pop()  # of the interrupt
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
    try:
        interrupts.allowed = True
        statements, last = compiled(code, name)
        evaluate(statements, namespace)
        if last is not None and (value := evaluate(last, namespace)) is not None:
            builtins._ = namespace["_"] = value
            display(value)
        show_figures()
        interrupts.allowed = False
        return 0
    except SystemExit as error:
        interrupts.allowed = False
        return exit_code(error)
    except BaseException as error:
        interrupts.allowed = False
        sys.last_value = error
        show_error(error, name)
        return 1


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
    interrupts.arm()
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


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.environ.setdefault("MPLBACKEND", "Agg")
    import warnings
    warnings.filterwarnings("ignore", message=".*non-interactive.*cannot be shown.*")
    user = types.ModuleType("__main__")
    user.__dict__["display"] = builtins.display = display
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
