//! Whatever an author writes into a Source, its objects have names that can stand in paths, and what is told is short.

use pilotage_absurd::{json as any, text};
use pilotage_api::annotations::{is_label, is_subdomain};
use pilotage_api::{ClusterSource, Source};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decide::{Observed, Roles, Step, decide};
use super::object::SourceObject;

/// What a condition may say; a user's name may have a KiB.
const TOLD: usize = 4096;

/// An API server bounds texts, and not what they are made of.
fn said() -> BoxedStrategy<String> {
    prop_oneof![
        2 => "[a-z]{1,8}",
        1 => prop::sample::select(&["?watch=true", "..", "a/b", "", "a.b", "-", "%2e"][..]).prop_map(str::to_owned),
        1 => text::text().prop_map(|text| text[..text.floor_char_boundary(253)].to_owned()),
    ]
    .boxed()
}

fn sources() -> BoxedStrategy<Value> {
    let rights = json!(["followConfigMaps", "streams"]);
    let source = (said(), said(), said()).prop_map(move |(account, place, user)| {
        json!({
            "metadata": { "name": "paris", "namespace": "shop", "uid": "s", "resourceVersion": "7", "generation": 1 },
            "spec": {
                "serviceAccountName": account, "serviceAccount": { "name": account, "namespace": place },
                "userName": user, "rights": rights,
            },
            "status": { "conditions": [] },
        })
    });
    prop_oneof![3 => source.clone(), 1 => any::junk_in(source)].boxed()
}

pilotage_absurd::properties! {
    #[test]
    fn whatever_a_source_says_its_objects_have_names(source in sources()) {
        let of_namespace = serde_json::from_value::<Source>(source.clone());
        let of_cluster = serde_json::from_value::<ClusterSource>(source);
        let both = [
            of_namespace.ok().and_then(|it| SourceObject::from_source(&it)),
            of_cluster.ok().and_then(|it| SourceObject::from_cluster_source(&it)),
        ];
        let roles = Roles { source: "source".to_owned(), summary_viewer: "viewer".to_owned() };
        for source in both.iter().flatten() {
            if let Some(account) = &source.account {
                prop_assert!(is_subdomain(&account.name) && is_label(&account.namespace), "{:?}", account);
            }
            let plan = decide(&Observed {
                source, roles: &roles, account: None, owned: Vec::new(), binding: None, viewer: None,
                missing_roles: Vec::new(), rights: Vec::new(), surplus: Vec::new(),
            });
            for step in &plan.steps {
                if let Step::ApplyAccount { namespace, name, .. } = step {
                    prop_assert!(is_label(namespace) && is_subdomain(name));
                }
            }
            prop_assert!(plan.ready.message.len() <= TOLD, "{}", plan.ready.message);
            prop_assert!(!source.misnamed || plan.ready.status == Some(false));
        }
    }
}
