// SPDX-License-Identifier: Apache-2.0
// The Node.js kernel: runs cells of JavaScript as V8's own REPL does (`let` and `const` anew, `await`
// at top level, the last value). src/wire/kernel.h says how it is spoken to: `node -e THIS DIR`.
// Everything here runs beside the cells' own code and is trusted by nobody; it only has to serve code
// that means well.
"use strict";
{
  const fs = require("fs");
  const inspector = require("inspector");
  const path = require("path");
  const { Writable } = require("stream");
  const { pathToFileURL } = require("url");
  const util = require("util");
  const { Worker } = require("worker_threads");

  const dir = process.argv[1];
  const session = new inspector.Session();
  session.connect();
  const shared = new Int32Array(new SharedArrayBuffer(12));
  let cells = 0;
  let current = null;  // of the cell under way: { tag, say(), ended(), code }
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
      if (message.cell === cells) current?.ended({ interrupted: true });
    });
  });
  watcher.unref();
  setInterval(() => {}, 2 ** 30);  // a cell may wait for what never comes

  const post = (method, params) => new Promise((resolve) => {
    session.post(method, params, (error, answer) => resolve(error ? { error } : answer));
  });

  // - its streams -

  const pause = new Int32Array(new SharedArrayBuffer(4));

  // All of it is in the pipe before this returns: what is left in a buffer of Node's would come with the next cell.
  function writeAll(fd, bytes) {
    for (let at = 0; at < bytes.length;) {
      try {
        at += fs.writeSync(fd, bytes, at);
      } catch (error) {
        // A child that has the same pipe has made it so that nobody waits for room.
        if (error.code !== "EAGAIN") throw error;
        Atomics.wait(pause, 0, 0, 2);
      }
    }
  }

  function output(fd) {
    const stream = new Writable({
      decodeStrings: false, emitClose: false, autoDestroy: false,
      write(chunk, encoding, done) {
        writeAll(fd, typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk);
        done();
      },
      destroy(error, done) { done(error); }
    });
    // It is there for the next cell, too.
    const end = (chunk, encoding, done) => {
      const after = [chunk, encoding, done].find((each) => typeof each === "function");
      if (chunk != null && chunk !== after) stream.write(chunk, typeof encoding === "string" ? encoding : "utf8");
      if (after) process.nextTick(after);
      return stream;
    };
    return Object.assign(stream, { fd, _type: "pipe", _isStdio: true, end, destroy: () => stream, destroySoon: () => stream });
  }

  for (const [name, fd] of [["stdout", 1], ["stderr", 2]]) {
    const stream = output(fd);
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream });
  }

  // A new file is given the lowest number: nothing else can make one of a file that is open already.
  function openInput(file) {
    fs.closeSync(0);
    return fs.openSync(file, "r");
  }

  // - what is shown of a value -

  const kRepresentations = [["_toHtml", "text/html"], ["_toMarkdown", "text/markdown"], ["_toSvg", "image/svg+xml"],
    ["_toPng", "image/png"], ["_toJpeg", "image/jpeg"], ["_toJson", "application/json"]];

  const shown = (value) => Buffer.isBuffer(value) ? value.toString("base64") : value;

  function bundle(value) {
    const data = { "text/plain": undefined };  // the first, as it says the most in the least room
    if (value !== null && typeof value === "object") {
      if (typeof value._toMime === "function") Object.assign(data, value._toMime());
      for (const [name, type] of kRepresentations) {
        if (typeof value[name] === "function" && !(type in data)) data[type] = shown(value[name]());
      }
    }
    data["text/plain"] ??= util.inspect(value);
    return data;
  }

  function plain(key, value) {
    if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
    // Without half characters.
    return typeof value === "string" && /[\ud800-\udfff]/.test(value) ? Buffer.from(value).toString() : value;
  }

  // What cannot be said costs its own part only.
  function encoded(data) {
    const parts = [];
    for (const [type, value] of Object.entries(data)) {
      try {
        const text = JSON.stringify(value, plain);
        if (text !== undefined) parts.push(`${JSON.stringify(type, plain)}:${text}`);
      } catch (error) {
        writeAll(2, Buffer.from(`kernel: ${type} is left out: ${error.message.split("\n")[0]}\n`));
      }
    }
    return Buffer.from(`{${parts.join(",")}}`);
  }

  function display(...values) {
    for (const value of values) {
      const text = encoded(bundle(value));
      current?.say(Buffer.concat([Buffer.from(`R${text.length} ${current.tag}\n`), text]));
    }
  }

  // - modules -

  const kBeforeRegExp = new Set(["return", "typeof", "case", "in", "of", "void", "delete", "throw", "new", "await",
    "instanceof", "do", "else", "yield", ""]);

  // Where the words `import` and `export` stand in code: not in its strings, comments and regular expressions.
  function wordsOf(code) {
    const found = [];
    const templates = [];  // the depths at which their expressions began
    let depth = 0;
    let last = "";  // word or sign
    let at = 0;
    const skip = (pattern) => {
      pattern.lastIndex = at;
      at += Math.max(1, pattern.exec(code)?.[0].length ?? 1);
    };
    const template = () => {
      skip(/(?:[^\\`$]|\\[^]|\$(?!\{))*(?:`|\$\{)?/y);
      if (code.startsWith("${", at - 2)) templates.push(depth++);
    };
    while (at < code.length) {
      const c = code[at];
      if (/\s/.test(c)) {
        at++;
      } else if (c === "/" && code[at + 1] === "/") {
        skip(/.*/y);
      } else if (c === "/" && code[at + 1] === "*") {
        skip(/\/\*[^]*?\*\//y);
      } else if (c === "'" || c === '"') {
        skip(c === "'" ? /'(?:[^\\'\n]|\\[^])*'?/y : /"(?:[^\\"\n]|\\[^])*"?/y);
        last = "0";
      } else if (c === "`" || (c === "}" && templates.at(-1) === depth - 1)) {
        at++;
        if (c === "}") depth = templates.pop();
        last = "0";
        template();
      } else if (/[\w$\u0080-\uffff]/.test(c)) {
        const start = at;
        skip(/[\w$\u0080-\uffff]+/y);
        const word = code.slice(start, at);
        if ((word === "import" || word === "export") && last !== ".") found.push({ word, at: start, depth });
        last = word;
      } else if (c === "/" && (kBeforeRegExp.has(last) || /^[^\w$)\]}]/.test(last))) {
        skip(/\/(?:[^\\/[\n]|\\.|\[(?:[^\\\]\n]|\\.)*\])+\/\w*/y);
        last = "0";
      } else {
        if ("([{".includes(c)) depth++;
        if (")]}".includes(c)) depth--;
        last = c;
        at++;
      }
    }
    return found;
  }

  const kImport = /import\b\s*(?:([\w$\s{},*\u0080-\uffff]+?)\s*from\s*)?(["'])([^"'\n]+)\2(?:\s*(with|assert)\s*(\{[^}]*\}))?[ \t]*;?/y;

  // `import a, { b as c } from "d"` as what code that is no module can do. In as many lines.
  function declared(text, clause, specifier, word, attributes) {
    const lines = "\n".repeat(text.split("\n").length - 1);
    const call = `await cloisterImport(${JSON.stringify(specifier)}${word ? `, { ${word}: ${attributes} }` : ""})`;
    if (!clause) return `${call};void 0;${lines}`;
    const all = /\*\s*as\s+([\w$]+)/.exec(clause);
    const named = /\{([^}]*)\}/.exec(clause);
    const first = /^\s*([\w$]+)/.exec(clause);
    const names = (named?.[1].split(",") ?? []).map((each) => each.trim().split(/\s+as\s+/)).filter(([name]) => name);
    if (first) names.unshift(["default", first[1]]);
    const source = all ? all[1] : `(${call})`;
    const members = names.map(([name, own]) => `${name}: ${own ?? name}`).join(", ");
    const checked = `cloisterImport.from(${source}, ${JSON.stringify(specifier)}, ${JSON.stringify(names.map(([name]) => name))})`;
    return (all ? `const ${all[1]} = ${call};` : "") + (names.length > 0 ? `const { ${members} } = ${checked};` : "") + lines;
  }

  function translated(code) {
    if (!/\b(?:im|ex)port\b/.test(code)) return code;
    let text = "";
    let done = 0;
    for (const { word, at, depth } of wordsOf(code)) {
      const rest = code.slice(at, at + 200);
      kImport.lastIndex = at;
      let match;
      let by;
      if (word === "export") {
        match = depth === 0 && /^export\s+(?:(?:default\s+)?(?=(?:async|function|class|const|let|var)\b)|default\s+)/.exec(rest);
        by = "";
      } else if ((match = /^import(?=\s*\()/.exec(rest))) {
        by = "cloisterImport";
      } else if ((match = /^import\s*\.\s*meta\b/.exec(rest))) {
        by = "cloisterImport.meta()";
      } else if ((match = depth === 0 && kImport.exec(code))) {
        by = declared(...match.filter((each, i) => i !== 2));
      }
      if (!match) continue;
      text += code.slice(done, at) + by;
      done = at + match[0].length;
    }
    return text + code.slice(done);
  }

  function cloisterImport(specifier, options) {
    const name = String(specifier);
    const url = /^\.{0,2}\//.test(name) ? pathToFileURL(path.resolve(name)).href : name;
    return options === undefined ? import(url) : import(url, options);
  }
  cloisterImport.from = (module, specifier, names) => {
    const missing = names.find((name) => !(name in module));
    if (missing !== undefined) {
      throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
    }
    return module;
  };
  cloisterImport.meta = () => ({
    url: pathToFileURL(path.resolve("cell.js")).href, filename: path.resolve("cell.js"), dirname: process.cwd(),
    resolve: (specifier) => pathToFileURL(require.resolve(specifier)).href
  });
  Object.defineProperty(globalThis, "cloisterImport", { value: cloisterImport });

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
    const own = /^ +at .*(?:\[eval\]|node:inspector|node:internal|new Promise \(<anonymous>\))/;
    return (error.stack ?? String(error)).split("\n").filter((line) => !own.test(line)).join("\n");
  }

  function tell(text) {
    writeAll(2, Buffer.from(`${text}\n`));
  }

  function describe(thrown) {
    tell(thrown instanceof Error ? traceOf(thrown) : `Uncaught ${util.inspect(thrown)}`);
    return 1;
  }

  // What the promise comes to, unless the cell ends before.
  const outcome = (promise, ended) => Promise.race([
    promise.then((value) => ({ value }), (thrown) => ({ thrown })),
    ended
  ]);

  async function run(code, ended) {
    const evaluated = await outcome(post("Runtime.evaluate",
      { expression: `${translated(code)}\n//# sourceURL=cell-${cells}`, replMode: true, awaitPromise: true }), ended);
    const answer = evaluated.value;
    if (current.code !== undefined) return current.code;
    if (evaluated.interrupted || answer.error) {
      tell("Interrupted");
      return 130;
    }
    if (answer.exceptionDetails) {
      const { exception, text } = answer.exceptionDetails;
      return describe(exception ? await valueOf(exception) : text);
    }
    let value = answer.result.type !== "undefined" ? await valueOf(answer.result) : undefined;
    if (util.types.isPromise(value)) {
      const settled = await outcome(value, ended);
      if (settled.interrupted) tell("Interrupted");
      if (settled.interrupted || current.code !== undefined) return current.code ?? 130;
      if ("thrown" in settled) return describe(settled.thrown);
      value = settled.value;
    }
    if (value !== undefined) display(value);
    return 0;
  }

  async function cell(tag, code) {
    Atomics.store(shared, 2, ++cells);
    const stdin = openInput(`${dir}/in`);
    const report = fs.openSync(`${dir}/report`, "w");
    input = null;
    let end;
    const ended = new Promise((resolve) => { end = resolve; });
    current = { tag, stdin, ended: end, failed: false, code: undefined, say: (bytes) => writeAll(report, bytes) };
    process.exitCode = undefined;
    current.say(Buffer.from(`B ${tag}\n`));
    let status = 1;
    try {
      status = await run(code, ended);
    } catch (error) {
      tell(error?.stack ?? error);
    }
    // A signal that came in the end is not for the next cell; and what was rejected is told now.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    const said = current;
    current = null;
    const set = Number(process.exitCode ?? 0) & 255;
    process.exitCode = undefined;
    status = said.code ?? (status || (said.failed ? 1 : set));
    input?.destroy();
    if (stdin !== 0) fs.closeSync(stdin);
    openInput("/dev/null");
    said.say(Buffer.from(`D${status} ${tag}\n`));
    fs.closeSync(report);
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

  // Nothing of the code that calls it runs on, whatever that would catch. Between cells there is nothing to end.
  process.exit = (code) => {
    const cell = current;
    if (cell !== null && cell.code === undefined) {
      cell.code = Number(code ?? process.exitCode ?? 0) & 255;
      setImmediate(() => cell.ended({}));
    }
    session.post("Runtime.terminateExecution");
    for (const until = Date.now() + 200; Date.now() < until;);
    throw new Exit(code);
  };
  // The cell has failed, and goes on to its end.
  const fail = (error) => {
    if (error instanceof Exit) return;
    if (current !== null) current.failed = true;
    tell(`Uncaught ${error instanceof Error ? traceOf(error) : util.inspect(error)}`);
  };
  process.on("uncaughtException", fail);
  process.on("unhandledRejection", fail);
  Object.defineProperty(process, "stdin", {
    configurable: true,
    get: () => input ??= Object.assign(fs.createReadStream(null, { fd: current ? current.stdin : 0, autoClose: false }),
      { ref() { return this; }, unref() { return this; } })
  });
  Object.assign(globalThis, { require: require("module").createRequire(`${process.cwd()}/cell.js`), display });
  main().catch((error) => {
    fs.writeSync(2, `kernel: ${error?.stack ?? error}\n`);
    process.reallyExit(70);
  });
}
