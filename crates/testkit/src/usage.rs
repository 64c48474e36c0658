//! Which rights the parts of Pilotage used, by the audit logs of all control planes since the logs were last removed.
//! It knows nothing of which rights there are.
//!
//! A part is known by its User-Agent: processes of Pilotage send one, and tests that run one component under its table
//! of rules ([`ControlPlane::part_client`](crate::ControlPlane::part_client)). Tests that act as some service account
//! themselves don't count, neither by what they may do nor by what is refused to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::dirs;
use crate::plane::audit::{self, Event};

/// Directory below that of the runs, with a file for each run that is gone.
const KEPT: &str = "usage";
/// How Pilotage's User-Agents begin.
const AGENT: &str = "pilotage/";
/// How the API server calls service accounts.
const ACCOUNT: &str = "system:serviceaccount:";

/// The User-Agent of a part.
pub(crate) fn agent(part: &str) -> String {
    format!("{AGENT}test ({part})")
}

/// Requests of one sort that a part sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Use {
    /// What its User-Agent calls it, such as `controllers` or `leader-election`.
    pub agent: String,
    /// The account's namespace and name.
    pub account: (String, String),
    /// `create`, `patch`, `watch`…
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// `pods` or `pods/status`.
    pub resource: String,
    /// Where.
    pub place: Place,
    /// Of which name, unless the place is [`Place::Elsewhere`]: names of users' objects are without number.
    pub name: String,
    /// How it was answered.
    pub answer: Answer,
    /// Whether the role that let it through is one of a namespace (`Role`).
    #[serde(default)]
    pub by_namespace: bool,
}

/// Where a request went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    /// No namespace: all of them, or an object outside of namespaces.
    Cluster,
    /// The account's own namespace.
    Own,
    /// A namespace that every cluster has.
    System(String),
    /// Some other namespace.
    Elsewhere,
}

/// Who let a request through, or didn't.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Answer {
    /// By this role, and it was done; empty if no role was needed.
    Allowed(String),
    /// By this role, and it wasn't done: a conflict, an object that isn't there, or admission, as for a quota. That is
    /// a word on the object and not on rights, and nobody knows which rights were looked at inside the request.
    Failed(String),
    /// By this role; the request was a patch that made its object, for which `create` is needed, too.
    Created(String),
    /// 403, because no role allows it; in the server's words, cut to 300 characters.
    Forbidden(String),
}

/// As much is kept of what the server says.
const WORDS: usize = 300;

/// What the API server says if a request is allowed, but not what it would lead to: `create` for a patch that makes its
/// object, `bind` for a binding, `update` of the owner's finalizers for a reference that blocks the owner's deletion,
/// `approve` of the signer for an approval.
const FORBIDDEN_INSIDE: [&str; 4] = [
    " cannot create resource ",
    "RBAC permissions not currently held",
    "you can't set finalizers on",
    "user not permitted to approve requests with signerName",
];

impl Use {
    /// What an event tells, if Pilotage sent the request by a service account.
    fn of(event: Event) -> Option<Self> {
        if !event.is_answered() {
            return None;
        }
        let agent = event.user_agent.strip_prefix(AGENT)?.split_once('(')?.1;
        let agent = agent.split_once(')')?.0.to_owned();
        let account = event.user.username.strip_prefix(ACCOUNT)?;
        let (home, account) = account.split_once(':')?;
        let object = event.object_ref;
        if object.resource.is_empty() {
            return None;
        }
        let place = match object.namespace.as_str() {
            "" => Place::Cluster,
            namespace if namespace == home => Place::Own,
            namespace if namespace.starts_with("kube-") => Place::System(namespace.to_owned()),
            _ => Place::Elsewhere,
        };
        let note = |key| event.annotations.get(key).map_or("", String::as_str);
        let reason = note("authorization.k8s.io/reason");
        let by = role(reason).to_owned();
        let allowed = note("authorization.k8s.io/decision") == "allow";
        let message = event.response_status.message;
        let forbidden = || Answer::Forbidden(message.chars().take(WORDS).collect());
        let answer = match (event.response_status.code, allowed) {
            (403, false) => forbidden(),
            (403, true) if FORBIDDEN_INSIDE.iter().any(|words| message.contains(words)) => {
                forbidden()
            }
            (201, _) if event.verb == "patch" => Answer::Created(by),
            (400.., _) => Answer::Failed(by),
            _ => Answer::Allowed(by),
        };
        Some(Self {
            agent,
            account: (home.to_owned(), account.to_owned()),
            verb: event.verb,
            group: object.api_group,
            resource: match object.subresource.as_str() {
                "" => object.resource,
                subresource => format!("{}/{subresource}", object.resource),
            },
            name: match place {
                Place::Elsewhere => String::new(),
                Place::Cluster | Place::Own | Place::System(_) => object.name,
            },
            place,
            answer,
            by_namespace: reason.contains(OF_ROLE),
        })
    }
}

/// How the API server names roles of a namespace, and others.
const OF_ROLE: &str = "of Role \"";
const OF_CLUSTER_ROLE: &str = "of ClusterRole \"";

/// The role in `RBAC: allowed by RoleBinding "a/b" of Role "c" to …`.
fn role(reason: &str) -> &str {
    let role = [OF_CLUSTER_ROLE, OF_ROLE]
        .iter()
        .find_map(|of| reason.split_once(of));
    role.and_then(|(_, rest)| rest.split_once('"'))
        .map_or("", |(role, _)| role)
}

/// Of each use the run that showed it first.
pub type Uses = BTreeMap<Use, String>;

/// Everything that parts did, by all logs that are there and those of runs that are gone.
pub fn read() -> io::Result<Uses> {
    let runs = dirs::runs();
    let mut uses = Uses::new();
    for (name, path) in sorted(&runs.join(KEPT))? {
        for line in BufReader::new(File::open(path)?).lines() {
            let used: Use = serde_json::from_str(&line?)?;
            uses.entry(used).or_insert_with(|| name.clone());
        }
    }
    for (name, path) in sorted(&runs)? {
        for used in of_run(&path)? {
            uses.entry(used).or_insert_with(|| name.clone());
        }
    }
    Ok(uses)
}

/// Takes the uses out of a run that is about to be removed from `runs`.
pub(crate) fn keep(runs: &Path, run: &Path) -> io::Result<()> {
    let uses = of_run(run)?;
    let Some(name) = run.file_name().filter(|_| !uses.is_empty()) else {
        return Ok(());
    };
    let kept = runs.join(KEPT);
    fs::create_dir_all(&kept)?;
    let mut text = Vec::new();
    for used in &uses {
        serde_json::to_writer(&mut text, used)?;
        text.push(b'\n');
    }
    // A run of that name may have been kept before: numbers of processes come again.
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(kept.join(name))?;
    file.write_all(&text)
}

/// The uses in a run's log; none if there is no log.
fn of_run(run: &Path) -> io::Result<BTreeSet<Use>> {
    let starts = audit::Start::of(run)?;
    let log = match File::open(run.join(audit::FILE)) {
        Err(error) if is_absent(&error) => return Ok(BTreeSet::new()),
        opened => opened?,
    };
    let mut uses = BTreeSet::new();
    for line in BufReader::new(log).lines() {
        let line = line?;
        // Most lines are others', and cheaper to search than to parse.
        if !line.contains(AGENT) {
            continue;
        }
        // The last line of a server that was killed may be cut.
        let Ok(event) = serde_json::from_str::<Event>(&line) else {
            continue;
        };
        // A server that has just started forbids what it allows a moment later.
        let is_early = starts.iter().any(|start| start.saw(&event));
        let used =
            Use::of(event).filter(|it| !(is_early && matches!(it.answer, Answer::Forbidden(_))));
        uses.extend(used);
    }
    Ok(uses)
}

/// What is in a directory, by name; nothing if it isn't there.
fn sorted(directory: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if is_absent(&error) => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    entries
        .map(|entry| {
            let entry = entry?;
            Ok((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            ))
        })
        .collect()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A line of a log; `more` replaces fields.
    fn line(more: &serde_json::Value) -> String {
        let mut event = json!({
            "auditID": "1", "verb": "patch", "requestURI": "/api",
            "user": { "username": "system:serviceaccount:pilotage:controllers" },
            "userAgent": "pilotage/0.1.0 (controllers)",
            "objectRef": { "resource": "pods", "subresource": "status", "namespace": "shop-1", "name": "a-1" },
            "responseStatus": { "code": 200 },
            "annotations": {
                "authorization.k8s.io/decision": "allow",
                "authorization.k8s.io/reason": "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to …",
            },
        });
        json_patch::merge(&mut event, more);
        event.to_string()
    }

    fn used(more: &serde_json::Value) -> Option<Use> {
        Use::of(serde_json::from_str(&line(more)).unwrap())
    }

    #[test]
    fn an_event_of_a_part_is_a_use_of_its_role() {
        let shop = used(&json!({})).unwrap();
        assert_eq!(shop.agent, "controllers");
        assert_eq!(shop.account, ("pilotage".into(), "controllers".into()));
        assert_eq!((&*shop.resource, &*shop.name), ("pods/status", ""));
        assert_eq!(shop.place, Place::Elsewhere);
        assert_eq!(shop.answer, Answer::Allowed("r".into()));
        assert!(!shop.by_namespace);
        let place = |namespace: &str| {
            let more = json!({ "objectRef": { "namespace": namespace } });
            let used = used(&more).unwrap();
            (used.place, used.name)
        };
        assert_eq!(place(""), (Place::Cluster, "a-1".into()));
        assert_eq!(place("pilotage"), (Place::Own, "a-1".into()));
        let system = Place::System("kube-system".into());
        assert_eq!(place("kube-system"), (system, "a-1".into()));
    }

    #[test]
    fn what_is_forbidden_is_told_from_what_admission_refuses() {
        let answer = |code: u16, decision: &str, message: &str| {
            let more = json!({
                "responseStatus": { "code": code, "message": message },
                "annotations": {
                    "authorization.k8s.io/decision": decision,
                    "authorization.k8s.io/reason": "RBAC: allowed by RoleBinding \"b/n\" of Role \"own\" to …",
                },
            });
            let used = used(&more).unwrap();
            assert!(used.by_namespace);
            used.answer
        };
        let failed = Answer::Failed("own".into());
        assert_eq!(answer(409, "allow", "exists"), failed);
        for code in [101, 200] {
            assert_eq!(answer(code, "allow", ""), Answer::Allowed("own".into()));
        }
        assert_eq!(answer(201, "allow", ""), Answer::Created("own".into()));
        let forbidden = |words: &str| Answer::Forbidden(words.to_owned());
        assert_eq!(answer(403, "forbid", "no role"), forbidden("no role"));
        let quota = "pods \"a\" is forbidden: exceeded quota: small";
        assert_eq!(answer(403, "allow", quota), failed);
        for inside in [
            "pods \"a\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
             can't set finalizers on: , ",
            "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted to approve \
             requests with signerName \"kubernetes.io/kubelet-serving\"",
        ] {
            assert_eq!(answer(403, "allow", inside), forbidden(inside));
        }
    }

    #[test]
    fn others_dont_count() {
        for more in [
            json!({ "userAgent": "kubectl/1.36 (linux)" }),
            json!({ "user": { "username": "testkit-admin" } }),
            json!({ "objectRef": { "resource": "" } }),
        ] {
            assert_eq!(used(&more), None, "{more}");
        }
    }

    #[test]
    fn what_a_starting_server_forbids_is_no_missing_right() {
        let run = dirs::runs().join(format!("usage-starts-{}", std::process::id()));
        fs::create_dir_all(&run).unwrap();
        let at = |second: u8, verb: &str, decision: &str| {
            line(&json!({
                "verb": verb,
                "requestReceivedTimestamp": format!("2026-01-01T00:00:{second:02}.000000Z"),
                "responseStatus": { "code": if decision == "allow" { 200 } else { 403 } },
                "annotations": { "authorization.k8s.io/decision": decision },
            }))
        };
        let events = [
            at(9, "get", "forbid"),
            at(11, "patch", "forbid"),
            at(11, "delete", "allow"),
            at(13, "list", "forbid"),
        ];
        fs::write(run.join(audit::FILE), events.join("\n")).unwrap();
        let time = |text: &str| text.parse().unwrap();
        let (from, until) = (time("2026-01-01T00:00:10Z"), time("2026-01-01T00:00:12Z"));
        audit::Start::new(from, until).note(&run).unwrap();
        let uses = of_run(&run).unwrap();
        fs::remove_dir_all(&run).unwrap();
        let verbs: Vec<_> = uses.iter().map(|used| used.verb.as_str()).collect();
        assert_eq!(verbs, ["delete", "get", "list"]);
    }

    #[test]
    fn what_a_run_showed_is_kept_when_it_goes() {
        let runs = dirs::runs().join(format!("usage-test-{}", std::process::id()));
        let run = runs.join("source-1-0");
        fs::create_dir_all(&run).unwrap();
        let events = [
            line(&json!({})),
            line(&json!({ "auditID": "2" })),
            line(&json!({ "verb": "delete" })),
            line(&json!({ "userAgent": "curl" })),
            "{\"auditID\": \"cut pilotage/".to_owned(),
        ];
        fs::write(run.join(audit::FILE), events.join("\n")).unwrap();
        keep(&runs, &run).unwrap();
        fs::remove_dir_all(&run).unwrap();
        let kept = fs::read_to_string(runs.join(KEPT).join("source-1-0")).unwrap();
        let kept: Vec<Use> = kept
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let verbs: Vec<_> = kept.iter().map(|used| used.verb.as_str()).collect();
        assert_eq!(verbs, ["delete", "patch"]);
        fs::remove_dir_all(&runs).unwrap();
    }
}
