// SPDX-License-Identifier: Apache-2.0
// The build of the web interface, into build/web, and a server for development.
//
// `npm run dev` forwards /v1 to CLOISTER_URL with the key in CLOISTER_API_KEY, and answers /ui/session itself: only
// while developing, and never in the build.
import { readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';
import { isForeign } from './foreign';

const target = process.env['CLOISTER_URL'] ?? 'http://127.0.0.1:8750';
const key = process.env['CLOISTER_API_KEY'] ?? '';
const outDir = process.env['CLOISTER_WEB_OUT'] ?? fileURLToPath(new URL('../build/web', import.meta.url));

// develop: stands in for the routes under /ui/ of the service, with the key of the environment as its only user.
function develop(): Plugin {
  let signedIn = true;
  const say = (response: ServerResponse, status: number, body?: unknown): void => {
    response.statusCode = status;
    response.setHeader('Content-Type', 'application/json');
    response.end(body === undefined ? '' : JSON.stringify(body));
  };
  const session = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method === 'DELETE') {
      signedIn = false;
      return say(response, 204);
    }
    if (request.method === 'POST') signedIn = true;
    if (!signedIn) return say(response, 401, { title: 'Unauthorized', status: 401, detail: 'Sign in.' });
    const who = await fetch(`${target}/v1/whoami`, { headers: { Authorization: `Bearer ${key}` } });
    if (!who.ok) return say(response, 401, { title: 'Unauthorized', status: 401, detail: 'CLOISTER_API_KEY is no key.' });
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    return say(response, request.method === 'POST' ? 201 : 200, { principal: await who.json(), csrf: 'dev', expires_at: expires });
  };
  return {
    name: 'cloister-development',
    apply: 'serve',
    configureServer(server) {
      server.middlewares.use((request, response, next) => (isForeign(request.headers) ? say(response, 403, { title: 'Forbidden', status: 403, detail: 'The request comes from another page.' }) : next()));
      // Before the listeners of Vite and of the proxy, which would answer.
      server.httpServer?.prependListener('upgrade', (request: IncomingMessage, socket: Duplex) => {
        if (!isForeign(request.headers)) return;
        request.headers = { host: request.headers.host };
        request.url = '/';
        socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n');
        socket.destroySoon?.();
      });
      server.middlewares.use('/ui/session', (request, response) => void session(request, response));
      server.middlewares.use('/ui/config', (_, response) => say(response, 200, { oidc: false, base_path: '', version: 'development' }));
    },
  };
}

// licences: of the packages whose code is in the build, as licences.txt.
function licences(): Plugin {
  return {
    name: 'cloister-licences',
    apply: 'build',
    generateBundle(_, bundle) {
      const roots = new Set<string>();
      for (const file of Object.values(bundle)) {
        if (file.type !== 'chunk') continue;
        for (const id of file.moduleIds) {
          const root = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id.replace(/^\0/, '').split('?')[0] ?? '')?.[1];
          if (root) roots.add(root);
        }
      }
      const texts = [...roots].sort().map((root) => {
        const { name, version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, string>;
        const file = readdirSync(root).find((each) => /^licen[cs]e/i.test(each));
        if (!file) throw new Error(`${name} has no text of its licence`);
        return `${name} ${version}, ${license}\n\n${readFileSync(join(root, file), 'utf8').trim()}\n`;
      });
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: texts.join(`\n${'-'.repeat(72)}\n\n`) });
    },
  };
}

// proxy: to the service with the key, as if the page came from the service.
const proxy = {
  target,
  ws: true,
  changeOrigin: true,
  configure(it: { on(event: string, handler: (request: { setHeader(name: string, value: string): void; removeHeader(name: string): void }) => void): void }) {
    for (const event of ['proxyReq', 'proxyReqWs']) {
      it.on(event, (request) => {
        request.setHeader('Authorization', `Bearer ${key}`);
        request.removeHeader('Origin');
        request.removeHeader('Cookie');
      });
    }
  },
};

export default defineConfig(({ command }) => ({
  // Addresses in the build are relative to <base>, which the service writes; the development server has a fixed one.
  base: command === 'build' ? './' : '/ui/',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  plugins: [develop(), licences()],
  worker: { format: 'es' },
  build: {
    outDir,
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    rollupOptions: { output: { experimentalMinChunkSize: 40_000 } },
    reportCompressedSize: false,
  },
  server: { host: '127.0.0.1', port: 8810, strictPort: true, proxy: { '/v1': proxy, '/readyz': proxy, '/metrics': proxy } },
}));
