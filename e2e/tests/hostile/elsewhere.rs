//! Where Targets may lead (`--allow-targets-at`): nobody connects to another place, whoever names it, and whenever.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use pilotage_api::conditions::types;
use pilotage_e2e::hostile::attacks;
use pilotage_testkit::HostileServer;
use pilotage_testkit::hostile::Lie;
use serde_json::json;
use tokio::net::TcpStream;

use crate::siege;
use crate::stage::{ALLOWED, Stage, name_target};

/// None of the allowed places. What listens on the loopback address is reached by it as well.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// A server at a place where Targets may not lead, which would let everybody in.
struct Trap(HostileServer);

impl Trap {
    async fn new() -> Self {
        Self(HostileServer::start("trap").await.unwrap())
    }

    fn url(&self) -> String {
        self.0.url().replace(ALLOWED, &ELSEWHERE.to_string())
    }

    fn kubeconfig(&self) -> String {
        let mut kubeconfig = self.0.access().kubeconfig();
        let cluster = &mut kubeconfig["clusters"][0]["cluster"];
        cluster["server"] = self.url().into();
        cluster["tls-server-name"] = "localhost".into();
        kubeconfig.to_string()
    }

    /// Nobody has ever come, although there is a way.
    async fn nobody_came(self) {
        assert_eq!(self.0.accepted(), 0, "somebody came");
        let (_, port) = self.0.url().rsplit_once(':').unwrap();
        let port: u16 = port.parse().unwrap();
        TcpStream::connect((ELSEWHERE, port)).await.unwrap();
    }
}

async fn is_refused(stage: &Stage) {
    let told = stage
        .lost("evil", "ServerNotAllowed", "--allow-targets-at")
        .await;
    let place = format!("leads to {:?}", ELSEWHERE.to_string());
    assert!(told.contains(&place), "{told}");
    stage.is_well("beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_leads_to_another_host_is_refused() {
    let stage = Stage::beside("elsewhere").await;
    let trap = Trap::new().await;
    let tenant = stage.tenant().await;
    name_target(tenant, &stage.own, "evil", &trap.kubeconfig()).await;
    is_refused(&stage).await;
    trap.nobody_came().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_leads_to_another_host_later_is_refused_then() {
    let stage = Stage::beside("moved").await;
    let server = HostileServer::start("moved").await.unwrap();
    let trap = Trap::new().await;
    stage.lead_to(&server, "evil").await;
    stage.condition("evil", types::CONNECTED, "True").await;
    let secrets: Api<Secret> = Api::namespaced(stage.tenant().await, &stage.own);
    let lead = async |kubeconfig: String| {
        let patch = Patch::Merge(json!({ "stringData": { "config": kubeconfig } }));
        let params = PatchParams::default();
        secrets.patch("evil", &params, &patch).await.unwrap();
    };
    lead(trap.kubeconfig()).await;
    is_refused(&stage).await;
    // The way back is open.
    lead(server.kubeconfig()).await;
    stage.condition("evil", types::CONNECTED, "True").await;
    trap.nobody_came().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_follows_a_server_to_another_host() {
    let trap = Trap::new().await;
    let mut attack = attacks::named("a_redirection").unwrap();
    attack.lie = Lie::Redirect(trap.url());
    siege::lost_by(attack).await;
    trap.nobody_came().await;
}
