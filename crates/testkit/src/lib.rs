//! Real control planes for tests and the demo, object builders, waiting on watches. Development only.
//!
//! There is no fake API server here, but for one that plays a hostile target: etcd, kube-apiserver and, as asked,
//! kube-controller-manager, kube-scheduler and kwok run as plain processes on free ports of the loopback address. A
//! plane of etcd and API server is ready in about two and a half seconds and takes 0.4 GiB. `make tools` provides the
//! binaries; logs stay in `target/testkit/`.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::api::PostParams;
//! use pilotage_testkit::build::{node, pod};
//! use pilotage_testkit::{ControlPlane, wait_for};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let plane = ControlPlane::builder("source")
//!     .controller_manager()
//!     .scheduler()
//!     .kwok([node("small").cpu("2").build(), node("large").cpu("16").label("tier", "gold").build()])
//!     .start()
//!     .await?;
//! let namespace = plane.namespace("example").await?;
//! let pods = namespace.api::<Pod>();
//! pods.create(&PostParams::default(), &pod("a").request("cpu", "4").build()).await?;
//! let is_running = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
//! let pod = wait_for(&pods, "a", is_running, Duration::from_secs(30)).await?;
//! assert_eq!(pod.spec.and_then(|spec| spec.node_name).as_deref(), Some("large"));
//! plane.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! - **Sharing**: tests of one binary share planes with [`shared::plane`] and take a [`TestNamespace`] each. A test
//!   that breaks a plane or needs cluster-scoped objects starts its own.
//! - **Using again**: tests that have planes of their own may take the API servers of those that have ended, cleaned:
//!   by [`Builder::used_again`], or all of a process by [`plane::REUSE_VARIABLE`].
//! - **Faults**: [`ControlPlane::kill`], [`ControlPlane::signal`] and [`ControlPlane::restart`] for each [`Part`], the
//!   same for a [`PilotageProcess`], and a [`FaultProxy`] in front of an API server for everything between the two.
//! - **Lies**: a [`HostileServer`] plays the API server of a target cluster and answers whatever a test says, and
//!   [`ControlPlane::tenant`] gives somebody who may lead pods there.
//! - **Streams**: a [`StreamServer`](streams::StreamServer) in front of a target's API server plays logs and shells of
//!   its pods.
//! - **Terminals**: a program such as `kubectl exec -it` sits at a [`Terminal`], where a test types and looks.
//! - **No process outlives the run**, even if the test process is killed with SIGKILL: see [`supervisor`].
//! - **Rights**: every API server logs what service accounts ask for, and [`usage`] tells which parts of Pilotage used
//!   which rights in a whole run of all tests.
//! - **Waiting** is done on watches ([`wait`], [`record`], and [`history`] where API servers themselves are broken);
//!   only the first answer of a process that was just started is polled for ([`ready`]).

pub mod access;
pub mod apply;
pub mod build;
pub mod cli;
mod clock;
pub mod collector;
mod create;
mod dirs;
mod dry_run;
pub mod fault;
pub mod gardener;
pub mod history;
pub mod hostile;
pub mod namespace;
pub mod pilotage;
pub mod plane;
pub mod ports;
pub mod process;
pub mod ready;
pub mod record;
pub mod shared;
mod store;
pub mod streams;
pub mod supervisor;
pub mod terminal;
pub mod tls;
pub mod tools;
pub mod usage;
pub mod wait;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

pub use access::Access;
pub use create::create;
pub use dirs::{RunDir, runs, workspace_root};
pub use dry_run::wait_admission;
pub use fault::FaultProxy;
pub use history::History;
pub use hostile::HostileServer;
pub use namespace::TestNamespace;
pub use pilotage::PilotageProcess;
pub use plane::{Builder, ControlPlane, Part, audit, bindings};
pub use record::{Change, Recorded, Recorder};
pub use supervisor::Signal;
pub use terminal::Terminal;
pub use wait::{LIMIT, WaitError, list_until, wait_count, wait_for, wait_gone};

/// Ten characters that no other call, thread or process gets; good as part of a DNS label.
pub fn unique() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    // The hasher is seeded by the operating system.
    let hash = RandomState::new().hash_one(std::process::id());
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{:07x}{:03x}", hash & 0x0fff_ffff, count & 0xfff)
}
