//! The guard: a ValidatingAdmissionPolicy that sees pods after all mutations and needs no server of ours.
//!
//! An elected pod that is no proxy, because another webhook undid our work or ours was not called, never gets in,
//! unless a `DaemonSet` controls it. The manifest, which says what runs in the target, is the webhook's work or absent,
//! and never changes; without one no pod names the scheduler of proxies. A Binding is looked at as well: the API server
//! copies its annotations onto the pod, without a word to whoever guards pods.

use pilotage_api::keys;
use serde_json::{Value, json};

use super::{IS_CREATE, POLICY, Writers, labels, places};
use crate::daemons;

/// The policy.
pub(super) fn policy(writers: &Writers) -> Value {
    let is_create = IS_CREATE;
    let proxy = "!variables.mustBeProxy";
    let has = |object: &str, key: &str| {
        format!("'{key}' in {object}.metadata.?annotations.orValue({{}})")
    };
    let (elect, manifest, record) = (keys::ELECT, keys::SOURCE_POD_MANIFEST, keys::GRANTED_TO);
    // What Admiralty may have granted before Pilotage came is known by its absence.
    let first = keys::RECORDED;
    let names_us = format!(
        "request.kind.kind == 'Pod' && dyn(object).?spec.?schedulerName.orValue('') == '{}'",
        keys::PROXY_SCHEDULER
    );
    let concerned = format!(
        "{} || {} || {} || ({is_create} ? ({} || {names_us}) : ({}))",
        has("object", manifest),
        has("object", record),
        has("object", first),
        has("object", elect),
        has("oldObject", manifest),
    );
    let undone = "Another admission webhook undid what Pilotage set: let it skip pods with that annotation, or call it \
                  before Pilotage's.";
    let elected = format!("This pod is elected to run in another cluster (annotation {elect})");
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": POLICY, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [
                    {
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                        "resources": ["pods"], "scope": "Namespaced",
                    },
                    {
                        // An update of the status may carry annotations too.
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                        "resources": ["pods/status"], "scope": "Namespaced",
                    },
                    {
                        // The two ways to post a Binding.
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["pods/binding", "bindings"], "scope": "Namespaced",
                    },
                ],
            },
            "matchConditions": [
                // Their updates are most of all there are, and this is cheaper to judge than what follows.
                {
                    "name": "isnt-pilotages-own",
                    "expression": format!("request.operation != 'UPDATE' || !({})", is_writer(writers)),
                },
                { "name": "concerns-pilotage", "expression": concerned },
            ],
            "variables": [
                { "name": "annotations", "expression": "object.metadata.?annotations.orValue({})" },
                // Of no type: a Binding has none, and the API server would warn of that.
                { "name": "spec", "expression": "dyn(object).?spec.orValue({})" },
                {
                    "name": "enabled",
                    "expression": format!(
                        "namespaceObject.metadata.?labels.orValue({{}})[?'{}'].orValue('') == '{}'",
                        keys::NAMESPACE_LABEL, keys::NAMESPACE_LABEL_VALUE
                    ),
                },
                {
                    "name": "mustBeProxy",
                    "expression": format!(
                        "{is_create} && request.kind.kind == 'Pod' && variables.enabled && '{elect}' in \
                         variables.annotations && !({})",
                        daemons::controls()
                    ),
                },
            ],
            "validations": [
                {
                    "expression": format!(
                        "{is_create} || variables.annotations[?'{manifest}'] == \
                         oldObject.metadata.?annotations.orValue({{}})[?'{manifest}']"
                    ),
                    "message": format!(
                        "annotation {manifest} is what runs in the target cluster; it can't be changed, added or \
                         removed once the pod exists. Delete the pod and create it anew."
                    ),
                    "reason": "Forbidden",
                },
                {
                    "expression": format!(
                        "!({is_create}) || variables.mustBeProxy || !('{manifest}' in variables.annotations)"
                    ),
                    "message": format!(
                        "annotation {manifest} is written by Pilotage alone, to pods with annotation {elect} in \
                         namespaces with label {}={}: leave it out.",
                        keys::NAMESPACE_LABEL, keys::NAMESPACE_LABEL_VALUE
                    ),
                    "reason": "Forbidden",
                },
                {
                    "expression": format!("!({is_create}) || !('{record}' in variables.annotations)"),
                    "message": format!("annotation {record} is written by Pilotage alone: leave it out."),
                    "reason": "Forbidden",
                },
                {
                    "expression": format!(
                        "{is_create} || variables.annotations[?'{record}'] == \
                         oldObject.metadata.?annotations.orValue({{}})[?'{record}']"
                    ),
                    "message": format!(
                        "annotation {record} says where the pod may run, and is written by Pilotage alone ({writers}): \
                         with another one a second pod could be started. Delete the pod and create it anew."
                    ),
                    "reason": "Forbidden",
                },
                {
                    "expression": format!(
                        "{is_create} ? variables.mustBeProxy || !('{first}' in variables.annotations) : \
                         variables.annotations[?'{first}'] == \
                         oldObject.metadata.?annotations.orValue({{}})[?'{first}']"
                    ),
                    "message": format!(
                        "annotation {first} is written by Pilotage's webhook alone: of a pod that Admiralty made, it \
                         would hide that Admiralty may have granted it already. Leave it as it is."
                    ),
                    "reason": "Forbidden",
                },
                {
                    // The webhook tells of longer ones when a pod is created; nobody asks it about updates.
                    "expression": places::fit(),
                    "message": places::message(),
                    "reason": "Invalid",
                },
                {
                    "expression": format!("{proxy} || '{manifest}' in variables.annotations"),
                    "message": format!(
                        "{elected}, but Pilotage's webhook was not called for it, or its work was removed. If another \
                         admission webhook adds that annotation, it must be called before Pilotage's \
                         (they are called in the order of their configurations' names)."
                    ),
                    "reason": "Invalid",
                },
                {
                    "expression": format!(
                        "{proxy} || variables.spec.?schedulerName.orValue('') == '{}'",
                        keys::PROXY_SCHEDULER
                    ),
                    "messageExpression": format!(
                        "'{elected}, so spec.schedulerName must be {}, but is ' + \
                         variables.spec.?schedulerName.orValue('empty') + '. {}'",
                        keys::PROXY_SCHEDULER, quoted(undone)
                    ),
                    "message": format!("{elected}, so spec.schedulerName must be {}. {undone}", keys::PROXY_SCHEDULER),
                    "reason": "Invalid",
                },
                {
                    "expression": format!("{proxy} || variables.spec.?nodeName.orValue('') == ''"),
                    "message": format!(
                        "{elected}, so spec.nodeName must be empty: a pod that names its node skips every scheduler."
                    ),
                    "reason": "Invalid",
                },
                {
                    "expression": format!(
                        "{proxy} || variables.spec.?nodeSelector.orValue({{}})[?'{}'].orValue('') == '{}'",
                        keys::PROVIDER, keys::PROVIDER_VALUE
                    ),
                    "message": format!(
                        "{elected}, so spec.nodeSelector must keep it off real nodes with {}={}. {undone}",
                        keys::PROVIDER, keys::PROVIDER_VALUE
                    ),
                    "reason": "Invalid",
                },
                {
                    // Of an elected pod what was said before tells more.
                    "expression": format!(
                        "!({is_create}) || variables.spec.?schedulerName.orValue('') != '{}' || '{manifest}' in \
                         variables.annotations",
                        keys::PROXY_SCHEDULER
                    ),
                    "message": format!(
                        "spec.schedulerName is {}, which Pilotage sets itself, to pods with annotation {elect} in \
                         namespaces with label {}={}: leave schedulerName out.",
                        keys::PROXY_SCHEDULER, keys::NAMESPACE_LABEL, keys::NAMESPACE_LABEL_VALUE
                    ),
                    "reason": "Invalid",
                },
            ],
        },
    })
}

/// Expression: the request is one of theirs.
fn is_writer(writers: &Writers) -> String {
    match writers {
        Writers::AccountsOf(namespace) => format!(
            "request.userInfo.username.startsWith('system:serviceaccount:{}:')",
            quoted(namespace)
        ),
        Writers::Users(users) => {
            let users: Vec<String> = users
                .iter()
                .map(|user| format!("'{}'", quoted(user)))
                .collect();
            format!("request.userInfo.username in [{}]", users.join(", "))
        }
    }
}

/// Text as a part of a CEL string in single quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}
