//! Owns what a running scheduler is told: out of Gardener's configuration file, and what isn't in there.

use std::time::Duration;

use pilotage_gardener::config::SchedulerConfiguration;
use pilotage_placement::{Ranking, Settings};
use pilotage_runtime::backoff::Backoff;
use pilotage_runtime::lease::{ConfigError, LeaseConfig};

/// The only kind of lock that there is.
const LEASES: &str = "leases";

/// How Shoots are scheduled.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name that Shoots ask for.
    pub scheduler: String,
    /// How Seeds are selected.
    pub settings: Settings,
    /// Shoots that are worked on at once.
    pub workers: usize,
    /// Pause after a failed attempt, by how many failed in a row.
    pub backoff: Backoff,
    /// Writes a second on average; below zero is no limit.
    pub qps: f64,
    /// Writes at once.
    pub burst: u32,
}

/// A configuration that can't be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A kind of lock that isn't there any more.
    #[error(
        "leaderElection.resourceLock: {0:?} can't be used: leases are the only locks that there are"
    )]
    Lock(String),
    /// Times that don't fit each other.
    #[error("leaderElection: {0}")]
    Lease(#[from] ConfigError),
}

impl Options {
    /// As the file says, for Shoots of `scheduler`; `settings` win over the file's strategy.
    pub fn new(
        config: &SchedulerConfiguration,
        scheduler: &str,
        settings: Option<Settings>,
    ) -> Self {
        let connection = &config.client_connection;
        Self {
            scheduler: scheduler.to_owned(),
            settings: settings.unwrap_or_else(|| Settings {
                // It has been validated.
                ranking: Ranking::Strategy(config.strategy().unwrap_or_default()),
                ..Settings::default()
            }),
            workers: usize::try_from(config.shoot_concurrent_syncs)
                .unwrap_or(1)
                .max(1),
            // client-go's default for a queue; the original relies on it.
            backoff: Backoff::new(Duration::from_millis(5), Duration::from_secs(1000)),
            qps: connection.qps,
            burst: u32::try_from(connection.burst).unwrap_or(u32::MAX),
        }
    }
}

/// The Lease that the file names; none if it wants no leader election. It is the one of gardener-scheduler, so that
/// the two never act at once.
pub fn lease(config: &SchedulerConfiguration) -> Result<Option<LeaseConfig>, OptionsError> {
    let election = &config.leader_election;
    if !election.leader_elect {
        return Ok(None);
    }
    if election.resource_lock != LEASES {
        return Err(OptionsError::Lock(election.resource_lock.clone()));
    }
    let nanos = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default());
    let lease = LeaseConfig::new(
        &election.resource_namespace,
        &election.resource_name,
        nanos(election.lease_duration),
        nanos(election.renew_deadline),
        nanos(election.retry_period),
    )?;
    Ok(Some(lease))
}

#[cfg(test)]
mod tests {
    use pilotage_gardener::DEFAULT_SCHEDULER;
    use pilotage_placement::Strategy;

    use super::*;

    fn config(more: &str) -> SchedulerConfiguration {
        let head =
            "apiVersion: scheduler.config.gardener.cloud/v1alpha1\nkind: SchedulerConfiguration\n";
        SchedulerConfiguration::parse(&format!("{head}{more}")).unwrap()
    }

    #[test]
    fn an_empty_file_is_the_original_s_defaults() {
        let config = config("");
        let options = Options::new(&config, DEFAULT_SCHEDULER, None);
        assert_eq!(
            (options.workers, options.qps, options.burst),
            (5, 50.0, 100)
        );
        assert_eq!(options.settings, Settings::default());
        let delays: Vec<_> = [1, 2, 12, 18, 19, 40]
            .map(|failures| options.backoff.delay(failures, 0.0).as_millis())
            .into();
        assert_eq!(delays, [5, 10, 10_240, 655_360, 1_000_000, 1_000_000]);
        let lease = lease(&config).unwrap().unwrap();
        assert_eq!(
            (lease.namespace(), lease.name()),
            ("garden", "gardener-scheduler-leader-election")
        );
    }

    #[test]
    fn what_the_file_says_is_done_or_refused() {
        let text = "schedulers: {shoot: {concurrentSyncs: 8, candidateDeterminationStrategy: \
            MinimalDistance}}\nclientConnection: {qps: 100, burst: 130}\nleaderElection: {leaderElect: false}";
        let given = config(text);
        let options = Options::new(&given, "mine", None);
        assert_eq!(
            (options.workers, options.qps, options.burst),
            (8, 100.0, 130)
        );
        assert_eq!(
            options.settings.ranking,
            Ranking::Strategy(Strategy::MinimalDistance)
        );
        assert_eq!(lease(&given).unwrap(), None);
        let own = Settings {
            gardener_compatible: false,
            ..Settings::default()
        };
        assert_eq!(
            Options::new(&given, "mine", Some(own.clone())).settings,
            own
        );
        for (text, message) in [
            ("leaderElection: {resourceLock: endpoints}", "only locks"),
            (
                "leaderElection: {leaseDuration: 10s, renewDeadline: 10s}",
                "two leaders may act at once",
            ),
        ] {
            let error = lease(&config(text)).unwrap_err().to_string();
            assert!(
                error.starts_with("leaderElection") && error.contains(message),
                "{error}"
            );
        }
    }
}
