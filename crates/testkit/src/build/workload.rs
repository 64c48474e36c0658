//! Deployments, Jobs and small objects around them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde_json::Value;

use super::{Meta, PodBuilder, json, metadata_setters, pod};

/// Label by which a Deployment finds its pods.
const APP: &str = "app";

/// Builds a Deployment.
#[derive(Debug, Clone)]
pub struct DeploymentBuilder {
    meta: Meta,
    replicas: i32,
    pod: PodBuilder,
}

/// A Deployment of one replica; its pods have the label `app=<name>`.
pub fn deployment(name: &str) -> DeploymentBuilder {
    DeploymentBuilder {
        meta: Meta::named(name),
        replicas: 1,
        pod: pod("").label(APP, name),
    }
}

impl DeploymentBuilder {
    metadata_setters!();

    /// How many pods.
    #[must_use]
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Changes the pod template.
    #[must_use]
    pub fn pod(mut self, change: impl FnOnce(PodBuilder) -> PodBuilder) -> Self {
        self.pod = change(self.pod);
        self
    }

    /// The Deployment.
    pub fn build(self) -> Deployment {
        let labels = BTreeMap::from([(APP.to_owned(), self.meta.name.clone())]);
        Deployment {
            metadata: self.meta.build(),
            spec: Some(DeploymentSpec {
                replicas: Some(self.replicas),
                selector: LabelSelector {
                    match_labels: Some(labels),
                    ..LabelSelector::default()
                },
                template: self.pod.template(),
                ..DeploymentSpec::default()
            }),
            status: None,
        }
    }

    /// The Deployment as JSON.
    pub fn value(self) -> Value {
        json(&self.build())
    }
}

/// Builds a Job.
#[derive(Debug, Clone)]
pub struct JobBuilder {
    meta: Meta,
    completions: i32,
    backoff_limit: i32,
    pod: PodBuilder,
}

/// A Job of one completion; its pods are never restarted and have the label `app=<name>`.
pub fn job(name: &str) -> JobBuilder {
    JobBuilder {
        meta: Meta::named(name),
        completions: 1,
        backoff_limit: 6,
        pod: pod("").label(APP, name).restart_policy("Never"),
    }
}

impl JobBuilder {
    metadata_setters!();

    /// How many pods must succeed, all at once.
    #[must_use]
    pub fn completions(mut self, completions: i32) -> Self {
        self.completions = completions;
        self
    }

    /// How many pods may fail.
    #[must_use]
    pub fn backoff_limit(mut self, limit: i32) -> Self {
        self.backoff_limit = limit;
        self
    }

    /// Changes the pod template.
    #[must_use]
    pub fn pod(mut self, change: impl FnOnce(PodBuilder) -> PodBuilder) -> Self {
        self.pod = change(self.pod);
        self
    }

    /// The Job.
    pub fn build(self) -> Job {
        Job {
            metadata: self.meta.build(),
            spec: Some(JobSpec {
                completions: Some(self.completions),
                parallelism: Some(self.completions),
                backoff_limit: Some(self.backoff_limit),
                template: self.pod.template(),
                ..JobSpec::default()
            }),
            status: None,
        }
    }

    /// The Job as JSON.
    pub fn value(self) -> Value {
        json(&self.build())
    }
}

/// A namespace with labels.
pub fn namespace(name: &str, labels: &[(&str, &str)]) -> Namespace {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let labels: BTreeMap<String, String> = labels.collect();
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// A service account.
pub fn service_account(namespace: &str, name: &str) -> ServiceAccount {
    ServiceAccount {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_selects_its_pods() {
        let value = deployment("web")
            .ns("x")
            .replicas(3)
            .pod(PodBuilder::elect)
            .value();
        assert_eq!(
            value["spec"]["selector"]["matchLabels"],
            value["spec"]["template"]["metadata"]["labels"]
        );
        assert!(value["spec"]["template"]["metadata"].get("name").is_none());
        assert_eq!(value["spec"]["replicas"], 3);
    }
}
