# SPDX-License-Identifier: Apache-2.0
"""The part of the Python kernel that is IPython's: magics, `!commands`, `from IPython.display import …`; and what it
changes in modules that cells import. It stands before python.py, with which it shares one namespace."""
import os
import re
import sys
import types
from _thread import get_ident

main_thread = get_ident()


# - what it adds to the language -

class UsageError(Exception):
    """Of a magic, told without a traceback."""


TARGET = r"[\w.]+(?:\[[^]]*\])?"
MAGIC = re.compile(rf"(\s*)({TARGET}(?:\s*,\s*{TARGET})*\s*=\s*)?(!!?|%)(?!=)(.*)", re.DOTALL)


def translated(code, name):
    """IPython's `%magic`, `!command` and `name?` as calls. What is Python already stays as it is: only a line that
    Python stumbles over is looked at."""
    if code.lstrip().startswith("%%"):
        head, _, body = code.lstrip()[2:].partition("\n")
        magic, _, rest = head.partition(" ")
        return f"get_ipython().run_cell_magic({magic!r}, {rest.strip()!r}, {body!r})"
    lines = code.split("\n")
    while True:
        try:
            ast.parse("\n".join(lines), name)
        except SyntaxError as error:
            if not error.lineno or error.lineno > len(lines) or not translate(lines, error.lineno - 1):
                return "\n".join(lines)
        except ValueError:
            return code
        else:
            return "\n".join(lines)


def translate(lines, at):
    line = lines[at]
    if "?" in line and (asked := re.fullmatch(r"(\s*)\??([A-Za-z_][\w.]*)\?{0,2}\s*", line)):
        lines[at] = f"{asked[1]}get_ipython().help({asked[2]!r})"
        return True
    match = MAGIC.fullmatch(line)
    if not match:
        return False
    end = at + 1
    rest = match[4].strip()
    while rest.endswith("\\") and end < len(lines):
        rest = rest[:-1] + lines[end].strip()
        lines[end] = ""
        end += 1
    target = match[2] or ""
    if match[3] == "%":
        magic, _, rest = rest.partition(" ")
        call = f"run_line_magic({magic!r}, {rest.strip()!r})"
    elif target or match[3] == "!!":
        call = f"getoutput({rest!r})"
    else:
        call = f"system({rest!r})"
    lines[at] = f"{match[1]}{target}get_ipython().{call}"
    return True


class Shell:
    """What get_ipython() gives. Its magics are its methods line_NAME and cell_NAME."""
    config = {}

    def __init__(self, namespace):
        self.user_ns = namespace

    def run_line_magic(self, name, line):
        method = getattr(self, "line_" + name, None)
        if method is None:
            raise UsageError(f"Line magic function `%{name}` not found.")
        return method(self.expanded(line))

    def run_cell_magic(self, name, line, cell):
        method = getattr(self, "cell_" + name, None)
        if method is None:
            raise UsageError(f"Cell magic `%%{name}` not found.")
        return method(self.expanded(line), cell)

    def magic(self, line):
        name, _, rest = line.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest)

    def expanded(self, text):
        """With the values of `$name` and `{expression}`, where they have one."""
        frame = sys._getframe(2)
        names = {**self.user_ns, **frame.f_locals}

        def value(match):
            if match[0] == "$$":
                return "$"
            if match[1]:
                return str(names.get(match[1], match[0]))
            try:
                return str(eval(match[2], names))
            except Exception:
                return match[0]
        return re.sub(r"\$\$|\$\{[^}]*\}|\$([A-Za-z_]\w*)|\{([^{}]+)\}",
                      lambda match: match[0] if match[0].startswith("${") else value(match), text)

    def system(self, command):
        import subprocess
        flush()
        bash = "/bin/bash" if os.path.exists("/bin/bash") else None
        self.user_ns["_exit_code"] = subprocess.run(self.expanded(command), shell=True, executable=bash).returncode

    def getoutput(self, command):
        import subprocess
        flush()
        done = subprocess.run(self.expanded(command), shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.user_ns["_exit_code"] = done.returncode
        return done.stdout.decode("utf-8", "replace").splitlines()

    def help(self, name):
        import pydoc
        try:
            print(pydoc.plain(pydoc.render_doc(eval(name, self.user_ns))))
        except NameError:
            print(f"Object `{name}` not found.")

    def ignored(self, line):
        """What it would set up is so already."""

    line_matplotlib = line_pylab = line_colors = ignored

    def without(self, line):
        print("kernel: %load_ext, %autoreload and %config have no effect here", file=sys.stderr)

    line_load_ext = line_reload_ext = line_autoreload = line_config = without

    def line_pip(self, line):
        import importlib
        import shlex
        self.system(f"{shlex.quote(sys.executable)} -m pip {line}")
        importlib.invalidate_caches()

    def line_cd(self, line):
        os.chdir(os.path.expanduser(line or "~"))
        print(os.getcwd())

    def line_pwd(self, line):
        return os.getcwd()

    def line_env(self, line):
        name, equals, value = line.partition("=") if "=" in line else line.partition(" ")
        if equals:
            os.environ[name.strip()] = value.strip()
            return None
        return os.environ.get(name) if name else dict(os.environ)

    line_set_env = line_env

    def line_who(self, line):
        print("   ".join(sorted(name for name in self.user_ns if not name.startswith("_") and name != "display")))

    line_whos = line_who

    def line_run(self, line):
        import shlex
        sys.argv = shlex.split(line)
        with open(sys.argv[0], encoding="utf-8") as file:
            evaluate(compile(file.read(), sys.argv[0], "exec"), self.user_ns)

    def line_time(self, line, cell=None):
        import time
        wall, used = time.perf_counter(), time.process_time()
        try:
            return execute(line if cell is None else cell, self.user_ns, f"<cell {cells}>")
        finally:
            print(f"CPU times: {format_time(time.process_time() - used)}\n"
                  f"Wall time: {format_time(time.perf_counter() - wall)}")

    cell_time = line_time

    def line_timeit(self, line, cell=None):
        import statistics
        import timeit
        options = re.match(r"(?:-(?:[nr]\s*\d+|[qoctp])\s+)*", line + " ")[0]
        number, repeat = (int(found[1]) if (found := re.search(rf"-{letter}\s*(\d+)", options)) else None for letter in "nr")
        statement = line[len(options):].strip()
        setup, statement = ("pass", statement) if cell is None else (statement or "pass", cell)
        timer = timeit.Timer(statement, setup, globals=self.user_ns)
        number, repeat = number or timer.autorange()[0], repeat or 7
        each = [time / number for time in timer.repeat(repeat, number)]
        print(f"{format_time(statistics.mean(each))} ± {format_time(statistics.pstdev(each))} per loop "
              f"(mean ± std. dev. of {repeat} run{'s' * (repeat > 1)}, {number:,} loop{'s' * (number > 1)} each)")

    cell_timeit = line_timeit

    def cell_bash(self, line, cell):
        import subprocess
        flush()
        self.user_ns["_exit_code"] = code = subprocess.run(["bash", "-s", *line.split()], input=cell.encode()).returncode
        if code:
            raise UsageError(f"the script ended with exit code {code}")

    cell_sh = cell_bash

    def cell_writefile(self, line, cell):
        words = line.split()
        with open(os.path.expanduser(words[-1]), "a" if words[0] == "-a" else "w", encoding="utf-8") as file:
            file.write(cell)
        print(f"{'Appending to' if words[0] == '-a' else 'Writing'} {words[-1]}")

    def cell_capture(self, line, cell):
        import contextlib
        import io
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                execute(cell, self.user_ns, f"<cell {cells}>")
        finally:
            if line:
                self.user_ns[line.split()[-1]] = types.SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


for _type, _mime in {"html": "text/html", "HTML": "text/html", "markdown": "text/markdown", "latex": "text/latex",
                     "svg": "image/svg+xml", "javascript": "application/javascript", "js": "application/javascript"}.items():
    setattr(Shell, "cell_" + _type, lambda self, line, cell, mime=_mime: display({mime: cell}, raw=True))


def format_time(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


# - modules -

def patch_asyncio(asyncio):
    """A task can be made at top level, where no loop runs: in the loop of the cells that await it."""
    plain = asyncio.create_task

    def create_task(coroutine, **options):
        if asyncio._get_running_loop() is None and get_ident() == main_thread:
            return event_loop().create_task(coroutine, **options)
        return plain(coroutine, **options)
    create_task.__doc__ = plain.__doc__
    asyncio.create_task = asyncio.tasks.create_task = create_task


def patch_pyplot(pyplot):
    pyplot.show = show_figures


def patch_display(module):
    module.display = display


class Patched:
    """Finds modules that are changed once they are there."""
    patches = {"asyncio": patch_asyncio, "matplotlib.pyplot": patch_pyplot,
               "IPython.core.display_functions": patch_display}

    def find_spec(self, name, path=None, target=None):
        patch = self.patches.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None and hasattr(spec.loader, "exec_module"):
                return self.patched(spec, patch)
        return None

    def patched(self, spec, patch):
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            patch(module)
        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            pass
        return spec


class Shown:
    """What IPython.display has classes for: data that is of a type already."""
    mime = "text/plain"
    method = None

    def __init_subclass__(cls):
        if cls.method:
            setattr(cls, cls.method, lambda self: self.data)

    def __init__(self, data=None, url=None, filename=None, **options):
        if filename is None and isinstance(data, os.PathLike):
            data, filename = None, os.fspath(data)
        if url is not None or (isinstance(data, str) and re.match("https?://", data)):
            raise ValueError(f"{type(self).__name__}: {url or data}: what is shown must be here already")
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
            data = data if self.is_binary else data.decode()
        self.data, self.filename, self.options = data, filename, options

    is_binary = False

    def __repr__(self):
        return f"<IPython.core.display.{type(self).__name__} object>"


class HTML(Shown):
    mime, method = "text/html", "_repr_html_"


class Markdown(Shown):
    mime, method = "text/markdown", "_repr_markdown_"


class Latex(Shown):
    mime, method = "text/latex", "_repr_latex_"


class Math(Latex):
    def _repr_latex_(self):
        return f"$\\displaystyle {self.data.strip('$')}$"


class SVG(Shown):
    mime, method = "image/svg+xml", "_repr_svg_"


class JSON(Shown):
    mime, method = "application/json", "_repr_json_"

    def __init__(self, data=None, *rest, **options):
        super().__init__(data, *rest, **options)
        if isinstance(self.data, str):
            import json
            self.data = json.loads(self.data)


class Javascript(Shown):
    mime, method = "application/javascript", "_repr_javascript_"


class Pretty(Shown):
    def __repr__(self):
        return self.data


class Code(Pretty):
    pass


class Image(Shown):
    is_binary = True
    kinds = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"))

    def __init__(self, data=None, url=None, filename=None, **options):
        if isinstance(data, str) and filename is None:
            data, filename = None, data
        super().__init__(data, url, filename, **options)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {mime: self.data for head, mime in self.kinds if self.data.startswith(head)}


class IFrame:
    def __init__(self, src, width, height, **_):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        from html import escape
        return f'<iframe src="{escape(str(self.src))}" width="{self.width}" height="{self.height}"></iframe>'


def update_display(value, display_id=None, **options):
    display(value, **options)


def clear_output(wait=False):
    """What was shown stays."""


class StandIn:
    """IPython as far as cells use it, where it is not installed: the last of the finders."""
    names = ("IPython", "IPython.display", "IPython.core", "IPython.core.display")
    shown = (HTML, Markdown, Latex, Math, SVG, JSON, Javascript, Pretty, Code, Image, IFrame, update_display, clear_output)

    def find_spec(self, name, path=None, target=None):
        if name not in self.names:
            return None
        return type(os.__spec__)(name, self, is_package=name in ("IPython", "IPython.core"))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__.endswith(".display"):
            vars(module).update({each.__name__: each for each in self.shown}, display=display)
        elif module.__name__ == "IPython":
            vars(module).update(get_ipython=get_ipython, version_info=(8, 0), __version__="8.0.0")


