# SPDX-License-Identifier: Apache-2.0
"""Calls the function of a tool, and prints the result as one JSON object. The function runs in a child process, so that its
end, by exit, signal or timeout, leaves this process to report it. Everything here is in the tool's sandbox: the report is
the tool's word about itself, and nothing else depends on it.

The workspace has tool.py, the source, and call.json: name, args, deadline (seconds), return_bytes, output_bytes."""
import json
import os
import selectors
import signal
import sys
import time

WORKSPACE = os.getcwd()
NOTE = "... [NOTE: output was cut at {} bytes]"


def coerced(value, annotation):
    """The value as the annotation wants it, where a model wrote a text instead."""
    if not isinstance(value, str) or annotation in (str, None):
        return value
    if annotation in (int, float):
        return annotation(value)
    if annotation is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if getattr(annotation, "__origin__", annotation) in (list, dict):
        return json.loads(value)
    return value


def arguments_for(function, given):
    import inspect
    parameters = inspect.signature(function).parameters
    arguments = dict(given)
    for name in ("agent_state", "agent_id"):
        if name in parameters and name not in arguments:
            arguments[name] = os.environ.get("LETTA_AGENT_ID") if name == "agent_id" else None
    hints = {name: each.annotation for name, each in parameters.items()}
    return {name: coerced(value, hints.get(name)) for name, value in arguments.items()}


def text_of(value):
    """The text that a model reads."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return json.dumps(value, default=str)
    return str(value)


def call_function(call):
    """→ the report of the child."""
    import inspect
    import linecache
    import traceback
    with open("tool.py", encoding="utf-8") as file:
        source = file.read()
    for name in ("tool.py", "call.json"):
        os.unlink(name)
    linecache.cache["tool.py"] = (len(source), None, source.splitlines(True), "tool.py")
    space = {"__name__": "tool", "__file__": "tool.py"}
    exec("from typing import *", space)
    try:
        from letta_client import Letta
        space["client"] = Letta() if os.environ.get("LETTA_API_KEY") else None
    except ImportError:
        space["client"] = None
    try:
        exec(compile(source, "tool.py", "exec"), space)
        function = space.get(call["name"])
        if not callable(function):
            raise NameError(f"the source has no function {call['name']}")
        value = function(**arguments_for(function, call["args"]))
        if inspect.iscoroutine(value):
            import asyncio
            value = asyncio.run(value)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        traceback.print_exception(type(error), error, error.__traceback__.tb_next)
        return {"error": f"{type(error).__name__}: {error}"}
    text = text_of(value)
    try:
        plain = json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        plain = text
    if len(json.dumps(plain)) > call["return_bytes"]:
        plain = text
    return {"value": plain, "text": text}


def child(call, out, err, result):
    os.setpgid(0, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    report = call_function(call)
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(result, "w", encoding="utf-8", errors="replace") as pipe:
        json.dump(report, pipe)


def collect(pid, pipes, bounds, deadline):
    """→ ({name: bytes}, whether the time was over). Reads on past the bounds, so that the child never waits."""
    kept, ends = {name: b"" for name in pipes}, {}
    with selectors.DefaultSelector() as selector:
        for name, fd in pipes.items():
            selector.register(fd, selectors.EVENT_READ, name)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return kept, True
            for key, _ in selector.select(min(left, 0.2)):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fd)
                kept[key.data] += data[:bounds[key.data] + 1 - len(kept[key.data])]
            # A process that the tool left behind may hold the pipes for ever.
            if not ends and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                ends["at"] = time.monotonic()
            if ends and time.monotonic() > ends["at"] + 0.5:
                break
    return kept, False


def cut(data, most):
    text = data[:most].decode("utf-8", "replace")
    return text + NOTE.format(most) if len(data) > most else text


def report_of(call, kept, late, status):
    if late:
        return {"error": f"TimeoutError: the tool ran longer than {call['timeout']} s"}
    if len(kept["result"]) > 8 * call["return_bytes"] + 4096:
        return {"error": f"ValueError: the result is larger than {call['return_bytes']} bytes"}
    try:
        report = json.loads(kept["result"])
        if isinstance(report, dict) and ("error" in report or "text" in report):
            return report
    except ValueError:
        pass
    if os.WIFSIGNALED(status):
        return {"error": f"the tool was ended by the signal {signal.Signals(os.WTERMSIG(status)).name}"}
    return {"error": f"the tool exited with the code {os.WEXITSTATUS(status)} before it returned"}


def main():
    with open("call.json", encoding="utf-8") as file:
        call = json.load(file)
    # The client of the service gives way to a package of this name.
    sys.path[:] = [WORKSPACE, *sys.path[1:], WORKSPACE + "/.letta"]
    ends = {name: os.pipe() for name in ("stdout", "stderr", "result")}
    deadline = time.monotonic() + call["timeout"] - min(1.0, call["timeout"] / 10)
    pid = os.fork()
    if pid == 0:
        for read, _ in ends.values():
            os.close(read)
        child(call, *(write for _, write in ends.values()))
        os._exit(0)
    for _, write in ends.values():
        os.close(write)
    most = call["output_bytes"]
    bounds = {"stdout": most, "stderr": most, "result": 8 * call["return_bytes"] + 4096}
    kept, late = collect(pid, {name: read for name, (read, _) in ends.items()}, bounds, deadline)
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    report = report_of(call, kept, late, status)
    if len(str(report.get("text", "")).encode("utf-8", "replace")) > call["return_bytes"]:
        report["text"] = cut(report["text"].encode("utf-8", "replace"), call["return_bytes"])
        report["value"] = report["text"]
    report["stdout"], report["stderr"] = cut(kept["stdout"], most), cut(kept["stderr"], most)
    sys.stdout.write(json.dumps(report))
    sys.stdout.flush()


main()
