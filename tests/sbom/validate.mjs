// SPDX-License-Identifier: Apache-2.0
// Reads a bill of materials on standard input, and validates it against the JSON schema of CycloneDX 1.5.
// Prints the faults as JSON: null, or the validator's list.
import { readFileSync } from "node:fs";
import * as CDX from "@cyclonedx/cyclonedx-library";

const validator = new CDX.Validation.JsonStrictValidator(CDX.Spec.Version.v1dot5);
const faults = await validator.validate(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(faults) + "\n");
