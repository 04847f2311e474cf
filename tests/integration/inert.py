# SPDX-License-Identifier: Apache-2.0
"""A setting without its effect: tests/mutate_settings.py tries whether the setting's test notices.

CLOISTER_INERT names the setting, as KIND:NAME. The program is unchanged, and never receives the setting: the same
effect as a program that reads the setting without using it. Kinds:

    setting:limits.disk_mb     a key of the configuration, with all below it
    member:max_cpu_percent     a member, at any depth, of bodies of requests, and of the documents of policy, tools and levels
"""

import json
import os
import pathlib

KIND, _, NAME = os.environ.get("CLOISTER_INERT", "").partition(":")
if KIND:
    import yaml
# Settings that cannot be left out, or not without harm to the machine: they get another value.
OTHERS = {"state": "/tmp/cloister-inert", "escalation.smtp.from": "inert@example.org", "escalation.smtp.to": ["inert@example.org"],
          "escalation.smtp.user": "inert", "policies.opa.url": "http://127.0.0.1:9", "auth.oidc.client_id": "inert", "egress.upstream": "http://127.0.0.1:9"}
# Settings that name a file and cannot be left out: they get another file, with TEXT as its content.
FILES = {"audit.publish.webhook.secret_file", "escalation.webhook.secret_file", "escalation.smtp.password_file"}
TEXT = "inert-" * 6
# Settings that other settings need: the whole section is left out.
GROUPS = {"policies.engine": "policies", "tls.certificate": "tls", "tls.key": "tls",
          **dict.fromkeys((f"artifacts.s3.{key}" for key in ("bucket", "credentials_file", "endpoint", "region")), "artifacts.s3")}
# Settings that name a document, and the default document.
DOCUMENTS = {"policy": "default.yaml", "policy.document": None, "tools": "tools.yaml", "agents.levels": "levels.yaml"}
POLICIES = pathlib.Path(__file__).resolve().parents[2] / "policies"


def _without_path(document, path, other=None):
    """The configuration without the path, or with another value."""
    inner, _, rest = path.partition(".")
    if not isinstance(document, dict) or inner not in document:
        return False
    if not rest:
        if other is None:
            del document[inner]
        else:
            document[inner] = other
        return True
    return _without_path(document[inner], rest, other)


def _without_member(value, name):
    """Removes the member; gives whether there was any."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = isinstance(value, dict) and value.pop(name, None) is not None
    return any([_without_member(each, name) for each in list(items)]) or found


def _text_without_member(text, name):
    document = yaml.safe_load(text)
    return yaml.safe_dump(document, sort_keys=False) if _without_member(document, name) else text


def _value(document, path):
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _put(document, path, value):
    *folders, name = path.split(".")
    for each in folders:
        document = document.setdefault(each, {})
    document[name] = value


def _without_in_documents(document, folder):
    """Replaces named documents by copies without the member."""
    for setting, shipped in DOCUMENTS.items():
        path = _value(document, setting)
        if path is None and shipped and not (setting == "policy" and "policy" in document):
            path = str(POLICIES / shipped)
        if not isinstance(path, str) or not os.path.isfile(path):
            continue
        text = pathlib.Path(path).read_text()
        changed = _text_without_member(text, NAME)
        if changed != text:
            copy = pathlib.Path(folder) / f"inert-{setting}.yaml"
            copy.write_text(changed)
            copy.chmod(0o644)
            _put(document, setting, str(copy))


def _file(folder):
    file = pathlib.Path(folder) / "inert-file"
    file.write_text(TEXT)
    file.chmod(0o644)
    return str(file)


def configuration(text, folder):
    """The text of a configuration for a server."""
    if not KIND:
        return text
    document = yaml.safe_load(text) or {}
    if KIND == "setting":
        _without_path(document, GROUPS.get(NAME, NAME), _file(folder) if NAME in FILES else OTHERS.get(NAME))
    else:
        _without_in_documents(document, folder)
    return yaml.safe_dump(document, sort_keys=False)


def body(content):
    """The body of a request for a server, bytes or any JSON value."""
    if KIND != "member" or not content:
        return content
    if isinstance(content, (dict, list)):
        copy = json.loads(json.dumps(content))
        _without_member(copy, NAME)
        if isinstance(copy, dict) and isinstance(copy.get("document"), str):  # a policy's
            copy["document"] = _text_without_member(copy["document"], NAME)
        return copy
    if not isinstance(content, (bytes, bytearray)):
        return content
    try:
        return _text_without_member(content.decode(), NAME).encode()
    except (UnicodeDecodeError, yaml.YAMLError):
        return content
