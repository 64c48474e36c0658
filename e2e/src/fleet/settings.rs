//! What differs from fleet to fleet: how Pilotage is laid out, how long its Leases last, and whether it can be cut off.

use std::net::Ipv4Addr;
use std::time::Duration;

use pilotage_api::Right;

/// Into how many processes the parts are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One, with the roles of all parts.
    OneProcess,
    /// One a part, each under its own roles.
    ProcessAPart,
    /// The same, under the roles and with the arguments of the chart, which Helm has installed.
    Chart,
}

/// Times of leader election; see `pilotage controllers --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long the others wait; whole seconds.
    pub duration: Duration,
    /// How long a leader that can't renew goes on; shorter.
    pub renew_deadline: Duration,
    /// How often it renews; shorter still.
    pub retry_period: Duration,
}

impl LeaseTimes {
    /// A machine that is busy with tests is no reason to give up a Lease: nobody would start the process again.
    const PATIENT: Self = Self {
        duration: Duration::from_secs(90),
        renew_deadline: Duration::from_secs(80),
        retry_period: Duration::from_secs(2),
    };

    pub(super) fn flags(self) -> [String; 3] {
        let flag = |name: &str, time: Duration| format!("--{name}={}ms", time.as_millis());
        [
            flag("lease-duration", self.duration),
            flag("renew-deadline", self.renew_deadline),
            flag("retry-period", self.retry_period),
        ]
    }
}

/// What the clusters of a fleet have in common.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) layout: Layout,
    pub(super) lease: LeaseTimes,
    /// Commands that have a second replica.
    pub(super) standbys: Vec<&'static str>,
    /// Whether everybody reaches API servers through fault proxies.
    pub(super) faults: bool,
    /// Where the source's virtual nodes have a kubelet.
    pub(super) kubelet: Option<Ipv4Addr>,
    /// Namespaces of the source whose Secrets Pilotage may read there; none: all.
    pub(super) namespaces: Vec<String>,
    /// Rights that targets are installed with, and that they give to their sources.
    pub(super) rights: Vec<Right>,
    /// Kinds that follow pods from the source, as its flag names them.
    pub(super) follow: Vec<&'static str>,
    /// Seconds that clocks are ahead in the source.
    pub(super) clocks_off: Option<i64>,
    /// Flags, each with the command that it is for, or for every one.
    flags: Vec<(Option<&'static str>, String)>,
}

impl Settings {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            lease: LeaseTimes::PATIENT,
            standbys: Vec::new(),
            faults: false,
            kubelet: None,
            namespaces: Vec::new(),
            rights: Vec::new(),
            follow: Vec::new(),
            clocks_off: None,
            flags: Vec::new(),
        }
    }

    pub(super) fn add_flag(&mut self, command: Option<&'static str>, flag: &str) {
        self.flags.push((command, flag.to_owned()));
    }

    /// The flag that names namespaces for Secrets, if there are any.
    pub(super) fn namespaces_flag(&self) -> Option<String> {
        let names = self.namespaces.join(",");
        (!names.is_empty()).then(|| format!("--target-namespaces={names}"))
    }

    /// The flag of `pilotage rbac` for rights that sources may be given, if there are any.
    pub(super) fn rights_flag(&self) -> Option<String> {
        let flags: Vec<&str> = self.rights.iter().map(|right| right.flag()).collect();
        (!flags.is_empty()).then(|| format!("--rights={}", flags.join(",")))
    }

    /// The flag that names what follows pods, if anything does.
    pub(super) fn follow_flag(&self) -> Option<String> {
        let kinds = self.follow.join(",");
        (!kinds.is_empty()).then(|| format!("--follow={kinds}"))
    }

    pub(super) fn flags_of(&self, command: &str) -> impl Iterator<Item = String> {
        let fitting = self
            .flags
            .iter()
            .filter(move |(of, _)| of.is_none_or(|of| of == command || command == "all"));
        fitting.map(|(_, flag)| flag.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_go_to_whom_they_are_for() {
        let mut settings = Settings::new(Layout::ProcessAPart);
        settings.add_flag(None, "--log-level=debug");
        settings.add_flag(Some("controllers"), "--target-probe-period=1s");
        let of = |command| settings.flags_of(command).collect::<Vec<_>>();
        assert_eq!(of("webhook"), ["--log-level=debug"]);
        assert_eq!(
            of("controllers"),
            ["--log-level=debug", "--target-probe-period=1s"]
        );
        assert_eq!(settings.namespaces_flag(), None);
        settings.namespaces = vec!["a".to_owned(), "b".to_owned()];
        let named = settings.namespaces_flag();
        assert_eq!(named.as_deref(), Some("--target-namespaces=a,b"));
        assert_eq!(
            (settings.rights_flag(), settings.follow_flag()),
            (None, None)
        );
        settings.rights = vec![Right::Logs, Right::FollowSecrets];
        settings.follow = vec!["configmaps", "secrets"];
        let flag = settings.rights_flag();
        assert_eq!(flag.as_deref(), Some("--rights=logs,follow-secrets"));
        let flag = settings.follow_flag();
        assert_eq!(flag.as_deref(), Some("--follow=configmaps,secrets"));
        let lease = LeaseTimes::PATIENT.flags();
        assert_eq!(lease[0], "--lease-duration=90000ms");
    }
}
