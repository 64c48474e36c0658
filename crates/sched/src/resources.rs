//! Owns amounts of resources as integers: what pods ask for and what nodes have.
//! Knows nothing of pods and nodes.

mod sum;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

pub use self::sum::ResourceSum;
pub(crate) use self::sum::cap;
use crate::quantity::{Quantity, QuantityError};

/// CPU that a container is taken to need when it doesn't say; for scoring only. In thousandths of a core.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// Memory that a container is taken to need when it doesn't say; for scoring only. In bytes.
pub const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// Which resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceName {
    /// `cpu`, counted in thousandths of a core.
    Cpu,
    /// `memory`, in bytes.
    Memory,
    /// `ephemeral-storage`, in bytes.
    EphemeralStorage,
    /// `pods`, a count.
    Pods,
    /// Any other (extended resources, hugepages), in whole units.
    Scalar(Arc<str>),
}

impl ResourceName {
    /// The resource of this name.
    pub fn parse(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            "pods" => Self::Pods,
            other => Self::Scalar(other.into()),
        }
    }

    /// Its name in the API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Pods => "pods",
            Self::Scalar(name) => name,
        }
    }

    /// Whether it is an extended resource: outside `kubernetes.io`, with a domain.
    pub fn is_extended(&self) -> bool {
        match self {
            Self::Scalar(name) => is_extended(name),
            _ => false,
        }
    }
}

/// Whether a scalar's name is that of an extended resource: it has a domain, and not one of Kubernetes' own, and a
/// quota could name it. As in kube-scheduler 1.36.3 (`IsExtendedResourceName`).
pub fn is_extended(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else {
        return false;
    };
    !name.contains(NATIVE)
        && !name.starts_with(QUOTA)
        && is_domain(domain)
        && domain.len() <= LONGEST_DOMAIN.saturating_sub(QUOTA.len())
        && is_bare_name(rest)
}

/// What makes a name one of Kubernetes' own.
const NATIVE: &str = "kubernetes.io/";
/// What a quota puts before the names of resources.
const QUOTA: &str = "requests.";
const LONGEST_DOMAIN: usize = 253;
const LONGEST_BARE_NAME: usize = 63;

/// Whether it is dot-separated labels of lower-case letters, digits and inner dashes.
fn is_domain(text: &str) -> bool {
    text.split('.').all(|label| {
        let dash_ends = label.starts_with('-') || label.ends_with('-');
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && !dash_ends && label.bytes().all(allowed)
    })
}

/// Whether it is letters, digits and, inside, `-`, `_` and `.`.
fn is_bare_name(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= LONGEST_BARE_NAME
        && ends
            .iter()
            .all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether kube-scheduler counts a resource of this name, beside those that have fields of their own: extended ones,
/// huge pages, Kubernetes' own with a domain, attachable volumes.
fn is_scalar(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains(NATIVE)
        || is_extended(name)
}

/// Amounts of all resources, as numbers `N`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Amounts<N> {
    /// CPU in thousandths of a core.
    pub milli_cpu: N,
    /// Memory in bytes.
    pub memory: N,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: N,
    /// Number of pods; only for what a node has.
    pub pods: N,
    // Sorted by name, without zeros. A handful at most, so that a vector beats a map.
    scalars: Vec<(Arc<str>, N)>,
}

/// What one pod asks for, or one node has. Sums over pods and nodes are [`ResourceSum`]s.
pub type Resources = Amounts<i64>;

impl<N: Copy + Default + PartialEq> Amounts<N> {
    /// The amount of one resource.
    pub fn get(&self, name: &ResourceName) -> N {
        match name {
            ResourceName::Cpu => self.milli_cpu,
            ResourceName::Memory => self.memory,
            ResourceName::EphemeralStorage => self.ephemeral_storage,
            ResourceName::Pods => self.pods,
            ResourceName::Scalar(name) => self.scalar(name),
        }
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: &ResourceName, amount: N) {
        match name {
            ResourceName::Cpu => self.milli_cpu = amount,
            ResourceName::Memory => self.memory = amount,
            ResourceName::EphemeralStorage => self.ephemeral_storage = amount,
            ResourceName::Pods => self.pods = amount,
            ResourceName::Scalar(name) => self.set_scalar(name, amount),
        }
    }

    /// The amount of a scalar resource; 0 if there is none.
    pub fn scalar(&self, name: &str) -> N {
        self.find(name)
            .map_or(N::default(), |at| self.scalars[at].1)
    }

    /// The scalar resources with an amount other than 0, by name.
    pub fn scalars(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, N)> {
        self.scalars.iter().map(|(name, amount)| (name, *amount))
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.scalars
            .binary_search_by(|(known, _)| (**known).cmp(name))
    }

    fn set_scalar(&mut self, name: &Arc<str>, amount: N) {
        let none = amount == N::default();
        match self.find(name) {
            Ok(at) if none => {
                self.scalars.remove(at);
            }
            Ok(at) => self.scalars[at].1 = amount,
            Err(_) if none => {}
            Err(at) => self.scalars.insert(at, (name.clone(), amount)),
        }
    }

    fn combine<M: Copy>(&mut self, other: &Amounts<M>, with: impl Fn(N, M) -> N) {
        self.milli_cpu = with(self.milli_cpu, other.milli_cpu);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        self.pods = with(self.pods, other.pods);
        for (name, amount) in &other.scalars {
            self.set_scalar(name, with(self.scalar(name), *amount));
        }
    }
}

impl Resources {
    /// Reads a resource list. What can't be read is left out and given to `defect` with its name; less than nothing is
    /// nothing, so that nobody makes room by asking for it. Names that kube-scheduler doesn't know aren't counted.
    pub fn parse(
        list: &BTreeMap<String, ApiQuantity>,
        mut defect: impl FnMut(&str, QuantityError),
    ) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list {
            match Quantity::parse(&quantity.0) {
                Ok(quantity) => resources.put(name, quantity),
                Err(error) => defect(name, error),
            }
        }
        resources
    }

    /// Rounds exact amounts, each name once.
    pub(crate) fn rounded<'a>(amounts: impl Iterator<Item = (&'a str, Quantity)>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in amounts {
            resources.put(name, quantity);
        }
        resources
    }

    fn put(&mut self, name: &str, quantity: Quantity) {
        let name = ResourceName::parse(name);
        let amount = match &name {
            ResourceName::Scalar(name) if !is_scalar(name) => return,
            ResourceName::Cpu => quantity.milli_value(),
            _ => quantity.value(),
        };
        self.set(&name, amount.max(0));
    }

    /// Raises each amount to at least the other's.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    /// Whether nothing is asked for (`pods` aside).
    pub fn is_zero(&self) -> bool {
        self.milli_cpu == 0
            && self.memory == 0
            && self.ephemeral_storage == 0
            && self.scalars.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

    use super::{Resources, is_extended};
    use crate::quantity::QuantityError;

    fn list(entries: &[(&str, &str)]) -> BTreeMap<String, ApiQuantity> {
        entries
            .iter()
            .map(|(k, v)| ((*k).into(), ApiQuantity((*v).into())))
            .collect()
    }

    #[test]
    fn reads_what_it_can_and_tells_the_rest() {
        let mut defects = Vec::new();
        let read = Resources::parse(
            &list(&[
                ("cpu", "1500m"),
                ("memory", "1Mi"),
                ("a.b/gpu", "2"),
                ("x.y/z", "two"),
            ]),
            |name, error| defects.push((name.to_owned(), error)),
        );
        assert_eq!(
            (read.milli_cpu, read.memory, read.scalar("a.b/gpu")),
            (1500, 1 << 20, 2)
        );
        assert_eq!(defects, [("x.y/z".to_owned(), QuantityError::NoNumber)]);
    }

    #[test]
    fn less_than_nothing_is_nothing_and_too_much_is_the_most() {
        for (quantity, milli_cpu, memory) in [
            ("-1", 0, 0),
            ("-9223372036854775808", 0, 0),
            ("9223372036854775807", i64::MAX, i64::MAX),
            ("9e30", i64::MAX, i64::MAX),
        ] {
            let read =
                Resources::parse(&list(&[("cpu", quantity), ("memory", quantity)]), |_, _| {
                    panic!("{quantity}")
                });
            assert_eq!(
                (read.milli_cpu, read.memory),
                (milli_cpu, memory),
                "{quantity}"
            );
        }
    }

    #[test]
    fn extended_resources_have_a_foreign_domain() {
        for (name, extended) in [
            ("nvidia.com/gpu", true),
            ("hugepages-2Mi", false),
            ("kubernetes.io/batch", false),
            ("x.kubernetes.io/batch", false),
            ("requests.nvidia.com/gpu", false),
            ("NVIDIA.com/gpu", false),
            ("nvidia.com/g/pu", false),
            ("nvidia..com/gpu", false),
            ("-nvidia.com/gpu", false),
            ("/gpu", false),
            ("nvidia.com/", false),
            ("nvidia.com/GPU_v1.2", true),
            ("nvidia.com/gpu-", false),
        ] {
            assert_eq!(is_extended(name), extended, "{name}");
        }
        let long = |length| format!("{}/gpu", "a".repeat(length));
        assert_eq!(
            [244, 245].map(|length| is_extended(&long(length))),
            [true, false]
        );
    }

    #[test]
    fn only_names_that_the_scheduler_knows_count() {
        for (name, counts) in [
            ("a.b/gpu", true),
            ("hugepages-2Mi", true),
            ("kubernetes.io/batch", true),
            ("attachable-volumes-csi-x", true),
            ("gpu", false),
            ("storage", false),
            ("A.b/gpu", false),
        ] {
            let read = Resources::parse(&list(&[(name, "2")]), |_, _| panic!("{name}"));
            assert_eq!(read.scalars().len(), usize::from(counts), "{name}");
        }
    }
}
