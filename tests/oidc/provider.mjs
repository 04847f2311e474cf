// SPDX-License-Identifier: Apache-2.0
// A real OpenID Connect provider (npm oidc-provider) over HTTPS, driven by JSON lines on stdin:
//   {"token": {"client": "agent", "resource": "https://…"}}   a token like a client's
//   {"sign": {"header": {…}, "claims": {…}, "key": "rsa"}}    any token, by a key of the provider
//   {"sign": {"text": "…", "key": "rsa"}}                     the same for a text, unchanged
//   {"rotate": true}                                          new keys; the old ones are gone
//   {"ttl": 5}                                                life of new tokens, in seconds
//   {"claims": {"agent": {…}}}                                further claims of a client's tokens
//   {"hits": true}                                            requests so far, by path
//   {"web": {"redirect_uri": "https://…", "public": false}}   a client `web` for the authorization code flow
//   {"user": {"sub": "ann", "claims": {…}}}                   the person who signs in from now on; null refuses
//   {"id_token": {"claims": {…}, "key": "rsa"}}               replaces claims of further ID tokens; null: as issued
// Each is answered with one line. Arguments: certificate and key (PEM).
import crypto from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import readline from 'node:readline';
import Provider from 'oidc-provider';

const [certificate, key] = process.argv.slice(2).map((path) => fs.readFileSync(path));
const CLIENTS = ['agent', 'keeper', 'boss', 'nobody'];
const SECRET = 'only-for-this-test';
const extra = {};
let ttl = 300;
let issuer;
let keys;
let provider;
let generation = 0;
const hits = {};
let web = null;
let user = { sub: 'ann', claims: {} };
let forged = null;

function makeKeys() {
  generation += 1;
  const pairs = {
    rsa: crypto.generateKeyPairSync('rsa', { modulusLength: 2048 }),
    ec: crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    ed: crypto.generateKeyPairSync('ed25519'),
  };
  const algorithms = { rsa: 'RS256', ec: 'ES256', ed: 'EdDSA' };
  return Object.entries(pairs).map(([name, pair]) => ({
    name,
    alg: algorithms[name],
    kid: `${name}-${generation}`,
    private: pair.privateKey,
    public: pair.publicKey,
  }));
}

function clients() {
  const ours = CLIENTS.map((id) => ({
    client_id: id,
    client_secret: SECRET,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  }));
  if (!web) return ours;
  const secret = web.public ? { token_endpoint_auth_method: 'none' } : { client_secret: SECRET };
  return [...ours, {
    client_id: 'web',
    ...secret,
    grant_types: ['authorization_code'],
    redirect_uris: [web.redirect_uri],
    response_types: ['code'],
  }];
}

function start(fresh = true) {
  if (fresh) keys = makeKeys();
  const jwks = { keys: keys.map((k) => ({ ...k.private.export({ format: 'jwk' }), kid: k.kid, alg: k.alg, use: 'sig' })) };
  provider = new Provider(issuer, {
    jwks,
    clients: clients(),
    cookies: { keys: [SECRET] },
    pkce: { methods: ['S256'], required: () => true },
    interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (ctx, sub) => ({ accountId: sub, claims: () => ({ sub, ...user?.claims }) }),
    claims: { openid: ['sub', 'tenant', 'roles', 'agent', 'email'] },
    conformIdTokenClaims: false,
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256', 'EdDSA'] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, resource, client) => ({
          scope: 'run',
          audience: resource,
          accessTokenTTL: ttl,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: { keeper: 'ES256', boss: 'EdDSA' }[client.clientId] ?? 'RS256' } },
        }),
      },
    },
    extraTokenClaims: (ctx, token) => extra[token.clientId] ?? {},
  });
}

function ask(path, body, authorization) {
  return new Promise((resolve, reject) => {
    const request = https.request(`${issuer}${path}`, {
      method: 'POST',
      ca: certificate,
      rejectUnauthorized: false,
      headers: { 'content-type': 'application/x-www-form-urlencoded', 'x-passed': '1', ...(authorization ? { authorization } : {}) },
    }, (answer) => {
      let text = '';
      answer.on('data', (piece) => { text += piece; });
      answer.on('end', () => resolve(JSON.parse(text)));
    });
    request.on('error', reject);
    request.end(body);
  });
}

// The person signs in and consents at once.
async function interact(request, response) {
  const { params } = await provider.interactionDetails(request, response);
  if (!user) {
    return provider.interactionFinished(request, response, { error: 'access_denied', error_description: 'no' });
  }
  const grant = new provider.Grant({ accountId: user.sub, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  const result = { login: { accountId: user.sub, remember: false }, consent: { grantId: await grant.save() } };
  return provider.interactionFinished(request, response, result);
}

// Passes the token request on, and replaces claims of the ID token.
async function exchange(request, response) {
  let body = '';
  for await (const piece of request) body += piece;
  const answer = await ask('/token', body, request.headers.authorization ?? '');
  if (forged && answer.id_token) {
    const claims = JSON.parse(Buffer.from(answer.id_token.split('.')[1], 'base64url'));
    answer.id_token = COMMANDS.sign({ header: {}, claims: { ...claims, ...forged.claims }, key: forged.key ?? 'rsa' }).token;
  }
  response.writeHead(answer.error ? 400 : 200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(answer));
}

const encode = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

const COMMANDS = {
  async token({ client, resource }) {
    const basic = Buffer.from(`${client}:${SECRET}`).toString('base64');
    const form = new URLSearchParams({ grant_type: 'client_credentials', resource, scope: 'run' });
    return ask('/token', form.toString(), `Basic ${basic}`);
  },
  sign({ header, claims, key: name, text: given }) {
    const found = keys.find((k) => k.name === name);
    const text = given ?? `${encode({ alg: found.alg, kid: found.kid, ...header })}.${encode(claims)}`;
    const how = name === 'ec' ? { key: found.private, dsaEncoding: 'ieee-p1363' } : found.private;
    const signature = crypto.sign(name === 'ed' ? null : 'sha256', Buffer.from(text), how);
    return { token: `${text}.${signature.toString('base64url')}` };
  },
  keys: () => keys.map((k) => ({ name: k.name, kid: k.kid, pem: k.public.export({ type: 'spki', format: 'pem' }), jwk: k.public.export({ format: 'jwk' }) })),
  rotate() {
    start();
    return { generation };
  },
  ttl(seconds) {
    ttl = seconds;
    return {};
  },
  claims(more) {
    Object.assign(extra, more);
    return {};
  },
  hits: () => hits,
  web(settings) {
    web = settings;
    start(false);
    return {};
  },
  user(next) {
    user = next;
    return {};
  },
  id_token(next) {
    forged = next;
    return {};
  },
};

const server = https.createServer({ cert: certificate, key }, (request, response) => {
  const path = request.url.split('?')[0];
  hits[path] = (hits[path] ?? 0) + 1;
  if (path.startsWith('/interaction/')) return interact(request, response);
  if (path === '/token' && forged && !request.headers['x-passed']) return exchange(request, response);
  return provider.callback()(request, response);
});
server.listen(0, '127.0.0.1', async () => {
  issuer = `https://127.0.0.1:${server.address().port}`;
  start();
  console.log(JSON.stringify({ issuer }));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [[name, argument]] = Object.entries(JSON.parse(line));
    console.log(JSON.stringify(await COMMANDS[name](argument)));
  }
  process.exit(0);
});
