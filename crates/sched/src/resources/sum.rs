//! Owns sums over many pods or nodes: exact, so that taking away undoes adding, whatever the amounts are.
//! Knows nothing of pods and nodes.

use super::{Amounts, Resources};

/// What many pods ask for, or many nodes have, in all.
///
/// 128 bits hold more of the largest amounts than there can ever be pods, so no sum is cut: a pod that asked for
/// everything leaves nothing behind when it goes.
pub type ResourceSum = Amounts<i128>;

impl ResourceSum {
    /// Adds what a pod asks for, or a node has.
    pub fn add(&mut self, amounts: &Resources) {
        self.combine(amounts, |sum, amount| sum.wrapping_add(amount.into()));
    }

    /// Takes away what was added.
    pub fn subtract(&mut self, amounts: &Resources) {
        self.combine(amounts, |sum, amount| sum.wrapping_sub(amount.into()));
    }

    /// What is left when another sum is taken away.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = self.clone();
        left.combine(other, i128::wrapping_sub);
        left
    }

    /// The sum, as far as 64 bits hold it.
    pub fn capped(&self) -> Resources {
        let mut capped = Resources::default();
        capped.combine(self, |_, sum| cap(sum));
        capped
    }

    /// What is left of `whole` when all of this is taken; below zero if more is taken than there is.
    pub fn left_of(&self, whole: &Resources) -> Resources {
        let mut left = whole.clone();
        left.combine(
            self,
            |whole, sum| cap(i128::from(whole).saturating_sub(sum)),
        );
        left
    }
}

/// The number, or the nearest that 64 bits hold.
pub(crate) fn cap(number: i128) -> i64 {
    let limit = if number < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(number).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ResourceSum;
    use crate::resources::{ResourceName, Resources};

    fn resources(amounts: [i64; 5]) -> Resources {
        let [milli_cpu, memory, ephemeral_storage, pods, gpus] = amounts;
        let mut resources = Resources {
            milli_cpu,
            memory,
            ephemeral_storage,
            pods,
            ..Resources::default()
        };
        resources.set(&ResourceName::parse("a.b/gpu"), gpus);
        resources
    }

    /// Small and extreme ones.
    fn amount() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            -2_i64..3,
            Just(i64::MAX),
            Just(i64::MAX - 1),
            Just(i64::MIN),
        ]
    }

    #[test]
    fn what_64_bits_cannot_hold_is_capped_only_where_it_is_read() {
        let most = resources([i64::MAX; 5]);
        let mut sum = ResourceSum::default();
        sum.add(&most);
        sum.add(&most);
        assert_eq!(sum.milli_cpu, (1 << 64) - 2);
        assert_eq!(sum.capped(), most);
        assert_eq!(sum.left_of(&most), resources([i64::MIN + 1; 5]));
        assert_eq!(
            sum.left_of(&Resources::default()),
            resources([i64::MIN; 5]),
            "also of what isn't there at all"
        );
        sum.subtract(&most);
        assert_eq!(sum.left_of(&most), Resources::default());
        sum.subtract(&most);
        assert_eq!(sum, ResourceSum::default());
    }

    proptest! {
        #[test]
        fn taking_away_undoes_adding_in_any_order(
            stays in proptest::collection::vec(proptest::array::uniform5(amount()), 0..4),
            (comes, goes) in proptest::collection::vec(proptest::array::uniform5(amount()), 0..8)
                .prop_flat_map(|comes| (Just(comes.clone()), Just(comes).prop_shuffle())),
        ) {
            let mut sum = ResourceSum::default();
            for amounts in stays {
                sum.add(&resources(amounts));
            }
            let before = sum.clone();
            let mut more = ResourceSum::default();
            for amounts in comes {
                sum.add(&resources(amounts));
                more.add(&resources(amounts));
            }
            prop_assert_eq!(&sum.without(&more), &before);
            for amounts in goes {
                sum.subtract(&resources(amounts));
            }
            prop_assert_eq!(sum, before);
        }
    }
}
