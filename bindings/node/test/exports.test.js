// SPDX-License-Identifier: Apache-2.0
// Every way to the package gives the same names.
"use strict";

const assert = require("node:assert/strict");
const { readFileSync } = require("node:fs");
const { test } = require("node:test");
const path = require("node:path");
const gpupool = require("..");

test("import and require", async () => {
  const imported = await import("../index.mjs");
  const named = Object.keys(imported).filter((name) => name !== "default" && name !== "module.exports");
  assert.deepEqual(named.sort(), Object.keys(gpupool).sort());
  assert.equal(imported.default, gpupool);
});

test("types", () => {
  const declared = ["index.d.ts", "names.d.ts"].flatMap((file) => {
    const text = readFileSync(path.join(__dirname, "..", file), "utf8");
    return [...text.matchAll(/^export declare (?:const|class|function) (\w+)/gm)].map(([, name]) => name);
  });
  assert.deepEqual([...new Set(declared)].sort(), Object.keys(gpupool).sort());
});

test("the package is of the library's version", () => {
  assert.equal(require("../package.json").version, gpupool.versionString());
});
