// SPDX-License-Identifier: Apache-2.0
// The Node.js kernel: runs cells of JavaScript as V8's own REPL does (`let` and `const` anew, `await`
// at top level, the last value). src/wire/kernel.h says how it is spoken to: `node -e THIS DIR`.
// Everything here runs beside the cells' own code and is trusted by nobody; it only has to serve code
// that means well.
"use strict";
{
  const fs = require("fs");
  const inspector = require("inspector");
  const util = require("util");
  const { Worker } = require("worker_threads");

  const dir = process.argv[1];
  const session = new inspector.Session();
  session.connect();
  const shared = new Int32Array(new SharedArrayBuffer(12));
  let cells = 0;
  let current = null;  // of the cell under way: { report, interrupted() }
  let input = null;    // its stdin

  class Exit {
    constructor(code) { this.code = code; }
  }

  // SIGINT while a cell computes: no JavaScript of this thread runs then, so another one waits for
  // the signal and, when this one does not answer, has V8 end what it runs.
  const watcher = new Worker(`
    const { workerData: shared, parentPort } = require("worker_threads");
    const inspector = require("inspector");
    const vm = require("vm");
    const main = new inspector.Session();
    main.connectToMainThread();
    let id = 0;
    function onSignal() {
      const before = Atomics.load(shared, 1);
      parentPort.postMessage({ id: ++id, cell: Atomics.load(shared, 2) });
      if (Atomics.wait(shared, 1, before, 200) === "timed-out") main.post("Runtime.terminateExecution");
    }
    const watch = (text) => {
      try {
        vm.runInThisContext(text, { breakOnSigint: true });
      } catch {
        onSignal();
      }
    };
    globalThis.cloisterWait = () => Atomics.wait(shared, 0, 0);
    globalThis.cloisterWatch = () => {
      parentPort.postMessage("watching");
      for (;;) watch("cloisterWait()");
    };
    // One within the other: without any, Node would end at a signal.
    for (;;) watch("cloisterWatch()");
  `, { eval: true, workerData: shared });
  const watching = new Promise((resolve) => {
    watcher.on("message", (message) => {
      if (message === "watching") return resolve();
      Atomics.store(shared, 1, message.id);
      Atomics.notify(shared, 1);
      if (message.cell === cells) current?.interrupted();
    });
  });
  watcher.unref();
  setInterval(() => {}, 2 ** 30);  // a cell may wait for what never comes

  const post = (method, params) => new Promise((resolve) => {
    session.post(method, params, (error, answer) => resolve(error ? { error } : answer));
  });

  // - what is shown of a value -

  const kRepresentations = [["_toHtml", "text/html"], ["_toMarkdown", "text/markdown"], ["_toSvg", "image/svg+xml"],
    ["_toPng", "image/png"], ["_toJpeg", "image/jpeg"], ["_toJson", "application/json"]];

  const shown = (value) => Buffer.isBuffer(value) ? value.toString("base64") : value;

  function bundle(value) {
    const data = {};
    if (value !== null && typeof value === "object") {
      if (typeof value._toMime === "function") Object.assign(data, value._toMime());
      for (const [name, type] of kRepresentations) {
        if (typeof value[name] === "function" && !(type in data)) data[type] = shown(value[name]());
      }
    }
    data["text/plain"] ??= util.inspect(value);
    return data;
  }

  function display(...values) {
    for (const value of values) {
      const text = Buffer.from(JSON.stringify(bundle(value)));
      current?.say(Buffer.concat([Buffer.from(`R${text.length} ${current.tag}\n`), text]));
    }
  }

  // - running -

  const kTake = "function(value) { globalThis[Symbol.for('cloister.kernel')](value); }";
  let globalId = null;

  // The value itself, which V8's answer only describes.
  async function valueOf(remote) {
    globalId ??= (await post("Runtime.evaluate", { expression: "globalThis" })).result.objectId;
    let value;
    Object.defineProperty(globalThis, Symbol.for("cloister.kernel"),
      { value: (given) => { value = given; }, configurable: true });
    const { objectId, unserializableValue } = remote;
    const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value: remote.value };
    await post("Runtime.callFunctionOn", { objectId: globalId, functionDeclaration: kTake, arguments: [argument] });
    delete globalThis[Symbol.for("cloister.kernel")];
    return value;
  }

  // Without the kernel's own frames.
  function traceOf(error) {
    const own = /\[eval\]|node:inspector|node:internal|at new Promise \(<anonymous>\)/;
    return (error.stack ?? String(error)).split("\n").filter((line) => !own.test(line)).join("\n");
  }

  async function describe(details) {
    const thrown = details.exception ? await valueOf(details.exception) : details.text;
    if (thrown instanceof Exit) return thrown.code;
    fs.writeSync(2, `${thrown instanceof Error ? traceOf(thrown) : `Uncaught ${util.inspect(thrown)}`}\n`);
    return 1;
  }

  async function run(code) {
    const interrupt = new Promise((resolve) => { current.interrupted = () => resolve({ interrupted: true }); });
    const evaluated = post("Runtime.evaluate",
      { expression: `${code}\n//# sourceURL=cell-${cells}`, replMode: true, awaitPromise: true });
    const answer = await Promise.race([evaluated, interrupt]);
    if (answer.interrupted || answer.error) {
      fs.writeSync(2, "Interrupted\n");
      return 130;
    }
    if (answer.exceptionDetails) return describe(answer.exceptionDetails);
    if (answer.result.type !== "undefined") display(await valueOf(answer.result));
    return 0;
  }

  async function cell(tag, code) {
    Atomics.store(shared, 2, ++cells);
    const stdin = fs.openSync(`${dir}/in`, "r");
    const report = fs.openSync(`${dir}/report`, "w");
    input = null;
    current = {
      tag,
      stdin,
      interrupted: () => {},
      say: (bytes) => {
        for (let at = 0; at < bytes.length;) at += fs.writeSync(report, bytes, at);
      }
    };
    current.say(Buffer.from(`B ${tag}\n`));
    let status = 1;
    try {
      status = await run(code);
    } catch (error) {
      fs.writeSync(2, `${error?.stack ?? error}\n`);
    }
    // A signal that came in the end is not for the next cell.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    const said = current;
    current = null;
    said.say(Buffer.from(`D${status} ${tag}\n`));
    fs.closeSync(report);
    if (!input) fs.closeSync(stdin);
  }

  async function nextCode() {
    const file = await fs.promises.open(`${dir}/code`, "r");
    try {
      const parts = [];
      for (;;) {
        const { bytesRead, buffer } = await file.read({ buffer: Buffer.alloc(65536), position: null });
        if (bytesRead === 0) return null;
        parts.push(buffer.subarray(0, bytesRead));
        if (buffer[bytesRead - 1] === 0) return Buffer.concat(parts).subarray(0, -1).toString();
      }
    } finally {
      await file.close();
    }
  }

  async function main() {
    await watching;  // a signal before that would end Node
    for (;;) {
      const code = await nextCode();
      const end = code?.indexOf("\n");
      if (code !== null) await cell(code.slice(0, end), code.slice(end + 1));
    }
  }

  process.exit = (code) => { throw new Exit((code ?? process.exitCode ?? 0) & 255); };
  const fail = (error) => {
    if (error instanceof Exit) return;
    fs.writeSync(2, `Uncaught ${error instanceof Error ? traceOf(error) : util.inspect(error)}\n`);
  };
  process.on("uncaughtException", fail);
  process.on("unhandledRejection", fail);
  Object.defineProperty(process, "stdin", {
    configurable: true,
    get: () => input ??= fs.createReadStream(null, current ? { fd: current.stdin } : { fd: fs.openSync("/dev/null") })
  });
  Object.assign(globalThis, { require: require("module").createRequire(`${process.cwd()}/cell.js`), display });
  main().catch((error) => {
    fs.writeSync(2, `kernel: ${error?.stack ?? error}\n`);
    process.reallyExit(70);
  });
}
