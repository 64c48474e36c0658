//! Ingresses that follow the Services behind them: which Services these are, and what the copy looks like.
//!
//! Must not know which Services follow.

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS,
};
use pilotage_api::keys;
use pilotage_api::limits::SUBDOMAIN;
use pilotage_api::parent::ParentLink;

use super::copy::{Content, NotCopied, fitting};
use super::marked::{self, Marks};

/// Of each copy in a target.
const MARKS: Marks = &[(keys::GLOBAL, keys::TRUE), (keys::IS_DELEGATE, "")];

/// So many Secrets are told of; who has more has read enough.
const MOST_CERTIFICATES: usize = 16;

/// The Services that an Ingress sends requests to; none, if it never follows.
pub fn backends(ingress: &Ingress) -> BTreeSet<String> {
    let Some(spec) = &ingress.spec else {
        return BTreeSet::new();
    };
    if marked::is_copy(&ingress.metadata) {
        return BTreeSet::new();
    }
    let rules = spec.rules.iter().flatten();
    let paths = rules.filter_map(|rule| rule.http.as_ref());
    let backends = paths.flat_map(|http| http.paths.iter().map(|path| &path.backend));
    let services = backends
        .chain(&spec.default_backend)
        .filter_map(|backend| backend.service.as_ref());
    services.map(|service| service.name.clone()).collect()
}

/// The Secrets that an Ingress names for TLS, which don't follow it: the first ones, if there are many.
pub fn certificates(ingress: &Ingress) -> BTreeSet<String> {
    let tls = ingress.spec.iter().flat_map(|spec| spec.tls.iter());
    let names = tls.flatten().filter_map(|tls| tls.secret_name.clone());
    let names: BTreeSet<_> = names.collect();
    let told = names.into_iter().filter(|name| name.len() <= SUBDOMAIN);
    told.take(MOST_CERTIFICATES).collect()
}

/// Leaves of a spec the names of the Services and of the Secrets, once each.
pub fn only_names(spec: &IngressSpec) -> IngressSpec {
    let whole = Ingress {
        spec: Some(spec.clone()),
        ..Ingress::default()
    };
    let path = |name: String| HTTPIngressPath {
        backend: IngressBackend {
            service: Some(IngressServiceBackend { name, port: None }),
            resource: None,
        },
        ..HTTPIngressPath::default()
    };
    let http = HTTPIngressRuleValue {
        paths: backends(&whole).into_iter().map(path).collect(),
    };
    let rule = IngressRule {
        host: None,
        http: Some(http),
    };
    let tls = |name: String| IngressTLS {
        secret_name: Some(name),
        ..IngressTLS::default()
    };
    IngressSpec {
        rules: Some(vec![rule]),
        tls: Some(certificates(&whole).into_iter().map(tls).collect()),
        ..IngressSpec::default()
    }
}

/// The copy of an Ingress; an error, if it is too large.
pub fn ingress(source: &Ingress, link: &ParentLink) -> Result<Ingress, NotCopied> {
    if marked::is_copy(&source.metadata) {
        return Err(NotCopied::NeverFollows);
    }
    fitting(Ingress {
        metadata: marked::metadata(&source.metadata, link, MARKS),
        spec: source.spec.clone(),
        status: None,
    })
}

/// Gives the next state of a copy the class that its cluster chose, if the author left it open: an API server does so
/// only when an Ingress is made.
pub fn keep_class(copy: &mut Ingress, found: &Ingress) {
    let (Some(copy), Some(found)) = (&mut copy.spec, &found.spec) else {
        return;
    };
    if copy.ingress_class_name.is_none() {
        copy.ingress_class_name
            .clone_from(&found.ingress_class_name);
    }
}

impl Content {
    /// Of an Ingress.
    pub fn of_ingress(object: &Ingress) -> Self {
        Self {
            digest: marked::digest(&object.metadata, MARKS, object.spec.as_ref()),
            immutable: false,
            type_: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use pilotage_api::parent::ClusterUid;
    use serde_json::{Value, json};

    use super::*;

    fn object(value: &Value) -> Ingress {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn shop() -> Value {
        let backend = |name: &str| json!({ "service": { "name": name, "port": { "number": 80 } } });
        json!({
            "metadata": {
                "name": "shop", "namespace": "n", "uid": "u",
                "labels": { "team": "a" },
                "annotations": { "nginx.ingress.kubernetes.io/rewrite-target": "/" },
            },
            "spec": {
                "ingressClassName": "nginx",
                "defaultBackend": backend("rest"),
                "rules": [
                    { "host": "a", "http": { "paths": [
                        { "path": "/", "pathType": "Prefix", "backend": backend("web") },
                        { "path": "/x", "pathType": "Prefix", "backend": backend("web") },
                        { "path": "/y", "pathType": "Prefix", "backend":
                            { "resource": { "apiGroup": "x", "kind": "Bucket", "name": "b" } } },
                    ] } },
                    { "host": "b" },
                ],
                "tls": [{ "hosts": ["a"], "secretName": "cert" }],
            },
            "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } },
        })
    }

    #[test]
    fn its_copy_is_the_same_but_for_marks_and_status() {
        let source = object(&shop());
        let link = ParentLink {
            cluster_uid: Some(ClusterUid("s1".into())),
            cluster_name: None,
            uid: "u".into(),
            namespace: "n".into(),
            name: "shop".into(),
        };
        let copy = ingress(&source, &link).unwrap();
        assert_eq!(copy.spec, source.spec);
        assert_eq!(copy.status, None);
        let annotations = copy.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[keys::GLOBAL], "true");
        assert_eq!(annotations[keys::IS_DELEGATE], "");
        assert_eq!(
            annotations["nginx.ingress.kubernetes.io/rewrite-target"],
            "/"
        );
        assert_eq!(annotations[keys::PARENT_NAME], "shop");
        let labels = copy.metadata.labels.as_ref().unwrap();
        assert_eq!(
            (labels["team"].as_str(), labels[keys::PARENT_UID].as_str()),
            ("a", "u")
        );
        assert_eq!(Content::of_ingress(&copy), Content::of_ingress(&source));
        let mut other = shop();
        other["spec"]["rules"][0]["host"] = "c".into();
        assert_ne!(
            Content::of_ingress(&object(&other)),
            Content::of_ingress(&source)
        );
        assert_eq!(ingress(&copy, &link), Err(NotCopied::NeverFollows));
        assert_eq!(backends(&copy), BTreeSet::new());
    }

    #[test]
    fn the_services_behind_it_are_those_of_all_rules_and_its_certificates_are_known() {
        let mut ingress = object(&shop());
        let want = BTreeSet::from(["rest".to_owned(), "web".to_owned()]);
        assert_eq!(backends(&ingress), want);
        let cert = BTreeSet::from(["cert".to_owned()]);
        assert_eq!(certificates(&ingress), cert);
        ingress.spec = ingress.spec.as_ref().map(only_names);
        assert_eq!(backends(&ingress), want, "of what is kept, too");
        assert_eq!(certificates(&ingress), cert);
        assert_eq!(backends(&Ingress::default()), BTreeSet::new());
    }

    fn link() -> ParentLink {
        ParentLink {
            cluster_uid: Some(ClusterUid("s1".into())),
            cluster_name: None,
            uid: "u".into(),
            namespace: "n".into(),
            name: "shop".into(),
        }
    }

    #[test]
    fn what_would_be_too_long_on_the_wire_is_not_copied() {
        let mut long = shop();
        long["spec"]["rules"][0]["http"]["paths"][0]["path"] =
            json!(format!("/{}", "&".repeat(600 << 10)));
        assert_eq!(ingress(&object(&long), &link()), Err(NotCopied::TooLarge));
    }

    #[test]
    fn the_class_is_its_clusters_where_the_author_left_it_open() {
        let mut open = shop();
        open["spec"]["ingressClassName"] = json!(null);
        let mut copy = ingress(&object(&open), &link()).unwrap();
        keep_class(&mut copy, &object(&shop()));
        let class = |it: &Ingress| it.spec.as_ref().unwrap().ingress_class_name.clone();
        assert_eq!(class(&copy).as_deref(), Some("nginx"));
        let mut other = shop();
        other["spec"]["ingressClassName"] = json!("other");
        keep_class(&mut copy, &object(&other));
        assert_eq!(class(&copy).as_deref(), Some("nginx"), "the author's stays");
    }
}
