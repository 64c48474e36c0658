//! Leader election between processes that know each other only by the Lease, each under a service
//! account that may do what `lease::RULES` say and nothing else.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use pilotage_runtime::lease::{self, Elector, Leadership, LeaseConfig, LeaseError};
use pilotage_runtime::rbac::{self, Account};
use pilotage_testkit::{ControlPlane, LIMIT, Part, Signal, TestNamespace, apply, shared, wait_for};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

const DURATION: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_secs(2);
const PERIOD: Duration = Duration::from_millis(300);
/// What the leader writes on its Lease.
const ABOUT: &str = "example.com/about";

struct Candidate {
    leadership: Leadership,
    token: CancellationToken,
    running: JoinHandle<Result<(), LeaseError>>,
}

impl Candidate {
    async fn start(plane: &ControlPlane, namespace: &str, identity: &str) -> Self {
        let client = plane
            .service_account_client(namespace, "elector")
            .await
            .unwrap();
        let config = LeaseConfig::new(namespace, "test", DURATION, DEADLINE, PERIOD).unwrap();
        let config = config.annotated(ABOUT, identity);
        let (elector, leadership) = Elector::new(client, config, identity.to_owned());
        let token = CancellationToken::new();
        let running = tokio::spawn(elector.run(token.clone()));
        Self {
            leadership,
            token,
            running,
        }
    }

    async fn acquired(&self) {
        timeout(LIMIT, self.leadership.acquired())
            .await
            .expect("leads in time");
        assert!(self.leadership.is_leader());
    }

    async fn ended(self) -> Result<(), LeaseError> {
        timeout(LIMIT, self.running)
            .await
            .expect("ends in time")
            .unwrap()
    }
}

async fn allow(plane: &ControlPlane, namespace: &str) {
    let account = Account {
        namespace,
        name: "elector",
    };
    plane
        .service_account(namespace, account.name)
        .await
        .unwrap();
    let roles = rbac::render("elector", account, lease::RULES);
    apply::apply_values(&plane.admin(), roles, namespace)
        .await
        .unwrap();
}

async fn namespace(plane: &ControlPlane) -> TestNamespace {
    let namespace = plane.namespace("lease").await.unwrap();
    allow(plane, namespace.name()).await;
    namespace
}

async fn shared_plane() -> std::sync::Arc<ControlPlane> {
    shared::plane("lease", || ControlPlane::builder("lease").no_crds())
        .await
        .unwrap()
}

fn leases(client: Client, namespace: &str) -> Api<Lease> {
    Api::namespaced(client, namespace)
}

fn about(lease: &Lease) -> Option<&str> {
    let annotations = lease.metadata.annotations.as_ref()?;
    annotations.get(ABOUT).map(String::as_str)
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_ends_hands_over_at_once() {
    let plane = shared_plane().await;
    let namespace = namespace(&plane).await;
    let first = Candidate::start(&plane, namespace.name(), "first").await;
    first.acquired().await;
    let second = Candidate::start(&plane, namespace.name(), "second").await;
    let api = namespace.api::<Lease>();
    let sees = async {
        while second.leadership.leader().as_deref() != Some("first") {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, sees)
        .await
        .expect("the second sees the first");
    let renewed = |lease: &Lease| {
        let spec = lease.spec.as_ref();
        spec.is_some_and(|spec| spec.renew_time > spec.acquire_time)
    };
    let lease = wait_for(&api, "test", renewed, LIMIT).await.unwrap();
    assert_eq!(about(&lease), Some("first"));
    assert!(!second.leadership.is_leader());
    assert_eq!(second.leadership.leader().as_deref(), Some("first"));

    let asked = Instant::now();
    first.token.cancel();
    let leadership = first.leadership.clone();
    assert_eq!(first.ended().await, Ok(()));
    assert!(!leadership.is_leader());
    second.acquired().await;
    assert!(
        asked.elapsed() < DURATION,
        "the lease was given back: nobody waits for its end"
    );
    let lease = api.get("test").await.unwrap();
    assert_eq!(
        (holder(&lease), about(&lease)),
        (Some("second"), Some("second"))
    );
    assert_eq!(lease.spec.unwrap().lease_transitions, Some(1));
    second.token.cancel();
    assert_eq!(second.ended().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_stops_before_another_begins() {
    let plane = ControlPlane::builder("lease-cut")
        .no_crds()
        .start()
        .await
        .unwrap();
    allow(&plane, "default").await;
    let first = Candidate::start(&plane, "default", "first").await;
    first.acquired().await;

    // Requests hang now, they aren't refused.
    plane.signal(Part::ApiServer, Signal::Stop).await.unwrap();
    let cut = Instant::now();
    let leadership = first.leadership.clone();
    let error = first.ended().await.unwrap_err();
    assert!(matches!(error, LeaseError::NotRenewed { .. }), "{error}");
    assert!(!leadership.is_leader());
    let ended = cut.elapsed();
    assert!(
        ended < DEADLINE + Duration::from_secs(1),
        "gave up only after {ended:?}"
    );

    plane
        .signal(Part::ApiServer, Signal::Continue)
        .await
        .unwrap();
    let second = Candidate::start(&plane, "default", "second").await;
    second.acquired().await;
    assert!(cut.elapsed() > ended);
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_from_a_leader_that_dies() {
    let plane = shared_plane().await;
    let namespace = namespace(&plane).await;
    let first = Candidate::start(&plane, namespace.name(), "first").await;
    first.acquired().await;
    let second = Candidate::start(&plane, namespace.name(), "second").await;
    let (leadership, died) = (first.leadership.clone(), Instant::now());
    first.running.abort();
    second.acquired().await;
    assert!(
        !leadership.is_leader(),
        "the claim of the dead leader has expired"
    );
    assert!(
        died.elapsed() >= DURATION.saturating_sub(PERIOD * 2),
        "the standby waited a lease duration"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_another_holder_ends_a_leader_that_is_disturbed() {
    let plane = shared_plane().await;
    let namespace = namespace(&plane).await;
    let candidate = Candidate::start(&plane, namespace.name(), "me").await;
    candidate.acquired().await;
    let api = leases(plane.admin(), namespace.name());

    // An edit by somebody else conflicts with our next renewal, which is then done anew.
    let edit = json!({"metadata": {"annotations": {"by": "somebody"}}});
    let edited = api
        .patch("test", &PatchParams::default(), &Patch::Merge(edit))
        .await
        .unwrap();
    let renewal = edited.spec.unwrap().renew_time;
    let renewed = |lease: &Lease| lease.spec.as_ref().is_some_and(|s| s.renew_time > renewal);
    let lease = wait_for(&api, "test", renewed, LIMIT).await.unwrap();
    assert!(
        lease.metadata.annotations.is_some(),
        "what others wrote stays"
    );

    // A deleted lease is made anew.
    let uid = lease.metadata.uid;
    api.delete("test", &DeleteParams::default()).await.unwrap();
    let anew = |lease: &Lease| lease.metadata.uid != uid && holder(lease) == Some("me");
    wait_for(&api, "test", anew, LIMIT).await.unwrap();
    assert!(candidate.leadership.is_leader());

    let steal = json!({"spec": {"holderIdentity": "thief"}});
    api.patch("test", &PatchParams::default(), &Patch::Merge(steal))
        .await
        .unwrap();
    let leadership = candidate.leadership.clone();
    let error = candidate.ended().await.unwrap_err();
    assert!(
        matches!(&error, LeaseError::Taken { to, .. } if to == "thief"),
        "{error}"
    );
    assert!(!leadership.is_leader());
}
