// SPDX-License-Identifier: Apache-2.0
// An HTTP/2 server (and HTTP/1.1 for clients without h2): node h2_server.js PORT KEY CERTIFICATE.
// It prints a line of JSON for each request, with the protocol that the client chose.
"use strict";
const fs = require("fs");
const http2 = require("http2");

const [port, key, certificate] = process.argv.slice(2);
const options = { key: fs.readFileSync(key), cert: fs.readFileSync(certificate), allowHTTP1: true };

http2.createSecureServer(options, (request, response) => {
  const host = request.headers[":authority"] || request.headers.host;
  const event = { kind: "h2", method: request.method, host, path: request.url, version: request.httpVersion };
  process.stdout.write(JSON.stringify(event) + "\n");
  response.setHeader("content-type", "text/plain");
  response.end(`hello from ${host} by HTTP/${request.httpVersion}\n`);
}).listen(Number(port), "127.0.0.1", () => process.stdout.write(JSON.stringify({ kind: "h2-ready" }) + "\n"));
