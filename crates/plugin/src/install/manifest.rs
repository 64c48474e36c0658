//! What is installed: the definitions, and the chart's objects with default values. Pure.

use std::fmt;
use std::str::FromStr;

use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use pilotage_api::{crds, keys};
use serde_json::{Value, json};

use crate::error::Error;
use crate::plan::{MANAGER, is_name};

/// The chart's objects, written by `make chart`.
const OBJECTS: &str = include_str!("../../../../charts/install.yaml");
/// What stands in them for the namespace…
const NAMESPACE: &str = "install-namespace";
/// …and for the image.
const IMAGE: &str = "install-image:latest";

/// Name of an image in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image(String);

/// Not the name of an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write it as REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST")]
pub(crate) struct BadImage;

impl FromStr for Image {
    type Err = BadImage;

    fn from_str(text: &str) -> Result<Self, BadImage> {
        let fits = |it: char| it.is_ascii_alphanumeric() || "./:@_-".contains(it);
        let edges = text.starts_with(|it: char| it.is_ascii_alphanumeric())
            && text.ends_with(|it: char| it.is_ascii_alphanumeric());
        (edges && text.len() <= 512 && text.chars().all(fits))
            .then(|| Self(text.to_owned()))
            .ok_or(BadImage)
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All objects, in the order in which they can be applied: the namespace, the definitions, the others.
pub(crate) fn objects(namespace: &str, image: &Image) -> Result<Vec<Value>, Error> {
    if !is_name(namespace) {
        return Err(Error::Name(namespace.to_owned(), "--namespace"));
    }
    let bad = |error: &dyn fmt::Display| Error::Render(error.to_string());
    let mut all =
        vec![json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } })];
    for definition in crds::all().map_err(|error| bad(&error))? {
        let mut definition = serde_json::to_value(definition).map_err(|error| bad(&error))?;
        definition["metadata"]["labels"][keys::MANAGED_BY.0] = json!(MANAGER);
        all.push(definition);
    }
    for document in OBJECTS.split("\n---\n") {
        // What is before the first one is a comment.
        if document.contains("\nkind: ") {
            let mut object = serde_saphyr::from_str(document).map_err(|error| bad(&error))?;
            fill(&mut object, namespace, image);
            all.push(object);
        }
    }
    Ok(all)
}

/// The same, of whichever image.
pub(crate) fn of_any_image(namespace: &str) -> Result<Vec<Value>, Error> {
    objects(namespace, &Image(IMAGE.to_owned()))
}

/// In the values, not in the text: there a namespace may look like a number.
fn fill(value: &mut Value, namespace: &str, image: &Image) {
    match value {
        Value::String(text) => {
            *text = text.replace(NAMESPACE, namespace).replace(IMAGE, &image.0);
        }
        Value::Array(all) => all.iter_mut().for_each(|it| fill(it, namespace, image)),
        Value::Object(all) => all.values_mut().for_each(|it| fill(it, namespace, image)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What an object is, for requests.
pub(crate) fn resource(object: &Value) -> ApiResource {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion")
        .split_once('/')
        .unwrap_or(("", text("apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("kind"));
    // Those of our objects are regular words.
    let lower = text("kind").to_ascii_lowercase();
    let plural = match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with('s') => format!("{lower}es"),
        None => format!("{lower}s"),
    };
    ApiResource::from_gvk_with_plural(&kind, &plural)
}

/// `Deployment pilotage/pilotage-webhook`.
pub(crate) fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_in_the_namespace_and_runs_the_image() {
        let image: Image = "registry.example:5000/a/pilotage@sha256:0a"
            .parse()
            .unwrap();
        let all = objects("ships", &image).unwrap();
        let kind = |kind: &str| all.iter().filter(|it| it["kind"] == kind).count();
        assert_eq!(
            (kind("CustomResourceDefinition"), kind("Deployment")),
            (6, 4)
        );
        let text = json!(all).to_string();
        assert!(!text.contains(NAMESPACE) && !text.contains("install-image"));
        for deployment in all.iter().filter(|it| it["kind"] == "Deployment") {
            assert_eq!(deployment["metadata"]["namespace"], "ships");
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["image"], json!(image.to_string()));
        }
        assert!(all.iter().all(|it| it["kind"].is_string()));
        assert!(objects("Ships", &image).is_err() && objects("a: b", &image).is_err());
    }

    #[test]
    fn a_namespace_may_look_like_something_else() {
        let image: Image = "a".parse().unwrap();
        for name in ["2024", "true", "null"] {
            let all = objects(name, &image).unwrap();
            let own = all.iter().filter(|it| it["kind"] == "Deployment");
            for object in own {
                assert_eq!(object["metadata"]["namespace"], json!(name));
            }
        }
    }

    #[test]
    fn an_images_name_has_nothing_else_in_it() {
        for bad in ["", "a b", "a\"b", "a\n", "$a", ":a", "a:", "{a}"] {
            assert!(bad.parse::<Image>().is_err(), "{bad}");
        }
        assert!(
            "localhost:5000/pilotage:0.1.0-rc.1"
                .parse::<Image>()
                .is_ok()
        );
    }

    #[test]
    fn kinds_have_the_names_that_the_api_server_has() {
        for (version, kind, want) in [
            ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
            ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
            ("v1", "Service", "services"),
            ("rbac.authorization.k8s.io/v1", "Role", "roles"),
        ] {
            let it = resource(&json!({ "apiVersion": version, "kind": kind }));
            assert_eq!(
                (it.plural.as_str(), it.api_version.as_str()),
                (want, version)
            );
        }
    }
}
