//! What the status of a Target says: pure.
//!
//! What isn't known yet (right after a start) leaves an earlier word standing, so that a restart writes nothing.

use std::collections::BTreeMap;
use std::fmt::Display;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pilotage_api::conditions::{self, ConditionState, types};
use pilotage_api::lost::LostPolicy;
use pilotage_api::parent::ClusterUid;
use pilotage_api::{Right, bounds, keys, limits};
use pilotage_clusters::{Authorization, Connection, LostReason, TargetObject};
use pilotage_model::virtual_node::ExcludedLabels;
use serde_json::{Value, json};

use super::renew::Renewal;

/// What a Target's status should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// All conditions that should stand, those of others included.
    pub(crate) conditions: Vec<Condition>,
    /// Name of the virtual node.
    pub(crate) node: String,
    /// Which cluster it is, if that is known.
    pub(crate) cluster_uid: Option<String>,
    /// Version of the Secret that was tried, if that is known.
    pub(crate) kubeconfig_version: Option<String>,
    /// What became different, for people.
    pub(crate) news: Vec<News>,
}

/// A change worth an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// Whether it is a trouble.
    pub(crate) warning: bool,
    /// One word in camel case.
    pub(crate) reason: &'static str,
    /// One sentence.
    pub(crate) message: String,
}

/// What is told of a target, as far as anything is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told<'a> {
    /// What it said that isn't its to say.
    pub(crate) turned_away: Option<&'a str>,
    /// What becomes of the token that it is reached by.
    pub(crate) renewal: Option<&'a Renewal>,
}

/// What to write; `None`: nothing.
pub(crate) fn decide(
    object: &TargetObject,
    connection: &Connection,
    authorization: &Authorization,
    identity: Option<&ClusterUid>,
    told: Told<'_>,
    now: &Time,
    tried: Option<&str>,
) -> Option<Plan> {
    let Told {
        turned_away,
        renewal,
    } = told;
    let current = &object.status.conditions;
    let states: Vec<ConditionState> = [
        valid(object, connection),
        connected(connection),
        authorized(connection, authorization),
    ]
    .into_iter()
    .chain(rights_given(object, connection, authorization))
    .chain(trustworthy(current, connection, turned_away))
    .chain(token_renewed(current, renewal))
    .filter(|state| state.status.is_some() || !is_known(current, state.type_, connection))
    .collect();
    let node = object.key.node();
    let merged = conditions::merge(current, &states, object.generation, now);
    // The first one stays: whoever answers later has to be the same.
    let known = object.status.cluster_uid.clone();
    let cluster_uid = known.or_else(|| identity.map(ToString::to_string));
    // Right after a start nothing has been tried, which makes no earlier word wrong.
    let kubeconfig_version = tried.map(str::to_owned);
    let kubeconfig_version =
        kubeconfig_version.or_else(|| object.status.kubeconfig_version.clone());
    if merged.is_none()
        && object.status.node.as_ref() == Some(&node)
        && object.status.cluster_uid == cluster_uid
        && object.status.kubeconfig_version == kubeconfig_version
    {
        return None;
    }
    let conditions = merged.unwrap_or_else(|| current.clone());
    let news = news(current, &conditions);
    Some(Plan {
        conditions,
        node,
        cluster_uid,
        kubeconfig_version,
        news,
    })
}

/// Whether an earlier word stands that "not known yet" must not overwrite. A lost target's permissions are not known
/// *any more*.
fn is_known(current: &[Condition], type_: &str, connection: &Connection) -> bool {
    let lost = connection.lost().is_some();
    !(lost && type_ == types::AUTHORIZED)
        && current.iter().any(|condition| condition.type_ == type_)
}

fn state(
    type_: &'static str,
    status: Option<bool>,
    reason: &str,
    message: impl Into<String>,
) -> ConditionState {
    ConditionState {
        type_,
        status,
        reason: reason.to_owned(),
        message: bounds::cut(&message.into(), limits::MESSAGE).to_owned(),
    }
}

fn valid(object: &TargetObject, connection: &Connection) -> ConditionState {
    let regexp = ExcludedLabels::parse(object.excluded_labels_regexp.as_deref());
    let regexp = regexp.err().map(|error| {
        let message = format!("{error}; until that is mended, no label of the target is shown");
        ("InvalidRegexp", message)
    });
    let annotation = |key: &str| object.annotations.get(key).map(String::as_str);
    let unheeded = |key: &str, error: &dyn Display| {
        let message = format!("annotation {key}: {error}; until that is mended, it isn't heeded");
        ("InvalidAnnotation", message)
    };
    let long = limits::annotations(annotation).err();
    // What is too long isn't even read.
    let policy = annotation(keys::REPLACE_AFTER).filter(|text| text.len() <= limits::DURATION);
    let policy = policy.and_then(|text| text.parse::<LostPolicy>().err());
    let policy = policy.map(|error| unheeded(keys::REPLACE_AFTER, &error));
    let long = long.map(|(key, error)| unheeded(key, &error));
    let access = match (&object.access, connection) {
        (Err(fault), _) => Some((Some(false), "InvalidSpec", fault.to_string())),
        (Ok(_), Connection::Lost { reason, .. }) if !reason.was_tried() => {
            // What our own API server doesn't let us read, or nobody looked at, may be valid or not.
            let status = match reason {
                LostReason::SecretUnreadable { .. }
                | LostReason::TooManyTargets { .. }
                | LostReason::Internal => None,
                _ => Some(false),
            };
            Some((status, reason.word(), reason.to_string()))
        }
        (Ok(_), Connection::Connecting) => Some((
            None,
            "Connecting",
            "the target hasn't been tried yet".to_owned(),
        )),
        (Ok(_), _) => None,
    };
    let access = access.map(|(status, reason, message)| (status, (reason, message)));
    let others = [regexp, long, policy].into_iter().flatten();
    let others = others.map(|fault| (Some(false), fault));
    let mut faults = access.into_iter().chain(others);
    let Some((status, (reason, mut message))) = faults.next() else {
        return state(types::VALID, Some(true), "Valid", "the spec can be used");
    };
    for (_, (_, also)) in faults {
        message = format!("{message}; {also}");
    }
    state(types::VALID, status, reason, message)
}

fn connected(connection: &Connection) -> ConditionState {
    match connection {
        Connection::Connecting => state(
            types::CONNECTED,
            None,
            "Connecting",
            "the target hasn't been tried yet",
        ),
        Connection::Connected { .. } => state(
            types::CONNECTED,
            Some(true),
            "Answering",
            "the API server of the target answers",
        ),
        Connection::Lost { reason, .. } => state(
            types::CONNECTED,
            Some(false),
            reason.word(),
            reason.to_string(),
        ),
    }
}

fn authorized(connection: &Connection, authorization: &Authorization) -> ConditionState {
    let of = |status, reason, message: String| state(types::AUTHORIZED, status, reason, message);
    if connection.lost().is_some() {
        return of(None, "NotConnected", "the target can't be asked".to_owned());
    }
    match authorization {
        Authorization::Unknown => of(
            None,
            "NotAsked",
            "the target hasn't been asked yet".to_owned(),
        ),
        Authorization::Unanswered(error) => of(
            None,
            "NotAnswered",
            format!("the target couldn't say what we may do: {error}"),
        ),
        Authorization::Complete => of(
            Some(true),
            "Permitted",
            "everything that is needed is permitted".to_owned(),
        ),
        Authorization::Missing(needs) => {
            let needs = needs.iter().filter(|need| need.right.is_none());
            let needs: Vec<String> = needs.map(ToString::to_string).collect();
            if needs.is_empty() {
                return authorized(connection, &Authorization::Complete);
            }
            of(
                Some(false),
                "PermissionMissing",
                format!(
                    "not permitted in the target: {}; a Source or ClusterSource there gives these permissions",
                    needs.join(", ")
                ),
            )
        }
    }
}

/// Nothing, as long as the target has always given the rights that this source uses.
fn rights_given(
    object: &TargetObject,
    connection: &Connection,
    authorization: &Authorization,
) -> Option<ConditionState> {
    if connection.lost().is_some() {
        return None;
    }
    let lacking: BTreeMap<Right, Vec<String>> = match authorization {
        Authorization::Missing(needs) => {
            let mut lacking = BTreeMap::<Right, Vec<String>>::new();
            for need in needs {
                if let Some(right) = need.right {
                    lacking.entry(right).or_default().push(need.to_string());
                }
            }
            lacking
        }
        Authorization::Complete => BTreeMap::new(),
        Authorization::Unknown | Authorization::Unanswered(_) => return None,
    };
    if lacking.is_empty() {
        let told = |condition: &Condition| condition.type_ == types::RIGHTS_GIVEN;
        let mut current = object.status.conditions.iter();
        return current.any(told).then(|| {
            state(
                types::RIGHTS_GIVEN,
                Some(true),
                "Given",
                "every right that is used here is given",
            )
        });
    }
    let each = lacking.iter();
    let each = each.map(|(right, needs)| format!("{right} ({})", needs.join(", ")));
    let each: Vec<String> = each.collect();
    let names: Vec<&str> = lacking.keys().map(|right| right.name()).collect();
    Some(state(
        types::RIGHTS_GIVEN,
        Some(false),
        "RightMissing",
        format!(
            "the target doesn't give the rights {}; add {} to spec.rights of the Source or ClusterSource there: {}",
            each.join(", "),
            names.join(", "),
            granting(object.key.namespace.as_deref(), &names)
        ),
    ))
}

/// What to type in the target, so that it gives these rights beside those that it gives already.
fn granting(namespace: Option<&str>, rights: &[&str]) -> String {
    let patch = match namespace {
        Some(namespace) => format!("kubectl patch source NAME --namespace {namespace}"),
        None => "kubectl patch clustersource NAME".to_owned(),
    };
    let add = |right: &&str| json!({ "op": "add", "path": "/spec/rights/-", "value": right });
    let more = Value::Array(rights.iter().map(add).collect());
    let first = json!({ "spec": { "rights": rights } });
    format!(
        "{patch} --type json --patch '{more}', or, if it has no rights yet, {patch} --type merge --patch '{first}'"
    )
}

/// Nothing, as long as the target never said what isn't its to say.
fn trustworthy(
    current: &[Condition],
    connection: &Connection,
    turned_away: Option<&str>,
) -> Option<ConditionState> {
    let told = |condition: &Condition| condition.type_ == types::TRUSTWORTHY;
    match turned_away {
        Some(why) => Some(state(types::TRUSTWORTHY, Some(false), "TurnedAway", why)),
        None if connection.is_connected() && current.iter().any(told) => Some(state(
            types::TRUSTWORTHY,
            Some(true),
            "NothingTurnedAway",
            "since the last start the target has said nothing that isn't its to say",
        )),
        None => None,
    }
}

/// Nothing, as long as nobody has asked for it.
fn token_renewed(current: &[Condition], renewal: Option<&Renewal>) -> Option<ConditionState> {
    let of = |status: bool, reason: &str, message: &str| {
        state(types::TOKEN_RENEWED, Some(status), reason, message)
    };
    match renewal? {
        Renewal::InTime(message) => Some(of(true, "InTime", message)),
        Renewal::Fails(reason, message) => Some(of(false, reason, message)),
        Renewal::NotAsked => {
            let told = |condition: &Condition| condition.type_ == types::TOKEN_RENEWED;
            let mut current = current.iter();
            let was_told = current.any(told);
            was_told.then(|| of(true, "NotAsked", "nobody asks for it any more"))
        }
    }
}

/// What is wrong with a Target that nobody was told of.
pub(crate) fn troubles(conditions: &[Condition]) -> Vec<News> {
    let mut all = news(&[], conditions);
    all.retain(|item| item.warning);
    all
}

/// Conditions whose status became True or False; or whose trouble became another.
fn news(old: &[Condition], new: &[Condition]) -> Vec<News> {
    let told = [
        (types::VALID, "TargetValid", "TargetInvalid"),
        (types::CONNECTED, "TargetConnected", "TargetLost"),
        (types::AUTHORIZED, "TargetAuthorized", "TargetUnauthorized"),
        (
            types::RIGHTS_GIVEN,
            "TargetRightsGiven",
            "TargetRightMissing",
        ),
        (types::TRUSTWORTHY, "TargetTrustworthy", "TargetTurnedAway"),
        (
            types::TOKEN_RENEWED,
            "TargetTokenRenewed",
            "TargetTokenNotRenewed",
        ),
    ];
    let find = |list: &[Condition], type_: &str| {
        list.iter()
            .find(|condition| condition.type_ == type_)
            .cloned()
    };
    let mut news = Vec::new();
    for (type_, good, bad) in told {
        let Some(now) = find(new, type_) else {
            continue;
        };
        let before = find(old, type_);
        let (status, reason) = before.as_ref().map_or(("", ""), |before| {
            (before.status.as_str(), before.reason.as_str())
        });
        let (warning, reason) = match now.status.as_str() {
            // Being valid and permitted is what everybody expects; only the end of a trouble is news.
            "True" if status == "False" || (status != "True" && type_ == types::CONNECTED) => {
                (false, good)
            }
            "False" if status != "False" || reason != now.reason => (true, bad),
            _ => continue,
        };
        news.push(News {
            warning,
            reason,
            message: now.message,
        });
    }
    news
}

#[cfg(test)]
#[path = "decide/tests.rs"]
mod tests;
