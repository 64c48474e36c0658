//! What both schedulers are asked to do, in one form: the oracle over its protocol, ours by calls.

use serde_json::Value;
use thiserror::Error;

use crate::configuration::Configuration;
use crate::verdict::Verdict;

/// A side can't go on, or doesn't take what it was given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SideError {
    /// It refused a request, and goes on.
    #[error("{request} was refused: {text}")]
    Refused {
        /// What was asked.
        request: &'static str,
        /// What it said.
        text: String,
    },
    /// It can't be talked to any more.
    #[error("the oracle is lost: {0}")]
    Lost(String),
}

impl SideError {
    /// A refusal.
    pub fn refused(request: &'static str, text: &impl ToString) -> Self {
        Self::Refused {
            request,
            text: text.to_string(),
        }
    }
}

/// One of the two schedulers.
pub trait Side {
    /// Begins with a new world in place of the one before.
    fn open(&mut self, configuration: &Configuration, objects: &[Value]) -> Result<(), SideError>;

    /// Creates an object, or replaces the one of its kind and name.
    fn apply(&mut self, object: &Value) -> Result<(), SideError>;

    /// Deletes an object.
    fn delete(&mut self, object: &Value) -> Result<(), SideError>;

    /// What it says of a pod now. Nothing is changed by it.
    fn evaluate(&mut self, pod: &Value) -> Result<Verdict, SideError>;

    /// The pod counts as placed on the node from now on.
    fn assume(&mut self, pod: &Value, node: &str) -> Result<(), SideError>;

    /// The pod counts as nominated for the node.
    fn nominate(&mut self, pod: &Value, node: &str) -> Result<(), SideError>;
}
