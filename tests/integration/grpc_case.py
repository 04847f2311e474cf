# SPDX-License-Identifier: Apache-2.0
"""cloister-grpc before a server of the tests, and Debian's grpcio as its client.

    with grpc_case.Front(server) as front:
        done = front.Executions.Run(front.RunRequest(language="bash", code="echo hi"), timeout=30)
        front.Executions(key).Get(...)                      # with another key

The messages are made from spec/proto by protoc, once for a process. `front.NAME` is a message or a service of them.
"""

import atexit
import contextlib
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import harness  # noqa: E402
from harness import wait_for  # noqa: E402

if harness.SLOW:
    raise unittest.SkipTest("not in the guest's image: python3-grpcio")

import google  # noqa: E402
import grpc  # noqa: E402
from google.protobuf import descriptor_pb2, empty_pb2, message_factory  # noqa: E402

PROTO = harness.REPO / "spec" / "proto"
POLICY = """
version: 2
tiers:
  Assisted: {runtime: process}
  HumanApprove: {runtime: process, approve: {roles: [approver]}}
rules:
  - {name: looked-at, why: A person looks first., effect: approve, approve: {roles: [approver]}, match: {tenants: [looked-at]}}
  - {name: closed, why: Nothing runs for this tenant., effect: deny, remedy: use another tenant, match: {tenants: [closed]}}
  - {name: rest, why: Everything else runs., effect: allow}
"""
Code = grpc.StatusCode
MIB = 1 << 20
EMPTY = empty_pb2.Empty()
FILES = ("common", "executions", "sessions", "files", "escalations", "operations")


def generated():
    """Imports the modules that protoc makes of spec/proto; gives those of cloister.v1, and the details of errors."""
    folder = tempfile.mkdtemp(prefix="cloister-proto.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    names = [str(path.relative_to(PROTO)) for path in sorted(PROTO.rglob("*.proto"))]
    subprocess.run(["protoc", "-I", PROTO, f"--python_out={folder}", *names], check=True)
    for package in ("cloister", "cloister/v1"):
        pathlib.Path(folder, package, "__init__.py").touch()  # before the SDK's package of the name
    google.__path__.append(f"{folder}/google")  # a package of the installed protobuf, which gets the rest of ours
    sys.path.insert(0, folder)
    parts = [importlib.import_module(f"cloister.v1.{name}_pb2") for name in FILES]
    return parts, importlib.import_module("google.rpc.error_details_pb2"), importlib.import_module("google.rpc.status_pb2")


PARTS, DETAILS, STATUS = generated()


def find(name):
    """The message class or the descriptor of a service."""
    for part in PARTS:
        if name in part.DESCRIPTOR.services_by_name:
            return part.DESCRIPTOR.services_by_name[name]
        if hasattr(part, name):
            return getattr(part, name)
    raise AttributeError(name)


def message_class(descriptor):
    if descriptor.file.package == "cloister.v1":
        return find(descriptor.name)
    return message_factory.MessageFactory().GetPrototype(descriptor)


class Stub:
    """The calls of a service, with a key in the metadata. `stub(key)`: with another; `key=None` sends none."""

    def __init__(self, channel, service, key):
        self._channel, self._service, self._key = channel, service, key

    def __call__(self, key):
        return Stub(self._channel, self._service, key)

    def __getattr__(self, name):
        method = self._service.methods_by_name[name]
        written = method.containing_service.file.serialized_pb
        file = descriptor_pb2.FileDescriptorProto.FromString(written)
        [service] = [each for each in file.service if each.name == self._service.name]
        [kind] = [each for each in service.method if each.name == name]
        make = {(False, False): self._channel.unary_unary, (False, True): self._channel.unary_stream,
                (True, False): self._channel.stream_unary}[kind.client_streaming, kind.server_streaming]
        call = make(f"/{self._service.full_name}/{name}", request_serializer=lambda m: m.SerializeToString(),
                    response_deserializer=message_class(method.output_type).FromString)
        return Call(call, self._key)


class Call:
    def __init__(self, call, key):
        self._call, self._metadata = call, [("authorization", f"Bearer {key}")] if key else []

    def __call__(self, request, timeout=60, metadata=(), **more):
        return self._call(request, timeout=timeout, metadata=[*self._metadata, *metadata], **more)

    def future(self, request, timeout=60, metadata=()):
        return self._call.future(request, timeout=timeout, metadata=[*self._metadata, *metadata])


class Front:
    """`flags`, `env`: of cloister-grpc. `url`: of the service, instead of the server's."""

    def __init__(self, server, *flags, listen="127.0.0.1:0", url=None, credentials=None, env=None):
        self._command = [harness.BIN / "cloister-grpc", "--listen", listen, "--url", url or server.url, *flags]
        self.key, self._credentials, self._env = server.key, credentials, {**os.environ, **(env or {})}
        self.process = self.channel = self.address = None

    def __enter__(self):
        self._log = tempfile.NamedTemporaryFile("w+", prefix="cloister-grpc.", suffix=".log")
        self.process = subprocess.Popen([str(word) for word in self._command], stdin=subprocess.DEVNULL,
                                        stdout=self._log, stderr=self._log, env=self._env)
        try:
            self.address = harness.wait_for("cloister-grpc to listen", self._listening, 20)
        except AssertionError:
            self.kill()
            raise
        self.channel = self.connect()
        return self

    def __exit__(self, *exception):
        self.channel.close()
        try:
            status = self.stop()
            text = self.log()
        finally:
            self.kill()
            self._log.close()
        assert "Sanitizer" not in text and "runtime error" not in text, text[-4000:]
        assert status == 0 or exception[0], f"cloister-grpc ended with {status}: {text[-2000:]}"

    def log(self):
        return pathlib.Path(self._log.name).read_text()

    def _listening(self):
        for line in self.log().splitlines():
            if '"listening"' in line:
                return json.loads(line)["address"]
        assert self.process.poll() is None, self.log()
        return None

    def connect(self):
        """Another connection."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]
        if self._credentials:
            return grpc.secure_channel(self.address, self._credentials, options)
        return grpc.insecure_channel(self.address, options)

    def stop(self, seconds=20):
        """Ends it like an operator; gives the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(harness.limit(seconds))

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        found = find(name)
        return Stub(self.channel, found, self.key) if hasattr(found, "methods_by_name") else found


def details(error):
    """{name of the detail's message: the detail} of a refused call."""
    [status] = [STATUS.Status.FromString(value) for name, value in error.trailing_metadata()
                if name == "grpc-status-details-bin"] or [STATUS.Status()]
    found = {}
    for each in status.details:
        name = each.type_url.rpartition(".")[2]
        found[name] = getattr(DETAILS, name).FromString(each.value)
    return found


def start_server():
    """For setUpModule: a service for all tests of the module."""
    GrpcTest.folder = pathlib.Path(unittest.enterModuleContext(tempfile.TemporaryDirectory(prefix="cloister-grpc.")))
    GrpcTest.folder.chmod(0o755)
    (GrpcTest.folder / "policy.yaml").write_text(POLICY)
    GrpcTest.server = harness.Server(config=f"policy: {GrpcTest.folder}/policy.yaml\n")
    unittest.enterModuleContext(GrpcTest.server)


class GrpcTest(unittest.TestCase):
    server = folder = None
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.front = cls.enterClassContext(Front(cls.server, *cls.flags))

    def new_key(self, tenant, **more):
        return self.server.request("POST", "/v1/keys", {"tenant": tenant, "name": "test", **more}).json()["secret"]

    def run_code(self, code, language="bash", **request):
        return self.front.Executions.Run(self.front.RunRequest(language=language, code=code, **request))

    def refused(self, code, call, *arguments, **more):
        """Calls; the call must be refused so. Gives the error."""
        with self.assertRaises(grpc.RpcError) as caught:
            answer = call(*arguments, **more)
            if not hasattr(answer, "DESCRIPTOR"):
                list(answer)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception

    @contextlib.contextmanager
    def session(self, **request):
        made = self.front.Sessions.Create(self.front.SessionRequest(**request))
        try:
            yield made
        finally:
            self.front.Sessions.Delete(self.front.DeleteSessionRequest(id=made.id))

    def status(self, execution):
        return self.server.get(execution)["status"]

    def running(self):
        """The ids of the running executions."""
        page = self.server.request("GET", "/v1/executions?status=running").json()["executions"]
        return {each["id"] for each in page}

    def start(self, call, request):
        """Calls without waiting. Gives the call and the id of its execution, which then runs."""
        before = self.running()
        future = call.future(request)
        [id_] = wait_for("the execution", lambda: self.running() - before)
        return future, id_
