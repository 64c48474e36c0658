//! A tenant: an account that has one namespace to itself and may name targets there, and nothing else of the
//! cluster. What tests call hostile of it is what they do with it.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::PostParams;
use kube::{Api, Client};
use pilotage_api::GROUP;
use serde_json::{Value, json};

use super::{ControlPlane, Error, Part};
use crate::access::Access;
use crate::apply::apply_values;
use crate::wait::{LIMIT, WaitError, wait_for};

/// The role that clusters give to whoever works in a namespace.
const ROLE: &str = "edit";
const RBAC: &str = "rbac.authorization.k8s.io";
/// Between two questions; nothing can be watched that tells what an API server knows of roles.
const PERIOD: Duration = Duration::from_millis(20);

impl ControlPlane {
    /// A service account with the `ClusterRole` `edit` in an existing namespace, and all rights on Targets there.
    /// Returns when the API server knows of them. The controller manager has to run: it fills that role.
    pub async fn tenant(&self, namespace: &str, name: &str) -> Result<Access, Error> {
        self.process(Part::ControllerManager)?;
        let roles: Api<ClusterRole> = Api::all(self.admin());
        wait_for(&roles, ROLE, may_create_pods, LIMIT)
            .await
            .map_err(Error::wait(format!("the role {ROLE} is empty")))?;
        self.service_account(namespace, name).await?;
        apply_values(&self.admin(), roles_of(namespace, name), namespace).await?;
        let access = self.service_account_access(namespace, name).await?;
        let client = access.client()?;
        for (group, resource) in [("", "secrets"), (GROUP, "targets")] {
            wait_permitted(&client, namespace, group, resource)
                .await
                .map_err(Error::wait(format!(
                    "{namespace}/{name} may not create {resource}"
                )))?;
        }
        Ok(access)
    }
}

fn may_create_pods(role: &ClusterRole) -> bool {
    let has = |all: Option<&Vec<String>>, one: &str| {
        all.is_some_and(|all| all.iter().any(|known| known == one))
    };
    let rules = role.rules.iter().flatten();
    let mut fitting = rules.filter(|rule| has(rule.resources.as_ref(), "pods"));
    fitting.any(|rule| has(Some(&rule.verbs), "create"))
}

fn roles_of(namespace: &str, name: &str) -> Vec<Value> {
    let role = format!("{name}-targets");
    let binding = |binding: &str, kind: &str, role: &str| {
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "RoleBinding",
            "metadata": { "name": binding, "namespace": namespace },
            "roleRef": { "apiGroup": RBAC, "kind": kind, "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
        })
    };
    vec![
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": "Role",
            "metadata": { "name": role, "namespace": namespace },
            "rules": [{ "apiGroups": [GROUP], "resources": ["targets"], "verbs": ["*"] }],
        }),
        binding(&role, "Role", &role),
        binding(&format!("{name}-{ROLE}"), "ClusterRole", ROLE),
    ]
}

/// Waits until the API server lets this client create such objects.
async fn wait_permitted(
    client: &Client,
    namespace: &str,
    group: &str,
    resource: &str,
) -> Result<(), WaitError> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let question = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some("create".to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let mut last = "nothing".to_owned();
    let asking = async {
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            ticks.tick().await;
            last = match reviews.create(&PostParams::default(), &question).await {
                Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => return,
                Ok(_) => "it is refused".to_owned(),
                Err(error) => error.to_string(),
            };
        }
    };
    let in_time = tokio::time::timeout(LIMIT, asking).await;
    in_time.map_err(|_| WaitError {
        what: format!("the right to create {resource}"),
        after: LIMIT,
        last,
        watch_error: None,
    })
}
