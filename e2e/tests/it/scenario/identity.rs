//! What a source may and may not do with the identity that a target gave it, and what the candidate scheduler there
//! may.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use pilotage_e2e::fleet::SOURCE_ACCOUNT;
use pilotage_testkit::build::pod;

use super::Shop;

pub(super) async fn may(client: &Client, namespace: &str, verb: &str, resource: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let group = match resource {
        "podchaperons" | "clustersummaries" => pilotage_api::GROUP,
        "poddisruptionbudgets" => "policy",
        "replicasets" | "statefulsets" => "apps",
        _ => "",
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(group.to_owned()),
                namespace: Some(namespace.to_owned()).filter(|name| !name.is_empty()),
                resource: Some(resource.to_owned()),
                subresource: Some(subresource.to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews
        .create(&PostParams::default(), &review)
        .await
        .unwrap();
    answer.status.is_some_and(|status| status.allowed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_may_ask_and_nothing_else() {
    let shop = Shop::open("identity").await;
    let target = &shop.target("east").plane;
    let namespace = shop.name.as_str();
    let source = target
        .service_account_client(namespace, SOURCE_ACCOUNT)
        .await
        .unwrap();
    for (namespace, verb, resource, allowed) in [
        (namespace, "create", "podchaperons", true),
        (namespace, "watch", "podchaperons", true),
        (namespace, "patch", "podchaperons", true),
        (namespace, "delete", "podchaperons", true),
        ("", "list", "clustersummaries", true),
        ("default", "create", "podchaperons", false),
        ("default", "list", "podchaperons", false),
        (namespace, "create", "pods", false),
        (namespace, "patch", "pods", false),
        (namespace, "delete", "pods", false),
        (namespace, "create", "pods/exec", false),
        (namespace, "get", "secrets", false),
        (namespace, "create", "configmaps", false),
        (namespace, "list", "services", false),
        (namespace, "create", "pods/binding", false),
        (namespace, "create", "serviceaccounts/token", false),
        ("kube-system", "get", "secrets", false),
        ("", "list", "nodes", false),
        ("", "list", "namespaces", false),
        ("", "update", "clustersummaries", false),
    ] {
        let is = may(&source, namespace, verb, resource).await;
        assert_eq!(is, allowed, "{verb} {resource} in {namespace:?}");
    }
    // The same by deed, where it would hurt most.
    let pods: Api<Pod> = Api::namespaced(source.clone(), namespace);
    let created = pods
        .create(&PostParams::default(), &pod("mine").build())
        .await;
    assert!(matches!(created, Err(kube::Error::Api(status)) if status.code == 403));
    let deleted = pods
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await;
    assert!(matches!(deleted, Err(kube::Error::Api(status)) if status.code == 403));
    let nodes = Api::<Node>::all(source).list(&ListParams::default()).await;
    assert!(matches!(nodes, Err(kube::Error::Api(status)) if status.code == 403));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_scheduler_may_delete_pods_and_read_what_it_schedules_by_and_no_more() {
    let shop = Shop::open("scheduler").await;
    let target = &shop.target("east").plane;
    let scheduler = target
        .service_account_client("pilotage", "candidate-scheduler")
        .await
        .unwrap();
    for (verbs, resource) in [
        (&["get", "list", "watch", "delete"][..], "pods"),
        (&["create"], "pods/binding"),
        (&["patch"], "pods/status"),
        (&["list", "watch", "patch"], "podchaperons"),
        (&["list", "watch"], "poddisruptionbudgets"),
        (&["list", "watch"], "nodes"),
        (&["list", "watch"], "namespaces"),
        (&["list", "watch"], "services"),
        (&["list", "watch"], "replicationcontrollers"),
        (&["list", "watch"], "replicasets"),
        (&["list", "watch"], "statefulsets"),
        (&[], "pods/eviction"),
        (&[], "pods/exec"),
        (&[], "secrets"),
        (&[], "configmaps"),
        (&[], "serviceaccounts/token"),
    ] {
        for verb in [
            "get",
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
        ] {
            let is = may(&scheduler, &shop.name, verb, resource).await;
            assert_eq!(is, verbs.contains(&verb), "{verb} {resource}");
        }
    }
}
