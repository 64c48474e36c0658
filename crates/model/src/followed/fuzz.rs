//! Whatever an author writes into an object that follows pods, and a target shows as its copy, what is made of it is no
//! longer than may be read again, and what is told of a mistake is short.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use pilotage_absurd::objects;
use pilotage_api::keys;
use pilotage_api::parent::ParentLink;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::fuzz::{self, TOLD, length};

/// A copy as text, whoever wrote the object.
const LONGEST: usize = 2 << 20;
/// What a copy has beside what it was made of: links and marks.
const OURS: usize = 4096;

/// Metadata of somebody's object, which may say of itself that it is a copy.
fn object(kind: &str, content: Value) -> BoxedStrategy<Value> {
    let mut object = content;
    object["apiVersion"] = "v1".into();
    object["kind"] = kind.into();
    object["metadata"] = objects::metadata(Some("shop"));
    objects::foreign(
        object,
        &[
            keys::PARENT_UID,
            keys::PARENT_CLUSTER_UID,
            keys::IS_DELEGATE,
        ],
        &[
            keys::PARENT_NAME,
            keys::PARENT_NAMESPACE,
            keys::ORIGINAL_SELECTOR,
            keys::NO_PREFIX_LABEL_REGEXP,
            keys::GLOBAL,
        ],
    )
}

fn config_maps() -> BoxedStrategy<Value> {
    let content = json!({ "data": { "a": "b" }, "binaryData": { "c": "ZA==" }, "immutable": true });
    object("ConfigMap", content)
}

fn secrets() -> BoxedStrategy<Value> {
    let content = json!({ "data": { "a": "ZA==" }, "stringData": { "c": "d" }, "type": "Opaque", "immutable": false });
    object("Secret", content)
}

fn services() -> BoxedStrategy<Value> {
    object(
        "Service",
        json!({
            "spec": {
                "selector": { "app": "web", "example.com/team": "a" },
                "type": "LoadBalancer", "clusterIP": "None", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"],
                "loadBalancerClass": "x", "healthCheckNodePort": 30_001, "externalName": "example.com",
                "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "nodePort": 30_000, "protocol": "TCP" }],
            },
            "status": { "loadBalancer": { "ingress": [{ "ip": "10.0.0.8", "hostname": "x" }] } },
        }),
    )
}

fn ingresses() -> BoxedStrategy<Value> {
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    object(
        "Ingress",
        json!({
            "spec": {
                "ingressClassName": "nginx",
                "defaultBackend": backend,
                "tls": [{ "hosts": ["example.com"], "secretName": "certificate" }],
                "rules": [{ "host": "example.com", "http": { "paths": [
                    { "path": "/", "pathType": "Prefix", "backend": backend },
                ] } }],
            },
            "status": { "loadBalancer": { "ingress": [{ "ip": "10.0.0.8" }] } },
        }),
    )
}

/// Of an honest source.
fn link() -> ParentLink {
    fuzz::link("s1", "shop")
}

fn read<K: DeserializeOwned>(object: Value) -> Option<K> {
    serde_json::from_value(object).ok()
}

/// A copy is no longer than what it was made of and than may be read; it is the same content; and no copy is short of
/// words.
fn is_bounded<K: Serialize>(
    made: &Result<K, NotCopied>,
    of: &K,
    content: fn(&K) -> Content,
) -> Result<(), TestCaseError> {
    let known = content(of);
    prop_assert_eq!(known.digest.len(), 64);
    match made {
        Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
        Ok(copy) => {
            prop_assert!(length(copy) <= LONGEST.min(OURS + 8 * length(of)));
            prop_assert_eq!(content(copy), known);
        }
    }
    Ok(())
}

pilotage_absurd::properties! {
    #[test]
    fn of_any_map_or_secret_comes_a_copy_of_its_size_or_a_short_error(map in config_maps(), hidden in secrets()) {
        if let Some(map) = read::<ConfigMap>(map) {
            is_bounded(&config_map(&map, &link()), &map, Content::of_config_map)?;
        }
        if let Some(hidden) = read::<Secret>(hidden) {
            is_bounded(&secret(&hidden, &link()), &hidden, Content::of_secret)?;
        }
    }

    #[test]
    fn of_any_service_comes_a_copy_of_its_size_or_a_short_error(own in services(), found in services()) {
        let Some(own) = read::<Service>(own) else { return Ok(()) };
        let copy = service(&own, &link());
        is_bounded(&copy, &own, Content::of_service)?;
        let (rerouted, selector) = (reroute(&own), selected(&own));
        prop_assert_eq!(rerouted.is_err(), selector.is_err());
        if let Ok(Some(patch)) = &rerouted {
            prop_assert!(length(patch) <= OURS + 8 * length(&own));
        }
        if let (Ok(mut copy), Some(found)) = (copy, read::<Service>(found)) {
            let most = length(&copy) + length(&found);
            keep_load_balancer(&mut copy, &found);
            carry_over(&mut copy.metadata, &found.metadata);
            prop_assert!(length(&copy) <= most, "what a target fills in stays as long as it was");
        }
    }

    #[test]
    fn of_any_ingress_comes_a_copy_of_its_size_or_a_short_error(own in ingresses(), found in ingresses()) {
        let Some(own) = read::<Ingress>(own) else { return Ok(()) };
        let copy = ingress(&own, &link());
        is_bounded(&copy, &own, Content::of_ingress)?;
        let named = backends(&own).len() + certificates(&own).len();
        prop_assert!(named <= length(&own));
        if let Some(spec) = &own.spec {
            prop_assert!(length(&only_names(spec)) <= length(spec));
        }
        if let (Ok(mut copy), Some(found)) = (copy, read::<Ingress>(found)) {
            let most = length(&copy) + length(&found);
            keep_class(&mut copy, &found);
            carry_over(&mut copy.metadata, &found.metadata);
            prop_assert!(length(&copy) <= most, "what a target fills in stays as long as it was");
        }
    }
}
