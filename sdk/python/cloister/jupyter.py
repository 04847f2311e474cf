# SPDX-License-Identifier: Apache-2.0
"""A Jupyter kernel whose cells run in a sandbox: "Cloister Python". Needs pyzmq, which Jupyter itself needs too.

    python3 -m cloister.jupyter install [--language LANGUAGE]      adds the kernel to the notebooks of this account

The sandbox lives as long as the kernel. CLOISTER_SANDBOX has arguments of Sandbox as JSON, such as {"memory": "1g"}. The
messages are those of https://jupyter-client.readthedocs.io/en/stable/messaging.html, version 5.3.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import importlib
import json
import os
import pathlib
import signal
import sys
import uuid
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import AsyncSandbox, CloisterError, __version__

DELIMITER, PROTOCOL = b"<IDS|MSG>", "5.3"
Message = Dict[str, Any]


class Connection:
    """The sockets of one kernel, and its messages: signed, as frames."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        zmq: Any = importlib.import_module("zmq")
        self._key, self._session = str(config["key"]).encode(), uuid.uuid4().hex
        self._context: Any = importlib.import_module("zmq.asyncio").Context()
        kinds = {"shell": zmq.ROUTER, "control": zmq.ROUTER, "stdin": zmq.ROUTER, "iopub": zmq.PUB, "hb": zmq.ROUTER}
        self.sockets: Dict[str, Any] = {}
        for name, kind in kinds.items():
            self.sockets[name] = self._context.socket(kind)
            self.sockets[name].linger = 1000
            separator = ":" if config["transport"] == "tcp" else "-"
            self.sockets[name].bind(f"{config['transport']}://{config['ip']}{separator}{config[f'{name}_port']}")

    def _sign(self, frames: List[bytes]) -> bytes:
        return hmac.new(self._key, b"".join(frames), hashlib.sha256).hexdigest().encode() if self._key else b""

    async def receive(self, name: str) -> Tuple[List[bytes], Message]:
        """(the sender, the next message that is signed with our key)"""
        while True:
            frames = await self.sockets[name].recv_multipart()
            at = frames.index(DELIMITER) if DELIMITER in frames else len(frames)
            parts = frames[at + 2:at + 6]
            if len(parts) == 4 and hmac.compare_digest(self._sign(parts), frames[at + 1]):
                header, _, _, content = (json.loads(part) for part in parts)
                return frames[:at], {"header": header, "content": content}

    async def send(self, name: str, kind: str, content: Mapping[str, Any], parent: Mapping[str, Any], sender: List[bytes]) -> None:
        header = {"msg_id": uuid.uuid4().hex, "session": self._session, "username": "kernel", "msg_type": kind, "version": PROTOCOL,
                  "date": datetime.now(timezone.utc).isoformat()}
        frames = [json.dumps(part).encode() for part in (header, parent.get("header", {}), {}, content)]
        await self.sockets[name].send_multipart([*sender, DELIMITER, self._sign(frames), *frames])

    def close(self) -> None:
        self._context.destroy(linger=1000)


class Kernel:
    """Answers the messages of a connection, and runs cells one after the other."""

    def __init__(self, connection: Connection, language: str) -> None:
        self._connection, self._language, self._count = connection, language, 0
        self._sandbox: Optional[AsyncSandbox] = None
        self._cell: Optional[asyncio.Future[Any]] = None
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Serves until a request to shut down, or SIGTERM."""
        for number, handler in ((signal.SIGINT, self.interrupt), (signal.SIGTERM, self._over.set)):
            asyncio.get_running_loop().add_signal_handler(number, handler)
        parts = (self._serve("shell"), self._serve("control"), self._beat(), self._over.wait())
        tasks: List[asyncio.Future[Any]] = [asyncio.ensure_future(part) for part in parts]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._sandbox is not None:
            await self._sandbox.kill()
        for task in done:
            task.result()

    def interrupt(self) -> None:
        if self._cell is not None:
            self._cell.cancel()

    async def _beat(self) -> None:
        socket = self._connection.sockets["hb"]
        while True:
            await socket.send_multipart(await socket.recv_multipart())

    async def _serve(self, name: str) -> None:
        while True:
            sender, message = await self._connection.receive(name)
            kind = str(message["header"]["msg_type"])
            await self._publish("status", {"execution_state": "busy"}, message)
            answer = await self._answer(kind, message)
            if answer is not None:
                await self._connection.send(name, kind.replace("_request", "_reply"), answer, message, sender)
            await self._publish("status", {"execution_state": "idle"}, message)
            if kind == "shutdown_request":
                self._over.set()

    async def _publish(self, kind: str, content: Mapping[str, Any], parent: Message) -> None:
        await self._connection.send("iopub", kind, content, parent, [kind.encode()])

    async def _answer(self, kind: str, message: Message) -> Optional[Dict[str, Any]]:
        """The content of the reply; None for a message without one."""
        content = message["content"]
        if kind == "execute_request":
            return await self._execute(message)
        if kind in ("interrupt_request", "shutdown_request"):
            self.interrupt()
            return {"status": "ok", **({"restart": bool(content.get("restart"))} if kind == "shutdown_request" else {})}
        simple: Dict[str, Dict[str, Any]] = {
            "kernel_info_request": {"protocol_version": PROTOCOL, "implementation": "cloister", "implementation_version": __version__,
                                    "banner": f"{self._language} in a sandbox of Cloister", "language_info": {"name": self._language}},
            "is_complete_request": {"status": "unknown"}, "comm_info_request": {"comms": {}}, "history_request": {"history": []},
            "inspect_request": {"found": False, "data": {}, "metadata": {}},
            "complete_request": {"matches": [], "cursor_start": 0, "cursor_end": 0, "metadata": {}}}
        return {"status": "ok", **simple[kind]} if kind in simple else None

    async def _execute(self, message: Message) -> Dict[str, Any]:
        silent = bool(message["content"].get("silent"))
        self._count += not silent
        if not silent:
            await self._publish("execute_input", {"code": message["content"]["code"], "execution_count": self._count}, message)
        self._cell = asyncio.ensure_future(self._cell_of(message, silent))
        try:
            failure = await self._cell
        except asyncio.CancelledError:
            failure = ("KeyboardInterrupt", "", ["KeyboardInterrupt"])
        except CloisterError as error:
            failure = (type(error).__name__, str(error), [f"{type(error).__name__}: {error}"])
        finally:
            self._cell = None
        if failure is None:
            return {"status": "ok", "execution_count": self._count, "payload": [], "user_expressions": {}}
        content = {"ename": failure[0], "evalue": failure[1], "traceback": failure[2]}
        await self._publish("error", content, message)
        return {"status": "error", "execution_count": self._count, **content}

    async def _cell_of(self, message: Message, silent: bool) -> Optional[Tuple[str, str, List[str]]]:
        """Runs a cell, and gives its error: name, value, lines of the traceback."""
        if self._sandbox is None:
            self._sandbox = await AsyncSandbox(self._language, **json.loads(os.environ.get("CLOISTER_SANDBOX") or "{}"))

        async def say(stream: str, text: str) -> None:
            if not silent:
                await self._publish("stream", {"name": stream, "text": text}, message)

        done = await self._sandbox.run_code(message["content"]["code"], on_stdout=lambda text: say("stdout", text),
                                            on_stderr=lambda text: say("stderr", text))
        for result in () if silent else done.results:
            await self._publish("display_data", {"data": result.data, "metadata": {}, "transient": {}}, message)
        if done.ok or done.error is None:
            return None
        return done.error.name, done.error.value, [str(done.error)]  # stderr has shown the traceback


async def serve(path: str, language: str) -> None:
    """Runs the kernel of a connection file."""
    connection = Connection(json.loads(pathlib.Path(path).read_text()))
    await Kernel(connection, language).run()
    connection.close()


def install(language: str) -> pathlib.Path:
    """Writes the description of the kernel where Jupyter looks for it."""
    data = pathlib.Path(os.environ.get("JUPYTER_DATA_DIR") or os.path.expanduser("~/.local/share/jupyter"))
    folder = data / "kernels" / f"cloister-{language}"
    folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "cloister.jupyter", "run", "{connection_file}", "--language", language]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": f"Cloister {language.title()}", "language": language}))
    return folder


def main(arguments: List[str]) -> None:
    words, language = (arguments[:-2], arguments[-1]) if arguments[-2:-1] == ["--language"] else (arguments, "python")
    if words == ["install"]:
        print(install(language))
    elif len(words) == 2 and words[0] == "run":
        asyncio.run(serve(words[1], language))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
