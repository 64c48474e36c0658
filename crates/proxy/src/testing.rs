//! Builders of views, for tests.

use std::sync::Arc;

use pilotage_api::{PodChaperon, keys, preempts::Preempts};
use serde_json::{Value, json};

use crate::{
    class::{Marks, classify},
    door::Serves,
    kept::LeftOut,
    targets::Targets,
    view::{ChaperonView, Monotonic, ProxyView, Reach, RecordState},
    window::Ticket,
};

/// A proxy pod that the webhook admitted, without a record, and with the finalizer that comes with one.
pub(crate) fn proxy() -> ProxyView {
    ProxyView {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "p".into(),
        resource_version: "1".into(),
        has_manifest: true,
        node_name: None,
        ending: false,
        deletion_grace_seconds: 0,
        gated: false,
        finalizers: vec![pilotage_api::keys::DELEGATE_GONE.into()],
        recorded: true,
        terminal: false,
        ticket: Ticket::new(0, 0, "p".into()),
        no_reservation: false,
        what_if: false,
        lost_policy: None,
        record: RecordState::Absent,
        left_out: LeftOut::Nothing,
    }
}

/// These targets, all reachable.
pub(crate) fn reachable(nodes: &[&str]) -> Targets {
    let mut targets = Targets::default();
    for node in nodes {
        targets.set_serves(node, Serves::Everybody);
        targets.set_reach(node, Reach::Reachable, Monotonic::ZERO);
    }
    targets
}

/// A chaperon of this pod as an API server shows it.
pub(crate) fn stored_chaperon(proxy: &ProxyView, uid: &str, version: &str) -> Value {
    json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": {
            "namespace": proxy.namespace, "name": proxy.chaperon_name(),
            "uid": uid, "resourceVersion": version,
            "labels": { keys::PARENT_UID: proxy.uid, keys::PARENT_CLUSTER_UID: "source" },
            "annotations": {
                keys::PARENT_NAME: proxy.name, keys::PARENT_NAMESPACE: proxy.namespace,
            },
        },
        "spec": { "containers": [] },
    })
}

/// A chaperon that was just created.
pub(crate) fn chaperon(node: &str, uid: &str) -> ChaperonBuilder {
    ChaperonBuilder {
        node: node.into(),
        uid: uid.into(),
        ending: false,
        bound: false,
        plain_source: false,
        unschedulable: None,
        marks: Marks::default(),
    }
}

#[derive(Clone)]
pub(crate) struct ChaperonBuilder {
    node: String,
    uid: String,
    ending: bool,
    bound: bool,
    plain_source: bool,
    unschedulable: Option<String>,
    marks: Marks,
}

impl ChaperonBuilder {
    pub(crate) fn marks(mut self, attempt: u64, allowed: u64, reserved: bool) -> Self {
        let refusal = (attempt > 0 && !reserved).then(|| "Unschedulable: full".to_owned());
        self.marks = Marks {
            attempt,
            allowed,
            reserved,
            refusal,
            is_allowed: allowed > 0,
            ..self.marks
        };
        self
    }

    pub(crate) fn reserved(self, attempt: u64) -> Self {
        self.marks(attempt, 0, true)
    }

    /// Whom it would evict, that many.
    pub(crate) fn evicting(mut self, pods: u32) -> Self {
        self.marks.preempts = Some(Preempts {
            budgets: 0,
            highest: 0,
            sum: 0,
            pods,
            oldest: None,
            grace: Monotonic::from_mins(1),
        });
        self
    }

    pub(crate) fn refused(self, attempt: u64) -> Self {
        self.marks(attempt, 0, false)
    }

    pub(crate) fn granted(self, attempt: u64) -> Self {
        self.marks(attempt, attempt, true)
    }

    /// Granted as Admiralty does it.
    pub(crate) fn plainly_granted(mut self) -> Self {
        self.marks.reserved = true;
        self.marks.is_allowed = true;
        self
    }

    /// Made by Admiralty.
    pub(crate) fn of_plain_source(mut self) -> Self {
        self.plain_source = true;
        self
    }

    pub(crate) fn missing(mut self) -> Self {
        self.marks.missing = true;
        self
    }

    pub(crate) fn gives_up(mut self) -> Self {
        self.marks.gives_up = true;
        self
    }

    /// Its pod is made, and that one's own scheduler has no node for it.
    pub(crate) fn unschedulable(mut self, why: &str) -> Self {
        self.unschedulable = Some(why.to_owned());
        self
    }

    pub(crate) fn bound(mut self) -> Self {
        self.bound = true;
        self
    }

    pub(crate) fn ending(mut self) -> Self {
        self.ending = true;
        self
    }

    pub(crate) fn build(self) -> ChaperonView {
        let status = self.bound.then(|| {
            serde_json::from_value(serde_json::json!({
                "conditions": [{ "type": "PodScheduled", "status": "True" }],
            }))
            .unwrap()
        });
        let mut object = PodChaperon::default();
        if self.unschedulable.is_some() {
            let its_pod = (keys::RESERVED_POD_UID.to_owned(), "p".to_owned());
            object.metadata.annotations = Some([its_pod].into());
        }
        if self.plain_source {
            let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
            let meta = &mut object.metadata;
            meta.labels = Some([text(keys::PARENT_UID, "p")].into());
            let annotations = meta.annotations.get_or_insert_default();
            annotations.extend([
                text(keys::PARENT_NAME, "web"),
                text(keys::PARENT_NAMESPACE, "shop"),
            ]);
        }
        ChaperonView {
            name: "web-x".into(),
            resource_version: format!(
                "{}-{}{}",
                self.marks.attempt,
                self.marks.allowed,
                if self.marks.missing { "-missing" } else { "" }
            ),
            foreign_finalizers: false,
            unschedulable: self.unschedulable.clone(),
            is_nominated: false,
            says_bound: self.bound,
            class: classify(&self.marks, self.ending, status.as_ref()),
            marks: self.marks,
            node: self.node,
            uid: self.uid,
            object: Arc::new(object),
        }
    }
}
