//! Pilotage as Helm installs it: the chart's objects are in the cluster, and what its Deployments say is what processes
//! beside the cluster run with. There are no pods: nobody here runs containers.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use pilotage_testkit::{ControlPlane, cli, workspace_root};
use serde_json::{Value, json};

use super::cluster::{HOME, Side};
use super::error::Error;
use super::settings::Settings;

/// Name of the release.
const RELEASE: &str = "pilotage";
/// Flags that say where a process in a pod is reached, and how its log looks there.
const OF_PODS: [&str; 3] = ["--kubelet-address", "--webhook-service", "--log-format"];

/// What a part runs with.
pub(super) struct Part {
    /// Its service account in [`HOME`].
    pub(super) account: String,
    /// Its arguments, the command first.
    pub(super) args: Vec<String>,
}

/// Installs the release; [`HOME`] is there.
pub(super) async fn install(
    plane: &ControlPlane,
    side: Side,
    settings: &Settings,
) -> Result<(), Error> {
    let helm = plane.tools().path("helm").map_err(Box::new)?;
    let chart = workspace_root().join("charts/pilotage");
    let home = plane.directory().join("helm");
    let kubeconfig = plane.admin_kubeconfig();
    cli::Command::new(helm, plane.directory())
        .args(["install", RELEASE, &chart.display().to_string()])
        .args(["--namespace", HOME, "--values", "-"])
        .env("KUBECONFIG", &kubeconfig)
        // Nothing of it goes into the developer's own home.
        .env("HOME", &home)
        .input(&values(side, settings).to_string())
        .run()
        .await?;
    Ok(())
}

fn values(side: Side, settings: &Settings) -> Value {
    let is_source = side == Side::Source;
    let rights: Vec<_> = settings.rights.iter().map(|right| right.flag()).collect();
    json!({
        "follow": if is_source { settings.follow.clone() } else { Vec::new() },
        "targetNamespaces": if is_source { settings.namespaces.clone() } else { Vec::new() },
        "rights": if is_source { Vec::new() } else { rights },
        "webhook": { "enabled": is_source, "replicas": 0 },
        "controllerManager": {
            "replicas": 0,
            "kubelet": { "enabled": is_source && settings.kubelet.is_some() },
        },
        "scheduler": { "replicas": 0 },
        "proxyScheduler": { "enabled": is_source },
        "candidateScheduler": { "enabled": !is_source },
    })
}

/// What the Deployment of a part says.
pub(super) async fn part(plane: &ControlPlane, command: &str) -> Result<Part, Error> {
    let deployments: Api<Deployment> = Api::namespaced(plane.admin(), HOME);
    let name = format!("{RELEASE}-{command}");
    let deployment = deployments.get(&name).await;
    let deployment =
        deployment.map_err(Error::request(&format!("can't read Deployment {name}")))?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let pod = pod.unwrap_or_default();
    let container = pod.containers.into_iter().next().unwrap_or_default();
    let mut args = container.args.unwrap_or_default();
    args.retain(|arg| {
        let name = arg.split_once('=').map_or(arg.as_str(), |(name, _)| name);
        !OF_PODS.contains(&name)
    });
    Ok(Part {
        account: pod.service_account_name.unwrap_or_default(),
        args,
    })
}
