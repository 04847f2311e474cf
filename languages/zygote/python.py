# SPDX-License-Identifier: Apache-2.0
"""Makes a CPython a zygote, or one that waits for its program alone (src/zygote/python.cc). It is
started as any program is, `python3 main.py`, and imports this as `usercustomize`, the last thing
before it would run main.py. Above this text the node puts IMPORTS, from languages/python.yaml. What
is done here must leave no trace that a program could stumble on."""
import atexit
import gc
import importlib
import importlib.machinery
import os
import stat
import sys
import weakref

WORKSPACE = "/workspace"
HERE = os.path.dirname(__file__)
ALONE = HERE != WORKSPACE  # where a zygote has this
PROGRAM = os.path.join(WORKSPACE, sys.argv[0])


def is_asked_for():
    """Whether the program of one that is alone has come: it waits for no import but its own."""
    return ALONE and not stat.S_ISFIFO(os.stat(PROGRAM).st_mode)


def import_ahead():
    """The modules that programs use most. One that this Python lacks is left out; one that starts
    threads cannot be had, since a copy would not have them."""
    for name in IMPORTS:
        if is_asked_for():
            return
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        if len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError(f"the module {name} starts threads")


def forget():
    """What this was found by."""
    for name in ("usercustomize", "cloister_zygote"):
        sys.modules.pop(name, None)
    os.environ.pop("PYTHONPATH", None)
    for path in [p for p in sys.path_importer_cache if p.startswith((WORKSPACE, HERE))]:
        del sys.path_importer_cache[path]


def ready():
    """Runs once, when all else is as it is for a program."""
    sys.path_hooks.remove(cloister_zygote.serve)
    forget()
    sys.path[sys.path.index(HERE)] = WORKSPACE
    main = sys.modules["__main__"]
    main.__file__ = PROGRAM
    main.__cached__ = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", PROGRAM)
    ahead.update(sys.modules)
    ahead.pop("__main__")
    gc.collect()
    gc.freeze()
    fresh = type(main)("__main__")  # with what is not frozen, and so collected, as a program's is
    vars(fresh).update(vars(main))
    sys.modules["__main__"] = fresh


def begin():
    """Runs in each copy: what it must not have in common with others. What registers itself with
    os.register_at_fork(), as random does, has seen to itself."""
    threading = sys.modules.get("threading")
    if threading is not None and hasattr(threading.main_thread(), "_set_native_id"):
        threading.main_thread()._set_native_id()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def status(exit):
    """The exit status of a SystemExit, whose message is printed, as handle_system_exit() does."""
    code = exit.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    try:
        print(code, file=sys.stderr)
    except BaseException:
        pass
    return 1


def clear(namespace):
    """As _PyModule_ClearDict(): names with one underscore first."""
    for private in (True, False):
        for name in list(namespace):
            if name != "__builtins__" and (not private or name[:1] == "_" and name[1:2] != "_"):
                namespace[name] = None


def end():
    """What finalize_modules() does to the modules that a program has brought, so that its objects
    end as they would. What was there before it is left alone: memory that is shared is not written."""
    modules = sys.modules
    names = ["__main__"]
    for name in reversed(modules):
        if name in ahead:
            break
        names.append(name)
    references = []
    for name in reversed(names):
        try:
            references.append(weakref.ref(modules[name]))
        except (KeyError, TypeError):
            pass
        modules[name] = None
    for name in ("path", "argv", "ps1", "ps2", "last_exc", "last_type", "last_value",
                 "last_traceback", "path_hooks", "path_importer_cache", "meta_path"):
        value = vars(sys).get(name)
        if value is not None:
            if name in kept:
                kept[name] = value
            setattr(sys, name, None)
    value = None
    collect()
    for reference in reversed(references):
        module = reference()
        if module is not None:
            clear(module.__dict__)
            module = None
    collect()


def collect():
    """The oldest generation has something in it only if the next one was collected before; to
    collect that too costs more, since it frees what the interpreter keeps for reuse."""
    gc.collect(2 if gc.get_count()[2] else 1)


# Of sys, held on to at the end: they are the zygote's.
kept = dict.fromkeys(("path_importer_cache", "path_hooks", "meta_path"))
ahead = {}
try:
    import cloister_zygote
    import_ahead()
    cloister_zygote.prepare(ready, begin, status, end, PROGRAM if ALONE else "")
    sys.path_hooks.insert(0, cloister_zygote.serve)
except BaseException as error:
    if not ALONE:
        cloister_zygote.fail(f"{type(error).__name__}: {error}")
    sys.path.remove(HERE)  # and is as if it had not been told of this
    forget()
