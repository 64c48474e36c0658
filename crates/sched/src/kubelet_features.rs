//! Owns the features that kubelets declare and pods need: which a pod's spec implies. After the registry of Kubernetes
//! 1.36.3 (`component-helpers/nodedeclaredfeatures`), of which two features matter before a pod has a node.

use k8s_openapi::api::core::v1::PodSpec;

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KubeletFeatures(u8);

/// A container may restart all of its pod when it ends.
const RESTART_ALL_CONTAINERS: KubeletFeatures = KubeletFeatures(1);
/// A pod in the host's network may have users of its own.
const USERS_IN_HOST_NETWORK: KubeletFeatures = KubeletFeatures(1 << 1);

/// By the names that kubelets declare.
const NAMES: [(&str, KubeletFeatures); 2] = [
    (
        "RestartAllContainersOnContainerExits",
        RESTART_ALL_CONTAINERS,
    ),
    ("UserNamespacesHostNetworkSupport", USERS_IN_HOST_NETWORK),
];

impl KubeletFeatures {
    /// What a node declares, as far as pods may need it.
    pub(crate) fn declared(names: &[String]) -> Self {
        let known = NAMES
            .iter()
            .filter(|(name, _)| names.iter().any(|it| it == name));
        known.fold(Self::default(), |all, (_, feature)| all.and(*feature))
    }

    /// What a pod needs before it may come to a node.
    pub(crate) fn needed(spec: &PodSpec) -> Self {
        let mut needed = Self::default();
        let inits = spec.init_containers.iter().flatten();
        let containers = spec.containers.iter().chain(inits);
        let mut rules = containers.flat_map(|it| it.restart_policy_rules.iter().flatten());
        if rules.any(|rule| rule.action == "RestartAllContainers") {
            needed = needed.and(RESTART_ALL_CONTAINERS);
        }
        if spec.host_network == Some(true) && spec.host_users == Some(false) {
            needed = needed.and(USERS_IN_HOST_NETWORK);
        }
        needed
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `needed` is here.
    pub const fn cover(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, PodSpec};

    use super::{KubeletFeatures, RESTART_ALL_CONTAINERS, USERS_IN_HOST_NETWORK};

    fn container(action: &str) -> Container {
        Container {
            restart_policy_rules: Some(vec![
                ContainerRestartRule::default(),
                ContainerRestartRule {
                    action: action.into(),
                    ..ContainerRestartRule::default()
                },
            ]),
            ..Container::default()
        }
    }

    #[test]
    fn what_a_spec_needs() {
        let none = KubeletFeatures::default();
        let all = "RestartAllContainers";
        let apps = |action| PodSpec {
            containers: vec![Container::default(), container(action)],
            ..PodSpec::default()
        };
        let inits = |action| PodSpec {
            init_containers: Some(vec![container(action)]),
            ..PodSpec::default()
        };
        let hosts = |host_network, host_users| PodSpec {
            host_network,
            host_users,
            ..PodSpec::default()
        };
        let both = PodSpec {
            host_network: Some(true),
            host_users: Some(false),
            ..apps(all)
        };
        for (spec, needed) in [
            (apps("Restart"), none),
            (apps(all), RESTART_ALL_CONTAINERS),
            (inits("Restart"), none),
            (inits(all), RESTART_ALL_CONTAINERS),
            (hosts(Some(true), None), none),
            (hosts(Some(true), Some(true)), none),
            (hosts(Some(true), Some(false)), USERS_IN_HOST_NETWORK),
            (hosts(None, Some(false)), none),
            (both, RESTART_ALL_CONTAINERS.and(USERS_IN_HOST_NETWORK)),
        ] {
            assert_eq!(KubeletFeatures::needed(&spec), needed, "{spec:?}");
        }
    }

    #[test]
    fn what_is_declared_covers_what_is_needed() {
        let declared = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            KubeletFeatures::declared(&names)
        };
        let (restart, users) = (
            "RestartAllContainersOnContainerExits",
            "UserNamespacesHostNetworkSupport",
        );
        let both = RESTART_ALL_CONTAINERS.and(USERS_IN_HOST_NETWORK);
        assert!(declared(&["ExtendWebSocketsToKubelet"]).is_empty());
        assert!(declared(&[]).cover(KubeletFeatures::default()));
        assert!(!declared(&[]).cover(RESTART_ALL_CONTAINERS));
        assert!(declared(&[restart]).cover(RESTART_ALL_CONTAINERS));
        assert!(!declared(&[restart]).cover(both));
        assert!(!declared(&[restart]).cover(USERS_IN_HOST_NETWORK));
        assert!(declared(&["Other", restart, users]).cover(both));
    }
}
