// SPDX-License-Identifier: Apache-2.0
// The SDK for TypeScript, used as its users do: node story.js STEP, with CLOISTER_URL and CLOISTER_API_KEY. A step prints JSON
// for tests/integration/test_sdk_typescript.py, or throws. The compiler checks the types that users see.

import * as cloister from "cloister";
import { Client, Sandbox, run, runCommand } from "cloister";

declare const process: { argv: string[]; env: Record<string, string | undefined>; stdout: { write(text: string): void } };

// JSON with the members of objects in order.
function text(value: unknown): string {
  const sorted = (_: string, inner: unknown): unknown => inner !== null && typeof inner === "object" && !Array.isArray(inner)
    ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1))) : inner;
  return (JSON.stringify(value, sorted) ?? "undefined").slice(0, 4000);
}

// Throws unless both are the same JSON.
function equal(actual: unknown, expected: unknown, about = ""): void {
  if (text(actual) !== text(expected)) throw new Error(`${about}: ${text(actual)} is not ${text(expected)}`);
}

// The error that `call` throws, which must be of exactly this class and have a remedy.
async function thrown<E extends cloister.CloisterError>(kind: new (...args: never[]) => E, call: () => Promise<unknown>): Promise<E> {
  try {
    await call();
  } catch (error) {
    if (!(error instanceof kind) || error.constructor !== kind) throw new Error(`not a ${kind.name}: ${String(error)}`, { cause: error });
    if (!error.remedy) throw new Error(`no remedy: ${error.message}`);
    equal(error.name, kind.name);
    return error;
  }
  throw new Error(`no ${kind.name}`);
}

async function until(about: string, condition: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 400; tries += 1) {
    if (await condition()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`waited for ${about}`);
}

const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);
const list = (data: Uint8Array | null): number[] | null => (data === null ? null : [...data]);

async function code(): Promise<void> {
  await Sandbox.use(async (sandbox) => {
    equal((await sandbox.runCode("x = 20; x + 1")).text, "21");
    const done = await sandbox.runCode("import sys\nprint('out', x); print('err', file=sys.stderr); {'a': x}");
    equal([done.stdout, done.stderr, done.text, done.ok, done.error], ["out 20\n", "err\n", "{'a': 20}", true, null]);
    equal([done.sandboxId, done.status, done.exitCode, done.signal], [sandbox.id, "completed", 0, null]);
    const shown = (await sandbox.runCode("class P:\n  def _repr_html_(self): return '<b>h</b>'\n  def _repr_png_(self): return b'\\x89PNG'\n" +
      "  def _repr_markdown_(self): return '*m*'\n  def _repr_svg_(self): return '<svg/>'\n  def _repr_latex_(self): return '$l$'\n" +
      "  def _repr_jpeg_(self): return b'\\xff\\xd8'\nP()")).results[0];
    equal([shown?.html, list(shown?.png ?? null), shown?.markdown, shown?.svg, shown?.latex, list(shown?.jpeg ?? null), shown?.json ?? null],
      ["<b>h</b>", [137, 80, 78, 71], "*m*", "<svg/>", "$l$", [255, 216], null]);
    equal(shown?.formats().includes("image/png"), true);
    const bad = await sandbox.runCode("def f(): raise KeyError('k')\nf()");
    equal([bad.ok, bad.error?.name, bad.error?.value, bad.error?.code], [false, "KeyError", "'k'", null]);
    equal((await sandbox.runCode("echo $((2 + 3))", { language: "bash" })).stdout, "5\n");
    const own = await sandbox.runCode("import sys, os; print(sys.argv[1:], os.environ['A'], os.getcwd(), sys.stdin.read())",
      { args: ["1"], env: { A: "b" }, cwd: "/tmp", input: "in", files: { "in.bin": bytes(255) }, artifacts: ["none*"], kernel: "none" });
    equal(own.stdout, "['1'] b /tmp in\n", own.stderr);
    equal(list(await sandbox.files.readBytes("in.bin")), [255]);
    equal((await sandbox.kernels()).map((each) => each.name), ["bash", "python"]);
    await sandbox.restartKernel("python");
    equal((await sandbox.runCode("'x' in globals()")).text, "False");
    const late = await sandbox.runCode("import time; time.sleep(60)", { timeout: "300ms" });
    equal([late.status, late.error?.code], ["timed_out", "TIMEOUT"]);
    equal((await sandbox.runCode("print(1)", { fresh: true, kernel: "none" })).stdout, "1\n");
  }, { memory: "128MB" });
}

async function oneShot(): Promise<void> {
  const said: string[] = [];
  const done = await run("import sys\nprint(open('a/in').read(), sys.argv[1:], input())\nopen('out.bin', 'wb').write(bytes(range(256)) * 40)",
    { files: { "a/in": "file" }, args: ["x"], input: "typed\n", onStdout: (text) => said.push(text), metadata: { k: "v" } });
  equal([said.join(""), done.exitCode, done.raw.metadata], ["file ['x'] typed\n", 0, { k: "v" }]);
  const kept = done.artifacts.find((each) => each.path === "out.bin");
  if (!kept) throw new Error("no artifact");
  equal([kept.size, (await kept.bytes()).length, list((await kept.bytes()).subarray(255, 258))], [10240, 10240, [255, 0, 1]]);
  await kept.delete();
  await thrown(cloister.NotFound, () => kept.bytes());
  equal((await runCommand(["echo", "a b"])).stdout, "a b\n");
  equal(list((await runCommand("head -c 3 /dev/zero")).stdoutBytes), [0, 0, 0]);
  const long = await run("print('ä' * 100000)", { output: "1kB", onStdout: (text) => said.push(text) });
  equal([long.stdoutTruncated, said.join("").split("ä").length - 1], [true, 100000]);
  const client = new Client();
  equal((await client.languages()).some((each) => each.name === "python"), true);
  equal((await client.whoami()).permissions.includes("execution.run"), true);
  equal(await client.url(), process.env.CLOISTER_URL);
}

async function limits(): Promise<void> {
  const made = await Sandbox.use((sandbox) => sandbox.info(), {
    memory: "100MB", disk: "0.5g", fileSize: 7, cpu: "500m", cpuTime: 20, pids: 20, openFiles: 100, inodes: 1000, output: "64k", timeout: 9,
    ttl: "2h", idleTtl: "5m", cwd: "/tmp", env: { A: "1" }, network: "none", runtime: "process", image: "host", tier: "Auto", deps: [],
    capabilities: ["command_execution", "file_read"], nested: false, metadata: { a: "b" }, language: "bash" });
  equal(made.limits, { timeout_seconds: 9, cpu_seconds: 20, cpu_millis: 500, memory_mb: 100, disk_mb: 512, file_size_mb: 7, inodes: 1000,
    pids: 20, open_files: 100, max_output_bytes: 65536 });
  equal([made.ttl_seconds, made.idle_ttl_seconds, made.cwd, made.env, made.language, made.metadata, made.capabilities],
    [7200, 300, "/tmp", { A: "1" }, "bash", { a: "b" }, ["command_execution", "file_read"]]);
  for (const wrong of ["x", "-1s", 0, "1 parsec", NaN, ""]) {
    equal((await thrown(cloister.InvalidRequest, async () => run("1", { timeout: wrong }))).field, "timeout");
    equal((await thrown(cloister.InvalidRequest, async () => run("1", { memory: wrong }))).field, "memory");
    equal((await thrown(cloister.InvalidRequest, async () => run("1", { cpu: wrong }))).field, "cpu");
  }
}

async function commands(): Promise<void> {
  await Sandbox.use(async (sandbox) => {
    const [out, err]: [string[], string[]] = [[], []];
    const done = await sandbox.commands.run("echo $A; pwd; echo bad >&2; cat; exit 7",
      { env: { A: "b" }, cwd: "/tmp", input: "in", onStdout: (text) => out.push(text), onStderr: (text) => err.push(text) });
    equal([done.exitCode, out.join(""), err.join(""), done.error?.name], [7, "b\n/tmp\nin", "bad\n", "ExitCode"]);
    equal((await sandbox.commands.run(["echo", "$A"])).stdout, "$A\n");
    equal((await sandbox.commands.run("kill -9 $$")).signal, "SIGKILL");
    const fail = new Error("of the callback");
    const failed = await sandbox.commands.run("echo x; sleep 60", { onStdout: () => { throw fail; } }).catch((error: unknown) => error);
    equal(failed === fail, true);
    await until("the end of a program whose callback failed", async () => (await sandbox.commands.list()).length === 0);
    const command = await sandbox.commands.start("while read line; do echo got $line; done; echo end", { stdin: true, onStdout: (text) => out.push(text) });
    equal([await command.status(), (await sandbox.commands.list()).map((each) => each.id)], ["running", [command.id]]);
    await command.sendStdin("one\n");
    await until("its output", async () => (await command.output()) === "got one\n");
    out.length = 0;
    await thrown(cloister.Timeout, () => command.wait({ timeout: "200ms" }));
    await command.sendStdin(bytes(116, 119, 111, 10, 255, 10));
    await command.closeStdin();
    const ended = await command.wait({ check: true });
    equal([list(ended.stdoutBytes)?.includes(255), out.join("") === ended.stdout], [true, true]);
    await thrown(cloister.Conflict, () => command.sendStdin("late"));
    const asleep = await sandbox.commands.start("trap 'echo int; exit 5' INT; echo up; while true; do sleep 0.1; done");
    await until("its start", async () => (await asleep.output()) === "up\n");
    await asleep.signal("SIGINT");
    equal((await asleep.wait()).exitCode, 5);
    const counting = await sandbox.commands.start("for i in 1 2 3; do echo line $i; sleep 0.1; done; printf last");
    const lines: string[] = [];
    for await (const line of sandbox.commands.connect(counting.id).lines()) lines.push(line);
    equal(lines, ["line 1", "line 2", "line 3", "last"]);
    const killed = await sandbox.commands.start("sleep 100");
    await killed.kill();
    equal((await killed.wait()).status, "cancelled");
    const bad = await thrown(cloister.ProgramFailed<cloister.Execution>, () => sandbox.commands.run("echo why >&2; exit 3", { check: true }));
    equal([bad.execution?.exitCode, bad.execution?.stderr], [3, "why\n"]);
    const late = await thrown(cloister.Timeout<cloister.Execution>, () => sandbox.commands.run("sleep 60", { timeout: 0.3, check: true }));
    equal([late.code, late.execution?.status], ["TIMEOUT", "timed_out"]);
    const met = await thrown(cloister.LimitExceeded<cloister.Execution>,
      () => sandbox.runCode("x = b'x' * (1 << 30)", { language: "python", kernel: "none", check: true }));
    equal([met.details.limit, met.execution?.status], ["memory_mb", "failed"]);
  }, { language: "bash", memory: "64MB" });
}

async function life(): Promise<void> {
  const made = await Sandbox.create({ memory: "64MB", language: "bash", metadata: { n: "1" }, env: { A: "kept" } });
  equal([(await made.info()).status, await made.isRunning()], ["running", true]);
  const same = await Sandbox.connect(made.id);
  await same.files.write("a.txt", "first");
  equal((await Sandbox.list({ limit: 500 })).find((each) => each.id === made.id)?.metadata, { n: "1" });
  equal((await made.renew({ ttl: "3h", idleTtl: "2h" })).ttl_seconds, 10800);
  await made.memory.set("plan", { step: [1, null, "ä"] });
  equal([await made.memory.get("plan"), await made.memory.keys()], [{ step: [1, null, "ä"] }, ["plan"]]);
  await made.memory.delete("plan");
  await thrown(cloister.NotFound, () => made.memory.get("plan"));
  await thrown(cloister.Conflict, () => made.move());
  const taken = await made.snapshot({ name: "draft", metadata: { k: "v" }, ttl: "1h" });
  equal([taken.name, taken.session_id, taken.metadata], ["draft", made.id, { k: "v" }]);
  equal((await cloister.listSnapshots()).map((each) => each.id), [taken.id]);
  const again = await Sandbox.fromSnapshot(taken, { memory: "64MB" });
  equal(await again.files.read("a.txt"), "first");
  await again.kill();
  await cloister.deleteSnapshot(taken);
  await thrown(cloister.NotFound, () => Sandbox.fromSnapshot(taken));
  for (const fork of await made.fork(2)) {
    equal([await fork.files.read("a.txt"), (await fork.commands.run("echo $A")).stdout], ["first", "kept\n"]);
    equal((await fork.info()).limits, (await made.info()).limits);
    await fork.kill();
  }
  await thrown(cloister.Timeout, () => made.port(8000, { wait: "200ms" }));
  await made.commands.start("python3 -m http.server 8000");
  const link = await made.port(8000, { expires: "5m", wait: "20s" });
  equal([await (await fetch(`${link.url}a.txt`)).text(), link.port], ["first", 8000]);
  await made.kill();
  await made.kill();
  equal([(await made.info()).status, await made.isRunning()], ["ended", false]);
  await thrown(cloister.Conflict, () => Sandbox.connect(made.id));
  await thrown(cloister.Conflict, () => made.runCode("1"));
}

async function files(): Promise<void> {
  await Sandbox.use(async ({ files: all }) => {
    equal((await all.write("d/ä b.txt", "text ä")).path, "d/ä b.txt");
    equal(await all.read("/workspace/d/ä b.txt"), "text ä");
    await all.writeFiles({ "d/x": bytes(0, 255), "d/run": new Blob(["#!/bin/sh\n"]) });
    equal([list(await all.readBytes("d/x")), await all.read("d/run")], [[0, 255], "#!/bin/sh\n"]);
    equal((await all.write("d/run", "x", { mode: 0o755 })).mode, "0755");
    await all.write("s", new Blob(["streamed"]).stream());
    equal(await all.read("s"), "streamed");
    await all.remove("s");
    await thrown(cloister.InvalidRequest, () => all.read("d/x"));
    equal((await all.list("d")).map((each) => [each.name, each.size, each.type]), [["run", 1, "file"], ["x", 2, "file"], ["ä b.txt", 7, "file"]]);
    equal([(await all.info("d")).type, (await all.info("d/x")).size], ["directory", 2]);
    await all.rename("d/x", "e/y");
    equal([await all.exists("d/x"), await all.exists("e/y")], [false, true]);
    await thrown(cloister.Conflict, () => all.rename("d/run", "e/y"));
    await all.rename("d/run", "e/y", { overwrite: true });
    equal((await all.makeDir("e/f/g")).type, "directory");
    await thrown(cloister.Conflict, () => all.remove("e"));
    const packed = await all.readArchive("e");
    equal([await all.writeArchive(packed, "out"), await all.exists("out/f/g")], [0, true]);
    await all.remove("e", { recursive: true });
    await all.remove("out", { recursive: true });
    equal((await all.list("", { depth: 9 })).map((each) => each.path), ["d", "d/ä b.txt"]);
    await thrown(cloister.NotFound, () => all.read("none"));
    for (const path of ["/etc/passwd", "../x", "a/../../x", "/workspacex"]) {
      equal((await thrown(cloister.InvalidRequest, async () => all.read(path))).field, "path");
    }
    const seen: string[] = [];
    let renamed = false;
    for await (const change of all.watch("", { recursive: true })) {
      seen.push(change.type);
      if (change.type === "ready") await all.write("w/b", "1");
      else if (change.type === "created" && change.path === "w/b" && !renamed) {  // a change may be reported twice
        renamed = true;
        await all.rename("w/b", "w/c");
      }
      else if (change.type === "moved") {
        equal([change.oldPath, change.path, change.isDir], ["w/b", "w/c", false]);
        break;
      }
    }
    equal(seen[0], "ready");
  }, { language: "bash", memory: "64MB" });
}

// CLOISTER_OTHERS: {viewer, closed, waiting, small}: keys that may less.
async function refusals(): Promise<void> {
  const keys = JSON.parse(process.env.CLOISTER_OTHERS ?? "") as Record<"viewer" | "closed" | "waiting" | "small", string>;
  const wrong = await thrown(cloister.AuthenticationError, () => run("1", { apiKey: "clk_wrong" }));
  equal([wrong.status, wrong.requestId?.slice(0, 4), wrong.message.includes("CLOISTER_API_KEY")], [401, "req_", true]);
  equal((await thrown(cloister.PermissionDenied, () => run("1", { apiKey: keys.viewer }))).details.permission, "execution.run");
  const denied = await thrown(cloister.PermissionDenied, () => run("1", { apiKey: keys.closed }));
  equal([denied.code, denied.record?.status], ["PERMISSION_DENIED", "denied"]);
  await thrown(cloister.PermissionDenied, () => run("1", { apiKey: keys.closed, onStdout: () => undefined }));
  equal((await thrown(cloister.InvalidRequest, () => run("1", { language: "cobol" }))).field, "language");
  await thrown(cloister.TooLarge, () => run("#".repeat(33 << 20)));
  await thrown(cloister.NotFound, () => Sandbox.connect(`ses_${"0".repeat(26)}`));
  const client = new Client({ apiKey: keys.small, retries: 0 });
  await Sandbox.use(async () => {
    const limited = await thrown(cloister.RateLimited, () => Sandbox.create({ client, memory: "64MB" }));
    equal((limited.retryAfter ?? 0) >= 1, true);
  }, { client, memory: "64MB" });
  for (const more of [{}, { onStdout: () => undefined }]) {
    const blocked = await thrown(cloister.Blocked, () => run("print('ran')", { apiKey: keys.waiting, ...more }));
    equal([blocked.escalationId?.slice(0, 4), blocked.executionId?.slice(0, 5), blocked.remedy?.includes(blocked.escalationId ?? "-")], ["ESC-", "exec_", true]);
  }
  const held = await thrown(cloister.Blocked, () => Sandbox.create({ apiKey: keys.waiting, metadata: { a: "1" } }));
  equal(held.sandboxId?.slice(0, 4), "ses_");
  equal((await run("print('waited')", { apiKey: keys.waiting, waitApproval: true })).stdout, "waited\n", "approved meanwhile by the test");
}

// CLOISTER_ANSWERS: {URL: the class that its answer becomes}.
async function answers(): Promise<void> {
  const all = JSON.parse(process.env.CLOISTER_ANSWERS ?? "") as Record<string, keyof typeof cloister>;
  for (const [url, kind] of Object.entries(all)) {
    const error = await thrown(cloister[kind] as new () => cloister.CloisterError, () => new Client({ url, apiKey: "k", retries: 0 }).whoami());
    equal([error.field, error.requestId], ["a.b", "req_test"], kind);
    if (kind !== "Blocked") equal(error.remedy, "the remedy", kind);
  }
  const gone = await thrown(cloister.Unavailable, () => new Client({ url: "http://127.0.0.1:49151", apiKey: "k", retries: 1 }).whoami());
  equal(gone.message.includes("ECONNREFUSED"), true, gone.message);
  await thrown(cloister.Timeout, () => new Client({ url: String(process.env.CLOISTER_SILENT), apiKey: "k", retries: 0, timeout: 0.2 }).whoami());
  for (const url of ["ftp://h", "h:80", "http://u:p@h", "http://h?q", "unix:/socket"]) {
    await thrown(cloister.ConfigurationError, () => new Client({ url, apiKey: "k" }).whoami());
  }
  await thrown(cloister.ConfigurationError, () => new Client({ apiKey: "k\r\nX: y" }).whoami());
}

// The calls of CLOISTER_CALLS, each with a client of its options; prints the outcomes.
async function attempts(): Promise<unknown> {
  const calls = JSON.parse(process.env.CLOISTER_CALLS ?? "") as { options: cloister.ClientOptions; method?: string }[];
  const outcomes: string[] = [];
  for (const { options, method } of calls) {
    const client = new Client({ apiKey: "k", ...options });
    const call = method === "POST" ? client.call("POST", "/v1/sessions/x/snapshots", {}) : method === "run" ? run("1", { client }) : client.whoami();
    outcomes.push(await call.then(() => "done", (error: cloister.CloisterError) => error.name));
  }
  return outcomes;
}

// The server of the state directory CLOISTER_STATE, without other variables; CLOISTER_ELSEWHERE is another server.
async function local(): Promise<unknown> {
  const state = String(process.env.CLOISTER_STATE);
  const client = new Client({ state });
  await new Client({ url: String(process.env.CLOISTER_ELSEWHERE), state }).whoami();
  await thrown(cloister.ConfigurationError, () => new Client({ state: "/nonexistent" }).whoami());
  const named = await new Client({ url: await client.url(), state }).whoami();
  return { url: await client.url(), roles: (await client.whoami()).roles, named: named.roles };
}

// Through proxies that cut connections: CLOISTER_OUTPUT, CLOISTER_TRANSFER, CLOISTER_WATCH, CLOISTER_LOST are their URLs.
async function cuts(): Promise<unknown> {
  const through = (name: string): Client => new Client({ url: String(process.env[name]) });
  equal((await run("print('once')", { client: through("CLOISTER_LOST"), metadata: { once: "1" } })).stdout, "once\n");
  const [out, err]: [string[], string[]] = [[], []];
  const source = "import sys\nfor i in range(4000):\n    print('line', i, 'ä' * 20, flush=i % 100 == 0)\n    i % 500 == 0 and print(i, file=sys.stderr)";
  const done = await run(source, { client: through("CLOISTER_OUTPUT"), onStdout: (text) => out.push(text), onStderr: (text) => err.push(text) });
  equal(out.join("") === Array.from({ length: 4000 }, (_, i) => `line ${i} ${"ä".repeat(20)}\n`).join(""), true, "stdout");
  equal([err.join(""), done.stdout === out.join("")], [[0, 500, 1000, 1500, 2000, 2500, 3000, 3500].map((i) => `${i}\n`).join(""), true]);
  return Sandbox.use(async (sandbox) => {
    const data = Uint8Array.from({ length: 2 << 20 }, (_, i) => (i * 7919) >> 5);
    const short = await through("CLOISTER_SHORT").call<{ languages: { name: string }[] }>("GET", "/v1/languages");
    equal(short.languages.some((each) => each.name === "python"), true);
    const cut = await Sandbox.connect(sandbox.id, { client: through("CLOISTER_TRANSFER") });
    await cut.files.write("big", data);
    const back = await cut.files.readBytes("big");
    equal([back.length, back.every((byte, i) => byte === data[i])], [data.length, true]);
    const watched = await Sandbox.connect(sandbox.id, { client: through("CLOISTER_WATCH") });
    const seen = new Set<string>();
    for await (const change of watched.files.watch()) {
      if (change.type === "ready" && seen.size === 0) await sandbox.commands.start("for i in $(seq 100); do > f$i; sleep 0.01; done");
      if (change.type === "overflow") throw new Error("overflow");
      if (change.type === "created") seen.add(change.path);
      if (change.path === "f100") break;
    }
    equal([...seen].filter((path) => path.startsWith("f")).length, 100);
    return "done";
  }, { language: "bash", memory: "128MB" });
}

async function many(): Promise<unknown> {
  const client = new Client({ retries: 20, retrySeconds: 120, timeout: 120 });
  const one = (n: number): Promise<string> => Sandbox.use(async (sandbox) => {
    await sandbox.files.write("n", String(n));
    const said: string[] = [];
    const done = await sandbox.commands.run("cat n; echo $((N * 2))", { env: { N: String(n) }, onStdout: (text) => said.push(text) });
    return done.ok ? said.join("") : done.stderr;
  }, { client, language: "bash", memory: "32MB", timeout: "60s" });
  return Promise.all(Array.from({ length: Number(process.env.CLOISTER_MANY) }, (_, n) => one(n)));
}

const steps: Record<string, () => Promise<unknown>> = { code, oneShot, limits, commands, life, files, refusals, answers, attempts, local, cuts, many };
const step = steps[process.argv[2] ?? ""];
if (!step) throw new Error("no such step");
process.stdout.write(JSON.stringify((await step()) ?? null));
