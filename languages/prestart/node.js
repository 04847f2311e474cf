// SPDX-License-Identifier: Apache-2.0
// What a Node.js that is started ahead of its program does before it waits for it: it opens stdout, which
// loads a third of its library, as nearly every program does first. It leaves no trace that a program
// could stumble on, but for an open stdout.
'use strict';
if (require('worker_threads').isMainThread) process.stdout.write('');  // workers run this as well
delete process.env.NODE_OPTIONS;
process._preload_modules.length = 0;
delete require.cache[__filename];
for (const key of Object.keys(module.constructor._pathCache)) delete module.constructor._pathCache[key];
