//! Amounts as Kubernetes writes them: one spelling an amount, so that equal amounts are equal texts.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilotage_api::summary::ResourceList;
use pilotage_sched::resources::{ResourceName, Resources};

/// All amounts that aren't zero; CPU, memory and pods always.
pub(crate) fn list(resources: &Resources) -> ResourceList {
    let mut list = ResourceList::new();
    if resources.is_zero() && resources.pods == 0 {
        return list;
    }
    for name in [ResourceName::Cpu, ResourceName::Memory, ResourceName::Pods] {
        list.insert(
            name.as_str().to_owned(),
            quantity(&name, resources.get(&name)),
        );
    }
    if resources.ephemeral_storage != 0 {
        let name = ResourceName::EphemeralStorage;
        list.insert(
            name.as_str().to_owned(),
            quantity(&name, resources.ephemeral_storage),
        );
    }
    for (name, amount) in resources.scalars() {
        list.insert(
            name.to_string(),
            quantity(&ResourceName::Scalar(name.clone()), amount),
        );
    }
    list
}

/// What of a capacity is allocatable. An API server takes an empty list for all of the node's capacity, so that nothing
/// is said in numbers.
pub(crate) fn allocatable(resources: &Resources, capacity: &ResourceList) -> ResourceList {
    let list = list(resources);
    if list.is_empty() && !capacity.is_empty() {
        let names = [ResourceName::Cpu, ResourceName::Memory, ResourceName::Pods];
        return of(names.map(|name| (name, 0)));
    }
    list
}

/// These amounts.
pub(crate) fn of(amounts: impl IntoIterator<Item = (ResourceName, i64)>) -> ResourceList {
    amounts
        .into_iter()
        .map(|(name, amount)| (name.as_str().to_owned(), quantity(&name, amount)))
        .collect()
}

/// One amount, in thousandths for CPU.
fn quantity(name: &ResourceName, amount: i64) -> Quantity {
    Quantity(match name {
        ResourceName::Cpu if amount % 1000 == 0 => (amount / 1000).to_string(),
        ResourceName::Cpu => format!("{amount}m"),
        ResourceName::Memory | ResourceName::EphemeralStorage => binary(amount),
        ResourceName::Scalar(name) if name.starts_with("hugepages-") => binary(amount),
        ResourceName::Pods | ResourceName::Scalar(_) => amount.to_string(),
    })
}

/// Bytes with the largest binary suffix that leaves a whole number.
fn binary(bytes: i64) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let thousands = (bytes.trailing_zeros() / 10).min(6);
    if bytes == 0 {
        return "0".to_owned();
    }
    format!(
        "{}{}",
        bytes >> thousands.saturating_mul(10),
        SUFFIXES[thousands as usize]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_an_amount() {
        for (bytes, want) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1536, "1536"),
            (3 << 20, "3Mi"),
            (64 << 30, "64Gi"),
            (-(1 << 30), "-1Gi"),
        ] {
            assert_eq!(binary(bytes), want);
        }
        let mut resources = Resources::default();
        (resources.milli_cpu, resources.memory, resources.pods) = (1500, 1 << 30, 110);
        resources.set(&ResourceName::parse("a.b/gpu"), 2);
        resources.set(&ResourceName::parse("hugepages-2Mi"), 4 << 20);
        let texts: Vec<String> = list(&resources)
            .into_iter()
            .map(|(name, amount)| format!("{name}={}", amount.0))
            .collect();
        assert_eq!(
            texts,
            [
                "a.b/gpu=2",
                "cpu=1500m",
                "hugepages-2Mi=4Mi",
                "memory=1Gi",
                "pods=110"
            ]
        );
        assert!(list(&Resources::default()).is_empty());
    }
}
