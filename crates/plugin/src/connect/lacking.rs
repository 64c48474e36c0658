//! What a connection still lacks although it stands: pods run, and something beside them doesn't work.

use std::collections::BTreeSet;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, ResourceExt};
use pilotage_api::conditions::types;
use pilotage_api::{ClusterTarget, Right, Target, keys};
use pilotage_runtime::call::{CALL_LIMIT, find};

use super::Work;
use crate::rights;

/// Lease of the source's controllers, which say there what follows.
pub(crate) const LEASE: &str = "pilotage-controllers";

impl Work {
    /// What is to be said of it, as far as one may read it.
    pub(super) async fn lacking(&self) -> Vec<String> {
        let given = &self.connection.rights;
        let leases: Api<Lease> = self.source.api(&self.connection.home);
        let (conditions, lease) = tokio::join!(
            self.conditions(),
            find(CALL_LIMIT, leases.get(LEASE), "leases", LEASE)
        );
        let lease = lease.ok().flatten();
        let unfollowed = unfollowed(lease.as_ref(), given, self.args.says_rights());
        ungiven(&conditions, given)
            .into_iter()
            .chain(unfollowed)
            .collect()
    }

    /// Those of the Target.
    async fn conditions(&self) -> Vec<Condition> {
        let name = &self.connection.target_name;
        let status = if let Some(namespace) = &self.connection.namespace {
            let api: Api<Target> = self.source.api(namespace);
            let found = find(CALL_LIMIT, api.get(name), "targets", name).await;
            found.ok().flatten().and_then(|it| it.status)
        } else {
            let api: Api<ClusterTarget> = Api::all(self.source.client.clone());
            let found = find(CALL_LIMIT, api.get(name), "clustertargets", name).await;
            found.ok().flatten().and_then(|it| it.status)
        };
        status.map(|it| it.conditions).unwrap_or_default()
    }
}

/// What the source uses and the connection doesn't give. What it has just given, the condition may still miss.
fn ungiven(conditions: &[Condition], given: &[Right]) -> Option<String> {
    let mut all = conditions.iter();
    let it = all.find(|it| it.type_ == types::RIGHTS_GIVEN && it.status == "False")?;
    let words = it.message.split(|c: char| !c.is_ascii_alphanumeric());
    let words: BTreeSet<&str> = words.collect();
    let missing = Right::ALL
        .into_iter()
        .filter(|it| words.contains(it.name()) && !given.contains(it));
    let missing: Vec<&str> = missing.map(Right::flag).collect();
    (!missing.is_empty()).then(|| {
        format!(
            "the source uses the rights {missing}, which the target doesn't give it: pods run without; where the \
             target is installed with them, --rights gives them",
            missing = missing.join(",")
        )
    })
}

/// What may follow, and doesn't, as the source's controllers say; what they don't say is told to who `asked` for it.
fn unfollowed(lease: Option<&Lease>, given: &[Right], asked: bool) -> Option<String> {
    let kinds = given.iter().filter_map(|it| rights::kind(*it));
    let mut kinds: Vec<&str> = kinds.collect();
    let said = lease.and_then(|it| it.annotations().get(keys::FOLLOWED_KINDS));
    if let Some(said) = said {
        let follow: Vec<&str> = said.split(',').collect();
        kinds.retain(|kind| !follow.contains(kind));
    }
    if kinds.is_empty() {
        return None;
    }
    let kinds = kinds.join(", ");
    if said.is_some() {
        return Some(format!(
            "{kinds} don't follow yet: the target lets them, and the source's controllers don't run with \"follow\" of \
             these; install Pilotage in the source with that, too"
        ));
    }
    asked.then(|| {
        format!(
            "{kinds} follow only if Pilotage is installed in the source with \"follow\" of these, which can't be seen"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_source_uses_and_is_not_given_is_named() {
        let said = |status: &str, given: &[Right]| {
            let condition = json!({
                "type": "RightsGiven",
                "status": status,
                "reason": "RightMissing",
                "message": "the target doesn't give the rights Logs (get pods/log), FollowSecrets (create secrets); \
                    add Logs, FollowSecrets to spec.rights",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            ungiven(&[serde_json::from_value(condition).unwrap()], given)
        };
        let both = said("False", &[Right::Exec]).unwrap();
        assert!(both.contains("rights follow-secrets,logs,"), "{both}");
        // The condition is older than what was given.
        let one = said("False", &[Right::Logs]).unwrap();
        assert!(one.contains("rights follow-secrets,"), "{one}");
        assert_eq!(said("False", &[Right::Logs, Right::FollowSecrets]), None);
        assert_eq!(said("True", &[]), None);
        assert_eq!(ungiven(&[], &[]), None);
    }

    #[test]
    fn what_does_not_follow_is_named() {
        let lease = |said: Option<&str>| -> Lease {
            let annotations = said.map(|said| json!({ keys::FOLLOWED_KINDS: said }));
            let lease = json!({ "metadata": { "name": LEASE, "annotations": annotations } });
            serde_json::from_value(lease).unwrap()
        };
        let given = [Right::FollowConfigMaps, Right::FollowSecrets, Right::Logs];
        let known = |said: &str| unfollowed(Some(&lease(Some(said))), &given, true);
        let none = known("").unwrap();
        assert!(
            none.starts_with("configmaps, secrets don't follow yet"),
            "{none}"
        );
        let one = known("configmaps,services").unwrap();
        assert!(one.starts_with("secrets don't follow yet"), "{one}");
        assert_eq!(known("secrets,configmaps"), None);
        // An older version, or nobody who may read it.
        for lease in [Some(lease(None)), None] {
            let unknown = unfollowed(lease.as_ref(), &given, true).unwrap();
            assert!(unknown.contains("can't be seen"), "{unknown}");
            assert_eq!(unfollowed(lease.as_ref(), &given, false), None);
        }
        assert_eq!(unfollowed(None, &[Right::Logs], true), None);
    }
}
