// SPDX-License-Identifier: Apache-2.0
//
// Reads objects of Kubernetes from standard input, YAML, and prints what is wrong with each, if
// anything is: by the JSON schemas of the API; and by its types, as schemas let keys pass that they
// do not know, which a misspelled one is. Ends with status 1 if something is.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import ts from "typescript";
import { parseAllDocuments } from "yaml";

const require = createRequire(import.meta.url);
const here = path.dirname(new URL(import.meta.url).pathname);

// The core group has no name: its module is v1, that of apps is apps/v1. The Prometheus operator has a
// package of its own.
const moduleOf = (object) =>
  object.apiVersion.startsWith("monitoring.coreos.com/")
    ? `@kubernetes-models/prometheus-operator/${object.apiVersion}`
    : `kubernetes-models/${object.apiVersion}`;

function bySchema(object) {
  const model = require(moduleOf(object))[object.kind];
  try {
    new model(object).validate();
  } catch (error) {
    return [error.message];
  }
  return [];
}

// As literals of the API's types, which refuse a key that the type does not have.
function byTypes(objects) {
  const name = path.join(here, "objects.ts");
  const source = objects
    .map((object) => `({} as { f(o: import("${moduleOf(object)}").I${object.kind}): void })
      .f(${JSON.stringify(object)});`)
    .join("\n");
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    moduleResolution: ts.ModuleResolutionKind.Node10,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile;
  host.getSourceFile = (file, ...rest) =>
    file === name ? ts.createSourceFile(file, source, ts.ScriptTarget.ES2022) : read(file, ...rest);
  return ts
    .getPreEmitDiagnostics(ts.createProgram([name], options, host))
    .map((found) => ts.flattenDiagnosticMessageText(found.messageText, "\n"));
}

const objects = parseAllDocuments(readFileSync(0, "utf8"), { uniqueKeys: true }).map((document) => {
  if (document.errors.length > 0) throw document.errors[0];
  return document.toJS();
});
const problems = [...objects.flatMap(bySchema), ...byTypes(objects)];
console.log(problems.length > 0 ? problems.join("\n") : `${objects.length} objects are valid`);
process.exitCode = problems.length > 0 ? 1 : 0;
