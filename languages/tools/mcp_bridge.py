# SPDX-License-Identifier: Apache-2.0
"""Starts an MCP server, and connects the server's standard input and output to a socket on loopback: one connection, one
process of the server. The service reaches the socket as any port of a session, so that no bound of a program's output
applies, and a slow reader slows the server. Usage: mcp_bridge.py PORT COMMAND ARGUMENT…"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

PIECE = 65536


def feed(peer, server):
    try:
        while data := peer.recv(PIECE):
            server.stdin.write(data)
            server.stdin.flush()
    except OSError:
        pass
    finally:
        try:
            os.killpg(server.pid, signal.SIGKILL)
        except OSError:
            pass


def main():
    port, command = int(sys.argv[1]), sys.argv[2:]
    if shutil.which(command[0]) is None:
        sys.exit(f"there is no program {command[0]} in the sandbox")
    listener = socket.create_server(("127.0.0.1", port), backlog=1)
    print("ready", flush=True)
    peer, _ = listener.accept()
    listener.close()
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    threading.Thread(target=feed, args=(peer, server), daemon=True).start()
    try:
        while data := os.read(server.stdout.fileno(), PIECE):
            peer.sendall(data)
    except OSError:
        pass
    try:
        code = server.wait(1)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        code = server.wait()
    print(f"the server ended with {'signal' if code < 0 else 'exit code'} {abs(code)}", file=sys.stderr, flush=True)
    peer.close()


main()
