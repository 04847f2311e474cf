# SPDX-License-Identifier: Apache-2.0
"""spec/openapi.yaml as a judge: whether the document allows an answer."""

import functools
import json
import re

import jsonschema
import yaml

import harness

METHODS = ("get", "post", "put", "patch", "delete", "head", "options")


class Document:
    def __init__(self, path=harness.REPO / "spec" / "openapi.yaml"):
        self.root = yaml.safe_load(path.read_text())
        self._paths = [(re.compile(re.sub(r"\{[^}]+\}", "[^/:]+", template.replace("{path}", ".+")
                                           .replace("{rest}", ".*"))
                                   + r"\Z", re.DOTALL), template)
                       for template in self.root["paths"]]

    def operations(self):
        """Every (METHOD, path template)."""
        return {(method.upper(), template) for template, item in self.root["paths"].items()
                for method in item if method in METHODS}

    def template(self, path):
        for pattern, template in self._paths:
            if pattern.match(path):
                return template
        return None

    def resolve(self, item):
        """`item`, or the target of its reference within the document."""
        while "$ref" in item:
            steps = item["$ref"].removeprefix("#/").split("/")
            item = functools.reduce(lambda at, step: at[step], steps, self.root)
        return item

    def validate(self, value, schema):
        """Fails unless `value` matches a schema, given as a schema or by its name."""
        if isinstance(schema, str):
            schema = {"$ref": f"#/components/schemas/{schema}"}
        # References are to the document; a schema with the document inside is a document of its own.
        whole = {**schema, "components": self.root["components"]}
        validator = jsonschema.Draft202012Validator(whole)
        errors = sorted(validator.iter_errors(value), key=lambda e: list(e.path))
        if errors:
            where = "\n".join(f"  {'/'.join(map(str, e.absolute_path))}: {e.message[:400]}"
                              for e in errors[:5])
            raise AssertionError(f"not as spec/openapi.yaml says:\n{where}")

    def check(self, method, path, answer):
        """Fails unless the document has the answer for the request; path without the query."""
        template = self.template(path)
        if template is None:
            assert answer.status == 404, f"{path} is not documented, yet {answer.status}"
            return self.validate(answer.json(), "Problem")
        operation = self.root["paths"][template].get(method.lower())
        if operation is None:
            assert answer.status in (405, 400), f"{method} {template}: {answer.status}"
            return self.validate(answer.json(), "Problem")
        documented = operation["responses"].get(str(answer.status)) or operation["responses"].get("default")
        assert documented, f"{method} {template}: {answer.status} is not documented: {answer.body[:300]}"
        if method == "HEAD":
            assert not answer.body, f"{method} {template}: a body"
            return None
        return self._check_body(f"{method} {template} {answer.status}", self.resolve(documented), answer)

    def _check_body(self, what, documented, answer):
        for name, header in documented.get("headers", {}).items():
            if self.resolve(header).get("required"):
                assert name.lower() in answer.headers, f"{what}: no {name}"
        content = documented.get("content")
        if content is None:
            assert not answer.body, f"{what}: a body that is not documented"
            return
        kind = answer.headers.get("content-type")
        media = content.get(kind, content.get("*/*"))
        assert media is not None, f"{what}: {kind} is not documented"
        if "schema" in media and kind in ("application/json", "application/problem+json"):
            self.validate(json.loads(answer.body), media["schema"])
