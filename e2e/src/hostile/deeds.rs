//! What a tenant can do beside leading Pilotage to a server that lies about requests: what it writes, and how many
//! Targets it makes, when. Tests show what becomes of it; here it is done while others' pods are measured.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use pilotage_api::{conditions::types, keys};
use pilotage_testkit::fault::Verb;
use pilotage_testkit::hostile::Questions;
use pilotage_testkit::{HostileServer, build, wait_for, wait_gone};
use serde_json::{Value, json};

use super::attacks::{self, Attack};
use super::error::Error;
use super::siege::{Ground, HONEST, LIMIT, TENANT, hold};
use super::written;

const CHAPERONS: &str = "podchaperons";
/// More Targets of one namespace at once.
const MORE: usize = 10;
/// How often one is made anew.
const ANEW: usize = 3;
/// How often a Target and a pod are given too long a name.
const REFUSED: usize = 20;
/// What the servers of Targets that come and go tell meanwhile.
const FLOOD: &str = "the_same_event_again_and_again";

/// One of these.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    ForgedChaperons,
    ExtremeNumbers,
    LongNames,
    PlantsOnPods,
    ManyTargets,
    ATargetAnew,
}

impl Deed {
    pub(super) const ALL: [Self; 6] = [
        Self::ForgedChaperons,
        Self::ExtremeNumbers,
        Self::LongNames,
        Self::PlantsOnPods,
        Self::ManyTargets,
        Self::ATargetAnew,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ForgedChaperons => "forged_chaperons_of_another_namespaces_pod",
            Self::ExtremeNumbers => "extreme_numbers",
            Self::LongNames => "long_names",
            Self::PlantsOnPods => "plants_on_pods",
            Self::ManyTargets => "many_targets_at_once",
            Self::ATargetAnew => "a_target_that_goes_and_comes_under_attack",
        }
    }

    /// Does it, by Targets whose names begin like this, and tidies up.
    pub(super) async fn run(self, ground: &Ground<'_>, name: &str) -> Result<(), Error> {
        let doing = Doing {
            deed: self,
            ground,
            name,
        };
        match self {
            Self::ForgedChaperons => Box::pin(doing.forge()).await,
            Self::ExtremeNumbers => Box::pin(doing.exceed()).await,
            Self::LongNames => Box::pin(doing.call_at_length()).await,
            Self::PlantsOnPods => Box::pin(doing.plant()).await,
            Self::ManyTargets => Box::pin(doing.crowd()).await,
            Self::ATargetAnew => Box::pin(doing.come_and_go()).await,
        }
    }
}

struct Doing<'a> {
    deed: Deed,
    ground: &'a Ground<'a>,
    name: &'a str,
}

impl Doing<'_> {
    async fn forge(&self) -> Result<(), Error> {
        let pods = self.ground.pods(HONEST);
        let name = format!("victim-{}", self.name);
        // It fits nowhere, so that it waits as long as the attack lasts.
        let victim = build::pod(&name).elect().request("cpu", "64").build();
        let victim = create(&pods, &victim).await?;
        let server = self.server().await?;
        for chaperon in written::forged(&victim, &self.source().await?, TENANT) {
            server.put_everywhere(chaperon)?;
        }
        self.ground.lead_to(&server, self.name).await?;
        self.told(types::TRUSTWORTHY, "False").await?;
        hold().await;
        let now = pods.get(&name).await;
        let now = now.map_err(Error::request("read a pod"))?;
        let spec = now.spec.as_ref();
        if spec.is_some_and(|spec| spec.node_name.is_some()) {
            return self.failed("the pod of others is bound");
        }
        delete(&pods, &name, &DeleteParams::default()).await?;
        is_gone(&pods, &name).await?;
        self.ground.leave(self.name).await
    }

    async fn exceed(&self) -> Result<(), Error> {
        let server = self.server().await?;
        server.answer_questions(Questions::Run(written::extreme_attempt()));
        self.ground.lead_to(&server, self.name).await?;
        self.told(types::CONNECTED, "True").await?;
        let (pods, mut names) = (self.ground.pods(TENANT), Vec::new());
        for mut pod in written::extreme_pods() {
            let kind = pod["metadata"]["name"].as_str().unwrap_or_default();
            let name = format!("{kind}-{}", self.name);
            pod["metadata"]["name"] = name.as_str().into();
            create(&pods, &pod_of(pod)?).await?;
            names.push(name);
        }
        self.asked(&server, names.len()).await?;
        server.put_everywhere(written::extreme_summary(server.cluster_uid()))?;
        hold().await;
        // Policies are reckoned with while it can't be reached.
        server.stop().await;
        self.told(types::CONNECTED, "False").await?;
        let now = DeleteParams::default().grace_period(0);
        for name in &names {
            delete(&pods, name, &now).await?;
        }
        self.ground.leave(self.name).await?;
        for name in &names {
            is_gone(&pods, name).await?;
        }
        Ok(())
    }

    async fn call_at_length(&self) -> Result<(), Error> {
        let server = self.server().await?;
        self.ground.lead_to(&server, self.name).await?;
        self.told(types::CONNECTED, "True").await?;
        let region = written::long_region();
        let pods = self.ground.pods(TENANT);
        for number in 0..REFUSED {
            if self.takes_region(&region).await? {
                return self.failed("a Target with too long a name is taken");
            }
            let pod = build::pod(&format!("long-{number}-{}", self.name)).elect();
            let pod = pod.annotation(keys::REGION, region.as_str()).build();
            if pods.create(&PostParams::default(), &pod).await.is_ok() {
                return self.failed("a pod with too long a name is taken");
            }
        }
        hold().await;
        self.ground.leave(self.name).await
    }

    /// Whether the tenant's Target may say that it is in this region; a policy refuses it.
    async fn takes_region(&self, region: &str) -> Result<bool, Error> {
        let patch = json!({ "metadata": { "annotations": { keys::REGION: region } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let targets = self.ground.targets();
        match targets.patch(self.name, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(false),
            patched => (patched.map(|_| true)).map_err(Error::request("patch a Target")),
        }
    }

    async fn plant(&self) -> Result<(), Error> {
        let server = self.server().await?;
        self.ground.lead_to(&server, self.name).await?;
        self.told(types::CONNECTED, "True").await?;
        let (pods, mut names) = (self.ground.pods(TENANT), Vec::new());
        let all = [
            written::planted_annotations(),
            written::planted_status(),
            written::nonsense_status(),
        ];
        for (number, words) in all.into_iter().enumerate() {
            server.answer_questions(Questions::Run(words));
            let name = format!("web-{number}-{}", self.name);
            let pod = build::pod(&name).elect().annotation("team", "own");
            let pod = pod.request("cpu", "1m").build();
            create(&pods, &pod).await?;
            let is_bound = |pod: &Pod| {
                let spec = pod.spec.as_ref();
                spec.is_some_and(|spec| spec.node_name.is_some())
            };
            let bound = wait_for(&pods, &name, is_bound, LIMIT).await;
            bound.map_err(Error::wait(format!("{name} isn't bound")))?;
            names.push(name);
        }
        hold().await;
        for name in &names {
            delete(&pods, name, &DeleteParams::default()).await?;
            is_gone(&pods, name).await?;
        }
        self.ground.leave(self.name).await
    }

    async fn crowd(&self) -> Result<(), Error> {
        let flood = self.flood()?;
        let servers = (0..MORE).map(|_| HostileServer::start("liar"));
        let servers = try_join_all(servers).await?;
        let name = |number: usize| format!("{}-{number}", self.name);
        for (number, server) in servers.iter().enumerate() {
            server.play(flood.script());
            self.ground.lead_to(server, &name(number)).await?;
        }
        // Whether they are connected depends on what they take from each other.
        for (number, server) in servers.iter().enumerate() {
            let what = format!("{}: {}", self.deed.name(), name(number));
            let counted = server.counted(Verb::List, CHAPERONS, 1, LIMIT).await;
            counted.map_err(Error::wait(what))?;
        }
        hold().await;
        for (number, server) in servers.iter().enumerate() {
            server.tell_truth();
            server.cut_connections();
            self.ground.leave(&name(number)).await?;
        }
        Ok(())
    }

    async fn come_and_go(&self) -> Result<(), Error> {
        let server = self.server().await?;
        server.play(self.flood()?.script());
        for _ in 0..ANEW {
            self.ground.lead_to(&server, self.name).await?;
            self.told(types::CONNECTED, "True").await?;
            hold().await;
            // It goes on.
            self.ground.leave(self.name).await?;
            // The next one of its name isn't to name this Secret.
            let gone = wait_gone(&self.ground.secrets(), self.name, LIMIT).await;
            gone.map_err(Error::wait(format!("Secret {} doesn't go", self.name)))?;
        }
        if server.lies() == 0 {
            return Err(Error::NotPlayed(self.deed.name()));
        }
        Ok(())
    }

    async fn server(&self) -> Result<HostileServer, Error> {
        Ok(HostileServer::start("liar").await?)
    }

    fn flood(&self) -> Result<Attack, Error> {
        attacks::named(FLOOD).ok_or(Error::NotPlayed(self.deed.name()))
    }

    /// Waits for a condition of the tenant's Target.
    async fn told(&self, type_: &str, status: &str) -> Result<(), Error> {
        let told = self
            .ground
            .told(self.name, type_, status, None, self.deed.name());
        told.await
    }

    /// Waits until the server was asked for so many pods.
    async fn asked(&self, server: &HostileServer, pods: usize) -> Result<(), Error> {
        let asked = server
            .counted(Verb::Create, CHAPERONS, pods as u64, LIMIT)
            .await;
        let what = format!("{}: nobody asks for its pods", self.deed.name());
        asked.map(drop).map_err(Error::wait(what))
    }

    /// The UID by which the source calls itself.
    async fn source(&self) -> Result<String, Error> {
        let plane = &self.ground.fleet.source.plane;
        let namespaces: Api<Namespace> = Api::all(plane.admin());
        let system = namespaces.get("kube-system").await;
        let system = system.map_err(Error::request("read a namespace"))?;
        Ok(system.uid().unwrap_or_default())
    }

    fn failed(&self, what: &'static str) -> Result<(), Error> {
        let attack = self.deed.name();
        Err(Error::Succeeded { attack, what })
    }
}

fn pod_of(pod: Value) -> Result<Pod, Error> {
    serde_json::from_value(pod).map_err(Error::Pod)
}

async fn create(pods: &Api<Pod>, pod: &Pod) -> Result<Pod, Error> {
    let created = pilotage_testkit::create(pods, pod).await;
    created.map_err(Error::request("create a pod"))
}

/// Deletes a pod, unless it was given up with its target.
async fn delete(pods: &Api<Pod>, name: &str, params: &DeleteParams) -> Result<(), Error> {
    match pods.delete(name, params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop).map_err(Error::request("delete a pod")),
    }
}

async fn is_gone(pods: &Api<Pod>, name: &str) -> Result<(), Error> {
    let gone = wait_gone(pods, name, LIMIT).await;
    gone.map_err(Error::wait(format!("{name} doesn't go")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_and_told_is_there() {
        assert!(attacks::named(FLOOD).is_some_and(|flood| flood.lost.is_none()));
        for pod in written::extreme_pods() {
            pod_of(pod).unwrap();
        }
    }
}
