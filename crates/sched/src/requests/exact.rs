//! Owns exact amounts by name, as they are added up before they are rounded. Knows nothing of pods.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::Defect;
use crate::quantity::Quantity;
use crate::resources::Resources;

/// A resource list of the API.
pub(super) type List = BTreeMap<String, ApiQuantity>;

/// Amounts by name. A name with amount zero is there, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exact<'a>(BTreeMap<&'a str, Quantity>);

/// Reads a list. Malformed amounts count as zero and are told with the list's path; less than nothing is nothing.
pub(super) fn read<'a>(
    list: Option<&'a List>,
    path: impl Fn() -> String,
    defect: &mut Defect<'_>,
) -> Exact<'a> {
    let amounts = list.into_iter().flatten().map(|(name, amount)| {
        let amount = Quantity::parse(&amount.0).unwrap_or_else(|error| {
            defect(format!("{}[{name}]", path()), error);
            Quantity::default()
        });
        (&**name, amount.max(Quantity::default()))
    });
    Exact(amounts.collect())
}

impl<'a> Exact<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn keep(&mut self, test: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| test(name));
    }

    pub(super) fn add_one(&mut self, name: &'a str, amount: Quantity) {
        let sum = self.0.entry(name).or_default();
        *sum = sum.plus(amount);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.add_one(name, *amount);
        }
    }

    /// Raises each amount to at least the other's.
    pub(super) fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let known = self.0.entry(name).or_default();
            *known = (*known).max(*amount);
        }
    }

    /// Puts `amounts` in place of those that `names` has. What isn't there is zero.
    pub(super) fn replace(&mut self, names: &Self, amounts: &Self) {
        for name in names.0.keys() {
            let amount = amounts.0.get(name).copied().unwrap_or_default();
            self.0.insert(name, amount);
        }
    }

    /// As whole numbers.
    pub(super) fn rounded(&self) -> Resources {
        Resources::rounded(self.0.iter().map(|(name, amount)| (*name, *amount)))
    }
}
