//! The task that keeps one target's facts current: secret → client → probe → permissions.
//!
//! Each target has its own, so that a dead one delays nobody. Everything it waits for is in one `select!`: a new
//! secret, a new spec, the next probe. What follows from a probe is decided in `probe`. A panic loses that target until
//! the task has begun anew.

mod clients;
mod credentials;
mod permissions;

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use pilotage_runtime::call::Failure;
use pilotage_runtime::moment::from_now;
use pilotage_runtime::throttle::{Throttle, Unthrottled};
use tokio::time::{Instant, sleep, sleep_until};

use crate::args::Options;
use crate::connection::{Connection, LostReason, Since};
use crate::door;
use crate::identity;
use crate::key::TargetObject;
use crate::pace::Pace;
use crate::probe::{self, Prober};
use crate::seats::SEATS;
use crate::secrets::{Held, Secrets};
use crate::spec::Access;
use crate::target::Target;
use crate::trial::Trial;
use credentials::{Credentials, Source, read};

/// So often the question who it is may stay open before a target isn't believed any more.
const UNANSWERED: u32 = 3;
/// Time between a doubt and the probe that settles it.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// Keeps `target` current until it is removed.
pub(crate) fn run(
    target: Arc<Target>,
    local: Client,
    secrets: Secrets,
    options: Options,
) -> BoxFuture<'static, ()> {
    let work = supervise(target.clone(), local, secrets, options);
    Box::pin(guard(target, work))
}

/// Nobody looks after the target between a panic in this work and its next begin: until then nobody knows how it is.
async fn guard(target: Arc<Target>, work: impl Future<Output = ()>) {
    if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
        target.set_session(None);
        target.lose(LostReason::Internal);
        resume_unwind(panic);
    }
}

async fn supervise(target: Arc<Target>, local: Client, secrets: Secrets, options: Options) {
    let removed = target.removed().clone();
    let connection = Supervisor::new(target.clone(), local, secrets, options.clone()).run();
    let permissions = permissions::review(target, options);
    let work = Box::pin(async { tokio::join!(connection, permissions) });
    removed.run_until_cancelled(work).await;
}

struct Supervisor {
    target: Arc<Target>,
    /// What a target that is this very cluster is spoken to by.
    local: Client,
    /// The same for probes.
    own: Client,
    secrets: Secrets,
    options: Options,
    prober: Prober,
    realm: u64,
    /// What holds back requests, but for those that tell whether it is there, and which one.
    throttle: Option<Throttle>,
    /// The client of the present session, without that.
    unthrottled: Option<Client>,
    /// Server and its authority: another value may be another cluster.
    place: Option<(String, Option<Vec<Vec<u8>>>)>,
    /// These credentials haven't led to the target yet: nobody gets a client of them before that.
    unproved: bool,
    /// Version of the Secret that was read last.
    version: Option<String>,
    /// Whether what is in it has been tried.
    tried: bool,
    /// When new credentials may be read.
    pace: Pace,
    /// When the target last said who it is.
    identified: Option<Instant>,
    /// How often it has been asked since, and had no time.
    unanswered: u32,
}

impl Supervisor {
    fn new(target: Arc<Target>, local: Client, secrets: Secrets, options: Options) -> Self {
        // Who supervised it before may have seen another cluster.
        let realm = target.next_number();
        let throttle = options.rate;
        let throttle = throttle.map(|rate| Throttle::new(rate, "--target-api-qps"));
        let own = options.unthrottled.as_ref();
        let own = own.map_or(&local, |Unthrottled(client)| client).clone();
        target.set_trial(Trial::of(&options));
        Self {
            target,
            local,
            own,
            secrets,
            options,
            prober: Prober::default(),
            realm,
            throttle,
            unthrottled: None,
            place: None,
            unproved: false,
            version: None,
            tried: false,
            pace: Pace::default(),
            identified: None,
            unanswered: 0,
        }
    }

    async fn run(mut self) {
        let (mut objects, mut seats) = (self.target.objects(), self.target.seat());
        loop {
            let access = objects.borrow_and_update().access.clone();
            let seat = *seats.borrow_and_update();
            // The senders live in the target, which lives in `self`.
            let changed = async {
                tokio::select! {
                    _ = objects.wait_for(|object: &Arc<TargetObject>| object.access != access) => {}
                    _ = seats.wait_for(|now| *now != seat) => {}
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = self.serve(&access, seat) => {}
            }
        }
    }

    /// Runs as long as the target is reached in this way, if it may be; never ends by itself.
    async fn serve(&mut self, access: &Result<Access, crate::spec::SpecFault>, seat: Option<bool>) {
        match (seat, self.target.key().namespace.clone()) {
            (Some(false), Some(namespace)) => {
                let most = SEATS;
                let reason = LostReason::TooManyTargets { namespace, most };
                return self.never(None, reason).await;
            }
            (None, _) => return std::future::pending().await,
            _ => {}
        }
        let secret = match access {
            Ok(Access::Local) => None,
            Ok(Access::Secret(secret)) if !self.options.namespaces.allows(&secret.namespace) => {
                let reason = LostReason::NamespaceNotAllowed(secret.clone());
                return self.never(None, reason).await;
            }
            Ok(Access::Secret(secret)) => Some(secret),
            Err(fault) => {
                let reason = LostReason::InvalidSpec(*fault);
                return self.never(Some(false), reason).await;
            }
        };
        let mut held = secret.map(|secret| self.secrets.follow(secret));

        let mut current: Option<Credentials> = None;
        let mut last: Option<Credentials> = None;
        let mut objects = self.target.objects();
        objects.mark_unchanged();
        let mut source: Option<Source> = None;
        let mut holds = None;
        let mut next_probe = Instant::now();
        loop {
            let (mut found, object) = match (secret, &mut held) {
                (Some(secret), Some(held)) => {
                    let seen = held.seen();
                    (read(secret, &seen), seen.secret().cloned())
                }
                _ => (Some(Ok(Credentials::Local)), None),
            };
            self.tried &= found.is_some();
            // A namespace that is deleted takes the secret along before its Target, which still has to clean up there.
            if let (Some(Err(LostReason::SecretMissing(_))), Some(last), true) =
                (&found, &last, self.target.object().is_deleting())
            {
                found = Some(Ok(last.clone()));
            }
            match found {
                // Not known yet; a client that exists (of an earlier spec) is of no use any more.
                None => {
                    self.target.set_session(None);
                    if self.target.is_connected() {
                        self.target.set_connection(Connection::Connecting);
                    }
                }
                Some(Ok(credentials)) if current.as_ref() == Some(&credentials) => {
                    // Of the versions that hold the same one is kept.
                    if source.is_some() {
                        last = Some(credentials.clone());
                    }
                    current = Some(credentials);
                }
                Some(Ok(credentials)) => {
                    if let Err(then) = self.pace.take(Instant::now()) {
                        // By then there may be others.
                        sleep_until(then).await;
                        continue;
                    }
                    match self.open(&credentials) {
                        Ok(opened) => {
                            self.tried = false;
                            source = Some(opened);
                            last = Some(credentials.clone());
                            holds = secret.map(|_| true);
                        }
                        Err(reason) => {
                            source = None;
                            // Where it leads is another question.
                            holds = Some(matches!(reason, LostReason::Refused { .. }));
                            self.shut(reason);
                        }
                    }
                    current = Some(credentials);
                    next_probe = Instant::now();
                }
                Some(Err(reason)) => {
                    (current, source) = (None, None);
                    if !matches!(reason, LostReason::SecretUnreadable { .. }) {
                        holds = Some(false);
                    }
                    self.shut(reason);
                }
            }
            self.target.set_kubeconfig(holds);
            // The same kubeconfig in a newer version of its Secret is as good as tried.
            let version = object.as_ref().map(|it| &it.metadata.resource_version);
            self.version = version.cloned().flatten();
            self.target.set_secret(object);
            self.tell_tried();
            tokio::select! {
                biased;
                () = changed(&mut held) => {}
                _ = objects.changed() => {}
                delay = self.probe(source.as_ref(), next_probe) => next_probe = from_now(delay),
            }
        }
    }

    /// After the state of the connection, since that is what it is about.
    fn tell_tried(&self) {
        if self.tried {
            self.target.set_tried(self.version.as_deref());
        }
    }

    /// There is no way to try; whether the Secret holds a kubeconfig, as far as anybody may look.
    async fn never(&mut self, holds: Option<bool>, reason: LostReason) {
        self.target.set_kubeconfig(holds);
        self.target.set_secret(None);
        self.version = None;
        self.shut(reason);
        self.tell_tried();
        std::future::pending::<()>().await;
    }

    /// Asks the cluster behind `client` who it is, if it didn't say so lately. Who has never said so is asked with each
    /// probe, since what is put there before can't be told from what is put elsewhere later.
    ///
    /// A client that nobody has yet (`fresh`) is given to nobody without an answer.
    async fn identify(&mut self, client: &Client, fresh: bool) -> Result<(), LostReason> {
        let period = self.options.identify;
        if self.identified.is_some_and(|at| at.elapsed() < period) {
            return Ok(());
        }
        let asked = Instant::now();
        let told = match identity::told(client, self.options.probe.timeout).await {
            Ok(told) => told,
            Err(error) if door::offence_of_call(&error).is_some() => {
                return Err(probe::reason(&error));
            }
            // It has just answered the probe: whoever was recognized and has no time now is asked with the next one.
            Err(error) if error.kind() == Failure::Throttled || error.is_open() => {
                self.unanswered = self.unanswered.saturating_add(1);
                return match self.target.known_identity() {
                    _ if !fresh && self.unanswered < UNANSWERED => Ok(()),
                    Some(known) => Err(LostReason::Unidentified { known }),
                    None => Err(probe::reason(&error)),
                };
            }
            Err(error) => return Err(probe::reason(&error)),
        };
        self.unanswered = 0;
        let said = told.is_some();
        if let Some(news) = identity::recognize(self.target.known_identity(), told)? {
            self.target.set_identity(news);
        }
        self.identified = said.then_some(asked);
        Ok(())
    }

    /// Nobody talks any more to what may be another cluster, nor goes on from its versions.
    fn withdraw(&mut self) {
        self.unproved = true;
        self.realm = self.target.next_number();
        self.target.set_session(None);
    }

    fn shut(&mut self, reason: LostReason) {
        self.tried = true;
        self.prober.reset();
        self.target.set_session(None);
        self.target.lose(reason);
    }

    /// Probes at `at`, or soon if somebody doubts the connection, and acts on it; time to the next one. Without a
    /// source there is nothing to probe.
    async fn probe(&mut self, source: Option<&Source>, at: Instant) -> Duration {
        let Some(source) = source else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = sleep_until(at) => {}
            // Not at once: one broken connection breaks many calls, which are one reason.
            () = self.target.doubt.notified() => {
                // What broke may have been the connection to a cluster that gave its address to another one.
                self.identified = None;
                sleep(DOUBT_PAUSE).await;
            }
        }
        let state = self.target.connection();
        let lost = state.lost().is_some();
        // Credentials that haven't been proved have no client yet; and after a loss each probe has connections of its
        // own: pooled ones may be dead without knowing it.
        let fresh = lost || self.unproved;
        let known = self.target.client().and(self.unthrottled.clone());
        let client = match (fresh, known) {
            (false, Some(client)) => client,
            (true, _) | (false, None) => match self.make(source) {
                Ok(client) => client,
                Err(fault) => {
                    self.target.lose(LostReason::Unreachable(fault.to_string()));
                    return self.options.probe.period;
                }
            },
        };
        if fresh {
            self.identified = None;
        }
        let mut outcome = probe::ask(&client, self.options.probe.timeout).await;
        if outcome.is_ok() {
            outcome = self.identify(&client, fresh).await;
        }
        // Whoever answers his probe and nothing else that an API server has to is no better than one who is silent.
        if outcome.is_ok()
            && let Some(offence) = self.target.offences.worst()
        {
            outcome = Err(offence);
        }
        if matches!(&outcome, Err(reason) if reason.is_strange()) {
            self.withdraw();
        }
        if outcome.is_ok() && fresh {
            self.unproved = false;
            let streams = self.streams(source);
            self.publish(source, client, streams);
        }
        let answered = outcome.is_ok();
        let verdict = self
            .prober
            .judge(outcome, &state, Since::now(), &self.options.probe);
        if let Some(connection) = verdict.change {
            if matches!(connection, Connection::Connected { .. }) && !lost {
                tracing::debug!(target_key = %self.target.key(), "first answer");
            }
            self.target.set_connection(connection);
        }
        // One failure isn't the loss of a target that was connected by an earlier kubeconfig.
        self.tried |= answered || self.target.connection().lost().is_some();
        self.tell_tried();
        verdict.next
    }
}

/// Completes when something else is known of a Secret; never, if there is none.
async fn changed(held: &mut Option<Held>) {
    match held {
        Some(held) => held.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "supervise/tests.rs"]
mod tests;
