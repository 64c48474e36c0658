//! What is wrong with an answer, and what that makes of its target.
//!
//! No text of the answer is in it: what a Target leads to may be anything, and its status is read by others.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use pilotage_runtime::call::CallError;
use thiserror::Error;

use crate::allow::Refusal;
use crate::budget::Excess;
use crate::connection::LostReason;

/// How many errors lie in each other at most: a chain that leads back to itself ends here.
const DEEPEST_CHAIN: usize = 16;

/// Why an answer doesn't pass the door.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    /// More bytes than anybody needs.
    #[error("{what} has more than {limit} bytes")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// The most that is read.
        limit: usize,
    },
    /// More memory than anybody needs.
    #[error("{what} would take more than {limit} bytes of memory")]
    TooHeavy {
        /// What.
        what: &'static str,
        /// The most that is given.
        limit: usize,
    },
    /// More at the same time than all Targets of its namespace may send.
    #[error(transparent)]
    NoRoom(#[from] Excess),
    /// It trickles.
    #[error("{what} isn't complete after {} s", .limit.as_secs())]
    TooSlow {
        /// What.
        what: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
    /// Brackets in brackets in brackets.
    #[error("{what} is nested more than {limit} levels deep")]
    TooDeep {
        /// What.
        what: &'static str,
        /// The most that is read.
        limit: usize,
    },
    /// It sends us elsewhere, with the credentials that were given to us for it.
    #[error("it answers {0}, a redirection, which is never followed")]
    Redirect(u16),
    /// No answer to a question of ours.
    #[error("it answers {0}, which is no answer of an API server")]
    Strange(u16),
    /// Not the content type of an API server.
    #[error("{0} isn't application/json, or is encoded in a way that wasn't asked for")]
    ContentType(&'static str),
    /// Not JSON.
    #[error("{0} is no JSON")]
    NoJson(&'static str),
    /// JSON of another kind.
    #[error("{0} is of another kind than what was asked for")]
    WrongKind(&'static str),
    /// The name led to an address that Targets may not lead to.
    #[error(transparent)]
    Elsewhere(#[from] Refusal),
}

impl Fault {
    /// The fault behind a failed call, if there is one.
    pub(crate) fn of(error: &kube::Error) -> Option<&Self> {
        chain(error).find_map(|error| error.downcast_ref())
    }

    /// Whether fewer objects at once would have passed.
    pub(crate) fn is_of_size(&self) -> bool {
        matches!(
            self,
            Self::TooLong { .. } | Self::TooHeavy { .. } | Self::TooSlow { .. }
        )
    }

    fn reason(&self) -> LostReason {
        match self {
            Self::TooLong { .. } | Self::TooHeavy { .. } | Self::NoRoom(_) => {
                LostReason::TooMuch(self.to_string())
            }
            Self::Elsewhere(refusal) => LostReason::Refused {
                secret: None,
                refusal: refusal.clone(),
            },
            _ => LostReason::Misbehaving(self.to_string()),
        }
    }
}

/// What a failed call says of the server behind it, if that is more than that it is silent, busy, or refuses: no API
/// server answers like this.
pub(crate) fn offence(error: &kube::Error) -> Option<LostReason> {
    if let Some(fault) = Fault::of(error) {
        return Some(fault.reason());
    }
    let unreadable = match error {
        kube::Error::SerdeError(_)
        | kube::Error::FromUtf8(_)
        | kube::Error::LinesCodecMaxLineLengthExceeded => true,
        kube::Error::ReadEvents(error) if error.kind() == io::ErrorKind::InvalidData => true,
        // Heads without end, and other protocols than HTTP/1, the only one that we speak.
        _ => chain(error).any(|error| {
            error
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_parse)
        }),
    };
    unreadable.then(|| LostReason::Misbehaving("its answers can't be read".to_owned()))
}

/// [`offence`] of a call with a time limit.
pub(crate) fn offence_of_call(error: &CallError) -> Option<LostReason> {
    match error {
        CallError::Api(error) => offence(error),
        CallError::TimedOut(_) | CallError::Endless(_) => None,
    }
}

/// An error and those behind it.
fn chain(error: &kube::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let first: &(dyn StdError + 'static) = error;
    std::iter::successors(Some(first), |&error| {
        // The source of such an error is what lies behind the one that it holds.
        let held = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        held.map(|held| -> &(dyn StdError + 'static) { held })
            .or_else(|| error.source())
    })
    .take(DEEPEST_CHAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_found_however_deep_it_lies() {
        let fault = || Fault::Redirect(302);
        let service = || kube::Error::Service(Box::new(fault()));
        for error in [
            service(),
            kube::Error::Service(Box::new(io::Error::other(fault()))),
            kube::Error::ReadEvents(io::Error::other(service())),
            kube::Error::ReadEvents(io::Error::new(io::ErrorKind::UnexpectedEof, service())),
        ] {
            assert_eq!(Fault::of(&error), Some(&fault()), "{error:?}");
        }
    }

    #[test]
    fn only_what_no_api_server_does_is_an_offence() {
        let long = Fault::TooLong {
            what: "a page",
            limit: 1,
        };
        let json = || serde_json::from_str::<u8>("x").unwrap_err();
        let utf8 = io::Error::from(io::ErrorKind::InvalidData);
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let status = kube::core::Status::failure("no", "Forbidden").with_code(403);
        for (error, want) in [
            (kube::Error::Service(Box::new(long)), Some("TooMuch")),
            (
                kube::Error::Service(Box::new(Fault::NoJson("a page"))),
                Some("Misbehaving"),
            ),
            (
                kube::Error::Service(Box::new(Fault::Elsewhere(Refusal::Plain))),
                Some("InsecureServer"),
            ),
            (
                kube::Error::Service(Box::new(Fault::NoRoom(Excess::Objects))),
                Some("TooMuch"),
            ),
            (kube::Error::SerdeError(json()), Some("Misbehaving")),
            (kube::Error::ReadEvents(utf8), Some("Misbehaving")),
            (kube::Error::Service(Box::new(refused)), None),
            (kube::Error::Api(status.boxed()), None),
        ] {
            let word = offence(&error).map(|reason| reason.word());
            assert_eq!(word, want, "{error:?}");
        }
    }
}
