//! `pilotage scheduler` as a process beside a plain control plane, under its own role.

use std::collections::BTreeMap;

use pilotage_testkit::pilotage::{self, ADMIN_PORT, DIRECTORY, PilotageProcess};
use pilotage_testkit::{ControlPlane, plane};

use crate::fleet::HOME;

/// Its service account, called as the part is.
const ACCOUNT: &str = "scheduler";

/// A scheduler can't be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No namespace or no account.
    #[error(transparent)]
    Plane(#[from] plane::Error),
    /// No role or no process.
    #[error(transparent)]
    Pilotage(#[from] pilotage::Error),
}

/// Makes namespace, account and role in a control plane, once for all its schedulers.
pub async fn install(plane: &ControlPlane) -> Result<(), Error> {
    plane.named_namespace(HOME, BTreeMap::new()).await?.keep();
    let account = format!("--service-account={HOME}/{ACCOUNT}");
    let args = ["rbac", "--component=scheduler", &account];
    pilotage::apply_output(plane, &pilotage::binary()?, args).await?;
    Ok(())
}

/// Starts a scheduler with these flags, and waits until it has listed everything.
pub async fn start(plane: &ControlPlane, flags: &[&str]) -> Result<PilotageProcess, Error> {
    let access = plane.service_account_access(HOME, ACCOUNT).await?;
    let process = PilotageProcess::builder(&format!("{}-scheduler", plane.name()))
        .file("kubeconfig", &access.kubeconfig_yaml())
        .args(["scheduler", "--log-format=text"])
        .args([
            format!("--kubeconfig={DIRECTORY}/kubeconfig"),
            format!("--admin-addr=127.0.0.1:{ADMIN_PORT}"),
        ])
        .args(flags);
    Ok(process.start().await?)
}
