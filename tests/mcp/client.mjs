// SPDX-License-Identifier: Apache-2.0
// An official SDK, driven by a test. The first argument is JSON: {sdk: 1 | 2, era, url, key} or
// {sdk, era, command, args, env}, and `answers`, the answers to elicitations in turn.
// Commands come as lines of JSON on stdin, events go as lines of JSON to stdout:
//   {op: "list", id}                                         {id, result} or {id, error}
//   {op: "call", id, params, progress?, manual?}             {id, progress}... {id, result} or {id, error}
//   {op: "abort", id}                                        the call's error
//   {op: "end"}
import { createInterface } from 'node:readline';

const config = JSON.parse(process.argv[2]);
const emit = (event) => process.stdout.write(JSON.stringify(event) + '\n');

async function sdk1() {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client({ name: 'sdk-1', version: '1' }, { capabilities: { elicitation: {} } });
  return {
    client, StreamableHTTPClientTransport, StdioClientTransport,
    onElicit: (handler) => client.setRequestHandler(ElicitRequestSchema, handler),
    callTool: (params, options) => client.callTool(params, undefined, options),
  };
}

async function sdk2() {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const mode = config.era === 'modern' ? { pin: '2026-07-28' } : config.era;
  const client = new Client({ name: 'sdk-2', version: '1' }, {
    capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode },
  });
  return {
    client, StreamableHTTPClientTransport, StdioClientTransport,
    onElicit: (handler) => client.setRequestHandler('elicitation/create', handler),
    callTool: (params, options) => client.callTool(params, options),
  };
}

const sdk = await (config.sdk === 1 ? sdk1() : sdk2());
const answers = [...(config.answers ?? [])];
sdk.onElicit(async (request) => {
  emit({ elicit: request.params });
  return answers.shift() ?? { action: 'cancel' };
});

const transport = config.url
  ? new sdk.StreamableHTTPClientTransport(new URL(config.url), {
      requestInit: { headers: { Authorization: `Bearer ${config.key}` } } })
  : new sdk.StdioClientTransport({
      command: config.command, args: config.args, env: config.env, stderr: 'inherit' });
await sdk.client.connect(transport);
emit({ connected: sdk.client.getServerVersion?.()?.name ?? null });

const aborts = new Map();

async function call({ id, params, progress, manual }) {
  const controller = new AbortController();
  aborts.set(id, controller);
  const options = { signal: controller.signal, timeout: 90000 };
  if (progress) options.onprogress = (told) => emit({ id, progress: told });
  if (manual) options.allowInputRequired = true;
  return sdk.callTool(params, options);
}

const operations = {
  list: () => sdk.client.listTools(),
  call,
  abort: async ({ call: id }) => { aborts.get(id).abort('test'); return {}; },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.op === 'end') break;
  operations[command.op](command).then(
    (result) => emit({ id: command.id, result }),
    (error) => emit({ id: command.id, error: { code: error.code ?? null, message: String(error.message ?? error) } }));
}
await sdk.client.close();
process.exit(0);
