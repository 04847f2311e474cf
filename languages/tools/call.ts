// SPDX-License-Identifier: Apache-2.0
// Calls the function of a tool in TypeScript, and prints the result as one JSON object: call.py
// beside this file has the rules. The bundler has put tool.ts into this program; only the child
// process runs it.
import { spawn } from "node:child_process";
import { readFileSync, unlinkSync, writeSync } from "node:fs";

type Call = {
  name: string; args: Record<string, unknown>; order: string[];
  timeout: number; return_bytes: number; output_bytes: number;
};
type Report = { value?: unknown; text?: string; error?: string; stdout?: string; stderr?: string };

const RESULT = 3;

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === undefined) return "None";
  return JSON.stringify(value) ?? String(value);
}

async function child(call: Call): Promise<void> {
  let report: Report;
  try {
    const { cloisterTool } = await import("./tool") as { cloisterTool: (...all: unknown[]) => unknown };
    const value = await cloisterTool(...call.order.map((name) => call.args[name]));
    report = { value: value === undefined ? null : value, text: textOf(value) };
  } catch (error) {
    const known = error instanceof Error ? error : new Error(String(error));
    process.stderr.write((known.stack ?? known.message) + "\n");
    report = { error: `${known.name}: ${known.message}` };
  }
  const bytes = Buffer.from(JSON.stringify(report));
  for (let at = 0; at < bytes.length;) at += writeSync(RESULT, bytes, at);
}

function cut(chunks: Buffer, most: number): string {
  const text = chunks.subarray(0, most).toString("utf8");
  return chunks.length > most ? `${text}... [NOTE: output was cut at ${most} bytes]` : text;
}

function supervise(call: Call, text: string): void {
  const most = [0, call.output_bytes, call.output_bytes, 8 * call.return_bytes + 4096];
  const kept = most.map(() => Buffer.alloc(0));
  const started = spawn(process.execPath, ["--enable-source-maps", process.argv[1], "child", text],
    { stdio: ["ignore", "pipe", "pipe", "pipe"], detached: true });
  for (const fd of [1, 2, RESULT]) {
    started.stdio[fd]!.on("data", (data: Buffer) => {
      const room = most[fd] + 1 - kept[fd].length;
      if (room > 0) kept[fd] = Buffer.concat([kept[fd], data.subarray(0, room)]);
    });
  }
  let late = false;
  const end = (): void => { try { process.kill(-started.pid!, "SIGKILL"); } catch { /* it has ended */ } };
  const timer = setTimeout(() => { late = true; end(); }, (call.timeout - Math.min(1, call.timeout / 10)) * 1000);
  const finish = (code: number | null, signal: string | null): void => {
    clearTimeout(timer);
    end();
    let report: Report = {};
    try { report = JSON.parse(kept[RESULT].toString("utf8")) as Report; } catch { /* none was written */ }
    if (late) {
      report = { error: `TimeoutError: the tool ran longer than ${call.timeout} s` };
    } else if (kept[RESULT].length > most[RESULT]) {
      report = { error: `RangeError: the result is larger than ${call.return_bytes} bytes` };
    } else if (report.error === undefined && report.text === undefined) {
      report = { error: signal ? `the tool was ended by the signal ${signal}`
        : `the tool exited with the code ${code} before it returned` };
    }
    if (report.text !== undefined && Buffer.byteLength(report.text) > call.return_bytes) {
      report.text = cut(Buffer.from(report.text), call.return_bytes);
      report.value = report.text;
    }
    report.stdout = cut(kept[1], call.output_bytes);
    report.stderr = cut(kept[2], call.output_bytes);
    process.stdout.write(JSON.stringify(report), () => process.exit(0));
  };
  started.on("exit", (code, signal) => {
    // What the pipes hold arrives before "close"; a process left behind may keep the pipes open.
    const wait = setTimeout(() => finish(code, signal), 500);
    started.on("close", () => { clearTimeout(wait); finish(code, signal); });
  });
}

if (process.argv[2] === "child") {
  void child(JSON.parse(process.argv[3]) as Call).then(() => process.exit(0));
} else {
  const text = readFileSync("call.json", "utf8");
  for (const name of ["call.json", "tool.ts", "main.ts"]) try { unlinkSync(name); } catch { /* not there */ }
  supervise(JSON.parse(text) as Call, text);
}
