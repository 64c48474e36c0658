//! A namespace for one test: unique, usable at once, deleted when dropped.

use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{
    DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Api, Client, Resource, ResourceExt};
use pilotage_api::{Target, keys};
use serde_json::json;

use crate::access::Access;
use crate::plane::{ControlPlane, Error, Part};
use crate::{shared, wait};

/// A namespace that goes when this value goes (as far as that is possible: without a controller manager it stays
/// Terminating, which hurts nobody).
#[derive(Debug)]
pub struct TestNamespace {
    name: String,
    /// The plane may be another test's when this value goes, with a namespace of this name.
    uid: String,
    access: Access,
    kept: bool,
}

impl TestNamespace {
    pub(crate) async fn create(
        plane: &ControlPlane,
        name: &str,
        labels: BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let client = plane.admin();
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let created = Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(request(format!("create namespace {name}")))?;
        // From here on a failure takes the namespace away.
        let namespace = Self {
            name: name.to_owned(),
            uid: created.uid().unwrap_or_default(),
            access: plane.admin_access().in_namespace(name),
            kept: false,
        };
        if plane.has(Part::ControllerManager) {
            let accounts: Api<ServiceAccount> = Api::namespaced(client, name);
            wait::wait_for(&accounts, "default", |_| true, wait::LIMIT)
                .await
                .map_err(|source| Error::Wait {
                    what: format!("no default service account in {name}"),
                    source: Box::new(source),
                })?;
        } else {
            default_account(&client, name).await?;
        }
        Ok(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The administrator with this as default namespace.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// An administrator's API of a namespaced kind in it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        #[expect(
            clippy::expect_used,
            reason = "the same client was made when the plane started"
        )]
        let client = self
            .access
            .client()
            .expect("a client with the administrator's certificate");
        Api::namespaced(client, &self.name)
    }

    /// Leaves it there when this value goes.
    pub fn keep(mut self) -> String {
        self.kept = true;
        self.name.clone()
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let (name, uid) = (self.name.clone(), self.uid.clone());
        let access = self.access.clone();
        // The test's own runtime is about to end.
        let _ = shared::runtime().map(|runtime| {
            runtime.spawn(async move {
                if let Ok(client) = access.client() {
                    let api: Api<Namespace> = Api::all(client.clone());
                    let there = api.get_opt(&name).await.ok().flatten();
                    if there.is_none_or(|there| there.uid().as_ref() != Some(&uid)) {
                        return;
                    }
                    forget_targets(&client, &name).await;
                    let params = DeleteParams::default().preconditions(Preconditions {
                        uid: Some(uid),
                        ..Preconditions::default()
                    });
                    let _ = api.delete(&name, &params).await;
                }
            })
        });
    }
}

/// The namespace of that name goes in other clusters, too, and with it the account by which a Target could be told that
/// nothing of it is left there: it would stay for ever, and its namespace with it.
async fn forget_targets(client: &Client, namespace: &str) {
    let targets: Api<Target> = Api::namespaced(client.clone(), namespace);
    let annotations = json!({ keys::FORGET: keys::TRUE });
    let forget = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    // A plane may not know the kind.
    let found = targets.list(&ListParams::default()).await;
    for target in found.into_iter().flatten() {
        let params = PatchParams::default();
        let _ = targets.patch(&target.name_any(), &params, &forget).await;
    }
}

/// Makes the service account `default`, for planes in which nobody else does.
pub(crate) async fn default_account(client: &Client, namespace: &str) -> Result<(), Error> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    match api.create(&PostParams::default(), &account).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(request(format!("make a service account in {namespace}"))(
            error,
        )),
    }
}

fn request(what: String) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Request {
        what,
        source: Box::new(source),
    }
}
