# SPDX-License-Identifier: Apache-2.0
# Decides as Cloister's own engine does, by the same documents of version 2 (docs/POLICY.md). Load it
# into OPA, and the document beside it as data.cloister.policy:
#
#   opa run --server --addr 127.0.0.1:8181 cloister.rego
#   cloister policy export | curl -X PUT --data-binary @- http://127.0.0.1:8181/v1/data/cloister/policy
#
# Whoever writes rules in Rego instead writes data.cloister.decision; what it gets and must give is in
# docs/POLICY.md, "Another engine".
package cloister

import rego.v1

# --- what is there ---

document := data.cloister.policy.document

revision := data.cloister.policy.revision

weights := object.get(document, "risk", {})

request := input.request

tier_names := ["Auto", "Assisted", "HumanApprove", "ManualOnly"]

ranks := {name: rank | some rank, name in tier_names}

strengths := {"process": 0, "gvisor": 1, "microvm": 2}

usual_approval := {"roles": ["approver"], "quorum": 1, "ttl_seconds": 3600, "fallback": "deny"}

usual_tiers := {
	"Auto": {"runtime": "process"},
	"Assisted": {"runtime": "gvisor"},
	"HumanApprove": {"runtime": "gvisor", "approve": usual_approval},
	"ManualOnly": {"runtime": "microvm", "approve": usual_approval},
}

# Of the document, over what is usual.
tiers[name] := setting if {
	some name, usual in usual_tiers
	given := object.get(object.get(document, "tiers", {}), name, {})
	setting := object.union(object.union(usual, given), whole_approval(given))
}

whole_approval(given) := {"approve": object.union(usual_approval, given.approve)}

whole_approval(given) := {} if not given.approve

# --- the score ---

points(table, name) := object.get(table, name, object.get(table, "other", 0))

table(name) := object.get(weights, name, {})

each(name, count_of) := min([count_of * weights[name].each, object.get(weights[name], "most", 1000)])

each(name, _) := 0 if not weights[name]

# Only the asterisk is special in a glob.
expression(glob) := concat("", ["(?s)^", concat(".*", [quoted(part) | some part in split(glob, "*")]), "$"])

quoted(text) := regex.replace(text, `[\\.+*?()|\[\]{}^$]`, `\${0}`)

secrets := [variable |
	some variable in input.risk.variables
	some glob in weights.secrets.names
	regex.match(expression(glob), variable)
]

score := sum([
	points(table("languages"), request.language),
	points(table("network"), request.network),
	points(table("tenants"), input.principal.tenant),
	max(array.concat([0], [points(table("roles"), role) | some role in input.principal.roles])),
	sum([points(table("commands"), kind) | some kind in input.risk.commands]),
	each("dependencies", count(request.dependencies)),
	each("secrets", count({variable | some variable in secrets})),
])

# --- the rule ---

# What each list of a rule is compared with.
facts := {
	"tenants": {input.principal.tenant},
	"apps": {input.principal.app},
	"agents": {input.principal.agent},
	"users": {input.principal.user},
	"roles": {role | some role in input.principal.roles},
	"languages": {request.language},
	"network_tiers": {request.network},
	"tool_types": {tool | tool := request.tool_type; tool != null},
	"operations": {input.operation},
}

listed(match, name, _) if not match[name]

listed(match, name, known) if {
	some glob in match[name]
	some value in known
	fits(glob, value)
}

# An asterisk stands for any characters. Without one, the text itself is compared.
fits(glob, value) if glob == value

fits(glob, value) if {
	contains(glob, "*")
	regex.match(expression(glob), value)
}

named(globs, dependency) if {
	some glob in globs
	fits(glob, dependency.name)
}

dependencies_hold(match) if not match.dependencies

dependencies_hold(match) if {
	match.dependencies == "none"
	count(request.dependencies) == 0
}

dependencies_hold(match) if {
	match.dependencies == "any"
	count(request.dependencies) > 0
}

dependencies_hold(match) if {
	some dependency in request.dependencies
	named(match.dependencies.any_of, dependency)
}

dependencies_hold(match) if {
	count(request.dependencies) > 0
	every dependency in request.dependencies {
		named(match.dependencies.only, dependency)
	}
}

matches(match) if {
	every name, known in facts {
		listed(match, name, known)
	}
	dependencies_hold(match)
	object.get(match, "session", input.session) == input.session
	score >= object.get(match, ["risk", "at_least"], 0)
}

matching := [rule | some rule in document.rules; matches(object.get(rule, "match", {}))]

rule := matching[0]

# --- how far it is held ---

by_score := max(array.concat([0], [rank | some rank, name in tier_names; score >= tiers[name].from_score]))

rank_of_rule := object.get(ranks, object.get(rule, "tier", tier_names[by_score]), 0)

tier := tier_names[max([rank_of_rule, object.get(ranks, request.tier, 0)])]

stronger(one, other) := one if strengths[one] >= strengths[other]

stronger(one, other) := other if strengths[one] < strengths[other]

runtime := stronger(tiers[tier].runtime, object.get(rule, "runtime", "process"))

approval := object.union(usual_approval, object.get(rule, "approve", {})) if rule.effect == "approve"

approval := tiers[tier].approve if rule.effect == "allow"

# --- the decision ---

# Documents of version 1, and inputs of another version, are undefined: then Cloister denies.
usable if {
	input.version == 1
	document.version == 2
}

said := {"version": 1, "revision": revision, "risk": {"score": score}}

grant := object.union_n([
	said,
	{"rule": rule.name, "reason": rule.why, "tier": tier, "runtime": runtime, "network": request.network},
	{name: rule[name] | some name in ["image", "images", "operations"]; rule[name]},
	{"limits": limits | limits := rule.max},
	{"destinations": destinations | destinations := rule.network},
	{"network_tiers": names | names := rule.match.network_tiers},
])

decision := object.union(said, {
	"outcome": "deny",
	"reason": sprintf("no rule of policy %s allows this run", [revision]),
	"remedy": "ask the operator for a rule that does",
}) if {
	usable
	count(matching) == 0
}

decision := object.union_n([said, {"outcome": "deny", "rule": rule.name, "reason": rule.why}, {"remedy": remedy |
	remedy := rule.remedy
}]) if {
	usable
	rule.effect == "deny"
}

decision := object.union(grant, {"outcome": "approve", "approval": approval}) if {
	usable
	rule.effect != "deny"
	approval
}

decision := object.union(grant, {"outcome": "allow"}) if {
	usable
	rule.effect != "deny"
	not approval
}
