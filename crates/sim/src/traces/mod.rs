//! The sixteen traces by which the first design of the protocol was broken, against the code as it is: each leads to
//! the point where the wrong step would be taken, and sees that it isn't.

mod ends;
mod grants;
mod lost;

use pilotage_proxy::Action;

use crate::{play::Play, request::Request};

/// A trace: its name, and how it is played.
pub type Trace = (&'static str, fn() -> Result<(), String>);

/// All of them.
pub const TRACES: &[Trace] = &[
    ("1: two leaders choose two targets", grants::two_leaders),
    ("1: a grant times out and lands later", grants::late_grant),
    (
        "2: a grant in flight, and the proxy is deleted",
        grants::grant_and_deletion,
    ),
    (
        "3: a chaperon is deleted while its delegate runs",
        ends::chaperon_deleted,
    ),
    (
        "3: the same, and the controller's store lags",
        ends::chaperon_deleted_unseen,
    ),
    (
        "4: the collector's graph lacks the pod",
        ends::blind_collector,
    ),
    (
        "4: a grant is given up by who doesn't see that it led to a binding",
        ends::unseen_binding,
    ),
    (
        "5: a store that is older than the record",
        grants::old_store,
    ),
    (
        "6: a binding on the wire while the attempt is void",
        grants::void_but_landed,
    ),
    (
        "7: a later attempt that was never granted",
        grants::void_twice,
    ),
    (
        "8: a chaperon of the same name, and another attempt",
        grants::same_name,
    ),
    (
        "8: a late grant meets a chaperon of the same name",
        grants::grant_of_another,
    ),
    (
        "9: an old view of the recorded chaperon",
        grants::never_lowered,
    ),
    (
        "10: a target goes dark after it was asked",
        lost::dark_after_ask,
    ),
    (
        "10: a target goes dark after it was recorded",
        lost::dark_after_record,
    ),
    (
        "11: a proxy's binding in flight",
        grants::late_proxy_binding,
    ),
    ("12: a delegate that was made again", ends::made_again),
    (
        "13: an answer that survives its pod",
        ends::answer_without_pod,
    ),
    ("14: an answer that nobody backs", ends::unbacked_answer),
    ("15: a replaced target comes back", lost::replaced),
    (
        "16: a parent that the store doesn't show",
        ends::unseen_parent,
    ),
    ("a target whose Pilotage is down", lost::deaf_target),
    (
        "a forgotten target that shows the same for ever",
        lost::unmoved_target,
    ),
    (
        "every lie about a delegate, by targets that don't run it",
        ends::every_lie,
    ),
];

fn is_record(request: &Request) -> bool {
    matches!(
        request,
        Request::Ask {
            action: Action::Record { .. },
            ..
        }
    )
}

fn is_grant(request: &Request) -> bool {
    matches!(
        request,
        Request::Ask {
            action: Action::Grant { .. },
            ..
        }
    )
}

fn is_proxy_binding(request: &Request) -> bool {
    matches!(
        request,
        Request::Ask {
            action: Action::BindProxy { .. },
            ..
        }
    )
}

/// Both reserved, and a leader about to record the target with this number.
fn about_to_record(play: &mut Play, target: usize) {
    play.hold(|_, request| is_record(request));
    play.settle_choosing(target);
}
