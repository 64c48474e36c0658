//! What a test left in a control plane is gone when the next test has it.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use pilotage_api::Target;
use pilotage_testkit::build::node;
use pilotage_testkit::plane::Builder;
use pilotage_testkit::plane::audit::{Entry, Policy};
use pilotage_testkit::{ControlPlane, LIMIT, Part, wait_admission};
use serde::de::DeserializeOwned;

/// A kind of plane that no other test of this binary wants.
fn plane(name: &str) -> Builder {
    bare(name)
        .controller_manager()
        .kwok([node(&format!("node-of-{name}")).build()])
}

/// Of the same kind: etcd and API server alone.
fn bare(name: &str) -> Builder {
    ControlPlane::builder(name).history().used_again()
}

const LEFT: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: left}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: left}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: 'false'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: left}
spec: {policyName: left, validationActions: [Deny]}
---
apiVersion: multicluster.admiralty.io/v1alpha1
kind: Target
metadata: {name: left, namespace: default}
spec: {self: true}
---
apiVersion: v1
kind: Namespace
metadata: {name: left, finalizers: [pilotage.invalid/for-ever]}
";

async fn names<K>(plane: &ControlPlane) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let (api, all) = (Api::<K>::all(plane.admin()), ListParams::default());
    let listed = api.list(&all).await.unwrap();
    listed.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn what_a_test_left_is_gone_and_what_it_took_is_back() {
    let logged = plane("first").audit(Policy::All);
    let first = logged.start().await.unwrap();
    let (namespaces, roles) = (
        names::<Namespace>(&first).await,
        names::<ClusterRole>(&first).await,
    );
    let url = first.url().to_owned();
    first.apply_yaml(LEFT).await.unwrap();
    let made = |it: &Entry| (&*it.verb, &*it.name, &*it.user) == ("patch", "left", "testkit-admin");
    assert_eq!(first.audit().unwrap().count(made).await.unwrap(), 5);
    let cluster_roles: Api<ClusterRole> = Api::all(first.admin());
    let view = cluster_roles.get("view").await.unwrap();
    cluster_roles
        .delete("view", &DeleteParams::default())
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(first.admin(), "default");
    let account = accounts.get("default").await.unwrap();
    first.stop().await;

    // Its server logs more than is wanted.
    let logged = plane("second").audit(Policy::Writes);
    let second = logged.start().await.unwrap();
    assert_eq!((second.url(), second.name()), (url.as_str(), "second"));
    assert_eq!(names::<Namespace>(&second).await, namespaces);
    assert_eq!(names::<ClusterRole>(&second).await, roles);
    assert_eq!(names::<Node>(&second).await, ["node-of-second"]);
    assert_eq!(names::<ValidatingAdmissionPolicy>(&second).await, [""; 0]);
    assert_eq!(names::<Target>(&second).await, [""; 0]);
    let cluster_roles: Api<ClusterRole> = Api::all(second.admin());
    assert_eq!(cluster_roles.get("view").await.unwrap().uid(), view.uid());
    // Made anew, by a controller manager of its own.
    let accounts: Api<ServiceAccount> = Api::namespaced(second.admin(), "default");
    assert_ne!(accounts.get("default").await.unwrap().uid(), account.uid());
    // The policy is out of force.
    let map: ConfigMap = serde_json::from_str(r#"{"metadata":{"name":"map"}}"#).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(second.admin(), "default");
    maps.create(&PostParams::default(), &map).await.unwrap();
    let log = second.audit().unwrap().entries().await.unwrap();
    let is_map = |it: &Entry| it.resource == "configmaps" && it.verb == "create";
    assert!(log.iter().any(is_map));
    let reads = ["get", "list", "watch"];
    assert!(
        log.iter()
            .all(|it| !reads.contains(&&*it.verb) && !made(it))
    );

    // Whoever had the API server in hand may have done anything to it.
    second.process(Part::ApiServer).unwrap();
    second.stop().await;
    let third = plane("third").start().await.unwrap();
    assert_ne!(third.url(), url);

    // A plane that is dropped is waited for, and its policies are out of force from the first request on.
    let url = third.url().to_owned();
    third.apply_yaml(LEFT).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(third.admin(), "default");
    wait_admission(&maps, &map, Result::is_err, LIMIT)
        .await
        .unwrap();
    drop(third);
    let fourth = bare("fourth").start().await.unwrap();
    assert_eq!((fourth.url(), fourth.name()), (url.as_str(), "fourth"));
    let maps: Api<ConfigMap> = Api::namespaced(fourth.admin(), "default");
    maps.create(&PostParams::default(), &map).await.unwrap();

    // It isn't if its test has failed.
    let failing = std::thread::spawn(move || {
        let _plane = fourth;
        panic!("with a plane");
    });
    failing.join().unwrap_err();
    let fifth = bare("fifth").start().await.unwrap();
    assert_ne!(fifth.url(), url);
    fifth.stop().await;
}
