//! Owns one answer about a node, in 32 bits: a class has one for each node of the cluster.

use crate::refusals::RejectionId;

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer(u32);

impl Answer {
    /// There is none.
    pub(super) const VACANT: Self = Self(0);
    /// It will do.
    pub(super) const FEASIBLE: Self = Self(1);
    /// The numbers of rejections begin here.
    const FIRST: u32 = 2;
    /// Beside the number of a rejection that holds whatever pods come and go.
    const LASTING: u32 = 1 << 31;

    /// It won't do; `lasting` if that has nothing to do with the pods on it.
    pub(super) const fn refused(why: RejectionId, lasting: bool) -> Self {
        // A class begins anew before it has that many rejections.
        let number = (why.index() as u32).saturating_add(Self::FIRST);
        let number = number & !Self::LASTING;
        Self(if lasting {
            number | Self::LASTING
        } else {
            number
        })
    }

    /// Why it won't do; `None` if it will, or isn't there.
    pub(super) const fn rejection(self) -> Option<RejectionId> {
        match (self.0 & !Self::LASTING).checked_sub(Self::FIRST) {
            Some(index) => Some(RejectionId::new(index)),
            None => None,
        }
    }

    /// Whether it holds whatever pods come and go.
    pub(super) const fn is_lasting(self) -> bool {
        self.0 & Self::LASTING != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;
    use crate::refusals::RejectionId;

    #[test]
    fn an_answer_says_what_it_was_made_of() {
        for index in [0, 1, 4_095, 1 << 20] {
            let why = RejectionId::new(index);
            for lasting in [false, true] {
                let answer = Answer::refused(why, lasting);
                assert_eq!(answer.rejection(), Some(why));
                assert_eq!(answer.is_lasting(), lasting);
                assert!(answer != Answer::FEASIBLE && answer != Answer::VACANT);
            }
        }
        for answer in [Answer::FEASIBLE, Answer::VACANT] {
            assert_eq!((answer.rejection(), answer.is_lasting()), (None, false));
        }
    }
}
