//! The webhook as a component: server, certificates and configuration, wired.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use pilotage_runtime::ready::{Gate, Health};
use pilotage_runtime::serve::{ServeError, ServeLimits, TlsServer};
use pilotage_runtime::tasks::{TaskError, Tasks};
use pilotage_runtime::tls::{CertificateFiles, Certificates, RELOAD_PERIOD, TlsError};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args::{CertificateSource, Options};
use crate::certs::Material;
use crate::certs::keeper::Keeper;
use crate::install::Installer;
use crate::metrics::Metrics;
use crate::router::{Notify, router};
use crate::shares::Shares;

/// Threads that answer, at least and at most.
const FEWEST: usize = 2;
const MOST: usize = 4;
/// For open reviews to be answered once no new one is let in: no API server waits for one that long.
const LAST_ANSWERS: Duration = Duration::from_secs(15);

/// Why the webhook can't start or go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// It can't serve.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The given certificate files can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The given CA file can't be read.
    #[error("failed to read {path}: {source}")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A part of it ended.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// Runs the webhook until `token` is cancelled. Then it goes on for the time of the options, answers open requests and
/// returns. It is ready once it has a certificate and its configuration is installed. Replicas need no leader: they
/// share a Secret by compare-and-swap, and apply the same configuration.
pub fn run(
    options: Options,
    client: Client,
    metrics: Arc<Metrics>,
    notify: Arc<Notify>,
    health: Health,
    token: CancellationToken,
) -> BoxFuture<'static, Result<(), RunError>> {
    async move {
        let has_certificate = health.gate("webhook has a certificate");
        let installed = health.gate("admission configuration installed");
        let certificates = Certificates::new();
        let limits = ServeLimits {
            drain: LAST_ANSWERS,
            ..ServeLimits::default()
        };
        let server = TlsServer::bind(options.addr, &certificates, limits).await?;
        let port = server.local_addr().port();
        let mut tasks = Tasks::new(token.clone());

        let bundles = match options.certificates.clone() {
            CertificateSource::Own {
                namespace,
                secret,
                timings,
            } => {
                let names = options.reach.names();
                let keeper = Keeper::new(client.clone(), &namespace, &secret, names, timings);
                let (bundle, bundles) = watch::channel(None);
                let serve = Serve {
                    certificates,
                    bundle,
                    gate: Some(has_certificate),
                    metrics: metrics.clone(),
                };
                tasks.essential(
                    "certificate hand-over",
                    ok(serve.run(keeper.material(), token.clone())),
                );
                tasks.essential("certificate keeper", ok(keeper.run(token.clone())));
                bundles
            }
            CertificateSource::Files {
                certificate,
                key,
                ca,
            } => {
                let mut files = CertificateFiles::new(certificate, key, certificates);
                files.reload().await?;
                has_certificate.release();
                tasks.essential("certificate files", ok(files.watch(token.clone())));
                let bundle = match &ca {
                    Some(path) => Some(read(path).await?),
                    None => None,
                };
                let (bundle, bundles) = watch::channel(bundle);
                tasks.essential("CA file", ok(watch_ca(ca, bundle, token.clone())));
                bundles
            }
        };
        let needs_bundle = !matches!(
            &options.certificates,
            CertificateSource::Files { ca: None, .. }
        );
        let installer = Installer::new(client, options.scope_at(port), metrics.clone());
        tasks.essential(
            "admission configuration",
            ok(install(
                installer,
                bundles,
                needs_bundle,
                installed,
                token.clone(),
            )),
        );
        let threads = threads();
        let router = router(metrics, Shares::of(threads), notify);
        let closing = CancellationToken::new();
        let server = server.serve_apart("webhook", threads, router, closing.clone());
        tasks.essential(
            "webhook server",
            outlast(server, closing, token, options.shutdown_delay),
        );
        Ok(tasks.join().await?)
    }
    .boxed()
}

/// Runs a server, and closes it so long after the end was asked for. Some API servers learn late that this process
/// goes, and ask it until then.
async fn outlast<E>(
    server: impl Future<Output = Result<(), E>>,
    closing: CancellationToken,
    token: CancellationToken,
    delay: Duration,
) -> Result<(), E> {
    tokio::pin!(server);
    let over = async {
        token.cancelled().await;
        tokio::time::sleep(delay).await;
    };
    tokio::select! {
        ended = &mut server => return ended,
        () = over => closing.cancel(),
    }
    server.await
}

/// So many reviews are judged at once: few, since each is short, and others need cores, too; but more than one, since
/// a large pod takes fifty times as long as a usual one.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(FEWEST, NonZero::get);
    cores.clamp(FEWEST, MOST)
}

async fn ok(task: impl Future<Output = ()>) -> Result<(), std::convert::Infallible> {
    task.await;
    Ok(())
}

/// Installs nothing before there is a bundle: an API server that calls and doesn't trust us refuses pods.
async fn install(
    installer: Installer,
    mut bundles: watch::Receiver<Option<String>>,
    needs_bundle: bool,
    installed: Gate,
    token: CancellationToken,
) {
    if needs_bundle {
        let known = tokio::select! {
            () = token.cancelled() => return,
            found = bundles.wait_for(Option::is_some) => found.is_ok(),
        };
        if !known {
            // Whoever makes the certificates has ended, so the process is about to.
            return token.cancelled().await;
        }
    }
    installer.run(bundles, installed, token).await;
}

/// Puts what the keeper hands over to use.
struct Serve {
    certificates: Certificates,
    bundle: watch::Sender<Option<String>>,
    gate: Option<Gate>,
    metrics: Arc<Metrics>,
}

impl Serve {
    async fn run(
        mut self,
        mut material: watch::Receiver<Option<Material>>,
        token: CancellationToken,
    ) {
        loop {
            let now = material.borrow_and_update().clone();
            if let Some(now) = now {
                self.put_to_use(&now);
            }
            tokio::select! {
                () = token.cancelled() => return,
                changed = material.changed() => if changed.is_err() {
                    return token.cancelled().await;
                },
            }
        }
    }

    fn put_to_use(&mut self, material: &Material) {
        let serving = &material.serving;
        if let Err(error) = self
            .certificates
            .replace(serving.certificate.as_bytes(), serving.key.as_bytes())
        {
            tracing::error!(%error, "the certificate of the secret can't be served");
            return;
        }
        self.metrics.certificate_expires(serving.not_after);
        self.bundle.send_replace(Some(material.bundle()));
        if let Some(gate) = self.gate.take() {
            gate.release();
        }
        tracing::info!(not_after = %serving.not_after, ca = material.ca.name, "certificate in use");
    }
}

/// Re-reads the CA file as often as the certificate files.
async fn watch_ca(
    path: Option<PathBuf>,
    bundle: watch::Sender<Option<String>>,
    token: CancellationToken,
) {
    let Some(path) = path else {
        // Keeps the sender alive.
        token.cancelled().await;
        drop(bundle);
        return;
    };
    let mut ticks = tokio::time::interval(RELOAD_PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            _ = ticks.tick() => {}
        }
        match read(&path).await {
            Ok(text) => {
                let text = Some(text);
                bundle.send_if_modified(|current| {
                    let changed = *current != text;
                    *current = text;
                    changed
                });
            }
            Err(error) => tracing::warn!(%error, "the CA file can't be read, the old bundle stays"),
        }
    }
}

async fn read(path: &Path) -> Result<String, RunError> {
    tokio::fs::read_to_string(path)
        .await
        .map_err(|source| RunError::CaFile {
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use pilotage_runtime::shutdown::DRAIN_LIMIT;
    use tokio::time::Instant;

    use super::*;
    use crate::args::LONGEST_DELAY;

    const DELAY: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn the_server_closes_some_time_after_the_end_was_asked_for() {
        let (closing, token) = (CancellationToken::new(), CancellationToken::new());
        let closed = closing.clone();
        let server = async move {
            closed.cancelled().await;
            Ok::<_, Infallible>(())
        };
        let running = tokio::spawn(outlast(server, closing.clone(), token.clone(), DELAY));
        tokio::time::sleep(DELAY * 2).await;
        assert!(!closing.is_cancelled(), "nobody has asked");
        token.cancel();
        let asked = Instant::now();
        running.await.unwrap().unwrap();
        assert_eq!(asked.elapsed(), DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_not_waited_for() {
        let (closing, token) = (CancellationToken::new(), CancellationToken::new());
        token.cancel();
        let began = Instant::now();
        let ended = outlast(async { Err("no port") }, closing, token, DELAY).await;
        assert_eq!(ended, Err("no port"));
        assert!(began.elapsed().is_zero());
    }

    #[test]
    fn reviews_are_answered_before_the_process_gives_up() {
        assert!(LONGEST_DELAY + LAST_ANSWERS < DRAIN_LIMIT);
    }
}
