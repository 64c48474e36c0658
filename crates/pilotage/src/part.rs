//! The parts that a process can be made of: their names and the rules that their roles consist of.

use std::fmt;

use clap::ValueEnum;
use pilotage_api::Right;
use pilotage_controllers::follow::{self, FollowedKind};
use pilotage_controllers::source;
use pilotage_runtime::rbac::Rule;

use crate::cmd;

/// A part of Pilotage that runs on its own under a role of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// Turns elected pods into proxy pods (source).
    Webhook,
    /// Keeps targets, virtual nodes, sources, chaperons and statuses in order (source and target).
    Controllers,
    /// Chooses a target for each proxy pod (source).
    ProxyScheduler,
    /// Reserves and binds candidates (target).
    CandidateScheduler,
    /// Places Gardener's Shoots (a garden). Runs on its own.
    GardenerScheduler,
    /// Gives pods nodes of their own cluster (any cluster). Runs on its own.
    Scheduler,
}

/// What an installation does beyond what every one does: each has rules of its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extras {
    /// Rights that sources may be given here.
    pub(crate) rights: Vec<Right>,
    /// What follows pods from here into targets.
    pub(crate) follow: Vec<FollowedKind>,
    /// Whether the controllers answer for the kubelets of virtual nodes.
    pub(crate) kubelet: bool,
}

impl Part {
    /// Those of a source or a target, which "all" runs.
    pub(crate) const ALL: [Self; 4] = [
        Self::Webhook,
        Self::Controllers,
        Self::ProxyScheduler,
        Self::CandidateScheduler,
    ];

    /// One of those that "all" runs, by name.
    pub(crate) fn of_all(name: &str) -> Result<Self, String> {
        let part = <Self as ValueEnum>::from_str(name, false).ok();
        part.filter(|part| Self::ALL.contains(part)).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("expected one of {}", names.join(", "))
        })
    }

    /// Name of its command and its client.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Controllers => "controllers",
            Self::ProxyScheduler => "proxy-scheduler",
            Self::CandidateScheduler => "candidate-scheduler",
            Self::GardenerScheduler => "gardener-scheduler",
            Self::Scheduler => "scheduler",
        }
    }

    /// Name of its roles and its Lease in a cluster.
    pub(crate) fn object_name(self) -> String {
        format!("pilotage-{}", self.name())
    }

    /// Whether it writes the record of proxy pods. The policy that guards records must let no other part's account.
    pub(crate) const fn writes_records(self) -> bool {
        match self {
            Self::Controllers | Self::ProxyScheduler => true,
            Self::Webhook
            | Self::CandidateScheduler
            | Self::GardenerScheduler
            | Self::Scheduler => false,
        }
    }

    /// What it may do: the tables of all components that it is made of, and of these extras.
    pub(crate) fn rules(self, extras: &Extras) -> Vec<&'static Rule> {
        let tables: &[&[Rule]] = match self {
            Self::Webhook => cmd::webhook::RULES,
            Self::Controllers => cmd::controllers::RULES,
            Self::ProxyScheduler => cmd::proxy_scheduler::RULES,
            Self::CandidateScheduler => cmd::candidate_scheduler::RULES,
            Self::GardenerScheduler => cmd::gardener_scheduler::RULES,
            Self::Scheduler => cmd::scheduler::RULES,
        };
        let mut rules: Vec<_> = tables.iter().copied().flatten().collect();
        if self == Self::Controllers {
            let rights = extras.rights.iter();
            rules.extend(rights.flat_map(|right| source::rbac::giving_rules(*right)));
            let follow = extras.follow.iter();
            rules.extend(follow.flat_map(|kind| follow::rbac::rules(*kind)));
            if extras.kubelet {
                rules.extend(pilotage_vnode::kubelet::rbac::RULES);
            }
        }
        rules
    }

    /// Roles that it gives to others, by name.
    pub(crate) fn given_roles(self, extras: &Extras) -> Vec<(&'static str, &'static [Rule])> {
        match self {
            Self::Controllers => {
                let rights = extras.rights.iter();
                let rights = rights.map(|it| (it.role(), source::rbac::right_rules(*it)));
                let always = cmd::controllers::GIVEN_ROLES.iter().copied();
                always.chain(rights).collect()
            }
            Self::Webhook
            | Self::ProxyScheduler
            | Self::CandidateScheduler
            | Self::GardenerScheduler
            | Self::Scheduler => Vec::new(),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_may_do_everything() {
        for part in Part::value_variants() {
            let rules = part.rules(&Extras {
                rights: Right::ALL.to_vec(),
                follow: FollowedKind::ALL.to_vec(),
                kubelet: true,
            });
            assert!(!rules.is_empty(), "{part}");
            for rule in rules {
                for list in [rule.groups, rule.resources, rule.verbs] {
                    assert!(!list.contains(&"*"), "{part}: {rule:?}");
                }
            }
        }
    }
}
