//! Schedules that once broke a rule, as the simulator printed them. They stay as they are: a step that isn't possible
//! any more is passed over.

/// Name and text of a schedule.
pub type Regression = (&'static str, &'static str);

macro_rules! regression {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../regressions/", $name, ".txt")),
        )
    };
}

/// All of them.
pub const REGRESSIONS: &[Regression] = &[
    // The only target that fits was recorded, moved on, and was given up: the choice of its next chaperon failed for
    // ever.
    regression!("a-target-is-chosen-again-after-its-chaperon-went"),
    // Every target refused the question once: nobody asked again.
    regression!("a-pod-without-reservation-is-asked-for-again"),
    // The feedback controller deleted a chaperon that it had seen before the grant, and took its end for the end of the
    // pod.
    regression!("a-plain-target-is-left-on-no-older-view"),
    // A plain target was left and asked again, and the scheduler restarted: it waited for the end of the new pod.
    regression!("the-pod-of-a-successor-is-no-delegate-that-is-left"),
    // The reply to a deletion came after the news of the end: the book kept a chaperon that nobody would ever take out.
    regression!("a-late-reply-brings-no-chaperon-back"),
    // The POST of a pod without reservation landed after its chaperon had gone, and the target's scheduler bound the
    // pod.
    regression!("a-late-pod-without-reservation-is-bound-by-nobody"),
    // The delegate was evicted and made again behind a partition, and found no node there: the proxy waited for ever.
    regression!("a-placed-pod-whose-new-delegate-finds-no-node-goes"),
    // A user took a label off a chaperon before its pod was made: the refusal stayed when the label was back.
    regression!("a-refusal-that-is-over-is-taken-back"),
    // Both targets of a pod without reservation were given up: the cycle chose the one that had the record again and
    // again.
    regression!("a-grant-that-was-given-up-is-no-choice"),
    // Another leader took over for the next pod: the first one offered room for the pod before it again, at once, over
    // the answer.
    regression!("an-offer-is-not-made-again-on-an-older-view"),
    // Others had been evicted for a pod, and the room was taken; a write of unknown outcome hid that the grant had had
    // its chance.
    regression!("room-is-made-once-for-a-grant"),
];
