//! One step of a schedule, and its written form: a word and up to three numbers.

use std::{fmt, str::FromStr};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What happens in a step. A step that isn't possible when its turn comes is passed over.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Word { $($(#[$doc])* $name),* }

        const WORDS: &[Word] = &[$(Word::$name),*];
    };
}

words! {
    // ---- fair
    /// (process, watch, how many) The watch brings what is next.
    Deliver,
    /// (process, watch, how old) The watch reads its first list.
    List,
    /// (process) A chaperon controller takes in what a watch told.
    Take,
    /// (request) Its next call is answered by the API server; the answer is on its way.
    Land,
    /// (request) The answer arrives.
    Reply,
    /// (request) All its calls, and the answer arrives.
    Pass,
    /// (process, which) A scheduling cycle of the proxy scheduler chooses.
    Cycle,
    /// (process, name) The driver of a candidate scheduler does what is next.
    Drive,
    /// (process, target, how old) A process of the source notices whether the target can be reached.
    Notice,
    /// (process, target) It reads what the Target says.
    Terms,
    /// (process) It starts.
    Start,
    /// (target, pod) The garbage collector looks at a pod's owner, or at a chaperon's dependents.
    Collect,
    /// (target, pod) The kubelet does what is next.
    Kubelet,
    /// (target, pod) The pod's own scheduler, which isn't ours, binds it.
    Native,
    /// (target, chaperon, what) A plain target's own controllers do what is next.
    Plain,
    /// (target) A pod that was evicted is gone.
    Gone,
    /// (name) A user, or a StatefulSet, makes a proxy pod.
    Create,
    /// (request) A request of unknown outcome lands.
    Late,
    /// (request) It never will.
    Never,
    /// (milliseconds) Time passes; timers that are due fire.
    Advance,
    // ---- faults
    /// (request) It doesn't land; its sender hears nothing.
    Lose,
    /// (request) It landed; its sender hears nothing.
    Mute,
    /// (request) Its sender hears nothing; it may land later.
    Delay,
    /// (process) It ends; its memory is lost, its requests may land.
    Crash,
    /// (process) Another one of its kind starts although it lives.
    Second,
    /// (process, watch, how old) The watch has to read a list: ends in between aren't told.
    Relist,
    /// (process, watch) The watch brings nothing for a while.
    Freeze,
    /// (process, watch) It goes on.
    Thaw,
    /// (process) It can't reach its own API server, or can again.
    Cut,
    /// (process) It stands still, or goes on.
    Stop,
    /// (target) The source can't reach it, or can again.
    Part,
    /// (target) Its node takes no pod, or does again.
    Room,
    /// (target, kind) A pod that may be evicted takes the room on its node, or joins those that have.
    Occupy,
    /// (target) Its API server refuses pods, or takes them again.
    Quota,
    /// (target) It refuses chaperons, or takes them again.
    Rights,
    /// (target) Something before it answers 404, or is gone again.
    Front,
    /// (process, name) The scheduler loses a pod that it holds.
    Unseat,
    /// (target, chaperon) The garbage collector's graph lacks the pod: it ends a foreground deletion too early.
    Blind,
    // ---- users
    /// (name) A user deletes a proxy pod.
    Delete,
    /// (target, pod) A user, or an eviction, deletes a delegate or a candidate.
    Evict,
    /// (target, chaperon, how) A user deletes a chaperon; in the foreground if `how` is 1.
    Unask,
    /// (target, chaperon) A user takes the label off that shows it to its source, or puts it back.
    Label,
    /// (target) Its operator says that it is to be forgotten.
    Forget,
    /// (target) Its Target is being deleted.
    Leave,
    /// (target) Its Target is gone.
    Remove,
    // ---- liars
    /// (process, chaperon, how) A target tells a process of the source of a chaperon that isn't its own.
    Lie,
}

/// A step with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// What.
    pub word: Word,
    /// First number.
    pub a: u16,
    /// Second number.
    pub b: u16,
    /// Third number.
    pub c: u16,
}

impl Step {
    /// A step.
    pub fn new(word: Word, a: usize, b: usize, c: usize) -> Self {
        let small = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        Self {
            word,
            a: small(a),
            b: small(b),
            c: small(c),
        }
    }

    /// Whether it is a fault or a user's whim.
    pub fn is_fault(self) -> bool {
        self.word as u8 > Word::Advance as u8
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {} {}", self.word, self.a, self.b, self.c)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split_whitespace();
        let name = parts.next().unwrap_or_default();
        let word = WORDS
            .iter()
            .find(|word| format!("{word:?}") == name)
            .ok_or_else(|| format!("{text:?} is no step"))?;
        let mut number = || match parts.next() {
            None => Ok(0),
            Some(digits) => digits
                .parse()
                .map_err(|_| format!("{digits:?} in {text:?} is no number")),
        };
        Ok(Self {
            word: *word,
            a: number()?,
            b: number()?,
            c: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_survives_its_written_form() {
        for word in WORDS {
            let step = Step::new(*word, 1, 0, 65535);
            assert_eq!(step.to_string().parse(), Ok(step));
        }
        assert_eq!("Crash 2".parse(), Ok(Step::new(Word::Crash, 2, 0, 0)));
        assert!("Krash 2".parse::<Step>().is_err());
        assert!("Crash x".parse::<Step>().is_err());
        assert!(
            Step::new(Word::Lose, 0, 0, 0).is_fault()
                && !Step::new(Word::Advance, 0, 0, 0).is_fault()
        );
    }
}
