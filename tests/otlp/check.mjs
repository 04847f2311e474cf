// SPDX-License-Identifier: Apache-2.0
// Holds requests of OTLP/HTTP JSON, one a line, to the official protocol buffers: encoding and decoding again gives the same.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { isDeepStrictEqual } from 'node:util';

const { opentelemetry } = createRequire(import.meta.url)('@opentelemetry/otlp-transformer/build/src/generated/root.js');
const Request = opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;

// In JSON, ids are hex; the buffers' own JSON has base64.
const bytes = (value, name) => {
  if (['traceId', 'spanId', 'parentSpanId'].includes(name)) {
    if (!/^(?:[0-9a-f]{16}|[0-9a-f]{32})$/.test(value)) throw new Error(`${name}: ${value}`);
    return Buffer.from(value, 'hex').toString('base64');
  }
  if (Array.isArray(value)) return value.map((each) => bytes(each));
  if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, bytes(each, key)]));
  return value;
};

let requests = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const sent = bytes(JSON.parse(line));
  const message = Request.fromObject(sent);
  const wrong = Request.verify(message);
  if (wrong) throw new Error(wrong);
  const again = Request.toObject(Request.decode(Request.encode(message).finish()), { longs: String, bytes: String });
  if (!isDeepStrictEqual(JSON.parse(JSON.stringify(again)), sent)) throw new Error(`lost on the way: ${JSON.stringify(again)}\nsent: ${JSON.stringify(sent)}`);
  requests += 1;
}
console.log(requests);
