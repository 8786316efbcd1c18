// SPDX-License-Identifier: Apache-2.0
// Node unloads an addon once the last thread that loaded it has ended.
"use strict";

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const path = require("node:path");
const { test } = require("node:test");

const run = (program) =>
  spawnSync(process.execPath, ["-e", program], { encoding: "utf8", cwd: path.join(__dirname, "..") });

test("the library may log when all threads that loaded the addon have ended", () => {
  const { status, signal, stdout, stderr } = run(`
    const { Worker } = require("node:worker_threads");
    const work = (code) => new Promise((done, failed) => {
      const worker = new Worker('const { Pool, setLog } = require(".");' + code, { eval: true });
      worker.on("error", failed);
      worker.on("exit", done);
    });
    (async () => {
      await work("setLog(4, () => {}); new Pool('sim').close();");
      await work("new Pool('sim').close();");  // its lines go to the first one's function
      console.log("both ended");
    })();`);
  assert.deepEqual([status, signal, stdout], [0, null, "both ended\n"], stderr);
});

test("a default pool keeps the handler and the hooks of a thread that has ended", () => {
  const { status, signal, stdout, stderr } = run(`
    const { Worker } = require("node:worker_threads");
    const work = (code) => new Promise((done, failed) => {
      const worker = new Worker('const { OutOfMemoryError, Pool } = require(".");' + code, { eval: true });
      worker.on("error", failed);
      worker.on("exit", done);
    });
    (async () => {
      await work("Pool.shared().setOomHandler(() => true); Pool.shared().setSleepHooks(() => true);");
      await work("try { Pool.shared().malloc(2 ** 50); } catch (error) { console.log(error.name); }");
      console.log("both ended");
    })();`);
  assert.deepEqual([status, signal, stdout], [0, null, "OutOfMemoryError\nboth ended\n"], stderr);
});
