//! What the plugins of host ports, images and declared features read.

use serde_json::{Value, json};

use super::{Path, Rows, one};
use crate::coverage::field::Change::With;
use crate::coverage::field::On::{Node, Pod, Running};
use crate::coverage::field::Point::{Filter, Score};
use crate::coverage::field::When::{Always, Is, Test};
use crate::object;

impl Rows {
    pub(super) fn ports(&mut self) {
        let filter = ("NodePorts", Filter);
        for on in [Pod, Running] {
            let path: Path = &["spec", "containers", "*", "ports", "*", "hostPort"];
            self.add(filter, on, "hostPort", path, Always);
            let path: Path = &["spec", "containers", "*", "ports", "*", "hostIP"];
            self.add(filter, on, "hostIP", path, Always);
            let other = |address: &mut Value| *address = json!("10.9.8.7");
            let all = Is("0.0.0.0");
            self.change(filter, on, "hostIP 0.0.0.0", path, all, With(other));
            let path: Path = &["spec", "containers", "*", "ports", "*", "protocol"];
            self.add(filter, on, "UDP", path, Is("UDP"));
            self.add(filter, on, "SCTP", path, Is("SCTP"));
            let sidecar =
                |init: &Value| init["restartPolicy"] == "Always" && init["ports"] != json!(null);
            let without = |init: &mut Value| init["ports"] = json!([]);
            let path: Path = &["spec", "initContainers", "*"];
            self.change(
                filter,
                on,
                "sidecar's ports",
                path,
                Test(sidecar),
                With(without),
            );
        }
    }

    pub(super) fn images(&mut self) {
        let score = ("ImageLocality", Score);
        let image: Path = &["spec", "containers", "*", "image"];
        self.add(score, Pod, "image", image, Always);
        let untagged = |image: &Value| !image.as_str().is_some_and(has_tag);
        self.add(score, Pod, "image without tag", image, Test(untagged));
        let digest = |image: &Value| image.as_str().is_some_and(|image| image.contains('@'));
        self.add(score, Pod, "image by digest", image, Test(digest));
        let image: Path = &["spec", "initContainers", "*", "image"];
        self.add(score, Pod, "init container's image", image, Always);
        self.add(
            score,
            Pod,
            "volume's image",
            &["spec", "volumes", "*"],
            Always,
        );
        let images: Path = &["status", "images", "*"];
        self.add(score, Node, "images", images, Always);
        let size: Path = &["status", "images", "*", "sizeBytes"];
        self.change(score, Node, "size", size, Always, With(one));
        let several = |image: &Value| object::list(image, "/names").len() > 1;
        let first = |image: &mut Value| {
            if let Some(names) = image["names"].as_array_mut() {
                names.truncate(1);
            }
        };
        self.change(
            score,
            Node,
            "second name",
            images,
            Test(several),
            With(first),
        );
    }

    pub(super) fn features(&mut self) {
        let filter = ("NodeDeclaredFeatures", Filter);
        let rules: Path = &["spec", "containers", "*", "restartPolicyRules"];
        self.add(filter, Pod, "restart rule", rules, Always);
        let rules: Path = &["spec", "initContainers", "*", "restartPolicyRules"];
        self.add(filter, Pod, "init container's restart rule", rules, Always);
        self.add(filter, Pod, "hostUsers", &["spec", "hostUsers"], Always);
        self.add(filter, Pod, "hostNetwork", &["spec", "hostNetwork"], Always);
        let declared: Path = &["status", "declaredFeatures", "*"];
        for feature in [
            "RestartAllContainersOnContainerExits",
            "UserNamespacesHostNetworkSupport",
        ] {
            self.add(filter, Node, feature, declared, Is(feature));
        }
    }
}

fn has_tag(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.contains(':')
}
