// SPDX-License-Identifier: Apache-2.0
// Letta's official client, driven by a test. The first argument is JSON: {url, key, project?}. Commands come as lines of
// JSON on stdin, answers go as lines of JSON to stdout:
//   {call: "tools.create", args: [...]}      {result} or {status, error}
//   {all: "tools.list", args: [...]}         {result: [every item of all pages]} or {status, error}
//   {post: "/v1/tools/run", body: {...}}     {result} or {status, error}
import { createInterface } from 'node:readline';
import { Letta } from '@letta-ai/letta-client';

const config = JSON.parse(process.argv[2]);
const client = new Letta({ baseURL: config.url, apiKey: config.key, projectID: config.project ?? null, maxRetries: 0 });

function method(path) {
  const parts = path.split('.');
  const last = parts.pop();
  const owner = parts.reduce((object, part) => object[part], client);
  return (...args) => owner[last](...args);
}

async function answer(command) {
  if (command.call) return method(command.call)(...command.args);
  if (command.post) return client.post(command.post, { body: command.body });
  const items = [];
  for await (const item of method(command.all)(...command.args)) items.push(item);
  return items;
}

for await (const line of createInterface({ input: process.stdin })) {
  let told;
  try {
    told = { result: (await answer(JSON.parse(line))) ?? null };
  } catch (error) {
    told = { status: error.status ?? null, error: String(error.message), body: error.error ?? null };
  }
  process.stdout.write(JSON.stringify(told) + '\n');
}
